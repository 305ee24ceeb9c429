//! Which chunks of the store count, and how they are read, written and swept.

use std::collections::BTreeMap;

use super::model::Broadcast;
use super::source_spans::{AllSourceSpans, SourceSpans};
use super::tables::{ByDay, Chunk, ChunkKey, Chunks, Head, Heads, chunks};
use crate::store::{All, Durability, Store, StoreError};
use crate::types::LivestreamId;

/// How many chunks are read at a time, and how many are written in one plan: at most 192 KiB, so
/// that commits of others do not wait long behind one.
const BATCH: usize = 16;
/// How many chunks one plan deletes.
const SWEEP: usize = 1_000;
/// How many chunks retention takes at a time: several days of a usual schedule; the next run goes on.
const RETIRED: usize = 100_000;

/// The chunks of one day that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Day {
    generation: u64,
    chunks: u32,
}

type Days = BTreeMap<i64, Day>;

/// What lies in the store. Whoever changes the schedule holds it alone.
#[derive(Default)]
pub(super) struct ChunkStore {
    /// The newest generation that counts.
    generation: u64,
    livestreams: BTreeMap<LivestreamId, Days>,
    /// How much of the prepared JSON was replaced since all of it was written together, in bytes.
    pub(super) replaced: usize,
    /// Chunks that do not count and are to be deleted.
    garbage: Vec<ChunkKey>,
}

impl ChunkStore {
    /// Reads everything, one livestream after the other, in order.
    pub(super) fn load(
        store: &Store,
        mut each: impl FnMut(&LivestreamId, Vec<Broadcast>),
    ) -> Result<Self, StoreError> {
        let head = store.read(|txn| txn.get::<Heads>(&0))?.unwrap_or_default();
        let mut shelf = Self {
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
            from = Some((last.0.clone(), last.1, last.2, last.3.saturating_add(1)));
            for (key, chunk) in page {
                if open
                    .as_ref()
                    .is_none_or(|(livestream, _)| *livestream != key.0)
                {
                    let next = (key.0.clone(), BTreeMap::new());
                    if let Some((livestream, days)) = open.replace(next) {
                        each(&livestream, days.into_values().flatten().collect());
                    }
                }
                if let Some((_, days)) = &mut open {
                    shelf.found(key, chunk, days);
                }
            }
        }
        if let Some((livestream, days)) = open {
            each(&livestream, days.into_values().flatten().collect());
        }
        Ok(shelf)
    }

    /// Takes note of a chunk; keys come in order, so a later generation follows an earlier one.
    fn found(
        &mut self,
        key: ChunkKey,
        chunk: Option<Chunk>,
        broadcasts: &mut BTreeMap<i64, Vec<Broadcast>>,
    ) {
        let (livestream, day, generation, number) = key.clone();
        if generation > self.generation {
            self.garbage.push(key);
            return;
        }
        let known = self.livestreams.entry(livestream.clone()).or_default();
        if known
            .get(&day)
            .is_some_and(|known| known.generation < generation)
        {
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
            // The rest of the schedule is sound; the next import writes this day anew.
            None => tracing::error!(
                livestream = livestream.as_str(),
                day,
                "a damaged part of the schedule was left out"
            ),
        }
    }

    /// All broadcasts of a livestream, in order. A damaged chunk is left out: its day then differs
    /// from what an import brings, and is written anew.
    pub(super) fn read(
        &self,
        store: &Store,
        livestream: &LivestreamId,
    ) -> Result<Vec<Broadcast>, StoreError> {
        let days = self.livestreams.get(livestream).into_iter().flatten();
        let days = days.flat_map(|(day, state)| keys(livestream, *day, Some(*state)));
        read_chunks(store, days)
    }

    /// The broadcasts of a livestream that start on one UTC day.
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

