//! Keeps the record of a member in etcd, and what a member must know of the others: who they are, whether they run, and
//! whether one of them has more commits than the log.
//!
//! A record is written when it has changed. Whether a member runs is shown by a key with a lease, whose renewal changes
//! nothing in etcd, so that an idle fleet does not fill it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;

use super::claim::DriverState;
use super::etcd::{EtcdLog, MemberRecord, Roster, Watermark, down_since};
use super::local_state::{FleetState, StateWriter};
use super::log_access::LogAccess;
use playgate_ports::Clock;
use playgate_store::replication::{
    MemberRole, ReplicaStatus, ReplicationError, SharedLog as _, SharedLogError,
};

/// How often a member looks at the others, and writes what has changed.
const RECORD_EVERY: Duration = Duration::from_secs(2);
/// Counters of requests change all the time, so a record is written for them alone less often.
const COUNTERS_EVERY: Duration = Duration::from_secs(20);
/// A record is also written without a change, to show when the member was last there.
const SEEN_EVERY: Duration = Duration::from_secs(5 * 60);
/// Seconds after which the key of a process that has ended disappears.
const ALIVE_SECONDS: u64 = 8;
/// A process whose key is there for longer still runs. A new leader of etcd gives a lease its full time again.
const RIVAL_AFTER: Duration = Duration::from_secs(20);
const REMOVED: &str = "this member was removed from its fleet; run `playgate fleet leave`, and join again with an empty data directory";

pub(super) struct RecordKeeper {
    shared: Arc<DriverState>,
    clock: Arc<dyn Clock>,
    seen: Arc<Watermark>,
    directory: PathBuf,
    state: StateWriter,
    record: MemberRecord,
    /// The record in etcd, and when it was written.
    written: Option<(MemberRecord, Instant)>,
    /// When the record was last written for its counters alone.
    counted: Option<Instant>,
    looked: Option<Instant>,
    roster: Option<Roster>,
    /// The id of the last owner.
    owner: Option<String>,
    /// The lease of the key of this process.
    lease: Option<u64>,
    is_announced: bool,
    /// Since when another process has the key.
    rival: Option<Instant>,
    is_untrusted_logged: bool,
}

impl RecordKeeper {
    pub(super) fn new(
        shared: &Arc<DriverState>,
        record: MemberRecord,
        clock: Arc<dyn Clock>,
        access: &LogAccess,
        directory: &Path,
    ) -> Self {
        Self {
            record: MemberRecord {
                process: shared.process.id.clone(),
                ..record
            },
            shared: Arc::clone(shared),
            clock,
            seen: Arc::clone(&access.seen),
            directory: directory.to_owned(),
            state: StateWriter::new(directory, access.runtime.clone()),
            written: None,
            counted: None,
            looked: None,
            roster: None,
            owner: None,
            lease: None,
            is_announced: false,
            rival: None,
            is_untrusted_logged: false,
        }
    }

    /// The last look at the fleet.
    pub(super) const fn roster(&self) -> Option<&Roster> {
        self.roster.as_ref()
    }

    /// Returns the address of a member, also while etcd is away.
    pub(super) fn address_of(&mut self, member: [u8; 16]) -> Option<String> {
        let id = HEXLOWER.encode(&member);
        let known = self.roster.as_ref().and_then(|roster| roster.member(&id));
        if known.is_none() {
            // A member that has just joined.
            self.looked = None;
        }
        known.map(|record| record.address.clone())
    }

    /// Looks at the fleet from time to time, and writes what has changed.
    ///
    /// # Errors
    /// The member must not go on; the text gives the reason.
    pub(super) fn keep(&mut self, log: &mut EtcdLog, status: &ReplicaStatus) -> Result<(), String> {
        if self.looked.is_some_and(|at| at.elapsed() < RECORD_EVERY) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let roster = match log.roster() {
            Ok(roster) => roster,
            Err(error @ (SharedLogError::Unknown(_) | SharedLogError::Refused(_))) => {
                tracing::debug!(%error, "failed to read the members");
                return Ok(());
            }
            Err(error) => {
                self.show_ahead(log, status);
                return Err(error.to_string());
            }
        };
        self.check(log, &roster, status)?;
        self.leave_claim_to_older(&roster);
        let kept = self
            .announce(log, &roster)
            .and_then(|()| self.write(log, &roster, status));
        self.save(&roster, status);
        self.roster = Some(roster);
        match kept {
            Ok(()) => Ok(()),
            Err(KeepError::Fatal(why)) => Err(why),
            Err(KeepError::Log(error)) => {
                tracing::debug!(%error, "failed to write the record of this member");
                Ok(())
            }
        }
    }

