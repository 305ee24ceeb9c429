//! Grants, and the result of an entitlement decision.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::catalog::{Asset, Hours, Livestream, Unrated};
use crate::domain::schedule::Program;
use crate::types::{Country, OfferId, OperatorId, UnixSeconds};

/// The user tag that disables the country check.
pub(crate) const TAG_ANY_COUNTRY: &str = "no-geo";
/// The user tag that disables the device limit.
pub(crate) const TAG_ANY_DEVICE: &str = "no-device-limit";

/// An offer granted to a user. Expired and revoked grants are kept as history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The offer. If it has left the catalogue, the grant gives no access.
    pub offer: OfferId,
    pub purchased_at: UnixSeconds,
    /// `None`: until revoked.
    pub expiry: Option<UnixSeconds>,
    /// The operator who granted it; `None` for the administrator of the installation.
    pub granted_by: Option<OperatorId>,
    pub revoked: Option<Revocation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    pub at: UnixSeconds,
    /// The operator who revoked it; `None` for the administrator of the installation.
    pub by: Option<OperatorId>,
}

impl Grant {
    /// Whether the grant is neither expired nor revoked.
    #[must_use]
    pub fn is_active(&self, now: UnixSeconds) -> bool {
        self.revoked.is_none() && self.expiry.is_none_or(|expiry| now < expiry)
    }
}

/// Which programs require the PIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinRule {
    /// Programs that start at night, and on "verify age" channels those rated at or above the limit.
    Watershed,
    /// Programs rated at or above the limit.
    Age,
}

/// Section `parental` of the configuration, and the part of `geo` that concerns users.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub rule: PinRule,
    /// The night of [`PinRule::Watershed`].
    pub night: Hours,
    /// How a program without a rating counts, unless its livestream overrides it.
    pub unrated: Unrated,
    /// Whether the country of the user's account counts if the address has none.
    pub profile_country: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rule: PinRule::Age,
            night: Hours::NIGHT,
            unrated: Unrated::Pin,
            profile_country: true,
        }
    }
}

/// What an asset id resolves to at the requested position.
#[derive(Clone)]
pub enum Playing {
    Live {
        livestream: Arc<Livestream>,
        /// The program at the position; `None` in a gap of the schedule.
        program: Option<Program>,
        at: UnixSeconds,
    },
    /// A broadcast, from its catch-up.
    Catchup {
        livestream: Arc<Livestream>,
        program: Program,
    },
    Vod {
        asset: Arc<Asset>,
    },
}

/// The user may play an asset, possibly after entering a PIN.
#[derive(Clone)]
pub struct Decision {
    pub playing: Playing,
    pub pg_age: Option<u8>,
    /// End of the right: the earliest end of offer, catch-up and asset window.
    pub valid_until: Option<UnixSeconds>,
    /// Whether the user's parental control requires the PIN.
    pub pin_needed: bool,
    /// Countries where the right applies, sorted; empty means everywhere.
    pub countries: Vec<Country>,
}

/// Why a user may not play an asset. The order is the precedence: the first that applies is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denied {
    #[error("no asset has this id")]
    AssetNotFound,
    /// No offer that includes the asset covers the viewer's country.
    #[error("the asset is not offered in this country")]
    GeoBlocked,
    /// The user has no offer that includes the asset.
    #[error("the user has no offer that includes this asset")]
    NotEntitled,
    /// It is not yet, or no longer, available.
    #[error("the asset is not available at this time")]
    NotAvailable,
    #[error("the program has no live rights")]
    NoLiveRights,
}

/// One step of a decision, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name of the check: `asset`, `offer`, `country`, `rights`, `pin`.
    pub check: &'static str,
    /// The checked item, if there are several.
    pub subject: Option<String>,
    pub finding: String,
    /// Whether the check speaks for the viewer.
    pub passed: bool,
}