    /// Begins to write a new generation. What an earlier one left behind has to go first: it
    /// would count as soon as this one does.
    pub(super) fn begin<'a>(
        &mut self,
        store: &'a Store,
    ) -> Result<PendingGeneration<'a>, StoreError> {
        self.sweep(store)?;
        Ok(PendingGeneration {
            store,
            generation: self.generation + 1,
            batch: Vec::new(),
            days: Vec::new(),
        })
    }

    /// Makes what was written count, in one commit.
    pub(super) fn switch(
        &mut self,
        mut writing: PendingGeneration<'_>,
        claims: Vec<(LivestreamId, SourceSpans)>,
    ) -> Result<(), StoreError> {
        let generation = writing.generation;
        let flushed = writing.flush();
        let switched = flushed.and_then(|()| {
            let head = Head { generation };
            writing
                .store
                .write(Durability::Durable, move |txn| {
                    txn.put::<Heads>(&0, &head)?;
                    let mut claims = claims.iter();
                    claims.try_for_each(|(id, claims)| txn.put::<AllSourceSpans>(id, claims))
                })
                .wait()
        });
        if let Err(error) = switched {
            self.abandon(writing);
            return Err(error);
        }
        self.generation = generation;
        for (livestream, day, state) in writing.days {
            let days = self.livestreams.entry(livestream.clone()).or_default();
            let old = days.insert(day, state);
            self.garbage.extend(keys(&livestream, day, old));
        }
        Ok(())
    }

    /// What was written does not count and is to be deleted.
    pub(super) fn abandon(&mut self, writing: PendingGeneration<'_>) {
        for (livestream, day, state) in writing.days {
            self.garbage.extend(keys(&livestream, day, Some(state)));
        }
    }

    /// Takes days before `first` off the shelf: as the index by day has them, so that not every
    /// livestream is looked through.
    pub(super) fn drop_before(&mut self, store: &Store, first: i64) -> Result<usize, StoreError> {
        let old = store.read(|txn| txn.range_index::<ByDay>(&All, &first, RETIRED))?;
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
        // An older generation of such a day may have been noted before.
        self.garbage.sort_unstable();
        self.garbage.dedup();
        Ok(dropped)
    }

    /// Deletes what does not count. What could not be deleted stays noted.
    pub(super) fn sweep(&mut self, store: &Store) -> Result<(), StoreError> {
        while !self.garbage.is_empty() {
            let rest = self.garbage.split_off(self.garbage.len().min(SWEEP));
            let batch = self.garbage.clone();
            store
                .write(Durability::Logged, move |txn| {
                    batch.iter().try_for_each(|key| txn.delete::<Chunks>(key))
                })
                .wait()?;
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
            Ok(chunk) => broadcasts.extend(chunk.into_iter().flat_map(|c| c.broadcasts)),
            Err(StoreError::Damaged { place, what }) => {
                tracing::error!(place, what, "a damaged part of the schedule was left out");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(broadcasts)
}

/// The keys of a day's chunks.
fn keys(livestream: &LivestreamId, day: i64, state: Option<Day>) -> Vec<ChunkKey> {
    let chunks = state.map_or(0, |state| state.chunks);
    let generation = state.map_or(0, |state| state.generation);
    (0..chunks)
        .map(|number| (livestream.clone(), day, generation, number))
        .collect()
}

/// A generation that is being written and does not count yet.
pub(super) struct PendingGeneration<'a> {
    store: &'a Store,
    generation: u64,
    batch: Vec<(ChunkKey, Chunk)>,
    days: Vec<(LivestreamId, i64, Day)>,
}

impl PendingGeneration<'_> {
    /// Whether no day was written.
    pub(super) fn is_empty(&self) -> bool {
        self.days.is_empty()
    }

    /// Writes the days of a livestream that differ between two lists.
    pub(super) fn replace(
        &mut self,
        livestream: &LivestreamId,
        old: &[Broadcast],
        new: &[Broadcast],
    ) -> Result<(), StoreError> {
        let (old, new) = (by_day(old), by_day(new));
        for (day, broadcasts) in &new {
            if old.get(day) != Some(broadcasts) {
                self.day(livestream, *day, broadcasts)?;
            }
        }
        for day in old.keys().filter(|day| !new.contains_key(day)) {
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

/// The broadcasts of each UTC day on which any starts.
fn by_day(list: &[Broadcast]) -> BTreeMap<i64, &[Broadcast]> {
    list.chunk_by(|a, b| a.start.utc_day() == b.start.utc_day())
        .filter_map(|day| Some((day.first()?.start.utc_day(), day)))
        .collect()
}
