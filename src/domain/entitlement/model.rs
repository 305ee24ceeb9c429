//! Grants, the settings of decisions with their PIN rules, and the result of a decision.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::accounts::User;
use crate::catalog::{Asset, Hours, Livestream, Offer, Unrated};
use crate::schedule::Program;
use playgate_types::{Country, LivestreamId, OfferId, OperatorId, UnixSeconds};

pub(crate) const TAG_ANY_COUNTRY: &str = "no-geo";
pub const TAG_ANY_DEVICE: &str = "no-device-limit";

/// Expired and revoked grants are kept as history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// If the offer has left the catalogue, the grant gives no access.
    pub offer: OfferId,
    pub purchased_at: UnixSeconds,
    /// `None` means until revoked.
    pub expiry: Option<UnixSeconds>,
    /// `None` for the administrator of the installation.
    pub granted_by: Option<OperatorId>,
    pub revoked: Option<Revocation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    pub at: UnixSeconds,
    pub by: Option<OperatorId>,
}

impl Grant {
    pub fn is_active(&self, now: UnixSeconds) -> bool {
        self.revoked.is_none() && self.expiry.is_none_or(|expiry| now < expiry)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinRule {
    /// Programs that start at night, and on "verify age" channels those rated at or above the limit.
    Watershed,
    Age,
}

/// Section `parental` of the configuration, and the part of `geo` that concerns users.
#[derive(Clone, Copy, Debug)]
pub struct EntitlementSettings {
    pub rule: PinRule,
    pub night: Hours,
    /// The treatment of unrated programs, unless the livestream overrides it.
    pub unrated: Unrated,
    /// Whether the country of the account counts if that of the address is unknown.
    pub profile_country: bool,
}

impl Default for EntitlementSettings {
    fn default() -> Self {
        Self {
            rule: PinRule::Age,
            night: Hours::NIGHT,
            unrated: Unrated::Pin,
            profile_country: true,
        }
    }
}

#[derive(Clone)]
pub enum Playing {
    Live {
        livestream: Arc<Livestream>,
        program: Option<Program>,
        at: UnixSeconds,
    },
    Catchup {
        livestream: Arc<Livestream>,
        program: Program,
    },
    Vod {
        asset: Arc<Asset>,
    },
}

#[derive(Clone)]
pub struct Decision {
    pub playing: Playing,
    pub pg_age: Option<u8>,
    /// The earliest end of the offer, the catch-up window and the asset's window.
    pub valid_until: Option<UnixSeconds>,
    pub pin_needed: bool,
    /// Sorted; empty means everywhere.
    pub countries: Vec<Country>,
}

impl Decision {
    pub(super) fn plays_live(&self) -> Option<LivestreamId> {
        match &self.playing {
            Playing::Live { livestream, .. } => Some(livestream.id.clone()),
            Playing::Catchup { .. } | Playing::Vod { .. } => None,
        }
    }
}

/// Ordered by precedence: the first denial that applies is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denied {
    #[error("no asset has this id")]
    AssetNotFound,
    /// No offer that includes the asset covers the viewer's country.
    #[error("the asset is not offered in this country")]
    GeoBlocked,
    #[error("the user has no offer that includes this asset")]
    NotEntitled,
    #[error("the asset is not available at this time")]
    NotAvailable,
    #[error("the program has no live rights")]
    NoLiveRights,
}

impl EntitlementSettings {
    pub fn program_needs_pin(
        &self,
        user: &User,
        livestream: &Livestream,
        start: UnixSeconds,
        pg_age: Option<u8>,
    ) -> bool {
        user.parental.enabled
            && match self.rule {
                // Unknown content counts as unrated.
                PinRule::Age => self.is_rated_above(user, pg_age, livestream.unrated),
                PinRule::Watershed => {
                    // In a gap of the schedule, `start` is the position.
                    self.night.contains(start, livestream.zone)
                        || (livestream.verify_age
                            && self.is_rated_above(user, pg_age, livestream.unrated))
                }
            }
    }

    pub fn asset_needs_pin(&self, user: &User, pg_age: Option<u8>) -> bool {
        // Under either rule, because a video on demand has no start time for the watershed.
        user.parental.enabled && self.is_rated_above(user, pg_age, None)
    }

    /// `unrated` is the livestream's override.
    fn is_rated_above(&self, user: &User, pg_age: Option<u8>, unrated: Option<Unrated>) -> bool {
        pg_age
            // The first one that is known: the rating, the livestream's override, the setting.
            .map(Unrated::Age)
            .or(unrated)
            .unwrap_or(self.unrated)
            .needs_pin(user.parental.limit)
    }

    /// Returns the country of the address, otherwise that of the account.
    pub fn viewer_country(&self, user: &User, address: Option<Country>) -> Option<Country> {
        // Users cannot change the country of their account after sign-up, or they could choose it for each title.
        address.or(user.country.filter(|_| self.profile_country))
    }
}

/// What an asset id names.
pub enum Subject {
    Livestream(Arc<Livestream>),
    Broadcast(Arc<Livestream>, Program),
    Asset(Arc<Asset>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferState {
    Held(Option<UnixSeconds>),
    /// A default offer outside its sale window.
    NotOnSale,
    /// The end of the last grant.
    Expired(UnixSeconds),
    Revoked(UnixSeconds),
    NotHeld,
}

pub(super) struct OfferEvaluation {
    pub(super) offer: Arc<Offer>,
    pub(super) held: OfferState,
    pub(super) here: bool,
}

pub fn any_country(user: &User) -> bool {
    user.tags.iter().any(|tag| tag == TAG_ANY_COUNTRY)
}
