//! Player telemetry events: ingest, hourly segment files, reads, erasure and forwarding.
//!
//! The segment file of the hour is the log. An event is written to it before its sender gets an answer, and is synced
//! within half a second. The store only holds the index: the hours in which each user sent events.
//! The text of an event is stored as it was sent. This module never interprets it.

mod budget;
mod compress;
mod dedup;
pub(crate) mod dimensions;
mod erasure;
mod error;
mod file_identity;
mod forward;
mod forward_cursor;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod index_packed;
mod ingest;
mod model;
mod notices;
mod player_event;
mod read;
mod reindex;
mod retention;
mod segment;
mod sequence_gaps;
mod standby;
mod sync_thread;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

pub use budget::Budgets;
pub use dimensions::{Dimension, Labels};
pub use erasure::request_erasure;
pub use error::TelemetryError;
pub use forward::{ForwardCounts, ForwardSettings, Forwarder, WriteLine};
pub use model::{
    Accepted, EVENT_BYTES_MAX, EVENTS_MAX, NewEvent, Sender, StoredEvent, TelemetryCounts,
};
pub use player_event::{BITRATE_MAX, PlayerAction, PlayerEvent, Reported};
pub use read::{Events, Selection};
pub use standby::EraseElsewhere;
pub use tables::schema;

use budget::Usage;
use compress::Compression;
use dedup::{DedupWindow, day_of, oldest_day};
use notices::Notices;
use playgate_domain::accounts::UserExists;
use playgate_store::Store;
use playgate_types::{UnixSeconds, UserId};
use segment::{Directory, TelemetrySegment};
use sequence_gaps::Gaps;
use sync_thread::SyncThread;
use tables::DayUsage;

#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    pub directory: PathBuf,
    pub retention_days: u32,
    pub budgets: Budgets,
    /// Whether files are synced. Only the control runs of durability tests switch this off.
    pub sync: bool,
    /// Checks that the user exists in the same transaction: an event stored after an erasure would never be erased.
    pub exists: UserExists,
}

/// Receives each new event that counts for the figures, once, after it is stored. Calls must not block.
pub trait EventObserver: Send + Sync {
    /// `events` are the events of one upload, in order.
    fn stored_all(
        &self,
        sender: Sender,
        events: &mut dyn Iterator<Item = Box<PlayerEvent>>,
        received: UnixSeconds,
    );

    fn erased(&self, user: &UserId);
}

#[derive(Clone)]
pub struct Telemetry {
    inner: Arc<Inner>,
    /// The thread stops when the last handle is dropped.
    _sync: Arc<SyncThread>,
}

struct Inner {
    store: Store,
    settings: TelemetrySettings,
    directory: Directory,
    state: Mutex<TelemetryState>,
    /// Notified after each sync of the segment, successful or not.
    synced: Condvar,
    /// Held while a segment file is rewritten, or read before it is reopened: both take time in proportion to its size.
    /// Lock order: before `state`, never while `state` is locked.
    rewriting: Mutex<()>,
    compression: Mutex<Compression>,
    /// Set once, after the services are opened.
    observer: OnceLock<Arc<dyn EventObserver>>,
    /// Set on the owner of a fleet.
    elsewhere: OnceLock<EraseElsewhere>,
}

#[derive(Default)]
struct TelemetryState {
    segment: Option<TelemetrySegment>,
    /// Finished segments that are not synced yet. The sync thread closes them.
    done: Vec<TelemetrySegment>,
    usage: Usage,
    notices: Notices,
    dedup: DedupWindow,
    gaps: Gaps,
    /// An hour, and the users that the index already has an entry for in that hour.
    indexed: (i64, HashSet<UserId>),
    counts: TelemetryCounts,
    /// When the oldest event that no sync covers yet was appended.
    unsynced_since: Option<Instant>,
    /// The same for the events that the running sync covers.
    syncing_since: Option<Instant>,
    /// Once set, every batch is rejected with this error: a failed sync is never retried.
    failed: Option<TelemetryError>,
}

const fn hour_of(now: UnixSeconds) -> i64 {
    now.0.div_euclid(playgate_types::time::HOUR)
}

