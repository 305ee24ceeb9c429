//! Handler of a user's offers.

use crate::app::App;
use crate::http::access::auth::UserAuth;
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::wire::entitlement::OfferReply;

/// `GET /api/user/v1/users/{userId}/offers`: lists the default offers, then the user's grants,
/// oldest first, with expired and revoked ones.
pub(crate) async fn offers(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
    let snapshot = app.catalog.snapshot();
    let own = app.grants.for_user(&auth.user());
    let own = own
        .iter()
        .map(|grant| OfferReply::from_grant(grant, &snapshot, cx.now));
    let lines: Vec<_> = OfferReply::public_offers(&snapshot, cx.now)
        .chain(own)
        .collect();
    Reply::json(&lines)
}
