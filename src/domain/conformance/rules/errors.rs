//! Rules about refusals, repetitions and licenses.

use crate::conformance::Finding;
use crate::conformance::conversation::{ClientCall, Conversation};

/// A repetition within this time comes from the client and not from the viewer, who needs longer to read the refusal.
const REFUSAL_SHOWN_MILLIS: i64 = 5_000;
const REPEATED_WITHIN_MILLIS: i64 = 5_000;
const TIMER_TOLERANCE_MILLIS: i64 = 1_000;
const PAUSE_MIN_MILLIS: i64 = 1_000;
const REPETITIONS_WINDOW_MILLIS: i64 = 30_000;
/// After 1, 2, 4 and 8 seconds.
const REPETITIONS_MAX: usize = 4;
/// Later than this, a license is renewed.
const SAME_KEYS_MILLIS: i64 = 10_000;

fn repetition<'a>(rest: &'a [ClientCall], call: &ClientCall) -> Option<&'a ClientCall> {
    rest.iter().find(|later| later.repeats(call))
}

/// Yields each call with the calls after it.
fn with_rest(conversation: &Conversation) -> impl Iterator<Item = (&ClientCall, &[ClientCall])> {
    let mut rest = conversation.calls.as_slice();
    std::iter::from_fn(move || {
        let (call, later) = rest.split_first()?;
        rest = later;
        Some((call, later))
    })
}

pub(super) fn show_409(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for (call, rest) in with_rest(conversation) {
        if !(call.is_preflight() && call.status == 409) {
            continue;
        }
        finding.check();
        // Another title or device may start immediately.
        let same = |later: &&ClientCall| {
            later.is_preflight()
                && later.user == call.user
                && later.device == call.device
                && later.asset == call.asset
        };
        if let Some(again) = rest
            .iter()
            .find(same)
            .filter(|later| later.at <= call.at + REFUSAL_SHOWN_MILLIS)
            // A viewer who has ended one of the streams has seen them.
            .filter(|later| !ended_between(rest, call, later))
        {
            finding.breach(
                "preflight was repeated before a viewer could read why",
                [call, again],
            );
        }
    }
    finding
}

fn ended_between(rest: &[ClientCall], from: &ClientCall, to: &ClientCall) -> bool {
    let ends = ["end_session", "end_sessions", "end_playback"];
    rest.iter()
        .take_while(|call| call.at <= to.at)
        .any(|call| call.user == from.user && call.is_ok() && ends.contains(&call.route.as_str()))
}

pub(super) fn retry_after(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for (call, rest) in with_rest(conversation) {
        let Some(seconds) = call
            .retry_after
            .filter(|_| matches!(call.status, 429 | 503))
        else {
            continue;
        };
        finding.check();
        // Times of the journal are those of the server: the answer arrives later at the client, and a timer may fire
        // early.
        let until = call.at + seconds.saturating_mul(1_000) - TIMER_TOLERANCE_MILLIS;
        if let Some(again) = repetition(rest, call).filter(|later| later.at < until) {
            finding.breach(
                format!("did not wait the {seconds} s of Retry-After"),
                [call, again],
            );
        }
    }
    finding
}

/// Refusals that other rules judge, or that may be repeated.
fn is_judged_elsewhere(call: &ClientCall) -> bool {
    let code = call.code.as_deref().unwrap_or_default();
    matches!(call.status, 401 | 408 | 409 | 429)
        || code.starts_with("PIN_CODE")
        || code.starts_with("ENTITLEMENT")
        // The viewer types another one.
        || code.starts_with("PASSWORD")
        || call.is("heartbeat")
        || call.is("telemetry")
        || call.is_login()
}

pub(super) fn no_retry_4xx(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for (call, rest) in with_rest(conversation) {
        if !(400..500).contains(&call.status) || is_judged_elsewhere(call) {
            continue;
        }
        finding.check();
        if let Some(again) =
            repetition(rest, call).filter(|later| later.at <= call.at + REPEATED_WITHIN_MILLIS)
        {
            finding.breach(
                format!("repeated a request that was answered {}", call.status),
                [call, again],
            );
        }
    }
    finding
}

pub(super) fn back_off_5xx(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for (call, rest) in with_rest(conversation) {
        let failed =
            // 552 is not a failure: the program has no live rights. With `Retry-After` another rule judges the pause.
            (500..600).contains(&call.status) && call.status != 552 && call.retry_after.is_none();
        if !failed {
            continue;
        }
        finding.check();
        let again: Vec<&ClientCall> = rest
            .iter()
            .take_while(|later| later.at <= call.at + REPETITIONS_WINDOW_MILLIS)
            .filter(|later| later.repeats(call))
            .collect();
        let without_pause = again
            .first()
            .is_some_and(|later| later.at < call.at + PAUSE_MIN_MILLIS);
        if without_pause || again.len() > REPETITIONS_MAX {
            let what = format!("repeated without a pause after {}", call.status);
            finding.breach(what, std::iter::once(call).chain(again));
        }
    }
    finding
}

pub(super) fn one_license(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let licenses = session
            .calls
            .iter()
            // Sound and picture may have keys of their own, and a long session renews its licenses.
            .filter(|call| call.is_license() && call.is_ok() && call.keys.is_some());
        let licenses: Vec<&ClientCall> = licenses.copied().collect();
        if licenses.is_empty() {
            continue;
        }
        finding.check();
        let again = |first: &&ClientCall| -> Vec<&ClientCall> {
            let soon = |call: &&&ClientCall| {
                call.keys == first.keys && (0..=SAME_KEYS_MILLIS).contains(&(call.at - first.at))
            };
            licenses.iter().filter(soon).copied().collect()
        };
        if let Some(same) = licenses.iter().map(again).find(|same| same.len() > 1) {
            let what = format!(
                "fetched {} licenses for one start with the same keys",
                same.len()
            );
            finding.breach(what, same);
        }
    }
    finding
}
