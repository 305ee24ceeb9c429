//! Definitions in single views, the order of events, and input that is wrong.

use super::super::view::View;
use super::*;

const AT: i64 = NOON.0 * 1_000;

fn millis(length: i64) -> Option<Reported> {
    Reported::in_millis(length as f64)
}

/// Builds the view of a session whose events are received when they happen.
fn view_of(events: &[(i64, PlayerAction)]) -> View {
    let mut view = View::opened(&opened(1, NOON, Labels::default()));
    for (sequence, (at, action)) in (0..).zip(events) {
        let event = event(1, AT + at, sequence, action.clone());
        assert!(view.event(&event, UnixSeconds((AT + at).div_euclid(1_000))));
    }
    view
}

#[test]
fn start_up_time_comes_from_the_first_of_three_sources() {
    use PlayerAction::{InitialWait, Requested, Started};
    let request = (0, Requested);
    let wait = (900, InitialWait(millis(850)));
    for (events, truth) in [
        (
            vec![request.clone(), wait.clone(), (1_000, Started(millis(800)))],
            800.0,
        ),
        (
            vec![request.clone(), wait.clone(), (1_000, Started(None))],
            850.0,
        ),
        (vec![request.clone(), (1_000, Started(None))], 1_000.0),
    ] {
        let cell = view_of(&events).sums(DurationUnit::Millis, false);
        let read = cell.startups.percentile(0.5).unwrap();
        assert!(
            (read / truth - 1.0).abs() < 0.01,
            "{read}, in truth {truth}"
        );
    }
    let unknown = view_of(&[(1_000, Started(None))]).sums(DurationUnit::Millis, false);
    assert_eq!((unknown.plays, unknown.startups.percentile(0.5)), (1, None));
}

/// Uses the CMCD reports of dash.js, Shaka Player and its minified build.
#[test]
fn start_up_time_of_reports_by_cmcd_is_that_of_the_first_frame() {
    use PlayerAction::{Alive, Shown, Started, Waiting};
    for (reports, truth) in [
        // The player measured the time to another moment than its first frame.
        (
            vec![
                (0, Waiting, None),
                (4, Waiting, Some(1.0)),
                (900, Started(None), None),
            ],
            900.0,
        ),
        // It reports the time with a later state.
        (
            vec![
                (0, Waiting, None),
                (900, Started(None), None),
                (5_000, Waiting, Some(850.0)),
            ],
            850.0,
        ),
        // The player reports no states.
        (
            vec![
                (0, Waiting, None),
                (10_000, Shown, Some(850.0)),
                (20_000, Alive, None),
            ],
            850.0,
        ),
    ] {
        let mut view = view_of(&[]);
        for (sequence, (at, action, startup)) in (0..).zip(&reports) {
            let report = PlayerEvent {
                startup: startup.and_then(Reported::in_millis),
                ..event(1, AT + at, sequence, action.clone())
            };
            assert!(view.event(&report, NOON + 30));
        }
        let cell = view.sums(DurationUnit::Millis, false);
        let read = cell.startups.percentile(0.5).unwrap();
        assert!((read / truth - 1.0).abs() < 0.01, "{read}: {reports:?}");
        assert_eq!(cell.plays, 1);
    }
    // `Shown` does not end a wait.
    let mut view = view_of(&[
        (0, Started(None)),
        (10_000, Waiting),
        (20_000, Started(None)),
    ]);
    assert!(view.event(&event(1, AT + 15_000, 9, Shown), NOON + 30));
    assert_eq!(view.sums(DurationUnit::Millis, false).waited_millis, 10_000);
}

#[test]
fn starts_failures_and_exits_are_told_apart() {
    use PlayerAction::{Failed, Requested, Started, Stopped};
    let failed = || Failed(Some(Arc::from("3016")));
    for (events, expected) in [
        // plays, start failures, exits, playback failures
        (vec![(0, Requested)], [0, 0, 0, 0]),
        (vec![(0, Requested), (900, Stopped)], [0, 0, 1, 0]),
        (vec![(0, Requested), (900, failed())], [0, 1, 0, 0]),
        (
            vec![(0, Requested), (900, failed()), (2_000, Started(None))],
            [1, 0, 0, 0],
        ),
        (vec![(900, Started(None)), (2_000, failed())], [1, 0, 0, 1]),
    ] {
        let cell = view_of(&events).sums(DurationUnit::Millis, false);
        let read = [
            cell.plays,
            cell.start_failures,
            cell.exits,
            cell.playback_failures,
        ];
        assert_eq!(read, expected, "{events:?}");
        assert_eq!(cell.attempts, 1);
    }
    let closed = view_of(&[]).sums(DurationUnit::Millis, true);
    assert_eq!((closed.attempts, closed.exits), (1, 1));
}

