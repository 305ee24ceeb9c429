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

pub use entry::{BATCH_MAX, ENTRY_MAX, Entry, EntryError, FleetId, MemberId};
pub use member::{Appending, Member, MemberRole, Position, ReplicationError};
pub(in crate::store) use replica::Replica;
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

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedLogError {
    /// The outcome is unknown: the request may have been carried out, or may be later.
    #[error("the shared log (etcd) did not answer: {0}")]
    Unknown(String),
    /// The request was not carried out and will not be.
    #[error("the shared log (etcd) refused the request: {0}")]
    Refused(String),
    #[error(
        "the shared log begins at commit {first}, and this member needs earlier ones: this member was away too long; run `playgate fleet reseed`"
    )]
    Truncated { first: u64 },
    #[error("entry {number} of the shared log {why}")]
    Damaged { number: u64, why: EntryError },
    #[error(
        "the shared log belongs to another fleet: `fleet.endpoints` lead to another etcd, or to one that was emptied; if the data of etcd are lost, run `playgate fleet recover` on the member with the highest commit (`playgate fleet status` on each)"
    )]
    Foreign,
    /// etcd is not the one that this member knows, or an older state of it.
    #[error(
        "{what}: etcd was restored from an older copy, and may lack acknowledged changes that only members have; keep all their data directories, stop all members, find the one with the highest commit (`playgate fleet status` on each), and run `playgate fleet recover` there"
    )]
    Restored { what: String },
    #[error(
        "member {member} has commits up to {applied}, and the shared log ends at {head}: etcd was restored from an older copy; keep the data directory of {member}, stop all members, and run `playgate fleet recover` on it; if its data are not wanted, run `playgate fleet leave --name {member}` on another member"
    )]
    MemberAhead {
        member: String,
        applied: u64,
        head: u64,
    },
    #[error(
        "etcd has the log of the fleet with commits up to {head}, and the member that is to continue it has commits up to {number} only: run `playgate fleet recover` on a member that has all; or, to lose the others, remove the keys of the fleet from etcd (docs/fleet.md)"
    )]
    Behind { head: u64, number: u64 },
    #[error(
        "member {by} has continued the fleet after the data of etcd were lost: run `playgate fleet reseed` on this member"
    )]
    Recovered { by: String },
    #[error(
        "the fleet was dissolved, and member {into} continues alone; to use this data on its own, run `playgate fleet leave`"
    )]
    Dissolved { into: String },
}
