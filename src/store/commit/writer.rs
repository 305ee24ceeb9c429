//! The writer: the state of the only thread that changes the store, the messages to it, and the steps of which its
//! work consists.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::commit::crowd::Crowd;
use crate::commit::memory_table::TableListener;
use crate::engine::{Engine, MemoryEngine};
use crate::error::StoreError;
use crate::replication::Replica;
use crate::shared::Shared;
use crate::snapshot::durable_state::{apply_to, replay};
use crate::table::TreeName;
use crate::txn::{Publication, Txn};
use crate::wal::{CommitLog, FileLog, FullLog};
use crate::write_batch::WriteBatch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Answered after the sync: neither a kill nor a power cut loses the commit.
    Durable,
    /// Answered after the write to the WAL, which is synced within [`SYNC_WITHIN`]. A kill loses
    /// nothing; a power cut loses at most the commits of that time.
    Logged,
}

pub const SYNC_WITHIN: Duration = Duration::from_millis(500);
/// Age of the oldest unsynced commit at which a sync begins. The sync then has 150 ms to end within [`SYNC_WITHIN`].
const SYNC_AFTER: Duration = Duration::from_millis(350);
/// Maximum size of the commits that wait in the memory of a fleet member for a sync of the WAL.
const UNSYNCED_BYTES: usize = 1024 * 1024;

#[must_use = "a commit that nobody waits for may have failed"]
pub struct Commit<T, E>(oneshot::AsyncReceiver<Result<T, E>>);

impl<T, E: From<StoreError>> Commit<T, E> {
    pub(crate) fn channel() -> (oneshot::Sender<Result<T, E>>, Self) {
        let (sender, receiver) = oneshot::async_channel();
        (sender, Self(receiver))
    }

    /// Blocks until the commit is answered, so it must not be called on a runtime thread.
    pub fn wait(self) -> Result<T, E> {
        pollster::block_on(self)
    }
}

impl<T, E: From<StoreError>> Future for Commit<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(StoreError::Closed.into())))
    }
}

pub(crate) type CommitCallback = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The changes are empty if the transaction failed.
pub(crate) struct TransactionResult {
    pub(crate) batch: WriteBatch,
    pub(crate) publications: Vec<Publication>,
    pub(crate) answer: CommitCallback,
}

pub(crate) type WriterJob = Box<dyn FnOnce(Txn<'_>) -> TransactionResult + Send>;

pub(crate) type WriterWork = Box<dyn FnOnce(&mut Writer) + Send>;

pub(crate) enum WriterMessage {
    Write(Durability, WriterJob),
    /// Runs between two groups and holds up every commit until it returns.
    Exclusive(WriterWork),
    /// Like `Exclusive`, without the sync before it.
    Replicate(WriterWork),
    /// Answered after at most one sync, and without waiting for a group to form.
    Probe(oneshot::Sender<Result<(), StoreError>>),
    Stop,
}

pub(crate) fn run_exclusive<R: Send + 'static>(
    writer: &SyncSender<WriterMessage>,
    work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
) -> Result<R, StoreError> {
    run_on_writer(writer, WriterMessage::Exclusive, work)
}

pub(crate) fn run_on_writer<R: Send + 'static>(
    writer: &SyncSender<WriterMessage>,
    message: fn(WriterWork) -> WriterMessage,
    work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
) -> Result<R, StoreError> {
    let (sender, receiver) = oneshot::channel();
    let message = message(Box::new(move |writer| {
        // The receiver may be gone; the work is done anyway.
        let _ = sender.send(work(writer));
    }));
    // Blocks while the queue is full. The callers are maintenance operations, which may wait.
    writer.send(message).map_err(|_| StoreError::Closed)?;
    receiver.recv().map_err(|_| StoreError::Closed)?
}

/// Returns the last commit. It and all before it are in the WAL, and in the engine or the memtable.
pub(crate) fn last_number(writer: &SyncSender<WriterMessage>) -> Result<u64, StoreError> {
    run_exclusive(writer, |writer| Ok(writer.number))
}

