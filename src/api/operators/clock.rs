//! The clock: its state, the acceptance of a clock jump, and the movable lab clock.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::operators::lab::lab_partner;
use crate::operators::request_members::PartnerRequest;
use playgate_http::offload::cold;
use playgate_http::{
    ApiError, Context, ErrorCode, Input, Object, OperatorAuth, ParseRequest, PartnerIdOrName,
    Payload, Reply,
};
use playgate_ports::LabClock;
use playgate_services::Services;
use playgate_types::{Described, PartnerId, UnixSeconds};

crate::openapi::words::words! { LAB_WORDS: ClockBody, PartnerClock => r##"
[requests.PartnerClockMove]
now = "integer?: New time in Unix seconds; the clock runs on from there."
offset = "integer?: New offset from the service's clock, in seconds."
advance = "integer?: Seconds by which the clock is moved; negative moves it back."

[operations.admin_read_partner_clock]
summary = "Read the clock of a lab partner"
returns."200" = "PartnerClock: The clock."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]

[operations.admin_move_partner_clock]
summary = "Move the clock of a lab partner"
text = "Schedule, rights and live points follow the partner's clock. Tokens and sessions expire by the service's clock."
send = "PartnerClockMove: The change; one member only."
returns."200" = "PartnerClock: The clock was moved."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]

[operations.admin_reset_partner_clock]
summary = "Return the clock of a lab partner to that of the service"
returns."200" = "PartnerClock: The clock was reset."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]
"## }

crate::openapi::words::words! { => r##"
[requests.ClockMove]
now = "integer?: New time in Unix seconds; the clock runs on from there."
offset = "integer?: New offset from real time, in seconds."
advance = "integer?: Seconds by which the clock is moved; negative moves it back."
freeze = "boolean?: `true` stops the clock, `false` lets it run at the pace of real time."
scale = "number?: Pace compared with real time, from 0.001 to 3600."

[operations.admin_read_clock]
summary = "Show the clock"
returns."200" = "Clock: The clock."

[operations.admin_move_clock]
summary = "Move the clock"
text = "Requires `lab.clock`, which `production` allows only in the demo. Send exactly one of the two members."
send = "ClockMove: New time or offset."
returns."200" = "Clock: The clock after the move."
errors = ["LAB_CLOCK_OFF"]

[operations.admin_reset_clock]
summary = "Reset the clock to real time"
returns."200" = "Clock: The clock after the reset."
errors = ["LAB_CLOCK_OFF"]

[operations.admin_accept_clock]
summary = "Accept the machine's clock"
text = "After a jump of more than an hour, nothing is deleted by age until the clock has been consistent for ten minutes. This request confirms the clock at once. Tokens that have expired stay expired."
returns."200" = "Clock: The clock after confirmation."
"## }

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

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClockBody {
    /// Time as the service sees it.
    now: UnixSeconds,
    /// Offset from real time, in seconds.
    offset: i64,
    /// Whether the clock may be moved.
    movable: bool,
    /// Pace compared with real time; 0 if the clock is stopped.
    scale: f64,
    /// Background jobs that the move made due and that had not ended after eight seconds. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pending_jobs: Vec<&'static str>,
    /// Size of an unconfirmed jump of the machine's clock, in seconds; negative if it went back. Deletion by age is paused
    /// until the clock is confirmed. Absent without such a jump.
    #[serde(skip_serializing_if = "Option::is_none")]
    jump: Option<i64>,
}

/// How long a move of the clock waits for the jobs that it makes due. It is below the deadline of the route.
const JOBS_TIME: Duration = Duration::from_secs(8);

fn body(services: &Services, pending_jobs: Vec<&'static str>) -> Result<Reply, ApiError> {
    let pace = services
        .lab_clock
        .as_ref()
        .map_or(LabClock::REAL_PACE, |lab| lab.pace());
    Reply::json(&ClockBody {
        now: services.clock.now(),
        offset: services.lab_clock.as_ref().map_or(0, |lab| lab.offset()),
        movable: services.lab_clock.is_some(),
        scale: f64::from(i32::try_from(pace).unwrap_or(i32::MAX)) / 1_000.0,
        pending_jobs,
        jump: services
            .clock_guard
            .untrusted_jump()
            .map(|jump| jump.seconds()),
    })
}

fn lab(services: &Services) -> Result<&LabClock, ApiError> {
    services.lab_clock.as_deref().ok_or_else(|| {
        ApiError::new(
            ErrorCode::LabClockOff,
            "the clock cannot be moved: `lab.clock` is off",
        )
    })
}

pub(crate) fn read(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    body(services, Vec::new())
}

pub(crate) async fn shift(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: MoveClockRequest,
) -> Result<Reply, ApiError> {
    let lab = lab(services)?;
    match request {
        MoveClockRequest::Now(now) => lab.set_now(now),
        MoveClockRequest::Offset(seconds) => lab.set_offset(seconds),
        MoveClockRequest::Advance(seconds) => lab.advance(seconds),
        MoveClockRequest::Pace(thousandths) => lab.set_pace(thousandths),
    }
    tracing::warn!(offset = lab.offset(), "moved the lab clock");
    respond_after_move(services).await
}

pub(crate) async fn reset(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    lab(services)?.reset();
    respond_after_move(services).await
}

/// Responds when the jobs that the move made due have run.
async fn respond_after_move(services: &Services) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&services.clock_guard);
    cold(services, move || {
        // Checked first, so that the jobs see the move. The result is not lost: `body` reads a clock jump from the
        // guard.
        let _ = guard.check();
        Ok::<_, ApiError>(())
    })
    .await?;
    let due = Arc::clone(&services.due_jobs);
    let pending = cold(services, move || Ok::<_, ApiError>(due.run(JOBS_TIME))).await?;
    body(services, pending)
}

#[derive(Described, Serialize)]
struct PartnerClock {
    /// Time of the partner's requests.
    now: UnixSeconds,
    /// Offset from the service's clock, in seconds.
    offset: i64,
}

fn partner_body(services: &Services, partner: &PartnerId) -> Result<Reply, ApiError> {
    let offset = services.lab.clock_offset(partner);
    Reply::json(&PartnerClock {
        now: services.clock.now() + offset,
        offset,
    })
}

pub(crate) fn read_partner(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    partner_body(services, &partner)
}

pub(crate) async fn shift_partner(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: MovePartnerClockRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let offset = match request.change {
        MoveClockRequest::Now(now) => now.since(cx.now),
        MoveClockRequest::Offset(seconds) => seconds,
        MoveClockRequest::Advance(seconds) => services.lab.clock_offset(&partner) + seconds,
        MoveClockRequest::Pace(_) => {
            let why = "only the whole server's clock can be stopped or run at another pace";
            return Err(ApiError::field("scale", why));
        }
    };
    if offset.unsigned_abs() > MoveClockRequest::OFFSET_MAX.unsigned_abs() {
        return Err(ApiError::field("advance", "moves the clock too far"));
    }
    services.lab.set_clock_offset(partner, offset);
    partner_body(services, &partner)
}

pub(crate) async fn reset_partner(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    services.lab.set_clock_offset(partner, 0);
    partner_body(services, &partner)
}

pub(crate) async fn accept(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let guard = Arc::clone(&services.clock_guard);
    cold(services, move || guard.accept()).await?;
    body(services, Vec::new())
}

pub(crate) struct MovePartnerClockRequest {
    pub partner: PartnerIdOrName,
    pub change: MoveClockRequest,
}

impl ParseRequest for MovePartnerClockRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            change: MoveClockRequest::read(&payload.object()?)?,
        })
    }
}
