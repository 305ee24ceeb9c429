//! What a member does before it joins its log: it begins the fleet that `playgate fleet recover` has prepared, and shows the
//! other members if it has more commits than the log.

use std::path::Path;

use super::etcd::{EtcdLog, MemberRecord, Watermark};
use super::local_state::FleetState;
use super::recovery::{self, PendingRecovery};
use playgate_store::replication::SharedLogError;
use playgate_store::{Store, StoreError};

pub(super) struct FirstContact<'a> {
    pub store: &'a Store,
    /// The log without the watermark, and that of the fleet that this one continues.
    pub log: EtcdLog,
    pub before: Option<(PendingRecovery, EtcdLog)>,
    pub record: MemberRecord,
    pub state: Option<FleetState>,
    pub seen: &'a Watermark,
    pub directory: &'a Path,
}

impl FirstContact<'_> {
    pub(super) fn run(&mut self) -> Result<(), StoreError> {
        let at = self.store.position()?;
        let number = at.ok_or(StoreError::Full)?.number;
        self.record.applied = number;
        if let Some((pending, before)) = &mut self.before {
            let begun = pending.run(&mut self.log, before, &self.record, number);
            begun.map_err(refused)?;
            recovery::finish(self.directory);
            self.before = None;
            tracing::info!(number, "began a new fleet with the data of this member");
        }
        // A restored backup has commits of its own, which are no reason to stop the others.
        let known = self.state.as_ref().map_or(0, |state| state.commit);
        let roster = self.log.roster().map_err(refused)?;
        let is_older = roster.revision < self.seen.revision();
        if is_older || roster.head.is_some_and(|head| head < known) {
            self.log.show_ahead(&self.record);
        }
        Ok(())
    }
}

fn refused(error: SharedLogError) -> StoreError {
    match error {
        // Worth another attempt.
        error @ (SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => {
            StoreError::SharedLog(error)
        }
        error => StoreError::Failed(error.to_string()),
    }
}
