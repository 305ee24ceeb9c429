//! The audit log.

use serde::Serialize;

use playgate_domain::audit::AuditEntry;
use playgate_http::offload::cold;
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{
    BroadcastId, Described, LivestreamId, OperatorId, PartnerId, Role, UnixSeconds, UserId,
};

crate::openapi::words::words! { RecordedChange => r##"
[operations.admin_audit]
summary = "List audit entries"
text = "Changes made by operators, and mails read with their secrets. Newest first. An entry is written before the change is made or the mail is shown, for every way of access. The newest 100,000 entries are kept. Request bodies are not recorded."
query.before = "ChangeNumber?: Returns entries before this number."
query.limit = "PageSize?: Maximum number of entries."
returns."200" = "[RecordedChange]: The audit entries."
"## }

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

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedChange {
    /// Sequence number, counted from 1.
    number: u64,
    /// Time of the request.
    timestamp: UnixSeconds,
    /// Id of the operator. Absent for the machine's administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_id: Option<OperatorId>,
    /// Name of the operator at that time. For the local administration socket: the numeric user id of the caller.
    name: String,
    /// Name that a caller of the local administration socket gave itself. Not verified. Absent if it equals `name` or none
    /// was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed: Option<String>,
    /// Role of the operator at that time.
    role: Role,
    /// Operation id, as in this description.
    action: String,
    /// Target: the rest of path and query. A user appears as their id, or as `-` if there is no such user.
    target: String,
    /// Name that the user, partner, operator, broadcast or livestream of the target has now; for a user the e-mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// Name of the partner of the user in the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    partner: Option<String>,
    /// Request id, also found in the service's log. Empty for a restore while the service was stopped.
    request_id: String,
    /// HTTP status of the response. `null` while the request runs, and if the machine failed before it ended.
    status: Option<u16>,
}

fn line(services: &Services, entry: &AuditEntry) -> RecordedChange {
    let change = &entry.change;
    let (subject, partner) = names(services, &change.target).unwrap_or_default();
    RecordedChange {
        number: entry.number,
        timestamp: change.at,
        operator_id: change.operator,
        name: change.name.clone(),
        claimed: change.claimed.clone(),
        role: change.role,
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