    fn leave_claim_to_older(&mut self, roster: &Roster) {
        if let Some(owner) = &roster.owner {
            self.owner = Some(HEXLOWER.encode(&owner.member));
        }
        let now = self.clock.now().0;
        let has_older = roster.has_older(&self.record, self.owner.as_deref(), now);
        self.shared.candidacy.set_newer(has_older);
    }

    /// Writes the record as it is in etcd, which shows whether etcd takes a change.
    pub(super) fn write_again(&self, log: &mut EtcdLog) -> Result<bool, SharedLogError> {
        let written = self.written.as_ref().map(|(record, _)| record);
        log.update(written.unwrap_or(&self.record))
    }

    /// Shows the others if this member has more commits than the log.
    pub(super) fn show_ahead(&mut self, log: &mut EtcdLog, status: &ReplicaStatus) {
        self.record.applied = status.position.number;
        log.show_ahead(&self.record);
    }

    fn check(
        &mut self,
        log: &mut EtcdLog,
        roster: &Roster,
        status: &ReplicaStatus,
    ) -> Result<(), String> {
        if roster.member(&self.record.id).is_none() {
            // The member was removed, or the fleet was dissolved or recovered.
            return Err(match (roster.head, log.head()) {
                (None, Err(error)) => error.to_string(),
                _ => REMOVED.to_owned(),
            });
        }
        let (head, applied) = (roster.head.unwrap_or(u64::MAX), status.position.number);
        // The roster is newer than the status.
        if applied > head {
            self.show_ahead(log, status);
            return Err(ReplicationError::LogIsBehind { head, applied }.to_string());
        }
        roster.check_ahead().map_err(|error| error.to_string())
    }

    /// Keeps the key that shows that this process runs. Ends the process if another one runs as the same member.
    fn announce(&mut self, log: &mut EtcdLog, roster: &Roster) -> Result<(), KeepError> {
        let this_process = self.shared.process.clone();
        let record = roster.member(&self.record.id);
        let found = record.and_then(|record| record.alive.clone());
        if found.as_deref() == Some(&*this_process.id) {
            self.is_announced = true;
            self.lease = Some(log.keep_lease(self.lease, ALIVE_SECONDS)?);
        }
        let is_other = |process: &&str| !process.is_empty() && !this_process.covers(process);
        let rival = found.as_deref().filter(is_other);
        let claim = roster.owner.as_ref();
        let claim = claim.filter(|claim| claim.member == self.shared.membership.member);
        let claimed = claim.map(|claim| claim.process.as_str()).filter(is_other);
        if let Some(process) = rival.or(claimed) {
            let since = *self.rival.get_or_insert_with(Instant::now);
            // The claim of a process that has ended lasts for its lease.
            let limit = match claimed {
                Some(_) => RIVAL_AFTER + 2 * self.shared.lease(),
                None => RIVAL_AFTER,
            };
            // If this process had the key, it has expired, and the other one has taken its place.
            let is_replaced = rival.is_some() && self.is_announced;
            if is_replaced || since.elapsed() > limit {
                let address = record.map_or("", |record| &record.address);
                return Err(KeepError::Fatal(cloned(
                    &self.record.name,
                    process,
                    address,
                )));
            }
        } else {
            self.rival = None;
        }
        if rival.is_some() || found.as_deref() == Some(&*this_process.id) {
            return Ok(());
        }
        let lease = log.keep_lease(self.lease, ALIVE_SECONDS)?;
        self.lease = Some(lease);
        if log.announce(&self.record.id, &this_process.id, found.as_deref(), lease)? {
            self.is_announced = true;
        }
        Ok(())
    }

    fn write(
        &mut self,
        log: &mut EtcdLog,
        roster: &Roster,
        status: &ReplicaStatus,
    ) -> Result<(), KeepError> {
        // Another process may still run as this member.
        if self.rival.is_some() || !self.is_announced {
            return Ok(());
        }
        let is_owner = matches!(status.role, MemberRole::Owner { .. });
        self.trust(roster, is_owner);
        self.record.applied = status.position.number;
        self.record.seen = self.clock.now().0;
        self.record.epoch = epoch(roster, status);
        self.record.full = self.shared.candidacy.is_full();
        self.record.unfit = self.shared.candidacy.unfit();
        self.record.answered = self.shared.answered_here.load(Ordering::Relaxed);
        self.record.forwarded = self.shared.forwarded.load(Ordering::Relaxed);
        if is_owner {
            self.record.down = downs(roster, &self.record);
            // The owner relies on the promises of all other members, so a new member waits until the record of the owner
            // names it. The list is therefore in use before the record is written.
            let ids = roster.members.iter().map(|member| member.id.clone());
            self.record.knows = ids.collect();
            let processes = roster.members.iter().map(|member| member.process.clone());
            self.record.processes = processes.collect();
            let others = roster.members.iter();
            let others = others.filter(|member| member.id != self.record.id);
            self.shared.set_others(others.cloned().collect());
        }
        if !self.is_due() {
            return Ok(());
        }
        if self.written.is_none()
            && let Err(error) = self
                .shared
                .process
                .write(&self.directory, self.shared.lease())
        {
            // Before the record, so that the next process knows this one.
            tracing::debug!(%error, "failed to save the id of this process");
        }
        if !log.update(&self.record)? {
            return Err(KeepError::Fatal(REMOVED.to_owned()));
        }
        self.written = Some((self.record.clone(), Instant::now()));
        Ok(())
    }

