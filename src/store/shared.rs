//! What the handle of a store and its threads share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::StoreError;
use super::disk_space::{Space, WritePriority};
use super::engine::Engine;
use super::layout::{Identity, StoreLayout};
use super::loss::Loss;
use super::memtable::Memtable;
use super::snapshot::SnapshotHead;
use super::table::Schema;
use super::wal::Segments;

/// How long the engine lets commits gather.
const LINGER: Duration = Duration::from_millis(1);

/// Told once when a write or sync has failed and the process has to restart.
pub type OnFailure = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// Says whether a snapshot is good.
pub type VerifySnapshot = Arc<dyn Fn(&Path) -> Result<(), StoreError> + Send + Sync>;

/// Tells what is noted in a snapshot that is written now.
pub type SnapshotMetadata = Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>;

pub(super) struct Shared {
    pub(super) schema: Schema,
    /// What stands below the tail. Another one takes its place when it fails for want of space.
    engine: RwLock<Arc<dyn Engine>>,
    pub(super) tail: Memtable,
    pub(super) failure: Failure,
    /// Whether commits are taken; not while the disk is full or read-only.
    writable: AtomicBool,
    pub(super) counts: Counts,
    /// What only a store on a disk has.
    pub(super) disk: Option<OnDisk>,
}

pub(super) struct OnDisk {
    pub(super) place: StoreLayout,
    pub(super) identity: Identity,
    pub(super) space: Space,
    pub(super) segments: RwLock<Segments>,
    /// The newest proven snapshot: nothing that it holds is needed in the log any more. Whoever
    /// changes base or segments holds it.
    pub(super) base: Mutex<Option<SnapshotHead>>,
    pub(super) prove: VerifySnapshot,
    pub(super) notes: SnapshotMetadata,
    /// What new timelines are derived from.
    pub(super) seed: [u8; 16],
    /// What the engine was rebuilt from since the store was opened, if it was.
    pub(super) rebuilt_from: Arc<OnceLock<String>>,
    /// The commits that were given up when the store was opened, if any were.
    pub(super) loss: Option<Loss>,
}

impl OnDisk {
    /// Where the base lies that was made after a commit.
    pub(super) fn base_path(&self, number: u64) -> PathBuf {
        self.place.base().join(format!("{number:020}.snapshot"))
    }
}

impl Shared {
    pub(super) fn new(
        schema: Schema,
        engine: Arc<dyn Engine>,
        on_failure: OnFailure,
        writable: bool,
        disk: Option<OnDisk>,
    ) -> Self {
        Self {
            schema,
            engine: RwLock::new(engine),
            tail: Memtable::default(),
            failure: Failure::new(on_failure),
            writable: AtomicBool::new(writable),
            counts: Counts::default(),
            disk,
        }
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine.read())
    }

    /// Puts another engine, which has everything, in place of the one that is there and of the tail.
    pub(super) fn replace_engine(
        &self,
        engine: Arc<dyn Engine>,
        writable: bool,
    ) -> Arc<dyn Engine> {
        let mut current = self.engine.write();
        self.writable.store(writable, Ordering::Release);
        self.tail.reset();
        std::mem::replace(&mut current, engine)
    }

    /// Gives the engine what waits for it. It is not replaced meanwhile: what is taken from the tail
    /// goes into the engine below it and no other.
    pub(super) fn apply_tail(&self) -> Result<(), StoreError> {
        let engine = self.engine.read();
        if let Some((number, plan)) = self.tail.next_batch() {
            engine.apply(number, &plan)?;
            self.tail.applied();
        }
        Ok(())
    }

    /// Brings the engine forward behind the log, until the store ends.
    pub(super) fn apply_loop(&self) {
        while self.tail.wait() {
            // What follows closely goes with it, and the processors are left to whoever waits.
            std::thread::park_timeout(LINGER);
            match self.apply_tail() {
                Ok(()) => {}
                // The log has it. What the engine lacks stays readable in the tail.
                Err(StoreError::Full) => self.tail.stall(),
                // The store is closing before the engine could take anything.
                Err(StoreError::Closed) => {
                    self.tail.end();
                    return;
                }
                Err(error) => {
                    self.failure.report(&error);
                    self.tail.end();
                    return;
                }
            }
        }
    }

    /// Reports a failed sync, whoever met it: the process has to restart.
    pub(super) fn or_fail<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::NotSynced(_)) = &result {
            self.failure.report(error);
        }
        result
    }

    /// Whether commits are taken.
    pub(super) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire) && !self.tail.is_stalled()
    }

    /// Whether there is room for something.
    pub(super) fn admits(&self, need: WritePriority) -> bool {
        let room = self
            .disk
            .as_ref()
            .is_none_or(|disk| disk.space.admits(need));
        room && self.is_writable()
    }
}

/// What was committed since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Plans that changed something.
    pub commits: u64,
    /// Groups of them that were synced together.
    pub syncs: u64,
}

/// Written by the writer alone.
#[derive(Default)]
pub(super) struct Counts {
    commits: AtomicU64,
    syncs: AtomicU64,
}

impl Counts {
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

/// The one failure after which nothing is promised any more.
pub(super) struct Failure {
    first: Mutex<Option<StoreError>>,
    on_failure: OnFailure,
}

impl Failure {
    pub(super) fn new(on_failure: OnFailure) -> Self {
        Self {
            first: Mutex::new(None),
            on_failure,
        }
    }

    /// Who is told.
    pub(super) fn handler(&self) -> OnFailure {
        Arc::clone(&self.on_failure)
    }

    pub(super) fn get(&self) -> Option<StoreError> {
        self.first.lock().clone()
    }

    /// A failed sync is never retried: the first failure stays, and is told once.
    pub(super) fn report(&self, error: &StoreError) -> StoreError {
        let mut first = self.first.lock();
        if let Some(failed) = &*first {
            return failed.clone();
        }
        let failed = StoreError::Failed(error.to_string());
        *first = Some(failed.clone());
        drop(first);
        (self.on_failure)(&failed);
        failed
    }
}
