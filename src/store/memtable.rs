//! The memtable: answered commits that the engine does not have yet.
//!
//! The engine is slower than the WAL, so a separate thread applies many commits at a time. Until
//! then reads check the memtable first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::StoreError;
use crate::table::TreeName;
use crate::write_batch::{NewValue, WriteBatch};

/// How long commits wait for others, to be applied as one batch in the order of their keys. What is overwritten within this
/// time, such as the state of a session, reaches the engine once; a leaf that several commits change is written once. A
/// start after a kill replays the commits of this time from the WAL, which takes some milliseconds.
const GATHER_TIME: Duration = Duration::from_secs(10);
/// A batch of this size is applied without waiting. It limits the memory of the memtable and the time of a replay.
const GATHER_BYTES: usize = 4 * 1024 * 1024;

/// The writer waits above this size. It is reached only while the engine applies a batch.
const WAITING_BYTES: usize = 2 * GATHER_BYTES;
/// The limit while the engine is not ready: the commits of a busy service in one or two minutes.
/// They are later applied as one batch, which must not exceed the time limit of an engine step.
const UNREADY_BYTES: usize = 4 * GATHER_BYTES;

/// Bulk writers wait above this lower size while the engine is not ready, so that the writer itself never has to.
const PACED_BYTES: usize = 1024 * 1024;

/// The limit while bulk writers run. The records of new users are in random order in the engine, which reads a leaf for
/// each record of a small batch; a batch of 60,000 users takes half of the processor time. Up to twice this size is in
/// memory.
const BULK_BYTES: usize = 6 * GATHER_BYTES;
const BULK_GATHER: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Memtable {
    state: Mutex<MemtableState>,
    changed: Condvar,
}

#[derive(Default)]
struct MemtableState {
    applying: Option<Arc<WriteBatch>>,
    waiting: WriteBatch,
    /// Commits that the engine must not get before a sync of the WAL, and the number of the last one.
    unsynced: WriteBatch,
    unsynced_number: u64,
    number: u64,
    /// The last commit that was taken for the engine, and the last one that the engine has.
    taken: u64,
    applied: u64,
    stage: MemtableStage,
    /// Whether a caller waits for the engine, so that the next batch is taken immediately.
    is_urgent: bool,
    bulk_writers: usize,
    /// Whether `waiting` may contain commits of bulk writers, even if the last of them has ended. Otherwise the usual limit
    /// would block every commit until the previous batch is applied: 0.8 s with 100,000 new users.
    has_bulk: bool,
}

impl MemtableState {
    fn is_gathering(&self) -> bool {
        let has_time = !self.is_urgent && self.waiting.bytes() < self.gather_bytes();
        has_time && self.stage == MemtableStage::Running && !self.waiting.is_empty()
    }

    const fn paced_bytes(&self, is_ready: bool) -> usize {
        // While the engine is not ready, the rest of the memtable is reserved for other writers.
        match is_ready {
            true => self.gather_bytes(),
            false => PACED_BYTES,
        }
    }

    const fn gather_bytes(&self) -> usize {
        match self.bulk_writers {
            0 => GATHER_BYTES,
            _ => BULK_BYTES,
        }
    }

