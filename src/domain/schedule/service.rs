//! The schedule as the rest of the service uses it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::channel::{Builder, Channel};
use super::import::GuideError;
use super::model::Broadcast;
use super::query::View;
use super::rights::Rights;
use super::shelf::Shelf;
use super::snapshot::Snapshot;
use crate::store::{Store, StoreError};
use crate::types::time::DAY;
use crate::types::{LivestreamId, UnixSeconds};

/// Why the schedule could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The guide cannot be used.
    #[error(transparent)]
    Guide(#[from] GuideError),
    /// The store could not do its part; nothing that is served has changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The broadcast schedule.
pub struct Schedule {
    pub(super) store: Store,
    pub(super) snapshot: ArcSwap<Snapshot>,
    view: View,
    /// Held by whoever changes the schedule: one at a time.
    pub(super) shelf: Mutex<Shelf>,
}

impl Schedule {
    /// Reads the schedule from the store and prepares every answer.
    ///
    /// # Errors
    /// That the store cannot be read. Damaged parts are reported and left out.
    pub fn open(store: Store, rights: &dyn Rights, view: View) -> Result<Self, ScheduleError> {
        let mut channels = Vec::new();
        let mut shelf = Shelf::load(&store, |livestream, broadcasts| {
            channels.extend(render(livestream, &broadcasts, rights));
        })?;
        if let Err(error) = shelf.sweep(&store) {
            // Reading goes on; the next import tries again before it writes.
            tracing::warn!(%error, "what an import left behind could not be deleted");
        }
        let snapshot = with_empty(channels, rights);
        Ok(Self {
            store,
            snapshot: ArcSwap::from_pointee(snapshot),
            view,
            shelf: Mutex::new(shelf),
        })
    }

    /// The schedule as it is now. Taking it is cheap; holding it keeps it in memory.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// How tv days are cut and streams padded.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Prepares every answer anew: to be called when livestreams or rights have changed.
    ///
    /// # Errors
    /// That the store cannot be read; the old answers stay.
    pub fn refresh(&self, rights: &dyn Rights) -> Result<(), ScheduleError> {
        let shelf = self.shelf.lock();
        let mut channels = Vec::new();
        for livestream in rights.livestreams() {
            let broadcasts = shelf.read(&self.store, &livestream)?;
            channels.extend(render(&livestream, &broadcasts, rights));
        }
        self.publish(Snapshot::of(channels));
        Ok(())
    }

    /// Drops the days that are older than `retention_days`.
    ///
    /// # Errors
    /// That the store refused; they are no longer served all the same.
    pub fn retain(&self, now: UnixSeconds, retention_days: u32) -> Result<(), ScheduleError> {
        let mut shelf = self.shelf.lock();
        let first = first_day(now, retention_days);
        shelf.drop_before(first);
        let from = UnixSeconds(first * DAY);
        let old = self.snapshot.load_full();
        let starts_before = |c: &Channel| c.starts.first().is_some_and(|start| *start < from);
        if old.channels().any(|channel| starts_before(channel)) {
            let channels = old.channels().map(|channel| {
                if starts_before(channel) {
                    Arc::new(channel.since(from))
                } else {
                    Arc::clone(channel)
                }
            });
            self.publish(Snapshot::of(channels.collect::<Vec<_>>()));
        }
        shelf.sweep(&self.store)?;
        Ok(())
    }

    /// Replaces what requests read. The caller holds the shelf.
    pub(super) fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }
}

/// The oldest UTC day that is kept.
pub(super) fn first_day(now: UnixSeconds, retention_days: u32) -> i64 {
    now.utc_day() - i64::from(retention_days)
}

/// A livestream's answers, if the catalogue knows it.
pub(super) fn render(
    livestream: &LivestreamId,
    broadcasts: &[Broadcast],
    rights: &dyn Rights,
) -> Option<Arc<Channel>> {
    let facts = rights.channel(livestream)?;
    let mut builder = Builder::new(livestream.clone(), facts.zone);
    for broadcast in broadcasts {
        builder.push(broadcast, &rights.rights(livestream, broadcast));
    }
    Some(Arc::new(builder.finish()))
}

/// A snapshot of these channels and of the livestreams that have no broadcasts.
fn with_empty(channels: Vec<Arc<Channel>>, rights: &dyn Rights) -> Snapshot {
    let known = rights.livestreams();
    let empty = known.iter().filter_map(|id| render(id, &[], rights));
    // Of two with one name the later counts.
    let all: Vec<_> = empty.chain(channels).collect();
    Snapshot::of(all)
}