#[test]
fn a_heartbeat_with_an_advanced_position_is_a_play() {
    let mut view = view_of(&[]);
    view.beat(NOON + 10, 5, 2_000_000);
    assert_eq!(view.sums(DurationUnit::Millis, false).plays, 0);
    view.beat(NOON + 20, 5, 2_000_000);
    assert_eq!(view.sums(DurationUnit::Millis, false).plays, 0);
    view.beat(NOON + 30, 11, 2_000_000);
    view.beat(NOON + 40, 21, 4_000_000);
    let cell = view.sums(DurationUnit::Millis, false);
    // From 6 s before the beat that showed it to the last one.
    assert_eq!((cell.plays, cell.played_millis), (1, 16_000));
    assert_eq!(cell.figures(0).mean_bitrate, Some(2_000_000.0));
}

#[test]
fn impossible_bitrates_of_heartbeats_do_not_count() {
    let mut view = view_of(&[]);
    for (at, bitrate) in [
        (10, 2_000_000),
        (20, u64::MAX),
        (30, BITRATE_MAX + 1),
        (40, 0),
    ] {
        view.beat(NOON + at, at, bitrate);
    }
    let cell = view.sums(DurationUnit::Millis, false);
    assert_eq!(cell.figures(0).mean_bitrate, Some(2_000_000.0));
    let mut fastest = view_of(&[]);
    fastest.beat(NOON + 10, 10, BITRATE_MAX);
    fastest.beat(NOON + 20, 20, BITRATE_MAX);
    let cell = fastest.sums(DurationUnit::Millis, false);
    assert_eq!(cell.figures(0).mean_bitrate, Some(BITRATE_MAX as f64));
}

#[test]
fn waits_and_pauses_are_not_playing_time() {
    use PlayerAction::{Paused, Playing, Started, Stopped, Waited, Waiting};
    let reported = view_of(&[
        (0, Started(None)),
        (13_000, Waited(millis(3_000))),
        (20_000, Paused),
        (50_000, Playing),
        (60_000, Stopped),
    ]);
    let states = view_of(&[
        (0, Started(None)),
        (10_000, Waiting),
        (13_000, Playing),
        (20_000, Paused),
        (50_000, Playing),
        (60_000, Stopped),
    ]);
    // A wait within a seek does not count.
    let seeking = view_of(&[
        (0, Started(None)),
        (10_000, Waiting),
        (13_000, Started(None)),
        (20_000, PlayerAction::Seeking),
        (20_500, Waiting),
        (50_000, Started(None)),
        (60_000, Stopped),
    ]);
    for view in [reported, states, seeking] {
        let cell = view.sums(DurationUnit::Millis, false);
        assert_eq!(
            (cell.waits, cell.waited_millis, cell.played_millis),
            (1, 3_000, 27_000)
        );
        assert_eq!(cell.figures(0).rebuffer_ratio, Some(0.1));
    }
}

#[test]
fn durations_have_the_unit_of_the_partner_and_are_not_guessed() {
    let started = |duration| PlayerAction::Started(Reported::in_unit_of_partner(duration));
    for duration in [90.0, 120.0] {
        let view = view_of(&[(0, started(duration))]);
        for (unit, factor) in [
            (DurationUnit::Millis, 1.0),
            (DurationUnit::Seconds, 1_000.0),
        ] {
            let read = view.sums(unit, false).startups.percentile(0.5).unwrap();
            assert!((read / (duration * factor) - 1.0).abs() < 0.01, "{read}");
        }
    }
}

