//! Persists the schedule in chunks: which chunks are valid, and how they are read, written and deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::Broadcast;
use super::snapshot::ScheduleSnapshot;
use super::source_spans::{AllSourceSpans, SourceSpans};
use super::tables::{ByDay, Chunk, ChunkKey, Chunks, Heads, ScheduleHead, chunks};
use playgate_store::{All, Derived, Durability, Store, StoreError};
use playgate_types::LivestreamId;

/// Chunks read at a time, and written in one write batch: usually up to 192 KiB, so that other commits do not wait long.
const BATCH: usize = 16;
const SWEEP_MAX: usize = 1_000;
/// Maximum chunks that one retention run removes: several days of a usual schedule.
const RETIRED_MAX: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Day {
    generation: u64,
    chunks: u32,
}

type Days = BTreeMap<i64, Day>;

/// A change of the schedule locks it exclusively.
#[derive(Default)]
pub(super) struct ChunkStore {
    generation: u64,
    livestreams: BTreeMap<LivestreamId, Days>,
    /// Bytes of JSON rendered since all channels were last copied into one arena.
    pub(super) replaced: usize,
    garbage: Vec<ChunkKey>,
}

impl ChunkStore {
    pub(super) fn load(
        store: &Store,
        mut each: impl FnMut(&LivestreamId, Vec<Broadcast>),
    ) -> Result<Self, StoreError> {
        let head = store.read(|txn| txn.get::<Heads>(&0))?.unwrap_or_default();
        let mut chunks = Self {
            generation: head.generation,
            ..Self::default()
        };
        let mut open: Option<(LivestreamId, BTreeMap<i64, Vec<Broadcast>>)> = None;
        let mut from: Option<ChunkKey> = None;
        loop {
            let page = store.read(|txn| txn.scan_from::<Chunks>(from.as_ref(), BATCH))?;
            let Some((last, _)) = page.last() else {
                break;
            };
            // The scan continues after the last key, whose chunk may have been damaged.
            from = Some((last.0.clone(), last.1, last.2, last.3.saturating_add(1)));
            for (key, chunk) in page {
                if open
                    .as_ref()
                    .is_none_or(|(livestream, _)| *livestream != key.0)
                {
                    // Keys are sorted by livestream, so the previous one is complete.
                    let next = (key.0.clone(), BTreeMap::new());
                    if let Some((livestream, days)) = open.replace(next) {
                        each(&livestream, days.into_values().flatten().collect());
                    }
                }
                if let Some((_, days)) = &mut open {
                    chunks.insert(key, chunk, days);
                }
            }
        }
        if let Some((livestream, days)) = open {
            each(&livestream, days.into_values().flatten().collect());
        }
        Ok(chunks)
    }

    fn insert(
        &mut self,
        key: ChunkKey,
        chunk: Option<Chunk>,
        broadcasts: &mut BTreeMap<i64, Vec<Broadcast>>,
    ) {
        let (livestream, day, generation, number) = key.clone();
        if generation > self.generation {
            // Written by an import that did not reach its commit.
            self.garbage.push(key);
            return;
        }
        // Keys come in order, so a later generation follows an earlier one.
        let known = self.livestreams.entry(livestream.clone()).or_default();
        if known
            .get(&day)
            .is_some_and(|known| known.generation < generation)
        {
            // The import that replaced this day was killed before it deleted the old chunks.
            let old = known.remove(&day);
            self.garbage.extend(keys(&livestream, day, old));
            broadcasts.remove(&day);
        }
        let known = known.entry(day).or_insert(Day {
            generation,
            chunks: 0,
        });
        known.chunks = number.saturating_add(1);
        match chunk {
            Some(chunk) => broadcasts.entry(day).or_default().extend(chunk.broadcasts),
            // The rest of the schedule is intact; the next import writes this day again.
            None => tracing::error!(
                livestream = livestream.as_str(),
                day,
                "skipped a damaged schedule chunk; the next import rewrites its day"
            ),
        }
    }

    pub(super) fn read(
        &self,
        store: &Store,
        livestream: &LivestreamId,
    ) -> Result<Vec<Broadcast>, StoreError> {
        let days = self.livestreams.get(livestream).into_iter().flatten();
        let days = days.flat_map(|(day, state)| keys(livestream, *day, Some(*state)));
        // Skips damaged chunks: their day then differs from any import and is written again.
        read_chunks(store, days)
    }