    fn is_due(&mut self) -> bool {
        let Some((last, at)) = &self.written else {
            return true;
        };
        let without_counters = |record: &MemberRecord| MemberRecord {
            seen: 0,
            answered: 0,
            forwarded: 0,
            ..record.clone()
        };
        if without_counters(last) != without_counters(&self.record) || at.elapsed() > SEEN_EVERY {
            return true;
        }
        let counters = |record: &MemberRecord| (record.answered, record.forwarded);
        let is_due = counters(last) != counters(&self.record)
            && self.counted.is_none_or(|at| at.elapsed() > COUNTERS_EVERY);
        if is_due {
            self.counted = Some(Instant::now());
        }
        is_due
    }

    /// Finds out whether this process may become the owner: no earlier process of this member, and no other copy of it,
    /// can promise a previous owner that this member does not take over.
    fn trust(&mut self, roster: &Roster, is_owner: bool) {
        if self.shared.candidacy.is_known() {
            return;
        }
        let this_process = &self.shared.process;
        let record = roster.member(&self.record.id);
        let before = record.map_or("", |record| &record.process);
        // The record names an earlier process that has ended. It names none after `join` and in earlier versions.
        let is_next = self.written.is_none() && (before.is_empty() || this_process.covers(before));
        let is_known = roster
            .owner_record()
            .is_some_and(|owner| owner.processes.contains(&this_process.id));
        // Nobody else could be promised anything.
        let is_alone = roster.members.len() == 1;
        if is_owner || is_next || is_known || is_alone {
            self.shared.candidacy.set_known();
        } else if !self.is_untrusted_logged {
            self.is_untrusted_logged = true;
            tracing::warn!(
                "this data directory was moved or copied: the member does not take over before an owner knows it; if no member serves, see docs/fleet.md"
            );
        }
    }

    fn save(&mut self, roster: &Roster, status: &ReplicaStatus) {
        let fleet = HEXLOWER.encode(&self.shared.membership.fleet);
        let owner = roster.owner.as_ref();
        self.state.update(FleetState {
            commit: status.position.number,
            epoch: epoch(roster, status),
            owner: owner.map_or_else(String::new, |claim| HEXLOWER.encode(&claim.member)),
            at: self.clock.now().0,
            members: roster.members.clone(),
            ..FleetState::new(fleet, &self.seen)
        });
    }

    /// Lets the key of this process end with it.
    pub(super) fn end(&mut self, log: &mut EtcdLog) {
        self.state.finish();
        if let Some(lease) = self.lease.take()
            && let Err(error) = log.revoke(lease)
        {
            tracing::debug!(%error, "failed to revoke the lease of this process; it expires");
        }
    }
}

/// Since when which members do not run. `owner` is the record of the owner.
fn downs(roster: &Roster, owner: &MemberRecord) -> BTreeMap<String, i64> {
    let others = roster.members.iter().filter(|member| member.id != owner.id);
    let down = others.filter(|member| !member.is_alive(owner.seen));
    let since = down.map(|member| {
        let before = down_since(&roster.members, Some(owner), member);
        (member.id.clone(), before.unwrap_or(owner.seen))
    });
    since.collect()
}

fn epoch(roster: &Roster, status: &ReplicaStatus) -> u64 {
    match status.role {
        MemberRole::Owner { epoch } => epoch,
        MemberRole::Follower => roster.owner.as_ref().map_or(0, |claim| claim.epoch),
    }
}

fn cloned(name: &str, process: &str, address: &str) -> String {
    format!(
        "another process ({process}, at {address}) runs as member {name}: one of the two data directories is a copy of the other; stop one of them, and let a new machine join with an empty data directory (`playgate fleet join`)"
    )
}

enum KeepError {
    Fatal(String),
    Log(SharedLogError),
}

impl From<SharedLogError> for KeepError {
    fn from(error: SharedLogError) -> Self {
        match error {
            error @ (SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => Self::Log(error),
            error => Self::Fatal(error.to_string()),
        }
    }
}
