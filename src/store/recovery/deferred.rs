//! An engine that can be read before it is verified or rebuilt.
//!
//! Verifying a large engine takes many seconds, and rebuilding it takes minutes. Meanwhile snapshot and WAL answer reads,
//! and commits stay in the memtable. A background thread does the work; its result is never worse than that of waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::engine::{Engine, Scan, SledEngine, WatchedEngine, panic_message};
use crate::error::StoreError;
use crate::failure::OnFailure;
use crate::history::{CommitId, Lineage};
use crate::layout::{EngineDir, StoreLayout};
use crate::recovery::engine_checks::{check_history, retry_without_leftovers};
use crate::recovery::engines::{make_engine, watched};
use crate::recovery::supervision::verify_supervised;
use crate::snapshot::durable_reader::DurableReader;
use crate::snapshot::durable_state::{DurableState, replay};
use crate::snapshot::format::Snapshot;
use crate::table::{Tables, TreeName};
use crate::wal::Segment;
use crate::write_batch::{BatchPart, RawChange};
use playgate_process::thread_priority;

pub(crate) struct DeferredEngine {
    shared: Arc<DeferredState>,
    thread: Option<JoinHandle<()>>,
}

struct DeferredState {
    ready: OnceLock<WatchedEngine<SledEngine>>,
    /// Answers reads from snapshot and WAL until the engine is ready.
    stand_in: RwLock<Option<Arc<DurableReader>>>,
    /// Commit number of the snapshot: the WAL is needed from there on.
    begin: u64,
    /// `None` while the preparation runs.
    outcome: Mutex<Option<Result<(), StoreError>>>,
    ended: Condvar,
    abandoned: Arc<AtomicBool>,
}

pub(crate) enum FoundEngine {
    Unverified(Box<SledEngine>, EngineDir),
    Unusable(String),
}

pub(crate) struct Preparation {
    pub(crate) layout: StoreLayout,
    pub(crate) schema: Tables,
    pub(crate) on_failure: OnFailure,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) number: u64,
    /// The WAL continues from this commit without a gap.
    pub(crate) oldest: u64,
    pub(crate) lineage: Lineage,
    pub(crate) from: String,
    pub(crate) rebuilt_from: Arc<OnceLock<String>>,
}

