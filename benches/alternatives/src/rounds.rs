//! Contestants take turns in rounds; tables have the median and the range of the rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::workload::Write;
use crate::yardstick::{median, sorted};

/// The number of counted rounds, after one that is not counted.
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(800);
/// What contestants do after their last turn counts for it: Playgate's engine gets batches of ten seconds.
const SETTLE: Duration = Duration::from_secs(11);

pub trait Contestant {
    fn name(&self) -> String;

    /// Names the write of the next turns.
    fn select(&mut self, _write: Write) {}

    /// Runs for `time` with `clients` requests in flight. Returns the number of answers.
    fn turn(&mut self, clients: usize, time: Duration) -> u64;

    /// Returns the processor time of the server so far.
    fn cpu(&self) -> Duration;

    /// The same by thread, if that tells anything.
    fn cpu_by_thread(&self) -> BTreeMap<String, Duration> {
        BTreeMap::new()
    }
}

/// The figures of a contestant, by round.
#[derive(Default)]
pub struct Figures {
    pub name: String,
    pub per_second: Vec<f64>,
    /// Processor time of each answer, in microseconds. It includes what the server does while others have their turns.
    pub micros: Vec<f64>,
}

/// Lets the contestants take turns.
pub fn compete(contestants: &mut [&mut dyn Contestant], clients: usize) -> Vec<Figures> {
    let mut began = vec![Vec::new(); contestants.len()];
    let mut done = vec![Vec::new(); contestants.len()];
    for _ in 0..=ROUNDS {
        for (at, contestant) in contestants.iter_mut().enumerate() {
            began[at].push(contestant.cpu());
            done[at].push(contestant.turn(clients, TURN) as f64);
        }
    }
    std::thread::sleep(SETTLE);
    let figures = contestants.iter().enumerate().map(|(at, contestant)| {
        began[at].push(contestant.cpu());
        let spent = began[at].windows(2).map(|pair| pair[1] - pair[0]);
        let each = spent.zip(&done[at]);
        Figures {
            name: contestant.name(),
            micros: each
                .map(|(spent, done)| spent.as_secs_f64() * 1e6 / done)
                .skip(1)
                .collect(),
            per_second: done[at]
                .iter()
                .map(|done| done / TURN.as_secs_f64())
                .skip(1)
                .collect(),
        }
    });
    figures.collect()
}

/// Formats a median without more digits than it has meaning.
pub fn middle(values: &[f64]) -> String {
    let middle = median(&sorted(values.iter().copied()));
    match middle {
        _ if middle < 10.0 => format!("{middle:.2}"),
        _ if middle < 100.0 => format!("{middle:.1}"),
        _ => format!("{middle:.0}"),
    }
}

/// Formats median and range of the ratios of each round.
pub fn ratio(values: &[f64], yardstick: &[f64]) -> String {
    let ratios = sorted(values.iter().zip(yardstick).map(|(own, other)| own / other));
    format!(
        "{:.2} [{:.2}..{:.2}]",
        median(&ratios),
        ratios[0],
        ratios[ratios.len() - 1]
    )
}
