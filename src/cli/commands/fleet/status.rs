//! `playgate fleet status`: the members as etcd has them, or as this member knows them while etcd does not answer.

use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Fleet, problems};
use crate::client::fleet;
use crate::output::{self, CommandResult, Failure};
use playgate_fleet::etcd::{EtcdLog, MemberRecord, Roster};
use playgate_fleet::local_state::FleetState;
use playgate_fleet::membership::Membership;
use playgate_store::replication::{Position, SharedLog as _};
use playgate_store::{FleetAccess, StoreError, check_unused};

const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A member with what is known of it.
struct Line {
    record: MemberRecord,
    role: &'static str,
    commit: u64,
    is_up: bool,
    behind: u64,
    lease: Lease,
}

/// What the lease says that shows that a member runs.
#[derive(Clone, Copy)]
enum Lease {
    /// etcd does not answer, or the member has an earlier version.
    Unknown,
    /// Seconds that are left. A member that runs renews it every two seconds.
    Left(u64),
    /// `None`: no owner noticed when.
    Ended(Option<i64>),
}

impl Line {
    /// `is_up` of the owner is that of its claim, which ends with its lease.
    fn new(record: MemberRecord, is_owner: bool, is_up: bool, commit: u64, last: u64) -> Self {
        Self {
            lease: Lease::Unknown,
            role: match (is_owner, is_up) {
                (true, _) => "owner",
                (false, true) => "standby",
                (false, false) => "down",
            },
            is_up: is_owner || is_up,
            behind: last.saturating_sub(commit),
            commit,
            record,
        }
    }

    fn to_json(&self, now: i64) -> Value {
        let record = &self.record;
        let (left, since) = match self.lease {
            Lease::Unknown => (None, None),
            Lease::Left(seconds) => (Some(seconds), None),
            Lease::Ended(since) => (Some(0), since),
        };
        json!({
            "name": record.name, "address": record.address, "version": record.version,
            "role": self.role, "commit": self.commit, "epoch": record.epoch, "up": self.is_up,
            "owner": self.role == "owner", "behind": self.behind, "silent": record.silent(now).max(0),
            "leaseLeft": left, "downSince": since,
            "answered": record.answered, "forwarded": record.forwarded,
        })
    }

    fn text(&self, now: i64) -> String {
        let record = &self.record;
        let seen = match record.silent(now) {
            seconds @ 1.. if !self.is_up => format!(", last record {seconds} s ago"),
            _ => String::new(),
        };
        let lease = match self.lease {
            Lease::Unknown => String::new(),
            Lease::Left(seconds) => format!(", lease for {seconds} s"),
            Lease::Ended(None) => ", lease ended".to_owned(),
            Lease::Ended(Some(since)) => format!(
                ", lease ended {} s ago ({})",
                (now - since).max(0),
                output::instant(since).unwrap_or_default()
            ),
        };
        format!(
            "{:<20} {:<8} {:<24} {:<12} {} behind, commit {}, epoch {}{seen}{lease}, {} answered, {} forwarded",
            record.name,
            self.role,
            record.address,
            record.version,
            self.behind,
            self.commit,
            record.epoch,
            record.answered,
            record.forwarded,
        )
    }
}

/// What a data directory says about its member.
pub(super) struct LocalState {
    pub at: Option<Position>,
    pub state: Option<FleetState>,
    /// Whether the service runs.
    pub is_up: bool,
}

impl LocalState {
    /// The last commit: that of the store, or what the service wrote a few seconds ago.
    pub(super) fn commit(&self) -> u64 {
        let known = self.state.as_ref().map_or(0, |state| state.commit);
        self.at.map_or(known, |at| at.number)
    }
}

impl Fleet {
    /// Reads the last commit from the store, unless the service has it open.
    pub(super) fn local_state(&self, membership: &Membership) -> LocalState {
        let state = FleetState::read(self.data_dir(), &HEXLOWER.encode(&membership.fleet));
        let is_up = check_unused(self.data_dir()) == Err(StoreError::InUse);
        let at = (!is_up).then(|| self.open(FleetAccess::Member).ok()?.position().ok()?);
        LocalState {
            at: at.flatten(),
            state,
            is_up,
        }
    }

    pub(super) fn status(&self, as_json: bool) -> CommandResult {
        let membership = self.membership()?;
        let read = self.log(membership.fleet).and_then(|mut log| {
            // Fails if etcd has no log of this fleet.
            log.head()?;
            let roster = log.roster()?;
            let leases = roster
                .members
                .iter()
                .map(|member| lease(&mut log, &roster, member));
            let leases = leases.collect();
            let etcd = (log.engine_version()?, log.engine_bytes()?);
            Ok((roster, leases, etcd))
        });
        match read {
            Ok((roster, leases, etcd)) => self.print(&membership, &roster, leases, &etcd, as_json),
            Err(failure) => self.print_local(&membership, &failure, as_json),
        }
    }

