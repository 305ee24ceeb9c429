//! An engine that can be read before it is proven or rebuilt.
//!
//! To read and compare a large engine takes many seconds, and to rebuild it minutes. The store does
//! not wait for either: until the engine is ready, reads are answered from base and log, which are
//! what it is compared with or rebuilt from, and commits wait in the tail. A thread in the background
//! does the work; what it finds out is never worse for the store than what a start would have found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use super::StoreError;
use super::durable_reader::DurableReader;
use super::durable_state::{DurableState, replay};
use super::engine::{Engine, Guarded, Scan, SledEngine, leftovers, panic_message};
use super::layout::{EngineDir, StoreLayout};
use super::recovery::{guarded, make_engine};
use super::shared::OnFailure;
use super::snapshot::Snapshot;
use super::table::{Schema, TreeName};
use super::wal::Segment;
use super::write_batch::WriteBatch;

/// How long opening or reading sled may go on without another record, beside the time for its file.
const PATIENCE: Duration = Duration::from_secs(15);
/// What sled reads of its file at the very least.
const BYTES_PER_SECOND: u64 = 10 * 1024 * 1024;
/// How long a thread that is told to stop may take to its next step.
const ABANDON_WITHIN: Duration = Duration::from_secs(1);
/// The niceness of the thread that proves or rebuilds: requests go first.
const NICE: i32 = 10;

/// An engine, and what stands in for it until it is ready.
pub(super) struct DeferredEngine {
    shared: Arc<DeferredState>,
    thread: Option<JoinHandle<()>>,
}

struct DeferredState {
    ready: OnceLock<Guarded<SledEngine>>,
    /// Until the engine is ready.
    stand_in: RwLock<Option<Arc<DurableReader>>>,
    /// The commit that the base was made after: the log is needed from there on.
    begin: u64,
    /// How it ended; none while it goes on.
    outcome: Mutex<Option<Result<(), StoreError>>>,
    ended: Condvar,
    abandoned: Arc<AtomicBool>,
}

/// The engine as a start found it.
pub(super) enum Found {
    /// Opened, and not read to its end.
    Unproven(SledEngine, EngineDir),
    /// It is gone or damaged; why.
    Unusable(String),
}

/// What makes an engine ready.
pub(super) struct Preparation {
    pub(super) place: StoreLayout,
    pub(super) schema: Schema,
    pub(super) on_failure: OnFailure,
    /// Base and log, and the last commit that the engine must have.
    pub(super) base: Option<Snapshot>,
    pub(super) segments: Vec<Segment>,
    pub(super) number: u64,
    /// What the base is, for a person, and who is told if the engine is rebuilt from it.
    pub(super) from: String,
    pub(super) rebuilt_from: Arc<OnceLock<String>>,
}

