//! Rules about heartbeats and the life of a session.

use crate::conformance::Finding;
use crate::conformance::conversation::{
    ClientCall, ClientEvent, Conversation, SESSION_ALIVE_MILLIS, SessionCalls,
};

const INTERVAL_MILLIS: i64 = 10_000;
const TOLERANCE_MILLIS: i64 = 2_000;
/// A smaller jump may be that of a player that skips a gap.
const SEEK_SECONDS: f64 = 5.0;
/// Fewer intervals do not tell a habit from a single delay.
const INTERVALS_MIN: usize = 3;
const FIRST_WITHIN_MILLIS: i64 = 10_000;
const STOPPED_WITHIN_MILLIS: i64 = 12_000;
const RESTARTED_WITHIN_MILLIS: i64 = 60_000;
/// Other requests may have been under way when one was refused.
const IN_FLIGHT_MILLIS: i64 = 1_000;
const RENEWED_WITHIN_MILLIS: i64 = 15_000;
/// The viewer has to find the remote control and type the PIN.
const PIN_TYPED_WITHIN_MILLIS: i64 = 60_000;
/// The states of a player in CMCD without a moving picture: paused, ended, failed, quit, preloading.
const STOPPED_STATES: [&str; 5] = ["a", "e", "f", "q", "d"];
/// A smaller position is an offset from the start of a title and not a Unix time.
const UNIX_TIME_MIN: f64 = 1e9;
const STATUS_NO_LIVE_RIGHTS: u16 = 552;
/// Parts of event names that show that playback has paused or stopped.
const STOP_WORDS: [&str; 5] = ["pause", "stop", "end", "block", "held"];

pub(super) fn interval(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let beats: Vec<&ClientCall> = session.beats().collect();
        let mut intervals: Vec<(i64, &ClientCall, &ClientCall)> = beats
            .windows(2)
            .filter_map(|pair| match pair {
                // After other answers, and without one, a client may send a heartbeat immediately, or has to wait.
                [one, next] if matches!(one.status, 200 | STATUS_NO_LIVE_RIGHTS) && !one.cut => {
                    Some((next.at - one.at, *one, *next))
                }
                _ => None,
            })
            .collect();
        // A heartbeat at once after a seek says where the viewer is now. The next one may keep to the schedule.
        let mut after_seek = false;
        intervals.retain(|(length, one, next)| {
            let is_seek = is_seek(one, next);
            let extra = (is_seek || after_seek) && *length < INTERVAL_MILLIS;
            after_seek = is_seek && *length < INTERVAL_MILLIS;
            !extra
        });
        // A laptop that was closed, once, is no habit.
        let is_suspension = |interval: &(i64, _, _)| interval.0 > SESSION_ALIVE_MILLIS;
        if intervals.iter().filter(|one| is_suspension(one)).count() == 1 {
            intervals.retain(|one| !is_suspension(one));
        }
        if intervals.len() < INTERVALS_MIN {
            continue;
        }
        finding.check();
        // Sorted by distance from the interval, so that too short ones count as much as too long ones.
        intervals.sort_by_key(|(length, ..)| (length - INTERVAL_MILLIS).abs());
        // Of fewer than 20 the 95th percentile would be the worst, which may be a single delay.
        let outliers = (intervals.len() * 5).div_euclid(100).max(1);
        let place = intervals.len().saturating_sub(1 + outliers);
        let Some((length, one, next)) = intervals.get(place) else {
            continue;
        };
        if (length - INTERVAL_MILLIS).abs() > TOLERANCE_MILLIS {
            let seconds = *length as f64 / 1_000.0;
            finding.breach(
                format!("{seconds:.1} s between two heartbeats at p95"),
                [*one, *next],
            );
        }
    }
    finding
}

/// Whether the position moved by something else than time.
fn is_seek(one: &ClientCall, next: &ClientCall) -> bool {
    let moved = one.position().zip(next.position());
    moved.is_some_and(|(from, to)| {
        let elapsed = (next.at - one.at) as f64 / 1_000.0;
        // A pause moves it by less than the time.
        to < from - SEEK_SECONDS || to - from > elapsed + SEEK_SECONDS
    })
}

