//! The audit log.

use serde::Serialize;

use playgate_domain::audit::AuditEntry;
use playgate_http::offload::cold;
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{BroadcastId, LivestreamId, OperatorId, PartnerId, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditRequest {
    pub before: Option<u64>,
    pub limit: usize,
}

impl ParseRequest for AuditRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let before = input.number("before", 18, "must be the number of an audit entry");
        let (before, limit) = (before, input.page()).combine()?;
        Ok(Self { before, limit })
    }
}

pub(crate) async fn audit(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: AuditRequest,
) -> Result<Reply, ApiError> {
    let audit = services.audit.clone();
    let entries = cold(services, move || audit.list(request.before, request.limit)).await?;
    Reply::json(
        &entries
            .iter()
            .map(|entry| line(services, entry))
            .collect::<Vec<_>>(),
    )
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditLine {
    number: u64,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_id: Option<String>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed: Option<String>,
    role: &'static str,
    action: String,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partner: Option<String>,
    request_id: String,
    status: Option<u16>,
}

fn line(services: &Services, entry: &AuditEntry) -> AuditLine {
    let change = &entry.change;
    let (subject, partner) = names(services, &change.target).unwrap_or_default();
    AuditLine {
        number: entry.number,
        timestamp: change.at.0,
        operator_id: change.operator.map(|id| id.to_string()),
        name: change.name.clone(),
        claimed: change.claimed.clone(),
        role: change.role.as_str(),
        action: change.action.clone(),
        target: change.target.clone(),
        subject,
        partner,
        request_id: change.request.clone(),
        status: entry.status,
    }
}

/// The name that the object of a target has now, and for a user the name of the partner. Entries have ids only, so that
/// they outlive an erasure.
fn names(services: &Services, target: &str) -> Option<(Option<String>, Option<String>)> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // The id of what was created stands at the end, after the query.
    let (kind, id) = path
        .split_once('/')
        .or_else(|| Some((path, query.rsplit_once('/')?.1)))?;
    let id = id.split('/').next()?;
    let subject = match kind {
        "users" => {
            let user = services.accounts.user(&UserId::parse(id).ok()?)?;
            let partner = services.partners.name(&user.partner);
            return Some((Some(user.email.to_string()), partner));
        }
        "partners" => services.partners.name(&PartnerId::parse(id).ok()?),
        "operators" => services.operators.name(&OperatorId::parse(id).ok()?),
        "broadcasts" => {
            let broadcast = BroadcastId::parse(id).ok()?;
            let program = services.schedule.snapshot().program(&broadcast);
            program.map(|program| program.title())
        }
        "livestreams" => {
            let catalog = services.catalog.snapshot();
            let livestream = catalog.livestream(&LivestreamId::parse(id).ok()?);
            livestream.map(|livestream| livestream.name.clone())
        }
        _ => None,
    };
    Some((subject, None))
}
