//! Livestreams that anyone may watch without an account, for players that accept only a URL.

use std::sync::Arc;

use super::evaluate::{EntitlementService, held, later};
use super::model::{Denied, OfferState};
use super::position::PositionRights;
use crate::catalog::{Livestream, Offer, OfferKind};
use playgate_types::{AssetId, Country, LivestreamId, UnixSeconds};

pub struct PublicLivestream {
    pub livestream: Arc<Livestream>,
    /// The end of the offer, or the start of the next broadcast without live rights.
    pub until: UnixSeconds,
}

/// A program in its catch-up window that anyone may watch.
#[derive(Debug)]
pub struct PublicProgram {
    pub livestream: Arc<Livestream>,
    pub start: UnixSeconds,
    pub stop: UnixSeconds,
    /// The end of the offer or of the catch-up window.
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
        let (livestream, most) = self.public_offer(livestream, address, now, most)?;
        let schedule = self.schedule().snapshot();
        let (rights, _) = PositionRights::at(&schedule, &livestream, now);
        rights.check(now, now)?;
        // Players with a bare URL send no heartbeat, so the access must end before a program without live
        // rights.
        let until = schedule.next_withheld(&livestream.id, now, most);
        Ok(PublicLivestream { livestream, until })
    }

    /// Decides whether anyone may watch the program that was on at `at`, by its catch-up right.
    pub fn public_catchup(
        &self,
        livestream: &LivestreamId,
        address: Option<Country>,
        (at, now): (UnixSeconds, UnixSeconds),
        most: i64,
    ) -> Result<PublicProgram, Denied> {
        let (livestream, most) = self.public_offer(livestream, address, now, most)?;
        let schedule = self.schedule().snapshot();
        let program = schedule.program_at(&livestream.id, at);
        let program = program.ok_or(Denied::NotAvailable)?;
        let (from, until) = program.catchup().ok_or(Denied::NotAvailable)?;
        if now < from || until <= now {
            return Err(Denied::NotAvailable);
        }
        Ok(PublicProgram {
            livestream,
            start: program.start(),
            stop: program.stop(),
            until: until.min(most),
        })
    }

    fn public_offer(
        &self,
        livestream: &LivestreamId,
        address: Option<Country>,
        now: UnixSeconds,
        most: i64,
    ) -> Result<(Arc<Livestream>, UnixSeconds), Denied> {
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
                OfferState::Held(end) if here => {
                    ends = Some(ends.map_or(end, |known| later(known, end)))
                }
                // Only this case is a refusal by country.
                OfferState::Held(_) => elsewhere = true,
                OfferState::NotOnSale
                | OfferState::Expired(_)
                | OfferState::Revoked(_)
                | OfferState::NotHeld => {}
            }
        }
        let end = ends.ok_or(match elsewhere {
            true => Denied::GeoBlocked,
            false => Denied::NotEntitled,
        })?;
        // Encrypted streams need a license, and a license needs a session.
        if livestream.encrypted {
            return Err(Denied::NotAvailable);
        }
        let most = now + most;
        let most = end.map_or(most, |end| end.min(most));
        Ok((Arc::clone(livestream), most))
    }
}
