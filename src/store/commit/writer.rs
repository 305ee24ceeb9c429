//! The writer thread: runs transactions, appends them to the WAL, publishes and answers them, one
//! group at a time. The only thread that changes the store.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::store::commit::derived::Publication;
use crate::store::commit::inbox::{Crowd, Inbox};
use crate::store::commit::memory_table::TableListener;
use crate::store::engine::{Engine, MemoryEngine};
use crate::store::maintenance::{new_snapshot, thread};
use crate::store::replication::{ENTRY_MAX, Replica};
use crate::store::shared::Shared;
use crate::store::snapshot::durable_state::{apply_to, replay};
use crate::store::table::TreeName;
use crate::store::txn::Txn;
use crate::store::wal::{CommitLog, FileLog, FullLog};
use crate::store::write_batch::WriteBatch;

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

/// Limits of one group: a commit must not wait for its sync indefinitely.
const GROUP_JOBS: usize = 1_024;
const GROUP_BYTES: usize = 2 * 1024 * 1024;

#[must_use = "a commit that nobody waits for may have failed"]
pub struct Commit<T, E>(oneshot::AsyncReceiver<Result<T, E>>);

impl<T, E: From<StoreError>> Commit<T, E> {
    pub(in crate::store) fn channel() -> (oneshot::Sender<Result<T, E>>, Self) {
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

type CommitCallback = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The changes are empty if the transaction failed.
pub(in crate::store) struct TransactionResult {
    pub(in crate::store) batch: WriteBatch,
    pub(in crate::store) publications: Vec<Publication>,
    pub(in crate::store) answer: CommitCallback,
}

/// Transactions that are committed together.
#[derive(Default)]
struct Group {
    batch: WriteBatch,
    publications: Vec<Publication>,
    answers: Vec<CommitCallback>,
    durable: bool,
    /// Number of transactions with changes.
    changes: u64,
}

impl Group {
    fn add(&mut self, class: Durability, outcome: TransactionResult) {
        self.answers.push(outcome.answer);
        // A transaction without changes needs no sync and publishes nothing.
        if outcome.batch.is_empty() {
            return;
        }
        // One durable commit makes the sync of the whole group necessary.
        self.durable |= class == Durability::Durable;
        self.changes += 1;
        self.batch.merge(outcome.batch);
        self.publications.extend(outcome.publications);
    }
}

pub(in crate::store) type WriterJob = Box<dyn FnOnce(Txn<'_>) -> TransactionResult + Send>;

pub(in crate::store) type WriterWork = Box<dyn FnOnce(&mut Writer) + Send>;

pub(in crate::store) enum WriterMessage {
    Write(Durability, WriterJob),
    /// Runs between two groups and holds up every commit until it returns.
    Exclusive(WriterWork),
    /// Like `Exclusive`, without the sync before it.
    Replicate(WriterWork),
    /// Answered after at most one sync, and without waiting for a group to form.
    Probe(oneshot::Sender<Result<(), StoreError>>),
    Stop,
}

pub(in crate::store) fn run_exclusive<R: Send + 'static>(
    writer: &SyncSender<WriterMessage>,
    work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
) -> Result<R, StoreError> {
    run_on_writer(writer, WriterMessage::Exclusive, work)
}

pub(in crate::store) fn run_on_writer<R: Send + 'static>(
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
pub(in crate::store) fn last_number(writer: &SyncSender<WriterMessage>) -> Result<u64, StoreError> {
    run_exclusive(writer, |writer| Ok(writer.number))
}

pub(in crate::store) struct Writer {
    pub(in crate::store) core: Arc<Shared>,
    pub(in crate::store) log: Box<dyn CommitLog>,
    pub(in crate::store) listeners: HashMap<TreeName, Vec<Arc<dyn TableListener>>>,
    pub(in crate::store) number: u64,
    /// When the oldest commit that is logged but not synced was appended.
    pub(in crate::store) unsynced: Option<Instant>,
    pub(in crate::store) replica: Option<Replica>,
    pub(in crate::store) crowd: Crowd,
}

impl Writer {
    pub(in crate::store) fn run(mut self, inbox: &Receiver<WriterMessage>) {
        let mut inbox = Inbox::new(inbox);
        loop {
            match inbox.next(self.sync_timeout()) {
                Ok(WriterMessage::Write(class, job)) => self.group(class, job, &mut inbox),
                Ok(WriterMessage::Exclusive(work)) => {
                    // `work` may read or roll the WAL and must find all commits synced.
                    self.sync_or_fail();
                    work(&mut self);
                }
                Ok(WriterMessage::Replicate(work)) => work(&mut self),
                Ok(WriterMessage::Probe(probe)) => self.answer_probe(probe),
                Ok(WriterMessage::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.sync_or_fail(),
            }
        }
        // Logged commits become durable before the store closes.
        self.sync_or_fail();
        self.core.memtable.end();
    }

    pub(in crate::store) fn sync_timeout(&self) -> Duration {
        self.unsynced.map_or(Duration::from_secs(3_600), |since| {
            // Counted from the oldest unsynced commit, so that a steady stream cannot postpone the sync.
            SYNC_AFTER.saturating_sub(since.elapsed())
        })
    }

    /// Runs a job and all jobs queued behind it, and commits them together. The first message that is not a job ends the
    /// group and is handled next.
    fn group(&mut self, mut class: Durability, mut job: WriterJob, inbox: &mut Inbox<'_>) {
        let mut group = Group::default();
        self.settle_before_planning();
        let began = self.replica.is_some().then(Instant::now);
        loop {
            if let Some(outcome) = self.run_transaction(job, &group.batch) {
                let bytes = group.batch.bytes() + outcome.batch.bytes();
                if bytes > self.group_bytes() && !group.answers.is_empty() {
                    // A change that is too large must fail alone.
                    if let Err(error) = self.commit_group(std::mem::take(&mut group), inbox) {
                        // The transaction may have read changes of the group, which do not exist now.
                        (outcome.answer)(Err(error));
                        return;
                    }
                }
                group.add(class, outcome);
            }
            if group.answers.len() >= GROUP_JOBS || group.batch.bytes() >= self.group_bytes() {
                break;
            }
            // A probe is answered immediately, so that a long group does not look like a hang.
            let following = loop {
                let wait = began.map_or(Duration::ZERO, |began| {
                    let patience = self.crowd.patience(group.answers.len());
                    patience.saturating_sub(began.elapsed())
                });
                match inbox.next(wait) {
                    Ok(WriterMessage::Probe(probe)) => self.answer_probe(probe),
                    other => break other,
                }
            };
            match following {
                Ok(WriterMessage::Write(c, j)) => (class, job) = (c, j),
                Ok(other) => {
                    inbox.put_back(other);
                    break;
                }
                // The queue is empty, or all handles are gone. The collected changes are committed.
                Err(_) => break,
            }
        }
        // The answers have the result.
        let _ = self.commit_group(group, inbox);
    }

    fn commit_group(&mut self, group: Group, inbox: &mut Inbox<'_>) -> Result<(), StoreError> {
        let is_append = self.replica.is_some() && !group.batch.is_empty();
        let began = is_append.then(Instant::now);
        let result = self.commit(group.batch, group.publications, group.durable);
        if let Some(began) = began {
            // Before the answers: a client that is answered may send its next commit at once.
            let (answers, waiting) = (group.answers.len(), inbox.waiting());
            self.crowd.answers(answers, waiting, began.elapsed());
        }
        if result.is_ok() {
            self.core.counts.committed(group.changes);
        }
        // The answers come last: a caller that is answered must find its change in the memory tables and on disk.
        for answer in group.answers {
            answer(result.clone());
        }
        result
    }

    fn answer_probe(&self, probe: oneshot::Sender<Result<(), StoreError>>) {
        // The receiver may have been dropped.
        let _ = probe.send(self.core.failure.get().map_or(Ok(()), Err));
    }

    /// A panicking transaction loses its changes, and its caller gets [`StoreError::Closed`].
    fn run_transaction(&self, job: WriterJob, group: &WriteBatch) -> Option<TransactionResult> {
        let txn = Txn {
            shared: &self.core,
            group,
            batch: WriteBatch::default(),
            publications: Vec::new(),
        };
        catch_unwind(AssertUnwindSafe(|| job(txn)))
            .inspect_err(|_| tracing::error!("a transaction panicked; its changes were dropped"))
            .ok()
    }

    fn commit(
        &mut self,
        group: WriteBatch,
        publications: Vec<Publication>,
        durable: bool,
    ) -> Result<(), StoreError> {
        // After a failure neither WAL nor memory is trusted, so nothing more is promised.
        if let Some(failed) = self.core.failure.get() {
            return Err(failed);
        }
        if self.replica.is_some() {
            return self.commit_shared(group, publications);
        }
        let empty = group.is_empty();
        // The order guarantees durability: WAL, sync, memory, answer. The engine follows later.
        if !empty {
            if !self.core.is_writable() {
                return Err(StoreError::Full);
            }
            let number = self.number + 1;
            match self.log.append(number, &group.encode()) {
                // Nothing has changed. The same commit may succeed once space or descriptors are
                // free.
                Err(error) if error.is_transient() => return Err(error),
                other => self.or_fail(other)?,
            }
            // A number is used up only by a commit that is in the WAL.
            self.number = number;
            self.unsynced.get_or_insert_with(Instant::now);
        }
        if durable || self.sync_timeout().is_zero() {
            self.sync()?;
        }
        if !empty {
            let published = self.publish(&group);
            self.or_fail(published)?;
            // Publications run after the table listeners, so that they replace the states that those marked as stale.
            publications.into_iter().for_each(|publish| publish());
            self.apply_later(group)?;
        }
        Ok(())
    }

    /// Passes a group to the engine by way of the memtable, in a fleet only after a sync of the WAL.
    pub(in crate::store) fn apply_later(&mut self, group: WriteBatch) -> Result<(), StoreError> {
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

    const fn group_bytes(&self) -> usize {
        match self.replica {
            None => GROUP_BYTES,
            // A group is one entry of the shared log, whose limit is lower than that of the WAL.
            Some(_) => ENTRY_MAX / 2,
        }
    }

    pub(in crate::store) fn roll(&mut self) -> Result<(), StoreError> {
        match self.log.roll() {
            Err(error) if error.is_transient() => Err(error),
            other => self.or_fail(other),
        }
    }

    pub(in crate::store) fn restore_end(&mut self) -> Result<(), StoreError> {
        self.log.restore_end()
    }

    /// Replaces an engine that has no disk space by one in memory, and makes the store read-only.
    /// Returns the old engine, since closing it may take long.
    pub(in crate::store) fn detach_engine(
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
    pub(in crate::store) fn change_engine(
        &mut self,
        engine: Arc<dyn Engine>,
        number: u64,
    ) -> Result<Arc<dyn Engine>, StoreError> {
        let state = new_snapshot::durable_state(&self.core, None, self.number)?;
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

    pub(in crate::store) fn resume(&mut self, engine: Arc<dyn Engine>, log: FileLog, number: u64) {
        // Commits are rejected while the store is read-only, so the numbers differ only if another program
        // changed the files.
        if number != self.number {
            self.core.failure.report(&StoreError::Engine(format!(
                "it was reopened at commit {number} instead of {}",
                self.number
            )));
            return;
        }
        thread::publish_segments(&self.core, &log);
        self.log = Box::new(log);
        self.unsynced = None;
        self.core.replace_engine(engine, true);
        tracing::info!("the disk is writable again");
    }

    pub(in crate::store) fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.log.sync();
        self.or_fail(synced)?;
        self.unsynced = None;
        if self.replica.is_some() {
            self.core.memtable.synced();
        }
        self.core.counts.synced();
        Ok(())
    }

    fn sync_or_fail(&mut self) {
        if self.unsynced.is_some() && self.core.failure.get().is_none() {
            // `sync` has already reported the failure, and no caller is waiting here.
            let _ = self.sync();
        }
    }

    pub(in crate::store) fn or_fail(
        &self,
        result: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        result.map_err(|error| self.core.failure.report(&error))
    }

    pub(in crate::store) fn publish(&self, group: &WriteBatch) -> Result<(), StoreError> {
        for (tree, changes) in group.trees() {
            for listener in self.listeners.get(tree).into_iter().flatten() {
                let changes = changes.iter();
                listener
                    .apply(&mut changes.map(|(key, change)| (key.as_slice(), change.as_deref())))?;
            }
        }
        Ok(())
    }
}
