//! `playgate fleet recover`: continues with the data of this member after the data of etcd, or their newest part, are lost.

use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use serde_json::json;

use super::Fleet;
use super::status::summary;
use crate::output::{self, CommandResult, Failure};
use playgate_fleet::membership::Membership;
use playgate_fleet::recovery::PendingRecovery;
use playgate_store::check_unused;

/// How much longer than its lease a claim may last: a new leader of etcd gives each lease its full time again.
const CLAIM_ENDS: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Fleet {
    pub(super) fn recover(&self, yes: bool, json: bool) -> CommandResult {
        let membership = self.membership()?;
        // Nothing must be changed under a service that runs.
        check_unused(self.data_dir())?;
        let here = self.local_state(&membership);
        let before = PendingRecovery::read(self.data_dir(), membership.fleet);
        let from = before.map_or(membership.fleet, |pending| pending.from);
        let number = here.commit();
        self.check_log(from, number)?;
        let question = summary(&membership, &here);
        if !yes {
            if !output::can_ask() {
                return Err(Failure::usage(format!(
                    "{question}; a new fleet would begin with them, and changes that only others have would be lost"
                ))
                .hint("run this on the member with the highest commit: compare `playgate fleet status` on each; then add `--yes` to confirm"));
            }
            output::print_note(&question);
            if !output::confirmed(
                "A new fleet begins with them. Changes that only others have are lost. Continue?",
            ) {
                return Err(Failure::failed("cancelled: nothing was changed"));
            }
        }
        let at = self.leave_store()?;
        let name = &membership.name;
        if self.config().fleet.endpoints.is_empty() {
            Membership::remove(self.data_dir())?;
            let report = json!({"result": "recovered", "name": name, "commit": at});
            let text = format!("{name} is a single node with {at} commits; start the service");
            return output::result(&text, &report, json);
        }
        let next = Membership {
            fleet: self.ports.entropy.array(),
            ..membership.clone()
        };
        let pending = PendingRecovery {
            from,
            to: next.fleet,
        };
        // Before the membership: a member of a fleet that does not exist yet must know that it begins it.
        pending
            .write(self.data_dir())
            .map_err(|error| Failure::file(self.data_dir(), &error))?;
        next.write(self.data_dir())?;
        let fleet = HEXLOWER.encode(&next.fleet);
        let report = json!({"result": "recovered", "name": name, "commit": at, "fleet": fleet});
        let text = format!(
            "{name} continues at commit {at} as the new fleet {fleet}; start the service, then run `playgate fleet reseed` on each other member"
        );
        output::result(&text, &report, json)
    }

    /// Refuses if etcd answers and has a fleet that would lose commits, or that serves.
    fn check_log(&self, fleet: [u8; 16], number: u64) -> CommandResult {
        if self.config().fleet.endpoints.is_empty() {
            return Ok(());
        }
        // The claim of a process that has ended, or of an old copy of etcd, ends with its lease.
        let until = Instant::now() + 2 * self.config().fleet.lease + CLAIM_ENDS;
        let roster = loop {
            // Without an answer there is nothing to compare with. The start compares again.
            let Ok(roster) = self.log(fleet).and_then(|mut log| Ok(log.roster()?)) else {
                return Ok(());
            };
            if roster.owner.is_none() || Instant::now() > until {
                break roster;
            }
            std::thread::park_timeout(RETRY_INTERVAL);
        };
        if let Some(head) = roster.head.filter(|head| *head > number) {
            return Err(Failure::failed(format!(
                "etcd has the log of this fleet with commits up to {head}, and this member has commits up to {number}"
            ))
            .hint("start the service: it follows the log; or run `playgate fleet recover` on a member that has all commits"));
        }
        if let Some(owner) = roster.owner_record() {
            return Err(Failure::failed(format!(
                "member {} is the owner of this fleet, and etcd has its log",
                owner.name
            ))
            .hint("nothing is to be recovered while it serves; otherwise stop the services of all members first"));
        }
        Ok(())
    }
}
