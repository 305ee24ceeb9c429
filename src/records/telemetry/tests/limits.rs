//! Budgets, the total size limit, and uploads during slow work on a large segment.

use super::*;

/// Returns maximum-size events with frames that take slightly more than `bytes` bytes.
fn large(number: i64, bytes: i64) -> Vec<NewEvent<'static>> {
    let of = |part| NewEvent {
        json: vec![b' '; EVENT_BYTES_MAX].into(),
        ..event(number * 100 + part)
    };
    (0..bytes >> 16).map(of).collect()
}

fn budgets(user_per_day: u64, partner_per_day: Option<u64>, total: u64) -> Budgets {
    Budgets {
        user_per_day,
        partner_per_day,
        total,
    }
}

fn limit(result: Result<Accepted, TelemetryError>) -> (&'static str, i64) {
    match result {
        Err(TelemetryError::OverBudget(limit)) => (limit.name, limit.retry_after),
        other => panic!("{other:?}"),
    }
}

const MIB: u64 = 1024 * 1024;

#[test]
fn a_user_over_budget_is_rejected_until_tomorrow_and_others_are_not() {
    let bench = Bench::new();
    let telemetry = bench.open_with(NOW, budgets(2 * MIB, None, u64::MAX));
    let send = |user, number, now| telemetry.ingest(sender(user), large(number, 1 << 19), now);
    for number in 1..=3 {
        assert_eq!(send(1, number, NOW), Ok(taken(8, 0)));
    }
    let tomorrow = (NOW.utc_day() + 1) * DAY - NOW.0;
    assert_eq!(limit(send(1, 4, NOW)), ("telemetry-user", tomorrow));
    // Duplicates do not count.
    assert_eq!(send(1, 3, NOW), Ok(taken(0, 8)));
    assert_eq!(send(2, 4, NOW), Ok(taken(8, 0)));
    assert_eq!(send(1, 4, NOW + tomorrow), Ok(taken(8, 0)));
}

#[test]
fn a_restart_does_not_reset_budgets() {
    let bench = Bench::new();
    let of = budgets(2 * MIB, Some(3 * MIB), u64::MAX);
    let telemetry = bench.open_with(NOW, of);
    for number in 1..=3 {
        let sent = telemetry.ingest(sender(1), large(number, 1 << 19), NOW);
        assert_eq!(sent, Ok(taken(8, 0)));
    }
    drop(telemetry);
    let telemetry = bench.open_with(NOW + 60, of);
    let sent = telemetry.ingest(sender(1), large(4, 1 << 19), NOW + 60);
    assert_eq!(limit(sent).0, "telemetry-user");
    // The partner's budget includes its other users.
    let send = |number| telemetry.ingest(sender(2), large(number, 1 << 19), NOW + 60);
    assert_eq!(send(5), Ok(taken(8, 0)));
    assert_eq!(send(6), Ok(taken(8, 0)));
    assert_eq!(limit(send(7)).0, "telemetry-partner");
    // The rows of a day are removed with the next day's, and a user's rows with the account.
    telemetry.erase(sender(1).user, NOW + 61).unwrap();
    telemetry.save_usage().unwrap();
    let rows = |txn: &playgate_store::Txn<'_>| txn.scan::<tables::DayUsage>(&All, 100);
    assert_eq!(bench.store.read(rows).unwrap().len(), 2);
    let tomorrow = NOW + DAY;
    telemetry.ingest(sender(2), events([1]), tomorrow).unwrap();
    telemetry.save_usage().unwrap();
    assert_eq!(bench.store.read(rows).unwrap().len(), 1);
}

