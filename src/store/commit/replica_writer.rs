//! The writer of a fleet member's store. The owner appends each group of commits to the shared log and then to
//! its own WAL; the other members apply the entries of the owner.
//!
//! Whether a store has a replica is decided when it is opened. Without a replica, nothing in this module runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::commit::writer::Writer;
use crate::error::StoreError;
use crate::replication::{
    Appending, Claim, Entry, Joined, Member, MemberRole, Position, Replica, ReplicaStatus,
    Replication, ReplicationError, SharedLog,
};
use crate::shared_log_error::{EntryError, SharedLogError};
use crate::txn::Publication;
use crate::write_batch::WriteBatch;

/// Pause between two attempts to determine the outcome of an append.
const POLL_EVERY: Duration = Duration::from_millis(50);

type Apply<'a> = &'a mut dyn FnMut(&Entry) -> Result<(), StoreError>;

impl Writer {
    pub(crate) fn join(
        &mut self,
        mut replication: Replication,
    ) -> Result<ReplicaStatus, StoreError> {
        if self.replica.is_none() {
            return Err(StoreError::Failed(
                "the store was not opened as that of a fleet member".to_owned(),
            ));
        }
        // On a disk that is not writable there is no WAL.
        let history = self.log.history().ok_or(StoreError::Full)?;
        let at = Position {
            number: self.number,
            history,
        };
        let format = self.core.schema.format();
        let member = Member::new(replication.fleet, replication.member, format, at);
        let verified = member.verify(&mut *replication.log);
        verified.map_err(|error| self.replication_failed(error))?;
        let joined = Joined {
            member,
            replication,
            followed: 0,
            bytes: 0,
        };
        let status = joined.status();
        self.has_published(&joined.replication.published);
        self.replica = Some(Replica(Some(Box::new(joined))));
        Ok(status)
    }

    pub(crate) fn advance(
        &mut self,
        claim: Option<Claim>,
        entries: &[Entry],
    ) -> Result<ReplicaStatus, StoreError> {
        self.with_replica(|writer, joined| {
            writer.settle(joined)?;
            let applied = writer.follow(joined, |member, _, apply| member.accept(entries, apply));
            applied?;
            if let Some(claim) = claim {
                writer.follow(joined, |member, log, apply| {
                    member.take(claim, log, apply).map(drop)
                })?;
            }
            Ok(joined.status())
        })
    }

    pub(crate) fn leave_log(&mut self) {
        if let Some(Replica(joined)) = &mut self.replica {
            *joined = None;
        }
    }