    /// Adds commits. Returns whether the apply thread must be woken: it may sleep, or the batch is large enough.
    fn add(&mut self, number: u64, batch: WriteBatch) -> bool {
        let was_empty = self.waiting.is_empty();
        self.waiting.merge(batch);
        self.number = number;
        was_empty || self.waiting.bytes() >= self.gather_bytes()
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum MemtableStage {
    #[default]
    Running,
    /// The disk of the engine is full. The memtable is retained, so reads stay correct.
    Stalled,
    Ended,
}

impl Memtable {
    pub(crate) fn push(&self, number: u64, batch: WriteBatch, is_ready: impl Fn() -> bool) {
        let mut state = self.state.lock();
        // While a slow engine is rebuilt, blocking the writer at the lower limit would stop the service.
        let full = |state: &MemtableState| {
            let bytes = state.waiting.bytes();
            let limit = || match (is_ready(), state.has_bulk) {
                (false, _) => UNREADY_BYTES,
                (true, false) => WAITING_BYTES,
                (true, true) => BULK_BYTES + WAITING_BYTES,
            };
            bytes > WAITING_BYTES && bytes > limit()
        };
        // The writer does not wait while the memtable is stalled: it must stay free to answer and to switch engines.
        while state.stage == MemtableStage::Running && full(&state) {
            self.changed.wait(&mut state);
        }
        if state.add(number, batch) {
            self.changed.notify_all();
        }
    }

    /// Adds a commit of a fleet member, whose WAL is synced after the answer. Returns how many bytes wait for a sync.
    pub(crate) fn push_unsynced(&self, number: u64, batch: WriteBatch) -> usize {
        let mut state = self.state.lock();
        // If the engine were ahead of the WAL after a power cut, the chain digest of its last commit would be unknown,
        // and the member could not follow the shared log.
        state.unsynced.merge(batch);
        state.unsynced_number = number;
        state.unsynced.bytes()
    }

    pub(crate) fn synced(&self) {
        let mut state = self.state.lock();
        if state.unsynced.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut state.unsynced);
        let number = state.unsynced_number;
        if state.add(number, batch) {
            self.changed.notify_all();
        }
    }

    pub(crate) fn pace(&self, is_ready: impl Fn() -> bool) {
        loop {
            // The engine is asked before the lock is taken: a switch of engines locks the engine first and the memtable
            // second.
            let is_ready = is_ready();
            let mut state = self.state.lock();
            if state.stage != MemtableStage::Running
                || state.waiting.bytes() <= state.paced_bytes(is_ready)
            {
                return;
            }
            self.changed.wait(&mut state);
        }
    }

    pub(crate) fn begin_bulk(&self) {
        let mut state = self.state.lock();
        state.bulk_writers += 1;
        state.has_bulk = true;
    }

    pub(crate) fn end_bulk(&self) {
        let mut state = self.state.lock();
        state.bulk_writers = state.bulk_writers.saturating_sub(1);
        drop(state);
        self.hurry();
    }

    /// Has the commits gathered so far applied without further waiting.
    pub(crate) fn hurry(&self) {
        self.state.lock().is_urgent = true;
        self.changed.notify_all();
    }

    pub(crate) fn get(&self, tree: TreeName, key: &[u8]) -> Option<NewValue> {
        let state = self.state.lock();
        state
            // The latest change first, since several batches can have the key.
            .unsynced
            .get(tree, key)
            .or_else(|| state.waiting.get(tree, key))
            .or_else(|| state.applying.as_ref()?.get(tree, key))
            .cloned()
    }

    pub(crate) fn range(
        &self,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> BTreeMap<Vec<u8>, NewValue> {
        let state = self.state.lock();
        let applying = state
            .applying
            .iter()
            .flat_map(|batch| batch.range(tree, from, to));
        // Later changes of a key override earlier ones.
        applying
            .chain(state.waiting.range(tree, from, to))
            .chain(state.unsynced.range(tree, from, to))
            .map(|(key, change)| (key.clone(), change.clone()))
            .collect()
    }

    /// Blocks until there are commits for the engine. Returns false once the store has ended and
    /// all commits are applied.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            while state.stage == MemtableStage::Stalled
                || (state.stage == MemtableStage::Running && state.waiting.is_empty())
            {
                self.changed.wait(&mut state);
            }
            let until = Instant::now()
                + match state.bulk_writers {
                    0 => GATHER_TIME,
                    _ => BULK_GATHER,
                };
            while state.is_gathering() && !self.changed.wait_until(&mut state, until).timed_out() {}
            // A closing store still hands over the remaining commits.
            if !state.waiting.is_empty() {
                return true;
            }
            if state.stage == MemtableStage::Ended {
                return false;
            }
            // The engine was replaced while this thread waited; the new one has the commits.
        }
    }

    /// Takes all waiting commits as one batch. It stays readable until [`Memtable::applied`] is called.
    pub(crate) fn next_batch(&self) -> Option<(u64, Arc<WriteBatch>)> {
        let mut state = self.state.lock();
        if state.stage == MemtableStage::Stalled || state.waiting.is_empty() {
            return None;
        }
        let batch = Arc::new(std::mem::take(&mut state.waiting));
        state.applying = Some(Arc::clone(&batch));
        state.taken = state.number;
        state.is_urgent = false;
        state.has_bulk = state.bulk_writers > 0;
        self.changed.notify_all();
        Some((state.number, batch))
    }

    /// Returns false if the memtable was reset after the batch was taken.
    pub(crate) fn is_applying(&self) -> bool {
        self.state.lock().applying.is_some()
    }

    pub(crate) fn applied(&self) {
        let mut state = self.state.lock();
        state.applying = None;
        // `number` may have advanced since the batch was taken, so it cannot be used here.
        state.applied = state.taken;
        drop(state);
        self.changed.notify_all();
    }

