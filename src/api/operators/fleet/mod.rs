//! Handlers of the fleet.

pub(crate) mod answer;
pub(crate) mod request;

use crate::api::operators::fleet::answer::{FleetBody, HandoverBody};
use crate::api::operators::fleet::request::HandOverRequest;
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::observe::fleet::HandoverRefusal;
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

impl From<HandoverRefusal> for ApiError {
    fn from(refusal: HandoverRefusal) -> Self {
        match refusal {
            HandoverRefusal::NoSuchMember(why) => Self::new(ErrorCode::MemberNotFound, why),
            HandoverRefusal::NotPossible(why) => Self::new(ErrorCode::HandoverNotPossible, why),
        }
    }
}
