//! Replication over a log that several processes share: one of them appends, and all apply.
//!
//! At most one member at a time, the *owner*, appends. Every member applies the entries in order to
//! its own store. Safety depends on one rule, which every [`SharedLog`] must guarantee: an append
//! succeeds only if, in one atomic step, the entry is the next one and the claim of its owner still
//! holds. The lease of a claim is needed for liveness only: a member that wrongly believes that it is
//! the owner can plan a change but not append it.
//!
//! This module must not know what the entries mean, which system stores the log, or the time.

mod entry;
mod member;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod model_tests;
mod replica;
#[cfg(test)]
mod replica_tests;

pub use crate::shared_log_error::{ENTRY_MAX, EntryError, SharedLogError};
pub use entry::{BATCH_MAX, Entry, FleetId, MemberId};
pub use member::{Appending, Member, MemberRole, Position, ReplicationError};
pub(crate) use replica::{Joined, Replica};
pub use replica::{ReplicaStatus, Replication};

/// Every call is linearizable: it sees the effects of all calls that were answered before, to any member.
pub trait SharedLog {
    /// Appends an entry, in one atomic step that checks that the last number is `entry.number - 1` and
    /// that the claim `entry.epoch` holds. The entry may be sent more than once: all but one of the requests
    /// fail that check.
    fn append(&mut self, entry: &Entry) -> Result<Appended, SharedLogError>;

    /// Returns entries from a number on, in order and without a gap: about `bytes` bytes, and at least one
    /// entry if there is one.
    fn read(&mut self, from: u64, bytes: usize) -> Result<Vec<Entry>, SharedLogError>;

    fn head(&mut self) -> Result<u64, SharedLogError>;

    /// Claims the log, or renews the claim of the member. A claim ends when its holder resigns or does not
    /// renew it within its lease.
    fn claim(&mut self, member: MemberId) -> Result<Claim, SharedLogError>;

    fn resign(&mut self, member: MemberId) -> Result<(), SharedLogError>;

    /// Removes the entries below a number. The caller ensures that members have synced them.
    fn truncate(&mut self, below: u64) -> Result<(), SharedLogError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    Done,
    /// The number is taken or the claim has ended. An attempt with the same entry may have appended it.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Epochs are never used twice, so an outdated owner is recognised by its epoch.
    Held {
        epoch: u64,
    },
    Other {
        member: MemberId,
    },
}
