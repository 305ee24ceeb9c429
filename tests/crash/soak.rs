//! Mixed load with a clock that runs faster: prints memory and disk usage by part, checks that neither grows beyond its
//! bound, and checks the stored state at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::appliance::Launch;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, rounds};
use crate::harness::template::list;
use crate::workload::{Mix, Workload};

/// How much faster than real time the clock of the server runs. Sessions need a heartbeat every 35 of its seconds, and
/// still get it.
const SPEED: u64 = 6;
const TICK: Duration = Duration::from_millis(500);
/// Bounds that only a leak exceeds: 91 MiB were resident after 30 seconds, and the directory grew from 40 to 135 MiB,
/// most of it telemetry and the engine.
const RESIDENT_MAX: u64 = 512 << 20;
const DIRECTORY_MAX: u64 = 256 << 20;
const DIRECTORY_MAX_PER_SECOND: u64 = 10 << 20;
/// How many lines of figures are printed.
const LINES: u32 = 6;

/// Returns the size on the disk of a part of the data directory, including preallocated blocks.
fn size(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut files = Vec::new();
    list(path, &mut files);
    let blocks = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.blocks());
    files.iter().map(blocks).sum::<u64>() * 512
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Fails if the server takes more memory or disk than it should ever need for this load.
fn check_bounds(began: Instant, pid: u32, data: &Path) {
    let resident = resident_kib(pid) << 10;
    // 0 would be no measurement.
    assert!((1..RESIDENT_MAX).contains(&resident), "{resident} bytes");
    let most = DIRECTORY_MAX + DIRECTORY_MAX_PER_SECOND * began.elapsed().as_secs();
    let size = size(data);
    assert!((1..most).contains(&size), "{size} bytes, of at most {most}");
}

/// Formats the time, the memory, and the size of each part of the data directory, with the parts of the store listed by
/// themselves.
fn usage(began: Instant, pid: u32, data: &Path) -> String {
    let below = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort_unstable();
        paths
    };
    let mut parts = below(data);
    parts.retain(|path| !path.ends_with("store"));
    parts.extend(below(&data.join("store")));
    let shown = |path: &PathBuf| {
        let name = path.strip_prefix(data).unwrap().display();
        let size = size(path);
        let text = format!("{name} {:.1}", size as f64 / f64::from(1 << 20));
        (size >= 1 << 16).then_some(text)
    };
    let sizes: Vec<String> = parts.iter().filter_map(shown).collect();
    format!(
        "{:4} s: RSS {} MiB; MiB on the disk: {}",
        began.elapsed().as_secs(),
        resident_kib(pid) / 1_024,
        sizes.join(", ")
    )
}

#[test]
fn mixed_load_with_a_fast_clock_loses_nothing() {
    let length = Duration::from_secs(rounds(30, 600));
    let rng = Rng::for_test("soak");
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let launch = Launch::new(&data)
        .with("PLAYGATE_LAB_CLOCK", "true")
        .with("PLAYGATE_ENVIRONMENT", "staging")
        // This load exceeds the default daily telemetry budget of a user after about three minutes.
        .with("PLAYGATE_TELEMETRY_USER_BYTES_PER_DAY", "64GiB");
    let appliance = launch.ready();
    let mut workload = Workload::new(&launch, &appliance).unwrap();
    let token = workload.keys.operator.clone();
    let pid = appliance.process.id();
    let began = Instant::now();
    workload.work(&appliance.address.clone(), Mix::Importing, &rng, || {
        let operator = &mut appliance.line();
        let mut next = Duration::ZERO;
        while began.elapsed() < length {
            thread::park_timeout(TICK);
            let offset = began.elapsed().as_secs() * (SPEED - 1);
            let body = json!({"offset": offset});
            let moved = operator.operate(&token, "PUT", "/admin/v1/clock", &body);
            assert!(moved.is_ok_and(|answer| answer.status == 200));
            if began.elapsed() >= next {
                println!("{}", usage(began, pid, &data));
                check_bounds(began, pid, &data);
                next += length / LINES;
            }
        }
    });
    println!("{}", usage(began, pid, &data));
    check_bounds(began, pid, &data);
    println!("{} requests were done", workload.counts().0);
    let verified = appliance
        .line()
        .operate(&token, "POST", "/admin/v1/store/verify", &Value::Null);
    let tables = verified.unwrap().json();
    let records = tables["tables"].as_array().into_iter().flatten();
    let records: i64 = records.filter_map(|table| table["records"].as_i64()).sum();
    println!("{records} records in the store");
    let mut problems = workload.problems();
    problems.extend(workload.check(&appliance.address, &AllowedLoss::NONE, &rng));
    assert_eq!(problems, Vec::<String>::new(), "{}", appliance.log());
}