#[test]
fn the_order_of_events_does_not_change_the_figures() {
    for seed in 0..300 {
        let mut chance = Chance(seed);
        let mut events = vec![
            (0, PlayerAction::Requested),
            (700, PlayerAction::Started(None)),
        ];
        for _ in 0..chance.below(30) {
            let action = match chance.below(8) {
                0 => PlayerAction::Paused,
                1 | 2 => PlayerAction::Playing,
                3 => PlayerAction::Waiting,
                4 => PlayerAction::Waited(millis(chance.below(3_000))),
                5 => PlayerAction::Failed(Some(Arc::from(format!("{}", chance.below(3)).as_str()))),
                6 => PlayerAction::InitialWait(millis(chance.below(3_000))),
                _ => PlayerAction::BitrateChanged,
            };
            // Often at the same time.
            events.push((chance.below(100) * 100, action));
        }
        let events: Vec<PlayerEvent> = (0..)
            .zip(events)
            .map(|(sequence, (at, action))| PlayerEvent {
                bitrate: (action == PlayerAction::BitrateChanged)
                    .then(|| 1_000 + u64::try_from(at).unwrap()),
                ..event(1, AT + at, sequence, action)
            })
            .collect();
        let sums = |events: &[PlayerEvent]| {
            let mut view = view_of(&[]);
            for event in events {
                assert!(view.event(event, NOON + 60));
            }
            view.end(NOON + 90, true);
            view.sums(DurationUnit::Millis, true)
        };
        let in_order = sums(&events);
        let mut shuffled = events;
        for place in (1..shuffled.len()).rev() {
            let other = chance.below(i64::try_from(place).unwrap() + 1);
            shuffled.swap(place, usize::try_from(other).unwrap());
        }
        assert_eq!(sums(&shuffled), in_order, "seed {seed}");
    }
}

/// The same title is started twice on a device, whose player names no session.
#[test]
fn late_reports_belong_to_their_own_start_of_a_title() {
    let again = |quality: &Quality| {
        quality.opened(OpenedSession {
            session: session(2),
            ..opened(1, NOON + 100, Labels::default())
        });
    };
    let end = |quality: &Quality| quality.ended(&user(1), session(1), NOON + 60, true);
    let event = |at: i64, action: &PlayerAction| PlayerEvent {
        session: None,
        ..event(1, AT + at, at, action.clone())
    };
    let events = [
        (1_000, PlayerAction::Started(None)),
        (50_000, PlayerAction::Failed(None)),
        (99_000, PlayerAction::Requested),
        (101_000, PlayerAction::Started(None)),
        (160_000, PlayerAction::Stopped),
    ];
    let figures_of = |late: bool, reversed: bool| {
        let directory = tempfile::tempdir().unwrap();
        let quality = open(directory.path());
        quality.opened(opened(1, NOON, Labels::default()));
        let mut order: Vec<_> = events.iter().collect();
        if late {
            end(&quality);
            again(&quality);
        }
        if reversed {
            order.reverse();
        }
        for (at, action) in order {
            if !late && *at == 99_000 {
                end(&quality);
                again(&quality);
            }
            let received = if late { 170 } else { at / 1_000 };
            quality.stored(sender(1), event(*at, action), NOON + received);
        }
        let found = figures(&quality, NOON + 180);
        (
            found.attempts,
            found.plays,
            found.playback_failures,
            found.exits_before_start,
        )
    };
    let truth = (2, 2, 1, 0);
    for (late, reversed) in [(false, false), (true, false), (true, true)] {
        assert_eq!(
            figures_of(late, reversed),
            truth,
            "late {late}, reversed {reversed}"
        );
    }
}

