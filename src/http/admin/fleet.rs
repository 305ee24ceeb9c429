//! Handler of `GET /admin/v1/fleet`.

use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::wire::fleet::FleetBody;
use crate::services::Services;

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
