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
    /// The same over all rounds: work that is done later, in batches, is no median.
    pub micros_of_all: f64,
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
        let spent: Vec<f64> = spent.map(|spent| spent.as_secs_f64() * 1e6).collect();
        let (spent, done) = (&spent[1..], &done[at][1..]);
        Figures {
            name: contestant.name(),
            micros: spent
                .iter()
                .zip(done)
                .map(|(spent, done)| spent / done)
                .collect(),
            micros_of_all: spent.iter().sum::<f64>() / done.iter().sum::<f64>(),
            per_second: done.iter().map(|done| done / TURN.as_secs_f64()).collect(),
        }
    });
    figures.collect()
}

/// Formats a number without more digits than it has meaning.
pub fn rounded(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

pub fn middle(values: &[f64]) -> f64 {
    median(&sorted(values.iter().copied()))
}

fn ratios(values: &[f64], yardstick: &[f64]) -> Vec<f64> {
    sorted(
        values
            .iter()
            .zip(yardstick)
            .map(|(value, other)| value / other),
    )
}

/// Formats median and range of the ratios of each round.
pub fn ratio(values: &[f64], yardstick: &[f64]) -> String {
    let ratios = ratios(values, yardstick);
    let (lowest, highest) = (ratios[0], ratios[ratios.len() - 1]);
    format!("{:.2} [{lowest:.2}..{highest:.2}]", median(&ratios))
}

/// Formats the ratio of processor time over all rounds, and the range of the ratios of each round.
pub fn ratio_of_time(figures: &Figures, yardstick: &Figures) -> String {
    let ratios = ratios(&figures.micros, &yardstick.micros);
    let (lowest, highest) = (ratios[0], ratios[ratios.len() - 1]);
    let of_all = figures.micros_of_all / yardstick.micros_of_all;
    format!("{of_all:.2} [{lowest:.2}..{highest:.2}]")
}
