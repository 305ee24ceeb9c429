//! The writer: one thread that plans, logs, publishes and answers, a group at a time.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::StoreError;
use super::durable_state::replay;
use super::engine::{Engine, MemoryEngine};
use super::maintenance;
use super::memory_table::Listener;
use super::shared::Shared;
use super::table::TreeName;
use super::txn::Txn;
use super::wal::{CommitLog, FileLog, FullLog};
use super::write_batch::WriteBatch;

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After it has been synced: neither a kill nor a power cut loses it.
    Durable,
    /// After it has been written to the log, which is synced within [`SYNC_WITHIN`]: a kill loses
    /// nothing, a power cut at most that much.
    Logged,
}

/// How long a logged commit may wait for its sync.
pub const SYNC_WITHIN: Duration = Duration::from_millis(500);

/// Bounds on one group, so that no commit waits for a sync without end.
const GROUP_JOBS: usize = 1_024;
const GROUP_BYTES: usize = 2 * 1024 * 1024;

/// A commit on its way: await it, or wait for it on a thread that may block.
#[must_use = "a commit that nobody waits for may have failed"]
pub struct Commit<T, E>(oneshot::AsyncReceiver<Result<T, E>>);

impl<T, E: From<StoreError>> Commit<T, E> {
    pub(super) fn channel() -> (oneshot::Sender<Result<T, E>>, Self) {
        let (sender, receiver) = oneshot::async_channel();
        (sender, Self(receiver))
    }

    /// Blocks until the commit has been answered; never on a thread of the runtime.
    ///
    /// # Errors
    /// What the plan returned, or why it could not be committed.
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

/// Tells the caller of a job how its group ended.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What a plan left behind: its changes, none if it failed, and who is to be told.
pub(super) struct Outcome {
    pub(super) plan: WriteBatch,
    pub(super) answer: Answer,
}

pub(super) type Job = Box<dyn FnOnce(Txn<'_>) -> Outcome + Send>;

pub(super) enum Message {
    Write(Durability, Job),
    /// Runs between two groups. It must be quick: no commit is answered meanwhile.
    Between(Box<dyn FnOnce(&mut Writer) + Send>),
    /// Asks whether the writer is there. It waits for one sync at the most, and for no group of its own.
    Probe(oneshot::Sender<Result<(), StoreError>>),
    Stop,
}

/// Has the writer do something between two groups, and waits for it.
pub(super) fn run_exclusive<R: Send + 'static>(
    writer: &SyncSender<Message>,
    work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
) -> Result<R, StoreError> {
    let (sender, receiver) = oneshot::channel();
    let message = Message::Between(Box::new(move |writer| {
        let _ = sender.send(work(writer));
    }));
    writer.send(message).map_err(|_| StoreError::Closed)?;
    receiver.recv().map_err(|_| StoreError::Closed)?
}

/// The number of the last commit. Everything up to it is in the log, and in the engine or its tail.
pub(super) fn last_number(writer: &SyncSender<Message>) -> Result<u64, StoreError> {
    run_exclusive(writer, |writer| Ok(writer.number))
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) core: Arc<Shared>,
    pub(super) log: Box<dyn CommitLog>,
    pub(super) mirrors: HashMap<TreeName, Vec<Arc<dyn Listener>>>,
    /// The number of the last commit.
    pub(super) number: u64,
    /// Since when something is logged but not synced.
    pub(super) unsynced: Option<Instant>,
}

impl Writer {
    /// Serves until everyone who could send is gone, or [`Message::Stop`].
    pub(super) fn run(mut self, inbox: &Receiver<Message>) {
        let mut held = None;
        loop {
            let first = match held.take() {
                Some(message) => Ok(message),
                None => inbox.recv_timeout(self.sync_timeout()),
            };
            match first {
                Ok(Message::Write(class, job)) => held = self.group(class, job, inbox),
                Ok(Message::Between(work)) => {
                    // Whoever reads the log or rolls it finds everything before it synced.
                    self.sync_or_fail();
                    work(&mut self);
                }
                Ok(Message::Probe(probe)) => self.answer(probe),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.sync_or_fail(),
            }
        }
        self.sync_or_fail();
        self.core.tail.end();
    }

    fn sync_timeout(&self) -> Duration {
        self.unsynced.map_or(Duration::from_secs(3_600), |since| {
            SYNC_WITHIN.saturating_sub(since.elapsed())
        })
    }

