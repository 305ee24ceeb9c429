//! Errors of the log that the members of a fleet share.

/// Maximum size of an encoded entry. A larger change must be split into several commits: etcd accepts requests of up
/// to 1.5 MiB.
pub const ENTRY_MAX: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("has a wrong checksum")]
    Checksum,
    #[error("was written by a newer version")]
    Newer,
    #[error("is incomplete")]
    Incomplete,
    #[error("is larger than an entry may be")]
    TooLarge,
    #[error("contains a commit with another number")]
    Number,
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
