//! Decides when the viewer must enter the PIN.

use super::model::{PinRule, Settings};
use crate::domain::accounts::User;
use crate::domain::catalog::{Livestream, Unrated};
use crate::types::{Country, UnixSeconds};

impl Settings {
    /// Whether the user's parental control requires the PIN for a program of a livestream, live or in
    /// catch-up. In a gap of the schedule `start` is the position and there is no rating: unknown content
    /// counts as unrated.
    #[must_use]
    pub fn program_needs_pin(
        &self,
        user: &User,
        livestream: &Livestream,
        start: UnixSeconds,
        pg_age: Option<u8>,
    ) -> bool {
        user.parental.enabled
            && match self.rule {
                PinRule::Age => self.is_rated_above(user, pg_age, livestream.unrated),
                PinRule::Watershed => {
                    self.night.contain(start, livestream.zone)
                        || (livestream.verify_age
                            && self.is_rated_above(user, pg_age, livestream.unrated))
                }
            }
    }

    /// Whether the user's parental control requires the PIN for a video on demand: by its rating, under
    /// either rule.
    #[must_use]
    pub fn asset_needs_pin(&self, user: &User, pg_age: Option<u8>) -> bool {
        user.parental.enabled && self.is_rated_above(user, pg_age, None)
    }

    /// `unrated` is the livestream's override for programs without a rating.
    fn is_rated_above(&self, user: &User, pg_age: Option<u8>, unrated: Option<Unrated>) -> bool {
        pg_age
            .map(Unrated::Age)
            .or(unrated)
            .unwrap_or(self.unrated)
            .needs_pin(user.parental.limit)
    }

    /// The country of the viewer: that of the address, otherwise that of the account, unless the operator
    /// disabled that. Users cannot change the country of their account after sign-up. An unknown country is
    /// in no list.
    #[must_use]
    pub fn viewer_country(&self, user: &User, address: Option<Country>) -> Option<Country> {
        address.or(user.country.filter(|_| self.profile_country))
    }
}
