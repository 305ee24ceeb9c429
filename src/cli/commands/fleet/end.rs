//! Commands that make a member a single node: `fleet leave`, `dissolve`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use serde_json::json;

use super::{Fleet, LEASE};
use crate::output::{self, CommandResult, Exit, Failure};
use playgate_fleet::etcd::{Dissolution, EtcdLog};
use playgate_fleet::membership::Membership;
use playgate_store::replication::{Replication, SharedLog as _, SharedLogError};
use playgate_store::{FleetAccess, Store};

const READ_BYTES: usize = 1024 * 1024;
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Fleet {
    pub(super) fn leave(&self, name: Option<&str>, json: bool) -> CommandResult {
        let membership = self.membership()?;
        let mut log = self.log(membership.fleet)?;
        let members = log.members()?;
        if let Some(name) = name {
            let gone = members.iter().find(|member| member.name == name);
            let gone = gone.ok_or_else(|| {
                Failure::new(Exit::NotFound, format!("the fleet has no member {name}"))
            })?;
            if gone.id == membership.member_hex() {
                return Err(Failure::usage("this is that member; omit --name"));
            }
            log.unregister(gone)?;
            let report = json!({"result": "removed", "name": name, "commit": gone.applied});
            let text = format!("removed {name}; its service ends if it still runs");
            return output::result(&text, &report, json);
        }
        let head = match log.head() {
            // The fleet has ended: no commits are left to apply, and no record has to be removed.
            Err(SharedLogError::Dissolved { .. } | SharedLogError::Recovered { .. }) => None,
            head => Some(head?),
        };
        if let Some(head) = head
            && let Err(error) = self.catch_up(&self.open(FleetAccess::Member)?, &membership, head)
        {
            // The member can still leave with its store up to the last commit that it has.
            output::print_note(&format!(
                "warning: this member cannot follow: {}",
                error.message()
            ));
        }
        let at = self.leave_store()?;
        let record = self.record(&membership, at);
        let last = members.iter().all(|member| member.id == record.id);
        match head {
            Some(head) if last && at == head => drop(log.dissolve(&record, head)?),
            Some(_) => log.unregister(&record)?,
            None => {}
        }
        Membership::remove(self.data_dir())?;
        let of = head.map_or_else(String::new, |head| format!(" of {head}"));
        let report = json!({"result": "left", "name": membership.name, "commit": at});
        let text = format!(
            "left the fleet with {at}{of} commits; remove `fleet.endpoints` before the next start"
        );
        output::result(&text, &report, json)
    }

    /// Begins a new timeline in the store, which no longer belongs to the fleet. Returns its last commit.
    pub(super) fn leave_store(&self) -> Result<u64, Failure> {
        let store = self.open(FleetAccess::Leave)?;
        Ok(store.position()?.map_or(0, |at| at.number))
    }

    pub(super) fn dissolve(&self, yes: bool, json: bool) -> CommandResult {
        let membership = self.membership()?;
        if !yes {
            return Err(Failure::usage(format!(
                "the fleet ends: {} continues alone, and no other member can serve again",
                membership.name
            ))
            .hint("stop the services of all members, this one last; then add `--yes` to confirm"));
        }
        let mut log = self.log(membership.fleet)?;
        // An earlier attempt may have stopped after this step.
        if !self.has_dissolved(&mut log, &membership)? {
            let head = log.head()?;
            self.catch_up(&self.open(FleetAccess::Member)?, &membership, head)?;
            self.dissolve_log(&mut log, &membership, head)?;
        }
        let at = self.leave_store()?;
        Membership::remove(self.data_dir())?;
        let name = &membership.name;
        let report = json!({"result": "dissolved", "name": name, "commit": at});
        let text = format!(
            "{name} is a single node with {at} commits; remove `fleet.endpoints` before the next start"
        );
        output::result(&text, &report, json)
    }

    /// Returns whether the fleet was dissolved into this member.
    fn has_dissolved(&self, log: &mut EtcdLog, membership: &Membership) -> Result<bool, Failure> {
        match log.dissolved()? {
            Some(into) if into.id == membership.member_hex() => Ok(true),
            Some(into) => Err(SharedLogError::Dissolved { into: into.name }.into()),
            None => Ok(false),
        }
    }

    fn dissolve_log(&self, log: &mut EtcdLog, membership: &Membership, head: u64) -> CommandResult {
        let record = self.record(membership, head);
        let until = Instant::now() + 2 * LEASE;
        loop {
            let owner = match log.dissolve(&record, head)? {
                Dissolution::Done => return Ok(()),
                Dissolution::Moved if self.has_dissolved(log, membership)? => return Ok(()),
                Dissolution::Moved => {
                    return Err(Failure::failed("another member has changed the log")
                        .hint("stop the services of all members, then repeat the command"));
                }
                Dissolution::Owned(owner) => HEXLOWER.encode(&owner),
            };
            // The claim of a process that was killed ends with its lease.
            if owner != membership.member_hex() || Instant::now() > until {
                let members = log.members()?;
                let name = members.into_iter().find(|member| member.id == owner);
                let name = name.map_or(owner, |member| member.name);
                return Err(Failure::failed(format!("member {name} is the owner")).hint(
                    "stop its service, and those of all others; or dissolve the fleet there",
                ));
            }
            std::thread::park_timeout(RETRY_INTERVAL);
        }
    }

    /// Applies the commits of the log that the store does not have yet.
    fn catch_up(&self, store: &Store, membership: &Membership, head: u64) -> CommandResult {
        let entropy = Arc::clone(&self.ports.entropy);
        let status = store.replicate(Replication {
            fleet: membership.fleet,
            member: membership.member,
            log: Box::new(self.log(membership.fleet)?),
            nonce: Box::new(move || entropy.array()),
            max_wait: LEASE,
            published: Arc::default(),
        })?;
        let mut log = self.log(membership.fleet)?;
        let mut at = status.position.number;
        while at < head {
            let entries = log.read(at + 1, READ_BYTES)?;
            at = store.advance(None, entries)?.position.number;
        }
        Ok(())
    }
}
