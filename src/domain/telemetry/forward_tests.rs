//! The promises of forwarding, against a sink that does as it is told.

use std::fs::{self, File};

use super::super::tests::{Bench, HOUR, NOW, events, sender};
use super::*;
use crate::domain::telemetry::packed::Form;
use crate::domain::telemetry::{NewEvent, hour_of, request_erasure};
use crate::ports::entropy::SeededEntropy;
use crate::store::StoreError;

/// What a sink does with a batch.
type Manner = Box<dyn Fn(&[i64]) -> Result<(), SinkError> + Send + Sync>;

/// A sink, and what it has seen: the numbers of each batch with its key, taken or not.
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

    fn willing() -> Self {
        Self::new(|_| Ok(()))
    }

    fn becomes(&self, manner: impl Fn(&[i64]) -> Result<(), SinkError> + Send + Sync + 'static) {
        *self.0.manner.lock() = Box::new(manner);
    }

    /// Batches since the last look, each with whether it was taken.
    fn saw(&self) -> Vec<(Vec<i64>, bool)> {
        let seen = self.with_keys().into_iter();
        seen.map(|(numbers, _, taken)| (numbers, taken)).collect()
    }

    fn with_keys(&self) -> Vec<(Vec<i64>, String, bool)> {
        std::mem::take(&mut *self.0.seen.lock())
    }

    /// What it has taken since the last look.
    fn took(&self) -> Vec<i64> {
        let seen = self.saw().into_iter();
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
}

fn away() -> Result<(), SinkError> {
    Err(SinkError::Later {
        words: "away".to_owned(),
        wait: None,
    })
}

fn refused() -> Result<(), SinkError> {
    Err(SinkError::Refused("no".to_owned()))
}

/// The line of an event is its number, and one that has none is no JSON.
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

/// Takes events, and waits until no power cut takes them back.
fn accept(telemetry: &Telemetry, user: u8, events: Vec<NewEvent>, now: UnixSeconds) {
    telemetry.accept(sender(user), events, now).unwrap();
    let written = |(hour, length): &Extent| {
        let path = telemetry.inner.directory.events(*hour);
        fs::metadata(path).unwrap().len() == *length
    };
    while !telemetry.extents().unwrap().iter().all(written) {
        std::thread::yield_now();
    }
}

#[test]
fn full_batches_go_at_once_and_others_after_the_interval() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::willing();
    let forwarder = forwarder(&telemetry, &sink, 3);
    assert_eq!(forwarder.run(NOW), Ok(0));
    accept(&telemetry, 1, events(0..7), NOW);
    assert_eq!(forwarder.run(NOW + 4), Ok(6));
    assert_eq!(sink.saw(), [(vec![0, 1, 2], true), (vec![3, 4, 5], true)]);
    assert_eq!(forwarder.lag(NOW + 4), 4);
    assert_eq!(forwarder.run(NOW + 5), Ok(1));
    assert_eq!(sink.took(), [6]);
    assert_eq!((forwarder.lag(NOW + 9), forwarder.run(NOW + 9)), (0, Ok(0)));
    // A clock that was put back makes nothing wait for it to catch up, and goes on in an old hour.
    accept(&telemetry, 1, events([7]), NOW + 2 * HOUR);
    assert_eq!(forwarder.run(NOW), Ok(1));
    accept(&telemetry, 1, events([8]), NOW);
    assert_eq!(forwarder.run(NOW + 5), Ok(1));
    // The end of an hour that is over does not wait.
    accept(&telemetry, 1, events([9]), NOW);
    accept(&telemetry, 1, events([10]), NOW + 2 * HOUR);
    assert_eq!(forwarder.run(NOW + 1), Ok(2));
    assert_eq!(sink.took(), [7, 8, 9, 10]);
    assert_eq!(forwarder.counts().sent, 11);
}

#[test]
fn the_position_is_kept_and_a_batch_without_an_answer_goes_out_again_as_it_was() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    accept(&telemetry, 1, events(0..4), NOW);
    let sink = Sink::willing();
    assert_eq!(forwarder(&telemetry, &sink, 3).run(NOW), Ok(3));
    sink.becomes(|_| away());
    assert_eq!(forwarder(&telemetry, &sink, 3).run(NOW + 5), Ok(0));
    let seen = sink.with_keys();
    // More has come meanwhile, and the process has begun again.
    accept(&telemetry, 1, events(4..9), NOW + 6);
    sink.becomes(|_| Ok(()));
    let again = forwarder(&telemetry, &sink, 3);
    assert_eq!(again.run(NOW + 6), Ok(4));
    let more = sink.with_keys();
    assert_eq!(seen[1], (vec![3], more[0].1.clone(), false));
    assert_eq!((&more[0].0, &more[1].0), (&vec![3], &vec![4, 5, 6]));
    assert_ne!(more[0].1, more[1].1);
    drop(again);
    // Without the position everything would come again.
    let forgotten: Result<(), StoreError> = bench
        .store
        .write(Durability::Durable, |txn| {
            for (hour, _) in txn.scan::<super::super::tables::Forwarded>(&All, 9)? {
                txn.delete::<super::super::tables::Forwarded>(&hour)?;
            }
            Ok(())
        })
        .wait();
    forgotten.unwrap();
    assert_eq!(forwarder(&telemetry, &sink, 100).run(NOW + 99), Ok(9));
}

