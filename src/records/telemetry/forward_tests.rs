//! Behaviour of event forwarding, against a sink that each test scripts.

use std::fs::{self, File};

use super::super::tests::{Bench, HOUR, NOW, events, sender};
use super::*;
use crate::telemetry::tables::{Forwarded, ForwardedRecord};
use crate::telemetry::{NewEvent, hour_of, request_erasure};
use playgate_ports::SeededEntropy;
use playgate_segment_log::SegmentForm;
use playgate_store::{Durability, StoreError};

/// How a sink answers a batch.
type Manner = Box<dyn Fn(&[i64]) -> Result<(), SinkError> + Send + Sync>;

/// A scripted sink. Records the sequence numbers and the key of each batch, and whether it was accepted.
#[derive(Clone)]
struct Sink(Arc<SinkInner>);

struct SinkInner {
    seen: Mutex<Vec<(Vec<i64>, String, bool)>>,
    manner: Mutex<Manner>,
}

impl Sink {
    fn new(manner: impl Fn(&[i64]) -> Result<(), SinkError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(SinkInner {
            seen: Mutex::default(),
            manner: Mutex::new(Box::new(manner)),
        }))
    }

    fn accepting() -> Self {
        Self::new(|_| Ok(()))
    }

    fn set_manner(&self, manner: impl Fn(&[i64]) -> Result<(), SinkError> + Send + Sync + 'static) {
        *self.0.manner.lock() = Box::new(manner);
    }

    /// Returns the batches since the last call, each with whether it was accepted.
    fn batches(&self) -> Vec<(Vec<i64>, bool)> {
        let seen = self.with_keys().into_iter();
        seen.map(|(numbers, _, taken)| (numbers, taken)).collect()
    }

    fn with_keys(&self) -> Vec<(Vec<i64>, String, bool)> {
        std::mem::take(&mut *self.0.seen.lock())
    }

    /// Returns the events accepted since the last call.
    fn accepted(&self) -> Vec<i64> {
        let seen = self.batches().into_iter();
        seen.filter(|(_, taken)| *taken)
            .flat_map(|(numbers, _)| numbers)
            .collect()
    }
}

impl EventSink for Sink {
    fn post(&self, lines: Vec<u8>, key: &str) -> Result<(), SinkError> {
        let lines = String::from_utf8(lines).unwrap();
        let numbers: Vec<i64> = lines.lines().map(|line| line.parse().unwrap()).collect();
        let result = (self.0.manner.lock())(&numbers);
        let seen = (numbers, key.to_owned(), result.is_ok());
        self.0.seen.lock().push(seen);
        result
    }

    fn stop(&self) {}

    fn resume(&self) {}
}

fn away() -> Result<(), SinkError> {
    Err(SinkError::Later {
        reason: "away".to_owned(),
        wait: None,
    })
}

fn refused() -> Result<(), SinkError> {
    Err(SinkError::Refused("no".to_owned()))
}

/// Writes the sequence number of an event as its line. An event without one fails.
fn line(event: &StoredEvent, out: &mut Vec<u8>) -> io::Result<()> {
    if event.sequence < 0 {
        return Err(io::Error::other("no JSON"));
    }
    out.extend(format!("{}\n", event.sequence).bytes());
    Ok(())
}

fn forwarder(telemetry: &Telemetry, sink: &Sink, batch: usize) -> Forwarder {
    let settings = ForwardSettings { batch, interval: 5 };
    let entropy = Arc::new(SeededEntropy::new(1));
    let sink = Box::new(sink.clone());
    Forwarder::open(telemetry.clone(), sink, line, settings, entropy).unwrap()
}

/// Ingests events and waits until they are synced.
fn ingest(telemetry: &Telemetry, user: u8, events: Vec<NewEvent<'_>>, now: UnixSeconds) {
    telemetry.ingest(sender(user), events, now).unwrap();
    let written = |(hour, length): &Extent| {
        let path = telemetry.inner.directory.events(*hour);
        fs::metadata(path).unwrap().len() == *length
    };
    while !telemetry.extents().unwrap().iter().all(written) {
        std::thread::yield_now();
    }
}

