//! Compressed segments.

use std::io::Read as _;

use super::*;
use playgate_segment_log::{MEMBER_BYTES, SegmentForm};

pub(super) const LATER: UnixSeconds = UnixSeconds(NOW.0 + 2 * HOUR);

/// Events like those of real players.
pub(super) fn realistic(numbers: impl IntoIterator<Item = i64>) -> Vec<NewEvent<'static>> {
    let of = |number: i64| {
        let noise = number.wrapping_mul(0x5851_F42D_4C95_7F2D);
        let millis = NOW.0 * 1_000 + number * 37;
        let json = format!(
            "{{\"timestamp\":{},\"source\":\"APP_ACTION\",\"component\":\"player/core\",\"action\":\
             \"playback_buffering\",\"seqId\":{number},\"context\":{{\"playback_buffering_type\":\"rebuffering\",\
             \"duration\":{},\"asset_id\":\"asset-{:03}\",\"device_id\":\"{noise:016x}\",\"playback_bitrate\":{},\
             \"session_id\":\"{:016x}\",\"buffer_length_ms\":{}}},\"extra\":{{\"player_version\":\"4.7.1\",\
             \"os\":\"Android TV 12\",\"network\":\"wifi\"}}}}",
            millis / 1_000,
            noise.rem_euclid(3_000),
            noise.rem_euclid(211),
            1_000_000 + noise.rem_euclid(7_000_000),
            noise.rotate_left(17),
            noise.rem_euclid(30_011),
        );
        NewEvent {
            timestamp_millis: millis,
            json: json.into_bytes().into(),
            player: None,
            ..event(number)
        }
    };
    numbers.into_iter().map(of).collect()
}

/// Fills the hour of `NOW` with several members of events, alternating between users 1 and 2, and finishes it.
pub(super) fn filled(bench: &Bench, most: i64) -> Telemetry {
    let telemetry = bench.open(NOW);
    for from in (0..most).step_by(500) {
        let user = u8::try_from(1 + from / 500 % 2).unwrap();
        telemetry
            .ingest(sender(user), realistic(from..from + 500), NOW)
            .unwrap();
    }
    telemetry.ingest(sender(3), events([1]), LATER).unwrap();
    closed(&telemetry);
    telemetry
}

/// Waits until finished segments are closed and the open one is synced, up to which its events are read.
pub(super) fn closed(telemetry: &Telemetry) {
    loop {
        let state = telemetry.inner.state.lock();
        let unsynced = state.unsynced_since.or(state.syncing_since);
        if state.done.is_empty() && unsynced.is_none() {
            return;
        }
        drop(state);
        std::thread::yield_now();
    }
}

pub(super) fn compress(telemetry: &Telemetry, now: UnixSeconds) {
    while telemetry.compress(now).unwrap() > 0 {}
}

pub(super) fn path(bench: &Bench) -> std::path::PathBuf {
    bench.files().join("2027-01-15T08.events")
}

pub(super) fn form(bench: &Bench) -> SegmentForm {
    SegmentForm::detect(&File::open(path(bench)).unwrap()).unwrap()
}

pub(super) fn unpacked(bench: &Bench) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = File::open(path(bench)).unwrap();
    let mut gzip = flate2::read::MultiGzDecoder::new(file);
    gzip.read_to_end(&mut bytes).unwrap();
    bytes
}

fn temporary_files(bench: &Bench) -> usize {
    let names = fs::read_dir(bench.files()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".new"))
        .count()
}

/// Reads the stored events in every way that the module offers.
fn readings(telemetry: &Telemetry) -> (Vec<StoredEvent>, Vec<i64>, Vec<(i64, u64)>) {
    let all = telemetry.events(Selection::default()).unwrap();
    (
        all.map(Result::unwrap).collect(),
        sequences(telemetry, of_user(2)),
        telemetry.extents().unwrap(),
    )
}

#[test]
fn a_finished_hour_is_compressed_and_reads_as_before() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 8_000);
    let (before, plain) = (readings(&telemetry), fs::read(path(&bench)).unwrap());
    assert!(plain.len() > 3 * MEMBER_BYTES);
    compress(&telemetry, LATER);
    assert_eq!(form(&bench), SegmentForm::Packed);
    assert_eq!(unpacked(&bench), plain);
    assert_eq!(readings(&telemetry), before);
    assert_eq!(temporary_files(&bench), 0);
    let packed = fs::metadata(path(&bench)).unwrap().len();
    assert!(packed * 4 < plain.len() as u64, "{packed}");
    // The total size limit counts bytes on disk.
    let sizes = telemetry.inner.directory.sizes().unwrap();
    assert!(sizes.values().sum::<u64>() < plain.len() as u64 / 2);
    // The same after a restart, and the dedup window is complete.
    drop(telemetry);
    fs::remove_file(bench.files().join("2027-01-15T08.keys")).unwrap();
    let telemetry = bench.open(LATER);
    assert_eq!(readings(&telemetry), before);
    let again = telemetry.ingest(sender(1), realistic(0..500), LATER);
    assert_eq!(again, Ok(taken(0, 500)));
}

