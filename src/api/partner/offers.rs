//! Handler of a user's offers.

use crate::api::operators::grants::answer::OfferReply;
use crate::http::access::auth::UserAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::services::Services;

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
