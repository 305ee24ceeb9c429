//! The schedule as the rest of the service uses it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::channel::Channel;
use super::channel_builder::{Builder, JsonArena};
use super::chunk_store::ChunkStore;
use super::import::GuideError;
use super::model::Broadcast;
use super::query::ScheduleSettings;
use super::rights::Rights;
use super::snapshot::Snapshot;
use super::source_spans::AllSourceSpans;
use crate::store::{MemoryTable, Store, StoreError};
use crate::types::time::DAY;
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

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

/// The catalogue as it is at the moment. It is asked while the schedule is held for a change, so
/// that of two changes the later one never works with the older rights.
pub type CurrentRights = Box<dyn Fn() -> Arc<dyn Rights> + Send + Sync>;

/// The broadcast schedule.
pub struct Schedule {
    pub(super) store: Store,
    pub(super) rights: CurrentRights,
    pub(super) snapshot: ArcSwap<Snapshot>,
    /// How often the snapshot was replaced.
    generation: AtomicU64,
    view: ScheduleSettings,
    /// Which sources filled what.
    pub(super) claims: Arc<MemoryTable<AllSourceSpans>>,
    /// Held by whoever changes the schedule: one at a time.
    pub(super) shelf: Mutex<ChunkStore>,
}

impl Schedule {
    /// Reads the schedule from the store and prepares every answer.
    ///
    /// # Errors
    /// That the store cannot be read. Damaged parts are reported and left out.
    pub fn open(
        store: Store,
        source: CurrentRights,
        view: ScheduleSettings,
    ) -> Result<Self, ScheduleError> {
        let rights = source();
        let rights = &*rights;
        let mut channels = Vec::new();
        let mut slab = JsonArena::default();
        let mut shelf = ChunkStore::load(&store, |livestream, broadcasts| {
            channels.extend(render(livestream, &broadcasts, rights, &mut slab));
        })?;
        if let Err(error) = shelf.sweep(&store) {
            // Reading goes on; the next import tries again before it writes.
            tracing::warn!(%error, "what an import left behind could not be deleted");
        }
        // Of two with one name the later counts: first every livestream, then those with broadcasts.
        let known = rights.livestreams();
        let empty = known
            .iter()
            .filter_map(|id| render(id, &[], rights, &mut slab));
        let all: Vec<_> = empty.collect();
        let snapshot = Snapshot::new(all.into_iter().chain(channels));
        let claims = Arc::new(MemoryTable::default());
        store.attach::<AllSourceSpans>(Arc::clone(&claims) as _)?;
        Ok(Self {
            store,
            claims,
            rights: source,
            snapshot: ArcSwap::from_pointee(snapshot),
            generation: AtomicU64::new(0),
            view,
            shelf: Mutex::new(shelf),
        })
    }

    /// The schedule as it is now. Taking it is cheap; holding it keeps it in memory.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Counts the changes of what is served since the schedule was opened. It changes after the
    /// schedule, and after the catalogue, which the answers are prepared anew for.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How tv days are cut and streams padded.
    #[must_use]
    pub fn view(&self) -> &ScheduleSettings {
        &self.view
    }

    /// All that is kept of a livestream, in order, read from the store: for exports.
    ///
    /// # Errors
    /// That the store cannot be read.
    pub fn broadcasts(&self, livestream: &LivestreamId) -> Result<Vec<Broadcast>, ScheduleError> {
        Ok(self.shelf.lock().read(&self.store, livestream)?)
    }

    /// A broadcast and its livestream, read from the store: with what no answer says.
    ///
    /// # Errors
    /// That the store cannot be read.
    pub fn broadcast(
        &self,
        id: &BroadcastId,
    ) -> Result<Option<(LivestreamId, Broadcast)>, ScheduleError> {
        let shelf = self.shelf.lock();
        let Some(program) = self.snapshot.load().program(id) else {
            return Ok(None);
        };
        let livestream = program.livestream().clone();
        let day = shelf.read_day(&self.store, &livestream, program.start().utc_day())?;
        let found = day.into_iter().find(|broadcast| broadcast.id == *id);
        Ok(found.map(|broadcast| (livestream, broadcast)))
    }

