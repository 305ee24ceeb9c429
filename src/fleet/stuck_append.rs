//! Notices an owner that keeps its claim and cannot append.

use std::time::{Duration, Instant};

use super::candidacy::Candidacy;
use super::claim::DriverState;
use playgate_store::replication::SharedLogError;

/// An append is repeated for this long before its caller is told that the outcome is unknown.
const APPEND_MAX: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct StuckAppend {
    since: Option<Instant>,
    is_reported: bool,
}

impl StuckAppend {
    pub(super) fn settled(&mut self, candidacy: &Candidacy) {
        *self = Self::default();
        candidacy.set_cannot_append(false);
    }

    /// Reports an append that has waited for too long. `other_change` makes another change of etcd: if etcd refuses that too,
    /// it refuses the changes of all members.
    pub(super) fn waits(
        &mut self,
        shared: &DriverState,
        other_change: impl FnOnce() -> Result<bool, SharedLogError>,
    ) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.is_reported || since.elapsed() < shared.lease().max(APPEND_MAX) {
            return;
        }
        self.is_reported = true;
        match other_change() {
            Err(SharedLogError::Refused(_)) => {}
            // Without an answer of etcd the lease ends by itself.
            _ if !shared.fence.is_leased() => {}
            _ => shared.candidacy.set_cannot_append(true),
        }
    }
}
