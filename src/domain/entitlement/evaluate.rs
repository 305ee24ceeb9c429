//! The entitlement decision: which user may play which asset, from which country, at what time.

use std::sync::Arc;

use super::findings;
use super::grants::Grants;
use super::model::{
    Decision, Denied, EntitlementSettings, Grant, OfferEvaluation, OfferState, Playing, Subject,
    any_country,
};
use super::position::PositionRights;
use crate::accounts::User;
use crate::catalog::{Catalog, CatalogSnapshot, Livestream, Offer, OfferKind};
use crate::decision::{DecisionTrace, RightsRefusal};
use crate::schedule::{Program, Schedule};
use playgate_types::{AssetId, BroadcastId, Country, LiveOffset, LivestreamId, UnixSeconds};

/// Decides from memory only. Cheap to clone.
#[derive(Clone)]
pub struct EntitlementService {
    catalog: Catalog,
    schedule: Arc<Schedule>,
    grants: Grants,
    settings: EntitlementSettings,
}

#[derive(Debug)]
pub(super) struct Access {
    pub(super) until: Option<UnixSeconds>,
    pub(super) countries: Vec<Country>,
}

impl EntitlementService {
    pub const fn new(
        catalog: Catalog,
        schedule: Arc<Schedule>,
        grants: Grants,
        settings: EntitlementSettings,
    ) -> Self {
        Self {
            catalog,
            schedule,
            grants,
            settings,
        }
    }

    /// Decides whether a user may play an asset. `address` is the country of the IP address, if known. `offset` is the
    /// position on a livestream and is ignored for everything else. The error is the first reason, in the order of
    /// [`Denied`]; the trace continues after it if there is more to show.
    pub fn decide(
        &self,
        user: &User,
        asset: &AssetId,
        offset: LiveOffset,
        address: Option<Country>,
        trace: &DecisionTrace,
        now: UnixSeconds,
    ) -> Result<Decision, Denied> {
        // One snapshot for the whole decision: offers and rights of the same catalogue.
        let snapshot = self.catalog.snapshot();
        let Some(subject) = self.subject(&snapshot, asset) else {
            trace.step(
                "asset",
                false,
                || "no livestream, broadcast or video on demand has this id",
            );
            return Err(Denied::AssetNotFound);
        };
        trace.step("asset", true, || findings::describe(&subject));
        trace.steps(|| vec![findings::country(&self.settings, user, address)]);
        let evaluations = self.evaluations(&snapshot, &subject, user, address, now);
        trace.steps(|| evaluations.iter().map(findings::offer).collect());
        if evaluations.is_empty() {
            trace.step("offer", false, || "no offer includes the asset");
        }
        let access = access(user, &evaluations);
        let playing = self.playing(subject, offset, trace, now);
        match &playing {
            Ok((playing, _)) => trace.step("rights", true, || findings::describe_playing(playing)),
            Err(denied) => trace.step("rights", false, || denied.to_string()),
        }
        // Offers before rights: a viewer without an offer must not learn from the answer what is on air.
        let access = access?;
        let (playing, end) = playing?;
        let pin_needed = self.pin_needed(user, &playing);
        trace.step("pin", !pin_needed, || {
            findings::pin(&self.settings, user, &playing, pin_needed)
        });
        Ok(Decision {
            pin_needed,
            pg_age: playing.pg_age(),
            valid_until: earlier(access.until, end),
            countries: access.countries,
            playing,
        })
    }

    /// Returns whether an offer gives access to the asset, whatever the current program is.
    pub fn is_entitled(
        &self,
        user: &User,
        asset: &AssetId,
        address: Option<Country>,
        now: UnixSeconds,
    ) -> bool {
        let snapshot = self.catalog.snapshot();
        self.subject(&snapshot, asset).is_some_and(|subject| {
            let evaluations = self.evaluations(&snapshot, &subject, user, address, now);
            access(user, &evaluations).is_ok()
        })
    }

    pub const fn settings(&self) -> &EntitlementSettings {
        &self.settings
    }

