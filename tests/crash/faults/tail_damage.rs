//! Damage at the end of the log after SIGKILL, when the engine has not caught up yet: what was answered
//! is there, or the server does not serve and says what is gone. It never goes on without it by itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::faults::corruption::{Outcome, outcome};
use crate::harness::appliance::{Launch, Started};
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::Rng;
use crate::harness::tail;
use crate::harness::template::{Left, Template};

/// The head of a segment, which only a replaced file changes.
const HEAD: u64 = 64;

fn segments(data: &Path) -> Vec<PathBuf> {
    let log = fs::read_dir(data.join("store/log")).unwrap();
    let mut found: Vec<_> = log
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    found.sort();
    found
}

fn last(data: &Path) -> PathBuf {
    segments(data).pop().unwrap()
}

fn used(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

fn zero(data: &Path, count: u64) {
    let path = last(data);
    let end = used(&path);
    let from = end.saturating_sub(count).max(HEAD);
    let zeros = vec![0; usize::try_from(end - from).unwrap()];
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&zeros, from).unwrap();
}

type Harm = (&'static str, fn(&Path));

const HARMS: &[Harm] = &[
    ("last 512 bytes zeroed", |data| zero(data, 512)),
    ("last 2,048 bytes zeroed", |data| zero(data, 2_048)),
    ("last 4,096 bytes zeroed", |data| zero(data, 4_096)),
    ("last segment deleted", |data| {
        fs::remove_file(last(data)).unwrap();
    }),
    ("last segment emptied", |data| {
        File::create(last(data)).unwrap();
    }),
    ("last segment cut off", |data| {
        let path = last(data);
        let end = used(&path);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(end - 700).unwrap();
    }),
    ("last segment replaced by an older one", |data| {
        // As it was when half of it had been written.
        zero(data, (used(&last(data)) - HEAD) / 2);
    }),
    ("last segment replaced by another", |data| {
        let path = last(data);
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
    let dice = Rng::of_test("tail damage");
    let template = Template::make(Left::ByKill, &dice);
    println!("| damage | engine | outcome |\n| --- | --- | --- |");
    let mut refused = 0;
    for (name, harm) in HARMS {
        for engine in ["sound", "gone"] {
            let data = template.copy("data");
            harm(&data);
            if engine == "gone" {
                remove_engine(&data);
            }
            let (outcome, told) = outcome(&template, &data, &dice);
            println!("| {name} | {engine} | {outcome:?} |");
            let made_up_for = outcome == Outcome::Repaired && told.contains("WAL");
            assert!(
                made_up_for || outcome == Outcome::Refused,
                "{name}, engine {engine}: {outcome:?}\n{}",
                tail(&told)
            );
            if outcome == Outcome::Refused {
                refused += 1;
                assert!(told.contains("--accept-loss"), "{name}: {}", tail(&told));
            }
            if name.contains("4,096") || name.contains("directory") {
                way_on(&template, &data, &dice, name);
            }
        }
    }
    assert!(refused >= HARMS.len(), "only {refused} are refused");
}

/// A person may go on with what is left: the server starts, and everything is whole but for its end.
fn way_on(template: &Template, data: &Path, dice: &Rng, name: &str) {
    let launch = Launch::of(data);
    let accepted = launch.run(&["store", "recover", "--accept-loss"]);
    let said = String::from_utf8_lossy(&accepted.stderr).into_owned();
    assert!(accepted.status.success(), "{name}: {said}");
    let Started::Ready(appliance) = launch.start() else {
        panic!("{name}: it does not start after the loss was accepted: {said}");
    };
    let mut workload = template.workload.clone();
    let problems = workload.check(&appliance.address, &AllowedLoss::WHOLE, dice);
    let unsound = problems.iter().find(|text| text.contains("store verify"));
    assert_eq!(unsound, None, "{name}");
    let audit = launch.run(&["audit", "list", "--json"]);
    let audit = String::from_utf8_lossy(&audit.stdout).into_owned();
    let recorded = audit.contains("admin_recover_store");
    assert!(
        recorded || said.contains("nothing is lost"),
        "{name}: {said}\n{audit}"
    );
}

/// The control: the same damage where nothing but the log says how far it went is served, and the
/// ledger tells what is missing.
#[test]
fn the_ledger_detects_a_truncated_log() {
    let dice = Rng::of_test("tail damage unseen");
    let template = Template::make(Left::ByKill, &dice);
    let data = template.copy("data");
    zero(&data, 4_096);
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
    let Started::Ready(appliance) = Launch::of(&data).start() else {
        panic!("it does not start");
    };
    let mut workload = template.workload.clone();
    let problems = workload.check(&appliance.address, &AllowedLoss::WHOLE, &dice);
    assert!(!problems.is_empty(), "nothing is missed");
}
