//! The store of a fleet member: joins, follows and leaves the log of its fleet.

use crate::commit::writer::{Writer, WriterMessage, run_on_writer};
use crate::error::StoreError;
use crate::handle::Store;
use crate::replication::{Claim, Entry, ReplicaStatus, Replication};

impl Store {
    /// Joins the log of a fleet as a follower. The store must have been opened with `FleetAccess::Member`.
    pub fn replicate(&self, replication: Replication) -> Result<ReplicaStatus, StoreError> {
        self.on_writer(move |writer| writer.join(replication))
    }

    /// Settles an append without an answer, applies entries, and processes the outcome of a claim.
    pub fn advance(
        &self,
        claim: Option<Claim>,
        entries: Vec<Entry>,
    ) -> Result<ReplicaStatus, StoreError> {
        self.on_writer(move |writer| writer.advance(claim, &entries))
    }

    /// Leaves the log: from now on every commit is rejected, instead of waiting for a log that nobody serves any more.
    pub fn leave_log(&self) -> Result<(), StoreError> {
        self.on_writer(|writer| {
            writer.leave_log();
            Ok(())
        })
    }

    /// Like [`run_exclusive`](Self::run_exclusive), without the sync before it.
    fn on_writer<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        run_on_writer(&self.0.inbox, WriterMessage::Replicate, work)
    }
}
