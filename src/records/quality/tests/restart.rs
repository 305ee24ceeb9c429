//! Figures after a kill at any moment, after damage, and after an erasure.

use std::fs;

use super::*;

/// Copies the files as a kill would leave them.
fn killed(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

fn watch(quality: &Quality, number: u64, at: UnixSeconds) {
    quality.opened(opened(number, at, Labels::default()));
    let millis = at.0 * 1_000;
    let started = PlayerAction::Started(Reported::in_millis(700.0));
    quality.stored(sender(number), event(number, millis, 1, started), at);
    quality.beat(
        &user(number),
        session(number),
        at + 10,
        at.0 + 10,
        3_000_000,
    );
    let stopped = event(number, millis + 20_000, 2, PlayerAction::Stopped);
    quality.stored(sender(number), stopped, at + 20);
    quality.ended(&user(number), session(number), at + 20, true);
}

#[test]
fn figures_are_the_same_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    for round in 0..40_i64 {
        // Ticks close views of the hours before and write checkpoints.
        let at = NOON + round * 400;
        for number in 0..5 {
            watch(&quality, u64::try_from(round).unwrap() * 5 + number, at);
        }
        if round % 3 == 0 {
            quality.tick(at + 30).unwrap();
        }
        let before = quality.report(&all(), at + 40).unwrap();
        let copy = killed(directory.path());
        let again = open(copy.path());
        assert_eq!(
            again.report(&all(), at + 40).unwrap(),
            before,
            "round {round}"
        );
        // A second start in a row, with another close in between.
        again.tick(at + 7_200).unwrap();
        let closed = again.report(&all(), at + 40).unwrap();
        drop(again);
        let again = open(copy.path());
        assert_eq!(
            again.report(&all(), at + 40).unwrap(),
            closed,
            "round {round}"
        );
    }
    let read = figures(&quality, NOON + 40 * 400);
    assert_eq!((read.attempts, read.plays), (200, 200));
}

#[test]
fn a_kill_between_an_hour_and_the_checkpoint_counts_no_view_twice() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    for number in 0..10 {
        watch(&quality, number, NOON);
    }
    let later = NOON + 2 * HOUR;
    let before = figures(&quality, later);
    let log_and_views = killed(directory.path());
    // The tick closes the views, and the checkpoint writes their hour.
    quality.tick(later).unwrap();
    let copy = killed(directory.path());
    for entry in fs::read_dir(copy.path()).unwrap() {
        let path = entry.unwrap().path();
        let is_hour = path.extension().is_some_and(|kind| kind == "rollup");
        if is_hour {
            fs::copy(&path, log_and_views.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let again = open(log_and_views.path());
    again.tick(later).unwrap();
    assert_eq!(figures(&again, later), before);
}

#[test]
fn a_torn_end_of_the_log_loses_the_last_batch_only() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    watch(&quality, 1, NOON);
    assert_eq!(figures(&quality, NOON + 60).plays, 1);
    watch(&quality, 2, NOON);
    assert_eq!(figures(&quality, NOON + 60).plays, 2);
    let copy = killed(directory.path());
    let log = fs::read_dir(copy.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let log = log
        .filter(|path| path.to_string_lossy().contains("inputs-"))
        .max()
        .unwrap();
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(figures(&open(copy.path()), NOON + 60).plays, 1);
}

#[test]
fn a_damaged_hour_is_set_aside_and_the_others_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    watch(&quality, 1, NOON);
    watch(&quality, 2, NOON + HOUR);
    quality.tick(NOON + 3 * HOUR).unwrap();
    drop(quality);
    let mut hours: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "rollup"))
        .collect();
    hours.sort();
    fs::write(&hours[0], b"PGQ1 damaged").unwrap();
    let quality = open(directory.path());
    assert_eq!(figures(&quality, NOON + 3 * HOUR).plays, 1);
    assert!(hours[0].with_extension("rollup.damaged").exists());
}

#[test]
fn an_erased_user_is_in_no_file_and_the_figures_stay() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    watch(&quality, 1, NOON);
    watch(&quality, 2, NOON);
    let before = figures(&quality, NOON + 60);
    quality.erased(&user(1));
    quality.tick(NOON + 61).unwrap();
    assert_eq!(figures(&quality, NOON + 60), before);
    let state = quality.inner.state.lock();
    assert!(state.views.values().all(|view| view.user != Some(user(1))));
    drop(state);
    // The second user shows that the search finds one.
    let (mut first, mut second) = (false, false);
    let again = open(killed(directory.path()).path());
    for view in again.inner.state.lock().views.values() {
        first |= view.user == Some(user(1));
        second |= view.user == Some(user(2));
    }
    assert!(!first && second);
}

#[test]
fn roll_ups_are_removed_after_400_days() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    watch(&quality, 1, NOON);
    quality.tick(NOON + 2 * HOUR).unwrap();
    assert_eq!(quality.retain(NOON + 399 * DAY).unwrap(), 0);
    assert_eq!(figures(&quality, NOON + DAY).plays, 1);
    assert!(quality.retain(NOON + 401 * DAY).unwrap() > 0);
    assert_eq!(figures(&quality, NOON + DAY).plays, 0);
}

#[test]
fn unreadable_files_are_set_aside_and_the_start_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    // A directory in place of a file gives an error when it is read, also for root.
    for name in ["views", "inputs-3"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    let quality = open(directory.path());
    assert!(directory.path().join("views.damaged").exists());
    assert!(directory.path().join("inputs-3.damaged").exists());
    assert_eq!(quality.write_error(), None);
    watch(&quality, 1, NOON);
    assert_eq!(figures(&quality, NOON + 60).plays, 1);
}

#[test]
fn a_write_error_is_shown_until_a_checkpoint_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    let failed = std::io::Error::other("no space");
    quality.inner.state.lock().sync_failed(&failed);
    // Without a log the next batches are only kept in memory.
    watch(&quality, 1, NOON);
    assert_eq!(figures(&quality, NOON + 60).plays, 1);
    assert_eq!(quality.write_error().as_deref(), Some("no space"));
    quality.tick(NOON + 61).unwrap();
    assert_eq!(quality.write_error(), None);
}
