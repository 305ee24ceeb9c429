//! When the viewer has to give the PIN (decisions part 5).

use super::model::{PinRule, Settings};
use crate::domain::accounts::User;
use crate::domain::catalog::{Livestream, Unrated};
use crate::types::{Country, UnixSeconds};

impl Settings {
    /// Whether the user's parental control asks for the PIN before a program of a livestream, live
    /// or in catch-up. In a gap of the guide `start` is the position and there is no rating: what
    /// is not known is not free.
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

    /// Whether the user's parental control asks for the PIN before a video on demand: by its
    /// rating, under either rule.
    #[must_use]
    pub fn asset_needs_pin(&self, user: &User, pg_age: Option<u8>) -> bool {
        user.parental.enabled && self.is_rated_above(user, pg_age, None)
    }

    /// `unrated` is what the livestream says of programs without a rating, if anything.
    fn is_rated_above(&self, user: &User, pg_age: Option<u8>, unrated: Option<Unrated>) -> bool {
        pg_age
            .map(Unrated::Age)
            .or(unrated)
            .unwrap_or(self.unrated)
            .needs_pin(user.parental.limit)
    }

    /// Where the viewer is: the country of the address, else that of the account, which users cannot
    /// change after sign-up, unless the operator has switched that off. An unknown country is outside
    /// of every list.
    #[must_use]
    pub fn viewer_country(&self, user: &User, address: Option<Country>) -> Option<Country> {
        address.or(user.country.filter(|_| self.profile_country))
    }
}