#[test]
fn any_part_of_a_compressed_segment_can_be_forwarded() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 4_000);
    let hour = hour_of(NOW);
    let parts = |telemetry: &Telemetry| -> Vec<(u64, i64)> {
        let mut ends = Vec::new();
        let mut from = 0;
        // Read like the forwarder: a few events at a time, each time from the end of the last read.
        while let Some(mut events) = telemetry.part(hour, (from, u64::MAX)).unwrap() {
            for _ in 0..97 {
                match events.next_frame().unwrap() {
                    Some(event) => ends.push((events.sound_end(), event.sequence)),
                    None => return ends,
                }
            }
            from = events.sound_end();
        }
        ends
    };
    let before = parts(&telemetry);
    assert_eq!(before.len(), 4_000);
    compress(&telemetry, LATER);
    assert_eq!(form(&bench), SegmentForm::Packed);
    assert_eq!(parts(&telemetry), before);
}

#[test]
fn hours_that_may_still_be_written_to_stay_plain() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    telemetry.ingest(sender(1), realistic(0..500), NOW).unwrap();
    compress(&telemetry, NOW + HOUR * 5);
    assert_eq!(form(&bench), SegmentForm::Plain, "it is open");
    telemetry
        .ingest(sender(1), events([1]), NOW + HOUR)
        .unwrap();
    closed(&telemetry);
    compress(&telemetry, NOW + HOUR + 299);
    assert_eq!(form(&bench), SegmentForm::Plain, "it has just ended");
    compress(&telemetry, NOW + HOUR + 400);
    assert_eq!(form(&bench), SegmentForm::Packed);
}

#[test]
fn erasure_reaches_compressed_events_and_keeps_the_others_in_place() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 4_000);
    compress(&telemetry, LATER);
    let ends = |telemetry: &Telemetry| {
        let mut ends = Vec::new();
        let mut events = telemetry
            .part(hour_of(NOW), (0, u64::MAX))
            .unwrap()
            .unwrap();
        while let Some(event) = events.next_frame().unwrap() {
            if event.sender == sender(2) {
                ends.push((events.sound_end(), event));
            }
        }
        ends
    };
    let before = ends(&telemetry);
    telemetry.erase(sender(1).user, LATER).unwrap();
    assert_eq!(form(&bench), SegmentForm::Packed);
    assert!(sequences(&telemetry, of_user(1)).is_empty());
    assert_eq!(ends(&telemetry), before);
    let left = unpacked(&bench);
    assert!(!left.windows(16).any(|bytes| bytes == [1; 16]));
    drop(telemetry);
    assert_eq!(ends(&bench.open(LATER)), before);
}

#[test]
fn a_segment_that_changes_while_it_is_compressed_stays_plain() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 10_000);
    assert!(telemetry.compress(LATER).unwrap() > 0);
    assert_eq!(temporary_files(&bench), 1);
    telemetry.erase(sender(1).user, LATER).unwrap();
    while temporary_files(&bench) > 0 {
        telemetry.compress(LATER).unwrap();
    }
    assert_eq!(form(&bench), SegmentForm::Plain);
    assert!(sequences(&telemetry, of_user(1)).is_empty());

    // A clock set back appends to it.
    assert!(telemetry.compress(LATER + 60).unwrap() > 0);
    assert_eq!(temporary_files(&bench), 1);
    let again = telemetry.ingest(sender(4), events([7, 8]), NOW);
    assert_eq!(again, Ok(taken(2, 0)));
    while temporary_files(&bench) > 0 {
        telemetry.compress(LATER + 60).unwrap();
    }
    assert_eq!(form(&bench), SegmentForm::Plain);
    telemetry.ingest(sender(4), events([9]), LATER).unwrap();
    closed(&telemetry);

    // Retention drops it.
    assert!(telemetry.compress(LATER + 120).unwrap() > 0);
    telemetry.drop_before(hour_of(NOW) + 1).unwrap();
    while temporary_files(&bench) > 0 {
        telemetry.compress(LATER + 120).unwrap();
    }
    assert!(!path(&bench).exists());
    assert_eq!(sequences(&telemetry, of_user(4)), [9]);
}