    /// Runs the first job and all that wait behind it, and commits them together. Returns a
    /// message that is not a job, for its turn.
    fn group(
        &mut self,
        mut class: Durability,
        mut job: Job,
        inbox: &Receiver<Message>,
    ) -> Option<Message> {
        let engine = self.core.engine();
        let mut group = WriteBatch::default();
        let mut answers = Vec::new();
        let (mut durable, mut changes) = (false, 0);
        let mut next = None;
        loop {
            if let Some(outcome) = self.plan(&*engine, job, &group) {
                durable |= class == Durability::Durable && !outcome.plan.is_empty();
                changes += u64::from(!outcome.plan.is_empty());
                group.merge(outcome.plan);
                answers.push(outcome.answer);
            }
            if answers.len() >= GROUP_JOBS || group.bytes() >= GROUP_BYTES {
                break;
            }
            let following = loop {
                match inbox.try_recv() {
                    Ok(Message::Probe(probe)) => self.answer(probe),
                    other => break other,
                }
            };
            match following {
                Ok(Message::Write(c, j)) => (class, job) = (c, j),
                Ok(other) => {
                    next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        drop(engine);
        let result = self.commit(group, durable);
        if result.is_ok() {
            self.core.counts.committed(changes);
        }
        for answer in answers {
            answer(result.clone());
        }
        next
    }

    fn answer(&self, probe: oneshot::Sender<Result<(), StoreError>>) {
        // Whoever asked may have stopped waiting.
        let _ = probe.send(self.core.failure.get().map_or(Ok(()), Err));
    }

    /// Runs a plan. One that panics is dropped with its changes; its caller finds the line closed.
    fn plan(&self, engine: &dyn Engine, job: Job, group: &WriteBatch) -> Option<Outcome> {
        let txn = Txn {
            engine,
            tail: &self.core.tail,
            group,
            plan: WriteBatch::default(),
        };
        catch_unwind(AssertUnwindSafe(|| job(txn)))
            .inspect_err(|_| tracing::error!("a plan panicked; nothing of it was committed"))
            .ok()
    }

    /// The order is the promise: log, sync, memory; the caller answers after. The engine follows.
    fn commit(&mut self, group: WriteBatch, durable: bool) -> Result<(), StoreError> {
        if let Some(failed) = self.core.failure.get() {
            return Err(failed);
        }
        let empty = group.is_empty();
        if !empty {
            if !self.core.is_writable() {
                return Err(StoreError::Full);
            }
            let number = self.number + 1;
            match self.log.append(number, &group.encode()) {
                // Nothing has changed, and space and descriptors may come back.
                Err(error) if error.passes() => return Err(error),
                other => self.or_fail(other)?,
            }
            self.number = number;
            self.unsynced.get_or_insert_with(Instant::now);
        }
        if durable || self.sync_timeout().is_zero() {
            self.sync()?;
        }
        if !empty {
            self.publish(&group);
            let is_ready = || self.core.engine().is_ready();
            self.core.tail.push(self.number, group, is_ready);
        }
        Ok(())
    }

    /// Closes the segment that is written to.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        match self.log.roll() {
            Err(error) if error.passes() => Err(error),
            other => self.or_fail(other),
        }
    }

    /// Puts an engine in memory, which has everything up to a commit, in place of one that has no space
    /// to go on. Nothing is written until there is space. Gives back the engine that is not used any
    /// more: to close it may take long. None if it was not replaced.
    pub(super) fn detach_engine(
        &mut self,
        memory: MemoryEngine,
        number: u64,
    ) -> Option<Arc<dyn Engine>> {
        if !self.core.tail.is_stalled() || number != self.number {
            return None;
        }
        tracing::warn!("the disk is full: served from memory, without writes");
        self.log = Box::new(FullLog);
        Some(self.core.replace_engine(Arc::new(memory), false))
    }

    /// Changes over to an engine that has everything up to a commit, after the few that have followed.
    /// Gives back the engine that is not used any more: to close it may take long.
    pub(super) fn change_engine(
        &mut self,
        engine: Arc<dyn Engine>,
        number: u64,
    ) -> Result<Arc<dyn Engine>, StoreError> {
        let truth = maintenance::truth(&self.core, None, self.number)?;
        replay(&truth.segments, number, self.number, truth.schema, &*engine)?;
        Ok(self.core.replace_engine(engine, true))
    }

    /// There is space again: the engine on the disk has been brought forward.
    pub(super) fn resume(&mut self, engine: Arc<dyn Engine>, log: FileLog, number: u64) {
        if number != self.number {
            self.core.failure.report(&StoreError::Engine(format!(
                "it came back at commit {number} instead of {}",
                self.number
            )));
            return;
        }
        maintenance::adopt_log(&self.core, &log);
        self.log = Box::new(log);
        self.unsynced = None;
        self.core.replace_engine(engine, true);
        tracing::info!("the disk can be written again");
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.log.sync();
        self.or_fail(synced)?;
        self.unsynced = None;
        self.core.counts.synced();
        Ok(())
    }

    fn sync_or_fail(&mut self) {
        if self.unsynced.is_some() && self.core.failure.get().is_none() {
            // The failure has been told; there is nobody to answer here.
            let _ = self.sync();
        }
    }

    fn or_fail(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        result.map_err(|error| self.core.failure.report(&error))
    }

    fn publish(&self, group: &WriteBatch) {
        for (tree, changes) in group.trees() {
            for mirror in self.mirrors.get(tree).into_iter().flatten() {
                mirror.apply(
                    &mut changes
                        .iter()
                        .map(|(key, change)| (key.as_slice(), change.as_deref())),
                );
            }
        }
    }
}
