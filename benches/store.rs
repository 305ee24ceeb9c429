//! The row "durable commit" of `docs/performance.md`: 1 to 64 writers compared with appending to a file and syncing it,
//! taking turns on the same disk.
//!
//! `cargo bench --bench store`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::cast_precision_loss, clippy::disallowed_methods)]

#[path = "yardstick/record.rs"]
mod record;
mod yardstick;

use std::fs::File;
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use playgate_store::{Durability, Options, Schema, Store};
use record::{BenchRecord, BenchTable};
use yardstick::{median, sorted};

/// The size of a broadcast; most other records are smaller.
const BYTES: usize = 390;
const ROUNDS: usize = 9;
const WRITERS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
const EACH: u64 = 300;

/// Returns how long each step took, in microseconds, sorted.
fn times(count: u64, mut step: impl FnMut(u64)) -> Vec<f64> {
    sorted((0..count).map(|nth| {
        let began = Instant::now();
        step(nth);
        began.elapsed().as_secs_f64() * 1e6
    }))
}

fn commit(store: &Store, key: u64) {
    let written = store.write(Durability::Durable, move |txn| {
        txn.put::<BenchTable>(&key, &BenchRecord(vec![7; BYTES]))
    });
    written.wait().expect("there is space");
}

/// Runs `count` writers. Returns the times of the commits, and how long all writers took together.
fn writers(store: &Store, count: u64) -> (Vec<f64>, Duration) {
    let began = Instant::now();
    let all = thread::scope(|scope| {
        let each =
            |writer| scope.spawn(move || times(EACH, |nth| commit(store, writer * EACH + nth)));
        let running: Vec<_> = (0..count).map(each).collect();
        let done = running
            .into_iter()
            .map(|writer| writer.join().expect("it ran"));
        sorted(done.flatten())
    });
    (all, began.elapsed())
}

struct Writers {
    /// Microseconds of each commit, sorted.
    times: Vec<f64>,
    /// Commits in the time of one fdatasync of the raw file.
    per_sync: f64,
    /// Commits per sync.
    shared: f64,
}

/// Times are in microseconds and sorted.
struct Round {
    raw: Vec<f64>,
    writers: Vec<Writers>,
}

impl Round {
    fn run(raw: &mut File, store: &Store) -> Self {
        let raw = times(EACH, |_| {
            raw.write_all(&[7; BYTES]).expect("there is space");
            raw.sync_data().expect("it is synced");
        });
        let measure = |count| {
            let before = store.written();
            let (times, took) = writers(store, count);
            let after = store.written();
            let commits = (after.commits - before.commits) as f64;
            Writers {
                times,
                per_sync: commits * median(&raw) / (took.as_secs_f64() * 1e6),
                shared: commits / (after.syncs - before.syncs) as f64,
            }
        };
        Self {
            writers: WRITERS.into_iter().map(measure).collect(),
            raw,
        }
    }
}

fn p99(times: &[f64]) -> f64 {
    times[times.len() * 99 / 100]
}

/// Formats the median, lowest and highest value of the rounds.
fn spread(rounds: &[Round], read: impl Fn(&Round) -> f64) -> String {
    let values = sorted(rounds.iter().map(read));
    let (lowest, highest) = (values[0], values[values.len() - 1]);
    format!("{:.2} [{lowest:.2}..{highest:.2}]", median(&values))
}

fn main() {
    // The default directory for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut raw = File::create(folder.path().join("raw")).expect("it can be written");
    let schema = Schema::default().with::<BenchTable>();
    let store = Store::open(&folder.path().join("data"), schema, Options::default());
    let store = store.expect("a new store");

    let mut rounds: Vec<Round> = (0..=ROUNDS).map(|_| Round::run(&mut raw, &store)).collect();
    // The first round warms up.
    rounds.remove(0);

    println!("durable commit of {BYTES} bytes, {ROUNDS} rounds");
    println!(
        "append and fdatasync: p50 {} us, p99 {} us",
        spread(&rounds, |round| median(&round.raw)),
        spread(&rounds, |round| p99(&round.raw))
    );
    println!("goals: one writer's p50 <= 1.2 fdatasync, p50 of 64 <= 4 and >= 20 commits in one\n");
    println!(
        "| writers | p50 us | in fdatasyncs | p99 us | commits in one fdatasync | share a sync |"
    );
    println!("|---|---|---|---|---|---|");
    for (nth, count) in WRITERS.into_iter().enumerate() {
        let column = |read: fn(&Round, &Writers) -> f64| {
            spread(&rounds, |round| read(round, &round.writers[nth]))
        };
        println!(
            "| {count} | {} | {} | {} | {} | {} |",
            column(|_, writers| median(&writers.times)),
            column(|round, writers| median(&writers.times) / median(&round.raw)),
            column(|_, writers| p99(&writers.times)),
            column(|_, writers| writers.per_sync),
            column(|_, writers| writers.shared)
        );
    }
}
