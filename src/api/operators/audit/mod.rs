//! Handler of the audit log.

pub(crate) mod answer;
pub(crate) mod request;

use crate::api::operators::audit::answer::AuditLine;
use crate::api::operators::audit::request::AuditRequest;
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::offload::cold;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::services::Services;

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
