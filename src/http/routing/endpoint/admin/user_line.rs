//! What operators say about a new user besides their data, and lines of an import.
//!
//! Unknown members are refused and not ignored. A lost `disabled` makes an active account of a blocked one, and a misspelt
//! hash an account without a password.

use serde_json::Value;

use crate::decode::nearest;
use crate::domain::accounts::ImportedState;
use crate::http::errors::api_error::{ApiError, CombineResults};
use crate::http::request::strict_json::Object;
use crate::http::routing::endpoint::admin::users::AddUserRequest;
use crate::http::routing::endpoint::users::ParentalControlChange;
use crate::types::{OfferId, PersonName, UnixSeconds};

const MEMBERS: [&str; 13] = [
    "email",
    "password",
    "passwordHash",
    "name",
    "locale",
    "country",
    "birthDate",
    "disabled",
    "parentalControl",
    "tags",
    "createdTimestamp",
    "partner",
    // Only on lines of an import.
    "offers",
];
/// Above it, a time is in milliseconds: in seconds it would be the year 5138.
const SECONDS_MAX: i64 = 100_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownMembers {
    Refused,
    /// Left out, with a note.
    Noted,
}

pub(crate) struct UserLine {
    pub user: AddUserRequest,
    pub offers: Vec<OfferId>,
    /// What was repaired or left out, for the report.
    pub notes: Vec<String>,
}

impl UserLine {
    pub(crate) fn read(body: &Object, unknown: UnknownMembers) -> Result<Self, ApiError> {
        let mut notes = Vec::new();
        let name = body.text("name").map(|name| {
            // A name never costs the account.
            let (name, cleaned) = name.map_or((None, false), PersonName::cleaned);
            if cleaned {
                let note =
                    "the name has characters that cannot be shown, or over 256; they were left out";
                notes.push(note.to_owned());
            }
            name
        });
        let (user, state, offers, ()) = (
            AddUserRequest::read_named(body, name),
            state(body),
            offers(body),
            match unknown {
                UnknownMembers::Refused => only_known(body),
                UnknownMembers::Noted => Ok(()),
            },
        )
            .combine()?;
        let left_out = body.unknown(&MEMBERS)?;
        if !left_out.is_empty() {
            notes.push(format!("left out: {}", left_out.join(", ")));
        }
        Ok(Self {
            user: AddUserRequest { state, ..user },
            offers,
            notes,
        })
    }
}

/// Refuses unknown members, with the name that was probably meant.
pub(super) fn only_known(body: &Object) -> Result<(), ApiError> {
    let unknown = body.unknown(&MEMBERS)?;
    let Some(first) = unknown.first() else {
        return Ok(());
    };
    let why = match nearest(first, MEMBERS.into_iter()) {
        Some(known) => format!("is unknown; did you mean `{known}`?"),
        None => format!("is unknown; known are {}", MEMBERS.join(", ")),
    };
    Err(body.refuse(first, why))
}

pub(super) fn state(body: &Object) -> Result<ImportedState, ApiError> {
    let (disabled, parental, tags, created) = (
        body.boolean("disabled"),
        ParentalControlChange::read(body),
        body.texts("tags"),
        created(body),
    )
        .combine()?;
    Ok(ImportedState {
        created,
        tags: tags.unwrap_or_default(),
        parental_enabled: parental.as_ref().and_then(|change| change.enabled),
        parental_limit: parental.and_then(|change| change.limit),
        disabled: disabled.unwrap_or(false),
    })
}

fn created(body: &Object) -> Result<Option<UnixSeconds>, ApiError> {
    let time = match body.value("createdTimestamp").and_then(written_time) {
        Some(time) => Some(time),
        None => body.integer("createdTimestamp")?,
    };
    // Many services write milliseconds.
    let in_seconds = |time: i64| {
        if time > SECONDS_MAX {
            time / 1_000
        } else {
            time
        }
    };
    match time.map(in_seconds) {
        Some(time) if time < 0 => Err(body.refuse("createdTimestamp", "must be Unix seconds")),
        time => Ok(time.map(UnixSeconds)),
    }
}

/// A time as other services write it: digits as text, or RFC 3339.
fn written_time(value: &Value) -> Option<i64> {
    let text = value.as_str()?.trim();
    let written = || chrono::DateTime::parse_from_rfc3339(text).ok();
    text.parse().ok().or_else(|| Some(written()?.timestamp()))
}

/// The language in a locale of POSIX, such as `sv_SE.UTF-8` or `de_DE@euro`.
pub(super) fn of_system(locale: &str) -> &str {
    locale.split(['.', '@']).next().unwrap_or_default()
}

/// The date in a time of day, as databases export a column of dates.
pub(super) fn date_of(text: &str) -> &str {
    match text.split_at_checked(10) {
        Some((date, time)) if time.starts_with(['T', ' ']) => date,
        _ => text,
    }
}

fn offers(body: &Object) -> Result<Vec<OfferId>, ApiError> {
    let mut offers = Vec::new();
    for text in body.texts("offers")?.unwrap_or_default() {
        let offer = OfferId::parse(&text).map_err(|why| body.refuse("offers", why.0))?;
        if !offers.contains(&offer) {
            offers.push(offer);
        }
    }
    Ok(offers)
}
