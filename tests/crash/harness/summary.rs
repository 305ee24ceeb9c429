//! Counts the outcomes of rounds by phase.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::harness::Phase;

#[derive(Default)]
struct Row {
    rounds: u32,
    answered: u64,
    /// Background commands that succeeded during the rounds.
    commands: u64,
    lost: u32,
    wrong: u32,
    failed_starts: u32,
    slowest: Duration,
}

/// The outcomes of all rounds, printed as a table.
#[derive(Default)]
pub struct Summary {
    rows: BTreeMap<Phase, Row>,
    bad_rounds: u32,
}

impl Summary {
    /// Counts a round.
    pub fn record(&mut self, phase: Phase, answered: u64, slowest: Duration, problems: &[String]) {
        let row = self.rows.entry(phase).or_default();
        row.rounds += 1;
        row.answered += answered;
        row.slowest = row.slowest.max(slowest);
        let any = |kind: &str| u32::from(problems.iter().any(|text| text.starts_with(kind)));
        row.lost += any("lost");
        row.wrong += any("wrong");
        row.failed_starts += any("failed start");
        self.bad_rounds += u32::from(!problems.is_empty());
    }

    pub fn add_commands(&mut self, phase: Phase, commands: u64) {
        self.rows.entry(phase).or_default().commands += commands;
    }

    pub const fn bad_rounds(&self) -> u32 {
        self.bad_rounds
    }

    pub fn rounds(&self) -> u64 {
        self.rows.values().map(|row| u64::from(row.rounds)).sum()
    }

    pub fn losses(&self) -> u32 {
        let bad = |row: &Row| row.lost + row.failed_starts;
        self.rows.values().map(bad).sum()
    }

    pub fn print(&self, title: &str) {
        println!(
            "{title}\n| phase | rounds | answered | commands | lost | wrong | failed starts | slowest start ms |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
        for (phase, row) in &self.rows {
            let Row {
                rounds,
                answered,
                commands,
                lost,
                wrong,
                failed_starts,
                slowest,
            } = row;
            let slowest = slowest.as_millis();
            println!(
                "| {phase:?} | {rounds} | {answered} | {commands} | {lost} | {wrong} | {failed_starts} | {slowest} |"
            );
        }
    }

    /// Fails if a round had a problem or no background command ever succeeded.
    pub fn assert_clean(&self) {
        for (phase, row) in &self.rows {
            let idle = phase.command().is_some() && row.rounds > 10 && row.commands == 0;
            assert!(!idle, "{phase:?}: no command was ever done");
        }
        assert!(
            self.bad_rounds == 0,
            "{} rounds went wrong; see above",
            self.bad_rounds
        );
    }
}
