//! Handlers of the fleet.

pub(crate) mod answer;
pub(crate) mod request;

use crate::operators::fleet::answer::{FleetBody, HandoverBody};
use crate::operators::fleet::request::HandOverRequest;
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::offload::cold;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

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