#[test]
fn pauses_grow_and_the_sink_is_heard() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    accept(&telemetry, 1, events([1]), NOW);
    let sink = Sink::new(|_| away());
    let forwarder = forwarder(&telemetry, &sink, 1);
    let tries = |seconds: std::ops::Range<i64>| {
        seconds
            .filter(|second| {
                forwarder.run(NOW + *second).unwrap();
                !sink.saw().is_empty()
            })
            .count()
    };
    assert!((5..=9).contains(&tries(0..100)), "doubled from a second on");
    assert!(
        (8..=18).contains(&tries(1_000..4_000)),
        "up to five minutes"
    );
    let trouble = forwarder.trouble(NOW + 4_000).unwrap();
    assert_eq!(trouble, "away; events have waited for 4000 seconds");
    sink.becomes(|_| {
        Err(SinkError::Later {
            words: "busy".to_owned(),
            wait: Some(100_000),
        })
    });
    assert_eq!(tries(5_000..5_400), 1);
    // However long it asks for.
    assert_eq!(tries(5_400..9_200), 1);
    // A clock that was ahead when it was asked holds nothing up.
    sink.becomes(|_| Ok(()));
    assert_eq!(forwarder.run(NOW), Ok(1));
    assert_eq!(forwarder.trouble(NOW), None);
}

#[test]
fn a_refused_batch_is_halved_and_one_event_alone_passed_over() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    accept(&telemetry, 1, events(0..100), NOW);
    let sink = Sink::new(
        |numbers| match numbers.len() > 10 || numbers.contains(&42) {
            true => refused(),
            false => Ok(()),
        },
    );
    let forwarder = forwarder(&telemetry, &sink, 64);
    assert_eq!(forwarder.run(NOW + 5), Ok(99));
    let all: Vec<i64> = (0..100).filter(|number| *number != 42).collect();
    assert_eq!(sink.took(), all);
    assert_eq!(forwarder.counts().refused, 1);
    assert_eq!(forwarder.trouble(NOW + 5), None);
    // Later batches are as large as the settings say again.
    accept(&telemetry, 1, events(100..1_000), NOW + 6);
    sink.becomes(|_| Ok(()));
    assert_eq!(forwarder.run(NOW + 11), Ok(900));
    let largest = sink.saw().iter().map(|(numbers, _)| numbers.len()).max();
    assert_eq!(largest, Some(64));
}

#[test]
fn a_sink_that_refuses_everything_gets_nearly_everything_once_it_is_mended() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    accept(&telemetry, 1, events(0..100), NOW);
    let sink = Sink::new(|_| refused());
    let forwarder = forwarder(&telemetry, &sink, 64);
    for second in 0..3 * HOUR {
        assert_eq!(forwarder.run(NOW + 5 + second), Ok(0));
    }
    let refused = forwarder.counts().refused;
    // It goes on, and slowly.
    assert!((5..=15).contains(&refused), "{refused}");
    assert_eq!(forwarder.trouble(NOW).as_deref(), Some("no"));
    sink.saw();
    sink.becomes(|_| Ok(()));
    let later = NOW + 4 * HOUR;
    assert_eq!(
        forwarder.run(later),
        Ok(100 - usize::try_from(refused).unwrap())
    );
    let rest: Vec<i64> = (refused..100).map(|number| number.cast_signed()).collect();
    assert_eq!(sink.took(), rest);
}

#[test]
fn an_erased_user_is_not_forwarded_and_nobody_else_is_missed() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let mut sequences = 0..;
    let mut send = |user| {
        let next = sequences.by_ref().take(2).collect::<Vec<_>>();
        accept(&telemetry, user, events(next.clone()), NOW);
        next
    };
    let sink = Sink::willing();
    let forwarder = forwarder(&telemetry, &sink, 100);
    send(1);
    send(2);
    assert_eq!(forwarder.run(NOW + 5), Ok(4));
    sink.saw();
    // What lay before the position is gone, and it is true all the same.
    send(1);
    let kept = send(2);
    let user = sender(1).user;
    telemetry.erase(user, NOW).unwrap();
    let later = send(3);
    assert_eq!(forwarder.run(NOW + 5), Ok(4));
    assert_eq!(sink.took(), [kept, later].concat());
    // The account is gone, and its events are about to go.
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
    assert_eq!(sink.saw(), [(last, true)]);
}

