//! Damage at the end of the log after SIGKILL, when the engine has not caught up yet: acknowledged changes are there,
//! or the server refuses to serve and reports what is lost. It never continues without them by itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::faults::corruption::{Outcome, outcome};
use crate::harness::appliance::{Launch, Started};
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::Rng;
use crate::harness::tail;
use crate::harness::template::{EndedBy, Template};

/// The length of the segment header, which only a replaced file changes.
const HEAD: u64 = 64;

fn segments(data: &Path) -> Vec<PathBuf> {
    let log = fs::read_dir(data.join("store/log")).unwrap();
    let mut found: Vec<_> = log
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "wal"))
        .collect();
    found.sort();
    found
}

fn last_segment(data: &Path) -> PathBuf {
    segments(data).pop().unwrap()
}

fn used_length(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

fn zero_tail(data: &Path, count: u64) {
    let path = last_segment(data);
    let end = used_length(&path);
    let from = end.saturating_sub(count).max(HEAD);
    let zeros = vec![0; usize::try_from(end - from).unwrap()];
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&zeros, from).unwrap();
}

type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("last 512 bytes zeroed", |data| zero_tail(data, 512)),
    ("last 2,048 bytes zeroed", |data| zero_tail(data, 2_048)),
    ("last 4,096 bytes zeroed", |data| zero_tail(data, 4_096)),
    ("last segment deleted", |data| {
        fs::remove_file(last_segment(data)).unwrap();
    }),
    ("last segment emptied", |data| {
        File::create(last_segment(data)).unwrap();
    }),
    ("last segment cut off", |data| {
        let path = last_segment(data);
        let end = used_length(&path);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(end - 700).unwrap();
    }),
    ("last segment replaced by an older one", |data| {
        // The state of the segment when half of it had been written.
        zero_tail(data, (used_length(&last_segment(data)) - HEAD) / 2);
    }),
    ("last segment replaced by another", |data| {
        let path = last_segment(data);
        let mut bytes = fs::read(&path).unwrap();
        bytes[16..24].copy_from_slice(&1_u64.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        fs::write(path, bytes).unwrap();
    }),
    ("log directory gone", |data| {
        fs::remove_dir_all(data.join("store/log")).unwrap();
    }),
    ("log directory and the record of its end gone", |data| {
        fs::remove_dir_all(data.join("store/log")).unwrap();
        fs::remove_file(data.join("store/log.end")).unwrap();
    }),
];

fn remove_engine(data: &Path) {
    for entry in fs::read_dir(data.join("store")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("sled.") {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

#[test]
fn damage_at_the_end_of_the_log_is_recovered_or_refused() {
    let rng = Rng::for_test("tail damage");
    let template = Template::make(EndedBy::Kill, &rng);
    println!("| damage | engine | outcome |\n| --- | --- | --- |");
    let mut refused = 0;
    for (name, damage) in DAMAGES {
        for engine in ["sound", "gone"] {
            let data = template.copy("data");
            damage(&data);
            if engine == "gone" {
                remove_engine(&data);
            }
            let (outcome, details) = outcome(&template, &data, &rng);
            println!("| {name} | {engine} | {outcome:?} |");
            let repaired = outcome == Outcome::Repaired && details.contains("WAL");
            assert!(
                repaired || outcome == Outcome::Refused,
                "{name}, engine {engine}: {outcome:?}\n{}",
                tail(&details)
            );
            if outcome == Outcome::Refused {
                refused += 1;
                assert!(
                    details.contains("--accept-loss"),
                    "{name}: {}",
                    tail(&details)
                );
            }
            if name.contains("4,096") || name.contains("directory") {
                accept_loss(&template, &data, &rng, name);
            }
        }
    }
    assert!(refused >= DAMAGES.len(), "only {refused} are refused");
}

/// An operator may accept the loss: the server starts, and everything but the lost end is intact.
fn accept_loss(template: &Template, data: &Path, rng: &Rng, name: &str) {
    let launch = Launch::new(data);
    let accepted = launch.run(&["store", "recover", "--accept-loss"]);
    let stderr = String::from_utf8_lossy(&accepted.stderr).into_owned();
    assert!(accepted.status.success(), "{name}: {stderr}");
    let Started::Ready(appliance) = launch.start() else {
        panic!("{name}: the server did not start after the loss was accepted: {stderr}");
    };
    let mut workload = template.workload.clone();
    let problems = workload.check(&appliance.address, &AllowedLoss::NONE, rng);
    let unsound = problems.iter().find(|text| text.contains("store verify"));
    assert_eq!(unsound, None, "{name}");
    let audit = launch.run(&["audit", "list", "--json"]);
    let audit = String::from_utf8_lossy(&audit.stdout).into_owned();
    let recorded = audit.contains("admin_recover_store");
    assert!(
        recorded || stderr.contains("nothing is lost"),
        "{name}: {stderr}\n{audit}"
    );
}

/// Control: if only the log says how far it went, the same damage is served, and the ledger detects the loss.
#[test]
fn the_ledger_detects_a_truncated_log() {
    let rng = Rng::for_test("tail damage unseen");
    let template = Template::make(EndedBy::Kill, &rng);
    let data = template.copy("data");
    zero_tail(&data, 4_096);
    remove_engine(&data);
    fs::remove_file(data.join("store/log.end")).unwrap();
    for name in ["identity", "identity.copy"] {
        let path = data.join("store").join(name);
        let text = fs::read_to_string(&path).unwrap();
        let (body, _) = text.split_once("sum = ").unwrap();
        let body = body.replace("begun = true", "begun = false");
        let sum = crc32fast::hash(body.as_bytes());
        fs::write(&path, format!("{body}sum = {sum:08x}\n")).unwrap();
    }
    let appliance = Launch::new(&data).ready();
    let mut workload = template.workload.clone();
    let problems = workload.check(&appliance.address, &AllowedLoss::NONE, &rng);
    assert!(!problems.is_empty(), "nothing is missed");
}
