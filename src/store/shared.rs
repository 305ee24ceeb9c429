//! State shared by the handles of a store and its threads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::disk_space::{Space, WritePriority};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::failure::{FatalError, OnFailure};
use crate::layout::{Identity, StoreLayout};
use crate::memtable::Memtable;
use crate::recovery::task::Loss;
use crate::snapshot::durable_state::DurableState;
use crate::snapshot::format::{Snapshot, SnapshotHead};
use crate::table::Tables;
use crate::table_copies::TableCopies;
use crate::wal::{FileLog, Segment, Segments};

pub type VerifySnapshot = Arc<dyn Fn(&Path) -> Result<(), StoreError> + Send + Sync>;

/// Returns the current time in Unix seconds, for the dates of snapshots.
pub type SnapshotClock = Arc<dyn Fn() -> i64 + Send + Sync>;

pub type SnapshotMetadata = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

pub(super) struct Shared {
    pub(super) schema: Tables,
    /// The engine below the memtable. It is replaced when its disk is full and by a compaction.
    engine: RwLock<Arc<dyn Engine>>,
    pub(super) copies: TableCopies,
    pub(super) memtable: Memtable,
    pub(super) failure: FatalError,
    writable: AtomicBool,
    pub(super) counts: CommitCounts,
    pub(super) disk: Option<OnDisk>,
}

pub(super) struct OnDisk {
    pub(super) layout: StoreLayout,
    pub(super) identity: Identity,
    pub(super) space: Space,
    pub(super) segments: RwLock<Segments>,
    /// The newest verified snapshot. The WAL may drop the commits that it contains. The lock is held while the
    /// snapshot or the segments change.
    pub(super) snapshot: Mutex<Option<SnapshotHead>>,
    pub(super) verify_snapshot: VerifySnapshot,
    pub(super) notes: SnapshotMetadata,
    pub(super) seed: [u8; 16],
    pub(super) rebuilt_from: Arc<OnceLock<String>>,
    pub(super) loss: Option<Loss>,
    /// Whether [`StoreLayout::upgrade_backup`] exists.
    pub(super) upgrade_is_reversible: AtomicBool,
}

impl OnDisk {
    pub(super) fn snapshot_path(&self, number: u64) -> PathBuf {
        // The number is zero-padded, so that names sort by commit number.
        self.layout
            .snapshots()
            .join(format!("{number:020}.snapshot"))
    }

    pub(super) fn snapshot_bytes(&self) -> u64 {
        let number = self.snapshot.lock().as_ref().map(|head| head.number);
        let file = number.and_then(|number| fs::metadata(self.snapshot_path(number)).ok());
        file.map_or(0, |file| file.len())
    }

    pub(super) fn durable_state<'a>(
        &self,
        schema: &'a Tables,
        snapshot: Option<&SnapshotHead>,
        segments: Vec<Segment>,
        number: u64,
    ) -> Result<DurableState<'a>, StoreError> {
        Ok(DurableState {
            snapshot: snapshot
                .map(|snapshot| Snapshot::open(&self.snapshot_path(snapshot.number), schema))
                .transpose()?,
            segments,
            schema,
            last: self.identity.lineage.commit(number),
        })
    }
}