#[test]
fn full_batches_are_sent_at_once_and_others_after_the_interval() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::accepting();
    let forwarder = forwarder(&telemetry, &sink, 3);
    assert_eq!(forwarder.run(NOW), Ok(0));
    ingest(&telemetry, 1, events(0..7), NOW);
    assert_eq!(forwarder.run(NOW + 4), Ok(6));
    assert_eq!(
        sink.batches(),
        [(vec![0, 1, 2], true), (vec![3, 4, 5], true)]
    );
    assert_eq!(forwarder.lag(NOW + 4), 4);
    assert_eq!(forwarder.run(NOW + 5), Ok(1));
    assert_eq!(sink.accepted(), [6]);
    assert_eq!((forwarder.lag(NOW + 9), forwarder.run(NOW + 9)), (0, Ok(0)));
    // A clock set back does not delay sending, and appends to an older hour.
    ingest(&telemetry, 1, events([7]), NOW + 2 * HOUR);
    assert_eq!(forwarder.run(NOW), Ok(1));
    ingest(&telemetry, 1, events([8]), NOW);
    assert_eq!(forwarder.run(NOW + 5), Ok(1));
    // The rest of a finished hour is sent without waiting.
    ingest(&telemetry, 1, events([9]), NOW);
    ingest(&telemetry, 1, events([10]), NOW + 2 * HOUR);
    assert_eq!(forwarder.run(NOW + 1), Ok(2));
    assert_eq!(sink.accepted(), [7, 8, 9, 10]);
    assert_eq!(forwarder.counts().sent, 11);
}

#[test]
fn the_cursor_survives_a_restart_and_an_unanswered_batch_is_resent_unchanged() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest(&telemetry, 1, events(0..4), NOW);
    let sink = Sink::accepting();
    assert_eq!(forwarder(&telemetry, &sink, 3).run(NOW), Ok(3));
    sink.set_manner(|_| away());
    assert_eq!(forwarder(&telemetry, &sink, 3).run(NOW + 5), Ok(0));
    let seen = sink.with_keys();
    // More events arrived before the restart.
    ingest(&telemetry, 1, events(4..9), NOW + 6);
    sink.set_manner(|_| Ok(()));
    let again = forwarder(&telemetry, &sink, 3);
    assert_eq!(again.run(NOW + 6), Ok(4));
    let more = sink.with_keys();
    assert_eq!(seen[1], (vec![3], more[0].1.clone(), false));
    assert_eq!((&more[0].0, &more[1].0), (&vec![3], &vec![4, 5, 6]));
    assert_ne!(more[0].1, more[1].1);
    drop(again);
    // Without the cursor everything is sent again.
    fs::remove_file(telemetry.inner.directory.forwarded()).unwrap();
    assert_eq!(forwarder(&telemetry, &sink, 100).run(NOW + 99), Ok(9));
    // And if it is damaged.
    let mut bytes = fs::read(telemetry.inner.directory.forwarded()).unwrap();
    bytes[9] ^= 1;
    fs::write(telemetry.inner.directory.forwarded(), bytes).unwrap();
    assert_eq!(forwarder(&telemetry, &sink, 100).run(NOW + 99), Ok(9));
    assert_eq!(forwarder(&telemetry, &sink, 100).run(NOW + 99), Ok(0));
}

#[test]
fn a_cursor_that_an_earlier_version_kept_in_the_store_is_continued() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::accepting();
    ingest(&telemetry, 1, events(0..2), NOW);
    let (hour, sent) = telemetry.extents().unwrap()[0];
    ingest(&telemetry, 1, events(2..4), NOW);
    let rows = [(hour, sent), (hour + 1, 100)];
    let kept: Result<(), StoreError> = bench
        .store
        .write(Durability::Durable, move |txn| {
            rows.iter().try_for_each(|(hour, sent)| {
                let record = ForwardedRecord {
                    sent: *sent,
                    offered: *sent,
                };
                txn.put::<Forwarded>(hour, &record)
            })
        })
        .wait();
    kept.unwrap();
    assert_eq!(forwarder(&telemetry, &sink, 2).run(NOW), Ok(2));
    assert_eq!(sink.accepted(), [2, 3]);
    // The segment of the next hour was on another machine: what was sent of it says nothing of the one here.
    ingest(&telemetry, 1, events(4..6), NOW + HOUR);
    assert_eq!(forwarder(&telemetry, &sink, 2).run(NOW + HOUR), Ok(2));
    assert_eq!(sink.accepted(), [4, 5]);
    assert_eq!(telemetry.retain(NOW + 40 * 24 * HOUR), Ok(2));
    let rows = |txn: &playgate_store::Txn<'_>| txn.scan::<Forwarded>(&All, 9);
    assert!(bench.store.read(rows).unwrap().is_empty());
}

#[test]
fn a_forwarder_that_was_stopped_can_be_resumed() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::accepting();
    ingest(&telemetry, 1, events(0..2), NOW);
    let forwarder = forwarder(&telemetry, &sink, 2);
    forwarder.stop();
    assert_eq!(forwarder.run(NOW), Ok(0));
    forwarder.resume();
    assert_eq!(forwarder.run(NOW), Ok(2));
}

