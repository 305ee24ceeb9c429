//! The handler of a user's offers.

use crate::app::App;
use crate::http::auth::UserAuth;
use crate::http::context::Context;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::http::wire::entitlement::OfferReply;

/// GET the user's offers: those of everybody, then the user's own in the order in which they came,
/// history included.
///
/// # Errors
/// None of its own.
pub async fn offers(app: &App, cx: &Context, auth: UserAuth) -> Result<Reply, ApiError> {
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
