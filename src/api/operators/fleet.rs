//! The fleet.

use serde::Serialize;

use playgate_http::offload::cold;
use playgate_http::{
    ApiError, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_observe::FleetReport;
use playgate_services::Services;
use playgate_types::{Described, UnixSeconds};

crate::openapi::words::words! { FleetBody, HandoverBody => r##"
[requests.HandoverTarget]
to = "string?: Name of the next owner. Default: the standby with the newest state."

[operations.admin_fleet]
summary = "Show the fleet"
text = "Members, owner, lag and etcd, as the owner found them up to ten seconds ago. Every member answers, since it passes the request to the owner."
returns."200" = "Fleet: The fleet. A single node has no members."

[operations.admin_hand_over]
summary = "Hand the fleet over to another member"
text = "Lets a standby become the owner, within seconds: the owner finishes running requests for up to two seconds and restarts as a standby, and requests wait meanwhile. Refused if no other member, or not the named one, can take over."
send = "HandoverTarget?: The next owner."
returns."200" = "Handover: The handover has begun."
errors = ["MEMBER_NOT_FOUND", "HANDOVER_NOT_POSSIBLE"]
"## }

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOverRequest {
    /// Name of the next owner.
    pub to: Option<String>,
}

impl ParseRequest for HandOverRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        Ok(Self {
            to: body.text("to")?.map(str::to_owned),
        })
    }
}

/// Returns the last report of the owner, which covers every member.
pub(crate) fn fleet(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    match services.fleet.get() {
        Some(report) => Reply::json(&FleetBody::from(&*report)),
        None => Reply::json(&FleetBody::default()),
    }
}

/// Lets another member become the owner. The answer is sent before this member restarts.
pub(crate) async fn hand_over(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: HandOverRequest,
) -> Result<Reply, ApiError> {
    let Some(hand_over) = services.fleet.hand_over() else {
        let why = "this machine is in no fleet";
        return Err(ApiError::new(ErrorCode::HandoverNotPossible, why));
    };
    let handed = cold(services, move || hand_over(request.to.as_deref()));
    let handed = handed.await?;
    Reply::json(&HandoverBody {
        from: handed.from,
        to: handed.to,
    })
}

/// Empty on a single node.
#[derive(Default, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetBody<'a> {
    /// Id of the fleet. Absent on a single node.
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<&'a str>,
    /// When the owner last asked members and etcd. Absent on a single node.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<UnixSeconds>,
    /// Number of the last commit in the shared log. Absent while etcd does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<u64>,
    /// Since when the present owner serves. Absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_since: Option<UnixSeconds>,
    /// All registered members, by name.
    members: Vec<FleetMemberBody<'a>>,
    /// The endpoints of etcd, as configured.
    etcd: Vec<EtcdEndpoint<'a>>,
    /// What is wrong, the worst first.
    problems: Vec<FleetProblemBody>,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct FleetMemberBody<'a> {
    /// Name of the member, by which commands name it.
    name: &'a str,
    /// Address at which other members reach it.
    address: &'a str,
    /// Version of Playgate that it runs.
    version: &'a str,
    /// Whether it is the owner.
    owner: bool,
    /// Commits that it has not applied.
    behind: u64,
    /// Seconds since a sign of life; 0 while its lease in etcd holds.
    silent: i64,
    /// When its lease in etcd ended. Absent while it holds, or if no owner noticed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_since: Option<i64>,
    /// Requests of clients since its start that it answered as a standby.
    answered: u64,
    /// Requests of clients since its start that it forwarded to the owner as a standby.
    forwarded: u64,
    /// By how many milliseconds its clock is ahead of that of the owner. Absent while it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_millis: Option<i64>,
    /// Whether its disk has no space for changes.
    full: bool,
    /// Whether it may become the owner (`fleet.may_own`).
    may_own: bool,
    /// Why its settings refuse the data of the fleet, so that it cannot become the owner. Absent if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfit: Option<&'a str>,
    /// Why it does not answer. Absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct EtcdEndpoint<'a> {
    /// Address of the endpoint, as configured.
    url: &'a str,
    /// Version of etcd. Empty while it does not answer.
    version: &'a str,
    /// Whether it is the leader of etcd.
    leader: bool,
    /// Size of the database of etcd, in bytes.
    bytes: u64,
    /// Size at which it refuses changes, in bytes. Absent if etcd does not serve its metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
    /// What 99 of 100 syncs of its disk did not exceed since its start, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_p99_millis: Option<u64>,
    /// End of its certificate. Absent without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_until: Option<UnixSeconds>,
    /// Its alarms, such as `NOSPACE`.
    alarms: &'a [String],
    /// Why it does not answer. Absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Described, Serialize)]
struct FleetProblemBody {
    /// Whether changes are refused now, or after the next loss.
    severe: bool,
    /// What is wrong.
    problem: String,
    /// What to do about it.
    fix: String,
}

impl<'a> From<&'a FleetReport> for FleetBody<'a> {
    fn from(report: &'a FleetReport) -> Self {
        let members = report.members.iter().map(|member| FleetMemberBody {
            name: &member.name,
            address: &member.address,
            version: &member.version,
            owner: member.is_owner,
            behind: member.behind,
            silent: member.silent.max(0),
            down_since: member.down_since.map(|since| since.0),
            answered: member.answered,
            forwarded: member.forwarded,
            clock_millis: member.clock,
            full: member.is_full,
            may_own: member.may_own,
            unfit: member.unfit.as_deref(),
            error: member.error.as_deref(),
        });
        let etcd = report.etcd.iter().map(|endpoint| EtcdEndpoint {
            url: &endpoint.url,
            version: &endpoint.version,
            leader: endpoint.is_leader,
            bytes: endpoint.bytes,
            quota: endpoint.quota,
            sync_p99_millis: endpoint.sync_millis,
            certificate_until: endpoint.certificate,
            alarms: &endpoint.alarms,
            error: endpoint.error.as_deref(),
        });
        let problems = report
            .problems()
            .into_iter()
            .map(|problem| FleetProblemBody {
                severe: problem.is_severe,
                problem: problem.text,
                fix: problem.fix,
            });
        Self {
            fleet: Some(&report.fleet),
            at: Some(report.at),
            head: report.head,
            owner_since: report.owner_since,
            members: members.collect(),
            etcd: etcd.collect(),
            problems: problems.collect(),
        }
    }
}

/// The members that exchange their roles.
#[derive(Described, Serialize)]
pub(crate) struct HandoverBody {
    /// Name of the owner.
    pub from: String,
    /// Name of the next owner.
    pub to: String,
}
