//! How a process begins as a member: it reads the log, and ends the lease of its previous process.

use std::path::Path;
use std::time::{Duration, Instant};

use super::etcd::{EtcdLog, MemberRecord};
use super::lease_file;
use super::membership::Membership;
use playgate_store::replication::{ReplicaStatus, Replication, SharedLogError};
use playgate_store::{Store, StoreError};
use playgate_types::VERSION;

const START_AGAIN: Duration = Duration::from_millis(250);
/// How often the log repeats that etcd does not answer.
const WAITING_LOGGED: Duration = Duration::from_secs(60);

pub(super) fn join_log(
    store: &Store,
    mut replication: impl FnMut() -> Result<Replication, StoreError>,
) -> Result<ReplicaStatus, StoreError> {
    let mut logged: Option<(SharedLogError, Instant)> = None;
    loop {
        match replication().and_then(|replication| store.replicate(replication)) {
            // After a power cut, etcd may start after this process.
            Err(StoreError::SharedLog(error)) => {
                let is_known = logged
                    .as_ref()
                    .is_some_and(|(last, at)| *last == error && at.elapsed() < WAITING_LOGGED);
                if !is_known {
                    tracing::warn!(%error, "cannot read the shared log; trying again until etcd answers");
                    logged = Some((error, Instant::now()));
                }
                std::thread::park_timeout(START_AGAIN);
            }
            other => return other,
        }
    }
}

pub(super) fn revoke_lease_of_previous_process(directory: &Path, log: &mut EtcdLog) {
    let Some(lease) = lease_file::read(directory) else {
        return;
    };
    match log.revoke(lease) {
        // An expired lease is refused too.
        Ok(()) | Err(SharedLogError::Refused(_)) => lease_file::remove(directory),
        Err(error) => tracing::debug!(%error, "failed to revoke the lease of the previous process"),
    }
}

/// The record of a member that has applied and answered nothing yet.
pub(super) fn first_record(
    membership: &Membership,
    address: String,
    store: &Store,
    may_own: bool,
    now: i64,
) -> MemberRecord {
    MemberRecord {
        id: membership.member_hex(),
        name: membership.name.clone(),
        address,
        version: VERSION.to_owned(),
        seen: now,
        may_own,
        tables: Some(store.tables()),
        ..MemberRecord::default()
    }
}
