//! The fleet.

use serde::Serialize;

use playgate_http::offload::cold;
use playgate_http::{
    ApiError, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_observe::FleetReport;
use playgate_services::Services;

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
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_since: Option<i64>,
    members: Vec<MemberLine<'a>>,
    etcd: Vec<EndpointLine<'a>>,
    problems: Vec<ProblemLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberLine<'a> {
    name: &'a str,
    address: &'a str,
    version: &'a str,
    owner: bool,
    behind: u64,
    silent: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_since: Option<i64>,
    answered: u64,
    forwarded: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_millis: Option<i64>,
    full: bool,
    may_own: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unfit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointLine<'a> {
    url: &'a str,
    version: &'a str,
    leader: bool,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync_p99_millis: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_until: Option<i64>,
    alarms: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct ProblemLine {
    severe: bool,
    problem: String,
    fix: String,
}

impl<'a> From<&'a FleetReport> for FleetBody<'a> {
    fn from(report: &'a FleetReport) -> Self {
        let members = report.members.iter().map(|member| MemberLine {
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
        let etcd = report.etcd.iter().map(|endpoint| EndpointLine {
            url: &endpoint.url,
            version: &endpoint.version,
            leader: endpoint.is_leader,
            bytes: endpoint.bytes,
            quota: endpoint.quota,
            sync_p99_millis: endpoint.sync_millis,
            certificate_until: endpoint.certificate.map(|until| until.0),
            alarms: &endpoint.alarms,
            error: endpoint.error.as_deref(),
        });
        let problems = report.problems().into_iter().map(|problem| ProblemLine {
            severe: problem.is_severe,
            problem: problem.text,
            fix: problem.fix,
        });
        Self {
            fleet: Some(&report.fleet),
            at: Some(report.at.0),
            head: report.head,
            owner_since: report.owner_since.map(|since| since.0),
            members: members.collect(),
            etcd: etcd.collect(),
            problems: problems.collect(),
        }
    }
}

/// The members that exchange their roles.
#[derive(Serialize)]
pub(crate) struct HandoverBody {
    pub from: String,
    pub to: String,
}