impl Shared {
    pub(super) fn new(
        schema: Tables,
        engine: Arc<dyn Engine>,
        on_failure: OnFailure,
        writable: bool,
        disk: Option<OnDisk>,
    ) -> Self {
        Self {
            schema,
            engine: RwLock::new(engine),
            copies: TableCopies::default(),
            memtable: Memtable::default(),
            failure: FatalError::new(on_failure),
            writable: AtomicBool::new(writable),
            counts: CommitCounts::default(),
            disk,
        }
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine.read())
    }

    /// Replaces the engine by one that has every commit, and clears the memtable.
    pub(super) fn replace_engine(
        &self,
        engine: Arc<dyn Engine>,
        writable: bool,
    ) -> Arc<dyn Engine> {
        // The write lock waits until the current part is applied. The rest of its batch is dropped with the memtable.
        let mut current = self.engine.write();
        self.writable.store(writable, Ordering::Release);
        self.memtable.reset();
        std::mem::replace(&mut current, engine)
    }

    pub(super) fn apply_memtable(&self) -> Result<(), StoreError> {
        let Some((number, batch)) = self.memtable.next_batch() else {
            return Ok(());
        };
        // A store in memory has one timeline.
        let lineage = self.disk.as_ref().map(|disk| &disk.identity.lineage);
        let commit = lineage.map(|lineage| lineage.commit(number));
        for part in batch.parts() {
            // The lock is taken for each part and not for the batch: a thread that replaces the engine waits for it,
            // and meanwhile blocks the writer and all readers.
            let engine = self.engine.read();
            // The engine was replaced by one that has every commit.
            if !self.memtable.is_applying() {
                break;
            }
            engine.apply_part(commit.unwrap_or_default(), &part)?;
            if part.is_last {
                self.memtable.applied();
            }
        }
        Ok(())
    }

    pub(super) fn apply_loop(&self) {
        while self.memtable.wait() {
            match self.apply_memtable() {
                Ok(()) => {}
                // The WAL has every commit, and the memtable stays readable.
                Err(StoreError::Full) if self.memtable.stall() => {}
                // The store closes before the engine is ready, or on a full disk.
                Err(StoreError::Closed | StoreError::Full) => {
                    self.memtable.end();
                    return;
                }
                Err(error) => {
                    self.failure.report(&error);
                    self.memtable.end();
                    return;
                }
            }
        }
    }

    pub(super) fn or_fail<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::NotSynced(_)) = &result {
            // The kernel reports a failed sync once and then drops the pages, so nothing after it can be
            // trusted.
            self.failure.report(error);
        }
        result
    }

    pub(super) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire) && !self.memtable.is_stalled()
    }

    pub(super) fn admits(&self, need: WritePriority) -> bool {
        let room = self
            .disk
            .as_ref()
            .is_none_or(|disk| disk.space.admits(need));
        room && self.is_writable()
    }

    /// The durable state as of a commit. The caller holds the lock of the snapshot, so that no file is
    /// removed. The writer must not wait for that lock: writing a snapshot is slow.
    pub(super) fn durable_state(
        &self,
        snapshot: Option<&SnapshotHead>,
        number: u64,
    ) -> Result<DurableState<'_>, StoreError> {
        let disk = self.disk.as_ref().ok_or(StoreError::Closed)?;
        let segments = disk.segments.read().all();
        disk.durable_state(&self.schema, snapshot, segments, number)
    }

    pub(super) fn publish_segments(&self, log: &FileLog) {
        if let Some(disk) = &self.disk {
            *disk.segments.write() = log.segments();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub commits: u64,
    pub syncs: u64,
}

#[derive(Default)]
pub(super) struct CommitCounts {
    commits: AtomicU64,
    syncs: AtomicU64,
}

impl CommitCounts {
    pub(super) fn committed(&self, plans: u64) {
        self.commits.fetch_add(plans, Ordering::Relaxed);
    }

    pub(super) fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Written {
        Written {
            commits: self.commits.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::engine::{MemoryEngine, Scan};
    use crate::history::CommitId;
    use crate::table::TreeName;
    use crate::tests::schema;
    use crate::txn::Txn;
    use crate::write_batch::{BatchPart, PART_CHANGES, WriteBatch};

    fn tables() -> Tables {
        Tables::clone(&schema())
    }

    /// How long a test waits for another thread before it fails.
    const MAX_WAIT: Duration = Duration::from_secs(30);

    /// An engine that is replaced while it applies its first part.
    #[derive(Default)]
    struct ReplacedEngine {
        core: OnceLock<Weak<Shared>>,
        parts: AtomicUsize,
        memory: MemoryEngine,
    }

    impl Engine for ReplacedEngine {
        fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.memory.get(tree, key)
        }

        fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
            self.memory.scan(tree, from, to)
        }

        fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
            if self.parts.fetch_add(1, Ordering::SeqCst) == 0 {
                let core = self.core.get().and_then(Weak::upgrade).unwrap();
                let next = Arc::new(MemoryEngine::default());
                let replacing = Arc::clone(&core);
                thread::spawn(move || replacing.replace_engine(next, true));
                // A waiting writer blocks new readers.
                let until = Instant::now() + MAX_WAIT;
                while core.engine.try_read().is_some() {
                    assert!(Instant::now() < until, "no thread waits for the engine");
                    thread::yield_now();
                }
            }
            self.memory.apply_part(commit, part)
        }

        fn applied(&self) -> Result<CommitId, StoreError> {
            self.memory.applied()
        }

        fn sync(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn read_during_an_engine_switch_sees_every_answered_commit() {
        let engine = || Arc::new(MemoryEngine::default());
        let core = Shared::new(tables(), engine(), Arc::new(|_| {}), true, None);
        let answered = || {
            let mut batch = WriteBatch::default();
            batch.set("t", b"a".to_vec(), Some(b"1".to_vec()));
            batch
        };
        // Only the memtable has the commit, and the next engine.
        core.memtable.push(1, answered(), || true);
        let next = engine();
        for part in answered().parts() {
            next.apply_part(CommitId::default(), &part).unwrap();
        }
        let nothing = WriteBatch::default();
        let read = Txn {
            shared: &core,
            group: &nothing,
            batch: WriteBatch::default(),
            publications: Vec::new(),
        };
        core.replace_engine(next, true);
        assert_eq!(read.raw("t", b"a"), Ok(Some(b"1".to_vec())));
        let found = read.pairs("t", b"", None, 9);
        assert_eq!(found, Ok(vec![(b"a".to_vec(), b"1".to_vec())]));
    }

    #[test]
    fn engine_is_replaced_while_a_bulk_writer_asks_for_it() {
        let engine = || Arc::new(MemoryEngine::default());
        let core = Shared::new(tables(), engine(), Arc::new(|_| {}), true, None);
        let core = Arc::new(core);
        // More than bulk writers may leave in the memtable.
        let mut batch = WriteBatch::default();
        batch.set("t", b"a".to_vec(), Some(vec![0; 2 * 1024 * 1024]));
        core.memtable.push(1, batch, || true);
        let (sender, paced) = std::sync::mpsc::channel();
        let pacing = Arc::clone(&core);
        thread::spawn(move || {
            pacing.memtable.pace(|| {
                let (replacing, next) = (Arc::clone(&pacing), engine());
                let replaced = thread::spawn(move || replacing.replace_engine(next, true));
                let until = Instant::now() + MAX_WAIT;
                while !replaced.is_finished() && pacing.engine.try_read().is_some() {
                    assert!(Instant::now() < until, "no thread replaces the engine");
                    thread::yield_now();
                }
                pacing.engine().is_ready()
            });
            sender.send(()).unwrap();
        });
        paced
            .recv_timeout(MAX_WAIT)
            .expect("bulk writer and engine switch wait for each other");
    }

    #[test]
    fn engine_is_replaced_between_the_parts_of_a_batch() {
        let old = Arc::new(ReplacedEngine::default());
        let engine = Arc::clone(&old) as Arc<dyn Engine>;
        let core = Shared::new(tables(), engine, Arc::new(|_| {}), true, None);
        let core = Arc::new(core);
        old.core.set(Arc::downgrade(&core)).unwrap();
        let mut batch = WriteBatch::default();
        for key in 0..3 * PART_CHANGES {
            batch.set("t", key.to_be_bytes().to_vec(), None);
        }
        core.memtable.push(1, batch, || true);
        core.apply_memtable().unwrap();
        assert_eq!(old.parts.load(Ordering::SeqCst), 1);
        assert_eq!(old.applied(), Ok(CommitId::default()));
        assert!(!core.memtable.is_applying());
    }
}