    fn with_replica<R>(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Joined) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        if let Some(failed) = self.core.failure.get() {
            return Err(failed);
        }
        let joined = self.replica.as_mut().and_then(|replica| replica.0.take());
        let mut joined = joined.ok_or(StoreError::Moved)?;
        let done = work(self, &mut joined);
        if let Some(replica) = &mut self.replica {
            // The replica is restored after an error too: the next call may settle the open append.
            replica.0 = Some(joined);
        }
        done
    }

    /// Makes one attempt to settle an append without an answer, before the transactions of the next group read anything: the
    /// entry may be in the log, or may still reach it.
    pub(crate) fn settle_before_planning(&mut self) {
        if self.replica.is_some() {
            // Without an outcome the group is rejected; a failure of the store is reported already.
            let _ = self.with_replica(Self::settle);
        }
    }

    /// Commits a group as the owner. The shared log makes it durable, so the own WAL is synced later.
    pub(crate) fn commit_shared(
        &mut self,
        group: WriteBatch,
        publications: Vec<Publication>,
    ) -> Result<(), StoreError> {
        self.with_replica(|writer, joined| {
            // The transactions of this group did not see that entry, so it must not be settled here.
            if !joined.member.is_settled() {
                return Err(StoreError::Unsettled);
            }
            // A group without changes is rejected too: its transactions may have read an outdated state.
            if joined.member.role() == MemberRole::Follower {
                return Err(StoreError::Moved);
            }
            if group.is_empty() {
                return Ok(());
            }
            if !writer.core.is_writable() {
                return Err(StoreError::Full);
            }
            let batch = group.encode();
            // The order is shared log, own WAL, memory, answer. Readers must not see a change that the next owner may not
            // have.
            writer.append_shared(joined, &batch)?;
            joined.bytes += batch.len() as u64;
            writer.append_to_wal(joined.member.position().number, &batch)?;
            let published = writer.publish(&group);
            writer.or_fail(published)?;
            publications.into_iter().for_each(|publish| publish());
            writer.has_published(&joined.replication.published);
            writer.apply_later(group)
        })
    }

    /// Appends a batch and waits up to `max_wait` for the outcome. After that the outcome stays open, and the error is
    /// [`StoreError::Unsettled`].
    fn append_shared(&mut self, joined: &mut Joined, batch: &[u8]) -> Result<(), StoreError> {
        // The caller writes the entry to the own WAL and publishes it.
        let mut done = |_: &Entry| Ok(());
        let Replication {
            log,
            nonce,
            max_wait,
            ..
        } = &mut joined.replication;
        let until = Instant::now() + *max_wait;
        let (log, member) = (&mut **log, &mut joined.member);
        let mut appending = member.append(log, nonce(), batch.to_vec(), &mut done);
        while appending == Ok(Appending::Unsettled) && Instant::now() < until {
            std::thread::park_timeout(POLL_EVERY);
            let settled = member.settle(log, &mut done);
            appending = settled.map(|settled| settled.unwrap_or(Appending::Moved));
        }
        match appending {
            Ok(Appending::Committed) => Ok(()),
            Ok(Appending::Moved) => Err(StoreError::Moved),
            Ok(Appending::Unsettled) => Err(StoreError::Unsettled),
            Err(error) => Err(self.replication_failed(error)),
        }
    }

    /// Makes one attempt to settle an append without an answer. Nothing else may be planned before.
    fn settle(&mut self, joined: &mut Joined) -> Result<(), StoreError> {
        if joined.member.is_settled() {
            return Ok(());
        }
        self.follow(joined, |member, log, apply| {
            member.settle(log, apply).map(drop)
        })?;
        match joined.member.is_settled() {
            true => Ok(()),
            false => Err(StoreError::Unsettled),
        }
    }

    /// Runs `read` and applies each entry that it delivers to the store of this member.
    fn follow(
        &mut self,
        joined: &mut Joined,
        read: impl FnOnce(&mut Member, &mut dyn SharedLog, Apply<'_>) -> Result<(), ReplicationError>,
    ) -> Result<(), StoreError> {
        let (mut followed, mut bytes) = (0, 0);
        let Replication { log, published, .. } = &mut joined.replication;
        let done = read(&mut joined.member, &mut **log, &mut |entry| {
            followed += 1;
            bytes += entry.batch.len() as u64;
            self.apply_entry(entry)?;
            self.has_published(published);
            Ok(())
        });
        joined.followed += followed;
        joined.bytes += bytes;
        done.map_err(|error| self.replication_failed(error))
    }

    fn apply_entry(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let group = WriteBatch::decode(&entry.batch, &self.core.schema);
        let group = group.ok_or_else(|| StoreError::Damaged {
            place: format!("entry {} of the shared log", entry.number),
            what: "is not a batch of this version".to_owned(),
        })?;
        // The WAL comes before the memory: whatever readers see must survive a restart.
        self.append_to_wal(entry.number, &entry.batch)?;
        self.publish(&group)?;
        self.apply_later(group)
    }

    fn has_published(&self, published: &AtomicU64) {
        published.store(self.number, Ordering::Release);
    }

    fn append_to_wal(&mut self, number: u64, batch: &[u8]) -> Result<(), StoreError> {
        let appended = self.log.append(number, batch);
        // No error is transient here: the entry is in the shared log, and this store must not continue without it.
        self.or_fail(appended)?;
        // The number advances after the append: a number that the WAL does not have would leave a gap.
        self.number = number;
        self.unsynced.get_or_insert_with(Instant::now);
        // Entries are not synced one by one: a member that loses the end of its WAL reads it from the shared log again.
        if self.sync_timeout().is_zero() {
            self.sync()?;
        }
        Ok(())
    }

    fn replication_failed(&self, error: ReplicationError) -> StoreError {
        match error {
            ReplicationError::Unsettled => StoreError::Unsettled,
            ReplicationError::Log(SharedLogError::Damaged {
                why: EntryError::TooLarge,
                ..
            }) => StoreError::ChangeTooLarge,
            ReplicationError::Log(
                error @ (SharedLogError::Unknown(_)
                | SharedLogError::Refused(_)
                // Another copy of the log may be intact. The reader counts the attempts.
                | SharedLogError::Damaged { .. }),
            ) => StoreError::SharedLog(error),
            ReplicationError::Local(error) => self.core.failure.report(&error),
            error @ (ReplicationError::Log(
                SharedLogError::Truncated { .. }
                | SharedLogError::Foreign
                | SharedLogError::Restored { .. }
                | SharedLogError::MemberAhead { .. }
                | SharedLogError::Behind { .. }
                | SharedLogError::Recovered { .. }
                | SharedLogError::Dissolved { .. },
            )
            | ReplicationError::Diverged { .. }
            | ReplicationError::LogIsBehind { .. }
            | ReplicationError::Newer { .. }) => {
                let text = StoreError::Failed(error.to_string());
                self.core.failure.report(&text)
            }
        }
    }
}
