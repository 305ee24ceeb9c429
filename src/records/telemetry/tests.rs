//! Behaviour of telemetry as a whole, with segment files in a temporary directory.

mod compressed;
mod index_of_users;
mod limits;
mod lost_files;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use super::segment::report_torn_end;
use super::*;
use playgate_store::{All, Options, SYNC_WITHIN, Schema};
use playgate_types::PartnerId;

pub(super) const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
pub(super) const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

pub(super) struct Bench {
    directory: tempfile::TempDir,
    pub(super) store: Store,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            store: Store::in_memory(schema(Schema::default())),
        }
    }

    fn files(&self) -> std::path::PathBuf {
        self.directory.path().join("telemetry")
    }

    pub(super) fn open(&self, now: UnixSeconds) -> Telemetry {
        let budgets = Budgets {
            user_per_day: u64::MAX,
            partner_per_day: None,
            total: u64::MAX,
        };
        self.open_with(now, budgets)
    }

    fn open_with(&self, now: UnixSeconds, budgets: Budgets) -> Telemetry {
        let settings = TelemetrySettings {
            directory: self.files(),
            retention_days: 30,
            budgets,
            sync: true,
            // User 66 was erased.
            exists: |_, user| Ok(*user != UserId::from_bytes([66; 16])),
        };
        let failed = |error: &TelemetryError| panic!("{error}");
        let telemetry = Telemetry::open(self.store.clone(), settings, failed).unwrap();
        telemetry.begin(now).unwrap();
        telemetry
    }

    pub(super) fn file(&self, ending: &str) -> std::path::PathBuf {
        let mut found = fs::read_dir(self.files())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect::<Vec<_>>();
        found.sort();
        found.pop().unwrap()
    }

    fn index_rows(&self) -> usize {
        let rows = |txn: &playgate_store::Txn<'_>| txn.scan::<tables::UserHours>(&All, 100);
        self.store.read(rows).unwrap().len()
    }
}

impl Telemetry {
    /// Replaces what the thread does, which usually is to sync and to close finished segments.
    pub(super) fn sync_with(
        &mut self,
        sync: impl Fn(&Inner) -> Result<(), TelemetryError> + Send + 'static,
    ) {
        let thread = SyncThread::start_with(Arc::clone(&self.inner), sync, |_| {});
        self._sync = Arc::new(thread.unwrap());
    }
}

pub(super) fn sender(number: u8) -> Sender {
    Sender {
        user: UserId::from_bytes([number; 16]),
        partner: PartnerId::from_bytes([9; 16]),
    }
}

fn event(sequence: i64) -> NewEvent<'static> {
    NewEvent {
        timestamp_millis: NOW.0 * 1_000,
        sequence,
        action: "playback_buffering".into(),
        device: Some("tv".into()),
        json: format!("{{\"seqId\":{sequence}}}").into_bytes().into(),
        player: None,
        ignored_values: 0,
    }
}

pub(super) fn events(sequences: impl IntoIterator<Item = i64>) -> Vec<NewEvent<'static>> {
    sequences.into_iter().map(event).collect()
}

fn taken(accepted: u32, duplicates: u32) -> Accepted {
    Accepted {
        accepted,
        duplicates,
    }
}

fn sequences(telemetry: &Telemetry, selection: Selection) -> Vec<i64> {
    let events = telemetry.events(selection).unwrap();
    events.map(|event| event.unwrap().sequence).collect()
}

fn of_user(number: u8) -> Selection {
    Selection {
        user: Some(sender(number).user),
        ..Selection::default()
    }
}

#[test]
fn events_are_kept_as_sent() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let later = NOW + 7;
    let answer = telemetry.ingest(sender(1), events([1, 2]), later).unwrap();
    assert_eq!(answer, taken(2, 0));
    let all: Vec<_> = telemetry
        .events(Selection::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(all[1].json, b"{\"seqId\":2}");
    assert_eq!(all[1].sender, sender(1));
    assert_eq!((all[1].received, all[1].clock_skew()), (later, -7));
    assert_eq!(telemetry.counts().accepted, 2);
}

