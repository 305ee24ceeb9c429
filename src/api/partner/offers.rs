//! A user's offers.

use serde::Serialize;

use playgate_domain::catalog::{CatalogSnapshot, Offer, OfferKind};
use playgate_domain::entitlement::Grant;
use playgate_http::{ApiError, Context, Reply, UserAuth};
use playgate_services::Services;
use playgate_types::{Described, JsonType, OfferId, UnixSeconds};

crate::openapi::words::words! { OfferBody => r##"
[operations.offers]
summary = "List the user's offers"
text = "Default offers first, then the user's own offers ordered by grant time, expired and revoked ones included."
returns."200" = "[Offer]: The offers."
errors = ["USER_NOT_FOUND"]
"## }

pub(crate) async fn offers(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let snapshot = services.catalog.snapshot();
    let grants = services.grants.for_user(&auth.user());
    let granted_offers = grants
        .iter()
        .map(|grant| OfferBody::from_grant(grant, &snapshot, cx.now));
    let lines: Vec<_> = OfferBody::public_offers(&snapshot, cx.now)
        .chain(granted_offers)
        .collect();
    Reply::json(&lines)
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferBody {
    /// Id of the offer.
    offer_id: OfferId,
    /// Type of the offer. Absent if the offer has left the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("OfferType"))]
    r#type: Option<&'static str>,
    /// Whether the user holds the offer now.
    #[described(JsonType::OneOf(&["active", "expired", "revoked"]))]
    state: &'static str,
    /// Time of the grant. Absent for offers that belong to everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    purchased_at: Option<UnixSeconds>,
    /// Expiry time. Absent if the offer does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<UnixSeconds>,
}

impl OfferBody {
    pub(crate) fn from_grant(grant: &Grant, snapshot: &CatalogSnapshot, now: UnixSeconds) -> Self {
        Self {
            offer_id: grant.offer.clone(),
            r#type: snapshot
                .offer(&grant.offer)
                .map(|offer| offer.kind.as_str()),
            state: state(grant, now),
            purchased_at: Some(grant.purchased_at),
            expiry: grant.expiry,
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
            offer_id: offer.id.clone(),
            r#type: Some(offer.kind.as_str()),
            state: "active",
            purchased_at: None,
            expiry: offer.sale.to,
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
