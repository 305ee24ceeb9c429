//! Requests about the clock, partners, operators, mail, running playback and the audit log.

use crate::domain::mail::MailKind;
use crate::domain::partners::PartnerUpdate;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::errors::combine::CombineResults;
use crate::http::request::strict_json::Object;
use crate::http::routing::endpoint::admin::known;
use crate::http::routing::endpoint::{Input, ParseRequest, Payload};
use crate::observe::activity::ActivityPeriod;
use crate::ports::LabClock;
use crate::types::text::check_visible;
use crate::types::{
    DurationUnit, Email, Locale, MailId, Malformed, OperatorId, PartnerId, PartnerKind, Role,
    SessionId, UnixSeconds,
};

/// A change of a clock. The body has exactly one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveClockRequest {
    Now(UnixSeconds),
    Offset(i64),
    Advance(i64),
    /// Thousandths of real time; 0 stops the clock.
    Pace(i64),
}

impl MoveClockRequest {
    /// End of the year 9999. Later dates have no common text form.
    const NOW_MAX: i64 = 253_402_300_799;
    pub(crate) const OFFSET_MAX: i64 = 10_000_000_000;
    /// A day in 24 seconds: faster, and jobs would miss whole days.
    const SCALE_MAX: f64 = 3_600.0;
    const MEMBERS: [&str; 5] = ["now", "offset", "advance", "freeze", "scale"];

    pub(crate) fn read(body: &Object) -> Result<Self, ApiError> {
        let given: Vec<&str> = Self::MEMBERS
            .into_iter()
            .filter(|name| body.has(name))
            .collect();
        let [name] = given[..] else {
            return Err(match given.first() {
                None => body.refuse(
                    "now",
                    "is missing; send now, offset, advance, freeze or scale",
                ),
                Some(first) => body.refuse(first, "excludes the other members"),
            });
        };
        match name {
            "now" => {
                Self::in_range(body, name, 0, Self::NOW_MAX).map(|now| Self::Now(UnixSeconds(now)))
            }
            "offset" => {
                Self::in_range(body, name, -Self::OFFSET_MAX, Self::OFFSET_MAX).map(Self::Offset)
            }
            "advance" => {
                Self::in_range(body, name, -Self::OFFSET_MAX, Self::OFFSET_MAX).map(Self::Advance)
            }
            "freeze" => match body.boolean(name)? {
                Some(true) => Ok(Self::Pace(0)),
                _ => Ok(Self::Pace(LabClock::REAL_PACE)),
            },
            _ => Self::scale(body),
        }
    }

    fn in_range(body: &Object, name: &str, least: i64, most: i64) -> Result<i64, ApiError> {
        let number = body.integer(name)?.unwrap_or_default();
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(body.refuse(name, format!("must be from {least} to {most} seconds")))
    }

    fn scale(body: &Object) -> Result<Self, ApiError> {
        let scale = body.number("scale")?.unwrap_or_default();
        if !(0.001..=Self::SCALE_MAX).contains(&scale) {
            return Err(body.refuse("scale", "must be from 0.001 to 3600"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "in range, as just checked")]
        let pace = (scale * 1_000.0).round() as i64;
        Ok(Self::Pace(pace))
    }
}

impl ParseRequest for MoveClockRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Self::read(&payload.object()?)
    }
}

fn name(body: &Object) -> Result<String, ApiError> {
    body.required("name", |text| {
        let text = text.trim();
        check_visible(text)?;
        // Operators type these names on the command line, and read them in the audit record.
        let fits = (1..=128).contains(&text.chars().count());
        fits.then(|| text.to_owned())
            .ok_or(Malformed("has 1 to 128 characters"))
    })
}