#[test]
fn a_panic_of_the_sync_thread_is_reported_and_stops_ingestion() {
    let bench = Bench::new();
    let (report, reported) = std::sync::mpsc::channel();
    let settings = TelemetrySettings {
        directory: bench.files(),
        retention_days: 30,
        budgets: Budgets {
            user_per_day: u64::MAX,
            partner_per_day: None,
            total: u64::MAX,
        },
        sync: true,
        exists: |_, _| Ok(true),
    };
    let telemetry = Telemetry::open(bench.store.clone(), settings, |_| {}).unwrap();
    telemetry.begin(NOW).unwrap();
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    let defect = |_: &Inner| panic!("a defect");
    let inner = Arc::clone(&telemetry.inner);
    let on_failure = move |error: &TelemetryError| report.send(error.clone()).unwrap();
    let thread = SyncThread::start_with(inner, defect, on_failure).unwrap();
    let failed = TelemetryError::Failed("its sync panicked".to_owned());
    assert_eq!(reported.recv().unwrap(), failed);
    // It is reported only once, since the thread has ended.
    assert!(reported.recv().is_err());
    drop(thread);
    assert_eq!(telemetry.ingest(sender(1), events([2]), NOW), Err(failed));
}

#[test]
fn uploads_wait_for_a_disk_that_is_behind_with_its_syncs() {
    let bench = Bench::new();
    let Telemetry { inner, _sync } = bench.open(NOW);
    drop(_sync);
    let never = SyncThread::start_with(Arc::clone(&inner), |_| Ok(()), |_| {}).unwrap();
    let telemetry = Telemetry {
        inner: Arc::clone(&inner),
        _sync: Arc::new(never),
    };
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry.ingest(sender(1), events([2]), NOW).unwrap();
    inner.state.lock().unsynced_since = Instant::now().checked_sub(2 * SYNC_WITHIN);
    let refused = telemetry.ingest(sender(1), events([3]), NOW);
    assert_eq!(refused, Err(TelemetryError::SyncOverdue));

    let upload = std::thread::spawn(move || telemetry.ingest(sender(1), events([3]), NOW));
    inner.sync().unwrap();
    assert_eq!(upload.join().unwrap().unwrap().accepted, 1);
}

#[test]
fn events_of_an_erased_user_are_rejected_and_leave_nothing() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let refused = telemetry.ingest(sender(66), events([1]), NOW);
    assert_eq!(refused, Err(TelemetryError::UserGone));
    assert_eq!(bench.index_rows(), 0);
    assert!(sequences(&telemetry, Selection::default()).is_empty());
}

#[test]
fn each_part_of_the_key_distinguishes_events() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let same = event(1);
    let other_device = NewEvent {
        device: Some("phone".into()),
        ..same.clone()
    };
    let no_device = NewEvent {
        device: None,
        ..same.clone()
    };
    let empty_device = NewEvent {
        device: Some("".into()),
        ..same.clone()
    };
    let other_time = NewEvent {
        timestamp_millis: 1,
        ..same.clone()
    };
    let other_action = NewEvent {
        action: "playback_start".into(),
        ..same.clone()
    };
    let other_text = NewEvent {
        json: b"{}".into(),
        ..same.clone()
    };
    let batch = vec![
        same.clone(),
        other_device,
        no_device,
        empty_device,
        other_time,
        other_action,
        event(2),
        // The text is not part of the key, and a batch may contain duplicates.
        other_text,
        same.clone(),
    ];
    assert_eq!(telemetry.ingest(sender(1), batch, NOW), Ok(taken(7, 2)));
    assert_eq!(
        telemetry.ingest(sender(2), vec![same], NOW),
        Ok(taken(1, 0))
    );
}

#[test]
fn duplicates_are_detected_for_seven_days_across_restarts() {
    let bench = Bench::new();
    let send = |telemetry: &Telemetry, at| telemetry.ingest(sender(1), events([1, 2]), at);
    assert_eq!(send(&bench.open(NOW), NOW), Ok(taken(2, 0)));
    for after in [0, 1, 2 * HOUR, 3 * DAY, 7 * DAY - 1] {
        let at = NOW + after;
        assert_eq!(send(&bench.open(at), at), Ok(taken(0, 2)), "{after}");
    }
    // The same without a restart.
    let telemetry = bench.open(NOW);
    assert_eq!(send(&telemetry, NOW + 7 * DAY - 1), Ok(taken(0, 2)));
    assert_eq!(send(&telemetry, NOW + 8 * DAY), Ok(taken(2, 0)));
    // A repeated event is known from its last arrival on.
    let at = NOW + 14 * DAY;
    assert_eq!(send(&bench.open(at), at), Ok(taken(0, 2)));
}

