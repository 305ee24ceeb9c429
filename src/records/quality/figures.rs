//! The figures of a set of views, and the sums that they are made of. `docs/quality.md` defines each figure.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::sketch::DurationSketch;
use crate::telemetry::dimensions::OTHER;

/// Maximum distinct failure codes per cell.
const CODES_MAX: usize = 16;

/// Sums over the views of one minute with the same labels. Cells can be merged in any order with the same result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub attempts: u32,
    pub plays: u32,
    pub start_failures: u32,
    pub exits: u32,
    pub playback_failures: u32,
    pub waits: u32,
    pub waited_millis: u64,
    pub played_millis: u64,
    /// Playing time of the views whose bitrate is known, and the bits of that time.
    pub rated_millis: u64,
    pub bits: u64,
    pub startups: DurationSketch,
    pub codes: Vec<(Arc<str>, u32)>,
    /// Sessions that were alive when the hour began.
    pub carried: u32,
    /// Changes of the number of live sessions, by second of the hour.
    pub changes: Vec<(u16, i32)>,
}

impl Cell {
    pub(super) fn merge(&mut self, other: &Self) {
        self.merge_views(other);
        self.carried += other.carried;
        for (second, by) in &other.changes {
            self.change(*second, *by);
        }
    }

    /// Merges all fields except `carried` and `changes`.
    pub(super) fn merge_views(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.plays += other.plays;
        self.start_failures += other.start_failures;
        self.exits += other.exits;
        self.playback_failures += other.playback_failures;
        self.waits = self.waits.saturating_add(other.waits);
        self.waited_millis += other.waited_millis;
        self.played_millis += other.played_millis;
        self.rated_millis += other.rated_millis;
        self.bits = self.bits.saturating_add(other.bits);
        self.startups.merge(&other.startups);
        for (code, count) in &other.codes {
            self.add_code(code, *count);
        }
    }

    pub(super) fn add_code(&mut self, code: &Arc<str>, count: u32) {
        // Players choose their codes, and a cell must stay small.
        let full = self.codes.len() >= CODES_MAX;
        if let Some((_, present)) = self.codes.iter_mut().find(|(other, _)| other == code) {
            *present += count;
        } else if full && &**code != OTHER {
            self.add_code(&Arc::from(OTHER), count);
        } else {
            self.codes.push((Arc::clone(code), count));
        }
    }

    pub(super) fn change(&mut self, second: u16, by: i32) {
        match self.changes.binary_search_by_key(&second, |(at, _)| *at) {
            Ok(at) => {
                if let Some((_, present)) = self.changes.get_mut(at) {
                    *present += by;
                }
            }
            Err(at) => self.changes.insert(at, (second, by)),
        }
    }

    /// Ranks values and cells when an hour is folded.
    pub(super) fn weight(&self) -> u64 {
        u64::from(self.attempts.max(self.plays))
            + u64::from(self.carried)
            + self.changes.len() as u64
    }

    pub(super) fn has_views(&self) -> bool {
        self.attempts > 0 || self.plays > 0
    }

    pub(super) fn figures(&self, max_concurrent: u32) -> Figures {
        let startup = |share| self.startups.percentile(share);
        let mut failure_codes: Vec<(String, u32)> = (self.codes.iter())
            .map(|(code, count)| (code.to_string(), *count))
            .collect();
        // The most frequent first; the code breaks ties.
        failure_codes.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        Figures {
            attempts: self.attempts,
            plays: self.plays,
            startup_p50_millis: startup(0.5),
            startup_p95_millis: startup(0.95),
            start_failures: self.start_failures,
            exits_before_start: self.exits,
            playback_failures: self.playback_failures,
            rebuffer_count: self.waits,
            rebuffer_ratio: ratio(self.waited_millis, self.waited_millis + self.played_millis),
            minutes_played: self.played_millis as f64 / 60_000.0,
            mean_bitrate: ratio(self.bits.saturating_mul(1_000), self.rated_millis),
            max_concurrent,
            failure_codes,
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A figure is `None` if there is no data for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    pub attempts: u32,
    pub plays: u32,
    pub startup_p50_millis: Option<f64>,
    pub startup_p95_millis: Option<f64>,
    pub start_failures: u32,
    pub exits_before_start: u32,
    pub playback_failures: u32,
    pub rebuffer_count: u32,
    pub rebuffer_ratio: Option<f64>,
    pub minutes_played: f64,
    /// Bits per second.
    pub mean_bitrate: Option<f64>,
    pub max_concurrent: u32,
    /// Views that failed, by the code of their first failure; the most frequent first.
    pub failure_codes: Vec<(String, u32)>,
}
