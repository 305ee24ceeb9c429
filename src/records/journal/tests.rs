//! Behaviour of the journal as a whole, with files in a temporary directory.

mod damage;
mod pages;

use std::fs;
use std::path::PathBuf;

use super::*;
use playgate_store::{Durability, Schema, golden};
use playgate_types::{AssetId, PartnerId, SessionId, UserId};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

struct Bench {
    folder: tempfile::TempDir,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            store: Store::in_memory(schema(Schema::default())),
        }
    }

    fn open(&self) -> RequestJournal {
        self.open_with(1 << 40)
    }

    fn open_with(&self, max_bytes: u64) -> RequestJournal {
        let settings = JournalSettings {
            directory: self.folder.path().join("journal"),
            keep: 3_600,
            max_bytes,
            sync: false,
        };
        RequestJournal::open(self.store.clone(), settings).unwrap()
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("journal")).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|is| is == extension));
        files.sort();
        files
    }
}

fn user(number: u8) -> UserId {
    UserId::from_bytes([number; 16])
}

fn record(at: i64, of: u8) -> JournalRecord {
    JournalRecord {
        id: format!("request-{at}-{of}"),
        at_millis: (NOW.0 + at) * 1_000,
        partner: Some(PartnerId::from_bytes([9; 16])),
        user: Some(user(of)),
        session: Some(SessionId::from_bytes([of; 16])),
        asset: AssetId::parse("film").ok(),
        method: "POST".to_owned(),
        route: if of.is_multiple_of(2) {
            "entitlement"
        } else {
            "preflight"
        }
        .into(),
        path: "/api/entitlement/v2/asset/film".to_owned(),
        status: 403,
        code: Some("NOT_ENTITLED".into()),
        message: Some("the user has no offer that includes this asset".to_owned()),
        ..JournalRecord::default()
    }
}

fn ids(journal: &RequestJournal, filter: JournalFilter) -> Vec<String> {
    let records = journal.records(filter);
    records.map(|record| record.unwrap().id).collect()
}

fn all(journal: &RequestJournal) -> Vec<String> {
    // Readers do not wait longer than a second for the thread.
    journal.flush().unwrap();
    ids(journal, JournalFilter::default())
}

#[test]
fn record_bytes_are_stable() {
    let mut record = record(0, 7);
    record.number = 5;
    record.steps = vec![playgate_domain::decision::DecisionStep {
        check: "offer".into(),
        subject: Some("gold".to_owned()),
        finding: "no".into(),
        passed: false,
    }];
    record.headers = vec![NamedText {
        name: "User-Agent".into(),
        value: "tv".to_owned(),
    }];
    assert_golden("record", &golden(&record));
}

/// A change of these bytes needs a new record version.
fn assert_golden(name: &str, hex: &str) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/it/golden")
        .join(format!("journal-{name}.hex"));
    if std::env::var_os("PLAYGATE_RENEW").is_some() {
        fs::write(&path, format!("{hex}\n")).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap().trim(), hex);
}

#[test]
fn records_are_read_newest_first_also_after_a_restart() {
    let bench = Bench::new();
    let journal = bench.open();
    for at in 0..5 {
        journal.record(record(at, 1));
    }
    let expected: Vec<String> = (0..5).rev().map(|at| format!("request-{at}-1")).collect();
    assert_eq!(all(&journal), expected);
    drop(journal);
    let journal = bench.open();
    assert_eq!(all(&journal), expected);
    assert_eq!(journal.last_number(), 5);
    // Numbers go on, in a new segment.
    journal.record(record(9, 1));
    assert_eq!(all(&journal).len(), 6);
    let found = journal.find("request-9-1").unwrap().unwrap();
    assert_eq!(found.number, 6);
    assert_eq!(journal.find("request-9-2").unwrap(), None);
    // The first segment was finished at the start: compressed, and with an index.
    assert_eq!(bench.files("index").len(), 1);
    assert_eq!(
        fs::read(&bench.files("records")[0]).unwrap()[..2],
        *b"\x1f\x8b"
    );
}

#[test]
fn filters_select_in_open_and_in_finished_segments() {
    let bench = Bench::new();
    let journal = bench.open();
    for at in 0..10 {
        journal.record(record(at, u8::try_from(at).unwrap()));
    }
    assert_filters_select(&journal);
    drop(journal);
    assert_filters_select(&bench.open());
}

