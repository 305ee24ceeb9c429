//! Rules about telemetry.

use std::collections::{BTreeMap, BTreeSet};

use crate::conformance::Finding;
use crate::conformance::conversation::{
    ClientCall, ClientEvent, Conversation, SESSION_ALIVE_MILLIS,
};

const SKEW_MAX_MILLIS: i64 = 60_000;
const BATCH_MAX: u32 = 500;
const REPEATED_WITHIN_MILLIS: i64 = 60_000;
const SECRET_NAMES: [&str; 8] = [
    "password",
    "accesskey",
    "accesstoken",
    "authorization",
    "token",
    "pin",
    "pincode",
    "secret",
];
/// Prefixes of the tokens of this service.
const TOKEN_PREFIXES: [&str; 3] = ["pgu_", "pge_", "pgr_"];

/// Returns the uploads that may have contained an event, as evidence.
fn carriers<'a>(conversation: &'a Conversation, event: &ClientEvent) -> Vec<&'a ClientCall> {
    let brought = |call: &&ClientCall| {
        // Matched by user and time: an event does not name its upload, and only whole seconds are stored.
        call.is("telemetry") && call.user == event.user && (call.at - event.received).abs() <= 2_000
    };
    conversation.calls.iter().filter(brought).collect()
}

pub(super) fn sequence(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for events in conversation.devices().values() {
        if events.len() < 2 {
            continue;
        }
        finding.check();
        let seen: BTreeSet<u64> = events.iter().map(|event| event.sequence).collect();
        for pair in events.windows(2) {
            let [one, next] = pair else { continue };
            // A smaller number begins a new run of the player.
            // Several players of one device count for themselves: numbers that another event has are not missing.
            if (one.sequence + 1..next.sequence).any(|number| !seen.contains(&number))
                && !dropped_between(conversation, Some(one), Some(next))
            {
                let what = format!("seqId goes from {} to {}", one.sequence, next.sequence);
                finding.breach(what, carriers(conversation, next));
                // One gap of a device is evidence enough.
                break;
            }
        }
    }
    finding
}

/// Whether a batch was refused between two events, or before the first or after the last one, which the client has to drop.
fn dropped_between(
    conversation: &Conversation,
    one: Option<&ClientEvent>,
    next: Option<&ClientEvent>,
) -> bool {
    // Only whole seconds of receipts are stored.
    let from = one.map_or(i64::MIN, |event| event.received - 1_000);
    let to = next.map_or(i64::MAX, |event| event.received + 1_000);
    conversation.calls.iter().any(|call| {
        call.is("telemetry")
            && next.or(one).is_some_and(|event| call.user == event.user)
            && is_refused_for_good(call)
            && (from..=to).contains(&call.at)
    })
}

fn is_refused_for_good(upload: &ClientCall) -> bool {
    (400..500).contains(&upload.status) && !matches!(upload.status, 401 | 408 | 413 | 429)
}

pub(super) fn clock(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for events in conversation.devices().values() {
        let mut skews: Vec<i64> = events
            .iter()
            .map(|event| event.received - event.timestamp)
            .collect();
        skews.sort_unstable();
        // The median is used, because an event that waited for the network comes late even if the clock is right.
        let Some(median) = skews.get(skews.len() / 2) else {
            continue;
        };
        finding.check();
        if median.abs() > SKEW_MAX_MILLIS {
            let what = format!("the client's clock is {} s off", median / 1_000);
            let last = events.last().map(|event| carriers(conversation, event));
            finding.breach(what, last.unwrap_or_default());
        }
    }
    finding
}

fn is_start(event: &ClientEvent) -> bool {
    ["started", "start"]
        .iter()
        .any(|word| event.action.ends_with(&format!("_{word}")))
}

fn is_stop(event: &ClientEvent) -> bool {
    let words = ["stopped", "stop", "ended", "end", "failed", "completed"];
    words
        .iter()
        .any(|word| event.action.ends_with(&format!("_{word}")))
}

