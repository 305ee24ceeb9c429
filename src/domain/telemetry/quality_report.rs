//! Quality of experience figures by minute and asset, from players' events.
//!
//! `docs/interface.md` defines one event, `playback_buffering`, and leaves others open. The report uses it, and the
//! names that players commonly use for start and error events.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Telemetry;
use super::error::TelemetryError;
use super::model::StoredEvent;
use super::read::Selection;
use crate::types::{DurationUnit, PartnerId, UnixSeconds};

const ROWS: usize = 100_000;
/// Seconds by which an event may arrive late and still count for the minute in which it happened.
const LATE: i64 = 3_600;
/// Seconds by which a player's clock may be ahead of the server's.
const AHEAD: i64 = 60;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub action: String,
    pub asset: Option<String>,
    pub device: Option<String>,
    pub buffering: Option<String>,
    pub duration: Option<f64>,
    /// `context.playback_bitrate`, in bits per second.
    pub bitrate: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    pub minute: UnixSeconds,
    pub asset: Option<String>,
    pub starts: u32,
    pub startup_millis: Option<f64>,
    /// Fraction of the playing time spent buffering after the start, 0 to 1. The playing time is an
    /// estimate: one minute for each device with an event in that minute.
    pub rebuffering_ratio: f64,
    pub mean_bitrate: Option<f64>,
    pub errors: u32,
    pub streams: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct QualityReport {
    pub rows: Vec<Quality>,
    pub cut: bool,
}

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
    /// `read` parses the text of an event; `unit_of` returns the duration unit of a partner that has
    /// its own. Reads files: call it on a thread that may block.
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
            // Events that happened in the range may have arrived later.
            to: Some(to + LATE),
            user: None,
        };
        let default_unit = self.inner.settings.duration_unit;
        for event in self.events(selection)? {
            let event = event?;
            let at = event_time(&event);
            let Some(facts) = read(&event.json).filter(|_| from <= at && at < to) else {
                continue;
            };
            let key = (at.0.div_euclid(60), facts.asset.clone());
            // Bounds the memory of a report over a long range.
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

/// The player's time, or the time of receipt if the player's clock is implausible.
fn event_time(event: &StoredEvent) -> UnixSeconds {
    if (-LATE..=AHEAD).contains(&event.clock_skew()) {
        UnixSeconds(event.timestamp_millis.div_euclid(1_000))
    } else {
        event.received
    }
}

impl Sums {
    fn add(&mut self, event: &StoredEvent, facts: &Facts, unit: DurationUnit) {
        // A hash and not the device's name, which may be long.
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
            // Players that send both kinds of event report each start twice.
            starts: self.started.max(self.initial),
            startup_millis: mean(self.initial_millis, self.initial),
            // The playing time is an estimate, which may be shorter than the buffering.
            rebuffering_ratio: (self.rebuffering_millis / played_millis).min(1.0),
            mean_bitrate: mean(self.bitrate, self.bitrates),
            errors: self.errors,
            streams,
        }
    }
}
