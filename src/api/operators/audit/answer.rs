//! An entry of the audit log.

use serde::Serialize;

use playgate_domain::audit::AuditEntry;

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