/// Parses the label of a token; absent means empty.
fn label(body: &Object) -> Result<String, ApiError> {
    let label = body.parsed("label", |text| {
        let text = text.trim();
        if !text.is_empty() {
            check_visible(text)?;
        }
        let fits = text.chars().count() <= 64;
        fits.then(|| text.to_owned())
            .ok_or(Malformed("has at most 64 characters"))
    })?;
    Ok(label.unwrap_or_default())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddPartnerRequest {
    pub name: String,
    pub kind: PartnerKind,
}

impl ParseRequest for AddPartnerRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let (name, kind) = (name(&body), body.parsed("kind", PartnerKind::parse)).combine()?;
        Ok(Self {
            name,
            kind: kind.unwrap_or_default(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartnerRef {
    Id(PartnerId),
    Name(String),
}

impl PartnerRef {
    /// Text that has the form of an id is an id.
    #[must_use]
    pub(crate) fn read(text: &str) -> Self {
        PartnerId::parse(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartnerRequest {
    pub partner: PartnerRef,
}

impl ParseRequest for PartnerRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerRef::read(&input.text("partner")?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangePartnerRequest {
    pub partner: PartnerRef,
    pub update: PartnerUpdate,
}

impl ParseRequest for ChangePartnerRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddPartnerTokenRequest {
    pub partner: PartnerRef,
    pub label: String,
}

impl ParseRequest for AddPartnerTokenRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerRef::read(&input.text("partner")?),
            label: label(&payload.object()?)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartnerTokenRequest {
    pub partner: PartnerRef,
    /// The id of the token in the list of tokens, not the token itself.
    pub token: String,
}

impl ParseRequest for PartnerTokenRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerRef::read(&input.text("partner")?),
            token: input.text("token")?.into_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOperatorRequest {
    pub name: String,
    pub role: Role,
}

impl ParseRequest for AddOperatorRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let role = body.required("role", |text| {
            Role::parse(text).ok_or(Malformed("must be admin, content, agent or observer"))
        });
        let (name, role) = (name(&body), role).combine()?;
        Ok(Self { name, role })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OperatorRef {
    Id(OperatorId),
    Name(String),
}

impl OperatorRef {
    fn read(text: &str) -> Self {
        OperatorId::parse(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorRequest {
    pub operator: OperatorRef,
}

impl ParseRequest for OperatorRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorRef::read(&input.text("operator")?),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddOperatorTokenRequest {
    pub operator: OperatorRef,
    pub label: String,
}

impl ParseRequest for AddOperatorTokenRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorRef::read(&input.text("operator")?),
            label: label(&payload.object()?)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorTokenRequest {
    pub operator: OperatorRef,
    pub token: String,
}

impl ParseRequest for OperatorTokenRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            operator: OperatorRef::read(&input.text("operator")?),
            token: input.text("token")?.into_owned(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MailRequest {
    pub mail: MailId,
}

impl ParseRequest for MailRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            mail: known(MailId::parse(&input.text("mail")?), ErrorCode::MailNotFound)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreviewMailRequest {
    pub kind: MailKind,
    pub locale: Option<Locale>,
}

impl ParseRequest for PreviewMailRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let kind = input.text("kind").and_then(|text| {
            let unknown =
                || ApiError::new(ErrorCode::MailNotFound, "there is no such kind of mail");
            MailKind::parse(&text).ok_or_else(unknown)
        });
        let (kind, locale) = (kind, input.query.parsed("locale", Locale::parse)).combine()?;
        Ok(Self { kind, locale })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestMailRequest {
    pub to: Email,
}

impl ParseRequest for TestMailRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            to: payload.object()?.required("to", Email::parse)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndPlaybackSessionRequest {
    pub session: SessionId,
}

impl ParseRequest for EndPlaybackSessionRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            session: known(
                SessionId::parse(&input.text("session")?),
                ErrorCode::SessionNotFound,
            )?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuditRequest {
    pub before: Option<u64>,
    pub limit: usize,
}

impl ParseRequest for AuditRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let before = input.number("before", 18, "must be the number of an audit entry");
        let (before, limit) = (before, input.page()).combine()?;
        Ok(Self { before, limit })
    }
}

pub(crate) struct ActivityRequest {
    pub period: ActivityPeriod,
}

impl ParseRequest for ActivityRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let period = input.query.parsed("period", |text| match text {
            "hour" => Ok(ActivityPeriod::Hour),
            "day" => Ok(ActivityPeriod::Day),
            _ => Err(Malformed("must be hour or day")),
        })?;
        Ok(Self {
            period: period.unwrap_or(ActivityPeriod::Hour),
        })
    }
}
