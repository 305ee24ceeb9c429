//! Requests about the clock.

use playgate_http::errors::api_error::ApiError;
use playgate_http::request::object::Object;
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_ports::LabClock;
use playgate_types::UnixSeconds;

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
    /// A day in 24 seconds. At a higher scale, jobs would miss whole days.
    const SCALE_MAX: f64 = 3_600.0;
    const MEMBERS: [&str; 5] = ["now", "offset", "advance", "freeze", "scale"];

    pub(crate) fn read(body: &Object) -> Result<Self, ApiError> {
        // Before the members are looked for: a body that cannot be read has none.
        body.check()?;
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
