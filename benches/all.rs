//! Every benchmark, one after the other, and their tables in one file.
//!
//! `cargo bench --bench all`, about an hour and a half on two cores. The tables go to `target/benchmarks.md`.
//! Nothing else should run on the machine. The ratios suffer less from noise than the times, because each benchmark
//! takes turns with its yardstick.

#![allow(missing_docs, clippy::expect_used, clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

const BENCHMARKS: [&str; 10] = [
    "schedule",
    "heartbeat",
    "tls",
    "login",
    "epg",
    "store",
    "start",
    "growth",
    "capacity",
    "scale",
];

fn main() -> ExitCode {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("benchmarks.md");
    let mut text = format!(
        "# Benchmarks\n\nPlaygate {}, {} processors, {}\n",
        env!("CARGO_PKG_VERSION"),
        thread::available_parallelism().map_or(0, usize::from),
        output("rustc", &["--version"])
    );
    let commit = output("git", &["describe", "--always", "--dirty"]);
    let _ = writeln!(
        text,
        "\nCommit {commit}, {}",
        output("date", &["--utc", "+%F"])
    );
    let mut failed = Vec::new();
    for name in BENCHMARKS {
        println!("== {name}");
        let _ = writeln!(text, "\n## {name}\n");
        if !run(name, &mut text) {
            failed.push(name);
            text.push_str("\nfailed\n");
        }
        // After each benchmark, so that an interrupted run leaves what it has measured.
        fs::write(&file, &text).expect("the target folder can be written");
    }
    println!("tables: {}", file.display());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Runs one benchmark; its output is printed and added to `text`. Returns whether it succeeded.
fn run(name: &str, text: &mut String) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(["bench", "--quiet", "--bench", name])
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo runs this");
    let printed = child.stdout.take().expect("the output is piped");
    for line in BufReader::new(printed).lines().map_while(Result::ok) {
        println!("{line}");
        let _ = writeln!(text, "{line}");
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Returns what a program prints, or nothing if it cannot be run.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let printed = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).trim().to_owned()
}