    /// Resolves an asset id. A broadcast whose livestream is not in the catalogue does not resolve.
    pub(crate) fn subject(&self, snapshot: &CatalogSnapshot, id: &AssetId) -> Option<Subject> {
        // The order does not matter: the three share one namespace.
        if let Some(livestream) = snapshot.livestream(&LivestreamId::from(id)) {
            return Some(Subject::Livestream(Arc::clone(livestream)));
        }
        if let Some(asset) = snapshot.asset(id) {
            return Some(Subject::Asset(Arc::clone(asset)));
        }
        let program = self.schedule.snapshot().program(&BroadcastId::from(id))?;
        let livestream = snapshot.livestream(program.livestream())?;
        Some(Subject::Broadcast(Arc::clone(livestream), program))
    }

    pub(super) fn evaluations(
        &self,
        snapshot: &CatalogSnapshot,
        subject: &Subject,
        user: &User,
        address: Option<Country>,
        now: UnixSeconds,
    ) -> Vec<OfferEvaluation> {
        let grants = self.grants.for_user(&user.id);
        let country = self.settings.viewer_country(user, address);
        let anywhere = any_country(user);
        let evaluation = |offer: &Arc<Offer>| OfferEvaluation {
            held: held(offer, &grants, now),
            here: anywhere
                || offer.countries.is_empty()
                // An unknown country is in no list.
                || country.is_some_and(|country| offer.countries.contains(&country)),
            offer: Arc::clone(offer),
        };
        let id = match subject {
            // Broadcasts belong to the offers of their livestream.
            Subject::Livestream(livestream) | Subject::Broadcast(livestream, _) => {
                AssetId::from(&livestream.id)
            }
            Subject::Asset(asset) => asset.id.clone(),
        };
        snapshot.offers_of(&id).map(evaluation).collect()
    }

    pub(super) fn playing(
        &self,
        subject: Subject,
        offset: LiveOffset,
        trace: &DecisionTrace,
        now: UnixSeconds,
    ) -> Result<(Playing, Option<UnixSeconds>), Denied> {
        let refused = |program: Option<&Program>, denied: Denied| {
            let live = denied == Denied::NoLiveRights;
            trace.refused_by(|| RightsRefusal::new(program.and_then(Program::id), live, now));
        };
        match subject {
            Subject::Livestream(livestream) => {
                let at = offset.before(now);
                let schedule = self.schedule.snapshot();
                let (rights, program) = PositionRights::at(&schedule, &livestream, at);
                let checked = rights.check(at, now).map_err(Denied::from);
                checked.inspect_err(|denied| refused(program.as_ref(), *denied))?;
                let playing = Playing::Live {
                    livestream,
                    program,
                    at,
                };
                // Without end: heartbeats check each program.
                Ok((playing, None))
            }
            Subject::Broadcast(livestream, program) => {
                let playing = broadcast(livestream, program.clone(), now);
                playing.inspect_err(|denied| refused(Some(&program), *denied))
            }
            Subject::Asset(asset) => {
                if !asset.available.contains(now) {
                    return Err(Denied::NotAvailable);
                }
                let end = asset.available.to;
                Ok((Playing::Vod { asset }, end))
            }
        }
    }

    pub(super) fn pin_needed(&self, user: &User, playing: &Playing) -> bool {
        let rating = playing.pg_age();
        match playing {
            Playing::Live {
                livestream,
                program,
                at,
            } => {
                // In a gap the position itself counts.
                let start = program.as_ref().map_or(*at, Program::start);
                self.settings
                    .program_needs_pin(user, livestream, start, rating)
            }
            Playing::Catchup {
                livestream,
                program,
            } => self
                .settings
                .program_needs_pin(user, livestream, program.start(), rating),
            Playing::Vod { .. } => self.settings.asset_needs_pin(user, rating),
        }
    }

    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}

impl Playing {
    pub fn pg_age(&self) -> Option<u8> {
        match self {
            Self::Live { program, .. } => program.as_ref().and_then(Program::pg_age),
            Self::Catchup { program, .. } => program.pg_age(),
            Self::Vod { asset } => asset.pg_age,
        }
    }
}

