//! Files that another program deletes, and files that cannot be used.

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use playgate_ports::SeededEntropy;
use playgate_ports::event_sink::{EventSink, SinkError};

struct Sink(Arc<Mutex<Vec<String>>>);

impl EventSink for Sink {
    fn post(&self, lines: Vec<u8>, _: &str) -> Result<(), SinkError> {
        let lines = String::from_utf8(lines).unwrap();
        self.0.lock().extend(lines.lines().map(str::to_owned));
        Ok(())
    }

    fn stop(&self) {}

    fn resume(&self) {}
}

fn stored(telemetry: &Telemetry) -> usize {
    let events = telemetry.events(Selection::default()).unwrap();
    events.map(Result::unwrap).count()
}

/// Ten events in each of some hours before `NOW`.
fn ingest_hours_before(telemetry: &Telemetry, hours: &[i64]) {
    for hours in hours {
        let at = UnixSeconds(NOW.0 - hours * HOUR);
        telemetry
            .ingest(sender(1), events(hours * 10..hours * 10 + 10), at)
            .unwrap();
    }
}

/// The files with events, the oldest first.
fn event_files(bench: &Bench) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(bench.files())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|is| is == "events"))
        .collect();
    names.sort();
    names
}

#[test]
fn events_of_a_deleted_file_are_written_again() {
    let bench = Bench::new();
    let mut telemetry = bench.open(NOW);
    telemetry.sync_with(|_| Ok(()));
    let loses: [fn(&Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::rename(path, path.with_extension("1")).unwrap();
            fs::write(path, "").unwrap();
        },
        |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
    ];
    let mut sent = 0;
    for lose in loses {
        for _ in 0..2 {
            telemetry
                .ingest(sender(1), events(sent..sent + 10), NOW)
                .unwrap();
            sent += 10;
            if sent % 20 == 10 {
                lose(&bench.file(".events"));
            }
        }
        telemetry.inner.restore_deleted();
        assert_eq!(stored(&telemetry), usize::try_from(sent).unwrap());
    }
    drop(telemetry);
    assert_eq!(stored(&bench.open(NOW)), 60);
}

#[test]
fn an_unreadable_file_of_a_past_hour_does_not_stop_the_start() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest_hours_before(&telemetry, &[2, 1, 0]);
    drop(telemetry);
    let names = event_files(&bench);
    // A directory fails every read.
    for path in [names[0].clone(), names[0].with_extension("keys")] {
        let _ = fs::remove_file(path);
    }
    fs::create_dir(&names[0]).unwrap();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), events(100..110), NOW).unwrap();
    let of_day = Selection {
        from: Some(UnixSeconds(NOW.0 - HOUR)),
        ..Selection::default()
    };
    let read = telemetry.events(of_day).unwrap();
    assert_eq!(read.map(Result::unwrap).count(), 30);
    let warning = telemetry.warning(NOW).unwrap();
    assert!(warning.contains("1 files of past hours"), "{warning}");
    // It keeps no later hour from being forwarded, nor from its retention.
    let sent = Arc::new(Mutex::new(Vec::new()));
    let settings = ForwardSettings {
        batch: 10,
        interval: 1,
    };
    let forwarder = Forwarder::open(
        telemetry.clone(),
        Box::new(Sink(Arc::clone(&sent))),
        |event, out| {
            out.extend(event.json.iter().chain(b"\n"));
            Ok(())
        },
        settings,
        Arc::new(SeededEntropy::new(1)),
    )
    .unwrap();
    telemetry.inner.sync().unwrap();
    assert_eq!(forwarder.run(UnixSeconds(NOW.0 + 60)).unwrap(), 30);
    assert_eq!(sent.lock().len(), 30);
    forwarder.retain(UnixSeconds(NOW.0 + 31 * DAY)).unwrap();
    assert_eq!((stored(&telemetry), telemetry.warning(NOW)), (0, None));
}

/// The thread that looks for deleted files does not run here: the upload itself must notice.
#[test]
fn an_accepted_upload_is_never_in_a_deleted_file() {
    let bench = Bench::new();
    let mut telemetry = bench.open(NOW);
    telemetry.sync_with(|_| Ok(()));
    let mut sent = 0;
    for _ in 0..3 {
        telemetry
            .ingest(sender(1), events(sent..sent + 10), NOW)
            .unwrap();
        sent += 10;
        assert_eq!(stored(&telemetry), usize::try_from(sent).unwrap());
        fs::remove_file(bench.file(".events")).unwrap();
    }
    // What cannot be written again is not accepted, and is accepted once it can.
    fs::remove_dir_all(bench.files()).unwrap();
    fs::write(bench.files(), "in the way").unwrap();
    telemetry
        .ingest(sender(1), events(sent..sent + 10), NOW)
        .unwrap_err();
    fs::remove_file(bench.files()).unwrap();
    let again = telemetry.ingest(sender(1), events(sent..sent + 10), NOW);
    assert_eq!(again.unwrap(), taken(10, 0));
    assert_eq!(stored(&telemetry), 40);
}

#[test]
fn a_finished_file_that_another_program_deletes_is_told_once() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest_hours_before(&telemetry, &[3, 2, 1, 0]);
    drop(telemetry);
    let telemetry = bench.open(NOW);
    let look = || telemetry.look_for_deleted(NOW).unwrap();
    assert_eq!((look(), telemetry.warning(NOW)), (0, None));
    let names = event_files(&bench);
    for path in &names[..2] {
        fs::remove_file(path).unwrap();
    }
    assert_eq!((look(), look()), (2, 0));
    let warning = telemetry.warning(NOW).unwrap();
    for path in &names[..2] {
        assert!(
            warning.contains(path.file_name().unwrap().to_str().unwrap()),
            "{warning}"
        );
    }
    assert_eq!(telemetry.warning(UnixSeconds(NOW.0 + DAY)), None);
    // What retention deletes, and what is written again, is no news.
    telemetry
        .retain(UnixSeconds(NOW.0 + 30 * DAY - HOUR))
        .unwrap();
    fs::remove_file(&names[3]).unwrap();
    assert_eq!(look(), 0);
}

#[test]
fn what_is_in_the_way_of_the_present_hour_is_set_aside() {
    type Spoil = fn(&Path);
    let pipe: Spoil = |path| {
        let _ = fs::remove_file(path);
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    };
    let directory: Spoil = |path| {
        let _ = fs::remove_file(path);
        fs::create_dir(path).unwrap();
    };
    let garbage: Spoil = |path| fs::write(path, b"PGt garbage \x1f\x8b\x08").unwrap();
    for (ending, spoil, is_kept) in [
        ("events", pipe, false),
        ("events", directory, false),
        ("events", garbage, false),
        ("length", pipe, true),
        ("length", directory, true),
        ("keys", pipe, true),
        ("keys", directory, true),
    ] {
        // At a start, and while the service runs.
        for later in [0, HOUR] {
            let bench = Bench::new();
            let at = UnixSeconds(NOW.0 + later);
            let telemetry = bench.open(at);
            telemetry.ingest(sender(1), events(0..10), at).unwrap();
            drop(telemetry);
            let running = (later > 0).then(|| bench.open(NOW));
            spoil(&bench.file(".events").with_extension(ending));
            let telemetry = running.unwrap_or_else(|| bench.open(at));
            telemetry.ingest(sender(1), events(10..20), at).unwrap();
            let expected = if is_kept { 20 } else { 10 };
            assert_eq!(stored(&telemetry), expected, "{ending} {later}");
            drop(telemetry);
            assert_eq!(stored(&bench.open(at)), expected, "{ending} {later}");
        }
    }
}
