//! A store with many users: import, start after SIGTERM, after SIGKILL and with a damaged engine, resident memory,
//! stop, verify, backup, compact, and the durable commits of another client during each of them.
//!
//! `cargo bench --bench scale`, or `cargo bench --bench scale -- 10000 1000000` for other sizes;
//! `PLAYGATE_BENCH_BINARY` names another build to measure

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::disallowed_methods)]

#[path = "../tests/it/support/stop_on_drop.rs"]
mod stop_on_drop;
mod yardstick;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stop_on_drop::StopOnDrop;
use yardstick::client::{member, request, send_to};
use yardstick::installation::{HASH, InstalledServer, run_command};
use yardstick::{median, sorted};

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];
/// The pause between two commits of the measured client.
const BETWEEN: Duration = Duration::from_millis(10);
const QUIET: Duration = Duration::from_secs(5);

fn write_users(path: &Path, users: usize) {
    let mut out = BufWriter::new(File::create(path).expect("it can be written"));
    for nth in 0..users {
        // Not in alphabetical order, like the users of a real file.
        let mixed = (nth as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        writeln!(
            out,
            "{{\"email\":\"user-{mixed:x}-{nth}@example.com\",\"name\":\"User {nth}\",\
             \"passwordHash\":\"{HASH}\"}}"
        )
        .expect("there is space");
    }
    out.flush().expect("there is space");
}

/// A user who changes the own name again and again, each time with a durable commit.
struct Committer {
    partner: String,
    user: String,
    token: String,
}

impl Committer {
    fn new(server: &InstalledServer, partner: String) -> Self {
        let body = r#"{"identity":"committer@example.com","accessKey":"troll under the bridge"}"#;
        let headers = [("Service-AccessToken", partner.as_str())];
        let sign_up = request("PUT", "/api/login/v2/auth/email", &headers, body);
        let answer = send_to(&server.address, &sign_up).text();
        let read = |name: &str| member(&answer, name).unwrap_or_else(|| panic!("{answer}"));
        Self {
            user: read("userId"),
            token: format!("Bearer {}", read("token")),
            partner,
        }
    }

    /// Commits until `over`. Returns the milliseconds of each commit, sorted.
    fn run(&self, address: &str, stop: &AtomicBool) -> Vec<f64> {
        let path = format!("/api/user/v1/users/{}", self.user);
        let headers = [
            ("Service-AccessToken", self.partner.as_str()),
            ("Authorization", self.token.as_str()),
        ];
        let mut times = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let body = format!("{{\"name\":\"Name {}\"}}", times.len());
            let change = request("PUT", &path, &headers, &body);
            let began = Instant::now();
            let answer = send_to(address, &change);
            times.push(began.elapsed().as_secs_f64() * 1e3);
            assert_eq!(answer.status, 200, "{}", answer.text());
            thread::sleep(BETWEEN);
        }
        sorted(times.into_iter())
    }

    /// Runs `work` and measures commits during it.
    fn measure_during(&self, address: &str, what: &str, work: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        let (times, took) = thread::scope(|scope| {
            let commits = scope.spawn(|| self.run(address, &stop));
            let stop = StopOnDrop(&stop);
            let began = Instant::now();
            work();
            let took = began.elapsed().as_secs_f64();
            drop(stop);
            (commits.join().expect("it ran"), took)
        });
        let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)];
        let worst = times[times.len() - 1];
        println!(
            "| {what} | {took:.1} | {:.1} / {p99:.1} / {worst:.1} |",
            median(&times)
        );
    }
}

/// Overwrites parts of the engine's file.
fn damage_engine(data: &Path) {
    use std::os::unix::fs::FileExt as _;
    let engines = fs::read_dir(data.join("store")).expect("a store");
    let engines = engines.map(|entry| entry.expect("an entry").path().join("db"));
    let engine: PathBuf = engines
        .filter(|path| path.is_file())
        .last()
        .expect("an engine");
    let file = File::options()
        .write(true)
        .open(&engine)
        .expect("it can be written");
    let length = file.metadata().expect("it is there").len();
    let garbage = vec![0x5a; 64 * 1024];
    for part in 0..8 {
        file.write_all_at(&garbage, length * part / 8)
            .expect("there is space");
    }
}

fn measure(folder: &Path, users: usize) {
    let data = folder.join(format!("data-{users}"));
    let file = folder.join("users.ndjson");
    write_users(&file, users);
    let path = file.to_str().expect("text");
    println!("\n{users} users\n");
    println!("| | s | a commit beside it, ms: p50 / p99 / longest |");
    println!("|---|---|---|");
    let server = InstalledServer::start(&data);
    let partner = run_command(&data, &["partner", "add", "scale", "--json"]);
    let partner = member(&partner, "accessToken").expect("a token");
    let committer = Committer::new(&server, partner);
    let address = server.address.clone();
    committer.measure_during(&address, "quiet", || thread::sleep(QUIET));
    committer.measure_during(&address, "user import", || {
        run_command(&data, &["user", "import", path]);
    });
    committer.measure_during(&address, "the same file again", || {
        run_command(&data, &["user", "import", path]);
    });
    let after_import = server.resident();
    let row = |what: &str, seconds: f64| println!("| {what} | {seconds:.1} | |");
    row("stop", server.end("-TERM"));
    let server = InstalledServer::start(&data);
    row("ready after SIGTERM", server.took);
    let after_start = server.resident();
    server.end("-KILL");
    let server = InstalledServer::start(&data);
    row("ready after SIGKILL", server.took);
    server.end("-KILL");
    damage_engine(&data);
    let server = InstalledServer::start(&data);
    row("ready with a damaged engine", server.took);
    let after_rebuild = server.resident();
    let address = server.address.clone();
    committer.measure_during(&address, "store verify", || {
        run_command(&data, &["store", "verify"]);
    });
    let after_verify = server.resident();
    committer.measure_during(&address, "backup create", || {
        run_command(&data, &["backup", "create"]);
    });
    committer.measure_during(&address, "store compact", || {
        run_command(&data, &["store", "compact"]);
    });
    println!(
        "\nresident, MB: {after_import:.0} after the import, {after_start:.0} after a start, \
         {after_rebuild:.0} with an engine made anew, {after_verify:.0} after verify, {:.0} at the end",
        server.resident()
    );
    server.end("-TERM");
    let _ = fs::remove_dir_all(&data);
}

fn main() {
    // The default directory for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let named = yardstick::numbers();
    let sizes = if named.is_empty() { &SIZES[..] } else { &named };
    for &users in sizes {
        measure(folder.path(), users);
    }
}
