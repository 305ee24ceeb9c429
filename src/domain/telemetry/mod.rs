//! Players' telemetry: taken, kept in a log of hourly files, read back, erased, summed up, forwarded.
//!
//! The file of the hour is the log: an event is in it before its sender is told so, and it is
//! synced within half a second. The store holds the index only: in which hours a user sent events.
//! The text of an event is kept as it was sent; nothing here understands it.

mod budget;
mod compress;
mod dedup;
mod erasure;
mod error;
mod forward;
mod forward_cursor;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod ingest;
mod model;
mod packed;
mod quality_report;
mod read;
mod reindex;
mod retention;
mod segment;
mod segment_length;
mod sequence_gaps;
mod sync_thread;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

pub use budget::Budgets;
pub use erasure::request_erasure;
pub use error::TelemetryError;
pub use forward::{ForwardCounts, ForwardSettings, Forwarder, WriteLine};
pub use model::{Counts, EVENT_BYTES_MAX, EVENTS_MAX, NewEvent, Sender, StoredEvent, Taken};
pub use quality_report::{Facts, Quality, QualityReport};
pub use read::{Events, Selection};
pub use tables::schema;

use crate::domain::accounts::UserExists;
use crate::store::Store;
use crate::types::{DurationUnit, UnixSeconds, UserId};
use budget::Usage;
use compress::Compression;
use dedup::{DedupWindow, REMEMBERED_HOURS};
use segment::{Directory, Segment};
use sequence_gaps::Gaps;
use sync_thread::SyncThread;
use tables::DayUsage;

/// How telemetry is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the files lie.
    pub directory: PathBuf,
    /// Days that events are kept.
    pub retention_days: u32,
    /// What may be kept.
    pub budgets: Budgets,
    /// The unit of `context.duration` in players' events, where their partner has none of its own.
    pub duration_unit: DurationUnit,
    /// Whether anything is synced; switched off only by the control runs of durability tests.
    pub sync: bool,
    /// Knows the users of the same store: events that come after an erasure would stay.
    pub exists: UserExists,
}

/// The telemetry of an appliance.
#[derive(Clone)]
pub struct Telemetry {
    inner: Arc<Inner>,
    /// Stops with the last handle.
    _sync: Arc<SyncThread>,
}

struct Inner {
    store: Store,
    settings: Settings,
    directory: Directory,
    state: Mutex<State>,
    /// Held while the file of a segment is written anew, or read before it is appended to again:
    /// both take as long as the file is large. Taken before `state`, never while that is locked.
    rewriting: Mutex<()>,
    /// Held by the job that compresses alone.
    compression: Mutex<Compression>,
}

/// What those who send, one after the other, change.
#[derive(Default)]
struct State {
    segment: Option<Segment>,
    /// Segments that are done and not synced yet: the sync thread closes them.
    done: Vec<Segment>,
    usage: Usage,
    /// When hours were last dropped for want of room, and what to tell of it.
    cut: Option<(UnixSeconds, String)>,
    recent: DedupWindow,
    gaps: Gaps,
    /// An hour, and the users whose events in it the index knows of.
    indexed: (i64, HashSet<UserId>),
    counts: Counts,
    /// Whether something has been written and not synced.
    dirty: bool,
    /// Once set, every batch is answered with it: a failed sync is never retried.
    failed: Option<TelemetryError>,
}

/// The hour since 1970 that an instant lies in.
const fn hour_of(now: UnixSeconds) -> i64 {
    now.0.div_euclid(crate::types::time::HOUR)
}

impl Telemetry {
    /// Opens the files and learns which events were received in the last seven days.
    /// `on_failure` is told once when a sync has failed and the process has to restart.
    ///
    /// # Errors
    /// That a file could not be read or made.
    pub fn open(
        store: Store,
        settings: Settings,
        now: UnixSeconds,
        on_failure: impl Fn(&TelemetryError) + Send + 'static,
    ) -> Result<Self, TelemetryError> {
        let directory = Directory::open(&settings.directory, settings.sync)?;
        let hour = hour_of(now);
        let saved = store.read(|txn| txn.scan::<DayUsage>(&now.utc_day(), usize::MAX))?;
        let mut state = State {
            usage: Usage::begin(now, saved),
            ..State::default()
        };
        state.usage.total = directory.sizes()?.values().sum();
        for recent in directory.hours()? {
            if recent < hour - REMEMBERED_HOURS || recent == hour {
                continue;
            }
            for key in directory.fingerprints(recent)? {
                state.recent.remember(key, recent);
            }
            state.recent.tidy(hour);
        }
        if directory.events(hour).exists() {
            match Segment::open(&directory, hour).map_err(TelemetryError::from) {
                Ok(segment) => {
                    for key in segment.keys() {
                        state.recent.remember(*key, hour);
                    }
                    state.segment = Some(segment);
                }
                // The first batch that finds space opens it.
                Err(TelemetryError::Full) => {
                    for key in directory.fingerprints(hour)? {
                        state.recent.remember(key, hour);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let inner = Arc::new(Inner {
            store,
            settings,
            directory,
            state: Mutex::new(state),
            rewriting: Mutex::new(()),
            compression: Mutex::default(),
        });
        let sync = SyncThread::start(Arc::clone(&inner), on_failure)?;
        let telemetry = Self {
            inner,
            _sync: Arc::new(sync),
        };
        match telemetry.catch_up() {
            Ok(0) => {}
            Ok(added) => tracing::info!(added, "events that the index did not know of"),
            // The next start does it.
            Err(error) => tracing::warn!(%error, "the index of events could not be made whole"),
        }
        Ok(telemetry)
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = self.inner.state.lock();
        Counts {
            lost: state.gaps.lost(),
            remembered: state.recent.len() as u64,
            ..state.counts
        }
    }
}