#[test]
fn wrong_input_has_a_defined_result_and_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    let send = |number, event: PlayerEvent, at| quality.stored(sender(number), event, at);
    quality.opened(opened(1, NOON, Labels::default()));
    let started = PlayerAction::Started(millis(500));
    send(1, event(1, AT, 1, started.clone()), NOON);
    // An event of another user does not change the view of user 1, and begins no view.
    send(2, event(1, AT, 2, PlayerAction::Failed(None)), NOON);
    assert_eq!(
        quality
            .report(&all(), NOON)
            .unwrap()
            .total
            .figures
            .playback_failures,
        0
    );
    assert_eq!(quality.counts().late, 1);
    // The event names a session that never existed.
    send(3, event(99, AT, 1, started.clone()), NOON);
    // A clock that jumps by a day in mid-view.
    send(
        1,
        event(1, AT + 200_000_000, 2, PlayerAction::Waited(None)),
        NOON + 5,
    );
    let _ = figures(&quality, NOON + 5);
    assert_eq!((quality.counts().late, quality.counts().clock), (2, 1));
    // Another user's refused license.
    quality.license_refused(&user(2), session(1), NOON);
    // A session that was opened twice is one attempt.
    quality.opened(opened(1, NOON + 1, Labels::default()));
    let read = figures(&quality, NOON + 10);
    assert_eq!(
        (read.attempts, read.plays, read.playback_failures),
        (1, 1, 0)
    );
    // Late events of a closed view change nothing.
    quality.ended(&user(1), session(1), NOON + 10, true);
    let later = NOON + 2 * HOUR;
    assert_eq!(quality.tick(later).unwrap(), 0);
    let closed = figures(&quality, later);
    send(
        1,
        event(1, AT + 9_000, 3, PlayerAction::Failed(None)),
        later,
    );
    assert_eq!(figures(&quality, later), closed);
    assert_eq!(quality.counts().late, 3);
    // A span without data.
    let empty = QualityQuery {
        from: NOON - DAY,
        to: NOON - HOUR,
        ..all()
    };
    let report = quality.report(&empty, later).unwrap();
    assert_eq!(
        (report.total.figures, report.rows.len()),
        (Figures::default(), 0)
    );
}

#[test]
fn an_event_without_session_id_finds_the_view_of_its_device_and_asset() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    let without = |at, sequence, action| PlayerEvent {
        session: None,
        ..event(1, at, sequence, action)
    };
    // The request for playback is reported before the preflight.
    let request = without(AT - 2_000, 1, PlayerAction::Requested);
    quality.stored(sender(1), request, NOON - 1);
    quality.opened(opened(1, NOON, Labels::default()));
    let start = without(AT + 1_000, 2, PlayerAction::Started(None));
    quality.stored(sender(1), start, NOON + 1);
    let mut other = without(AT + 2_000, 3, PlayerAction::Failed(None));
    other.labels.set(Dimension::Asset, "film");
    quality.stored(sender(1), other, NOON + 2);
    let read = figures(&quality, NOON + 3);
    assert_eq!(
        (read.attempts, read.plays, read.playback_failures),
        (1, 1, 0)
    );
    assert!((read.startup_p50_millis.unwrap() / 3_000.0 - 1.0).abs() < 0.01);
}

#[test]
fn views_beyond_the_bounds_are_closed_and_none_is_lost() {
    for (number, bytes) in [(100, usize::MAX), (usize::MAX, 40_000)] {
        let directory = tempfile::tempdir().unwrap();
        let quality = open(directory.path());
        {
            let mut state = quality.inner.state.lock();
            (state.views_max, state.views_bytes_max) = (number, bytes);
        }
        for number in 0..1_000_i64 {
            let id = u64::try_from(number).unwrap();
            quality.opened(opened(id, NOON + number, Labels::default()));
        }
        let open = quality.tick(NOON + 1_000).unwrap();
        assert!((50..=150).contains(&open), "{open}");
        assert_eq!(quality.counts().evicted, 1_000 - open as u64);
        assert_eq!(figures(&quality, NOON + 1_000).attempts, 1_000);
        // The most silent ones are closed.
        let oldest = quality
            .inner
            .state
            .lock()
            .views
            .values()
            .map(|view| view.begin())
            .min();
        assert!(oldest > Some(NOON + 800), "{oldest:?}");
    }
}

#[test]
fn views_without_a_session_are_limited_for_each_user() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    let most = i64::try_from(crate::quality::matching::WITHOUT_SESSION_MAX).unwrap();
    let send = |number, sequence: i64| {
        let stopped = PlayerAction::Stopped;
        let mut sent = event(number, NOON.0 * 1_000, sequence, stopped);
        sent.session = None;
        sent.device = Some(Arc::from(format!("tv-{sequence}").as_str()));
        quality.stored(sender(number), sent, NOON);
    };
    for sequence in 0..most + 10 {
        send(1, sequence);
    }
    send(2, 0);
    figures(&quality, NOON);
    let state = quality.inner.state.lock();
    let views = |number| state.by_user.get(&user(number)).unwrap().all().count();
    assert_eq!(i64::try_from(views(1)).unwrap(), most);
    assert_eq!(views(2), 1);
    assert_eq!(state.counts.late, 10);
}