    pub(super) fn read_day(
        &self,
        store: &Store,
        livestream: &LivestreamId,
        day: i64,
    ) -> Result<Vec<Broadcast>, StoreError> {
        let days = self.livestreams.get(livestream);
        let state = days.and_then(|days| days.get(&day).copied());
        read_chunks(store, keys(livestream, day, state))
    }

    pub(super) fn begin<'a>(
        &mut self,
        store: &'a Store,
    ) -> Result<PendingGeneration<'a>, StoreError> {
        // Chunks of a failed import would become valid together with this generation.
        self.sweep(store)?;
        Ok(PendingGeneration {
            store,
            generation: self.generation + 1,
            batch: Vec::new(),
            days: Vec::new(),
        })
    }

    /// One commit makes the written generation valid and publishes the snapshot with it. Without a
    /// snapshot no day was written, and only the source spans change.
    pub(super) fn switch(
        &mut self,
        mut writing: PendingGeneration<'_>,
        source_spans: Vec<(LivestreamId, SourceSpans)>,
        derived: &Arc<Derived<ScheduleSnapshot>>,
        next: Option<Arc<ScheduleSnapshot>>,
    ) -> Result<(), StoreError> {
        let generation = writing.generation;
        let flushed = writing.flush();
        let switched = flushed.and_then(|()| {
            let head = ScheduleHead { generation };
            let derived = Arc::clone(derived);
            let published = next.clone();
            writing
                .store
                // Durable: the old chunks are deleted after this.
                .write(Durability::Durable, move |txn| {
                    for (id, source_spans) in &source_spans {
                        txn.put::<AllSourceSpans>(id, source_spans)?;
                    }
                    if let Some(snapshot) = published {
                        txn.put::<Heads>(&0, &head)?;
                        txn.publish(&derived, snapshot);
                    }
                    Ok::<_, StoreError>(())
                })
                .wait()
        });
        if let Err(error) = switched {
            // The head still names the old generation, so nothing has changed for readers.
            self.abandon(writing);
            return Err(error);
        }
        if next.is_none() {
            return Ok(());
        }
        self.generation = generation;
        for (livestream, day, state) in writing.days {
            let days = self.livestreams.entry(livestream.clone()).or_default();
            let old = days.insert(day, state);
            self.garbage.extend(keys(&livestream, day, old));
        }
        Ok(())
    }

    pub(super) fn abandon(&mut self, writing: PendingGeneration<'_>) {
        for (livestream, day, state) in writing.days {
            self.garbage.extend(keys(&livestream, day, Some(state)));
        }
    }

    pub(super) fn drop_before(&mut self, store: &Store, first: i64) -> Result<usize, StoreError> {
        // The index by day avoids a scan of all livestreams.
        let old = store.read(|txn| txn.range_index::<ByDay>(&All, &first, RETIRED_MAX))?;
        let dropped = old.len();
        for ((day, livestream), key) in old {
            if let Some(days) = self.livestreams.get_mut(&livestream) {
                days.remove(&day);
                if days.is_empty() {
                    self.livestreams.remove(&livestream);
                }
            }
            self.garbage.push(key);
        }
        // An older generation of the day may be recorded already.
        self.garbage.sort_unstable();
        self.garbage.dedup();
        Ok(dropped)
    }

    /// Deletes invalid chunks. Keys that could not be deleted stay recorded.
    ///
    /// # Errors
    /// [`StoreError::Unsettled`] if the head has another generation: a commit of ours that failed was settled in the
    /// meantime, so that its chunks are valid. The schedule is loaded again at the next change.
    pub(super) fn sweep(&mut self, store: &Store) -> Result<(), StoreError> {
        while !self.garbage.is_empty() {
            let rest = self.garbage.split_off(self.garbage.len().min(SWEEP_MAX));
            // The batch is kept until it is deleted, so that an error loses no key.
            let batch = self.garbage.clone();
            let generation = self.generation;
            store
                // Repeated after a power cut, since a start finds these chunks again.
                .write(Durability::Logged, move |txn| {
                    let head = txn.get::<Heads>(&0)?.unwrap_or_default();
                    if head.generation != generation {
                        return Err(StoreError::Unsettled);
                    }
                    batch.iter().try_for_each(|key| txn.delete::<Chunks>(key))
                })
                .wait()
                .inspect_err(|_| self.garbage.extend(rest.iter().cloned()))?;
            self.garbage = rest;
        }
        Ok(())
    }
}

