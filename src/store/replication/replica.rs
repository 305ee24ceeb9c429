//! What a fleet member's store knows of the log that it has joined.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::SharedLog;
use super::entry::{FleetId, MemberId};
use super::member::{Member, MemberRole, Position};

pub struct Replication {
    pub fleet: FleetId,
    pub member: MemberId,
    pub log: Box<dyn SharedLog + Send>,
    pub nonce: Box<dyn FnMut() -> [u8; 16] + Send>,
    /// How long a caller waits for an append without an answer.
    pub max_wait: Duration,
    /// Set to the number of the last entry that readers of the store see. The owner sets it before it answers a commit.
    pub published: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    pub position: Position,
    pub role: MemberRole,
    /// Number of entries that were applied without the states that their transactions publish
    /// ([`Txn::publish`](crate::Txn::publish)): entries of other members, and own entries that were settled
    /// after their callers got an error.
    pub followed: u64,
    /// Total size of all batches since the store joined.
    pub bytes: u64,
}

/// Rejects every commit until the store has joined its log.
#[derive(Default)]
pub(crate) struct Replica(pub(crate) Option<Box<Joined>>);

pub(crate) struct Joined {
    pub(crate) member: Member,
    pub(crate) replication: Replication,
    pub(crate) followed: u64,
    pub(crate) bytes: u64,
}

impl Joined {
    pub(crate) fn status(&self) -> ReplicaStatus {
        ReplicaStatus {
            position: self.member.position(),
            role: self.member.role(),
            followed: self.followed,
            bytes: self.bytes,
        }
    }
}