    /// Prepares the answers of some livestreams anew: to be called when their rights have changed.
    ///
    /// # Errors
    /// That the store cannot be read; the old answers stay.
    pub fn refresh_some(&self, livestreams: &[LivestreamId]) -> Result<(), ScheduleError> {
        let mut shelf = self.shelf.lock();
        let rights = (self.rights)();
        let mut channels = Vec::new();
        let mut slab = JsonArena::default();
        for livestream in livestreams {
            let broadcasts = shelf.read(&self.store, livestream)?;
            channels.extend(render(livestream, &broadcasts, &*rights, &mut slab));
        }
        self.replace(&mut shelf, channels, slab);
        Ok(())
    }

    /// Prepares every answer anew: to be called when livestreams or rights have changed.
    ///
    /// # Errors
    /// That the store cannot be read; the old answers stay.
    pub fn refresh(&self) -> Result<(), ScheduleError> {
        let shelf = self.shelf.lock();
        let rights = (self.rights)();
        let mut channels = Vec::new();
        let mut slab = JsonArena::default();
        for livestream in rights.livestreams() {
            let broadcasts = shelf.read(&self.store, &livestream)?;
            channels.extend(render(&livestream, &broadcasts, &*rights, &mut slab));
        }
        self.publish(Snapshot::new(channels));
        Ok(())
    }

    /// Drops the days that are older than `retention_days`. Returns how many parts of days went.
    ///
    /// # Errors
    /// That the store refused; they are no longer served all the same.
    pub fn retain(&self, now: UnixSeconds, retention_days: u32) -> Result<usize, ScheduleError> {
        let mut shelf = self.shelf.lock();
        let first = first_day(now, retention_days);
        let dropped = shelf.drop_before(&self.store, first);
        let from = UnixSeconds(first * DAY);
        let old = self.snapshot.load_full();
        let is_old = |c: &Arc<Channel>| c.starts.first().is_some_and(|start| *start < from);
        if old.channels().any(is_old) {
            // All are copied, so that no block stays for the sake of a few.
            let mut slab = JsonArena::default();
            let channels = old.channels().map(|c| Arc::new(c.since(from, &mut slab)));
            self.publish(Snapshot::new(channels.collect::<Vec<_>>()));
        }
        let dropped = dropped?;
        shelf.sweep(&self.store)?;
        Ok(dropped)
    }

    /// Replaces what requests read. The caller holds the shelf.
    fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Puts new answers of some livestreams, prepared in `slab`, in the place of their old ones. The
    /// caller holds the shelf.
    ///
    /// A block stays in memory for its last channel. Once a quarter of the schedule was replaced
    /// since all of it was written together, the rest moves into the slab too.
    pub(super) fn replace(
        &self,
        shelf: &mut ChunkStore,
        new: Vec<Arc<Channel>>,
        mut slab: JsonArena,
    ) {
        let old = self.snapshot.load_full();
        let (_, json) = old.memory();
        shelf.replaced += slab.filled;
        let mut kept: Vec<_> = old.channels().cloned().collect();
        drop(old);
        if shelf.replaced > json / 4 {
            shelf.replaced = 0;
            let replaced: HashSet<_> = new.iter().map(|c| c.livestream.clone()).collect();
            kept.retain(|channel| !replaced.contains(&channel.livestream));
            for channel in &mut kept {
                *channel = Arc::new(channel.since(UnixSeconds(i64::MIN), &mut slab));
            }
        }
        // Of two with one name the later counts.
        self.publish(Snapshot::new(kept.into_iter().chain(new)));
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
    slab: &mut JsonArena,
) -> Option<Arc<Channel>> {
    let facts = rights.channel(livestream)?;
    let mut builder = Builder::new(livestream.clone(), facts.zone, slab);
    for broadcast in broadcasts {
        builder.push(broadcast, &rights.rights(livestream, broadcast));
    }
    Some(Arc::new(builder.finish()))
}
