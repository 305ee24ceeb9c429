//! Rules about catalogue and schedule. These requests name no user, so that all clients of the partner are judged
//! together.

use std::collections::BTreeMap;

use crate::conformance::Finding;
use crate::conformance::conversation::{ClientCall, Conversation};

const CACHEABLE_ROUTES: [&str; 6] = [
    "live",
    "day",
    "broadcasts",
    "broadcast",
    "livestreams",
    "assets",
];
const SCHEDULE_ROUTES: [&str; 4] = ["live", "day", "broadcasts", "broadcast"];
const DEPRECATED_ROUTES: [&str; 2] = ["live_one", "day_one"];
const BURST_MILLIS: i64 = 2_000;
/// Fewer requests do not show how a client works.
const REQUESTS_MIN: usize = 3;

fn is_one_of(call: &ClientCall, routes: &[&str]) -> bool {
    routes.contains(&call.route.as_str())
}

pub(super) fn etag(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    let mut equal: BTreeMap<_, Vec<&ClientCall>> = BTreeMap::new();
    let read =
        |call: &&ClientCall| matches!(call.status, 200 | 304) && is_one_of(call, &CACHEABLE_ROUTES);
    for call in conversation.calls.iter().filter(read) {
        equal
            .entry((&call.client, &call.route, &call.asset, &call.query))
            .or_default()
            .push(call);
    }
    for calls in equal
        .into_values()
        .filter(|calls| calls.len() >= REQUESTS_MIN)
    {
        finding.check();
        // What has changed since is sent whole.
        if calls
            .iter()
            .all(|call| call.status == 200 && !call.revalidates)
        {
            finding.breach(
                format!("fetched the same {} times whole", calls.len()),
                calls,
            );
        }
    }
    finding
}

pub(super) fn deprecated(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    for call in &conversation.calls {
        let old = is_one_of(call, &DEPRECATED_ROUTES);
        if !old && !is_one_of(call, &SCHEDULE_ROUTES) {
            continue;
        }
        finding.check();
        if old {
            finding.breach("used a deprecated route", [call]);
        }
    }
    finding
}

pub(super) fn batched(conversation: &Conversation) -> Finding {
    let mut finding = Finding::default();
    let asks = |call: &&ClientCall| is_one_of(call, &SCHEDULE_ROUTES);
    let calls: Vec<&ClientCall> = conversation.calls.iter().filter(asks).collect();
    finding.checked = calls.len();
    let is_single = |call: &ClientCall| {
        let ids = call
            .parameter("livestreams")
            .or_else(|| call.parameter("broadcasts"));
        ids.is_none_or(|ids| !ids.contains(',') && !ids.contains("%2C"))
    };
    let mut judged_until = i64::MIN;
    for (nth, first) in calls.iter().enumerate() {
        if first.at <= judged_until || !is_single(first) {
            continue;
        }
        let burst: Vec<&ClientCall> = calls
            .iter()
            .skip(nth)
            .take_while(|call| call.at <= first.at + BURST_MILLIS)
            .filter(|call| call.client == first.client)
            .filter(|call| call.route == first.route && is_single(call))
            .copied()
            .collect();
        // The days of one livestream are different requests with the same id.
        let mut ids: Vec<_> = burst
            .iter()
            .map(|call| (&call.query, &call.asset))
            .collect();
        ids.sort();
        ids.dedup();
        if ids.len() >= REQUESTS_MIN {
            // A burst is reported once.
            judged_until = first.at + BURST_MILLIS;
            finding.breach(format!("{} requests for one id each", burst.len()), burst);
        }
    }
    finding
}
