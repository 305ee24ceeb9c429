//! Typed tables over an ordered key-value engine, behind a commit log.
//!
//! Reads that matter are served by [`Mirror`]s in memory. Every change is a *plan*, made by a closure
//! on the one writer thread, and committed with the plans that waited beside it: appended to the
//! log, synced once, applied to the engine in one transaction, published to the mirrors, answered.
//! The log is the truth; the engine is the ordered state that it is replayed into.
//!
//! This module knows nothing of what the tables mean.

mod engine;
mod error;
mod key;
mod log;
mod memory;
mod mirror;
mod plan;
mod record;
mod table;
mod txn;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

pub use error::StoreError;
pub use key::{All, Key, PrefixOf};
pub use mirror::{Changed, MemoryTable, Mirror};
#[cfg(test)]
pub use record::golden;
pub use record::{Record, VALUE_MAX, read as read_record};
pub use table::{Entries, Index, PrimaryKey, Schema, Table, TreeName};
pub use txn::Txn;
pub use verify::{Found, TableReport};
pub use writer::{Commit, Durability, SYNC_WITHIN};

use engine::{Engine, SledEngine};
use log::{CommitLog, FileLog, NoLog, Segments};
use memory::MemoryEngine;
use plan::Plan;
use writer::{Message, Outcome, Writer};

/// The format of the data directory that this version writes.
pub const FORMAT: u32 = 1;

/// How many commits may wait; more are refused at once.
const QUEUE: usize = 8_192;
/// How often the engine is synced and the log cut.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);

/// How a store is opened.
pub struct Options {
    /// Whether anything is synced; switched off only by the control runs of durability tests.
    pub sync: bool,
    /// Told once when a write or sync has failed and the process has to restart.
    pub on_failure: Box<dyn Fn(&StoreError) + Send>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync: true,
            on_failure: Box::new(|error| tracing::error!(%error, "the store has failed")),
        }
    }
}

/// A handle on the store. The last one that goes closes it.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    engine: Arc<dyn Engine>,
    schema: Schema,
    inbox: SyncSender<Message>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop_checkpoints: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    segments: Option<Segments>,
    /// Held as long as the store is open.
    _lock: Option<File>,
}

