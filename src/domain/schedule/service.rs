//! The schedule service: opens the schedule, publishes snapshots, and handles retention and changes of rights.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::channel::Channel;
use super::channel_builder::Builder;
use super::chunk_store::ChunkStore;
use super::import::GuideError;
use super::json_arena::JsonArena;
use super::lost_overrides::{self, LostOverride, LostOverrides};
use super::model::Broadcast;
use super::query::ScheduleSettings;
use super::rights::Rights;
use super::snapshot::ScheduleSnapshot;
use super::source_spans::AllSourceSpans;
use super::tables::Heads;
use playgate_store::{Derived, MemoryTable, Store, StoreError, Table as _};
use playgate_types::time::DAY;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds};

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Guide(#[from] GuideError),
    /// The served schedule has not changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Called with the schedule locked, so that of two changes the later one never uses older rights.
pub type CurrentRights = Box<dyn Fn() -> Arc<dyn Rights> + Send + Sync>;

pub struct Schedule {
    pub(super) store: Store,
    pub(super) rights: CurrentRights,
    /// Replaced by the commit that moves the head, and by what changes no broadcast: rights and
    /// retention.
    pub(super) snapshot: Arc<Derived<ScheduleSnapshot>>,
    view: ScheduleSettings,
    pub(super) source_spans: Arc<MemoryTable<AllSourceSpans>>,
    pub(super) lost: Arc<MemoryTable<LostOverrides>>,
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
        // Only the head is watched: a generation that it does not name yet is not served.
        let watch = store.watch(&[Heads::NAME])?;
        // After the watch: a commit in between is seen twice and not missed.
        let (chunks, snapshot) = load(&store, &*source())?;
        let source_spans = Arc::new(MemoryTable::default());
        store.attach::<AllSourceSpans>(Arc::clone(&source_spans) as _)?;
        let lost = Arc::new(MemoryTable::default());
        store.attach::<LostOverrides>(Arc::clone(&lost) as _)?;
        Ok(Self {
            store,
            source_spans,
            lost,
            rights: source,
            snapshot: Derived::new(snapshot, watch),
            view,
            chunks: Mutex::new(chunks),
        })
    }

    /// Deletes the chunks of failed imports. Must be called once this process may change the store.
    pub fn begin(&self) {
        if let Err(error) = self.chunks.lock().sweep(&self.store) {
            // Not fatal: the next import deletes them before it writes.
            tracing::warn!(%error, "failed to delete the chunks of a failed import; will retry");
        }
    }

    /// Cheap. Holding the guard keeps the snapshot in memory.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<ScheduleSnapshot>> {
        self.snapshot.load()
    }

    /// Counts the published snapshots, including those after a change of the catalogue:
    /// [`Derived::generation`].
    pub fn generation(&self) -> u64 {
        self.snapshot.generation()
    }

    pub fn view(&self) -> &ScheduleSettings {
        &self.view
    }

    /// Follows commits that another process has planned; returns whether there were any. Blocking.
    pub fn catch_up(&self) -> Result<bool, ScheduleError> {
        self.follow(&mut self.chunks.lock())
    }

    /// Whether the snapshot has every guide that was committed so far.
    pub fn is_current(&self) -> bool {
        self.snapshot.is_current()
    }

    /// Locks the schedule for a change, which must be based on every earlier commit.
    pub(super) fn lock(&self) -> Result<MutexGuard<'_, ChunkStore>, ScheduleError> {
        let mut chunks = self.chunks.lock();
        // A member of a fleet may have become the owner: its chunks must be the newest before it writes.
        self.follow(&mut chunks)?;
        Ok(chunks)
    }

    fn follow(&self, chunks: &mut ChunkStore) -> Result<bool, ScheduleError> {
        self.snapshot.catch_up(|| {
            let (loaded, snapshot) = load(&self.store, &*(self.rights)())?;
            *chunks = loaded;
            Ok(snapshot)
        })
    }

    pub fn broadcasts(&self, livestream: &LivestreamId) -> Result<Vec<Broadcast>, ScheduleError> {
        Ok(self.chunks.lock().read(&self.store, livestream)?)
    }

    /// The broadcast that an override was for, if an import has removed it.
    pub fn lost_override(&self, id: &BroadcastId) -> Option<Arc<LostOverride>> {
        self.lost.get(id).filter(|_| self.is_lost(id))
    }

    /// All of them, in order of time.
    pub fn lost_overrides(&self) -> Vec<(BroadcastId, Arc<LostOverride>)> {
        let mut all = Vec::new();
        self.lost
            .for_each(|id, lost| all.push((id.clone(), Arc::clone(lost))));
        all.retain(|(id, _)| self.is_lost(id));
        all.sort_by_key(|(_, lost)| lost.start);
        all
    }

    fn is_lost(&self, id: &BroadcastId) -> bool {
        let is_back = self.snapshot.load().broadcast(id.as_str()).is_some();
        !is_back && (self.rights)().has_override(id)
    }

    /// Forgets lost overrides that are over, removed, or have their broadcast again.
    pub fn sweep_lost_overrides(&self, now: UnixSeconds) -> Result<usize, ScheduleError> {
        let is_lost = |id: &BroadcastId| self.is_lost(id);
        Ok(lost_overrides::sweep(
            &self.store,
            &self.lost,
            now,
            is_lost,
        )?)
    }

    /// Reads the store, for fields that no answer contains.
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

    /// Must be called after the rights of these livestreams have changed. After an error the old answers stay.
    pub fn refresh_some(&self, livestreams: &[LivestreamId]) -> Result<(), ScheduleError> {
        let mut chunks = self.lock()?;
        let rights = (self.rights)();
        let mut channels = Vec::new();
        let mut arena = JsonArena::default();
        for livestream in livestreams {
            let broadcasts = chunks.read(&self.store, livestream)?;
            channels.extend(render(livestream, &broadcasts, &*rights, &mut arena));
        }
        let next = self.with_channels(&mut chunks, channels, arena);
        self.snapshot.replace(next);
        Ok(())
    }

    /// Must be called after a change of livestreams or rights. After an error the old answers stay.
    pub fn refresh(&self) -> Result<(), ScheduleError> {
        let chunks = self.lock()?;
        let rights = (self.rights)();
        let mut channels = Vec::new();
        let mut arena = JsonArena::default();
        for livestream in rights.livestreams() {
            let broadcasts = chunks.read(&self.store, &livestream)?;
            channels.extend(render(&livestream, &broadcasts, &*rights, &mut arena));
        }
        self.snapshot
            .replace(Arc::new(ScheduleSnapshot::new(channels)));
        Ok(())
    }

    /// Returns how many chunks were removed. Even after an error the days are not served any more.
    pub fn retain(&self, now: UnixSeconds, retention_days: u32) -> Result<usize, ScheduleError> {
        let mut chunks = self.lock()?;
        let first = first_day(now, retention_days);
        let dropped = chunks.drop_before(&self.store, first);
        self.hide_before(first);
        // Reported after publishing: viewers must not see days that the operator has ordered to delete.
        let dropped = dropped?;
        chunks.sweep(&self.store)?;
        Ok(dropped)
    }

    /// Serves no days beyond the retention, and leaves the store unchanged: only the owner of a fleet deletes them.
    pub fn hide_old_days(&self, now: UnixSeconds, retention_days: u32) {
        let _chunks = self.chunks.lock();
        self.hide_before(first_day(now, retention_days));
    }

    /// The caller holds the `chunks` lock.
    fn hide_before(&self, first: i64) {
        let from = UnixSeconds(first * DAY);
        let old = self.snapshot.load_full();
        let is_old = |c: &Arc<Channel>| c.starts.first().is_some_and(|start| *start < from);
        if old.channels().any(is_old) {
            // Copy all channels, so that no arena block stays allocated for a few of them.
            let mut arena = JsonArena::default();
            let channels = old.channels().map(|c| Arc::new(c.since(from, &mut arena)));
            let next = ScheduleSnapshot::new(channels.collect::<Vec<_>>());
            self.snapshot.replace(Arc::new(next));
        }
    }

    /// Returns the snapshot with some channels replaced. `new` is in `arena`. The caller holds the `chunks`
    /// lock.
    pub(super) fn with_channels(
        &self,
        chunks: &mut ChunkStore,
        new: Vec<Arc<Channel>>,
        mut arena: JsonArena,
    ) -> Arc<ScheduleSnapshot> {
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
        Arc::new(ScheduleSnapshot::new(kept.into_iter().chain(new)))
    }
}

fn load(
    store: &Store,
    rights: &dyn Rights,
) -> Result<(ChunkStore, ScheduleSnapshot), ScheduleError> {
    let mut channels = Vec::new();
    let mut arena = JsonArena::default();
    let chunks = ChunkStore::load(store, |livestream, broadcasts| {
        channels.extend(render(livestream, &broadcasts, rights, &mut arena));
    })?;
    // The last entry of a name wins: first all livestreams without broadcasts, then those with broadcasts.
    let known = rights.livestreams();
    let empty = known
        .iter()
        .filter_map(|id| render(id, &[], rights, &mut arena));
    let all: Vec<_> = empty.collect();
    let snapshot = ScheduleSnapshot::new(all.into_iter().chain(channels));
    Ok((chunks, snapshot))
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
    let channel = rights.channel(livestream)?;
    let mut builder = Builder::new(livestream.clone(), channel.zone, arena);
    for broadcast in broadcasts {
        builder.push(broadcast, &rights.rights(livestream, broadcast));
    }
    Some(Arc::new(builder.finish()))
}