#[test]
fn a_kill_at_any_step_leaves_a_whole_segment() {
    let bench = Bench::new();
    let mut telemetry = filled(&bench, 10_000);
    let before = readings(&telemetry);
    let mut kills = 0;
    for runs in 1.. {
        for _ in 0..runs {
            telemetry.compress(LATER).unwrap();
        }
        if form(&bench) == SegmentForm::Packed {
            break;
        }
        kills += 1;
        assert_eq!(temporary_files(&bench), 1);
        // The temporary file that a kill leaves.
        drop(telemetry);
        telemetry = bench.open(LATER);
        assert_eq!(temporary_files(&bench), 0);
        assert_eq!(readings(&telemetry), before);
    }
    assert!(kills >= 1);
    assert_eq!(readings(&telemetry), before);
}

#[test]
fn a_clock_set_back_unpacks_a_compressed_hour() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 2_000);
    compress(&telemetry, LATER);
    let again = telemetry.ingest(sender(4), events([7, 8]), NOW + 5);
    assert_eq!(again, Ok(taken(2, 0)));
    assert_eq!(form(&bench), SegmentForm::Plain);
    assert_eq!(sequences(&telemetry, of_user(4)), [7, 8]);
    assert_eq!(sequences(&telemetry, of_user(1)).len(), 1_000);
    telemetry.ingest(sender(4), events([9]), LATER).unwrap();
    closed(&telemetry);
    compress(&telemetry, LATER + 60);
    assert_eq!(form(&bench), SegmentForm::Packed);
    assert_eq!(sequences(&telemetry, of_user(4)), [7, 8, 9]);
}

#[test]
fn damage_in_a_compressed_segment_loses_one_member() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 6_000);
    compress(&telemetry, LATER);
    let before = sequences(&telemetry, Selection::default());
    let mut bytes = fs::read(path(&bench)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path(&bench), &bytes).unwrap();
    let after = sequences(&telemetry, Selection::default());
    let lost = before.len() - after.len();
    // A member holds about 1,700 of these events.
    assert!((1..2_500).contains(&lost), "{lost}");
    assert!(after.iter().all(|sequence| before.contains(sequence)));
    assert_eq!(after.first(), before.first());
    assert_eq!(after.last(), before.last());
    // The next erasure rewrites the segment without the damage.
    telemetry.erase(sender(1).user, LATER).unwrap();
    let left = unpacked(&bench);
    assert_eq!(left.len() as u64, telemetry.extents().unwrap()[0].1);
}

#[test]
fn holes_and_a_torn_end_are_compressed_as_they_are() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 6_000);
    telemetry.erase(sender(1).user, LATER).unwrap();
    telemetry.erase(sender(2).user, LATER).unwrap();
    let mut file = File::options().append(true).open(path(&bench)).unwrap();
    file.write_all(b"PGe\x01torn").unwrap();
    let plain = fs::read(path(&bench)).unwrap();
    compress(&telemetry, LATER + 60);
    assert_eq!(form(&bench), SegmentForm::Packed);
    assert_eq!(unpacked(&bench), plain);
    assert_eq!(sequences(&telemetry, Selection::default()), [1]);
}

#[test]
fn a_failed_hour_does_not_block_others_and_is_retried() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    for hour in 0..3 {
        let numbers = hour * 500..(hour + 1) * 500;
        let at = NOW + hour * HOUR;
        telemetry.ingest(sender(1), realistic(numbers), at).unwrap();
    }
    closed(&telemetry);
    let now = NOW + 5 * HOUR;
    // A directory in the place of the temporary file makes compression fail.
    let in_the_way = telemetry.inner.directory.packing(hour_of(NOW));
    fs::create_dir(&in_the_way).unwrap();
    assert!(telemetry.compress(now).is_err());
    compress(&telemetry, now + 60);
    let next = telemetry.inner.directory.events(hour_of(NOW) + 1);
    assert_eq!(
        SegmentForm::detect(&File::open(next).unwrap()).unwrap(),
        SegmentForm::Packed
    );
    assert_eq!(form(&bench), SegmentForm::Plain);
    fs::remove_dir(in_the_way).unwrap();
    compress(&telemetry, now + HOUR);
    assert_eq!(form(&bench), SegmentForm::Packed);
    let expected: Vec<i64> = (0..1_500).collect();
    assert_eq!(sequences(&telemetry, Selection::default()), expected);
}