impl Store {
    /// Opens or makes the store in a directory, and brings the engine forward to the end of the log.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Newer`], or what is wrong with the files.
    pub fn open(directory: &Path, schema: Schema, options: Options) -> Result<Self, StoreError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(directory)
            .map_err(|error| unusable(directory, error))?;
        let lock = lock(directory)?;
        check_format(directory, options.sync)?;
        let engine = SledEngine::open(&directory.join("sled"), &schema, options.sync)?;
        let applied = engine.applied()?;
        let mut replayed = 0_u64;
        let log = FileLog::open(
            &directory.join("log"),
            applied,
            options.sync,
            |number, payload| {
                let plan = Plan::decode(payload, &schema).ok_or_else(|| StoreError::Damaged {
                    place: format!("commit {number} of the log"),
                    what: "is not a plan of this version's tables".to_owned(),
                })?;
                replayed += 1;
                engine.apply(number, &plan)
            },
        )?;
        if options.sync {
            File::open(directory)?.sync_all()?;
        }
        tracing::debug!(applied, replayed, "store opened");
        let number = log.next() - 1;
        let segments = Some(log.segments());
        Ok(Self::start(
            Arc::new(engine),
            schema,
            Box::new(log),
            number,
            segments,
            Some(lock),
            options,
        ))
    }

    /// A store that is gone with its last handle: for tests.
    #[must_use]
    pub fn in_memory(schema: Schema) -> Self {
        let engine = Arc::new(MemoryEngine::default());
        Self::start(
            engine,
            schema,
            Box::new(NoLog),
            0,
            None,
            None,
            Options::default(),
        )
    }

    fn start(
        engine: Arc<dyn Engine>,
        schema: Schema,
        log: Box<dyn CommitLog>,
        number: u64,
        segments: Option<Segments>,
        lock: Option<File>,
        options: Options,
    ) -> Self {
        let (inbox, messages) = sync_channel(QUEUE);
        let writer = Writer {
            engine: Arc::clone(&engine),
            log,
            mirrors: HashMap::new(),
            number,
            unsynced: None,
            failed: None,
            on_failure: options.on_failure,
        };
        let mut threads = vec![spawn("store-writer", move || writer.run(&messages))];
        let mut stop_checkpoints = None;
        if let Some(segments) = segments.clone() {
            let (stop, stopped) = channel();
            stop_checkpoints = Some(stop);
            let engine = Arc::clone(&engine);
            threads.push(spawn("store-checkpoint", move || {
                checkpoints(&*engine, &segments, &stopped)
            }));
        }
        Self(Arc::new(Inner {
            engine,
            schema,
            inbox,
            threads: Mutex::new(threads.into_iter().flatten().collect()),
            stop_checkpoints: Mutex::new(stop_checkpoints),
            segments,
            _lock: lock,
        }))
    }

    /// Runs a plan on the writer thread and commits what it changed, if it returns `Ok`. Earlier
    /// plans are visible to it, committed or in its own group.
    pub fn write<T, E, F>(&self, class: Durability, plan: F) -> Commit<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<T, E> + Send + 'static,
    {
        let (sender, commit) = Commit::channel();
        // Kept outside of the job, so that a refusal can still be answered.
        let sender = Arc::new(Mutex::new(Some(sender)));
        let answer = Arc::clone(&sender);
        let reply = move |result| {
            if let Some(sender) = answer.lock().take() {
                // Nobody may be waiting any more.
                let _ = sender.send(result);
            }
        };
        let job = Box::new(move |mut txn: Txn<'_>| {
            let result = plan(&mut txn);
            let plan = if result.is_ok() {
                txn.plan
            } else {
                Plan::default()
            };
            let answer = Box::new(move |committed: Result<(), StoreError>| {
                reply(committed.map_err(E::from).and(result));
            });
            Outcome { plan, answer }
        });
        let refused = match self.0.inbox.try_send(Message::Write(class, job)) {
            Ok(()) => return commit,
            Err(TrySendError::Full(_)) => StoreError::Overloaded,
            Err(TrySendError::Disconnected(_)) => StoreError::Closed,
        };
        if let Some(sender) = sender.lock().take() {
            let _ = sender.send(Err(refused.into()));
        }
        commit
    }

    /// Reads what has been applied; for cold things, since the engine's read path is slow and may
    /// block. Not a snapshot: two reads can see two states.
    pub fn read<R>(&self, read: impl FnOnce(&Txn<'_>) -> R) -> R {
        let nothing = Plan::default();
        read(&Txn {
            engine: self.0.engine.as_ref(),
            group: &nothing,
            plan: Plan::default(),
        })
    }

    /// Fills a mirror from its table and keeps it up to date from then on.
    ///
    /// # Errors
    /// That the engine failed. Damaged records are logged and left out.
    pub fn attach<T: Table>(&self, mirror: Arc<dyn Mirror<T>>) -> Result<(), StoreError> {
        /// Records that are decoded at a time.
        const BATCH: usize = 4_096;
        self.between(|writer| {
            let publish = mirror::publish(mirror);
            let mut scan = writer.engine.scan(T::NAME, &[], None);
            loop {
                let batch = scan.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
                publish(
                    &mut batch
                        .iter()
                        .map(|(key, value)| (key.as_slice(), Some(value.as_slice()))),
                );
                if batch.len() < BATCH {
                    break;
                }
            }
            drop(scan);
            writer.mirrors.entry(T::NAME).or_default().push(publish);
            Ok(())
        })
    }

    /// Compares records and indexes, both ways, while no write runs.
    ///
    /// # Errors
    /// That the engine failed.
    pub fn verify(&self) -> Result<Vec<TableReport>, StoreError> {
        let schema = self.0.schema.clone();
        self.between(move |writer| verify::verify(&*writer.engine, &schema))
    }

    /// Makes the indexes right again; reports what was wrong.
    ///
    /// # Errors
    /// That the engine failed, or the commit.
    pub fn rebuild(&self) -> Result<Vec<TableReport>, StoreError> {
        let schema = self.0.schema.clone();
        self.write(Durability::Durable, move |txn| verify::mend(txn, &schema))
            .wait()
    }

    /// Syncs the engine and retires the log segments that it no longer needs.
    ///
    /// # Errors
    /// That a sync failed.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        match &self.0.segments {
            Some(segments) => checkpoint(&*self.0.engine, segments),
            None => Ok(()),
        }
    }

    /// Whether the writer thread answers, for the watchdog: whatever it answers, it is not hung.
    pub fn probe(&self) -> Commit<(), StoreError> {
        self.write(Durability::Logged, |_| Ok(()))
    }

    fn between<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let message = Message::Between(Box::new(move |writer| {
            let _ = sender.send(work(writer));
        }));
        self.0.inbox.send(message).map_err(|_| StoreError::Closed)?;
        receiver.recv().map_err(|_| StoreError::Closed)?
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The queue may be full; the writer empties it and then sees that everyone is gone.
        let _ = self.inbox.send(Message::Stop);
        self.stop_checkpoints.lock().take();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
        if let Some(segments) = &self.segments {
            // A start after this has nothing to replay. If it fails, the log still has it all.
            let _ = checkpoint(&*self.engine, segments);
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    // Without the thread every write answers that the store is closed.
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .inspect_err(|error| tracing::error!(%error, name, "no thread could be started"))
        .ok()
}

/// Syncs the engine now and then until told to stop.
fn checkpoints(engine: &dyn Engine, segments: &Segments, stopped: &Receiver<()>) {
    let mut last = engine.applied().ok();
    while stopped.recv_timeout(CHECKPOINT_EVERY) == Err(RecvTimeoutError::Timeout) {
        let applied = engine.applied().ok();
        if applied == last {
            continue;
        }
        match checkpoint(engine, segments) {
            Ok(()) => last = applied,
            // The log keeps everything meanwhile.
            Err(error) => tracing::error!(%error, "checkpoint failed"),
        }
    }
}

fn checkpoint(engine: &dyn Engine, segments: &Segments) -> Result<(), StoreError> {
    let applied = engine.applied()?;
    engine.sync()?;
    segments.retire(applied)
}

/// Names the directory: at start "permission denied" alone sends a person looking everywhere.
fn unusable(directory: &Path, error: io::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Io(why) => {
            StoreError::Io(format!("the data directory {}: {why}", directory.display()))
        }
        other => other,
    }
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("lock"))
        .map_err(|error| unusable(directory, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Writes the format number into a new directory; refuses one of a newer version.
fn check_format(directory: &Path, sync: bool) -> Result<(), StoreError> {
    let path = directory.join("format");
    match fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(found) if found > FORMAT => Err(StoreError::Newer {
                found,
                known: FORMAT,
            }),
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Damaged {
                place: "the file `format`".to_owned(),
                what: "is not a number".to_owned(),
            }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Written aside and renamed, so that it is whole or absent.
            let new = directory.join("format.new");
            fs::write(&new, format!("{FORMAT}\n"))?;
            if sync {
                File::open(&new)?.sync_all()?;
            }
            fs::rename(&new, &path)?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
