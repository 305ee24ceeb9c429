//! Examines etcd and every member for the [report](FleetReport) to operators.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::candidacy::MemberState;
use super::etcd::{EtcdLog, EtcdSettings, MemberRecord, probe};
use super::membership::Membership;
use super::peers::PeerClient;
use playgate_observe::FleetReport;
use playgate_observe::fleet::MemberReport;
use playgate_ports::Clock;
use playgate_store::replication::{SharedLog as _, SharedLogError};
use playgate_types::UnixSeconds;

const MEMBER_TIMEOUT: Duration = Duration::from_secs(2);
const ETCD_TIMEOUT: Duration = Duration::from_secs(3);
const NO_LEASE: Duration = Duration::ZERO;

pub struct FleetReporter {
    pub etcd: EtcdSettings,
    pub membership: Membership,
    pub client: PeerClient,
    pub clock: Arc<dyn Clock>,
    pub runtime: Handle,
}

impl FleetReporter {
    /// Blocks for some seconds if etcd or a member does not answer.
    pub fn report(&self) -> FleetReport {
        FleetReport {
            etcd: probe(&self.etcd, &self.runtime),
            ..self.report_members()
        }
    }

    /// Like [`report`](Self::report), without the endpoints of etcd one by one.
    pub fn report_members(&self) -> FleetReport {
        let mut report = FleetReport {
            fleet: HEXLOWER.encode(&self.membership.fleet),
            at: self.clock.now(),
            ..FleetReport::default()
        };
        if let Err(error) = self.read_log(&mut report) {
            report.error = Some(error.to_string());
        }
        report
    }

    fn read_log(&self, report: &mut FleetReport) -> Result<(), SharedLogError> {
        let settings = EtcdSettings {
            timeout: ETCD_TIMEOUT,
            ..self.etcd.clone()
        };
        let fleet = self.membership.fleet;
        // The log is only read here, so that it needs no lease.
        let mut log = EtcdLog::new(&settings, fleet, NO_LEASE, self.runtime.clone())?;
        let roster = log.roster()?;
        let owner = roster.owner_record().map(|owner| owner.id.clone());
        // The head is read after the records, so that no member seems to be ahead of it.
        let head = log.head()?;
        report.head = Some(head);
        let asked = roster.members.iter().cloned().map(|record| {
            let client = self.client.clone();
            let address = record.address.clone();
            let clock = Arc::clone(&self.clock);
            // All members are asked at the same time: one that does not answer delays the report only once.
            let asking = self.runtime.spawn(async move {
                // A member of an earlier version tells nothing of itself.
                let asked = timeout(MEMBER_TIMEOUT, client.state(&address));
                let (clock, state) = tokio::join!(ahead(&client, &address, &*clock), asked);
                (clock, state.ok().and_then(Result::ok))
            });
            (record, asking)
        });
        let asked: Vec<_> = asked.collect();
        for (record, asking) in asked {
            let answered = self.runtime.block_on(asking);
            let (clock, state) = answered.unwrap_or_else(|error| (Err(error.to_string()), None));
            let is_owner = owner.as_deref() == Some(&*record.id);
            let silent = record.silent(report.at.0);
            let down_since = roster.down_since(&record).map(UnixSeconds);
            report.members.push(MemberReport {
                silent,
                down_since,
                ..member(record, head, is_owner, clock, state)
            });
        }
        report.members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}

/// Returns by how many milliseconds the clock of a member is ahead of the own one.
async fn ahead(client: &PeerClient, address: &str, clock: &dyn Clock) -> Result<i64, String> {
    let before = clock.now_millis();
    let answered = timeout(MEMBER_TIMEOUT, client.time(address)).await;
    let theirs = answered
        .map_err(|_| "the member did not answer in time".to_owned())?
        .map_err(|error| error.to_string())?;
    // The member read its clock between these two readings, so it is compared with their middle.
    Ok(theirs - before.midpoint(clock.now_millis()))
}

fn member(
    record: MemberRecord,
    head: u64,
    is_owner: bool,
    clock: Result<i64, String>,
    state: Option<MemberState>,
) -> MemberReport {
    // What the member tells is newer than its record.
    let state = state.unwrap_or_else(|| MemberState {
        is_full: record.full,
        may_own: record.may_own,
        unfit: record.unfit,
        ..MemberState::default()
    });
    let (clock, error) = match clock {
        Ok(clock) => (Some(clock), None),
        Err(error) => (None, Some(error)),
    };
    MemberReport {
        behind: match is_owner {
            // The owner has applied every entry that it appended. Only its record is older.
            true => 0,
            false => head.saturating_sub(record.applied),
        },
        name: record.name,
        address: record.address,
        version: record.version,
        is_owner,
        answered: record.answered,
        forwarded: record.forwarded,
        clock,
        is_full: state.is_full,
        may_own: state.may_own,
        unfit: state.unfit,
        settings: state.settings,
        error,
        ..MemberReport::default()
    }
}