fn read_chunks(
    store: &Store,
    keys: impl IntoIterator<Item = ChunkKey>,
) -> Result<Vec<Broadcast>, StoreError> {
    let mut broadcasts = Vec::new();
    for key in keys {
        match store.read(|txn| txn.get::<Chunks>(&key)) {
            // A chunk that is missing is treated like an empty one.
            Ok(chunk) => broadcasts.extend(chunk.into_iter().flat_map(|c| c.broadcasts)),
            Err(StoreError::Damaged { place, what }) => {
                tracing::error!(
                    place,
                    what,
                    "skipped a damaged schedule chunk; the next import rewrites its day"
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok(broadcasts)
}

fn keys(livestream: &LivestreamId, day: i64, state: Option<Day>) -> Vec<ChunkKey> {
    let chunks = state.map_or(0, |state| state.chunks);
    let generation = state.map_or(0, |state| state.generation);
    (0..chunks)
        .map(|number| (livestream.clone(), day, generation, number))
        .collect()
}

pub(super) struct PendingGeneration<'a> {
    store: &'a Store,
    generation: u64,
    batch: Vec<(ChunkKey, Chunk)>,
    days: Vec<(LivestreamId, i64, Day)>,
}

impl PendingGeneration<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.days.is_empty()
    }

    pub(super) fn replace(
        &mut self,
        livestream: &LivestreamId,
        old: &[Broadcast],
        new: &[Broadcast],
    ) -> Result<(), StoreError> {
        let (old, new) = (by_day(old), by_day(new));
        for (day, broadcasts) in &new {
            // Unchanged days keep their generation, so a usual import writes few chunks.
            if old.get(day) != Some(broadcasts) {
                self.day(livestream, *day, broadcasts)?;
            }
        }
        for day in old.keys().filter(|day| !new.contains_key(day)) {
            // An empty chunk hides the older generation of the day.
            self.day(livestream, *day, &[])?;
        }
        Ok(())
    }

    fn day(
        &mut self,
        livestream: &LivestreamId,
        day: i64,
        broadcasts: &[Broadcast],
    ) -> Result<(), StoreError> {
        let generation = self.generation;
        let mut state = Day {
            generation,
            chunks: 0,
        };
        for chunk in chunks(broadcasts) {
            let key = (livestream.clone(), day, generation, state.chunks);
            self.batch.push((key, chunk));
            state.chunks += 1;
        }
        self.days.push((livestream.clone(), day, state));
        // Bounds the memory and the size of a commit.
        if self.batch.len() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        // A whole guide is more than the memtable takes; other commits must not wait for it.
        self.store.pace();
        self.store
            .write(Durability::Logged, move |txn| {
                batch
                    .iter()
                    .try_for_each(|(key, chunk)| txn.put::<Chunks>(key, chunk))
            })
            .wait()
    }
}

fn by_day(list: &[Broadcast]) -> BTreeMap<i64, &[Broadcast]> {
    list.chunk_by(|a, b| a.start.utc_day() == b.start.utc_day())
        .filter_map(|day| Some((day.first()?.start.utc_day(), day)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::tables::schema;
    use playgate_store::Schema;

    #[test]
    fn a_sweep_deletes_no_chunk_of_a_commit_that_was_settled_later() {
        let store = Store::in_memory(schema(Schema::default()));
        let key: ChunkKey = (LivestreamId::parse("news").unwrap(), 1, 8, 0);
        let put = key.clone();
        let written: Result<(), StoreError> = store
            .write(Durability::Logged, move |txn| {
                let chunk = Chunk {
                    broadcasts: Vec::new(),
                };
                txn.put::<Chunks>(&put, &chunk)?;
                txn.put::<Heads>(&0, &ScheduleHead { generation: 8 })
            })
            .wait();
        written.unwrap();
        // The import of generation 8 got an error, so its chunks count as garbage.
        let mut chunks = ChunkStore {
            generation: 7,
            garbage: vec![key.clone()],
            ..ChunkStore::default()
        };
        assert_eq!(chunks.sweep(&store), Err(StoreError::Unsettled));
        let found = |key: &ChunkKey| store.read(|txn| txn.get::<Chunks>(key)).unwrap();
        assert!(found(&key).is_some());
        chunks.generation = 8;
        assert_eq!(chunks.sweep(&store), Ok(()));
        assert!(found(&key).is_none());
    }
}