#[test]
fn the_length_of_a_segment_is_kept() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let agree = || {
        let length = fs::metadata(bench.file(".events")).unwrap().len();
        let kept = playgate_segment_log::lengths::Lengths::read(&bench.file(".length"));
        assert_eq!((kept.written, kept.synced), (length, length));
    };
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry.inner.sync().unwrap();
    agree();
    telemetry.ingest(sender(2), events([2, 3]), NOW).unwrap();
    telemetry.inner.sync().unwrap();
    agree();
    telemetry.erase(sender(1).user, NOW).unwrap();
    agree();
    telemetry.ingest(sender(2), events([4]), NOW).unwrap();
    drop(telemetry);
    agree();
    bench.open(NOW).retain(NOW + 40 * DAY).unwrap();
    assert_eq!(fs::read_dir(bench.files()).unwrap().count(), 0);
}

#[test]
fn fingerprints_are_read_from_the_segment_if_their_file_is_damaged() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry
        .ingest(sender(1), events([2]), NOW + HOUR)
        .unwrap();
    drop(telemetry);
    let path = bench.file(".keys");
    let sound = fs::read(&path).unwrap();
    for damage in [None, Some(&b""[..]), Some(&sound[..sound.len() - 1])] {
        match damage {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let at = NOW + 2 * HOUR;
        let answer = bench.open(at).ingest(sender(1), events([1, 2]), at);
        assert_eq!(answer, Ok(taken(0, 2)));
        assert_eq!(fs::read(&path).unwrap(), sound);
    }
}

#[test]
fn a_torn_end_is_cut_off_and_sent_again() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    let path = bench.file(".events");
    let one = fs::metadata(&path).unwrap().len();
    telemetry.ingest(sender(1), events([2]), NOW).unwrap();
    drop(telemetry);
    let whole = fs::read(&path).unwrap();
    for torn in [one + 1, one + 20, whole.len() as u64 - 1] {
        fs::write(&path, &whole).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(torn).unwrap();
        assert_eq!(report_torn_end(&path, one).unwrap(), Some(torn - one));
        let telemetry = bench.open(NOW);
        assert_eq!(report_torn_end(&path, one).unwrap(), None);
        assert_eq!(fs::metadata(&path).unwrap().len(), one, "{torn}");
        let answer = telemetry.ingest(sender(1), events([1, 2]), NOW);
        assert_eq!(answer, Ok(taken(1, 1)));
        assert_eq!(sequences(&telemetry, Selection::default()), [1, 2]);
    }
    // After a power cut, blocks that were never written read as zeros.
    fs::write(&path, &whole).unwrap();
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([3]), NOW).unwrap();
    assert_eq!(sequences(&telemetry, Selection::default()), [1, 2, 3]);
}

#[test]
fn damage_loses_only_the_events_that_it_hits() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events(0..9), NOW).unwrap();
    drop(telemetry);
    let path = bench.file(".events");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let telemetry = bench.open(NOW);
    let left = sequences(&telemetry, Selection::default());
    assert_eq!(left, [0, 1, 2, 3, 5, 6, 7, 8]);
    let answer = telemetry.ingest(sender(1), events(0..9), NOW);
    assert_eq!(answer, Ok(taken(1, 8)));
}

#[test]
fn a_selection_is_by_time_and_user() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry.ingest(sender(2), events([2]), NOW + 1).unwrap();
    telemetry
        .ingest(sender(1), events([3]), NOW + HOUR)
        .unwrap();
    telemetry.ingest(sender(2), events([4]), NOW + DAY).unwrap();
    let within = |from: i64, to: i64| Selection {
        from: Some(NOW + from),
        to: Some(NOW + to),
        user: None,
    };
    assert_eq!(sequences(&telemetry, Selection::default()), [1, 2, 3, 4]);
    assert_eq!(sequences(&telemetry, within(1, DAY)), [2, 3]);
    assert_eq!(sequences(&telemetry, within(0, 1)), [1]);
    assert_eq!(sequences(&telemetry, of_user(1)), [1, 3]);
    assert!(sequences(&telemetry, of_user(3)).is_empty());
}

