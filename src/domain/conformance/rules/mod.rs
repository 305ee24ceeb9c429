//! The table of rules. A row has the rule's id, level, threshold, the part of `docs/interface.md` that it rests on, and the
//! function that judges a conversation.

mod errors;
mod heartbeat;
mod rights;
mod schedule;
mod telemetry;
mod tokens;

use super::{Conversation, Finding};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Must,
    Should,
}

impl Level {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
        }
    }
}

pub struct ConformanceRule {
    pub id: &'static str,
    pub level: Level,
    /// What the client has to do.
    pub title: &'static str,
    pub threshold: &'static str,
    /// The text of the interface that the rule rests on.
    pub interface: &'static str,
    pub judge: fn(&Conversation) -> Finding,
}

impl std::fmt::Debug for ConformanceRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

pub fn rules() -> &'static [ConformanceRule] {
    RULES
}

pub fn find(id: &str) -> Option<&'static ConformanceRule> {
    RULES.iter().find(|rule| rule.id == id)
}

macro_rules! table {
    ($($id:literal $level:ident $judge:path: $title:literal, $threshold:literal, $interface:literal;)*) => {
        &[$(ConformanceRule {
            id: $id,
            level: Level::$level,
            title: $title,
            threshold: $threshold,
            interface: $interface,
            judge: $judge,
        }),*]
    };
}

