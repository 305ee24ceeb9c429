//! When the viewer has to give the PIN (decisions part 5).

use super::model::{PinRule, Settings};
use crate::domain::accounts::User;
use crate::domain::catalog::Livestream;
use crate::types::UnixSeconds;

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
                PinRule::Age => self.is_rated_above(user, pg_age),
                PinRule::Watershed => {
                    self.night.contain(start, livestream.zone)
                        || (livestream.verify_age && self.is_rated_above(user, pg_age))
                }
            }
    }

    /// Whether the user's parental control asks for the PIN before a video on demand: by its
    /// rating, under either rule.
    #[must_use]
    pub fn asset_needs_pin(&self, user: &User, pg_age: Option<u8>) -> bool {
        user.parental.enabled && self.is_rated_above(user, pg_age)
    }

    fn is_rated_above(&self, user: &User, pg_age: Option<u8>) -> bool {
        pg_age.map_or(self.unrated_needs_pin, |age| age >= user.parental.limit)
    }
}