#[test]
fn erasing_a_user_keeps_the_events_of_others() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    for hours in 0..3 {
        let at = NOW + hours * HOUR;
        telemetry.ingest(sender(1), events([hours]), at).unwrap();
        telemetry
            .ingest(sender(2), events([10 + hours]), at)
            .unwrap();
    }
    let now = NOW + 2 * HOUR;
    telemetry.erase(sender(1).user, now).unwrap();
    assert_eq!(sequences(&telemetry, Selection::default()), [10, 11, 12]);
    assert_eq!(bench.index_rows(), 3);
    let trace = sender(1).user;
    for entry in fs::read_dir(bench.files()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let found = bytes.windows(16).any(|window| window == trace.as_bytes());
        assert!(!found, "the user's id is still in a file");
    }
    // The open segment remains writable, and the index gets a new entry for the user.
    telemetry.ingest(sender(2), events([13]), now).unwrap();
    telemetry.ingest(sender(1), events([4]), now).unwrap();
    assert_eq!(sequences(&telemetry, of_user(1)), [4]);
    drop(telemetry);
    let telemetry = bench.open(now);
    assert_eq!(sequences(&telemetry, of_user(2)), [10, 11, 12, 13]);
}

#[test]
fn a_requested_erasure_is_done_by_the_job() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    let user = sender(1).user;
    let noted: Result<(), playgate_store::StoreError> = bench
        .store
        .write(playgate_store::Durability::Durable, move |txn| {
            request_erasure(txn, &user, NOW)
        })
        .wait();
    noted.unwrap();
    drop(telemetry);
    let telemetry = bench.open(NOW);
    assert_eq!(sequences(&telemetry, of_user(1)), [1]);
    assert_eq!(telemetry.run_erasures(), Ok(1));
    assert!(sequences(&telemetry, Selection::default()).is_empty());
    assert_eq!(telemetry.run_erasures(), Ok(0));
}

#[test]
fn expired_hours_are_dropped_whole() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    for days in [0, 1, 29] {
        let at = NOW + days * DAY;
        telemetry.ingest(sender(1), events([days]), at).unwrap();
    }
    let now = NOW + 30 * DAY;
    assert_eq!(telemetry.retain(now), Ok(0));
    assert_eq!(telemetry.retain(now + HOUR), Ok(1));
    assert_eq!(sequences(&telemetry, Selection::default()), [1, 29]);
    assert_eq!(bench.index_rows(), 2);
    // A clock that jumps ahead drops even the open segment; ingestion continues.
    let leap = NOW + 300 * DAY;
    assert_eq!(telemetry.retain(leap), Ok(2));
    assert_eq!(bench.index_rows(), 0);
    telemetry.ingest(sender(1), events([5]), leap).unwrap();
    assert_eq!(sequences(&telemetry, Selection::default()), [5]);
}

#[test]
fn a_clock_set_back_appends_to_an_older_hour() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry.ingest(sender(1), events([2]), NOW + DAY).unwrap();
    telemetry.ingest(sender(1), events([3]), NOW).unwrap();
    assert_eq!(sequences(&telemetry, Selection::default()), [1, 3, 2]);
    drop(telemetry);
    let later = NOW + 2 * DAY;
    let answer = bench
        .open(later)
        .ingest(sender(1), events([1, 2, 3]), later);
    assert_eq!(answer, Ok(taken(0, 3)));
}

#[test]
fn events_that_cannot_be_written_are_not_remembered() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    // A file in the place of the directory makes opening the segment fail.
    fs::remove_dir_all(bench.files()).unwrap();
    fs::write(bench.files(), "in the way").unwrap();
    assert!(telemetry.ingest(sender(1), events([1]), NOW).is_err());
    fs::remove_file(bench.files()).unwrap();
    fs::create_dir(bench.files()).unwrap();
    let answer = telemetry.ingest(sender(1), events([1]), NOW);
    assert_eq!(answer, Ok(taken(1, 0)));
}

/// Simulates a kill by reopening a store on disk.
#[test]
fn the_index_agrees_with_the_files_after_a_reopen() {
    let bench = Bench::new();
    let open =
        |path: &Path| Store::open(path, schema(Schema::default()), Options::default()).unwrap();
    let on_disk = Bench {
        directory: tempfile::tempdir().unwrap(),
        store: open(bench.directory.path()),
    };
    let telemetry = on_disk.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    drop(telemetry);
    drop(on_disk.store);
    let again = Bench {
        directory: on_disk.directory,
        store: open(bench.directory.path()),
    };
    let telemetry = again.open(NOW);
    assert_eq!(sequences(&telemetry, of_user(1)), [1]);
    for report in again.store.verify().unwrap().tables {
        assert!(report.is_sound(), "{report:?}");
    }
}

