//! The loop of the writer thread: runs transactions, appends them to the WAL, publishes and answers them, one group at
//! a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::commit::inbox::Inbox;
use crate::commit::writer::{
    CommitCallback, Durability, TransactionResult, Writer, WriterJob, WriterMessage,
};
use crate::error::StoreError;
use crate::shared_log_error::ENTRY_MAX;
use crate::txn::{Publication, Txn};
use crate::write_batch::WriteBatch;

/// Limits of one group: a commit must not wait for its sync indefinitely.
const GROUP_JOBS: usize = 1_024;
const GROUP_BYTES: usize = 2 * 1024 * 1024;

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

impl Writer {
    pub(crate) fn run(mut self, inbox: &Receiver<WriterMessage>) {
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

    const fn group_bytes(&self) -> usize {
        match self.replica {
            None => GROUP_BYTES,
            // A group is one entry of the shared log, whose limit is lower than that of the WAL.
            Some(_) => ENTRY_MAX / 2,
        }
    }
}
