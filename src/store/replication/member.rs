//! A member of a fleet: appends as the owner, follows as any other.

use std::time::Duration;

use super::entry::{ENTRY_MAX, Entry, EntryError, FleetId, MemberId};
use super::{Appended, Claim, SharedLog, SharedLogError};
use crate::store::StoreError;
use crate::store::snapshot::history::History;

/// Entries that are read at a time.
const READ_BYTES: usize = 4 * 1024 * 1024;

/// The last commit that a member has applied. Numbers of different timelines are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    pub number: u64,
    pub history: History,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Follower,
    /// Has applied everything that was appended before its claim.
    Owner {
        epoch: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appending {
    /// The entry is in the log and applied: the change may be answered.
    Committed,
    /// The entry is not in the log and never will be: another member is or becomes the owner.
    Moved,
    /// Unknown. [`Member::settle`] must find out before the next append; the plan has no answer yet.
    Unsettled,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationError {
    #[error(transparent)]
    Log(#[from] SharedLogError),
    #[error(
        "entry {number} of the shared log does not continue the state of this member; run `playgate fleet reseed`"
    )]
    Diverged { number: u64 },
    #[error(
        "the shared log ends at {head}, and this member has commits up to {applied}: a backup was restored here, and `playgate fleet reseed` gets the state of the others; or etcd was restored from an old copy, for which see docs/fleet.md"
    )]
    LogIsBehind { head: u64, applied: u64 },
    #[error(
        "entry {number} of the shared log has format {found}; this version reads up to {known}: install the version of the owner"
    )]
    Newer { number: u64, found: u32, known: u32 },
    /// The entry is in the shared log and not in the local store: only a restart can go on.
    #[error(transparent)]
    Local(StoreError),
    #[error("an append is not settled yet")]
    Unsettled,
}

type Applied = Result<(), StoreError>;

/// One process uses one member, on the thread that writes to its store.
#[derive(Clone, Hash)]
pub struct Member {
    fleet: FleetId,
    id: MemberId,
    format: u32,
    at: Position,
    role: Role,
    /// The entry for `at.number + 1` whose append has no answer.
    unsettled: Option<Entry>,
}

impl Member {
    /// A member begins as a follower, at what its own store has after recovery.
    #[must_use]
    pub const fn new(fleet: FleetId, id: MemberId, format: u32, at: Position) -> Self {
        Self {
            fleet,
            id,
            format,
            at,
            role: Role::Follower,
            unsettled: None,
        }
    }