#[test]
fn pauses_grow_and_respect_what_the_sink_asks_for() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest(&telemetry, 1, events([1]), NOW);
    let sink = Sink::new(|_| away());
    let forwarder = forwarder(&telemetry, &sink, 1);
    let tries = |seconds: std::ops::Range<i64>| {
        seconds
            .filter(|second| {
                forwarder.run(NOW + *second).unwrap();
                !sink.batches().is_empty()
            })
            .count()
    };
    assert!((5..=9).contains(&tries(0..100)), "doubled from a second on");
    assert!(
        (8..=18).contains(&tries(1_000..4_000)),
        "up to five minutes"
    );
    let warning = forwarder.warning(NOW + 4_000).unwrap();
    assert_eq!(warning, "away; events have waited for 4000 seconds");
    sink.set_manner(|_| {
        Err(SinkError::Later {
            reason: "busy".to_owned(),
            wait: Some(100_000),
        })
    });
    assert_eq!(tries(5_000..5_400), 1);
    // The pause that a sink asks for is capped.
    assert_eq!(tries(5_400..9_200), 1);
    // A pause set by a clock that was ahead is ignored.
    sink.set_manner(|_| Ok(()));
    assert_eq!(forwarder.run(NOW), Ok(1));
    assert_eq!(forwarder.warning(NOW), None);
}

#[test]
fn a_rejected_batch_is_halved_until_a_single_event_is_skipped() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest(&telemetry, 1, events(0..100), NOW);
    let sink = Sink::new(
        |numbers| match numbers.len() > 10 || numbers.contains(&42) {
            true => refused(),
            false => Ok(()),
        },
    );
    let forwarder = forwarder(&telemetry, &sink, 64);
    assert_eq!(forwarder.run(NOW + 5), Ok(99));
    let all: Vec<i64> = (0..100).filter(|number| *number != 42).collect();
    assert_eq!(sink.accepted(), all);
    assert_eq!(forwarder.counts().refused, 1);
    assert_eq!(forwarder.warning(NOW + 5), None);
    // Later batches grow back to the configured size.
    ingest(&telemetry, 1, events(100..1_000), NOW + 6);
    sink.set_manner(|_| Ok(()));
    assert_eq!(forwarder.run(NOW + 11), Ok(900));
    let largest = sink
        .batches()
        .iter()
        .map(|(numbers, _)| numbers.len())
        .max();
    assert_eq!(largest, Some(64));
}

#[test]
fn a_sink_that_rejects_everything_gets_nearly_everything_once_it_is_repaired() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest(&telemetry, 1, events(0..100), NOW);
    let sink = Sink::new(|_| refused());
    let forwarder = forwarder(&telemetry, &sink, 64);
    for second in 0..3 * HOUR {
        assert_eq!(forwarder.run(NOW + 5 + second), Ok(0));
    }
    let refused = forwarder.counts().refused;
    // Events are skipped slowly.
    assert!((5..=15).contains(&refused), "{refused}");
    assert_eq!(forwarder.warning(NOW).as_deref(), Some("no"));
    sink.batches();
    sink.set_manner(|_| Ok(()));
    let later = NOW + 4 * HOUR;
    assert_eq!(
        forwarder.run(later),
        Ok(100 - usize::try_from(refused).unwrap())
    );
    let rest: Vec<i64> = (refused..100).map(|number| number.cast_signed()).collect();
    assert_eq!(sink.accepted(), rest);
}

#[test]
fn events_of_an_erased_user_are_not_forwarded_and_all_others_are() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let mut sequences = 0..;
    let mut send = |user| {
        let next = sequences.by_ref().take(2).collect::<Vec<_>>();
        ingest(&telemetry, user, events(next.clone()), NOW);
        next
    };
    let sink = Sink::accepting();
    let forwarder = forwarder(&telemetry, &sink, 100);
    send(1);
    send(2);
    assert_eq!(forwarder.run(NOW + 5), Ok(4));
    sink.batches();
    // The erased event was before the cursor, which stays valid.
    send(1);
    let kept = send(2);
    let user = sender(1).user;
    telemetry.erase(user, NOW).unwrap();
    let later = send(3);
    assert_eq!(forwarder.run(NOW + 5), Ok(4));
    assert_eq!(sink.accepted(), [kept, later].concat());
    // The account is removed; its erasure is pending.
    send(1);
    let noted: Result<(), StoreError> = bench
        .store
        .write(Durability::Durable, move |txn| {
            request_erasure(txn, &user, NOW)
        })
        .wait();
    noted.unwrap();
    assert_eq!((forwarder.run(NOW + 5), forwarder.lag(NOW + 5)), (Ok(0), 0));
    let last = send(2);
    telemetry.run_erasures().unwrap();
    assert_eq!(forwarder.run(NOW + 5), Ok(2));
    assert_eq!(sink.batches(), [(last, true)]);
}

