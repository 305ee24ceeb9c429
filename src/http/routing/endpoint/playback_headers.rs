//! Parses the `Service-Play-…` request headers.

use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::errors::combine::CombineResults;
use crate::http::request::headers::SingleHeader;
use crate::http::routing::endpoint::Input;
use crate::types::ids::DEVICE_TEXT_MAX;
use crate::types::text::check_visible;
use crate::types::{DeviceId, Drm, Malformed, Protocol, SessionId, TokenHash, TokenKind};

/// The device of a preflight. Platform, type and model are open lists of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceHeaders {
    pub id: DeviceId,
    pub platform: String,
    pub kind: String,
    pub model: String,
}

impl DeviceHeaders {
    pub(crate) fn read(input: &Input<'_>) -> Result<Self, ApiError> {
        let (platform, kind, model, id) =
            (platform(input), kind(input), model(input), device_id(input)).combine()?;
        Ok(Self {
            platform: platform.to_owned(),
            kind: kind.to_owned(),
            model: model.to_owned(),
            id,
        })
    }

    pub(crate) fn check(input: &Input<'_>) -> Result<DeviceId, ApiError> {
        // Checked and dropped: the session knows its device.
        let (_, _, _, id) =
            (platform(input), kind(input), model(input), device_id(input)).combine()?;
        Ok(id)
    }
}

fn bounded<'a>(input: &Input<'a>, slot: SingleHeader<'a>, name: &str) -> Result<&'a str, ApiError> {
    let text = slot.required(input.names, name)?;
    let fits = !text.is_empty()
        // Characters are counted only where bytes do not decide: every heartbeat has four of these.
        && (text.len() <= DEVICE_TEXT_MAX
            || text.len() <= DEVICE_TEXT_MAX * 4 && text.chars().count() <= DEVICE_TEXT_MAX);
    if !fits {
        let why = "has 1 to 256 characters";
        return Err(ApiError::field(input.names.full(name), why));
    }
    visible(input, name, text)
}

fn visible<'a>(input: &Input<'a>, name: &str, text: &'a str) -> Result<&'a str, ApiError> {
    // Operators and viewers see these values in lists of sessions and devices.
    check_visible(text)
        .map(|()| text)
        .map_err(|why| ApiError::field(input.names.full(name), why.0))
}

fn platform<'a>(input: &Input<'a>) -> Result<&'a str, ApiError> {
    bounded(
        input,
        input.heads.play.device_platform,
        "Play-DevicePlatform",
    )
}

fn kind<'a>(input: &Input<'a>) -> Result<&'a str, ApiError> {
    bounded(input, input.heads.play.device_type, "Play-DeviceType")
}

fn model<'a>(input: &Input<'a>) -> Result<&'a str, ApiError> {
    bounded(input, input.heads.play.device_model, "Play-DeviceModel")
}

fn device_id(input: &Input<'_>) -> Result<DeviceId, ApiError> {
    let name = "Play-DeviceId";
    let text = input.heads.play.device_id.required(input.names, name)?;
    visible(input, name, text)?;
    DeviceId::parse(text).map_err(|why| ApiError::field(input.names.full(name), why.0))
}

pub(crate) fn drm(input: &Input<'_>) -> Result<Drm, ApiError> {
    let name = "Play-DRM";
    let text = input.heads.play.drm.required(input.names, name)?;
    Drm::parse(text).ok_or_else(|| {
        ApiError::field(
            input.names.full(name),
            "must be widevine, fairplay, playready, clearkey or none",
        )
    })
}

pub(crate) fn protocol(input: &Input<'_>) -> Result<Protocol, ApiError> {
    let name = "Play-Protocol";
    let text = input.heads.play.protocol.required(input.names, name)?;
    Protocol::parse(text).ok_or_else(|| {
        ApiError::field(
            input.names.full(name),
            "must be dash, dashs, hls, hls-audio, sstr or sstrs",
        )
    })
}

/// Returns the hash of the Entitlement Token. `None` if the text cannot be a token; it is answered
/// as an unknown token is.
pub(crate) fn entitlement(input: &Input<'_>) -> Result<Option<TokenHash>, ApiError> {
    let name = "Play-EntitlementId";
    let text = input.heads.play.entitlement.required(input.names, name)?;
    Ok(TokenHash::hash_presented(TokenKind::Entitlement, text))
}

pub(crate) fn session(input: &Input<'_>) -> Result<SessionId, ApiError> {
    let name = "Play-Session";
    let text = input.heads.play.session.required(input.names, name)?;
    if text.is_empty() {
        return Err(ApiError::field(input.names.full(name), "is empty"));
    }
    // Ids are opaque to clients: malformed text is an unknown id.
    SessionId::parse(text)
        .map_err(|_| ApiError::new(ErrorCode::SessionNotFound, "there is no such session"))
}

/// Parses a decimal number with optional sign and fraction and returns its whole part.
pub(crate) fn number(text: &str) -> Result<i64, Malformed> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let decimal = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !decimal(digits) || !decimal(fraction) {
        return Err(Malformed("must be a decimal number, such as 1500 or -0.5"));
    }
    // Clamped and not rejected: a player reacts to a rejected heartbeat by stopping.
    let limit = match whole.starts_with('-') {
        true => i64::MIN,
        false => i64::MAX,
    };
    // Only digits are left, so parsing can fail only by overflow.
    Ok(whole.parse().unwrap_or(limit))
}

pub(crate) fn numeric(
    input: &Input<'_>,
    slot: SingleHeader<'_>,
    name: &str,
) -> Result<i64, ApiError> {
    number(slot.required(input.names, name)?)
        .map_err(|why| ApiError::field(input.names.full(name), why.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_are_truncated_and_clamped() {
        for (text, value) in [
            ("0", 0),
            ("-5", -5),
            ("+5", 5),
            ("-0.5", 0),
            (&"9".repeat(4_000), i64::MAX),
            ("1700000000.25", 1_700_000_000),
            ("007", 7),
            ("99999999999999999999", i64::MAX),
            ("-99999999999999999999.5", i64::MIN),
        ] {
            assert_eq!(number(text), Ok(value));
        }
        for bad in [
            "", "-", ".", "1.", ".5", "1e3", "1e9", "NaN", "inf", "+", "+-1", "1 ", " 1", "0x1",
            "1_0", "1,5", "1.5.5", "-.5", "1.-5", "\u{661}",
        ] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
