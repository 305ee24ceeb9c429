//! Requests about the clock, partners, operators, mail and running playback.

use super::super::{Input, Payload};
use super::known;
use crate::domain::mail::Kind;
use crate::domain::partners::PartnerUpdate;
use crate::http::combine::CombineResults;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::strict_json::Object;
use crate::types::text::check_visible;
use crate::types::{
    DurationUnit, Email, Locale, MailId, Malformed, OperatorId, PartnerId, Role, SessionId,
    UnixSeconds,
};

/// PUT clock: one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveClockRequest {
    /// Runs on from this instant.
    Now(UnixSeconds),
    /// Runs so many seconds away from real time.
    Offset(i64),
}

impl MoveClockRequest {
    /// The end of the year 9999: beyond it dates have no form that everybody reads.
    const NOW_MAX: i64 = 253_402_300_799;
    /// Some three centuries, either way.
    const OFFSET_MAX: i64 = 10_000_000_000;

    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        match (body.integer("now")?, body.integer("offset")?) {
            (Some(now), None) if !(0..=Self::NOW_MAX).contains(&now) => {
                Err(body.refuse("now", "must be in Unix seconds, up to the year 9999"))
            }
            (None, Some(offset)) if offset.unsigned_abs() > Self::OFFSET_MAX.unsigned_abs() => {
                Err(body.refuse("offset", "must be at most 10000000000 seconds"))
            }
            (Some(now), None) => Ok(Self::Now(UnixSeconds(now))),
            (None, Some(offset)) => Ok(Self::Offset(offset)),
            (None, None) => Err(body.refuse("now", "is missing, and so is offset")),
            (Some(_), Some(_)) => Err(body.refuse("now", "excludes offset")),
        }
    }
}

/// The names of partners and operators: what people type, so neither long nor odd.
fn name(body: &Object) -> Result<String, ApiError> {
    body.required("name", |text| {
        let text = text.trim();
        check_visible(text)?;
        let fits = (1..=128).contains(&text.chars().count());
        fits.then(|| text.to_owned())
            .ok_or(Malformed("has 1 to 128 characters"))
    })
}

/// POST partners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartnerRequest {
    /// The partner's name.
    pub name: String,
}

impl AddPartnerRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            name: name(&payload.object()?)?,
        })
    }
}

/// A partner by id or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartnerRef {
    /// By id.
    Id(PartnerId),
    /// By name, exactly.
    Name(String),
}

impl PartnerRef {
    /// What has the form of an id is one.
    #[must_use]
    pub fn read(text: &str) -> Self {
        PartnerId::parse(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

/// One partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartnerRequest {
    /// The partner.
    pub partner: PartnerRef,
}

impl PartnerRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerRef::read(&input.text("partner")?),
        })
    }
}

/// PUT on a partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePartnerRequest {
    /// The partner.
    pub partner: PartnerRef,
    /// What changes.
    pub update: PartnerUpdate,
}

impl ChangePartnerRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (partner, disabled, duration_unit) = (
            input.text("partner"),
            body.boolean("disabled"),
            body.parsed("telemetryDurationUnit", DurationUnit::parse_override),
        )
            .combine()?;
        Ok(Self {
            partner: PartnerRef::read(&partner),
            update: PartnerUpdate {
                disabled,
                duration_unit,
            },
        })
    }
}

/// One access token of a partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartnerTokenRequest {
    /// The partner.
    pub partner: PartnerRef,
    /// The name that the list of tokens gives it; never the token itself.
    pub token: String,
}

impl PartnerTokenRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerRef::read(&input.text("partner")?),
            token: input.text("token")?.into_owned(),
        })
    }
}

/// POST operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddOperatorRequest {
    /// The operator's name.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

impl AddOperatorRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let role = body.required("role", |text| {
            Role::parse(text).ok_or(Malformed("must be admin, content, agent or observer"))
        });
        let (name, role) = (name(&body), role).combine()?;
        Ok(Self { name, role })
    }
}

/// An operator by id or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorRef {
    /// By id.
    Id(OperatorId),
    /// By name, exactly.
    Name(String),
}

impl OperatorRef {
    /// What has the form of an id is one.
    fn read(text: &str) -> Self {
        OperatorId::parse(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

/// One operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorRequest {
    /// The operator.
    pub operator: OperatorRef,
}

impl OperatorRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorRef::read(&input.text("operator")?),
        })
    }
}

/// One token of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorTokenRequest {
    /// The operator.
    pub operator: OperatorRef,
    /// The name that the list of tokens gives it; never the token itself.
    pub token: String,
}

impl OperatorTokenRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorRef::read(&input.text("operator")?),
            token: input.text("token")?.into_owned(),
        })
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailRequest {
    /// The message.
    pub mail: MailId,
}

impl MailRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            mail: known(MailId::parse(&input.text("mail")?), ErrorCode::MailNotFound)?,
        })
    }
}

/// GET mail/preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewMailRequest {
    /// What the mail is about.
    pub kind: Kind,
    /// In which language.
    pub locale: Option<Locale>,
}

impl PreviewMailRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let kind = input.text("kind").and_then(|text| {
            let unknown =
                || ApiError::new(ErrorCode::MailNotFound, "there is no such kind of mail");
            Kind::parse(&text).ok_or_else(unknown)
        });
        let (kind, locale) = (kind, input.query.parsed("locale", Locale::parse)).combine()?;
        Ok(Self { kind, locale })
    }
}

/// POST mail/test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestMailRequest {
    /// Who gets it.
    pub to: Email,
}

impl TestMailRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            to: payload.object()?.required("to", Email::parse)?,
        })
    }
}

/// DELETE on a running playback session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPlaybackSessionRequest {
    /// The session.
    pub session: SessionId,
}

impl EndPlaybackSessionRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            session: known(
                SessionId::parse(&input.text("session")?),
                ErrorCode::SessionNotFound,
            )?,
        })
    }
}

/// GET audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRequest {
    /// Those before the one of this number.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

impl AuditRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let before = input.number("before", 18, "must be the number of a change");
        let (before, limit) = (before, input.page()).combine()?;
        Ok(Self { before, limit })
    }
}
