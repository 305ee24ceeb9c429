//! Figures of quality, by minute and asset, as far as players' events tell them.
//!
//! The interface document names one event, `playback_buffering`, and leaves the others open. What
//! stands here reads that one, and the names that players commonly use for a start and an error.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Telemetry;
use super::error::TelemetryError;
use super::model::StoredEvent;
use super::read::Selection;
use crate::types::{DurationUnit, PartnerId, UnixSeconds};

/// Rows of a report at most; a longer one is cut, and says so.
const ROWS: usize = 100_000;
/// How late an event may arrive and still count for the minute in which it happened.
const LATE: i64 = 3_600;
/// How far a player's clock may run ahead of ours.
const AHEAD: i64 = 60;

/// What the text of an event says that is of interest here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `action`.
    pub action: String,
    /// `context.asset_id`.
    pub asset: Option<String>,
    /// `context.device_id`.
    pub device: Option<String>,
    /// `context.playback_buffering_type`.
    pub buffering: Option<String>,
    /// `context.duration`.
    pub duration: Option<f64>,
    /// `context.playback_bitrate`, in bits per second.
    pub bitrate: Option<f64>,
}

/// The figures of one asset in one minute.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// When the minute begins.
    pub minute: UnixSeconds,
    /// The asset; nothing for events that name none.
    pub asset: Option<String>,
    /// Plays that began.
    pub starts: u32,
    /// How long they took to begin, in milliseconds, on average.
    pub startup_millis: Option<f64>,
    /// The part of the playing time that was spent buffering after the start, 0 to 1. The playing
    /// time is an estimate: a minute for each stream that was heard of in it.
    pub rebuffering_ratio: f64,
    /// Bits per second, the average of what the events say.
    pub mean_bitrate: Option<f64>,
    /// Errors.
    pub errors: u32,
    /// Devices that were heard of.
    pub streams: u32,
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QualityReport {
    /// By minute, then by asset.
    pub rows: Vec<Quality>,
    /// Whether there would have been more rows.
    pub cut: bool,
}

/// Sums of one asset in one minute.
#[derive(Default)]
struct Sums {
    started: u32,
    initial: u32,
    initial_millis: f64,
    rebuffering_millis: f64,
    bitrate: f64,
    bitrates: u32,
    errors: u32,
    streams: HashSet<u64>,
}

impl Telemetry {
    /// The figures for the minutes from `from` up to, not including, `to`. `read` understands the
    /// text of an event; `unit_of` returns the unit of a partner that has one of its own. Reads files:
    /// for threads that may block.
    ///
    /// # Errors
    /// That a file could not be read.
    pub fn report(
        &self,
        from: UnixSeconds,
        to: UnixSeconds,
        read: &dyn Fn(&[u8]) -> Option<Facts>,
        unit_of: &dyn Fn(&PartnerId) -> Option<DurationUnit>,
    ) -> Result<QualityReport, TelemetryError> {
        let mut sums: BTreeMap<(i64, Option<String>), Sums> = BTreeMap::new();
        let mut cut = false;
        let selection = Selection {
            from: Some(from),
            to: Some(to + LATE),
            user: None,
        };
        let default_unit = self.inner.settings.duration_unit;
        for event in self.events(selection)? {
            let event = event?;
            let at = happened(&event);
            let Some(facts) = read(&event.json).filter(|_| from <= at && at < to) else {
                continue;
            };
            let key = (at.0.div_euclid(60), facts.asset.clone());
            if sums.len() >= ROWS && !sums.contains_key(&key) {
                cut = true;
                continue;
            }
            let unit = unit_of(&event.sender.partner).unwrap_or(default_unit);
            sums.entry(key).or_default().add(&event, &facts, unit);
        }
        let rows = sums
            .into_iter()
            .map(|((minute, asset), sums)| sums.figures(UnixSeconds(minute * 60), asset))
            .collect();
        Ok(QualityReport { rows, cut })
    }
}

/// When an event happened: when the player says so, unless its clock is plainly wrong.
fn happened(event: &StoredEvent) -> UnixSeconds {
    if (-LATE..=AHEAD).contains(&event.clock_skew()) {
        UnixSeconds(event.timestamp_millis.div_euclid(1_000))
    } else {
        event.received
    }
}

impl Sums {
    fn add(&mut self, event: &StoredEvent, facts: &Facts, unit: DurationUnit) {
        let mut hasher = DefaultHasher::new();
        (event.sender.user, &facts.device).hash(&mut hasher);
        self.streams.insert(hasher.finish());
        if let Some(bitrate) = facts.bitrate.filter(|bitrate| *bitrate > 0.0) {
            self.bitrate += bitrate;
            self.bitrates += 1;
        }
        let millis = facts
            .duration
            .map_or(0.0, |duration| unit.to_millis(duration));
        match facts.action.as_str() {
            "playback_buffering" if facts.buffering.as_deref() == Some("initial") => {
                self.initial += 1;
                self.initial_millis += millis;
            }
            "playback_buffering" => self.rebuffering_millis += millis,
            "playback_start" | "playback_started" => self.started += 1,
            "error" | "playback_failed" => self.errors += 1,
            other if other.ends_with("_error") => self.errors += 1,
            _ => {}
        }
    }

    fn figures(self, minute: UnixSeconds, asset: Option<String>) -> Quality {
        let streams = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        let played_millis = f64::from(streams) * 60_000.0;
        let mean = |sum: f64, count: u32| (count > 0).then(|| sum / f64::from(count));
        Quality {
            minute,
            asset,
            // A player that tells of both tells of each start twice.
            starts: self.started.max(self.initial),
            startup_millis: mean(self.initial_millis, self.initial),
            rebuffering_ratio: (self.rebuffering_millis / played_millis).min(1.0),
            mean_bitrate: mean(self.bitrate, self.bitrates),
            errors: self.errors,
            streams,
        }
    }
}
