//! Files that another program deletes while they are written, and files that cannot be read.

use super::*;

fn stored(telemetry: &Telemetry) -> usize {
    let events = telemetry.events(Selection::default()).unwrap();
    events.map(Result::unwrap).count()
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
    for hours in [2, 1, 0] {
        let at = UnixSeconds(NOW.0 - hours * HOUR);
        telemetry
            .ingest(sender(1), events(hours * 10..hours * 10 + 10), at)
            .unwrap();
    }
    drop(telemetry);
    let mut names: Vec<_> = fs::read_dir(bench.files())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|is| is == "events"))
        .collect();
    names.sort();
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
}
