//! Decides when the viewer must enter the PIN.

use super::model::{EntitlementSettings, PinRule};
use crate::domain::accounts::User;
use crate::domain::catalog::{Livestream, Unrated};
use crate::types::{Country, UnixSeconds};

impl EntitlementSettings {
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
                // Unknown content counts as unrated.
                PinRule::Age => self.is_rated_above(user, pg_age, livestream.unrated),
                PinRule::Watershed => {
                    // In a gap of the schedule, `start` is the position.
                    self.night.contain(start, livestream.zone)
                        || (livestream.verify_age
                            && self.is_rated_above(user, pg_age, livestream.unrated))
                }
            }
    }

    #[must_use]
    pub fn asset_needs_pin(&self, user: &User, pg_age: Option<u8>) -> bool {
        // Under either rule, because a video on demand has no start time for the watershed.
        user.parental.enabled && self.is_rated_above(user, pg_age, None)
    }

    /// `unrated` is the livestream's override.
    fn is_rated_above(&self, user: &User, pg_age: Option<u8>, unrated: Option<Unrated>) -> bool {
        pg_age
            .map(Unrated::Age)
            .or(unrated)
            .unwrap_or(self.unrated)
            .needs_pin(user.parental.limit)
    }

    /// Of the address, otherwise of the account.
    #[must_use]
    pub fn viewer_country(&self, user: &User, address: Option<Country>) -> Option<Country> {
        // Users cannot change the country of their account after sign-up, or they could choose it for each
        // title.
        address.or(user.country.filter(|_| self.profile_country))
    }
}