pub(super) fn first(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let Some(preflight) = session.preflight() else {
            continue;
        };
        let license = session
            .calls
            .iter()
            .find(|call| call.is_license() && call.is_ok());
        let start = license.copied().unwrap_or(preflight);
        let until = start.answered().saturating_add(FIRST_WITHIN_MILLIS);
        // An abandoned start has no heartbeat, and one at the end of the period may get it later. Of a start whose answer was lost
        // the client does not know the session.
        let given_up = session.end().is_some_and(|end| end.at <= until)
            || ended_by_another_call(conversation, start, until)
            || preflight.cut;
        let beat = session.beats().next();
        if beat.is_none() && (given_up || conversation.end() <= until) {
            continue;
        }
        finding.check();
        if beat.is_none_or(|beat| beat.at > until) {
            finding.breach(
                "no heartbeat within 10 s of the start",
                [start].into_iter().chain(beat),
            );
        }
    }
    finding
}

pub(super) fn complete(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for call in conversation
        .calls
        .iter()
        .filter(|call| call.is("heartbeat"))
    {
        finding.check();
        // A heartbeat gets 400 only for a missing or malformed header.
        if call.status == 400 {
            finding.breach("a heartbeat was answered 400", [call]);
        }
    }
    finding
}

pub(super) fn position_unit(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        if !conversation
            .entitlements(session)
            .iter()
            // Only a livestream has programs. The position of a VOD asset counts from its start.
            .any(|call| call.program.is_some())
        {
            continue;
        }
        let placed = session
            .beats()
            .filter_map(|call| Some((call, call.position()?)));
        for (call, position) in placed {
            finding.check();
            if position < UNIX_TIME_MIN {
                finding.breach(
                    format!("the position of a livestream is {position}"),
                    [call],
                );
            }
        }
    }
    finding
}

/// Returns the first heartbeat of each run of 552 answers.
fn blackouts<'a>(session: &SessionCalls<'a>) -> Vec<&'a ClientCall> {
    let mut before = 0;
    let first = session.beats().filter(|beat| {
        let first = beat.status == STATUS_NO_LIVE_RIGHTS && before != STATUS_NO_LIVE_RIGHTS;
        before = beat.status;
        first
    });
    first.collect()
}

pub(super) fn stop_on_552(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    let devices = conversation.devices();
    for session in conversation.sessions().values() {
        // Only telemetry shows whether the picture has stopped.
        let Some(events) = session.device().and_then(|device| devices.get(device)) else {
            continue;
        };
        for beat in blackouts(session) {
            let within = beat.at - IN_FLIGHT_MILLIS..=beat.at + STOPPED_WITHIN_MILLIS;
            // The period ends before the client had to react.
            if conversation.end() < *within.end() {
                continue;
            }
            finding.check();
            let stops = |event: &ClientEvent| {
                // Parts of words are compared, because partners choose the names of their events.
                let state = event.state.as_deref();
                STOP_WORDS.iter().any(|word| event.action.contains(word))
                    || state.is_some_and(|state| STOPPED_STATES.contains(&state))
            };
            let stopped = events
                .iter()
                .any(|event| within.contains(&event.timestamp) && stops(event));
            // A client that asks for entitlement at the end of a program is refused, and stops, before its heartbeat.
            let stopped_before = events
                .iter()
                .rfind(|event| event.timestamp < *within.start())
                .is_some_and(|event| stops(event));
            let ended = session.end().is_some_and(|end| within.contains(&end.at));
            if !stopped && !stopped_before && !ended {
                finding.breach(
                    "no event such as playback_paused or playback_stopped shows that the picture stopped at 552",
                    [beat],
                );
            }
        }
    }
    finding
}

pub(super) fn stay_on_552(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        for beat in blackouts(session) {
            finding.check();
            let again = conversation.calls.iter().find(|call| {
                call.is_preflight()
                    && call.device.as_deref() == session.device()
                    && call.asset.as_deref() == session.asset()
                    && call.at > beat.at
                    && call.at <= beat.at + RESTARTED_WITHIN_MILLIS
                    && !zapped_between(conversation, session, beat, call)
                    && !conversation.logged_in(beat.user.as_deref(), beat.at, call.at)
            });
            if let Some(again) = again {
                finding.breach(
                    "started the title again instead of keeping the session",
                    [beat, again],
                );
            }
        }
    }
    finding
}

/// Whether the device started another title in between: its viewer came back.
fn zapped_between(
    conversation: &Conversation,
    session: &SessionCalls<'_>,
    from: &ClientCall,
    to: &ClientCall,
) -> bool {
    conversation.calls.iter().any(|call| {
        call.is_preflight()
            && call.is_ok()
            && call.device.as_deref() == session.device()
            && call.asset.as_deref() != session.asset()
            && (from.at..to.at).contains(&call.at)
    })
}