#[test]
fn the_oldest_hours_are_dropped_to_free_space() {
    let bench = Bench::new();
    let of = budgets(u64::MAX, None, 32 * MIB);
    let telemetry = bench.open_with(NOW, of);
    assert!(telemetry.warning(NOW).is_none());
    for hour in 0..40 {
        let now = NOW + hour * HOUR;
        let sent = telemetry.ingest(sender(1), large(hour, 1 << 20), now);
        if sent.is_err() {
            assert_eq!(limit(sent), ("telemetry-total", 30));
            assert!(telemetry.make_room(now).unwrap() > 0);
            let message = telemetry.warning(now).unwrap();
            assert!(
                message.starts_with("`telemetry.max_bytes` is reached"),
                "{message}"
            );
            let again = telemetry.ingest(sender(1), large(hour, 1 << 20), now);
            assert_eq!(again, Ok(taken(16, 0)));
        }
    }
    let now = NOW + 40 * HOUR;
    telemetry.make_room(now).unwrap();
    let kept = sequences(&telemetry, Selection::default());
    assert!((28..=30).contains(&(kept.len() / 16)), "{kept:?}");
    assert_eq!(kept.last(), Some(&3_915));
    assert_eq!(telemetry.make_room(now), Ok(0));
    assert!(telemetry.warning(now + 2 * DAY).is_none());
}

#[test]
fn an_upload_that_straddles_the_hour_does_not_reopen_the_finished_segment() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let end = NOW + (HOUR - NOW.0.rem_euclid(HOUR));
    telemetry.ingest(sender(1), events([1]), end - 1).unwrap();
    telemetry.ingest(sender(1), events([2]), end).unwrap();
    let finished = telemetry.inner.directory.events(hour_of(end - 1));
    let length = fs::metadata(&finished).unwrap().len();
    // This upload read the clock before the hour ended.
    let straddling = telemetry.ingest(sender(1), events([1, 3]), end - 1);
    assert_eq!(straddling, Ok(taken(1, 1)));
    assert_eq!(fs::metadata(&finished).unwrap().len(), length);
    // Reopening the segment would have removed its fingerprint file.
    let inner = &telemetry.inner;
    let keys = inner.directory.keys(hour_of(end - 1));
    let state = inner.state.lock();
    assert_eq!(state.segment.as_ref().unwrap().hour, hour_of(end));
    drop(state);
    drop(telemetry);
    assert!(keys.exists());
    let telemetry = bench.open(end);
    let before = Selection {
        to: Some(end),
        ..Selection::default()
    };
    assert_eq!(sequences(&telemetry, before), [1, 3]);
    assert_eq!(sequences(&telemetry, of_user(1)), [1, 2, 3]);
    telemetry.erase(sender(1).user, end).unwrap();
    assert!(sequences(&telemetry, Selection::default()).is_empty());
}

#[test]
fn events_that_arrive_while_an_open_segment_is_rewritten_are_kept() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events(0..500), NOW).unwrap();
    telemetry.ingest(sender(2), events(0..500), NOW).unwrap();
    let sending = telemetry.clone();
    let sender_3 = std::thread::spawn(move || {
        for number in 0..200 {
            sending.ingest(sender(3), events([number]), NOW).unwrap();
        }
    });
    telemetry.erase(sender(1).user, NOW).unwrap();
    telemetry.erase(sender(2).user, NOW).unwrap();
    sender_3.join().unwrap();
    let expected: Vec<i64> = (0..200).collect();
    assert_eq!(sequences(&telemetry, Selection::default()), expected);
    drop(telemetry);
    assert_eq!(sequences(&bench.open(NOW), Selection::default()), expected);
}

#[test]
fn usage_that_could_not_be_saved_is_saved_by_the_next_run() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    let mut state = telemetry.inner.state.lock();
    let (day, rows) = state.usage.take_unsaved();
    assert!(!rows.is_empty());
    state.usage.restore_unsaved(day, rows.clone());
    assert_eq!(state.usage.take_unsaved(), (day, rows.clone()));
    state.usage.restore_unsaved(day - 1, rows);
    assert!(state.usage.take_unsaved().1.is_empty());
}
