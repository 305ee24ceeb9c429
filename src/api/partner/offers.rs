//! Handler of a user's offers.

use crate::operators::grants::answer::OfferReply;
use playgate_http::access::auth::UserAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

pub(crate) async fn offers(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let snapshot = services.catalog.snapshot();
    let own = services.grants.for_user(&auth.user());
    let own = own
        .iter()
        .map(|grant| OfferReply::from_grant(grant, &snapshot, cx.now));
    let lines: Vec<_> = OfferReply::public_offers(&snapshot, cx.now)
        .chain(own)
        .collect();
    Reply::json(&lines)
}