/// Finds requests that a session still sends after an answer that ends it.
fn requests_after_end(
    conversation: &Conversation,
    ends: impl Fn(&ClientCall) -> bool,
    asks: impl Fn(&ClientCall) -> bool,
    what: &str,
) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let Some(last) = session.beats().find(|beat| ends(beat)) else {
            continue;
        };
        finding.check();
        let mut later = session
            .calls
            .iter()
            // A request that was under way when the answer came is not a breach.
            .filter(|call| call.at > last.answered().saturating_add(IN_FLIGHT_MILLIS));
        if let Some(call) = later.find(|call| asks(call)) {
            finding.breach(what, [last, *call]);
        }
    }
    finding
}

pub(super) fn stop_on_410(conversation: &Conversation) -> Finding {
    let asks = |call: &ClientCall| call.is("heartbeat") || call.is_license();
    requests_after_end(
        conversation,
        |beat| beat.status == 410,
        asks,
        "went on after 410",
    )
}

pub(super) fn preflight_on_404(conversation: &Conversation) -> Finding {
    let unknown = |beat: &ClientCall| beat.status == 404 || beat.has_code("SESSION_MISMATCH");
    requests_after_end(
        conversation,
        unknown,
        |call| call.is("heartbeat"),
        "sent heartbeats for a session that is not its own",
    )
}

/// Finds heartbeats that were refused with one of the codes and that no entitlement follows.
fn refused_beats_without_entitlement(
    conversation: &Conversation,
    codes: &[&str],
    within: i64,
    what: &str,
) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let entitlements = conversation.entitlements(session);
        let mut before = false;
        for beat in session.beats() {
            let refused = codes.iter().any(|code| beat.has_code(code));
            // One case for a run of refusals.
            if !refused || std::mem::replace(&mut before, refused) {
                before = refused;
                continue;
            }
            let until = beat.at + within;
            let renewed = entitlements
                .iter()
                .any(|call| call.at >= beat.at && call.at <= until);
            let over = session
                .end()
                .is_some_and(|end| end.at > beat.at && end.at <= until);
            if !renewed && (over || conversation.end() < until) {
                continue; // the period ended too early
            }
            finding.check();
            if !renewed {
                finding.breach(what, [beat]);
            }
        }
    }
    finding
}

pub(super) fn renew_entitlement(conversation: &Conversation) -> Finding {
    let codes = ["ENTITLEMENT_EXPIRED", "ENTITLEMENT_INVALID"];
    refused_beats_without_entitlement(
        conversation,
        &codes,
        RENEWED_WITHIN_MILLIS,
        "no entitlement after a heartbeat that wanted one",
    )
}

pub(super) fn pin_on_heartbeat(conversation: &Conversation) -> Finding {
    refused_beats_without_entitlement(
        conversation,
        &["PIN_CODE_REQUIRED"],
        PIN_TYPED_WITHIN_MILLIS,
        "no entitlement after a heartbeat that wanted the PIN",
    )
}

pub(super) fn end_session(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let Some(last) = session.beats().next_back() else {
            continue;
        };
        let ended = session.end().is_some()
            || session.beats().any(|beat| matches!(beat.status, 404 | 410))
            // A token that has ended can end no session, and a session that was displaced has ended.
            || last.status == 401
            || session.calls.iter().any(|call| {
                call.is("end_playback") && matches!(call.status, 401 | 404 | 410)
            })
            // Later the session has ended by itself.
            || ended_by_another_call(conversation, last, last.at + SESSION_ALIVE_MILLIS);
        if !ended && last.at + SESSION_ALIVE_MILLIS >= conversation.end() {
            continue; // it may still be playing
        }
        finding.check();
        if !ended {
            finding.breach("a session was left without DELETE", [last]);
        }
    }
    finding
}

/// The next start on the device takes the place of a session, and a log-out ends it.
fn ended_by_another_call(conversation: &Conversation, last: &ClientCall, until: i64) -> bool {
    let ends = ["logout", "end_session", "end_sessions"];
    conversation.calls.iter().any(|call| {
        let replaces = call.is_preflight() && call.device == last.device;
        (last.at..=until).contains(&call.at)
            && call.is_ok()
            && call.user == last.user
            && call.session != last.session
            && (replaces || ends.contains(&call.route.as_str()))
    })
}
