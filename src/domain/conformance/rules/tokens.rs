//! Rules about tokens, the PIN, headers and the device.

use std::collections::{BTreeMap, BTreeSet};

use crate::conformance::Finding;
use crate::conformance::conversation::{ClientCall, Conversation};

/// Other requests may have been under way when one was refused.
const IN_FLIGHT_MILLIS: i64 = 2_000;
const LOGGED_OUT_WITHIN_MILLIS: i64 = 5_000;
const STABLE_HEADERS: [&str; 6] = [
    "drm",
    "protocol",
    "deviceplatform",
    "devicetype",
    "devicemodel",
    "deviceid",
];

fn is_refused_token(call: &ClientCall) -> bool {
    call.has_code("USER_TOKEN_INVALID")
}

/// Whether the call shows that its user's token has ended.
fn ends_token(call: &ClientCall) -> bool {
    let ending = [
        "logout",
        "end_sessions",
        "end_session",
        "change_password",
        "reset",
        "delete_user",
    ];
    is_refused_token(call) || ending.contains(&call.route.as_str())
}

pub(super) fn reused(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for calls in conversation.users().values() {
        let starts = calls.iter().filter(|call| call.is_preflight()).count();
        let logins = calls
            .iter()
            .filter(|call| call.is_login() && call.is_ok())
            .count();
        // A single start shows nothing about reuse.
        if starts < 2 && logins < 2 {
            continue;
        }
        finding.check();
        // The last log-in, and whether its token has been used since and has ended.
        let mut login: Option<&ClientCall> = None;
        let (mut used, mut ended) = (false, false);
        let mut last_status = 0;
        for &call in calls {
            if call.is_login() && call.is_ok() {
                // A log-in right after a 403 breaks another rule.
                let breach = login.filter(|first| {
                    used && !ended && last_status != 403 && !on_other_device(calls, first, call)
                });
                if let Some(first) = breach {
                    finding.breach(
                        "logged in while the token of an earlier log-in worked",
                        [first, call],
                    );
                }
                (login, used, ended) = (Some(call), false, false);
            } else {
                // A token that has never worked cannot be reused.
                used |= call.is_ok();
                ended |= ends_token(call);
            }
            last_status = call.status;
        }
    }
    finding
}

/// Whether a call comes from another device of the user than the one whose token was refused: it names another device, or
/// has another login than that device had.
fn is_of_other_device(calls: &[&ClientCall], refused: &ClientCall, call: &ClientCall) -> bool {
    if refused.device.is_some() && call.device.is_some() {
        return refused.device != call.device;
    }
    let mut before = calls.iter().rev().filter(|one| one.at <= refused.at);
    let known = before.find(|one| one.device == refused.device && one.login.is_some());
    let refused_login = refused
        .login
        .as_ref()
        .or(known.and_then(|one| one.login.as_ref()));
    refused_login.is_some() && call.login.is_some() && refused_login != call.login.as_ref()
}

/// Whether two log-ins are those of two devices: the first one is still used, or each names a device of its own.
fn on_other_device(calls: &[&ClientCall], first: &ClientCall, second: &ClientCall) -> bool {
    if first.login.is_none() || second.login.is_none() {
        return false;
    }
    let with = |login: &Option<String>| {
        let of_login: Vec<&ClientCall> = calls
            .iter()
            .copied()
            .filter(|call| call.login == *login)
            .collect();
        of_login
    };
    let (one, other) = (with(&first.login), with(&second.login));
    let still_used = one
        .iter()
        .any(|call| call.at > second.at && call.is_ok() && !call.is("logout"));
    let devices = |calls: &[&ClientCall]| -> BTreeSet<String> {
        calls
            .iter()
            .filter_map(|call| call.device.clone())
            .collect()
    };
    let (one, other) = (devices(&one), devices(&other));
    still_used || (!one.is_empty() && !other.is_empty() && one.is_disjoint(&other))
}

pub(super) fn login_after_401(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for calls in conversation.users().values() {
        let mut refused: Option<&ClientCall> = None;
        for call in calls {
            if call.is_login() {
                refused = None;
            // Requests that were under way when the 401 came are not a breach.
            } else if let Some(first) = refused.take_if(|first| {
                call.at > first.answered().saturating_add(IN_FLIGHT_MILLIS)
                    && !is_of_other_device(calls, first, call)
            }) {
                finding.breach("went on with a token that was refused", [first, *call]);
            }
            if is_refused_token(call) && refused.is_none() {
                finding.check();
                refused = Some(call);
            }
        }
    }
    finding
}

