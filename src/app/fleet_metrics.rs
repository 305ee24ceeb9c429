//! Registers the metrics of a fleet: those of this member, and at the owner those of all members and of etcd.

use std::sync::Arc;

use playgate_observe::fleet::{EndpointReport, FleetView, LocalMemberState, MemberReport};
use playgate_observe::metrics::metric_value;
use playgate_observe::{FleetReport, Registry};

pub(super) fn register(metrics: &Registry, fleet: &Arc<FleetView>) {
    let of = |read: fn(&FleetReport) -> Option<i64>| {
        let fleet = Arc::clone(fleet);
        move || read(&*fleet.get()?)
    };
    metrics.gauge_if(
        "playgate_fleet_owner_since_timestamp_seconds",
        "Unix time since which the present owner serves. It changes with every takeover.",
        &[],
        of(|report| Some(report.owner_since?.0)),
    );
    metrics.gauge_if(
        "playgate_fleet_head",
        "Number of the last commit in the shared log; absent while etcd does not answer.",
        &[],
        of(|report| i64::try_from(report.head?).ok()),
    );
    metrics.gauge_if(
        "playgate_fleet_problems",
        "Problems of the fleet that `playgate doctor` names, mild ones included.",
        &[],
        of(|report| i64::try_from(report.problems().len()).ok()),
    );
    register_local(metrics, fleet);
    register_members(metrics, fleet);
    register_etcd(metrics, fleet);
}

fn register_local(metrics: &Registry, fleet: &Arc<FleetView>) {
    let of = |read: fn(&LocalMemberState) -> i64| {
        let fleet = Arc::clone(fleet);
        move || fleet.local_state().map(|state| read(&state))
    };
    metrics.gauge_if(
        "playgate_fleet_owner",
        "1 if this member is the owner, 0 if it is a standby.",
        &[],
        of(|state| i64::from(state.is_owner)),
    );
    metrics.gauge_if(
        "playgate_fleet_owner_known",
        "1 if this member knows an owner.",
        &[],
        of(|state| i64::from(state.knows_owner)),
    );
    metrics.gauge_if(
        "playgate_fleet_following",
        "1 if this member had every commit within the last 10 seconds.",
        &[],
        of(|state| i64::from(state.is_following)),
    );
    metrics.gauge_if(
        "playgate_fleet_commit",
        "Number of the last commit that this member has.",
        &[],
        of(|state| metric_value(state.commit)),
    );
    metrics.gauge_if(
        "playgate_fleet_owner_connections",
        "Connections of this member to the owner for its clients.",
        &[],
        of(|state| metric_value(state.connections)),
    );
    // A process becomes the owner at most once: it restarts when it no longer is.
    let takeovers = of(|state| i64::from(state.is_owner));
    metrics.counter_of(
        "playgate_fleet_takeovers_total",
        "Times that this process has become the owner.",
        &[],
        move || takeovers().unwrap_or_default(),
    );
    let errors = of(|state| metric_value(state.etcd_errors));
    metrics.counter_of(
        "playgate_fleet_etcd_errors_total",
        "Calls of etcd by this member that had no answer or were refused.",
        &[],
        move || errors().unwrap_or_default(),
    );
}

fn register_members(metrics: &Registry, fleet: &Arc<FleetView>) {
    let figures: [(&str, &str, fn(&MemberReport) -> Option<i64>); 7] = [
        (
            "playgate_fleet_member_owner",
            "1 for the member that is the owner, 0 for a standby.",
            |member| Some(i64::from(member.is_owner)),
        ),
        (
            "playgate_fleet_member_up",
            "1 if the member answers the owner.",
            |member| Some(i64::from(member.error.is_none())),
        ),
        (
            "playgate_fleet_member_lag_commits",
            "Commits that the member has not applied; up to two seconds old.",
            |member| i64::try_from(member.behind).ok(),
        ),
        (
            "playgate_fleet_member_silent_seconds",
            "Seconds since a sign of life of the member; 0 while its lease in etcd holds.",
            |member| Some(member.silent.max(0)),
        ),
        (
            "playgate_fleet_member_answered_requests",
            "Requests of clients since its start that the member answered as a standby.",
            |member| i64::try_from(member.answered).ok(),
        ),
        (
            "playgate_fleet_member_forwarded_requests",
            "Requests of clients since its start that the member forwarded to the owner as a standby.",
            |member| i64::try_from(member.forwarded).ok(),
        ),
        (
            "playgate_fleet_member_clock_milliseconds",
            "By how much the clock of the member is ahead of that of the owner; absent while it does not answer.",
            |member| member.clock,
        ),
    ];
    for (name, help, read) in figures {
        let fleet = Arc::clone(fleet);
        metrics.gauge_by(name, help, "member", move || {
            let report = fleet.get();
            let members = report.iter().flat_map(|report| &report.members);
            members
                .filter_map(|member| Some((member.name.clone(), read(member)?)))
                .collect()
        });
    }
}

fn register_etcd(metrics: &Registry, fleet: &Arc<FleetView>) {
    let figures: [(&str, &str, fn(&EndpointReport) -> Option<i64>); 6] = [
        (
            "playgate_fleet_etcd_up",
            "1 if the endpoint of etcd answers the owner.",
            |etcd| Some(i64::from(etcd.error.is_none())),
        ),
        (
            "playgate_fleet_etcd_alarms",
            "Alarms of the member of etcd, such as a full quota.",
            |etcd| i64::try_from(etcd.alarms.len()).ok(),
        ),
        (
            "playgate_fleet_etcd_bytes",
            "Size of the database of etcd.",
            |etcd| i64::try_from(etcd.bytes).ok().filter(|bytes| *bytes > 0),
        ),
        (
            "playgate_fleet_etcd_quota_bytes",
            "Size at which etcd refuses changes; absent if etcd does not serve its metrics.",
            |etcd| i64::try_from(etcd.quota?).ok(),
        ),
        (
            "playgate_fleet_etcd_sync_p99_milliseconds",
            "99th percentile of etcd's disk sync time since its start.",
            |etcd| i64::try_from(etcd.sync_millis?).ok(),
        ),
        (
            "playgate_fleet_etcd_certificate_end_timestamp_seconds",
            "Unix time at which the certificate of etcd ends; absent without TLS.",
            |etcd| Some(etcd.certificate?.0),
        ),
    ];
    for (name, help, read) in figures {
        let fleet = Arc::clone(fleet);
        metrics.gauge_by(name, help, "endpoint", move || {
            let report = fleet.get();
            let etcd = report.iter().flat_map(|report| &report.etcd);
            etcd.filter_map(|one| Some((one.url.clone(), read(one)?)))
                .collect()
        });
    }
}
