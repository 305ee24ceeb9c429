//! What each step of an entitlement decision has found, in words for an operator.
//!
//! Every record of the request journal contains these texts. They are joined and not formatted, since `format!` takes some 900
//! instructions per text.

use std::borrow::Cow;

use super::model::{
    EntitlementSettings, OfferEvaluation, OfferState, PinRule, Playing, Subject, any_country,
};
use crate::accounts::User;
use crate::decision::DecisionStep;
use crate::schedule::Program;
use playgate_types::Country;

pub(super) fn describe(subject: &Subject) -> String {
    match subject {
        Subject::Livestream(livestream) => ["livestream `", &livestream.name, "`"].concat(),
        Subject::Broadcast(livestream, program) => {
            let title = program.title();
            ["broadcast `", &title, "` of `", &livestream.name, "`"].concat()
        }
        Subject::Asset(asset) => ["video on demand `", &asset.title, "`"].concat(),
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
        _ if any_country(user) => "a tag switches the country check off".into(),
        None if user.country.is_some() => {
            "unknown: GeoIP has no country for the address, and `geo.profile_fallback` is off"
                .into()
        }
        None => "unknown: neither GeoIP nor the account has a country".into(),
        Some(country) => {
            let source = match address {
                Some(_) => ", by the address",
                None => ", by the account",
            };
            [country.as_str(), source].concat().into()
        }
    };
    DecisionStep {
        check: "country".into(),
        subject: None,
        finding,
        passed: true,
    }
}

pub(super) fn offer(evaluation: &OfferEvaluation) -> DecisionStep {
    let offer = &evaluation.offer;
    let held: Cow<'_, str> = match evaluation.held {
        OfferState::Held(None) => "the user has it".into(),
        OfferState::Held(Some(end)) => format!("the user has it until {}", end.in_utc()).into(),
        OfferState::NotOnSale => "is outside of its sale window".into(),
        OfferState::Expired(at) => format!("expired on {}", at.in_utc()).into(),
        OfferState::Revoked(at) => format!("was revoked on {}", at.in_utc()).into(),
        OfferState::NotHeld => "the user does not have it".into(),
    };
    let here = if evaluation.here {
        ""
    } else {
        ", not valid in this country"
    };
    DecisionStep {
        check: "offer".into(),
        subject: Some(offer.id.as_str().to_owned()),
        finding: [offer.kind.as_str(), " offer: ", &held, here]
            .concat()
            .into(),
        passed: evaluation.here && matches!(evaluation.held, OfferState::Held(_)),
    }
}

pub(super) fn describe_playing(playing: &Playing) -> Cow<'static, str> {
    let named = |program: &Program, what| ["`", &program.title(), "` ", what].concat().into();
    match playing {
        Playing::Live { program, .. } => match program {
            None => "the guide has a gap at this position, and the livestream's defaults allow it"
                .into(),
            Some(program) => named(program, "may be watched at this position"),
        },
        Playing::Catchup { program, .. } => named(program, "may be watched from its start"),
        Playing::Vod { .. } => "the video is inside its availability window".into(),
    }
}

pub(super) fn pin(
    settings: &EntitlementSettings,
    user: &User,
    playing: &Playing,
    needed: bool,
) -> Cow<'static, str> {
    // The reasons in the order in which `program_needs_pin` checks them.
    if !user.parental.enabled {
        return "the user's parental control is off".into();
    }
    let rule: Cow<'_, str> = match (settings.rule, playing) {
        (PinRule::Watershed, Playing::Live { .. } | Playing::Catchup { .. }) => {
            let [from, to] = settings.night.texts();
            format!("rule `watershed`, {from} to {to}").into()
        }
        // Videos on demand follow the age rule under either setting.
        (PinRule::Age | PinRule::Watershed, _) => "rule `age`".into(),
    };
    let rating = playing.pg_age().map(|age| age.to_string());
    let (rated, age) = match &rating {
        Some(age) => (": rated ", age.as_str()),
        None => (": not rated", ""),
    };
    let limit = user.parental.limit.to_string();
    let verdict = match needed {
        true => "; PIN required",
        false => "; PIN not required",
    };
    [&rule, rated, age, ", the user's limit is ", &limit, verdict]
        .concat()
        .into()
}
