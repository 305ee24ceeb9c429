//! Checks of a fleet: its etcd, endpoint by endpoint, and its members.

use super::finding::DoctorFinding;
use crate::client::fleet::{membership, reporter};
use crate::output::Failure;
use playgate_config::Config;
use playgate_fleet::etcd::EtcdSettings;
use playgate_observe::FleetReport;
use playgate_ports::{Clock as _, SystemClock};
use playgate_types::time::DAY;

const PART: &str = "fleet";

/// Returns no findings on a single node.
pub(super) async fn findings(config: &Config) -> Vec<DoctorFinding> {
    match membership(config) {
        Ok(None) => Vec::new(),
        Ok(Some(membership)) => match reporter(config, membership) {
            Ok(reporter) => {
                let certificate = client_certificate(&reporter.etcd);
                // Calls of etcd block.
                let report = tokio::task::spawn_blocking(move || reporter.report()).await;
                let judged = report.map_or_else(|_| Vec::new(), |report| judged(&report));
                certificate.into_iter().chain(judged).collect()
            }
            Err(failure) => vec![unusable(&failure)],
        },
        Err(failure) => vec![unusable(&failure)],
    }
}

/// A file that cannot be used is reported as a configuration problem.
fn client_certificate(etcd: &EtcdSettings) -> Option<DoctorFinding> {
    const FIX: &str =
        "renew `fleet.client_cert` and `fleet.client_key`; the service reads them again by itself";
    let tls = etcd.tls.as_ref()?;
    let now = SystemClock.now();
    Some(match tls.warning(now) {
        Some(warning) => DoctorFinding::problem(PART, warning, FIX),
        None => {
            let days = tls.certificate_ends()?.since(now).div_euclid(DAY);
            let text = format!("the client certificate for etcd ends in {days} days");
            DoctorFinding::ok(PART, text)
        }
    })
}

fn unusable(failure: &Failure) -> DoctorFinding {
    let fix = failure.advice().unwrap_or("see docs/fleet.md").to_owned();
    DoctorFinding::problem(PART, failure.message(), fix)
}

fn judged(report: &FleetReport) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if let Some(head) = report.head {
        let owner = report.members.iter().find(|member| member.is_owner);
        let owner = owner.map_or("nobody", |member| &member.name);
        let (members, etcd) = (report.members.len(), report.etcd.len());
        findings.push(DoctorFinding::ok(
            PART,
            format!("{members} members, owner {owner}, commit {head}, {etcd} endpoints of etcd"),
        ));
    }
    findings.extend(
        report
            .problems()
            .into_iter()
            .map(|problem| match problem.is_severe {
                true => DoctorFinding::problem(PART, problem.text, problem.fix),
                false => DoctorFinding::warning(PART, problem.text, problem.fix),
            }),
    );
    findings
}