pub(crate) struct Writer {
    pub(crate) core: Arc<Shared>,
    pub(crate) log: Box<dyn CommitLog>,
    pub(crate) listeners: HashMap<TreeName, Vec<Arc<dyn TableListener>>>,
    pub(crate) number: u64,
    /// When the oldest commit that is logged but not synced was appended.
    pub(crate) unsynced: Option<Instant>,
    pub(crate) replica: Option<Replica>,
    pub(crate) crowd: Crowd,
}

impl Writer {
    pub(crate) fn sync_timeout(&self) -> Duration {
        self.unsynced.map_or(Duration::from_secs(3_600), |since| {
            // Counted from the oldest unsynced commit, so that a steady stream cannot postpone the sync.
            SYNC_AFTER.saturating_sub(since.elapsed())
        })
    }

    /// Passes a group to the engine by way of the memtable, in a fleet only after a sync of the WAL.
    pub(crate) fn apply_later(&mut self, group: WriteBatch) -> Result<(), StoreError> {
        if self.replica.is_some() && self.unsynced.is_some() {
            let waiting = self.core.memtable.push_unsynced(self.number, group);
            return match waiting > UNSYNCED_BYTES {
                true => self.sync(),
                false => Ok(()),
            };
        }
        let is_ready = || self.core.engine().is_ready();
        self.core.memtable.push(self.number, group, is_ready);
        Ok(())
    }

    pub(crate) fn roll(&mut self) -> Result<(), StoreError> {
        match self.log.roll() {
            Err(error) if error.is_transient() => Err(error),
            other => self.or_fail(other),
        }
    }

    pub(crate) fn restore_end(&mut self) -> Result<(), StoreError> {
        self.log.restore_end()
    }

    /// Replaces an engine that has no disk space by one in memory, and makes the store read-only.
    /// Returns the old engine, since closing it may take long.
    pub(crate) fn detach_engine(
        &mut self,
        memory: MemoryEngine,
        number: u64,
    ) -> Option<Arc<dyn Engine>> {
        // The engine may have recovered, or commits may have followed that the copy in memory lacks.
        if !self.core.memtable.is_stalled() || number != self.number {
            return None;
        }
        tracing::warn!("the disk is full: serving from memory, read-only");
        self.log = Box::new(FullLog);
        Some(self.core.replace_engine(Arc::new(memory), false))
    }

    /// Switches to an engine that has every commit up to `number`. Returns the old engine, since
    /// closing it may take long.
    pub(crate) fn change_engine(
        &mut self,
        engine: Arc<dyn Engine>,
        number: u64,
    ) -> Result<Arc<dyn Engine>, StoreError> {
        let state = self.core.durable_state(None, self.number)?;
        // The new engine was built while commits went on; the few later ones are replayed here.
        replay(
            &state.segments,
            number,
            state.last,
            state.schema,
            &mut apply_to(&*engine),
        )?;
        Ok(self.core.replace_engine(engine, true))
    }

    pub(crate) fn resume(&mut self, engine: Arc<dyn Engine>, log: FileLog, number: u64) {
        // Commits are rejected while the store is read-only, so the numbers differ only if another program
        // changed the files.
        if number != self.number {
            self.core.failure.report(&StoreError::Engine(format!(
                "it was reopened at commit {number} instead of {}",
                self.number
            )));
            return;
        }
        self.core.publish_segments(&log);
        self.log = Box::new(log);
        self.unsynced = None;
        self.core.replace_engine(engine, true);
        tracing::info!("the disk is writable again");
    }

    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.log.sync();
        self.or_fail(synced)?;
        self.unsynced = None;
        if self.replica.is_some() {
            self.core.memtable.synced();
        }
        self.core.counts.synced();
        Ok(())
    }

    pub(crate) fn sync_or_fail(&mut self) {
        if self.unsynced.is_some() && self.core.failure.get().is_none() {
            // `sync` has already reported the failure, and no caller is waiting here.
            let _ = self.sync();
        }
    }

    pub(crate) fn or_fail(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        result.map_err(|error| self.core.failure.report(&error))
    }

    pub(crate) fn publish(&self, group: &WriteBatch) -> Result<(), StoreError> {
        for (tree, changes) in group.trees() {
            let Some(listeners) = self.listeners.get(tree) else {
                continue;
            };
            for listener in listeners {
                listener.apply(&mut changes.clone())?;
            }
        }
        Ok(())
    }
}