impl DeferredEngine {
    /// Starts `make`, which prepares the engine, on a thread and waits up to `max_wait` for it. `make` gets a flag that tells
    /// it to give up, and must return soon after that is set.
    pub(crate) fn start(
        make: impl FnOnce(&Arc<AtomicBool>) -> Result<WatchedEngine<SledEngine>, StoreError>
        + Send
        + 'static,
        on_failure: OnFailure,
        stand_in: DurableReader,
        max_wait: Duration,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(DeferredState {
            ready: OnceLock::new(),
            begin: stand_in.begin(),
            stand_in: RwLock::new(Some(Arc::new(stand_in))),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            abandoned: Arc::default(),
        });
        let working = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("store-engine".to_owned())
            .spawn(move || working.prepare(make, &on_failure))?;
        let mut outcome = shared.outcome.lock();
        let goes_on = |outcome: &mut Option<_>| outcome.is_none();
        shared.ended.wait_while_for(&mut outcome, goes_on, max_wait);
        if outcome.is_none() {
            tracing::info!("serving from snapshot and WAL until the engine is ready");
        }
        drop(outcome);
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for DeferredEngine {
    fn drop(&mut self) {
        // The thread checks the flag at each step, so the join does not wait for a whole rebuild.
        self.abandon();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl DeferredState {
    fn prepare(
        &self,
        make: impl FnOnce(&Arc<AtomicBool>) -> Result<WatchedEngine<SledEngine>, StoreError>,
        on_failure: &OnFailure,
    ) {
        let began = Instant::now();
        thread_priority::lower();
        // After an uncaught panic the engine would never become ready, and the writer would wait for ever.
        let made =
            catch_unwind(AssertUnwindSafe(|| make(&self.abandoned))).unwrap_or_else(|panic| {
                let words = panic_message(&*panic);
                Err(StoreError::Failed(format!(
                    "the thread store-engine panicked: {words}"
                )))
            });
        let outcome = match made {
            Ok(engine) => {
                // The order matters: `reader` must find one of the two at any time.
                let _ = self.ready.set(engine);
                *self.stand_in.write() = None;
                let took = began.elapsed().as_millis();
                tracing::debug!(milliseconds = took, "the engine is ready");
                Ok(())
            }
            Err(error) => {
                // `Full` and `Closed` surface at the first commit that is applied, or at a stop.
                if !matches!(error, StoreError::Full | StoreError::Closed) {
                    on_failure(&error);
                }
                Err(error)
            }
        };
        // An abandoned preparation already has its outcome.
        self.outcome.lock().get_or_insert(outcome);
        self.ended.notify_all();
    }

    fn reader(&self) -> Result<&WatchedEngine<SledEngine>, Arc<DurableReader>> {
        loop {
            if let Some(engine) = self.ready.get() {
                return Ok(engine);
            }
            // The stand-in is removed only after the engine has become ready.
            if let Some(reader) = &*self.stand_in.read() {
                return Err(Arc::clone(reader));
            }
        }
    }
}

impl Engine for DeferredEngine {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.shared.reader() {
            Ok(engine) => engine.get(tree, key),
            Err(reader) => reader.get(tree, key),
        }
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        match self.shared.reader() {
            Ok(engine) => engine.scan(tree, from, to),
            // A reversed range is empty, as in the other engines.
            Err(_) if to.is_some_and(|to| from > to) => Box::new(std::iter::empty()),
            Err(reader) => match reader.scan(tree, from, to) {
                Ok(scan) => Box::new(scan),
                Err(error) => Box::new(std::iter::once(Err(error))),
            },
        }
    }

    fn replay_tree(
        &self,
        tree: TreeName,
        each: &mut dyn FnMut(&mut dyn Iterator<Item = RawChange<'_>>),
    ) -> Result<(), StoreError> {
        match self.shared.reader() {
            Ok(engine) => engine.replay_tree(tree, each),
            Err(reader) => reader.replay_tree(tree, each),
        }
    }

    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
        // This blocks the apply thread, which has nothing else to do. The memtable holds the commits until then.
        self.wait_until_ready()?;
        match self.shared.ready.get() {
            Some(engine) => engine.apply_part(commit, part),
            None => Err(StoreError::Closed),
        }
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        match self.shared.ready.get() {
            Some(engine) => engine.applied(),
            // The WAL must retain everything since the snapshot.
            None => Ok(CommitId {
                number: self.shared.begin,
                ..CommitId::default()
            }),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Nothing was applied before the engine is ready, so nothing has to be synced.
        self.shared.ready.get().map_or(Ok(()), Engine::sync)
    }

    fn is_ready(&self) -> bool {
        self.shared.ready.get().is_some()
    }

    fn wait_until_ready(&self) -> Result<(), StoreError> {
        if self.is_ready() {
            return Ok(());
        }
        let mut outcome = self.shared.outcome.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => self.shared.ended.wait(&mut outcome),
            }
        }
    }

    fn abandon(&self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
        let mut outcome = self.shared.outcome.lock();
        outcome.get_or_insert(Err(StoreError::Closed));
        drop(outcome);
        self.shared.ended.notify_all();
    }
}

impl Preparation {
    pub(crate) fn run(
        mut self,
        found: FoundEngine,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<WatchedEngine<SledEngine>, StoreError> {
        let why = match found {
            FoundEngine::Unusable(why) => why,
            // Every error of sled itself leads to a rebuild; full disks and closing stores do not.
            FoundEngine::Unverified(engine, directory) => {
                match self.prove(*engine, &directory, abandoned) {
                    Ok(engine) => return Ok(watched(engine, &directory, &self.on_failure)),
                    Err(StoreError::Engine(why)) => why,
                    // The hanging thread holds the file, so a rebuild in this process could not replace it.
                    Err(StoreError::Hung) => {
                        return Err(StoreError::Failed("a read of the engine hangs".to_owned()));
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        tracing::error!(
            why,
            "the engine cannot be used; rebuilding it from snapshot and WAL"
        );
        let next = self.layout.next_engine()?;
        let state = DurableState {
            snapshot: self.snapshot.take(),
            segments: std::mem::take(&mut self.segments),
            schema: &self.schema,
            last: self.lineage.commit(self.number),
        };
        // The old engine stays in place until the new one is complete: a crash in between repeats the rebuild.
        let made = make_engine(&next, &self.layout, state, abandoned)?;
        for old in self.layout.engines()?.1 {
            let moved = self.layout.move_aside(&old.path, "sled")?;
            tracing::warn!(kept = %moved.display(), "moved the damaged engine aside");
        }
        tracing::warn!(from = self.from, to = self.number, "rebuilt the engine");
        let _ = self.rebuilt_from.set(self.from);
        Ok(watched(made, &next, &self.on_failure))
    }

    fn prove(
        &self,
        engine: SledEngine,
        directory: &EngineDir,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<SledEngine, StoreError> {
        let mut opened = Some(engine);
        let engine = retry_without_leftovers(&self.layout, directory, || {
            let again = opened.take().ok_or_else(|| {
                let (path, schema) = (directory.path.clone(), self.schema.clone());
                let sync = self.layout.sync;
                move || SledEngine::open(&path, &schema, sync)
            });
            let open = move || again.or_else(|open| open());
            verify_supervised(directory, abandoned, open)
        })?;
        let applied = engine.applied()?;
        check_history(&self.lineage, applied)?;
        // Without the file that was moved aside, sled may open in an older state that is intact in itself.
        if applied.number < self.oldest {
            return Err(StoreError::Engine(format!(
                "ends at commit {}, and the log begins after {}",
                applied.number, self.oldest
            )));
        }
        // An engine ahead of the log has commits that were not promised.
        if applied.number > self.number {
            return Err(StoreError::Engine(format!(
                "is at commit {}, and the log ends at {}",
                applied.number, self.number
            )));
        }
        // The replay comes after the verification: a replay into a damaged engine could hide the damage in its checksums.
        replay(
            &self.segments,
            applied.number,
            self.lineage.commit(self.number),
            &self.schema,
            // If the store closes, the next start repeats the batch that was begun.
            &mut |commit, batch| {
                batch.try_for_each_part(abandoned, |part| engine.apply_part(commit, part))
            },
        )?;
        Ok(engine)
    }
}
