//! A user's offers.

use serde::Serialize;

use playgate_domain::catalog::{CatalogSnapshot, Offer, OfferKind};
use playgate_domain::entitlement::Grant;
use playgate_http::{ApiError, Context, Reply, UserAuth};
use playgate_services::Services;
use playgate_types::UnixSeconds;

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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferReply {
    offer_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    purchased_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<i64>,
}

impl OfferReply {
    pub(crate) fn from_grant(grant: &Grant, snapshot: &CatalogSnapshot, now: UnixSeconds) -> Self {
        Self {
            offer_id: grant.offer.as_str().to_owned(),
            r#type: snapshot
                .offer(&grant.offer)
                .map(|offer| offer.kind.as_str()),
            state: state(grant, now),
            purchased_at: Some(grant.purchased_at.0),
            expiry: grant.expiry.map(|at| at.0),
        }
    }

    pub(crate) fn public_offers(
        snapshot: &CatalogSnapshot,
        now: UnixSeconds,
    ) -> impl Iterator<Item = Self> {
        // Every user has the default offers while they are on sale.
        let now_open = move |offer: &&std::sync::Arc<Offer>| {
            offer.kind == OfferKind::Default && offer.sale.contains(now)
        };
        snapshot.offers().filter(now_open).map(|offer| Self {
            offer_id: offer.id.as_str().to_owned(),
            r#type: Some(offer.kind.as_str()),
            state: "active",
            purchased_at: None,
            expiry: offer.sale.to.map(|at| at.0),
        })
    }
}

fn state(grant: &Grant, now: UnixSeconds) -> &'static str {
    if grant.is_active(now) {
        "active"
    } else if grant.revoked.is_some() {
        "revoked"
    } else {
        "expired"
    }
}