#[test]
fn what_retention_takes_unsent_is_counted() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::willing();
    let forwarder = forwarder(&telemetry, &sink, 2);
    accept(&telemetry, 1, events(0..2), NOW);
    assert_eq!(forwarder.run(NOW), Ok(2));
    sink.becomes(|_| away());
    accept(&telemetry, 1, events(2..5), NOW);
    accept(&telemetry, 1, events(5..7), NOW + HOUR);
    assert_eq!(forwarder.run(NOW + HOUR), Ok(0));
    let over = NOW + 30 * 24 * HOUR + HOUR;
    assert_eq!(forwarder.retain(over), Ok(1));
    assert_eq!(forwarder.counts().expired, 3);
    sink.saw();
    sink.becomes(|_| Ok(()));
    assert_eq!(forwarder.run(over), Ok(2));
    assert_eq!(sink.took(), [5, 6]);
    assert_eq!(forwarder.retain(over + HOUR), Ok(1));
    assert_eq!(forwarder.counts().expired, 3);
    let rows = |txn: &crate::store::Txn<'_>| txn.scan::<super::super::tables::Forwarded>(&All, 9);
    assert!(bench.store.read(rows).unwrap().is_empty());
}

#[test]
fn what_a_power_cut_could_take_back_is_not_forwarded() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    let sink = Sink::willing();
    accept(&telemetry, 1, events(0..2), NOW);
    assert_eq!(forwarder(&telemetry, &sink, 1).run(NOW), Ok(2));
    let extents = telemetry.extents().unwrap();
    telemetry.accept(sender(1), events([2]), NOW).unwrap();
    let length = fs::metadata(bench.file(".events")).unwrap().len();
    // Unless the sync was quicker than this.
    let now = telemetry.extents().unwrap();
    assert!(extents[0].1 < length && (now == extents || now[0].1 == length));
    drop(telemetry);
    // A file that is shorter than the position was damaged, or is another one: it is sent anew.
    let file = File::options().write(true).open(bench.file(".events"));
    file.unwrap().set_len(extents[0].1 - 1).unwrap();
    let telemetry = bench.open(NOW);
    let anew = forwarder(&telemetry, &sink, 9);
    sink.saw();
    assert_eq!(anew.run(NOW + 5), Ok(1));
    assert_eq!(sink.took(), [0]);
}

#[test]
fn a_torn_end_and_what_is_no_json_hold_nothing_up() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    accept(&telemetry, 1, events([0, -1, 1]), NOW);
    // Another hour is open, so that nobody cuts the end off.
    accept(&telemetry, 1, events([2]), NOW + HOUR);
    let first = telemetry.inner.directory.events(super::super::hour_of(NOW));
    let length = fs::metadata(&first).unwrap().len();
    let file = File::options().write(true).open(&first).unwrap();
    file.set_len(length + 50).unwrap();
    let sink = Sink::willing();
    let forwarder = forwarder(&telemetry, &sink, 9);
    for second in [0, 5, 10] {
        forwarder.run(NOW + HOUR + second).unwrap();
    }
    assert_eq!(sink.saw(), [(vec![0, 1], true), (vec![2], true)]);
    assert_eq!(forwarder.counts().refused, 1);
}

#[test]
fn an_hour_that_is_compressed_halfway_is_forwarded_without_a_gap_or_a_repeat() {
    let bench = Bench::new();
    let telemetry = bench.open(NOW);
    for from in (0..5_000).step_by(500) {
        accept(&telemetry, 1, events(from..from + 500), NOW);
    }
    let later = NOW + 2 * HOUR;
    accept(&telemetry, 1, events([5_000]), later);
    while !telemetry.inner.state.lock().done.is_empty() {
        std::thread::yield_now();
    }
    let sink = Sink::new(|numbers| if numbers[0] < 1_000 { Ok(()) } else { away() });
    let first = forwarder(&telemetry, &sink, 70);
    first.run(later).unwrap();
    let mut took = sink.took();
    assert_eq!(took.len(), 1_050);
    // The batch that was offered is offered again as it was, from the compressed file.
    while telemetry.compress(later).unwrap() > 0 {}
    let file = File::open(telemetry.inner.directory.events(hour_of(NOW))).unwrap();
    assert_eq!(Form::of(&file).unwrap(), Form::Packed);
    let waits = later + 3_600;
    first.run(waits).unwrap();
    sink.becomes(|_| Ok(()));
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
