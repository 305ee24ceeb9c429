//! Damage at rest: bits flipped, files cut short, blocks zeroed, in any file of a data directory.
//! Nothing wrong is served, nothing is lost without a word, and no read hangs.

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
use crate::harness::template::{Left, Template, list};

const BLOCK: u64 = 4_096;
/// Runs at a time: there are others on the machine.
const THREADS: usize = 2;
/// How often a process that ends over what it found is started again.
const STARTS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Corruption {
    Flip,
    Truncate,
    Zero,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing that is read was hit.
    Harmless,
    /// Everything is there, and the log tells what was mended.
    Repaired,
    /// It is ready; what is missing is told, by the log or by `store verify`.
    Reported,
    /// It does not start, or waits in maintenance, and says why.
    Refused,
    /// It ended by a signal or a panic.
    Crashed,
    /// A start or a read that never ends.
    Hung,
    /// Something is missing or wrong, and nobody tells.
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

/// Harms one file of a data directory; what was done, for a person.
fn harm(data: &Path, kind: Corruption, dice: &mut Rng) -> (String, String) {
    let mut files = Vec::new();
    list(data, &mut files);
    files.retain(|path| {
        path.metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() > 0)
    });
    files.sort_unstable();
    let path = pick(&files, dice);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let below = path.strip_prefix(data).unwrap().display().to_string();
    let at = place(&file, length, dice);
    let done = match kind {
        Corruption::Flip => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            let bit = dice.below(8);
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

/// Any file, or one by its size.
fn pick<'a>(files: &'a [PathBuf], dice: &mut Rng) -> &'a PathBuf {
    if dice.once_in(2) {
        return &files[dice.index(files.len())];
    }
    let sizes: Vec<u64> = files
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .collect();
    let mut at = dice.below(sizes.iter().sum());
    let holds = |size: &u64| {
        let here = at < *size;
        at = at.wrapping_sub(*size);
        here
    };
    &files[sizes.iter().position(holds).unwrap()]
}

/// A byte of the file; mostly one that is not in the midst of zeros, of which there are many that
/// nobody reads.
fn place(file: &File, length: u64, dice: &mut Rng) -> u64 {
    let anywhere = dice.once_in(6);
    let mut at = dice.below(length);
    for _ in 0..200 {
        let mut around = [0; 64];
        let read = file.read_at(&mut around, at.saturating_sub(32)).unwrap();
        if anywhere || around[..read].iter().any(|byte| *byte != 0) {
            break;
        }
        at = dice.below(length);
    }
    at
}

/// Starts on what was harmed and reads everything back.
pub fn outcome(template: &Template, data: &Path, dice: &Rng) -> (Outcome, String) {
    let mut launch = Launch::of(data);
    // A start may rebuild the store first.
    launch.patience = Duration::from_secs(40);
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
                // As its supervisor would do.
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
        let problems = workload.check(&appliance.address, &AllowedLoss::WHOLE, dice);
        let ended = appliance.wait(Duration::from_millis(0));
        log += &appliance.log();
        if ended == Some(Some(5)) {
            last = Outcome::Refused;
            continue;
        }
        let told = ["WARN", "ERROR"].iter().any(|level| log.contains(level));
        let told = told || problems.iter().any(|text| text.contains("store verify"));
        let hung = problems.iter().any(|text| text.contains("hung"));
        let outcome = match (ended, problems.is_empty()) {
            (Some(_), _) => Outcome::Crashed,
            (None, true) if told => Outcome::Repaired,
            (None, true) => Outcome::Harmless,
            (None, false) if hung => Outcome::Hung,
            (None, false) if told => Outcome::Reported,
            (None, false) => Outcome::Silent,
        };
        return (outcome, problems.join("\n") + "\n" + &log);
    }
    (last, log)
}

/// The kind of a file: its path without what numbers it.
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
    let dice = Rng::of_test("flips");
    let templates = [Left::ByStop, Left::ByKill].map(|left| Template::make(left, &dice));
    let runs: Vec<Corruption> = [
        (Corruption::Flip, rounds(50, 1_000)),
        (Corruption::Truncate, rounds(10, 200)),
        (Corruption::Zero, rounds(10, 200)),
    ]
    .into_iter()
    .flat_map(|(harm, count)| (0..count).map(move |_| harm))
    .collect();
    let next = AtomicU64::new(0);
    let table: Mutex<BTreeMap<(Corruption, String, Outcome), u32>> = Mutex::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (dice, templates, runs) = (&dice, &templates, &runs);
            let (next, table) = (&next, &table);
            scope.spawn(move || {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kind) = runs.get(usize::try_from(nth).unwrap()) else {
                        return;
                    };
                    let mut dice = dice.split(nth);
                    let template = &templates[usize::from(nth % 2 == 1)];
                    let data = template.copy(&format!("data{thread}"));
                    let (file, done) = harm(&data, *kind, &mut dice);
                    let (outcome, told) = outcome(template, &data, &dice);
                    if !outcome.is_good() || outcome == Outcome::Reported {
                        let told = tail(&told);
                        println!("run {nth}: {file}, {done}: {outcome:?}\n{told}");
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
    for ((harm, file, outcome), runs) in &table {
        println!("| {harm:?} | {file} | {outcome:?} | {runs} |");
    }
    let good = table.keys().all(|(_, _, outcome)| outcome.is_good());
    assert!(good, "outcomes that must not be, as told above");
}