pub(super) fn one_login_per_401(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for calls in conversation.users().values() {
        let mut logins: Option<Vec<&ClientCall>> = None;
        // Each device that lost its token logs in again.
        let mut devices: BTreeSet<&Option<String>> = BTreeSet::new();
        for call in calls {
            if is_refused_token(call) {
                finding.check();
                if logins.is_none() {
                    devices.clear();
                }
                devices.insert(&call.device);
                logins.get_or_insert_default();
            } else if call.is_login() && call.is_ok() {
                if let Some(list) = &mut logins {
                    list.push(call);
                }
            // The next other request ends the series: its log-ins are complete.
            } else if let Some(list) = logins.take_if(|list| !list.is_empty())
                && list.len() > devices.len()
            {
                finding.breach(format!("logged in {} times after a 401", list.len()), list);
            }
        }
    }
    finding
}

/// Whether a log-in or log-out is not that of the login that was refused: it names another one, or that one is used later.
fn is_another_login(calls: &[&ClientCall], refused: &ClientCall, next: &ClientCall) -> bool {
    let Some(refused_login) = &refused.login else {
        return false;
    };
    let goes_on = calls.iter().any(|call| {
        call.at > next.at && call.is_ok() && call.login.as_ref() == Some(refused_login)
    });
    match next.is_login() {
        true => goes_on,
        false => next
            .login
            .as_ref()
            .is_some_and(|other| other != refused_login),
    }
}

pub(super) fn no_logout_on_403(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for calls in conversation.users().values() {
        for pair in calls.windows(2) {
            let [refused, next] = pair else { continue };
            if refused.status != 403 {
                continue;
            }
            finding.check();
            let left =
                (next.is("logout") || next.is_login()) && !is_another_login(calls, refused, next);
            // Later the viewer may have logged out by hand.
            if left && next.at <= refused.at.saturating_add(LOGGED_OUT_WITHIN_MILLIS) {
                finding.breach("logged the viewer out after a 403", [*refused, *next]);
            }
        }
    }
    finding
}

pub(super) fn pin_once(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let mut accepted: BTreeMap<Option<&str>, &ClientCall> = BTreeMap::new();
        for call in conversation.entitlements(session) {
            // Asked again, for example because the entitlement has expired, the viewer types it again.
            if call.has_code("PIN_CODE_REQUIRED") {
                accepted.clear();
            }
            if !(call.sends_pin && call.is_ok()) {
                continue;
            }
            finding.check();
            let program = call.program.as_ref().map(|program| program.id.as_str());
            if let Some(first) = accepted.insert(program, call) {
                finding.breach(
                    "sent the PIN again for a program that was unlocked",
                    [first, call],
                );
            }
        }
    }
    finding
}

pub(super) fn headers_unchanged(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for session in conversation.sessions().values() {
        let Some(preflight) = session.preflight() else {
            continue;
        };
        let later =
            session.calls.iter().copied().filter(|call| {
                call.is_license() || call.is("heartbeat") || call.is("end_playback")
            });
        for call in later {
            finding.check();
            let value = |of: &ClientCall, name| of.headers.get(name).cloned();
            // Licenses and the end need the map of the preflight only. `heartbeat-complete` finds what a heartbeat
            // leaves out.
            let changed = STABLE_HEADERS.iter().find(|name| {
                let sent = value(call, **name);
                sent.is_some() && sent != value(preflight, **name)
            });
            if let Some(name) = changed {
                let what = format!("the header Play-{name} is not the one of the preflight");
                finding.breach(what, [preflight, call]);
                // One breach of a session is enough.
                break;
            }
        }
    }
    finding
}

pub(super) fn stable_device_id(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    let mut models: BTreeMap<_, Vec<&ClientCall>> = BTreeMap::new();
    for call in conversation
        .calls
        .iter()
        .filter(|call| call.is_preflight() && call.device.is_some())
    {
        models
            // Each device logs in for itself, so a household may have many of one model.
            .entry((&call.user, &call.model, &call.login))
            .or_default()
            .push(call);
    }
    for starts in models.into_values().filter(|starts| starts.len() > 1) {
        finding.check();
        let ids: BTreeSet<_> = starts.iter().map(|call| &call.device).collect();
        // Two devices of one model are usual; a new id for each start is not.
        if ids.len() == starts.len() && starts.len() > 2 {
            finding.breach(
                format!("{} starts had {} device ids", starts.len(), ids.len()),
                starts,
            );
        }
    }
    finding
}