/// Changes the index as a restored backup does: to an earlier state, or to that of another server.
fn change_index(bench: &Bench, change: impl FnOnce(&mut playgate_store::Txn<'_>) + Send + 'static) {
    let changed: Result<(), playgate_store::StoreError> = bench
        .store
        .write(playgate_store::Durability::Durable, move |txn| {
            change(txn);
            Ok(())
        })
        .wait();
    changed.unwrap();
}

#[test]
fn events_since_the_backup_are_found_and_erased_after_a_restore() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry.ingest(sender(2), events([2]), NOW).unwrap();
    for (sequence, hours) in [(3, 1), (4, 2), (5, 30)] {
        let at = NOW + hours * HOUR;
        telemetry.ingest(sender(2), events([sequence]), at).unwrap();
    }
    let rows = bench.index_rows();
    drop(telemetry);
    // The backup was made in the first hour, before the second user sent anything.
    change_index(&bench, |txn| {
        for hours in [0, 1, 2, 30] {
            let key = (hour_of(NOW + hours * HOUR), sender(2).user);
            txn.delete::<tables::UserHours>(&key).unwrap();
        }
    });
    let telemetry = bench.open(NOW + 31 * HOUR);
    assert_eq!(bench.index_rows(), rows);
    assert_eq!(sequences(&telemetry, of_user(2)), [2, 3, 4, 5]);
    telemetry.erase(sender(2).user, NOW + 31 * HOUR).unwrap();
    assert_eq!(sequences(&telemetry, Selection::default()), [1]);
    // A start must not bring back index entries of erased events.
    drop(telemetry);
    let telemetry = bench.open(NOW + 31 * HOUR);
    assert_eq!(bench.index_rows(), 1);
    assert_eq!(sequences(&telemetry, Selection::default()), [1]);
}

#[test]
fn an_index_without_its_events_does_no_harm() {
    let bench = Bench::new();
    // The index comes from another server; the segment files do not.
    change_index(&bench, |txn| {
        for hours in 0..50 {
            let key = (hour_of(NOW) - hours, sender(1).user);
            let record = tables::UserHourRecord {};
            txn.put::<tables::UserHours>(&key, &record).unwrap();
        }
    });
    let telemetry = bench.open(NOW);
    assert!(sequences(&telemetry, of_user(1)).is_empty());
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    assert_eq!(sequences(&telemetry, of_user(1)), [1]);
    telemetry.retain(NOW + 29 * DAY).unwrap();
    telemetry.erase(sender(1).user, NOW).unwrap();
    assert_eq!(bench.index_rows(), 0);
    assert!(sequences(&telemetry, Selection::default()).is_empty());
}

#[test]
fn a_finished_segment_that_was_rewritten_can_be_appended_to() {
    let bench = Bench::new();
    let mut telemetry = bench.open(NOW);
    telemetry.sync_with(Inner::sync);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    telemetry.ingest(sender(2), events([2]), NOW).unwrap();
    let later = NOW + 2 * HOUR;
    telemetry.ingest(sender(2), events([3]), later).unwrap();
    assert_eq!(telemetry.inner.state.lock().done.len(), 1);
    telemetry.erase(sender(1).user, later).unwrap();
    // The clock is set back before the finished segment is closed.
    telemetry.ingest(sender(2), events([4]), NOW).unwrap();
    assert_eq!(sequences(&telemetry, Selection::default()), [2, 4, 3]);
}

#[test]
fn a_segment_whose_file_was_replaced_is_not_in_place() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events([1]), NOW).unwrap();
    let path = bench.file(".events");
    let in_place = || {
        let state = telemetry.inner.state.lock();
        state.segment.as_ref().unwrap().is_in_place(&path)
    };
    assert!(in_place());
    let copy = path.with_extension("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    assert!(!in_place());
}

#[test]
fn a_failing_erasure_does_not_stop_those_of_other_users() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.erase_elsewhere(Arc::new(|user| match *user == sender(1).user {
        true => Err("away".to_owned()),
        false => Ok(()),
    }));
    for number in 1..4 {
        let sent = events([number.into()]);
        telemetry.ingest(sender(number), sent, NOW).unwrap();
    }
    change_index(&bench, |txn| {
        for number in 1..3 {
            request_erasure(txn, &sender(number).user, NOW).unwrap();
        }
    });
    assert!(telemetry.run_erasures().is_err());
    assert_eq!(sequences(&telemetry, Selection::default()), [1, 3]);
}
