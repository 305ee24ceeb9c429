//! The row "start" of `docs/performance.md`: the time from the launch of the process to its readiness line, with an
//! empty store, and with 228,000 programmes and 100,000 users; after a stop and after SIGKILL during writes.
//!
//! `cargo bench --bench start`

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
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use synthetic_guide::SyntheticGuide;
use yardstick::{median, sorted};

const ROUNDS: usize = 9;
const USERS: usize = 100_000;
/// No user logs in with it, but the start reads it.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
    RdescudvJCsgt3ub+b1dWRWJTmaaJObGAAAAAAAAAAA";

fn playgate(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playgate"));
    command
        .arg("--data-dir")
        .arg(data)
        .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
        .env("PLAYGATE_LOG_LEVEL", "error")
        .env("PLAYGATE_BACKUP_AT", "off");
    command
}

/// Starts the server. Returns the process and the seconds until it was ready.
fn start(data: &Path) -> (Child, f64) {
    let began = Instant::now();
    let mut child = playgate(data)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(line.contains("http://"), "it is not ready: {line}");
    (child, began.elapsed().as_secs_f64())
}

fn end(mut child: Child, gently: bool) {
    if gently {
        let pid = child.id().to_string();
        let status = Command::new("kill").arg(&pid).status();
        assert!(status.expect("a shell's command").success());
    } else {
        child.kill().expect("it runs");
    }
    child.wait().expect("it ends");
}

fn run_command(data: &Path, arguments: &[&str]) {
    let output = playgate(data)
        .args(arguments)
        .output()
        .expect("it was built");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

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
fn write_and_kill(data: &Path, child: Child) {
    let began = Instant::now();
    let mut nth = 0;
    while began.elapsed() < Duration::from_secs(2) {
        run_command(
            data,
            &["partner", "add", &format!("late-{}-{nth}", child.id())],
        );
        nth += 1;
    }
    end(child, false);
}

fn row(name: &str, goal: &str, seconds: &[f64]) {
    let seconds = sorted(seconds.iter().copied());
    println!(
        "| {name} | {:.2} [{:.2}..{:.2}] | {goal} |",
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
        ("the first start, nothing there", &empty, true, "1"),
        ("empty, after a stop", &empty, true, "1"),
        (
            "228,000 programmes and 100,000 users, after a stop",
            &full,
            true,
            "2",
        ),
        ("the same after SIGKILL under writes", &full, false, "2"),
    ];
    println!("| start | s, median [min..max] | goal |");
    println!("|---|---|---|");
    for (nth, (name, data, gently, goal)) in rows.into_iter().enumerate() {
        let mut seconds = Vec::new();
        // Round 0 is not counted: it only leaves the store as the row describes.
        for round in 0..=ROUNDS {
            if nth == 0 {
                let _ = std::fs::remove_dir_all(data);
            }
            let (child, took) = start(data);
            if round > 0 {
                seconds.push(took);
            }
            if gently {
                end(child, true);
            } else {
                write_and_kill(data, child);
            }
        }
        row(name, goal, &seconds);
    }
}
