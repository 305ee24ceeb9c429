//! How much a search reads, where it continues, and how readers wait for the next records.

use std::fs;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::journal::waiters::Arrival;
use playgate_segment_log::{append_checksum, without_checksum};

/// A journal of finished segments. The records of each have another status.
fn journal_of(bench: &Bench, statuses: &[u16]) -> RequestJournal {
    for (status, at) in statuses.iter().zip(0..) {
        let journal = bench.open();
        for part in 0..3 {
            journal.record(JournalRecord {
                status: *status,
                ..record(at * 3 + part, 1)
            });
        }
    }
    bench.open()
}

fn numbers(page: &JournalPage) -> Vec<u64> {
    page.records.iter().map(|record| record.number).collect()
}

fn with_status(text: &str) -> JournalFilter {
    JournalFilter {
        status: Some(StatusFilter::parse(text).unwrap()),
        ..JournalFilter::default()
    }
}

const ONE: ReadBudget = ReadBudget::segments(1);

#[test]
fn segments_without_a_status_are_not_read() {
    let bench = Bench::new();
    let journal = journal_of(&bench, &[503, 403, 404, 401]);
    for filter in ["503", "5xx"] {
        let page = journal.page(&with_status(filter), 10, ONE).unwrap();
        assert_eq!(
            (numbers(&page), page.rest),
            (vec![3, 2, 1], None),
            "{filter}"
        );
    }
    // Control: the indexes of earlier versions have no statuses, so that the newest segment uses up the budget.
    for path in bench.files("index") {
        let bytes = fs::read(&path).unwrap();
        let mut earlier = without_checksum(&bytes).unwrap().to_vec();
        assert_eq!(earlier[3], 2);
        earlier[3] = 1;
        append_checksum(&mut earlier);
        fs::write(&path, earlier).unwrap();
    }
    let page = journal.page(&with_status("503"), 10, ONE).unwrap();
    assert_eq!((numbers(&page), page.rest), (vec![], Some(10)));
    // They are used for everything else, and their segments are found.
    let all = journal.page(&with_status("503"), 10, ReadBudget::UNLIMITED);
    assert_eq!(numbers(&all.unwrap()), [3, 2, 1]);
    let nobody = JournalFilter {
        user: Some(user(9)),
        ..with_status("503")
    };
    let page = journal.page(&nobody, 10, ONE).unwrap();
    assert_eq!((numbers(&page), page.rest), (vec![], None));
}

#[test]
fn a_search_ends_at_its_budget_and_continues_there() {
    let bench = Bench::new();
    let journal = journal_of(&bench, &[403; 4]);
    let search = |follows: bool, limit| {
        let (mut found, mut rest) = (Vec::new(), None);
        for pages in 1.. {
            let mut filter = JournalFilter::default();
            match follows {
                true => filter.after = Some(rest.unwrap_or(0)),
                false => filter.before = rest,
            }
            let page = journal.page(&filter, limit, ONE).unwrap();
            found.extend(numbers(&page));
            rest = page.rest;
            if rest.is_none() {
                return (found, pages);
            }
        }
        unreachable!()
    };
    let (up, down): (Vec<u64>, Vec<u64>) = ((1..=12).collect(), (1..=12).rev().collect());
    for (limit, pages) in [(100, 4), (3, 4), (2, 8), (1, 12)] {
        assert_eq!(search(false, limit), (down.clone(), pages), "{limit}");
        assert_eq!(search(true, limit), (up.clone(), pages), "{limit}");
    }
}

#[test]
fn a_follower_from_the_start_reads_the_oldest_segment_only() {
    let bench = Bench::new();
    let journal = journal_of(&bench, &[403; 4]);
    let filter = JournalFilter {
        after: Some(0),
        ..JournalFilter::default()
    };
    let page = journal.page(&filter, 2, ONE).unwrap();
    assert_eq!((numbers(&page), page.rest), (vec![1, 2], Some(2)));
    assert_eq!(page.upto, 12);
}

fn poll(arrival: &mut Arrival) -> Poll<Option<ArrivedRecords>> {
    std::pin::Pin::new(arrival).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn readers_get_the_next_records_that_they_wait_for() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(1, 1));
    journal.flush().unwrap();
    let wait = |filter: &JournalFilter| journal.arrival(filter.clone()).unwrap();
    let mut of_user = wait(&JournalFilter {
        user: Some(user(2)),
        ..JournalFilter::default()
    });
    let mut of_other = wait(&with_status("5xx"));
    drop(wait(&JournalFilter::default()));
    assert_eq!(journal.waiting(), 2);
    assert!(
        poll(&mut of_user).is_pending(),
        "the first record was there before"
    );
    journal.record(record(2, 1));
    journal.record(record(3, 2));
    journal.flush().unwrap();
    let Poll::Ready(Some(arrived)) = poll(&mut of_user) else {
        panic!("it waits for the record of the user");
    };
    let ids: Vec<_> = arrived
        .records
        .iter()
        .map(|record| record.id.as_str())
        .collect();
    assert_eq!((ids, arrived.upto), (vec!["request-3-2"], 3));
    assert!(poll(&mut of_other).is_pending());
    assert_eq!(journal.waiting(), 1);
    drop(journal);
    assert_eq!(poll(&mut of_other), Poll::Ready(None));
}

#[test]
fn readers_that_wait_are_bounded() {
    let bench = Bench::new();
    let journal = bench.open();
    let all = || journal.arrival(JournalFilter::default());
    let mut waiting: Vec<_> = std::iter::from_fn(all).collect();
    assert_eq!(waiting.len(), 1_000);
    waiting.pop();
    assert!(all().is_some(), "one that has gone makes room");
}