    fn print(
        &self,
        membership: &Membership,
        roster: &Roster,
        leases: Vec<Lease>,
        (version, bytes): &(String, u64),
        as_json: bool,
    ) -> CommandResult {
        let (now, head) = (self.ports.clock.now().0, roster.head.unwrap_or_default());
        let owner = roster.owner_record().map(|owner| owner.id.clone());
        let here = self.commit_of_files(membership, roster);
        let lines = roster.members.iter().zip(leases).map(|(record, lease)| {
            let is_owner = owner.as_ref() == Some(&record.id);
            let commit = match here {
                Some(commit) if record.id == membership.member_hex() => commit,
                // The owner has every commit of the log. Its record is older.
                _ if is_owner => head,
                _ => record.applied,
            };
            let is_up = record.is_alive(now);
            Line {
                lease,
                ..Line::new(record.clone(), is_owner, is_up, commit, head)
            }
        });
        let lines: Vec<_> = lines.collect();
        let fleet = HEXLOWER.encode(&membership.fleet);
        let problems = self.problems(membership)?;
        if as_json {
            let members: Vec<_> = lines.iter().map(|line| line.to_json(now)).collect();
            return output::json(&json!({
                "fleet": fleet, "head": head, "etcdVersion": version, "etcdBytes": bytes,
                "members": members, "problems": problems::as_json(&problems),
            }));
        }
        let used = bytes / (1024 * 1024);
        output::line(&format!(
            "fleet {fleet}  commit {head}  etcd {version}, {used} MiB in use"
        ))?;
        lines
            .iter()
            .try_for_each(|line| output::line(&line.text(now)))?;
        for problem in problems {
            output::print_note(&format!("{}; {}", problem.text, problem.fix));
        }
        Ok(())
    }

    /// Returns the last commit of this member by its files, where etcd may know less: its service has stopped, and nobody
    /// else serves, or the log is older than the member.
    fn commit_of_files(&self, membership: &Membership, roster: &Roster) -> Option<u64> {
        let another_serves = roster
            .owner_record()
            .is_some_and(|owner| owner.id != membership.member_hex());
        let state = FleetState::read(self.data_dir(), &HEXLOWER.encode(&membership.fleet));
        let is_ahead = state.is_some_and(|state| Some(state.commit) > roster.head);
        if another_serves && !is_ahead {
            return None;
        }
        let here = self.local_state(membership);
        let commit = (!here.is_up).then(|| here.commit());
        // Neither the store nor the file can be read.
        commit.filter(|commit| *commit > 0)
    }

    /// Prints what the files of this member say, and which of the others answer it.
    fn print_local(&self, membership: &Membership, why: &Failure, as_json: bool) -> CommandResult {
        let now = self.ports.clock.now().0;
        let here = self.local_state(membership);
        let lines = self.known(membership, &here)?;
        let fleet = HEXLOWER.encode(&membership.fleet);
        if as_json {
            let members: Vec<_> = lines.iter().map(|line| line.to_json(now)).collect();
            return output::json(&json!({
                "fleet": fleet, "error": why.message(), "hint": why.advice(), "members": members,
            }));
        }
        let hint = why
            .advice()
            .map_or_else(String::new, |hint| format!("; {hint}"));
        output::line(&format!("fleet {fleet}  {}{hint}", why.message()))?;
        lines
            .iter()
            .try_for_each(|line| output::line(&line.text(now)))?;
        output::print_note(&format!(
            "This is what {} knows. What it says of other members may be old: run the command on each.",
            membership.name
        ));
        Ok(())
    }

    /// Returns this member, and the others that its files name.
    fn known(&self, membership: &Membership, here: &LocalState) -> Result<Vec<Line>, Failure> {
        let (state, commit) = (here.state.as_ref(), here.commit());
        let client = fleet::peer_client(self.config(), membership)?;
        let mut records = state.map_or_else(Vec::new, |state| state.members.clone());
        if !records
            .iter()
            .any(|record| record.id == membership.member_hex())
        {
            records.push(self.record(membership, commit));
        }
        let asked = records.into_iter().map(|record| {
            let (client, address) = (client.clone(), record.address.clone());
            // All are asked at the same time.
            let asking = async move { timeout(ANSWER_MAX, client.time(&address)).await };
            let asking = self.runtime.spawn(asking);
            (record, asking)
        });
        let asked: Vec<_> = asked.collect();
        let lines = asked.into_iter().map(|(record, asking)| {
            let is_local = record.id == membership.member_hex();
            let answers = matches!(self.runtime.block_on(asking), Ok(Ok(Ok(_))));
            let is_up = if is_local { here.is_up } else { answers };
            let is_owner = is_up && state.is_some_and(|state| state.owner == record.id);
            let applied = if is_local { commit } else { record.applied };
            Line::new(record, is_owner, is_up, applied, commit)
        });
        Ok(lines.collect())
    }
}

fn lease(log: &mut EtcdLog, roster: &Roster, member: &MemberRecord) -> Lease {
    let left = match member.lease {
        0 if member.process.is_empty() => return Lease::Unknown,
        0 => None,
        lease => match log.lease_left(lease) {
            Ok(left) => left,
            Err(_) => return Lease::Unknown,
        },
    };
    left.map_or_else(|| Lease::Ended(roster.down_since(member)), Lease::Left)
}

/// Shows commit and history of a member, and what it knows of the others.
pub(super) fn summary(membership: &Membership, here: &LocalState) -> String {
    let mut text = format!(
        "member {} of fleet {} has commits up to {}",
        membership.name,
        HEXLOWER.encode(&membership.fleet),
        here.commit()
    );
    if let Some(at) = here.at {
        let timeline = HEXLOWER.encode(&at.history.timeline);
        text.push_str(&format!(" of history {timeline}"));
    }
    let Some(state) = &here.state else {
        return text;
    };
    let others = state.members.iter();
    let others = others.filter(|member| member.id != membership.member_hex());
    let others = others.map(|member| format!("{} up to {}", member.name, member.applied));
    let others: Vec<_> = others.collect();
    if !others.is_empty() {
        text.push_str(&format!("; when it last saw them, {}", others.join(", ")));
    }
    text
}
