//! Handler of the audit log.

pub(crate) mod answer;
pub(crate) mod request;

use crate::operators::audit::answer::AuditLine;
use crate::operators::audit::request::AuditRequest;
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::offload::cold;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

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
