//! The row "start" of `docs/performance.md`: the time from the launch of the process to its readiness line, with an
//! empty store, and with 228,000 programmes and 100,000 users; after a stop and after SIGKILL during writes.
//!
//! `cargo bench --bench start`; `PLAYGATE_BENCH_BINARY` names another build to measure

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::disallowed_methods)]

#[path = "../tests/it/support/synthetic_guide.rs"]
mod synthetic_guide;
mod yardstick;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use synthetic_guide::SyntheticGuide;
use yardstick::installation::{HASH, InstalledServer, run_command};
use yardstick::{median, sorted};

const ROUNDS: usize = 9;
/// The goal of every row, in seconds.
const GOAL: f64 = 0.6;
const USERS: usize = 100_000;

fn fill(data: &Path, folder: &Path) {
    let users = folder.join("users.ndjson");
    let mut out = BufWriter::new(File::create(&users).expect("it can be written"));
    for nth in 0..USERS {
        let line =
            format!("{{\"email\":\"user-{nth}@example.com\",\"passwordHash\":\"{HASH}\"}}\n");
        out.write_all(line.as_bytes()).expect("there is space");
    }
    out.into_inner().expect("there is space");
    let guide = folder.join("guide.xml");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    SyntheticGuide {
        channels: 500,
        programmes: 456,
        shift: 0,
        word: "Programme",
        first: i64::try_from(now.expect("after 1970").as_secs()).expect("before 2262"),
    }
    .write(&guide);
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    run_command(data, &["partner", "add", "start"]);
    run_command(data, &["user", "import", &path(&users)]);
    let guide = path(&guide);
    run_command(data, &["epg", "import", &guide, "--create-livestreams"]);
}

/// Makes changes that the next start has to replay into the engine, then kills the process.
fn write_and_kill(data: &Path, server: InstalledServer) {
    let began = Instant::now();
    let mut nth = 0;
    while began.elapsed() < Duration::from_secs(2) {
        run_command(
            data,
            &["partner", "add", &format!("late-{}-{nth}", server.pid())],
        );
        nth += 1;
    }
    server.end("-KILL");
}

fn row(name: &str, seconds: &[f64]) {
    let seconds = sorted(seconds.iter().copied());
    println!(
        "| {name} | {:.2} [{:.2}..{:.2}] | {GOAL} |",
        median(&seconds),
        seconds[0],
        seconds[seconds.len() - 1]
    );
}

fn main() {
    // The default directory for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [empty, full] = ["empty", "full"].map(|name| folder.path().join(name));
    let began = Instant::now();
    fill(&full, folder.path());
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());
    let rows = [
        ("the first start, nothing there", &empty, true),
        ("empty, after a stop", &empty, true),
        (
            "228,000 programmes and 100,000 users, after a stop",
            &full,
            true,
        ),
        ("the same after SIGKILL under writes", &full, false),
    ];
    println!("| start | s, median [min..max] | goal |");
    println!("|---|---|---|");
    for (nth, (name, data, gently)) in rows.into_iter().enumerate() {
        let mut seconds = Vec::new();
        // Round 0 is not counted: it only leaves the store as the row describes.
        for round in 0..=ROUNDS {
            if nth == 0 {
                let _ = std::fs::remove_dir_all(data);
            }
            let server = InstalledServer::start(data);
            if round > 0 {
                seconds.push(server.took);
            }
            if gently {
                server.end("-TERM");
            } else {
                write_and_kill(data, server);
            }
        }
        row(name, &seconds);
    }
}
