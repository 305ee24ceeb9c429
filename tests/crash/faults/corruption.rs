//! Damage at rest: flips bits, truncates files and zeroes blocks in any file of a data directory. A test fails if the
//! server serves wrong data, loses data without a report, or hangs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::appliance::{Launch, Started};
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, rounds};
use crate::harness::tail;
use crate::harness::template::{EndedBy, Template, list};

const BLOCK: u64 = 4_096;
/// Few, because other work runs on the machine.
const THREADS: usize = 2;
/// How often a process that ends because of the damage is restarted, as its supervisor would do.
const STARTS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Corruption {
    Flip,
    Truncate,
    Zero,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The damage hit nothing that is read.
    Harmless,
    /// Nothing is missing, and the log reports the repair.
    Repaired,
    /// The server is ready; the log or `store verify` reports what is missing.
    Reported,
    /// The server does not start, or waits in maintenance mode, and gives the reason.
    Refused,
    /// The server ended by a signal or a panic.
    Crashed,
    /// A start or a read did not end.
    Hung,
    /// Data is missing or wrong, and nothing reports it.
    Silent,
}

impl Outcome {
    const fn is_good(self) -> bool {
        matches!(
            self,
            Self::Harmless | Self::Repaired | Self::Reported | Self::Refused
        )
    }
}

/// Damages one file of a data directory. Returns the file and a description of the damage.
fn damage(data: &Path, kind: Corruption, rng: &mut Rng) -> (String, String) {
    let mut files = Vec::new();
    list(data, &mut files);
    files.retain(|path| {
        path.metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() > 0)
    });
    files.sort_unstable();
    let path = pick_file(&files, rng);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let below = path.strip_prefix(data).unwrap().display().to_string();
    let at = pick_offset(&file, length, rng);
    let done = match kind {
        Corruption::Flip => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            let bit = rng.below(8);
            file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
            format!("bit {bit} of byte {at} of {length}")
        }
        Corruption::Truncate => {
            file.set_len(at).unwrap();
            format!("cut from {length} to {at} bytes")
        }
        Corruption::Zero => {
            let from = at / BLOCK * BLOCK;
            let size = BLOCK.min(length - from);
            let zeros = vec![0; usize::try_from(size).unwrap()];
            file.write_all_at(&zeros, from).unwrap();
            format!("zeroed from {from} of {length}")
        }
    };
    (below, done)
}

/// Picks a file, half of the time weighted by its size.
fn pick_file<'a>(files: &'a [PathBuf], rng: &mut Rng) -> &'a PathBuf {
    if rng.once_in(2) {
        return &files[rng.index(files.len())];
    }
    let sizes: Vec<u64> = files
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .collect();
    let mut at = rng.below(sizes.iter().sum());
    let holds = |size: &u64| {
        let here = at < *size;
        at = at.wrapping_sub(*size);
        here
    };
    &files[sizes.iter().position(holds).unwrap()]
}

/// Picks the offset of a byte. Usually avoids runs of zeros, which are mostly preallocated space that nothing reads.
fn pick_offset(file: &File, length: u64, rng: &mut Rng) -> u64 {
    let anywhere = rng.once_in(6);
    let mut at = rng.below(length);
    for _ in 0..200 {
        let mut around = [0; 64];
        let read = file.read_at(&mut around, at.saturating_sub(32)).unwrap();
        if anywhere || around[..read].iter().any(|byte| *byte != 0) {
            break;
        }
        at = rng.below(length);
    }
    at
}

/// Words of the messages about a damaged, lost or incomplete file or record. Other warnings, such as those about the
/// disk, the clock or a job, do not report a loss.
const DAMAGE: &[&str] = &[
    "another history",
    "cannot be sent",
    "cannot be used",
    "cannot read",
    "damaged",
    "does not belong",
    "failed to complete",
    "failed to open",
    "failed to read",
    "had a gap",
    "incomplete",
    "key file missing",
    "lost",
    "missing",
    "rebuil",
    "set back",
    "shorter",
    "unreadable",
];

/// Returns whether a line of the log is a warning or an error about damage.
fn names_damage(line: &str) -> bool {
    let is_warning = ["WARN", "ERROR"].iter().any(|level| line.contains(level));
    is_warning && DAMAGE.iter().any(|word| line.contains(word))
}

