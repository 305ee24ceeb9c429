//! Members that forward their telemetry to a sink.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::trial::Fleet;
use super::until;
use super::viewer::Viewer;
use crate::support::event_sink::{Sink, SinkAction};

static IS_SINK_AWAY: AtomicBool = AtomicBool::new(true);

/// Adds the sequence numbers of the events that the sink has accepted since the last call.
fn collect(sink: &Sink, accepted: &mut BTreeSet<u64>) {
    for request in sink.received().iter().filter(|request| request.taken) {
        for line in request.text().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            accepted.insert(event["event"]["seqId"].as_u64().unwrap());
        }
    }
}

#[test]
fn events_of_a_member_that_is_not_the_owner_any_more_are_forwarded() {
    let sink = Sink::deciding(|_| match IS_SINK_AWAY.load(Ordering::SeqCst) {
        true => SinkAction::Respond("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"),
        false => SinkAction::Accept,
    });
    let settings = [
        ("PLAYGATE_TELEMETRY_FORWARD_URL", &*sink.url),
        ("PLAYGATE_TELEMETRY_FORWARD_BATCH", "1"),
    ];
    let Some(mut fleet) = Fleet::with(&settings) else {
        return;
    };
    let first = fleet.owner();
    let viewer = Viewer::start(&fleet.partner, fleet.members[first].address).unwrap();
    assert_eq!(viewer.report(fleet.members[first].address, 0..5), Some(202));
    let offered = sink.next_request();
    assert!(offered.text().contains("\"seqId\":0,") && !offered.taken);

    fleet.members[first].process.stop();
    let second = until("the next owner", || {
        Some(fleet.owner()).filter(|owner| *owner != first)
    });
    // The forwarder of the standby was stopped before the takeover.
    assert_eq!(
        viewer.report(fleet.members[second].address, 5..10),
        Some(202)
    );
    IS_SINK_AWAY.store(false, Ordering::SeqCst);
    let mut accepted = BTreeSet::new();
    until("the events of the second owner", || {
        collect(&sink, &mut accepted);
        accepted.is_superset(&(5..10).collect()).then_some(())
    });
    // Control: the events of the first owner are in its files only.
    assert!(accepted.is_disjoint(&(0..5).collect()), "{accepted:?}");

    let before = &mut fleet.members[first];
    before.process.start(&before.config, &settings);
    until("the events of the first owner", || {
        collect(&sink, &mut accepted);
        (accepted == (0..10).collect()).then_some(())
    });
    assert_eq!(fleet.owner(), second);
}