/// Whether an event tells of something that happens during playback, and may start and stop many times.
fn is_within_playback(event: &ClientEvent) -> bool {
    let parts = [
        "buffer", "stall", "seek", "scrub", "ad_", "ads_", "advert", "load", "segment", "cast",
        "subtitle",
    ];
    parts.iter().any(|part| event.action.contains(part))
}

pub(super) fn pairs(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    let mut titles: BTreeMap<_, Vec<&ClientEvent>> = BTreeMap::new();
    for event in conversation
        .events
        .iter()
        .filter(|event| (is_start(event) || is_stop(event)) && !is_within_playback(event))
    {
        titles
            .entry((&event.device, &event.asset))
            .or_default()
            .push(event);
    }
    for events in titles.into_values() {
        let mut open: Option<&ClientEvent> = None;
        let mut before = None;
        for event in events {
            finding.check();
            let wrong = if is_start(event) {
                open.replace(event)
                    .map(|_| "a second start without a stop between")
            } else {
                let without = open.take().is_none();
                without.then_some("a stop without a start")
            };
            let before = before.replace(event);
            if let Some(what) =
                wrong.filter(|_| !dropped_between(conversation, before, Some(event)))
            {
                finding.breach(what, carriers(conversation, event));
            }
        }
        // The last start may still be playing.
        let left = open.filter(|event| {
            let next = conversation.events.iter().find(|next| {
                is_start(next) && next.device == event.device && next.timestamp > event.timestamp
            });
            !plays_on(conversation, event) && !dropped_between(conversation, Some(event), next)
        });
        if let Some(event) = left {
            finding.breach("a start without a stop", carriers(conversation, event));
        }
    }
    finding
}

/// Whether the device still sends heartbeats at the end of the period.
fn plays_on(conversation: &Conversation, event: &ClientEvent) -> bool {
    let end = conversation.end();
    let sessions = conversation.sessions();
    sessions.values().any(|session| {
        let last = session.beats().next_back();
        session.device() == event.device.as_deref()
            && session.end().is_none()
            && last.is_some_and(|beat| beat.at + SESSION_ALIVE_MILLIS >= end)
    })
}

pub(super) fn batches(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for call in conversation
        .calls
        .iter()
        .filter(|call| call.is("telemetry"))
    {
        finding.check();
        let events = call.events.unwrap_or(0);
        if events > BATCH_MAX || call.status == 413 {
            finding.breach(
                format!("a batch of {events} events was answered {}", call.status),
                [call],
            );
        }
    }
    finding
}

pub(super) fn secrets(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for event in &conversation.events {
        finding.check();
        let secret = event.extra.iter().find(|(name, value)| {
            let name = name.to_ascii_lowercase();
            // Whether there is one is no secret.
            let is_flag = matches!(value.as_str(), "" | "true" | "false" | "null" | "0" | "1");
            (!is_flag && SECRET_NAMES.contains(&name.as_str()))
                || TOKEN_PREFIXES.iter().any(|start| value.contains(start))
        });
        if let Some((name, _)) = secret {
            finding.breach(
                format!("`extra.{name}` looks like a secret"),
                carriers(conversation, event),
            );
        }
    }
    finding
}

pub(super) fn dropped(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    let sent: Vec<&ClientCall> = conversation
        .calls
        .iter()
        .filter(|call| call.is("telemetry"))
        .collect();
    for (nth, call) in sent.iter().enumerate() {
        if !is_refused_for_good(call) {
            continue;
        }
        finding.check();
        let mut later = sent
            .iter()
            .skip(nth + 1)
            .filter(|later| later.user == call.user);
        // Bodies are not recorded, so a next upload with the same refusal counts as a repetition.
        let again = later.next().filter(|later| {
            later.status == call.status && later.at <= call.at + REPEATED_WITHIN_MILLIS
        });
        if let Some(again) = again {
            finding.breach("a refused batch was sent again", [*call, *again]);
        }
    }
    finding
}
