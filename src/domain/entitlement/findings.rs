//! What each step of an entitlement decision has found, in words for an operator.

use super::model::{
    EntitlementSettings, OfferEvaluation, OfferState, PinRule, Playing, Subject, any_country,
};
use crate::accounts::User;
use crate::decision::DecisionStep;
use crate::schedule::Program;
use playgate_types::Country;

fn step(check: &'static str, finding: String, passed: bool) -> DecisionStep {
    DecisionStep {
        check: check.into(),
        subject: None,
        finding,
        passed,
    }
}

pub(super) fn describe(subject: &Subject) -> String {
    match subject {
        Subject::Livestream(livestream) => format!("livestream `{}`", livestream.name),
        Subject::Broadcast(livestream, program) => {
            format!("broadcast `{}` of `{}`", program.title(), livestream.name)
        }
        Subject::Asset(asset) => format!("video on demand `{}`", asset.title),
    }
}

pub(super) fn country(
    settings: &EntitlementSettings,
    user: &User,
    address: Option<Country>,
) -> DecisionStep {
    let country = settings.viewer_country(user, address);
    let finding = match country {
        // First, because the tag overrides any country.
        _ if any_country(user) => "a tag switches the country check off".to_owned(),
        None if user.country.is_some() => {
            "unknown: GeoIP has no country for the address, and `geo.profile_fallback` is off"
                .to_owned()
        }
        None => "unknown: neither GeoIP nor the account has a country".to_owned(),
        Some(country) if address.is_some() => format!("{}, by the address", country.as_str()),
        Some(country) => format!("{}, by the account", country.as_str()),
    };
    step("country", finding, true)
}

pub(super) fn offer(evaluation: &OfferEvaluation) -> DecisionStep {
    let offer = &evaluation.offer;
    let held = match evaluation.held {
        OfferState::Held(None) => "the user has it".to_owned(),
        OfferState::Held(Some(end)) => format!("the user has it until {}", end.in_utc()),
        OfferState::NotOnSale => "is outside of its sale window".to_owned(),
        OfferState::Expired(at) => format!("expired on {}", at.in_utc()),
        OfferState::Revoked(at) => format!("was revoked on {}", at.in_utc()),
        OfferState::NotHeld => "the user does not have it".to_owned(),
    };
    let here = if evaluation.here {
        ""
    } else {
        ", not valid in this country"
    };
    DecisionStep {
        subject: Some(offer.id.as_str().to_owned()),
        passed: evaluation.here && matches!(evaluation.held, OfferState::Held(_)),
        ..step(
            "offer",
            format!("{} offer: {held}{here}", offer.kind.as_str()),
            true,
        )
    }
}

pub(super) fn describe_playing(playing: &Playing) -> String {
    let title = |program: &Program| format!("`{}`", program.title());
    match playing {
        Playing::Live { program, .. } => match program {
            None => "the guide has a gap at this position, and the livestream's defaults allow it"
                .to_owned(),
            Some(program) => format!("{} may be watched at this position", title(program)),
        },
        Playing::Catchup { program, .. } => {
            format!("{} may be watched from its start", title(program))
        }
        Playing::Vod { .. } => "the video is inside its availability window".to_owned(),
    }
}

pub(super) fn pin(
    settings: &EntitlementSettings,
    user: &User,
    playing: &Playing,
    needed: bool,
) -> String {
    // The reasons in the order in which `program_needs_pin` checks them.
    if !user.parental.enabled {
        return "the user's parental control is off".to_owned();
    }
    let rule = match (settings.rule, playing) {
        (PinRule::Watershed, Playing::Live { .. } | Playing::Catchup { .. }) => {
            let [from, to] = settings.night.texts();
            format!("rule `watershed`, {from} to {to}")
        }
        // Videos on demand follow the age rule under either setting.
        (PinRule::Age | PinRule::Watershed, _) => "rule `age`".to_owned(),
    };
    let rating = playing.pg_age();
    let rating = rating.map_or("not rated".to_owned(), |age| format!("rated {age}"));
    let limit = user.parental.limit;
    let verdict = if needed { "required" } else { "not required" };
    format!("{rule}: {rating}, the user's limit is {limit}; PIN {verdict}")
}