    #[must_use]
    pub const fn position(&self) -> Position {
        self.at
    }

    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.unsettled.is_none()
    }

    /// Tries to become the owner, or renews the claim.
    pub fn claim(
        &mut self,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Role, ReplicationError> {
        if !self.is_settled() {
            return Err(ReplicationError::Unsettled);
        }
        let claim = log.claim(self.id)?;
        self.take(claim, log, apply)
    }

    /// Takes the outcome of [`SharedLog::claim`], which may have been called on another connection.
    pub fn take(
        &mut self,
        claim: Claim,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Role, ReplicationError> {
        if !self.is_settled() {
            return Err(ReplicationError::Unsettled);
        }
        match claim {
            Claim::Held { epoch } if self.role == Role::Owner { epoch } => {}
            Claim::Held { epoch } => {
                self.role = Role::Follower;
                // Under this claim nobody else appends, so what the barrier reaches is all there is: plans
                // see every earlier commit.
                self.barrier(log, apply)?;
                self.role = Role::Owner { epoch };
            }
            Claim::Other { .. } => self.role = Role::Follower,
        }
        Ok(self.role)
    }

    /// Applies everything that was appended before the call.
    pub fn barrier(
        &mut self,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<(), ReplicationError> {
        let head = log.head()?;
        if head < self.at.number {
            // Entries that were answered are gone, as after the restore of an old copy. To go on would give
            // their numbers away again.
            return Err(ReplicationError::LogIsBehind {
                head,
                applied: self.at.number,
            });
        }
        while self.at.number < head {
            self.follow(log, Duration::ZERO, apply)?;
        }
        Ok(())
    }

    /// Compares the member's last commit with the log, if that still has it. Once before anything else:
    /// from then on each entry proves that it continues the one before.
    pub fn verify(&self, log: &mut dyn SharedLog) -> Result<(), ReplicationError> {
        let (head, applied) = (log.head()?, self.at.number);
        if head < applied {
            return Err(ReplicationError::LogIsBehind { head, applied });
        }
        let number = applied;
        match log.read(number, 1, Duration::ZERO) {
            // What continues a truncated log is checked when it is applied.
            Err(SharedLogError::Truncated { first }) if first <= number + 1 => Ok(()),
            Err(error) => Err(error.into()),
            Ok(entries) => match entries.first() {
                Some(entry) if entry.history() != self.at.history => {
                    Err(ReplicationError::Diverged { number })
                }
                Some(_) | None => Ok(()),
            },
        }
    }

    /// Applies entries that were read on another connection; those that are applied already are skipped.
    pub fn accept(
        &mut self,
        entries: &[Entry],
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<(), ReplicationError> {
        if !self.is_settled() {
            return Err(ReplicationError::Unsettled);
        }
        let new = entries.iter().filter(|entry| entry.number > self.at.number);
        for entry in new.collect::<Vec<_>>() {
            self.apply(entry, apply)?;
        }
        Ok(())
    }

    /// Applies the next entries, if there are any; returns their number.
    pub fn follow(
        &mut self,
        log: &mut dyn SharedLog,
        wait: Duration,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<usize, ReplicationError> {
        if !self.is_settled() {
            // The next entry may be the unsettled one, and its plan would miss its answer.
            return Err(ReplicationError::Unsettled);
        }
        let entries = log.read(self.at.number + 1, READ_BYTES, wait)?;
        for entry in &entries {
            self.apply(entry, apply)?;
        }
        Ok(entries.len())
    }

    /// Appends a batch as the owner. `nonce` is random. `apply` writes the entry to the local log and
    /// publishes it; it runs only once the entry is in the shared log.
    pub fn append(
        &mut self,
        log: &mut dyn SharedLog,
        nonce: [u8; 16],
        batch: Vec<u8>,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Appending, ReplicationError> {
        if !self.is_settled() {
            // The next number is not known before.
            return Err(ReplicationError::Unsettled);
        }
        let Role::Owner { epoch } = self.role else {
            return Ok(Appending::Moved);
        };
        let entry = Entry {
            fleet: self.fleet,
            number: self.at.number + 1,
            epoch,
            member: self.id,
            nonce,
            format: self.format,
            before: self.at.history,
            batch,
        };
        // Found before it is sent, since a log that refuses for ever would never settle.
        if entry.batch.len() > ENTRY_MAX / 2
            && let Err(why) = entry.encode()
        {
            let number = entry.number;
            return Err(SharedLogError::Damaged { number, why }.into());
        }
        self.attempt(entry, log, apply)
    }

    /// Finds out what became of an append without an answer, and repeats it if it is still possible.
    /// Returns `None` if there is none.
    pub fn settle(
        &mut self,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Option<Appending>, ReplicationError> {
        let entry = self.unsettled.take();
        entry
            .map(|entry| self.attempt(entry, log, apply))
            .transpose()
    }

    fn attempt(
        &mut self,
        entry: Entry,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Appending, ReplicationError> {
        let outcome = self.outcome(&entry, log, apply);
        match &outcome {
            Ok(Appending::Committed) => {}
            Ok(Appending::Moved) => self.role = Role::Follower,
            Ok(Appending::Unsettled) | Err(_) => self.unsettled = Some(entry),
        }
        outcome
    }

    fn outcome(
        &mut self,
        entry: &Entry,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Appending, ReplicationError> {
        // Always the same bytes at the same number: however often they arrive, they are appended once.
        let appended = match log.append(entry) {
            Err(SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => {
                return Ok(Appending::Unsettled);
            }
            other => other?,
        };
        if appended == Appended::Done {
            self.apply(entry, apply)?;
            return Ok(Appending::Committed);
        }
        // The number is taken, perhaps by an earlier attempt, or the claim has ended. Either is final, so no
        // attempt can succeed from here on: what the slot holds now is what became of the plan.
        let slot = match log.read(entry.number, 1, Duration::ZERO) {
            Err(SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => {
                return Ok(Appending::Unsettled);
            }
            other => other?.into_iter().next(),
        };
        if slot.is_some_and(|slot| slot.nonce == entry.nonce) {
            self.apply(entry, apply)?;
            return Ok(Appending::Committed);
        }
        Ok(Appending::Moved)
    }

    /// Gives the ownership up, for a planned stop.
    pub fn resign(&mut self, log: &mut dyn SharedLog) -> Result<(), ReplicationError> {
        if !self.is_settled() {
            return Err(ReplicationError::Unsettled);
        }
        self.role = Role::Follower;
        Ok(log.resign(self.id)?)
    }

    fn apply(
        &mut self,
        entry: &Entry,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<(), ReplicationError> {
        self.check(entry)?;
        apply(entry).map_err(ReplicationError::Local)?;
        self.at = Position {
            number: entry.number,
            history: entry.history(),
        };
        Ok(())
    }

    fn check(&self, entry: &Entry) -> Result<(), ReplicationError> {
        let number = self.at.number + 1;
        if entry.fleet != self.fleet {
            return Err(SharedLogError::Foreign.into());
        }
        if entry.number != number {
            let why = EntryError::Number;
            return Err(SharedLogError::Damaged { number, why }.into());
        }
        // Equal numbers do not mean equal histories; equal chain digests do.
        if entry.before != self.at.history {
            return Err(ReplicationError::Diverged { number });
        }
        if entry.format > self.format {
            return Err(ReplicationError::Newer {
                number,
                found: entry.format,
                known: self.format,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::replication::memory::MemoryLog;

    const FLEET: FleetId = [9; 16];

    fn begin() -> Position {
        Position {
            number: 0,
            history: History::begin([7; 16], 0),
        }
    }

    fn member(id: u8) -> Member {
        Member::new(FLEET, [id; 16], 1, begin())
    }

    fn ignore(_: &Entry) -> Applied {
        Ok(())
    }

    /// A log with two entries, and the member that has appended them.
    fn filled(batches: [&[u8]; 2]) -> (MemoryLog, Member) {
        let (mut log, mut owner) = (MemoryLog::new(0), member(1));
        owner.claim(&mut log, &mut ignore).unwrap();
        for batch in batches {
            let appended = owner.append(&mut log, [1; 16], batch.to_vec(), &mut ignore);
            assert_eq!(appended, Ok(Appending::Committed));
        }
        (log, owner)
    }

    #[test]
    fn log_that_lost_entries_or_has_others_stops_the_member() {
        let (mut log, owner) = filled([b"a", b"b"]);
        // An old copy of the log: it ends before what was acknowledged.
        let mut old = log.clone();
        old.entries.pop_back();
        old.head = 1;
        old.expire();
        let behind = ReplicationError::LogIsBehind {
            head: 1,
            applied: 2,
        };
        let ahead = || Member::new(FLEET, [2; 16], 1, owner.position());
        assert_eq!(ahead().barrier(&mut old, &mut ignore), Err(behind.clone()));
        assert_eq!(ahead().claim(&mut old, &mut ignore), Err(behind));
        // The old copy goes on with another entry at the same number, and then a third one.
        let (mut other, mut its_owner) = filled([b"a", b"c"]);
        let appended = its_owner.append(&mut other, [3; 16], b"d".to_vec(), &mut ignore);
        assert_eq!(appended, Ok(Appending::Committed));
        let diverged = Err(ReplicationError::Diverged { number: 3 });
        assert_eq!(ahead().barrier(&mut other, &mut ignore), diverged);
        // A control: the log that the member knows goes on.
        log.expire();
        let appended = owner_of(&mut log, owner.position());
        assert_eq!(appended, Ok(Appending::Committed));
        assert_eq!(ahead().barrier(&mut log, &mut ignore), Ok(()));
    }

    fn owner_of(log: &mut MemoryLog, at: Position) -> Result<Appending, ReplicationError> {
        let mut next = Member::new(FLEET, [3; 16], 1, at);
        next.claim(log, &mut ignore)?;
        next.append(log, [4; 16], b"d".to_vec(), &mut ignore)
    }

    #[test]
    fn foreign_damaged_and_newer_entries_are_not_applied() {
        let refused = |change: &dyn Fn(&mut Entry)| {
            let (mut log, _) = filled([b"a", b"b"]);
            let mut entry = Entry::decode(&log.entries[1]).unwrap();
            change(&mut entry);
            log.entries[1] = entry.encode().unwrap().into();
            let mut applied = Vec::<u8>::new();
            let result = member(2).barrier(&mut log, &mut |entry| {
                applied.extend(&entry.batch);
                Ok(())
            });
            // The entry before it is applied, and nothing of this one.
            assert_eq!(applied, b"a");
            result.unwrap_err()
        };
        let foreign = refused(&|entry| entry.fleet = [8; 16]);
        assert_eq!(foreign, SharedLogError::Foreign.into());
        let number = refused(&|entry| entry.number = 9);
        let why = EntryError::Number;
        assert_eq!(number, SharedLogError::Damaged { number: 2, why }.into());
        let newer = ReplicationError::Newer {
            number: 2,
            found: 2,
            known: 1,
        };
        assert_eq!(refused(&|entry| entry.format = 2), newer);
        let timeline = refused(&|entry| entry.before.timeline = [6; 16]);
        assert_eq!(timeline, ReplicationError::Diverged { number: 2 });
        // A flipped bit on a disk of the log.
        let (mut log, _) = filled([b"a", b"b"]);
        let mut bytes = log.entries[0].to_vec();
        bytes[50] ^= 1;
        log.entries[0] = bytes.into();
        let why = EntryError::Checksum;
        assert_eq!(
            member(2).barrier(&mut log, &mut ignore),
            Err(SharedLogError::Damaged { number: 1, why }.into())
        );
    }
}
