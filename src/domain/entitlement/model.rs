//! What users have been given, and what a decision on rights says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::catalog::{Asset, Hours, Livestream, Unrated};
use crate::domain::schedule::Program;
use crate::types::{Country, OfferId, OperatorId, UnixSeconds};

/// The tag on a user that switches the country check off.
pub const TAG_ANY_COUNTRY: &str = "no-geo";
/// The tag on a user that switches the device limit off.
pub const TAG_ANY_DEVICE: &str = "no-device-limit";

/// An offer that a user has or had: what joins the two. It stays as history when it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The offer; it may have left the catalogue since, and then opens nothing.
    pub offer: OfferId,
    /// When the user got it.
    pub purchased_at: UnixSeconds,
    /// When it ends; never by itself if absent.
    pub expiry: Option<UnixSeconds>,
    /// Who gave it; absent for the machine's administrator.
    pub granted_by: Option<OperatorId>,
    /// When and by whom it was taken away.
    pub revoked: Option<Revocation>,
}

/// That a grant was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// When.
    pub at: UnixSeconds,
    /// By whom; absent for the machine's administrator.
    pub by: Option<OperatorId>,
}

impl Grant {
    /// Whether it opens its offer at `now`.
    #[must_use]
    pub fn is_active(&self, now: UnixSeconds) -> bool {
        self.revoked.is_none() && self.expiry.is_none_or(|expiry| now < expiry)
    }
}

/// Which programs ask for the PIN (decisions part 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinRule {
    /// What starts in the night, and on "verify age" channels what is rated at or above the limit.
    Watershed,
    /// What is rated at or above the limit.
    Age,
}

/// Section `parental` of the configuration, and what of `geo` concerns users.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which programs ask for the PIN.
    pub rule: PinRule,
    /// The night of [`PinRule::Watershed`].
    pub night: Hours,
    /// What a program counts as that nobody rated, unless its livestream says otherwise.
    pub unrated: Unrated,
    /// Whether the user's own record tells the country where nothing else does.
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

/// What an asset id leads to at the asked position.
#[derive(Clone)]
pub enum Playing {
    /// A livestream.
    Live {
        /// The livestream.
        livestream: Arc<Livestream>,
        /// What is on at the position; nothing in a gap of the guide.
        program: Option<Program>,
        /// The position.
        at: UnixSeconds,
    },
    /// A broadcast, from its catch-up.
    Catchup {
        /// The livestream that carried it.
        livestream: Arc<Livestream>,
        /// The broadcast.
        program: Program,
    },
    /// A video on demand.
    Vod {
        /// The asset.
        asset: Arc<Asset>,
    },
}

/// That a user may play an asset, perhaps after giving a PIN.
#[derive(Clone)]
pub struct Decision {
    /// What is played.
    pub playing: Playing,
    /// Its age rating.
    pub pg_age: Option<u8>,
    /// When the right ends: that of the offer, of the catch-up, or of the asset's window.
    pub valid_until: Option<UnixSeconds>,
    /// Whether the user's parental control asks for the PIN.
    pub pin_needed: bool,
    /// Where the right holds; everywhere if empty. Sorted.
    pub countries: Vec<Country>,
}

/// Why a user may not play an asset. The order is that of precedence: the first that is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Denied {
    /// Nothing has this id.
    #[error("there is no asset of this id")]
    AssetNotFound,
    /// The offers that hold it do not hold in the viewer's country.
    #[error("the asset is not offered in this country")]
    GeoBlocked,
    /// The user has no offer that holds it.
    #[error("the user has no offer that holds this asset")]
    NotEntitled,
    /// It is not yet, or no longer, available.
    #[error("the asset is not available at this time")]
    NotAvailable,
    /// The program may not be seen live.
    #[error("the program has no live rights")]
    NoLiveRights,
}

/// One thing that a decision looked at, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was asked: `asset`, `offer`, `country`, `rights`, `pin`.
    pub check: &'static str,
    /// What it was asked of, where there are several.
    pub subject: Option<String>,
    /// What was found.
    pub finding: String,
    /// Whether it speaks for the viewer.
    pub passed: bool,
}