/// Decides how a broadcast is played: live while it is on air and has live rights; otherwise from its start, by
/// start-over while it is on air and by catch-up afterwards.
fn broadcast(
    livestream: Arc<Livestream>,
    program: Program,
    now: UnixSeconds,
) -> Result<(Playing, Option<UnixSeconds>), Denied> {
    let on_air = program.start() <= now && now < program.stop();
    let catchup_end = program.catchup().map(|(_, end)| end);
    if on_air && program.live() {
        // A viewer who starts late may watch to the end in catch-up.
        let end = catchup_end.unwrap_or(program.stop());
        let playing = Playing::Live {
            livestream,
            program: Some(program),
            at: now,
        };
        return Ok((playing, Some(end)));
    }
    let end = if on_air {
        // Played from its start while on air, it needs the right of start-over.
        PositionRights::for_program(&livestream, &program).check(program.start(), now)?;
        catchup_end.unwrap_or(program.stop())
    } else {
        let in_window = |(from, to): &(UnixSeconds, UnixSeconds)| *from <= now && now < *to;
        let window = program.catchup().filter(in_window);
        window.ok_or(Denied::NotAvailable)?.1
    };
    let playing = Playing::Catchup {
        livestream,
        program,
    };
    Ok((playing, Some(end)))
}

pub(super) fn held(offer: &Offer, grants: &[Arc<Grant>], now: UnixSeconds) -> OfferState {
    // A default offer belongs to all users, so there is no grant.
    if offer.kind == OfferKind::Default {
        return if offer.sale.contains(now) {
            OfferState::Held(offer.sale.to)
        } else {
            OfferState::NotOnSale
        };
    }
    let of_offer = || grants.iter().filter(|grant| grant.offer == offer.id);
    let active = of_offer().filter(|grant| grant.is_active(now));
    // Several grants of one offer combine to the latest end.
    if let Some(until) = active.map(|grant| grant.expiry).reduce(later) {
        return OfferState::Held(until);
    }
    // Without an active grant, the last one explains why.
    of_offer().next_back().map_or(OfferState::NotHeld, |last| {
        let revoked = last.revoked.map(|revoked| OfferState::Revoked(revoked.at));
        let expired = last.expiry.map(OfferState::Expired);
        revoked.or(expired).unwrap_or(OfferState::NotHeld)
    })
}

/// Combines the offers. The error is `GeoBlocked` if the user has an offer that does not cover this country, or if no
/// offer covers it; `NotEntitled` if an offer that covers it could be bought.
pub(super) fn access(user: &User, evaluations: &[OfferEvaluation]) -> Result<Access, Denied> {
    let has = |evaluation: &&OfferEvaluation| matches!(evaluation.held, OfferState::Held(_));
    let mut open = evaluations
        .iter()
        .filter(|one| one.here)
        .filter(has)
        .peekable();
    if open.peek().is_none() {
        let has_elsewhere = evaluations.iter().any(|one| has(&one));
        let none_here = !evaluations.is_empty() && evaluations.iter().all(|one| !one.here);
        return Err(if has_elsewhere || none_here {
            Denied::GeoBlocked
        } else {
            Denied::NotEntitled
        });
    }
    // Several offers combine to the widest access: the latest end, and all of their countries.
    let mut until = None;
    let mut countries = Vec::new();
    let mut everywhere = any_country(user);
    for (at, one) in open.enumerate() {
        if let OfferState::Held(end) = one.held {
            // `None` means without end, so the first offer sets the end.
            until = if at == 0 { end } else { later(until, end) };
        }
        everywhere |= one.offer.countries.is_empty();
        countries.extend_from_slice(&one.offer.countries);
    }
    // An empty list means everywhere.
    if everywhere {
        countries.clear();
    }
    countries.sort_unstable();
    countries.dedup();
    Ok(Access { until, countries })
}

pub(super) fn later(a: Option<UnixSeconds>, b: Option<UnixSeconds>) -> Option<UnixSeconds> {
    // `None`, without end, is later than every end.
    Some(a?.max(b?))
}

fn earlier(a: Option<UnixSeconds>, b: Option<UnixSeconds>) -> Option<UnixSeconds> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}