/// One file that cannot be read must not stop the service. Its events stay where they are until retention drops the hour.
fn report_unreadable(
    directory: &Directory,
    hour: i64,
    error: TelemetryError,
) -> Result<(), TelemetryError> {
    let file = directory.events(hour);
    match error {
        TelemetryError::Io(error) => {
            tracing::error!(file = %file.display(), error, "cannot read a telemetry file; its events are left out, and a player that sends one of them again is not noticed; make the file readable for the service's user, or delete it");
            Ok(())
        }
        other => Err(other),
    }
}

impl Telemetry {
    /// Opens the files for erasure and retention. [`begin`](Self::begin) must be called before the first upload.
    ///
    /// `on_failure` is called once, when a sync has failed and the process has to restart.
    pub fn open(
        store: Store,
        settings: TelemetrySettings,
        on_failure: impl Fn(&TelemetryError) + Send + 'static,
    ) -> Result<Self, TelemetryError> {
        let inner = Arc::new(Inner {
            store,
            directory: Directory::open(&settings.directory, settings.sync)?,
            settings,
            state: Mutex::default(),
            synced: Condvar::new(),
            rewriting: Mutex::new(()),
            compression: Mutex::default(),
            observer: OnceLock::new(),
            elsewhere: OnceLock::new(),
        });
        let sync = SyncThread::start(Arc::clone(&inner), on_failure)?;
        Ok(Self {
            inner,
            _sync: Arc::new(sync),
        })
    }

    /// Reads what uploads are compared with, and completes the index of the store.
    pub fn begin(&self, now: UnixSeconds) -> Result<(), TelemetryError> {
        let (store, directory) = (&self.inner.store, &self.inner.directory);
        // An erasure must not replace a file that is read here.
        let _rewriting = self.inner.rewriting.lock();
        let hour = hour_of(now);
        // Budgets are by UTC day: rows of older days do not count.
        let saved = store.read(|txn| txn.scan::<DayUsage>(&now.utc_day(), usize::MAX))?;
        let mut state = TelemetryState {
            usage: Usage::begin(now, saved),
            ..TelemetryState::default()
        };
        state.usage.total = directory.sizes()?.values().sum();
        for known_hour in directory.hours()? {
            // The current hour is read below, since its segment is opened for appending.
            if day_of(known_hour) < oldest_day(hour) || known_hour == hour {
                continue;
            }
            match directory.fingerprints(known_hour) {
                Ok(known) => state.dedup.remember(&known, known_hour),
                Err(error) => {
                    report_unreadable(directory, known_hour, error.into())?;
                    state.notices.add_unreadable(known_hour);
                }
            }
        }
        if directory.events(hour).exists() {
            match TelemetrySegment::open_or_replace(directory, hour).map_err(TelemetryError::from) {
                Ok(segment) => {
                    state.dedup.remember(segment.keys(), hour);
                    state.segment = Some(segment);
                }
                // The disk is full: the first batch after space is freed opens the segment.
                Err(TelemetryError::Full) => {
                    state.dedup.remember(&directory.fingerprints(hour)?, hour);
                }
                // A failed sync, or the process lacks descriptors: the next start tries again.
                Err(error) => return Err(error),
            }
        }
        state.notices.look(directory.hours()?, &[]);
        *self.inner.state.lock() = state;
        match self.complete_index() {
            Ok(0) => {}
            Ok(added) => tracing::info!(added, "added missing entries to the telemetry index"),
            // The next start tries again.
            Err(error) => {
                tracing::warn!(%error, "failed to complete the telemetry index; the next start tries again")
            }
        }
        Ok(())
    }

    /// Sets the observer of events and erasures. Only the first call has an effect.
    pub fn observe(&self, observer: Arc<dyn EventObserver>) {
        let _ = self.inner.observer.set(observer);
    }

    pub fn counts(&self) -> TelemetryCounts {
        let state = self.inner.state.lock();
        TelemetryCounts {
            lost: state.gaps.lost(),
            remembered: state.dedup.len() as u64,
            ..state.counts
        }
    }
}
