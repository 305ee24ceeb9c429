//! The audit log.

use serde::Serialize;

use playgate_domain::audit::AuditEntry;
use playgate_http::offload::cold;
use playgate_http::{
    ApiError, CombineResults, Context, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;

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
    Reply::json(&entries.iter().map(AuditLine::from).collect::<Vec<_>>())
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
    request_id: String,
    status: Option<u16>,
}

impl From<&AuditEntry> for AuditLine {
    fn from(entry: &AuditEntry) -> Self {
        let change = &entry.change;
        Self {
            number: entry.number,
            timestamp: change.at.0,
            operator_id: change.operator.map(|id| id.to_string()),
            name: change.name.clone(),
            claimed: change.claimed.clone(),
            role: change.role.as_str(),
            action: change.action.clone(),
            target: change.target.clone(),
            request_id: change.request.clone(),
            status: entry.status,
        }
    }
}
