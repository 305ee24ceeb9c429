//! Converts entitlement decisions into the types of playback.

use crate::domain::accounts::User;
use crate::domain::entitlement::{self, Decision, TAG_ANY_DEVICE};
use crate::types::{Country, UnixSeconds};

use super::context::Viewer;
use super::entitlement_token::GrantedRight;
use super::model::PlayedAsset;

impl Viewer {
    /// `country` is the country of the request, by IP address or by the user's record.
    #[must_use]
    pub fn new(user: &User, country: Option<Country>) -> Self {
        Self {
            user: user.id,
            partner: user.partner,
            country,
            any_country: entitlement::any_country(user),
            any_device: user.tags.iter().any(|tag| tag == TAG_ANY_DEVICE),
        }
    }
}

impl GrantedRight {
    #[must_use]
    pub fn of(granted: Decision, now: UnixSeconds) -> Self {
        use entitlement::Playing as Decided;
        let (playing, program) = match granted.playing {
            Decided::Live {
                livestream,
                program,
                at,
            } => {
                let playing = PlayedAsset::Live {
                    livestream: livestream.id.clone(),
                    // At most a day back: the offset was validated when it was parsed.
                    offset: i32::try_from(at.since(now)).unwrap_or(0),
                };
                (playing, program)
            }
            Decided::Catchup {
                livestream,
                program,
            } => match program.id() {
                Some(broadcast) => {
                    let playing = PlayedAsset::Catchup {
                        livestream: livestream.id.clone(),
                        broadcast,
                        start: program.start(),
                        stop: program.stop(),
                    };
                    (playing, Some(program))
                }
                None => (PlayedAsset::Vod, None),
            },
            Decided::Vod { .. } => (PlayedAsset::Vod, None),
        };
        Self {
            playing,
            program: program.and_then(|program| Some((program.id()?, program.stop()))),
            pin_needed: granted.pin_needed,
            valid_until: granted.valid_until,
            countries: granted.countries,
        }
    }
}
