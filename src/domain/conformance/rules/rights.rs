//! Rules about entitlements and positions.

use std::ops::RangeInclusive;

use crate::conformance::Finding;
use crate::conformance::conversation::{ClientCall, Conversation, START_MAX_MILLIS};

/// Seconds that a session may play of the next program before that program needs its own entitlement.
const GRACE_SECONDS: i64 = 20;
const OFFSET_SECONDS: RangeInclusive<i64> = -86_400..=0;

pub(super) fn at_border(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let entitlements = conversation.entitlements(session);
        for (nth, call) in entitlements.iter().enumerate() {
            let Some(program) = call.program.as_ref().filter(|_| call.is_ok()) else {
                continue;
            };
            let next = entitlements.get(nth + 1).map_or(i64::MAX, |next| next.at);
            let mut beats = session
                .beats()
                // At 552 playback stops, so the player has not entered the program.
                .filter(|beat| beat.at >= call.at && beat.status != 552);
            let inside = beats.find(|beat| {
                // Positions are whole seconds, far below what a float holds exactly.
                beat.position()
                    .is_some_and(|position| position >= (program.stop + GRACE_SECONDS) as f64)
            });
            let Some(beat) = inside else { continue };
            finding.check();
            // The next entitlement must precede the heartbeat from inside the next program.
            if next > beat.at {
                finding.breach(
                    "played into the next program without an entitlement",
                    [*call, beat],
                );
            }
        }
    }
    finding
}

pub(super) fn in_session(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let (Some(first), Some(last)) = (session.beats().next(), session.beats().next_back())
        else {
            continue;
        };
        for call in conversation.entitlements(session) {
            // An entitlement for another start of the title does not belong to the running session.
            let starts_another = conversation.calls.iter().any(|later| {
                later.is_preflight()
                    && later.user == call.user
                    && later.asset == call.asset
                    && later.at >= call.at
                    && later.at <= call.at + START_MAX_MILLIS
            });
            // Another device of the user, which has a login of its own, may ask for the title that this session plays.
            let is_of_other_login =
                call.login.is_some() && !session.calls.iter().any(|one| one.login == call.login);
            // Before the first and after the last heartbeat the session does not run.
            if is_of_other_login
                || call.at <= first.at
                || call.at >= last.at
                || (call.session.is_none() && starts_another)
            {
                continue;
            }
            finding.check();
            if call.session.is_none() {
                finding.breach(
                    "an entitlement of a running session does not name it",
                    [call],
                );
            }
        }
    }
    finding
}

pub(super) fn offset_in_bounds(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for call in &conversation.calls {
        let Some(offset) = call.parameter("offset") else {
            continue;
        };
        finding.check();
        let seconds: Option<i64> = offset.parse().ok();
        if seconds.is_none_or(|seconds| !OFFSET_SECONDS.contains(&seconds)) {
            finding.breach(format!("the offset is {offset}"), [call]);
        }
    }
    finding
}

pub(super) fn preflight_after_entitlement(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for calls in conversation.users().values() {
        for (nth, call) in calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.is_preflight())
        {
            let before: &[&ClientCall] = calls.get(..nth).unwrap_or_default();
            // The entitlement of the first preflight may lie before the period.
            let Some(last) = before
                .iter()
                .rev()
                .find(|one| one.is("entitlement") && one.asset == call.asset)
            else {
                if !before.is_empty() {
                    finding.check();
                    finding.breach("a preflight without an entitlement", [*call]);
                }
                continue;
            };
            finding.check();
            let granted = before
                .iter()
                .any(|one| one.is("entitlement") && one.asset == call.asset && one.is_ok());
            if !granted {
                finding.breach("a preflight after a refused entitlement", [*last, *call]);
            }
        }
    }
    finding
}
