//! Playgate beside what a user would take instead: durable sign-ups and starts of playback in SQLite, Postgres and Redis
//! through their usual clients, with the same bytes and the same promise; what is on now beside nginx with a file and
//! Redis.
//!
//! ```console
//! $ cd benches/alternatives
//! $ PLAYGATE_BENCH_BINARY=../../target/release/playgate cargo run --release
//! ```
//!
//! It takes six minutes. Servers are those of Debian's packages `postgresql`, `redis-server` and `nginx`; the rows of a
//! missing one are left out, and without `PLAYGATE_BENCH_BINARY` those of whole requests. The bench starts them with new
//! data below `/var/tmp`, or the folder that `BENCH_FOLDER` names, and ends them. As root it runs Postgres as
//! the user `postgres`. The method is that of `docs/performance.md`: contestants take turns, servers have core 0, their
//! clients core 1. A contestant without a server has core 0 for itself and its clients; what the clients cost is measured
//! and subtracted.
//!
//! Nobody hashes a password. A sign-up inserts profile, credentials and log-in, with
//! unique addresses, 390 bytes. A start reads user and right, counts the sessions of the user and inserts one, 180 bytes;
//! parallel starts cannot exceed the limit. All settings that are not named are the defaults of the contestant.

mod http;
mod inside;
mod postgres;
mod process;
mod redis_server;
mod rounds;
#[path = "../../yardstick/scene.rs"]
mod scene;
mod servers;
mod sqlite;
mod store;
mod workload;
#[path = "../../yardstick/mod.rs"]
mod yardstick;

use std::fs;
use std::path::Path;
use std::time::Duration;

use http::CONNECTIONS;
use inside::Inside;
use rounds::{Contestant, Figures, compete, middle, ratio, ratio_of_time, rounded};
use tokio::runtime::Runtime;
use workload::Write;

/// As the product: glibc's takes more processor time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, argument, kind, folder] = &arguments[..]
        && argument == inside::ARGUMENT
    {
        inside::serve(kind, Path::new(folder));
        return;
    }
    yardstick::pin_or_serve_bare();
    // The default directory for temporary files may be in memory.
    let parent = std::env::var_os("BENCH_FOLDER").unwrap_or_else(|| "/var/tmp".into());
    let folder = tempfile::tempdir_in(parent).expect("a folder");
    // Postgres has another user.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&folder, readable).expect("an own folder");
    print_versions();
    write_tables(folder.path());
    if std::env::var_os("PLAYGATE_BENCH_BINARY").is_some() {
        request_tables(folder.path());
    } else {
        println!("\nPLAYGATE_BENCH_BINARY is not set: the rows of whole requests are left out");
    }
    println!("\nload average at the end: {}", load_average());
}

/// Returns a runtime on the thread that blocks on it.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn print_versions() {
    println!("SQLite {}", rusqlite::version());
    for program in ["postgres", "redis-server", "nginx"] {
        match process::find(program) {
            Some(found) if program == "nginx" => println!("{found}"),
            Some(found) => println!("{}", process::version(&found)),
            None => println!("{program} is not installed: its rows are left out"),
        }
    }
    println!("load average: {}", load_average());
}

/// A contestant of the tables of writes.
struct Row {
    contestant: Box<dyn Contestant>,
    /// What a power cut may take of what was answered.
    loses: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What the clients of a contestant without a server cost.
    Clients,
    /// The yardstick of the disk.
    File,
    /// The yardsticks of processor time for what follows.
    Playgate,
    Sqlite,
    Server,
}

impl Kind {
    const fn has_clients_inside(self) -> bool {
        matches!(self, Self::File | Self::Playgate | Self::Sqlite)
    }
}

fn rows(folder: &Path) -> Vec<Row> {
    let inside = |name, loses, of: &str, kind| Row {
        contestant: Box::new(Inside::start(name, of, folder)),
        loses,
        kind,
    };
    let server = |contestant: Option<Box<dyn Contestant>>, loses| {
        contestant.map(|contestant| Row {
            contestant,
            loses,
            kind: Kind::Server,
        })
    };
    let postgres = |name, commit, loses| {
        let started = postgres::start(name, commit, folder, CONNECTIONS);
        server(started.map(|one| Box::new(one) as _), loses)
    };
    let redis = |name, sync, loses| {
        let started = redis_server::start(name, sync, folder, CONNECTIONS);
        server(started.map(|one| Box::new(one) as _), loses)
    };
    let (playgate, sqlite) = (Kind::Playgate, Kind::Sqlite);
    let mut rows = vec![
        inside("clients alone", "", "clients", Kind::Clients),
        inside(
            "append to a file and fdatasync, one writer",
            "nothing",
            "file",
            Kind::File,
        ),
        inside(
            "Playgate's store, `Durable`",
            "nothing",
            "playgate-durable",
            playgate,
        ),
        inside("SQLite, `FULL`", "nothing", "sqlite-full", sqlite),
        inside(
            "SQLite, `FULL`, waiting writes in one transaction",
            "nothing",
            "sqlite-full-shared",
            sqlite,
        ),
    ];
    rows.extend(postgres(
        "Postgres, `synchronous_commit=on`",
        "on",
        "nothing",
    ));
    rows.extend(redis("Redis, `appendfsync always`", "always", "nothing"));
    rows.push(inside(
        "Playgate's store, `Logged`",
        "0.5 s",
        "playgate-logged",
        playgate,
    ));
    rows.push(inside(
        "SQLite, `NORMAL`",
        "since the last checkpoint",
        "sqlite-normal",
        sqlite,
    ));
    rows.extend(postgres(
        "Postgres, `synchronous_commit=off`",
        "off",
        "0.6 s, a kill as well",
    ));
    rows.extend(redis(
        "Redis, `appendfsync everysec`",
        "everysec",
        "1 to 2 s",
    ));
    rows
}