    /// Returns false if the store has ended: nothing is left to wait for, and the WAL has what the engine lacks.
    pub(crate) fn stall(&self) -> bool {
        let mut state = self.state.lock();
        let runs = state.stage != MemtableStage::Ended;
        if runs {
            state.stage = MemtableStage::Stalled;
        }
        drop(state);
        self.changed.notify_all();
        runs
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.state.lock().stage == MemtableStage::Stalled
    }

    /// Clears the memtable after a switch to an engine that has every commit.
    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        *state = MemtableState {
            // Bulk writers may still hold their guards.
            bulk_writers: state.bulk_writers,
            has_bulk: state.bulk_writers > 0,
            ..MemtableState::default()
        };
        drop(state);
        // Wakes writers that wait for space.
        self.changed.notify_all();
    }

    pub(crate) fn end(&self) {
        self.state.lock().stage = MemtableStage::Ended;
        self.changed.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn drain(&self) -> Result<(), StoreError> {
        self.reach(u64::MAX)
    }

    /// Blocks until the engine has every commit up to `number`, or the memtable is empty.
    pub(crate) fn reach(&self, number: u64) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        loop {
            let empty =
                state.waiting.is_empty() && state.unsynced.is_empty() && state.applying.is_none();
            match state.stage {
                // An empty memtable counts at every stage, so that a closing store can still be checkpointed.
                _ if empty || state.applied >= number => return Ok(()),
                MemtableStage::Running => {
                    let is_gathered = state.taken >= number || state.waiting.is_empty();
                    if !is_gathered && !state.is_urgent {
                        state.is_urgent = true;
                        self.changed.notify_all();
                    }
                    self.changed.wait(&mut state);
                }
                MemtableStage::Stalled => return Err(StoreError::Full),
                MemtableStage::Ended => return Err(StoreError::Closed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn batch(key: &[u8], value: Option<&[u8]>) -> WriteBatch {
        let mut batch = WriteBatch::default();
        batch.set("t", key.to_vec(), value.map(<[u8]>::to_vec));
        batch
    }

    #[test]
    fn latest_change_is_read_until_the_engine_has_it() {
        let memtable = Memtable::default();
        memtable.push(1, batch(b"a", Some(b"1")), || true);
        let (number, taken) = memtable.next_batch().unwrap();
        assert_eq!(
            (number, taken.get("t", b"a").cloned()),
            (1, Some(Some(b"1".to_vec())))
        );
        memtable.push(2, batch(b"a", None), || true);
        assert_eq!(memtable.get("t", b"a"), Some(None));
        assert_eq!(
            memtable.range("t", b"", None),
            BTreeMap::from([(b"a".to_vec(), None)])
        );
        memtable.applied();
        // Waiting for the first commit does not wait for the second.
        memtable.reach(1).unwrap();
        assert_eq!(memtable.get("t", b"a"), Some(None));
        assert_eq!(memtable.next_batch().unwrap().0, 2);
        memtable.applied();
        assert_eq!(memtable.get("t", b"a"), None);
        memtable.drain().unwrap();
        memtable.end();
        assert!(!memtable.wait());
    }

    #[test]
    fn commit_after_a_bulk_write_does_not_wait_for_its_batches() {
        let memtable = Arc::new(Memtable::default());
        let large = || batch(b"a", Some(&vec![7; BULK_BYTES]));
        memtable.begin_bulk();
        memtable.push(1, large(), || true);
        // The engine is busy with this batch until the end of the test.
        assert_eq!(memtable.next_batch().unwrap().0, 1);
        memtable.push(2, large(), || true);
        memtable.end_bulk();
        let (sender, pushed) = std::sync::mpsc::channel();
        let writer = Arc::clone(&memtable);
        thread::spawn(move || {
            writer.push(3, batch(b"b", Some(b"1")), || true);
            sender.send(()).unwrap();
        });
        pushed.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn unsynced_changes_are_read_and_reach_the_engine_after_the_sync() {
        let memtable = Memtable::default();
        memtable.push(1, batch(b"a", Some(b"1")), || true);
        memtable.push_unsynced(2, batch(b"a", Some(b"2")));
        let read = || memtable.get("t", b"a");
        assert_eq!(read(), Some(Some(b"2".to_vec())));
        let (number, taken) = memtable.next_batch().unwrap();
        assert_eq!(
            (number, taken.get("t", b"a").cloned()),
            (1, Some(Some(b"1".to_vec())))
        );
        assert_eq!(read(), Some(Some(b"2".to_vec())));
        assert_eq!(
            memtable.range("t", b"", None)[&b"a"[..]],
            Some(b"2".to_vec())
        );
        memtable.applied();
        assert!(memtable.next_batch().is_none());
        memtable.synced();
        assert_eq!(read(), Some(Some(b"2".to_vec())));
        assert_eq!(memtable.next_batch().unwrap().0, 2);
        memtable.applied();
        memtable.drain().unwrap();
        assert_eq!(read(), None);
    }

    #[test]
    fn new_record_that_is_deleted_again_never_reaches_the_engine() {
        let memtable = Memtable::default();
        let inserted = |key: &[u8]| {
            let mut batch = WriteBatch::default();
            batch.insert("t", key.to_vec(), b"1".to_vec());
            batch
        };
        memtable.push(1, inserted(b"a"), || true);
        memtable.push(2, batch(b"a", Some(b"2")), || true);
        memtable.push(3, inserted(b"b"), || true);
        memtable.push(4, batch(b"a", None), || true);
        assert_eq!(memtable.get("t", b"a"), None);
        let (number, taken) = memtable.next_batch().unwrap();
        let taken: Vec<_> = WriteBatch::clone(&taken).into_changes().collect();
        assert_eq!(
            (number, taken),
            (4, vec![("t", b"b".to_vec(), Some(b"1".to_vec()))])
        );
        // The engine may have it now, so its deletion has to get there.
        memtable.push(5, batch(b"b", None), || true);
        memtable.push(6, inserted(b"b"), || true);
        memtable.push(7, batch(b"b", None), || true);
        assert_eq!(memtable.get("t", b"b"), Some(None));
        memtable.applied();
        let (_, taken) = memtable.next_batch().unwrap();
        assert_eq!(taken.get("t", b"b"), Some(&None));
    }

    #[test]
    fn apply_thread_gathers_until_somebody_waits_for_the_engine() {
        let memtable = Memtable::default();
        let gathers = |memtable: &Memtable| memtable.state.lock().is_gathering();
        assert!(!gathers(&memtable));
        memtable.push(1, batch(b"a", Some(b"1")), || true);
        assert!(gathers(&memtable));
        thread::scope(|scope| {
            scope.spawn(|| memtable.reach(1).unwrap());
            while gathers(&memtable) {
                thread::yield_now();
            }
            assert!(memtable.wait());
            memtable.next_batch().unwrap();
            memtable.applied();
        });
        // The next batch may wait again, unless it is large or the store ends.
        memtable.push(2, batch(b"a", Some(b"2")), || true);
        assert!(gathers(&memtable));
        memtable.push(3, batch(b"b", Some(&[0; GATHER_BYTES])), || true);
        assert!(!gathers(&memtable));
        memtable.next_batch().unwrap();
        memtable.applied();
        memtable.push(4, batch(b"a", None), || true);
        memtable.end();
        assert!(!gathers(&memtable) && memtable.wait());
    }

    #[test]
    fn bulk_writers_gather_large_batches_of_a_ready_engine() {
        let memtable = Memtable::default();
        // Of different keys: what replaces another change takes no more room.
        let large = |key: u64| batch(&key.to_be_bytes(), Some(&[0; PACED_BYTES]));
        let gathers = || memtable.state.lock().is_gathering();
        memtable.begin_bulk();
        let below = BULK_BYTES / PACED_BYTES - 1;
        for number in 1..=u64::try_from(below).unwrap() {
            memtable.push(number, large(number), || true);
            // This does not block, since there is room.
            memtable.pace(|| true);
        }
        assert!(gathers());
        // Other writers may use the reserve while the engine is busy.
        memtable.push(100, large(100), || true);
        memtable.push(101, large(101), || true);
        assert!(!gathers());
        memtable.next_batch().unwrap();
        memtable.applied();
        // A switch of engines keeps the bulk writers. The end of the last one releases the gathered commits.
        memtable.reset();
        memtable.push(102, large(102), || true);
        assert!(gathers());
        memtable.end_bulk();
        assert!(!gathers() && memtable.wait());
    }

    #[test]
    fn stalled_changes_stay_readable() {
        let memtable = Memtable::default();
        memtable.push(1, batch(b"a", Some(b"1")), || true);
        memtable.next_batch().unwrap();
        assert!(memtable.stall());
        assert_eq!(memtable.get("t", b"a"), Some(Some(b"1".to_vec())));
        assert_eq!(memtable.drain(), Err(StoreError::Full));
        memtable.reset();
        assert_eq!(memtable.drain(), Ok(()));
        // A store that closes must not wait for space.
        memtable.push(2, batch(b"a", None), || true);
        memtable.next_batch().unwrap();
        memtable.end();
        assert!(!memtable.stall());
        assert_eq!(memtable.drain(), Err(StoreError::Closed));
    }
}
