//! A fleet member: it appends as the owner, and otherwise follows.

use super::entry::{Entry, FleetId, MemberId};
use super::{Appended, Claim, SharedLog};
use crate::error::StoreError;
use crate::history::History;
use crate::shared_log_error::{ENTRY_MAX, EntryError, SharedLogError};

/// Approximate size of the entries that are read at a time.
const READ_BYTES: usize = 4 * 1024 * 1024;

/// The last commit that a member has applied. Numbers of different timelines are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    pub number: u64,
    pub history: History,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberRole {
    Follower,
    /// The member has applied everything that was appended before its claim.
    Owner {
        epoch: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appending {
    /// The entry is in the log and applied, so the change may be answered.
    Committed,
    /// The entry is not in the log and never will be, because another member is or becomes the owner.
    Moved,
    /// The outcome is unknown. [`Member::settle`] must determine it before the next append.
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
        "the shared log ends at {head}, and this member has commits up to {applied}: etcd was restored from an older copy; keep this data directory, stop all members, find the one with the highest commit (`playgate fleet status` on each), and run `playgate fleet recover` there; only if a backup was restored on this member alone, run `playgate fleet reseed`"
    )]
    LogIsBehind { head: u64, applied: u64 },
    #[error(
        "entry {number} of the shared log has format {found}; this version reads up to {known}: install the version of the owner"
    )]
    Newer { number: u64, found: u32, known: u32 },
    /// The entry is in the shared log and not in the local store. The process must restart.
    #[error(transparent)]
    Local(StoreError),
    #[error("an append is not settled yet")]
    Unsettled,
}

type Applied = Result<(), StoreError>;

/// A process has one member, which it uses on the writer thread of its store.
#[derive(Clone, Hash)]
pub struct Member {
    fleet: FleetId,
    id: MemberId,
    format: u32,
    at: Position,
    role: MemberRole,
    /// The entry for `at.number + 1` whose append has no answer.
    unsettled: Option<Entry>,
}

impl Member {
    /// Creates a follower at the position of its own store after recovery.
    pub const fn new(fleet: FleetId, id: MemberId, format: u32, at: Position) -> Self {
        Self {
            fleet,
            id,
            format,
            at,
            role: MemberRole::Follower,
            unsettled: None,
        }
    }

    pub const fn position(&self) -> Position {
        self.at
    }

    pub const fn role(&self) -> MemberRole {
        self.role
    }

    pub const fn is_settled(&self) -> bool {
        self.unsettled.is_none()
    }

    fn settled(&self) -> Result<(), ReplicationError> {
        match self.is_settled() {
            true => Ok(()),
            false => Err(ReplicationError::Unsettled),
        }
    }

    pub fn claim(
        &mut self,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<MemberRole, ReplicationError> {
        self.settled()?;
        let claim = log.claim(self.id)?;
        self.take(claim, log, apply)
    }

    /// Processes the outcome of [`SharedLog::claim`], which may have been called on another connection.
    pub fn take(
        &mut self,
        claim: Claim,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<MemberRole, ReplicationError> {
        self.settled()?;
        match claim {
            Claim::Held { epoch } if self.role == MemberRole::Owner { epoch } => {}
            Claim::Held { epoch } => {
                self.role = MemberRole::Follower;
                // Under this claim no other member appends. After the barrier the member has every entry, so that its
                // transactions see every earlier commit.
                self.barrier(log, apply)?;
                self.role = MemberRole::Owner { epoch };
            }
            Claim::Other { .. } => self.role = MemberRole::Follower,
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
            // Acknowledged entries are missing, as after the restore of an old copy of the log. New entries would reuse
            // their numbers.
            return Err(ReplicationError::LogIsBehind {
                head,
                applied: self.at.number,
            });
        }
        while self.at.number < head {
            self.follow(log, apply)?;
        }
        Ok(())
    }

    /// Compares the member's last commit with the log, if the log still has it. One check at the start is enough:
    /// every later entry proves that it continues its predecessor.
    pub fn verify(&self, log: &mut dyn SharedLog) -> Result<(), ReplicationError> {
        let (head, applied) = (log.head()?, self.at.number);
        if head < applied {
            return Err(ReplicationError::LogIsBehind { head, applied });
        }
        let number = applied;
        match log.read(number, 1) {
            // The next entry of a truncated log is checked when it is applied.
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

    /// Applies entries that were read on another connection. Entries that are already applied are skipped.
    pub fn accept(
        &mut self,
        entries: &[Entry],
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<(), ReplicationError> {
        self.settled()?;
        let new = entries.iter().filter(|entry| entry.number > self.at.number);
        for entry in new.collect::<Vec<_>>() {
            self.apply(entry, apply)?;
        }
        Ok(())
    }

    /// Applies the next entries, if there are any, and returns how many.
    pub fn follow(
        &mut self,
        log: &mut dyn SharedLog,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<usize, ReplicationError> {
        // The next entry may be the unsettled one, whose caller would then get no answer.
        self.settled()?;
        let entries = log.read(self.at.number + 1, READ_BYTES)?;
        for entry in &entries {
            self.apply(entry, apply)?;
        }
        Ok(entries.len())
    }

    /// Appends a batch as the owner. `nonce` is random. `apply` writes the entry to the local WAL and publishes it. It
    /// runs only once the entry is in the shared log.
    pub fn append(
        &mut self,
        log: &mut dyn SharedLog,
        nonce: [u8; 16],
        batch: Vec<u8>,
        apply: &mut dyn FnMut(&Entry) -> Applied,
    ) -> Result<Appending, ReplicationError> {
        // The next number is unknown until the open append is settled.
        self.settled()?;
        let MemberRole::Owner { epoch } = self.role else {
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
        // A large entry is checked before it is sent: an append that the log always rejects would never be settled.
        if entry.batch.len() > ENTRY_MAX / 2
            && let Err(why) = entry.encode()
        {
            let number = entry.number;
            return Err(SharedLogError::Damaged { number, why }.into());
        }
        self.attempt(entry, log, apply)
    }

    /// Determines the outcome of an append without an answer, and repeats the append if that is still possible.
    /// Returns `None` if there is no such append.
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
            Ok(Appending::Moved) => self.role = MemberRole::Follower,
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
        // Every attempt sends the same bytes with the same number, so they are appended at most once.
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
        // The number is taken, perhaps by an earlier attempt, or the claim has ended. Both are final, so no attempt can
        // succeed any more, and the present entry with this number shows the outcome.
        let slot = match log.read(entry.number, 1) {
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

    pub fn resign(&mut self, log: &mut dyn SharedLog) -> Result<(), ReplicationError> {
        self.settled()?;
        self.role = MemberRole::Follower;
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
        // Equal numbers do not prove equal histories, but equal chain digests do.
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
    use crate::replication::memory::MemoryLog;

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

    /// Returns a log with two entries and the member that appended them.
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
        // An old copy of the log ends before the last acknowledged entry.
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
        // The old copy continues with another entry for the same number, and then with a third one.
        let (mut other, mut its_owner) = filled([b"a", b"c"]);
        let appended = its_owner.append(&mut other, [3; 16], b"d".to_vec(), &mut ignore);
        assert_eq!(appended, Ok(Appending::Committed));
        let diverged = Err(ReplicationError::Diverged { number: 3 });
        assert_eq!(ahead().barrier(&mut other, &mut ignore), diverged);
        // The control: the log that the member knows continues.
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
            // The entry before it is applied, and this one is not.
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
