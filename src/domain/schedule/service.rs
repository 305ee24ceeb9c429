//! The schedule service: opens the schedule, publishes snapshots, and handles retention and changes of rights.

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
use super::snapshot::ScheduleSnapshot;
use super::source_spans::AllSourceSpans;
use crate::store::{MemoryTable, Store, StoreError};
use crate::types::time::DAY;
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Guide(#[from] GuideError),
    /// What is served has not changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Called with the schedule locked, so that of two changes the later one never uses older rights.
pub type CurrentRights = Box<dyn Fn() -> Arc<dyn Rights> + Send + Sync>;

pub struct Schedule {
    pub(super) store: Store,
    pub(super) rights: CurrentRights,
    pub(super) snapshot: ArcSwap<ScheduleSnapshot>,
    generation: AtomicU64,
    view: ScheduleSettings,
    pub(super) source_spans: Arc<MemoryTable<AllSourceSpans>>,
    /// Locked by a change of the schedule, so that changes run one at a time.
    pub(super) chunks: Mutex<ChunkStore>,
}

impl Schedule {
    /// Renders all answers. Damaged chunks are logged and skipped.
    pub fn open(
        store: Store,
        source: CurrentRights,
        view: ScheduleSettings,
    ) -> Result<Self, ScheduleError> {
        let rights = source();
        let rights = &*rights;
        let mut channels = Vec::new();
        let mut arena = JsonArena::default();
        let mut chunks = ChunkStore::load(&store, |livestream, broadcasts| {
            channels.extend(render(livestream, &broadcasts, rights, &mut arena));
        })?;
        if let Err(error) = chunks.sweep(&store) {
            // Not fatal: the next import deletes them before it writes.
            tracing::warn!(%error, "failed to delete the chunks of a failed import; will retry");
        }
        // The last entry of a name wins: first all livestreams without broadcasts, then those with broadcasts.
        let known = rights.livestreams();
        let empty = known
            .iter()
            .filter_map(|id| render(id, &[], rights, &mut arena));
        let all: Vec<_> = empty.collect();
        let snapshot = ScheduleSnapshot::new(all.into_iter().chain(channels));
        let source_spans = Arc::new(MemoryTable::default());
        store.attach::<AllSourceSpans>(Arc::clone(&source_spans) as _)?;
        Ok(Self {
            store,
            source_spans,
            rights: source,
            snapshot: ArcSwap::from_pointee(snapshot),
            generation: AtomicU64::new(0),
            view,
            chunks: Mutex::new(chunks),
        })
    }

    /// Cheap; holding the guard keeps the snapshot in memory.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<ScheduleSnapshot>> {
        self.snapshot.load()
    }

    /// Counts the published snapshots, including those after a change of the catalogue. An answer
    /// computed after reading a generation is at least as new as that generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn view(&self) -> &ScheduleSettings {
        &self.view
    }

    pub fn broadcasts(&self, livestream: &LivestreamId) -> Result<Vec<Broadcast>, ScheduleError> {
        Ok(self.chunks.lock().read(&self.store, livestream)?)
    }

    /// Includes fields that no answer contains.
    pub fn broadcast(
        &self,
        id: &BroadcastId,
    ) -> Result<Option<(LivestreamId, Broadcast)>, ScheduleError> {
        // Locked before the snapshot is read: an import must not delete the chunk in between.
        let chunks = self.chunks.lock();
        let Some(program) = self.snapshot.load().program(id) else {
            return Ok(None);
        };
        let livestream = program.livestream().clone();
        let day = chunks.read_day(&self.store, &livestream, program.start().utc_day())?;
        let found = day.into_iter().find(|broadcast| broadcast.id == *id);
        Ok(found.map(|broadcast| (livestream, broadcast)))
    }

    /// Call it after their rights have changed. After an error the old answers stay.
    pub fn refresh_some(&self, livestreams: &[LivestreamId]) -> Result<(), ScheduleError> {
        let mut chunks = self.chunks.lock();
        let rights = (self.rights)();
        let mut channels = Vec::new();
        let mut arena = JsonArena::default();
        for livestream in livestreams {
            let broadcasts = chunks.read(&self.store, livestream)?;
            channels.extend(render(livestream, &broadcasts, &*rights, &mut arena));
        }
        self.replace(&mut chunks, channels, arena);
        Ok(())
    }

    /// Call it after a change of livestreams or rights. After an error the old answers stay.
    pub fn refresh(&self) -> Result<(), ScheduleError> {
        let chunks = self.chunks.lock();
        let rights = (self.rights)();
        let mut channels = Vec::new();
        let mut arena = JsonArena::default();
        for livestream in rights.livestreams() {
            let broadcasts = chunks.read(&self.store, &livestream)?;
            channels.extend(render(&livestream, &broadcasts, &*rights, &mut arena));
        }
        self.publish(ScheduleSnapshot::new(channels));
        Ok(())
    }

    /// Returns how many chunks were removed. Even after an error the days are not served any more.
    pub fn retain(&self, now: UnixSeconds, retention_days: u32) -> Result<usize, ScheduleError> {
        let mut chunks = self.chunks.lock();
        let first = first_day(now, retention_days);
        let dropped = chunks.drop_before(&self.store, first);
        let from = UnixSeconds(first * DAY);
        let old = self.snapshot.load_full();
        let is_old = |c: &Arc<Channel>| c.starts.first().is_some_and(|start| *start < from);
        if old.channels().any(is_old) {
            // Copy all channels, so that no arena block stays allocated for a few of them.
            let mut arena = JsonArena::default();
            let channels = old.channels().map(|c| Arc::new(c.since(from, &mut arena)));
            self.publish(ScheduleSnapshot::new(channels.collect::<Vec<_>>()));
        }
        // Reported after publishing: viewers must not see days that the operator has ordered to delete.
        let dropped = dropped?;
        chunks.sweep(&self.store)?;
        Ok(dropped)
    }

    /// The caller holds the `chunks` lock.
    fn publish(&self, snapshot: ScheduleSnapshot) {
        self.snapshot.store(Arc::new(snapshot));
        // After the snapshot is replaced, so that a reader of the new number also gets the new snapshot.
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// `new` is in `arena`. The caller holds the `chunks` lock.
    pub(super) fn replace(
        &self,
        chunks: &mut ChunkStore,
        new: Vec<Arc<Channel>>,
        mut arena: JsonArena,
    ) {
        let old = self.snapshot.load_full();
        let (_, json) = old.memory();
        chunks.replaced += arena.filled;
        let mut kept: Vec<_> = old.channels().cloned().collect();
        drop(old);
        // An arena block stays allocated until its last channel is dropped. Once a quarter of the JSON has
        // been replaced, the other channels are copied into the new arena too.
        if chunks.replaced > json / 4 {
            chunks.replaced = 0;
            let replaced: HashSet<_> = new.iter().map(|c| c.livestream.clone()).collect();
            kept.retain(|channel| !replaced.contains(&channel.livestream));
            for channel in &mut kept {
                *channel = Arc::new(channel.since(UnixSeconds(i64::MIN), &mut arena));
            }
        }
        // The last entry of a name wins.
        self.publish(ScheduleSnapshot::new(kept.into_iter().chain(new)));
    }
}

pub(super) fn first_day(now: UnixSeconds, retention_days: u32) -> i64 {
    now.utc_day() - i64::from(retention_days)
}

pub(super) fn render(
    livestream: &LivestreamId,
    broadcasts: &[Broadcast],
    rights: &dyn Rights,
    arena: &mut JsonArena,
) -> Option<Arc<Channel>> {
    let facts = rights.channel(livestream)?;
    let mut builder = Builder::new(livestream.clone(), facts.zone, arena);
    for broadcast in broadcasts {
        builder.push(broadcast, &rights.rights(livestream, broadcast));
    }
    Some(Arc::new(builder.finish()))
}