impl DeferredEngine {
    /// Begins to make an engine ready, and waits for that up to `patience`. `make` ends soon after the
    /// flag that it is given is set.
    pub(super) fn start(
        make: impl FnOnce(&Arc<AtomicBool>) -> Result<Guarded<SledEngine>, StoreError> + Send + 'static,
        on_failure: OnFailure,
        stand_in: DurableReader,
        patience: Duration,
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
        shared.ended.wait_while_for(&mut outcome, goes_on, patience);
        if outcome.is_none() {
            tracing::info!("served from base and log until the engine is ready");
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
        self.abandon();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl DeferredState {
    fn prepare(
        &self,
        make: impl FnOnce(&Arc<AtomicBool>) -> Result<Guarded<SledEngine>, StoreError>,
        on_failure: &OnFailure,
    ) {
        let began = Instant::now();
        // A sandbox that forbids it costs others some speed.
        if let Err(error) = setpriority_process(Some(gettid()), NICE) {
            tracing::debug!(%error, "the thread that proves the engine keeps its priority");
        }
        // After a panic here nobody would make the engine ready: commits would pile up in the tail, and
        // the writer would wait for ever.
        let made =
            catch_unwind(AssertUnwindSafe(|| make(&self.abandoned))).unwrap_or_else(|panic| {
                let words = panic_message(&*panic);
                Err(StoreError::Failed(format!(
                    "the thread store-engine panicked: {words}"
                )))
            });
        let outcome = match made {
            Ok(engine) => {
                let _ = self.ready.set(engine);
                *self.stand_in.write() = None;
                let took = began.elapsed().as_millis();
                tracing::debug!(milliseconds = took, "the engine is ready");
                Ok(())
            }
            Err(error) => {
                // The others are met by the first commit that the engine is given, or by a stop.
                if !matches!(error, StoreError::Full | StoreError::Closed) {
                    on_failure(&error);
                }
                Err(error)
            }
        };
        self.outcome.lock().get_or_insert(outcome);
        self.ended.notify_all();
    }

    /// The engine, or what stands in for it.
    fn reader(&self) -> Result<&Guarded<SledEngine>, Arc<DurableReader>> {
        loop {
            if let Some(engine) = self.ready.get() {
                return Ok(engine);
            }
            // It is taken away only once the engine is ready.
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
            Err(_) if to.is_some_and(|to| from > to) => Box::new(std::iter::empty()),
            Err(reader) => Box::new(reader.scan(tree, from, to)),
        }
    }

    /// Waits until the engine is ready: meanwhile the tail keeps what is committed.
    fn apply(&self, number: u64, plan: &WriteBatch) -> Result<(), StoreError> {
        self.wait_until_ready()?;
        match self.shared.ready.get() {
            Some(engine) => engine.apply(number, plan),
            None => Err(StoreError::Closed),
        }
    }

    fn applied(&self) -> Result<u64, StoreError> {
        match self.shared.ready.get() {
            Some(engine) => engine.applied(),
            // Nothing since the base may be removed from the log.
            None => Ok(self.shared.begin),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
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
    /// Proves the engine as it was found, or rebuilds it.
    pub(super) fn run(
        mut self,
        found: Found,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<Guarded<SledEngine>, StoreError> {
        let why = match found {
            Found::Unusable(why) => why,
            Found::Unproven(engine, directory) => match self.prove(engine, &directory, abandoned) {
                Ok(engine) => return Ok(guarded(engine, &directory, &self.on_failure)),
                Err(StoreError::Engine(why)) => why,
                Err(StoreError::Hung) => {
                    return Err(StoreError::Failed(
                        "a read of the engine does not return".to_owned(),
                    ));
                }
                Err(error) => return Err(error),
            },
        };
        tracing::error!(
            why,
            "the engine cannot be used; it is rebuilt from base and log"
        );
        let next = self.place.next_engine()?;
        let truth = DurableState {
            base: self.base.take(),
            segments: std::mem::take(&mut self.segments),
            schema: &self.schema,
            number: self.number,
        };
        let made = make_engine(&next, &self.place, truth, abandoned)?;
        for old in self.place.engines()?.1 {
            let moved = self.place.move_aside(&old.path, "sled")?;
            tracing::warn!(kept = %moved.display(), "the damaged engine is moved aside");
        }
        tracing::warn!(from = self.from, to = self.number, "the engine is rebuilt");
        let _ = self.rebuilt_from.set(self.from);
        Ok(guarded(made, &next, &self.on_failure))
    }

    /// Compares the engine with what it must add up to, and brings it forward.
    fn prove(
        &self,
        engine: SledEngine,
        directory: &EngineDir,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<SledEngine, StoreError> {
        let engine = match proven(directory, abandoned, move || Ok(engine)) {
            Err(StoreError::Engine(why)) => {
                move_leftovers_aside(&self.place, directory, &why)?;
                let (path, schema) = (directory.path.clone(), self.schema.clone());
                let sync = self.place.sync;
                let open = move || SledEngine::open(&path, &schema, sync);
                proven(directory, abandoned, open)?
            }
            other => other?,
        };
        let applied = engine.applied()?;
        if applied > self.number {
            return Err(StoreError::Engine(format!(
                "is at commit {applied}, and the log ends at {}",
                self.number
            )));
        }
        let stoppable = Stoppable {
            engine: &engine,
            abandoned,
        };
        replay(
            &self.segments,
            applied,
            self.number,
            &self.schema,
            &stoppable,
        )?;
        Ok(engine)
    }
}

/// Has an engine read to its end, on a thread that may panic or never come back.
fn proven(
    directory: &EngineDir,
    abandoned: &Arc<AtomicBool>,
    open: impl FnOnce() -> Result<SledEngine, StoreError> + Send + 'static,
) -> Result<SledEngine, StoreError> {
    let stop = Arc::clone(abandoned);
    let work = move |steps: &AtomicU64| {
        let engine = open()?;
        engine.prove(steps, &stop)?;
        Ok(engine)
    };
    Supervised::start(directory, work)?.wait(directory, abandoned)
}

/// Moves aside what sled can do without and may stumble over; the error if there is nothing.
pub(super) fn move_leftovers_aside(
    place: &StoreLayout,
    directory: &EngineDir,
    why: &str,
) -> Result<(), StoreError> {
    let left = leftovers(&directory.path)?;
    if left.is_empty() {
        return Err(StoreError::Engine(why.to_owned()));
    }
    for path in left {
        let moved = place.move_aside(&path, "snap")?;
        tracing::warn!(why, kept = %moved.display(), "a file of the engine is moved aside");
    }
    Ok(())
}

/// Work with sled on a thread of its own.
pub(super) struct Supervised<R> {
    receiver: Receiver<Result<R, StoreError>>,
    steps: Arc<AtomicU64>,
    patience: Duration,
}

impl<R: Send + 'static> Supervised<R> {
    /// Starts work, which counts its steps.
    pub(super) fn start(
        directory: &EngineDir,
        work: impl FnOnce(&AtomicU64) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let size = std::fs::metadata(directory.path.join("db")).map_or(0, |file| file.len());
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("store-open".to_owned())
            .spawn(move || {
                let done = catch_unwind(AssertUnwindSafe(|| work(&counted)))
                    .unwrap_or_else(|_| Err(StoreError::Engine("panicked when opened".to_owned())));
                let _ = sender.send(done);
            })?;
        Ok(Self {
            receiver,
            steps,
            patience: PATIENCE + Duration::from_secs(size / BYTES_PER_SECOND),
        })
    }

    /// Waits for the work, as long as it takes steps and nobody has abandoned it.
    pub(super) fn wait(
        self,
        directory: &EngineDir,
        abandoned: &AtomicBool,
    ) -> Result<R, StoreError> {
        let mut seen = (Instant::now(), 0);
        loop {
            match self.receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Disconnected) => return Err(StoreError::Closed),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if abandoned.load(Ordering::Relaxed) {
                // One that hangs must not hold up the end of the process.
                let last = self.receiver.recv_timeout(ABANDON_WITHIN);
                return last.unwrap_or(Err(StoreError::Closed));
            }
            let now = self.steps.load(Ordering::Relaxed);
            if now != seen.1 {
                seen = (Instant::now(), now);
            } else if seen.0.elapsed() > self.patience {
                // The thread cannot be ended, and holds the file: the process has to begin again.
                directory.suspect_because("a read did not return")?;
                return Err(StoreError::Hung);
            }
        }
    }
}

/// An engine that takes nothing more once the store is closing.
pub(super) struct Stoppable<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) abandoned: &'a AtomicBool,
}

impl Engine for Stoppable<'_> {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(tree, key)
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        self.engine.scan(tree, from, to)
    }

    fn apply(&self, number: u64, plan: &WriteBatch) -> Result<(), StoreError> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(StoreError::Closed);
        }
        self.engine.apply(number, plan)
    }

    fn applied(&self) -> Result<u64, StoreError> {
        self.engine.applied()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.engine.sync()
    }
}
