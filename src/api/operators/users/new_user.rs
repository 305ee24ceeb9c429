//! A new user, with what operators say about one besides its data.
//!
//! Unknown members are refused and not ignored. A lost `disabled` makes an active account of a blocked one, and a misspelt
//! hash an account without a password.

use serde_json::Value;

use crate::partner::login::password;
use crate::partner::users::request::ParentalControlChange;
use playgate_decode::nearest;
use playgate_domain::accounts::{FirstPassword, ForeignHash, ImportedState, NewUser};
use playgate_http::routing::resolve::partner_in_query;
use playgate_http::{
    ApiError, CombineResults, Input, Object, ParseRequest, PartnerIdOrName, Payload,
};
use playgate_types::{BirthDate, Country, Email, Locale, PersonName, UnixSeconds};

pub(super) const MEMBERS: [&str; 13] = [
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

pub(crate) struct AddUserRequest {
    pub partner: Option<PartnerIdOrName>,
    pub email: Email,
    pub password: FirstPassword,
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    pub country: Option<Country>,
    pub birth_date: Option<BirthDate>,
    pub state: ImportedState,
}

impl AddUserRequest {
    /// Reads the account alone, without its state.
    pub(crate) fn read(body: &Object) -> Result<Self, ApiError> {
        Self::read_named(body, body.parsed("name", PersonName::parse))
    }

    pub(crate) fn read_named(
        body: &Object,
        name: Result<Option<PersonName>, ApiError>,
    ) -> Result<Self, ApiError> {
        let (partner, email, password, name, locale, country, birth_date) = (
            body.text("partner"),
            body.required("email", Email::parse),
            first_password(body),
            name,
            body.parsed("locale", |text| Locale::parse(of_system(text))),
            body.parsed("country", Country::parse),
            body.parsed("birthDate", |text| BirthDate::parse(date_of(text))),
        )
            .combine()?;
        Ok(Self {
            partner: partner.map(PartnerIdOrName::read),
            email,
            password,
            // An empty name in a file means none.
            name: name.filter(|name| !name.as_str().is_empty()),
            locale,
            country,
            birth_date,
            state: ImportedState::default(),
        })
    }
}

impl ParseRequest for AddUserRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let offers = match body.has("offers") {
            true => Err(body.refuse("offers", "is for imports; grant the offers afterwards")),
            false => Ok(()),
        };
        let (mut request, of_query, state, (), ()) = (
            Self::read(&body),
            partner_in_query(input),
            state(&body),
            only_known(&body),
            offers,
        )
            .combine()?;
        request.state = state;
        // A partner in the body takes precedence over the one in the query.
        request.partner = request.partner.or(of_query);
        Ok(request)
    }
}

impl AddUserRequest {
    pub(crate) fn into_parts(
        self,
    ) -> (
        Option<PartnerIdOrName>,
        NewUser,
        FirstPassword,
        ImportedState,
    ) {
        let new = NewUser {
            email: self.email,
            name: self.name,
            country: self.country,
            locale: self.locale,
            birth_date: self.birth_date,
        };
        (self.partner, new, self.password, self.state)
    }
}

fn first_password(body: &Object) -> Result<FirstPassword, ApiError> {
    let hash = body.parsed("passwordHash", ForeignHash::parse)?;
    match (body.text("password")?, hash) {
        (None, None) => Ok(FirstPassword::None),
        (Some(_), None) => password(body, "password").map(FirstPassword::Plain),
        (None, Some(hash)) => Ok(FirstPassword::Hashed(hash)),
        (Some(_), Some(_)) => Err(body.refuse("passwordHash", "excludes password")),
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
