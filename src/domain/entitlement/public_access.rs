//! Livestreams that anyone may watch without an account, for players that accept only a URL.

use std::sync::Arc;

use super::evaluate::{EntitlementService, OfferState, held, later};
use super::model::Denied;
use super::position::PositionRights;
use crate::domain::catalog::{Livestream, Offer, OfferKind};
use crate::types::{AssetId, Country, LivestreamId, UnixSeconds};

pub struct PublicLivestream {
    pub livestream: Arc<Livestream>,
    /// That of the offer, or the start of the first broadcast without live rights.
    pub until: UnixSeconds,
}

impl EntitlementService {
    /// Decides whether anyone may watch a livestream now, and for how long: at most `most` seconds.
    pub fn public_access(
        &self,
        livestream: &LivestreamId,
        address: Option<Country>,
        now: UnixSeconds,
        most: i64,
    ) -> Result<PublicLivestream, Denied> {
        let snapshot = self.catalog().snapshot();
        let livestream = snapshot
            .livestream(livestream)
            .ok_or(Denied::AssetNotFound)?;
        let id = AssetId::from(&livestream.id);
        // Anyone may watch what a user could watch who signed up a moment ago: such a user has the default
        // offers and no parental control, and any holder of a partner token can create one. So this grants
        // no new access.
        let everybodys = |offer: &&Arc<Offer>| offer.kind == OfferKind::Default;
        let mut ends = None;
        let mut elsewhere = false;
        for offer in snapshot.offers_of(&id).filter(everybodys) {
            let here = offer.countries.is_empty()
                || address.is_some_and(|country| offer.countries.contains(&country));
            match held(offer, &[], now) {
                OfferState::Yes(end) if here => {
                    ends = Some(ends.map_or(end, |known| later(known, end)))
                }
                OfferState::Yes(_) => elsewhere = true,
                OfferState::NotOnSale
                | OfferState::Expired(_)
                | OfferState::Revoked(_)
                | OfferState::No => {}
            }
        }
        let end = ends.ok_or(match elsewhere {
            true => Denied::GeoBlocked,
            false => Denied::NotEntitled,
        })?;
        // There is no license without a session.
        if livestream.encrypted {
            return Err(Denied::NotAvailable);
        }
        let most = now + most;
        let most = end.map_or(most, |end| end.min(most));
        let schedule = self.schedule().snapshot();
        let (rights, _) = PositionRights::at(&schedule, livestream, now);
        rights.check(now, now)?;
        Ok(PublicLivestream {
            livestream: Arc::clone(livestream),
            // Players with a bare URL send no heartbeat, so the access must end before a program without live
            // rights.
            until: schedule.next_withheld(&livestream.id, now, most),
        })
    }
}