/// Starts the server on a damaged data directory and reads everything back.
pub fn outcome(template: &Template, data: &Path, rng: &Rng) -> (Outcome, String) {
    let mut launch = Launch::new(data);
    // A start may rebuild the store first.
    launch.timeout = Duration::from_secs(40);
    let mut log = String::new();
    let mut last = Outcome::Hung;
    for _ in 0..STARTS {
        let mut appliance = match launch.start() {
            Started::Ready(appliance) => appliance,
            Started::Waiting(text) => return (Outcome::Refused, log + &text),
            Started::Hung(text) => return (Outcome::Hung, log + &text),
            Started::Ended(code, text) => {
                log += &text;
                let clear = code.is_some_and(|code| code != 0 && code != 101);
                if !clear || !text.contains("error: ") {
                    return (Outcome::Crashed, log);
                }
                last = Outcome::Refused;
                continue;
            }
        };
        match appliance.readiness() {
            Some((200, _)) => {}
            Some((503, body)) if body["reasons"].as_object().is_some_and(|r| !r.is_empty()) => {
                return (Outcome::Refused, log + &body.to_string() + &appliance.log());
            }
            other => return (Outcome::Silent, format!("readiness: {other:?}")),
        }
        let mut workload = template.workload.clone();
        let problems = workload.check(&appliance.address, &AllowedLoss::NONE, rng);
        let ended = appliance.wait(Duration::from_millis(0));
        log += &appliance.log();
        if ended == Some(Some(5)) {
            last = Outcome::Refused;
            continue;
        }
        // A verification that was not answered reports nothing.
        let is_verified = |text: &String| text.contains("store verify: 200");
        let reported = log.lines().any(names_damage) || problems.iter().any(is_verified);
        let hung = problems.iter().any(|text| text.contains("hung"));
        let outcome = match (ended, problems.is_empty()) {
            (Some(_), _) => Outcome::Crashed,
            (None, true) if reported => Outcome::Repaired,
            (None, true) => Outcome::Harmless,
            (None, false) if hung => Outcome::Hung,
            (None, false) if reported => Outcome::Reported,
            (None, false) => Outcome::Silent,
        };
        return (outcome, problems.join("\n") + "\n" + &log);
    }
    (last, log)
}

/// Returns the kind of a file: its path without the numbers.
fn part(file: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let digit = |c: char| c.is_ascii_digit();
    let kind = match name.split_once('.') {
        Some((stem, _)) if !stem.starts_with(digit) => stem.to_owned(),
        Some((_, kind)) => format!("*.{}", kind.trim_matches(digit)),
        None => name.to_owned(),
    };
    format!("{folder}/{kind}")
        .trim_start_matches('/')
        .to_owned()
}

#[test]
fn damaged_files_are_repaired_or_reported() {
    let rng = Rng::for_test("flips");
    let templates = [EndedBy::Stop, EndedBy::Kill].map(|ended_by| Template::make(ended_by, &rng));
    // Control: without damage nothing is reported. A warning of every start would hide a silent loss.
    for template in &templates {
        let data = template.copy("undamaged");
        let (outcome, details) = outcome(template, &data, &rng);
        assert_eq!(outcome, Outcome::Harmless, "{details}");
        fs::remove_dir_all(&data).unwrap();
    }
    let runs: Vec<Corruption> = [
        (Corruption::Flip, rounds(50, 1_000)),
        (Corruption::Truncate, rounds(10, 200)),
        (Corruption::Zero, rounds(10, 200)),
    ]
    .into_iter()
    .flat_map(|(damage, count)| (0..count).map(move |_| damage))
    .collect();
    let next = AtomicU64::new(0);
    let table: Mutex<BTreeMap<(Corruption, String, Outcome), u32>> = Mutex::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rng, templates, runs) = (&rng, &templates, &runs);
            let (next, table) = (&next, &table);
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kind) = runs.get(usize::try_from(nth).unwrap()) else {
                        return;
                    };
                    let mut rng = rng.split(nth);
                    let template = &templates[usize::from(nth % 2 == 1)];
                    let data = template.copy(&format!("data{thread}"));
                    let (file, done) = damage(&data, *kind, &mut rng);
                    let (outcome, details) = outcome(template, &data, &rng);
                    if !outcome.is_good() || outcome == Outcome::Reported {
                        let details = tail(&details);
                        println!("run {nth}: {file}, {done}: {outcome:?}\n{details}");
                    }
                    let key = (*kind, part(&file), outcome);
                    *table.lock().unwrap().entry(key).or_default() += 1;
                    let _ = fs::remove_dir_all(&data);
                }
            });
        }
    });
    let table = table.into_inner().unwrap();
    println!("Damage at rest\n| harm | file | outcome | runs |\n| --- | --- | --- | --- |");
    for ((damage, file, outcome), runs) in &table {
        println!("| {damage:?} | {file} | {outcome:?} | {runs} |");
    }
    let good = table.keys().all(|(_, _, outcome)| outcome.is_good());
    assert!(good, "bad outcomes; see the table above");
}
