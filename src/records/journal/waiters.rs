//! Readers that wait for the next records. The journal thread hands them what they wait for, so that they read no file.

use std::pin::Pin;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::RequestJournal;
use super::filter::JournalFilter;
use super::record::JournalRecord;

/// The thread compares each record with each filter.
const WAITING_MAX: usize = 1_000;

/// Records that were just written, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedRecords {
    pub records: Vec<JournalRecord>,
    /// Number of the last record that was written with them.
    pub upto: u64,
}

/// Resolves to the next records that the filter selects; `None` if the journal has ended.
pub struct Arrival(oneshot::AsyncReceiver<ArrivedRecords>);

impl Future for Arrival {
    type Output = Option<ArrivedRecords>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

struct Waiter {
    filter: JournalFilter,
    hand_over: oneshot::Sender<ArrivedRecords>,
}

#[derive(Default)]
pub(super) struct Waiters(Mutex<Vec<Waiter>>);

impl Waiters {
    fn add(&self, filter: JournalFilter) -> Option<Arrival> {
        let mut waiting = self.0.lock();
        // Those whose client has gone make room.
        waiting.retain(|waiter| !waiter.hand_over.is_closed());
        if waiting.len() >= WAITING_MAX {
            return None;
        }
        let (hand_over, arrival) = oneshot::async_channel();
        waiting.push(Waiter { filter, hand_over });
        Some(Arrival(arrival))
    }

    /// Hands over records that readers can see by now.
    pub(super) fn notify(&self, written: &[JournalRecord], upto: u64) {
        let mut waiting = self.0.lock();
        let selected = |waiter: &mut Waiter| {
            let selects = |record: &&JournalRecord| waiter.filter.selects(record);
            written.iter().any(|record| selects(&record)) || waiter.hand_over.is_closed()
        };
        for waiter in waiting.extract_if(.., selected) {
            let records = written.iter();
            let records = records.filter(|record| waiter.filter.selects(record));
            let records = records.cloned().collect();
            // Fails only if the reader has gone.
            let _ = waiter.hand_over.send(ArrivedRecords { records, upto });
        }
    }
}

impl RequestJournal {
    /// Waits for the next records that the filter selects, from now on. `None` if too many readers wait.
    pub fn arrival(&self, filter: JournalFilter) -> Option<Arrival> {
        self.shared.waiters.add(filter)
    }

    /// Returns how many readers wait.
    pub fn waiting(&self) -> usize {
        let mut waiting = self.shared.waiters.0.lock();
        waiting.retain(|waiter| !waiter.hand_over.is_closed());
        waiting.len()
    }
}