#[rustfmt::skip] // read as a table
static RULES: &[ConformanceRule] = table![
    "token-reused" Must tokens::reused:
        "Log in once and reuse the user token", "no log-in while the token works",
        "2: a user token is valid for 30 days by default";
    "login-after-401" Must tokens::login_after_401:
        "Log in after 401 USER_TOKEN_INVALID", "before the next request, after 2 s",
        "11: 401, partner or user token: log in";
    "one-login-per-401" Must tokens::one_login_per_401:
        "Log in once after a 401", "1 log-in before the token is used",
        "15: log-ins are limited";
    "no-logout-on-403" Must tokens::no_logout_on_403:
        "Keep the viewer logged in after a 403", "no log-out or log-in within 5 s",
        "6: a missing PIN is never 401, because clients log the viewer out on 401";
    "pin-once" Must tokens::pin_once:
        "Ask for the PIN once per program and session", "1 accepted PIN",
        "6: an unlock belongs to user, playback session and program";
    "headers-unchanged" Must tokens::headers_unchanged:
        "Send the headers of the preflight and its map unchanged", "DRM, protocol and device headers",
        "8: clients send the headers map unchanged with license and heartbeat requests";
    "stable-device-id" Must tokens::stable_device_id:
        "Keep the device id over starts", "not a new id for each of 3 starts",
        "8: streams are counted by device; the default limit is five devices";
    "heartbeat-interval" Must heartbeat::interval:
        "Send a heartbeat every 10 seconds", "10 s ± 2 s at p95, or but for one, from 4 heartbeats on",
        "11: POST heartbeat every 10 seconds";
    "first-heartbeat" Must heartbeat::first:
        "Send the first heartbeat at once", "within 10 s of the answer of license or preflight",
        "11: a session is alive until 35 s after its last heartbeat";
    "heartbeat-complete" Must heartbeat::complete:
        "Send every header of the heartbeat well-formed", "no 400",
        "11: 400, a Service-Play-* header is missing or malformed: correct it";
    "position-unit" Must heartbeat::position_unit:
        "Report live and catch-up positions in Unix time", "above 1,000,000,000",
        "11: Service-Play-Timestamp is the media position: Unix seconds for live and catch-up";
    "stop-on-552" Must heartbeat::stop_on_552:
        "Stop the picture at 552, and report it", "playback_paused or playback_stopped in telemetry, or the end of the session, within 12 s",
        "11: 552, stop playing, resume with the next program";
    "stay-on-552" Must heartbeat::stay_on_552:
        "Keep the session at 552", "no preflight of the same title within 60 s",
        "11: 552, the session stays open";
    "stop-on-410" Must heartbeat::stop_on_410:
        "Stop at 410", "no heartbeat or license after 1 s",
        "11: 410 SESSION_ENDED: stop";
    "preflight-on-404" Must heartbeat::preflight_on_404:
        "Preflight again when the session is unknown or another's", "no heartbeat after 1 s",
        "11: 404 SESSION_NOT_FOUND, 403 SESSION_MISMATCH: preflight again";
    "renew-entitlement" Must heartbeat::renew_entitlement:
        "Ask for entitlement when it has expired", "within 15 s",
        "11: 403 ENTITLEMENT_EXPIRED, ENTITLEMENT_INVALID: ask for entitlement";
    "pin-on-heartbeat" Must heartbeat::pin_on_heartbeat:
        "Ask for entitlement when a heartbeat wants the PIN", "within 60 s",
        "11: 403 PIN_CODE_REQUIRED: ask the viewer for the PIN";
    "end-session" Must heartbeat::end_session:
        "End the session at the end of play", "DELETE, the next start on the device, a log-out, or a 404 or 410",
        "11: DELETE on the same address ends the session";
    "show-409" Must errors::show_409:
        "Show the viewer the running streams at 409", "no preflight within 5 s",
        "8: 409 STREAM_LIMIT_REACHED; each session has device and asset";
    "retry-after" Must errors::retry_after:
        "Wait as long as Retry-After says", "up to 1 s early",
        "15: above a limit, 429 with Retry-After";
    "no-retry-4xx" Must errors::no_retry_4xx:
        "Do not repeat a request that was refused", "5 s",
        "18: a 4xx says what to change";
    "back-off-5xx" Should errors::back_off_5xx:
        "Repeat after a 5xx with pauses", "1 s before each, 4 within 30 s: after 1, 2, 4, 8 s",
        "18: 503, try again shortly";
    "one-license" Must errors::one_license:
        "Fetch the license of a key once", "not the same key ids within 10 s",
        "9: the body is the challenge; the 200 body is the license";
    "entitlement-at-border" Must rights::at_border:
        "Ask for entitlement when the next program begins", "before a heartbeat 20 s into it",
        "6: a live player asks again at program.stop";
    "entitlement-in-session" Must rights::in_session:
        "Name the session in the entitlement of a running session", "each",
        "6: with Service-Play-Session the answer adds program and unlock to that session";
    "offset-in-bounds" Must rights::offset_in_bounds:
        "Send offsets within a day back", "-86400 to 0",
        "13: offset is an integer from -86400 to 0";
    "preflight-after-entitlement" Must rights::preflight_after_entitlement:
        "Preflight only what is entitled", "a 200 of the entitlement before",
        "8: 403 ENTITLEMENT_INVALID";
    "etag" Should schedule::etag:
        "Revalidate the schedule and the catalogue", "If-None-Match or a 304 among 3 equal requests of a client",
        "1: If-None-Match gives 304";
    "deprecated-routes" Should schedule::deprecated:
        "Use no deprecated route", "none",
        "13: deprecated forms /livestreams/{id}/live and /day/{date}";
    "ids-batched" Should schedule::batched:
        "Ask for many ids in one request", "fewer than 3 requests for one id within 2 s",
        "1: a list may have 1 to 200 ids";
    "telemetry-sequence" Must telemetry::sequence:
        "Number the events without holes", "none",
        "12: seqId counts the events of a player, and its gaps are reported as loss";
    "telemetry-clock" Should telemetry::clock:
        "Send the right time", "median within 60 s of the server's",
        "12: timestamp in seconds or milliseconds";
    "telemetry-pairs" Must telemetry::pairs:
        "Report a stop for each start", "of the same device and title",
        "12: action names the event";
    "telemetry-batches" Must telemetry::batches:
        "Send at most 500 events at a time", "500 events, no 413",
        "12: of more than 500 events the first 500 are taken";
    "telemetry-secrets" Must telemetry::secrets:
        "Send no secret in telemetry", "no token, password or PIN in extra",
        "12: everything else is kept as sent";
    "telemetry-drop" Must telemetry::dropped:
        "Drop a batch that was refused", "not repeated within 60 s",
        "12: 2xx: done; 429 and 5xx: keep and retry; other 4xx: drop the batch";
];