fn write_tables(folder: &Path) {
    let mut rows = rows(folder);
    for write in Write::ALL {
        let mut measured = [1, CONNECTIONS].map(|clients| {
            let contestants = rows.iter_mut().map(|row| {
                row.contestant.select(write);
                &mut *row.contestant
            });
            compete(&mut contestants.collect::<Vec<_>>(), clients)
        });
        for figures in &mut measured {
            subtract_clients(&rows, figures);
        }
        print_writes(write, &rows, &measured);
    }
    let playgate = rows.iter().filter(|row| row.kind == Kind::Playgate);
    playgate.for_each(|row| print_threads(&*row.contestant));
}

/// Where the processor time of all writes went.
fn print_threads(contestant: &dyn Contestant) {
    let spent = contestant.cpu_by_thread();
    let all: Duration = spent.values().sum();
    let shares = spent.iter().map(|(name, spent)| {
        let share = spent.as_secs_f64() / all.as_secs_f64();
        format!("{name} {:.0} %", share * 100.0)
    });
    let shares: Vec<_> = shares.collect();
    println!("\n{} by thread: {}", contestant.name(), shares.join(", "));
}

fn position(rows: &[Row], kind: Kind) -> usize {
    let found = rows.iter().position(|row| row.kind == kind);
    found.expect("every bench has this row")
}

fn subtract_clients(rows: &[Row], figures: &mut [Figures]) {
    let clients = figures[position(rows, Kind::Clients)].micros_of_all;
    for (row, figures) in rows.iter().zip(figures) {
        if row.kind.has_clients_inside() {
            figures.micros_of_all -= clients;
            figures
                .micros
                .iter_mut()
                .for_each(|micros| *micros -= clients);
        }
    }
}

fn print_writes(write: Write, rows: &[Row], [one, many]: &[Vec<Figures>; 2]) {
    println!("\n{}, load average {}\n", write.name(), load_average());
    let clients = one[position(rows, Kind::Clients)].micros_of_all;
    println!("clients: {} us each, subtracted\n", rounded(clients));
    println!(
        "| contestant | a power cut may take | 1 client: a second | in the time of an fdatasync | CPU us each | \
         {CONNECTIONS} clients: a second | in the time of an fdatasync | CPU us each | of Playgate's [min..max] |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let file = position(rows, Kind::File);
    let mut playgate = file;
    for (at, row) in rows.iter().enumerate().skip(file) {
        if row.kind == Kind::Playgate {
            playgate = at;
        }
        let speed = |of: &[Figures]| {
            let figures = &of[at];
            format!(
                "{} | {} | {}",
                rounded(middle(&figures.per_second)),
                ratio(&figures.per_second, &of[file].per_second),
                rounded(figures.micros_of_all)
            )
        };
        println!(
            "| {} | {} | {} | {} | {} |",
            one[at].name,
            row.loses,
            speed(one),
            speed(many),
            ratio_of_time(&many[at], &many[playgate])
        );
    }
}

fn request_tables(folder: &Path) {
    let (reads, length) = http::reads(folder);
    print_requests(&format!("what is on now, {length} bytes"), &reads);
    print_requests("whole requests that write", &http::writes(folder));
}

fn print_requests(title: &str, figures: &[Figures]) {
    println!(
        "\n{title}, {CONNECTIONS} connections, load average {}\n",
        load_average()
    );
    println!("| contestant | CPU us/request | req/s | ratio [min..max] |");
    println!("|---|---|---|---|");
    for one in figures {
        println!(
            "| {} | {} | {} | {} |",
            one.name,
            rounded(one.micros_of_all),
            rounded(middle(&one.per_second)),
            ratio_of_time(one, &figures[0])
        );
    }
}