#[test]
fn unsent_events_dropped_by_retention_are_counted() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::accepting();
    let forwarder = forwarder(&telemetry, &sink, 2);
    ingest(&telemetry, 1, events(0..2), NOW);
    assert_eq!(forwarder.run(NOW), Ok(2));
    sink.set_manner(|_| away());
    ingest(&telemetry, 1, events(2..5), NOW);
    ingest(&telemetry, 1, events(5..7), NOW + HOUR);
    assert_eq!(forwarder.run(NOW + HOUR), Ok(0));
    let over = NOW + 30 * 24 * HOUR + HOUR;
    assert_eq!(forwarder.retain(over), Ok(1));
    assert_eq!(forwarder.counts().expired, 3);
    sink.batches();
    sink.set_manner(|_| Ok(()));
    assert_eq!(forwarder.run(over), Ok(2));
    assert_eq!(sink.accepted(), [5, 6]);
    assert_eq!(forwarder.retain(over + HOUR), Ok(1));
    assert_eq!(forwarder.counts().expired, 3);
    // The file has no hour, only the checksum.
    let cursors = fs::read(telemetry.inner.directory.forwarded()).unwrap();
    assert_eq!(cursors.len(), 4);
}

#[test]
fn unsynced_events_are_not_forwarded() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::accepting();
    ingest(&telemetry, 1, events(0..2), NOW);
    assert_eq!(forwarder(&telemetry, &sink, 1).run(NOW), Ok(2));
    let extents = telemetry.extents().unwrap();
    let mut telemetry = telemetry;
    telemetry.sync_with(|_| Ok(()));
    telemetry.ingest(sender(1), events([2]), NOW).unwrap();
    let length = fs::metadata(bench.file(".events")).unwrap().len();
    assert!(extents[0].1 < length);
    assert_eq!(telemetry.extents().unwrap(), extents);
    assert_eq!(forwarder(&telemetry, &sink, 1).run(NOW + 5), Ok(0));
    drop(telemetry);
    // A segment shorter than its cursor was damaged or replaced: it is sent from its beginning.
    let file = File::options().write(true).open(bench.file(".events"));
    file.unwrap().set_len(extents[0].1 - 1).unwrap();
    let telemetry = bench.open(NOW);
    let anew = forwarder(&telemetry, &sink, 9);
    sink.batches();
    assert_eq!(anew.run(NOW + 5), Ok(1));
    assert_eq!(sink.accepted(), [0]);
}

#[test]
fn a_torn_end_and_invalid_json_do_not_block_forwarding() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    ingest(&telemetry, 1, events([0, -1, 1]), NOW);
    // Another hour is open, so the torn end is not cut off.
    ingest(&telemetry, 1, events([2]), NOW + HOUR);
    let first = telemetry.inner.directory.events(super::super::hour_of(NOW));
    let length = fs::metadata(&first).unwrap().len();
    let file = File::options().write(true).open(&first).unwrap();
    file.set_len(length + 50).unwrap();
    let sink = Sink::accepting();
    let forwarder = forwarder(&telemetry, &sink, 9);
    for second in [0, 5, 10] {
        forwarder.run(NOW + HOUR + second).unwrap();
    }
    assert_eq!(sink.batches(), [(vec![0, 1], true), (vec![2], true)]);
    assert_eq!(forwarder.counts().refused, 1);
}

#[test]
fn an_hour_compressed_while_it_is_forwarded_is_sent_without_gaps_or_repeats() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    for from in (0..5_000).step_by(500) {
        ingest(&telemetry, 1, events(from..from + 500), NOW);
    }
    let later = NOW + 2 * HOUR;
    ingest(&telemetry, 1, events([5_000]), later);
    while !telemetry.inner.state.lock().done.is_empty() {
        std::thread::yield_now();
    }
    let sink = Sink::new(|numbers| if numbers[0] < 1_000 { Ok(()) } else { away() });
    let first = forwarder(&telemetry, &sink, 70);
    first.run(later).unwrap();
    let mut took = sink.accepted();
    assert_eq!(took.len(), 1_050);
    // The batch that was offered is sent again unchanged, now read from the compressed file.
    while telemetry.compress(later).unwrap() > 0 {}
    let file = File::open(telemetry.inner.directory.events(hour_of(NOW))).unwrap();
    assert_eq!(SegmentForm::detect(&file).unwrap(), SegmentForm::Packed);
    let waits = later + 3_600;
    first.run(waits).unwrap();
    sink.set_manner(|_| Ok(()));
    let offered = sink.with_keys().pop().unwrap();
    drop(first);
    let second = forwarder(&telemetry, &sink, 70);
    second.run(waits).unwrap();
    let again = sink.with_keys();
    assert_eq!(
        (&again[0].0, &again[0].1),
        (&offered.0, &offered.1),
        "the same batch under the same key"
    );
    took.extend(again.into_iter().flat_map(|(numbers, _, _)| numbers));
    assert_eq!(took, (0..=5_000).collect::<Vec<i64>>());
}
