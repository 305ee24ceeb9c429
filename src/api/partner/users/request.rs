//! Requests with the user token: the user's account, devices, sessions, offers and playback.

use serde_json::Value;

use crate::partner::login::password;
use playgate_http::{ApiError, CombineResults, Input, Object, ParseRequest, Payload};
use playgate_types::{BirthDate, Email, Locale, Password, PersonName, Pin};

/// A change of the parental control settings. Absent members keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParentalControlChange {
    pub enabled: Option<bool>,
    pub limit: Option<u8>,
}

impl ParentalControlChange {
    pub(crate) fn read(body: &Object) -> Result<Option<Self>, ApiError> {
        let Some(object) = body.object("parentalControl")? else {
            return Ok(None);
        };
        let limit = object.integer("limit").and_then(|limit| {
            let Some(limit) = limit else { return Ok(None) };
            match u8::try_from(limit) {
                Ok(limit) if limit <= 99 => Ok(Some(limit)),
                _ => Err(object.refuse("limit", "must be from 0 to 99")),
            }
        });
        let (limit, enabled) = (limit, object.boolean("enabled")).combine()?;
        Ok(Some(Self { enabled, limit }))
    }
}

pub(crate) struct UpdateUserRequest {
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    /// Requires the PIN, if one is set.
    pub birth_date: Option<BirthDate>,
    /// Requires the PIN, if one is set.
    pub parental_control: Option<ParentalControlChange>,
    pub pin_code: Option<Pin>,
    /// Members of the record that this route does not change, as they were sent.
    pub fixed: Vec<(&'static str, Value)>,
}

const FIXED: [&str; 5] = ["userId", "email", "country", "createdTimestamp", "tags"];

pub(crate) struct ChangeEmailRequest {
    pub email: Email,
    pub password: Password,
}

impl ParseRequest for ChangeEmailRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (email, password) = (
            body.required("email", Email::parse),
            password(&body, "password"),
        )
            .combine()?;
        Ok(Self { email, password })
    }
}

pub(crate) struct ChangePasswordRequest {
    pub current: Password,
    pub new: Password,
}

pub(crate) struct ChangePinRequest {
    pub current: Option<Pin>,
    /// Authorizes the PIN instead of the current one, for example the first PIN.
    pub password: Option<Password>,
    pub new: Pin,
}

pub(crate) struct DeleteUserRequest {
    pub password: Password,
}

impl ParseRequest for UpdateUserRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (name, locale, birth_date, parental_control, pin_code) = (
            body.parsed("name", PersonName::parse),
            body.parsed("locale", Locale::parse),
            body.parsed("birthDate", BirthDate::parse),
            ParentalControlChange::read(&body),
            body.parsed("pinCode", Pin::parse),
        )
            .combine()?;
        Ok(Self {
            name,
            locale,
            birth_date,
            parental_control,
            pin_code,
            fixed: FIXED
                .into_iter()
                .filter_map(|name| Some((name, body.value(name)?.clone())))
                .collect(),
        })
    }
}

impl ParseRequest for DeleteUserRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            password: password(&payload.object()?, "password")?,
        })
    }
}

impl ParseRequest for ChangePasswordRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (current, new) = (
            password(&body, "currentPassword"),
            password(&body, "newPassword"),
        )
            .combine()?;
        Ok(Self { current, new })
    }
}

impl ParseRequest for ChangePinRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let given = match body.text("password") {
            Ok(None) => Ok(None),
            // `password` reports a value that is not a string.
            Ok(Some(_)) | Err(_) => password(&body, "password").map(Some),
        };
        let (current, password, new) = (
            body.parsed("pinCode", Pin::parse),
            given,
            body.required("newPinCode", Pin::parse),
        )
            .combine()?;
        Ok(Self {
            current,
            password,
            new,
        })
    }
}