fn assert_filters_select(journal: &RequestJournal) {
    journal.flush().unwrap();
    let any = JournalFilter::default;
    let of_user = |number| JournalFilter {
        user: Some(user(number)),
        ..any()
    };
    let of_session = |number| JournalFilter {
        session: Some(SessionId::from_bytes([number; 16])),
        ..any()
    };
    let on_route = |name| JournalFilter {
        routes: vec![name],
        ..any()
    };
    let with_code = |name: &str| JournalFilter {
        code: Some(name.to_owned()),
        ..any()
    };
    let with_status = |text| JournalFilter {
        status: Some(StatusFilter::parse(text).unwrap()),
        ..any()
    };
    let between = |from, to| JournalFilter {
        from: Some(NOW + from),
        to: Some(NOW + to),
        ..any()
    };
    let before = |before| JournalFilter {
        before: Some(before),
        ..any()
    };
    for (filter, count) in [
        (of_user(3), 1),
        (of_user(33), 0),
        (of_session(4), 1),
        (on_route("preflight"), 5),
        (on_route("login"), 0),
        (with_code("NOT_ENTITLED"), 10),
        (with_code("GEO_BLOCKED"), 0),
        (with_status("4xx"), 10),
        (with_status("403"), 10),
        (with_status("401"), 0),
        (with_status("refused"), 10),
        (with_status("answered"), 0),
        (between(2, 5), 3),
        (before(4), 3),
    ] {
        assert_eq!(ids(journal, filter.clone()).len(), count, "{filter:?}");
    }
    let numbers = |filter| -> Vec<u64> {
        let listed = journal.list(&filter, 2).unwrap();
        listed.iter().map(|record| record.number).collect()
    };
    let after = JournalFilter {
        after: Some(4),
        ..any()
    };
    assert_eq!(numbers(after), [6, 5], "the next two, newest first");
    assert_eq!(numbers(any()), [10, 9]);
}

#[test]
fn a_status_filter_is_a_status_or_a_class() {
    for wrong in ["", "6xx", "0xx", "99", "600", "abc", "xx"] {
        assert!(StatusFilter::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_erased_user_leaves_no_byte_and_nobody_else_is_touched() {
    let bench = Bench::new();
    let journal = bench.open();
    // Both users have records in a finished segment and in the open one.
    journal.record(record(1, 1));
    journal.record(record(2, 2));
    drop(journal);
    let journal = bench.open();
    journal.record(record(3, 1));
    journal.record(record(4, 2));
    journal.flush().unwrap();
    let gone = user(1);
    bench
        .store
        .write::<_, StoreError, _>(Durability::Logged, move |txn| {
            request_erasure(txn, &gone, NOW)
        })
        .wait()
        .unwrap();
    assert_eq!(journal.run_erasures().unwrap(), 1);
    assert_eq!(journal.run_erasures().unwrap(), 0);
    let left = ["request-4-2", "request-2-2"];
    assert_eq!(all(&journal), left);
    // A request of the erased user that was answered after the erasure.
    journal.record(record(5, 1));
    assert_eq!(all(&journal), left);
    drop(journal);
    let mut unpacked = Vec::new();
    for path in bench.files("records") {
        let mut reader = playgate_segment_log::packed::SegmentReader::open(&path).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut unpacked).unwrap();
    }
    let holds = |bytes: &[u8]| unpacked.windows(bytes.len()).any(|window| window == bytes);
    assert!(holds(user(2).as_bytes()), "the control");
    assert!(!holds(gone.as_bytes()));
    assert_eq!(all(&bench.open()), left);
}

#[test]
fn a_partner_is_erased_and_records_again() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(1, 1));
    let other = JournalRecord {
        partner: Some(PartnerId::from_bytes([8; 16])),
        ..record(2, 2)
    };
    journal.record(other);
    journal
        .erase_partner(PartnerId::from_bytes([9; 16]))
        .unwrap();
    assert_eq!(all(&journal), ["request-2-2"]);
    journal.record(record(3, 1));
    assert_eq!(all(&journal), ["request-3-1", "request-2-2"]);
}

#[test]
fn a_full_queue_drops_and_counts_and_nobody_waits() {
    let bench = Bench::new();
    let journal = bench.open();
    let held = journal.shared.segments.lock();
    // The thread waits for the lock; everything beyond its batch and the queue is dropped.
    for at in 0..20_000 {
        journal.record(record(at, 1));
    }
    drop(held);
    journal.flush().unwrap();
    let counts = journal.counts();
    assert!(counts.dropped > 0);
    assert_eq!(counts.written + counts.dropped, 20_000);
    assert_eq!(all(&journal).len() as u64, counts.written);
}

#[test]
fn a_stalled_disk_delays_a_reader_but_does_not_stop_it() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(1, 1));
    assert_eq!(all(&journal), ["request-1-1"]);
    let (release, stalled) = std::sync::mpsc::channel::<()>();
    let stall = move |_: &mut JournalRecord| {
        let _ = stalled.recv();
    };
    journal.record_with(record(2, 1), Some(Box::new(stall)));
    assert_eq!(ids(&journal, JournalFilter::default()), ["request-1-1"]);
    drop(release);
    assert_eq!(all(&journal), ["request-2-1", "request-1-1"]);
}

