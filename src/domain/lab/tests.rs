//! Tests of faults.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use playgate_types::UserId;

const PARTNER: PartnerId = PartnerId::from_bytes([1; 16]);
const OTHER: PartnerId = PartnerId::from_bytes([2; 16]);

fn fault(label: &'static str) -> NewFault {
    NewFault {
        route: label.to_owned(),
        labels: vec![label],
        matching: FaultMatch::default(),
        after: 0,
        times: None,
        probability: 1.0,
        seed: 0,
        action: FaultAction::Refuse("SESSION_ENDED"),
        lifetime: None,
    }
}

fn call(label: &'static str) -> FaultableCall<'static> {
    FaultableCall {
        label,
        user: Some(UserId::from_bytes([3; 16])),
        asset: Some("film"),
        device: Some("tv"),
        session: None,
    }
}

/// Sends heartbeats and returns which of them had a fault.
fn run(lab: &Lab, calls: usize) -> Vec<bool> {
    let now = Instant::now();
    (0..calls)
        .map(|_| lab.fault_for(&PARTNER, &call("heartbeat"), now).is_some())
        .collect()
}

fn lab_with(faults: impl IntoIterator<Item = NewFault>) -> Lab {
    let lab = Lab::default();
    for fault in faults {
        lab.add_fault(PARTNER, fault, Instant::now()).unwrap();
    }
    lab
}

#[test]
fn fault_begins_after_some_calls_and_is_applied_so_many_times() {
    let lab = lab_with([NewFault {
        after: 2,
        times: Some(3),
        ..fault("heartbeat")
    }]);
    let now = Instant::now();
    assert_eq!(
        lab.fault_for(&PARTNER, &call("license_clearkey"), now),
        None
    );
    let expected = [false, false, true, true, true, false, false];
    assert_eq!(run(&lab, 7), expected);
    let view = &lab.faults(&PARTNER, now)[0];
    assert_eq!((view.calls, view.applied), (7, 3));
}

#[test]
fn every_condition_of_a_match_must_hold() {
    let session = playgate_types::SessionId::from_bytes([4; 16]);
    let now = Instant::now();
    let affects = |matching: FaultMatch| {
        let lab = lab_with([NewFault {
            matching,
            ..fault("heartbeat")
        }]);
        lab.fault_for(&PARTNER, &call("heartbeat"), now).is_some()
    };
    let asset = |name: &str| FaultMatch {
        asset: Some(name.to_owned()),
        ..FaultMatch::default()
    };
    assert!(affects(asset("film")) && !affects(asset("other")));
    assert!(affects(FaultMatch {
        user: Some(UserId::from_bytes([3; 16])),
        device: Some("tv".to_owned()),
        ..asset("film")
    }));
    assert!(!affects(FaultMatch {
        user: Some(UserId::from_bytes([5; 16])),
        ..asset("film")
    }));
    assert!(!affects(FaultMatch {
        device: Some("phone".to_owned()),
        ..asset("film")
    }));
    assert!(!affects(FaultMatch {
        session: Some(session),
        ..asset("film")
    }));
}

#[test]
fn oldest_fault_applies_and_each_counts_the_call() {
    let lab = lab_with([
        NewFault {
            times: Some(1),
            ..fault("heartbeat")
        },
        NewFault {
            action: FaultAction::Cut(CutAt::Head),
            ..fault("heartbeat")
        },
    ]);
    let now = Instant::now();
    let next = || lab.fault_for(&PARTNER, &call("heartbeat"), now).unwrap();
    assert_eq!(next().to_string(), "f1 refuse=SESSION_ENDED");
    assert_eq!(next().to_string(), "f2 cut=head");
    let counts = lab.faults(&PARTNER, now);
    let counts = counts.iter().map(|view| (view.calls, view.applied));
    assert_eq!(counts.collect::<Vec<_>>(), [(2, 1), (2, 1)]);
    assert_eq!(lab.clear_faults(&PARTNER, Some(FaultId(1))), 1);
    assert_eq!(lab.clear_faults(&PARTNER, Some(FaultId(1))), 0);
    assert_eq!(lab.clear_faults(&PARTNER, None), 1);
    assert_eq!(run(&lab, 1), [false]);
}

#[test]
fn fault_ends_with_its_lifetime_and_makes_room() {
    let lab = Lab::default();
    let now = Instant::now();
    let short = NewFault {
        lifetime: Some(Duration::from_secs(5)),
        ..fault("heartbeat")
    };
    for _ in 0..FAULTS_MAX {
        lab.add_fault(PARTNER, short.clone(), now).unwrap();
    }
    let one_more = lab.add_fault(PARTNER, short.clone(), now);
    assert_eq!(one_more.map(|_| ()), Err(TooManyFaults));
    let later = now + Duration::from_secs(5);
    let found = lab.fault_for(&PARTNER, &call("heartbeat"), later);
    assert_eq!(found, None);
    assert!(lab.faults(&PARTNER, later).is_empty());
    assert!(lab.add_fault(PARTNER, short, later).is_ok());
}

#[test]
fn a_delay_is_drawn_between_base_and_base_plus_jitter() {
    let (base, jitter) = (Duration::from_secs(8), Duration::from_secs(2));
    let lab = lab_with([NewFault {
        action: FaultAction::Delay { base, jitter },
        ..fault("heartbeat")
    }]);
    let now = Instant::now();
    let drawn: Vec<_> = (0..100)
        .map(|_| {
            lab.fault_for(&PARTNER, &call("heartbeat"), now)
                .unwrap()
                .delay
        })
        .collect();
    assert!(
        drawn
            .iter()
            .all(|delay| (base..base + jitter).contains(delay))
    );
    assert!(drawn.iter().any(|delay| *delay != drawn[0]));
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_run(seed: u64, probability in 0.01..1.0) {
        let random = NewFault { probability, seed, ..fault("heartbeat") };
        let first = run(&lab_with([random.clone()]), 300);
        prop_assert_eq!(&first, &run(&lab_with([random.clone()]), 300));
        let share = first.iter().filter(|had| **had).count() as f64 / 300.0;
        prop_assert!((share - probability).abs() < 0.2, "{} of {}", share, probability);
        let other = NewFault { seed: seed.wrapping_add(1), probability: 0.5, ..random.clone() };
        let half = NewFault { probability: 0.5, ..random };
        prop_assert_ne!(run(&lab_with([half]), 300), run(&lab_with([other]), 300));
    }

    #[test]
    fn another_partner_has_neither_faults_nor_an_offset(
        seed: u64, after in 0_u64..3, times in proptest::option::of(1_u64..3), offset: i64,
    ) {
        let lab = lab_with([NewFault { seed, after, times, ..fault("heartbeat") }]);
        lab.set_clock_offset(PARTNER, offset);
        let now = Instant::now();
        for _ in 0..5 {
            prop_assert_eq!(lab.fault_for(&OTHER, &call("heartbeat"), now), None);
        }
        prop_assert!(lab.faults(&OTHER, now).is_empty());
        prop_assert_eq!(lab.clock_offset(&OTHER), 0);
        prop_assert_eq!(lab.clock_offset(&PARTNER), offset);
        lab.reset(&PARTNER);
        prop_assert_eq!((lab.clock_offset(&PARTNER), lab.faults(&PARTNER, now).len()), (0, 0));
    }
}