#[test]
fn refusals_without_a_partner_have_a_rate() {
    let bench = Bench::new();
    let journal = bench.open();
    let stranger = |at| JournalRecord {
        partner: None,
        ..record(at, 1)
    };
    for _ in 0..3_000 {
        journal.record(stranger(0));
    }
    journal.record(record(0, 2));
    for _ in 0..100 {
        journal.record(stranger(1));
    }
    journal.flush().unwrap();
    let counts = journal.counts();
    assert_eq!(counts.limited, 1_000 + 80);
    assert_eq!(counts.dropped + counts.written, 2_000 + 1 + 20);
}

#[test]
fn what_is_too_old_or_too_much_goes_oldest_first() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(0, 1));
    drop(journal);
    let journal = bench.open();
    journal.record(record(3_000, 1));
    drop(journal);
    let journal = bench.open();
    assert_eq!(journal.retain(NOW + 3_600).unwrap(), 0);
    assert_eq!(journal.retain(NOW + 3_601).unwrap(), 1);
    assert_eq!(all(&journal), ["request-3000-1"]);
    assert_eq!(bench.files("index").len(), 1);
}

/// `PLAYGATE_JOURNAL_RECORDS=1000000` is the long form.
#[test]
fn many_refusals_stay_within_the_limit() {
    let long = std::env::var_os("PLAYGATE_JOURNAL_RECORDS");
    let many: u32 = long.map_or(60_000, |text| text.to_str().unwrap().parse().unwrap());
    const LIMIT: u64 = 16 * 1024 * 1024;
    let bench = Bench::new();
    let journal = bench.open_with(LIMIT);
    let mut most = 0;
    for at in 0..many {
        let mut refusal = record(i64::from(at / 1_000), 1);
        // Hashes are hard to compress, like real ids.
        let hash = ring::digest::digest(&ring::digest::SHA256, &at.to_le_bytes());
        refusal.id = data_encoding::HEXLOWER.encode(hash.as_ref());
        refusal.details = Some(format!("[\"{}\"]", refusal.id.repeat(8)));
        journal.record(refusal);
        if at.is_multiple_of(4_000) {
            journal.flush().unwrap();
            let files = fs::read_dir(bench.folder.path().join("journal")).unwrap();
            let total: u64 = files
                .map(|file| file.unwrap().metadata().unwrap().len())
                .sum();
            most = most.max(total);
        }
    }
    journal.flush().unwrap();
    assert!(most <= LIMIT, "{most} bytes");
    let counts = journal.counts();
    assert_eq!(counts.written + counts.dropped, u64::from(many));
    let left = all(&journal).len();
    assert!(left > 1_000, "{left}");
    println!("{many} refusals: at most {most} bytes, {left} records left");
}

#[test]
fn control_characters_and_long_texts_are_bounded() {
    let bench = Bench::new();
    let journal = bench.open();
    let mut record = record(1, 1);
    record.id = "forged\nPGj\u{1}".to_owned();
    record.message = Some("x".repeat(100_000));
    record.details = Some("y".repeat(100_000));
    record.headers = vec![
        NamedText {
            name: "n".repeat(999).into(),
            value: "é".repeat(999)
        };
        99
    ];
    journal.record(record);
    let read = journal
        .list(&JournalFilter::default(), 1)
        .unwrap()
        .remove(0);
    assert_eq!(read.id, "forged PGj ");
    assert_eq!(read.message.unwrap().len(), 512);
    assert_eq!(read.details, None);
    // Together the headers are too long for a record, which is kept without them.
    assert!(read.headers.is_empty());
    assert_eq!(read.status, 403);
}

#[test]
fn numbers_continue_after_the_last_segment_has_expired() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(0, 1));
    journal.record(record(1, 1));
    drop(journal);
    let journal = bench.open();
    assert_eq!(journal.retain(NOW + 10_000).unwrap(), 1);
    drop(journal);
    let journal = bench.open();
    assert_eq!(journal.last_number(), 2);
    journal.record(record(10_001, 1));
    let following = JournalFilter {
        after: Some(2),
        ..JournalFilter::default()
    };
    journal.flush().unwrap();
    assert_eq!(ids(&journal, following), ["request-10001-1"]);
}

#[test]
fn a_record_that_is_a_second_older_refills_no_rate() {
    let mut rate = RefusalRate::default();
    while rate.admit(10_000) {}
    assert!(!rate.admit(9_000));
    assert!(!rate.admit(10_000));
    assert!(rate.admit(11_000));
    // After the clock was set back the rate follows it.
    while rate.admit(-1_000_000) {}
    assert!(rate.admit(-999_000));
}
