//! The request journal: records of requests, their answers, and the decisions behind them.
//!
//! Requests queue their records without waiting, and one thread writes them to append-only segments. A finished
//! segment is compressed and gets an index. The journal explains the service; nothing in the service depends on it, so
//! a failure of its files costs records and never a request.

mod erasure;
mod erasure_subject;
mod filter;
mod index;
mod read;
mod record;
mod segment;
#[cfg(test)]
mod tests;
mod waiters;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

pub use erasure::{request_erasure, schema};
pub use filter::{JournalFilter, StatusFilter};
pub use read::{JournalPage, JournalRecords, ReadBudget};
pub use record::{JournalDevice, JournalRecord, LateFacts, NamedText};
pub use waiters::ArrivedRecords;

use playgate_store::{Store, StoreError, WritePriority};
use playgate_types::UnixSeconds;
use playgate_types::time::DAY;
use segment::{SegmentDirectory, SegmentSummary};
use waiters::Waiters;
use writer::{JournalJob, WriterThread};

#[derive(Clone, Debug)]
pub struct JournalSettings {
    pub directory: PathBuf,
    /// Seconds for which records are kept.
    pub keep: i64,
    /// Limit of all files together; the oldest segments are deleted first.
    pub max_bytes: u64,
    /// Whether files are synced. Only the control runs of durability tests switch this off.
    pub sync: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the request journal has stopped; restart the service")]
    Stopped,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    pub written: u64,
    /// The queue was full, or the thread has stopped.
    pub dropped: u64,
    /// Disk space was low, or a write failed.
    pub unwritten: u64,
    /// Refusals without a partner above their rate.
    pub limited: u64,
    pub bytes: u64,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct RequestJournal {
    shared: Arc<JournalShared>,
    /// The thread writes the queued records and stops when the last handle is dropped.
    writer: Arc<WriterThread>,
}

struct JournalShared {
    store: Store,
    settings: JournalSettings,
    directory: SegmentDirectory,
    /// Every segment by the number of its first record, the open one included.
    segments: Mutex<BTreeMap<u64, SegmentSummary>>,
    /// Whether the existing segments are known. If not, nothing is recorded: a new segment could replace one of them.
    usable: bool,
    /// Held while finished files are replaced or deleted, so that an erasure cannot bring back a deleted segment.
    rewriting: Mutex<()>,
    /// Number of the last record that readers can see.
    last: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    unwritten: AtomicU64,
    limited: AtomicU64,
    unpartnered: Mutex<RefusalRate>,
    waiters: Waiters,
    /// When segments were last found deleted, and how many were.
    deleted: Mutex<Option<(UnixSeconds, usize)>>,
}

impl RequestJournal {
    /// Finishes the segment that the last process left open.
    ///
    /// # Errors
    /// The thread cannot be started. If the files cannot be read, the error is logged and nothing is recorded: the
    /// service also runs without its journal.
    pub fn open(store: Store, settings: JournalSettings) -> io::Result<Self> {
        let directory = SegmentDirectory::new(&settings.directory, settings.sync);
        let (segments, usable) = match directory.load() {
            Ok(segments) => (segments, true),
            Err(error) => {
                // Does not fail the start: the service does not depend on its journal.
                tracing::error!(%error, "failed to open the request journal; nothing is recorded until the next start");
                (BTreeMap::new(), false)
            }
        };
        let last = segments.values().map(|segment| segment.last);
        let last = last.chain([directory.last_deleted()]).max();
        let shared = Arc::new(JournalShared {
            store,
            settings,
            directory,
            segments: Mutex::new(segments),
            usable,
            rewriting: Mutex::default(),
            last: AtomicU64::new(last.unwrap_or(0)),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            limited: AtomicU64::new(0),
            unpartnered: Mutex::default(),
            waiters: Waiters::default(),
            deleted: Mutex::default(),
        });
        let writer = WriterThread::start(Arc::clone(&shared))?;
        Ok(Self {
            shared,
            writer: Arc::new(writer),
        })
    }

    /// Queues a record without waiting. If the queue is full, the record is dropped and counted.
    pub fn record(&self, record: JournalRecord) {
        self.record_with(record, None);
    }

    /// Like [`RequestJournal::record`]; the journal thread adds the facts, so that no request waits for the disk.
    pub fn record_with(&self, record: JournalRecord, facts: Option<LateFacts>) {
        // Requests without a partner token come from anyone: a flood of them must not push out the records of partners.
        if record.partner.is_none() && !self.shared.unpartnered.lock().admit(record.at_millis) {
            self.shared.limited.fetch_add(1, Relaxed);
        } else if !self.writer.offer(record, facts) {
            self.shared.dropped.fetch_add(1, Relaxed);
        }
    }

    pub fn last_number(&self) -> u64 {
        self.shared.last.load(Relaxed)
    }

    /// Waits until everything queued so far is written and readable.
    pub fn flush(&self) -> Result<(), JournalError> {
        self.writer.run(JournalJob::Flush)
    }

    /// Deletes expired segments and, oldest first, those beyond the size limit. Returns how many were deleted.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, JournalError> {
        let oldest = (now.0 - self.shared.settings.keep).saturating_mul(1_000);
        Ok(self.shared.drop_expired(oldest)? + self.shared.make_room()?)
    }

    /// Tells once of finished segments that another program has deleted. Returns how many.
    pub fn look_for_deleted(&self, now: UnixSeconds) -> Result<usize, JournalError> {
        let deleted = self.shared.forget_deleted()?;
        if deleted > 0 {
            let mut noted = self.shared.deleted.lock();
            let before = noted.map_or(0, |(_, count)| count);
            *noted = Some((now, before + deleted));
        }
        Ok(deleted)
    }

    /// What an operator has to know about the files.
    pub fn warning(&self, now: UnixSeconds) -> Option<String> {
        if !self.shared.usable {
            return Some("the files cannot be listed, so nothing is recorded until the next start; the log has the reason".to_owned());
        }
        let deleted = *self.shared.deleted.lock();
        let deleted = deleted.filter(|(at, _)| now.since(*at).abs() < DAY);
        let deleted = deleted.map(|(_, count)| {
            format!("another program has deleted {count} segments of the request journal, whose records are lost; exclude the data directory from that program")
        });
        let unreadable = self.shared.segments.lock();
        let unreadable = unreadable
            .values()
            .filter(|segment| segment.unreadable)
            .count();
        let unreadable = (unreadable > 0).then(|| {
            format!("{unreadable} segments of the request journal cannot be read and are left out; the log names them")
        });
        let parts: Vec<_> = deleted.into_iter().chain(unreadable).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    pub fn counts(&self) -> JournalCounts {
        let shared = &self.shared;
        JournalCounts {
            written: shared.written.load(Relaxed),
            dropped: shared.dropped.load(Relaxed),
            unwritten: shared.unwritten.load(Relaxed),
            limited: shared.limited.load(Relaxed),
            bytes: shared.bytes(),
        }
    }
}

impl JournalShared {
    fn bytes(&self) -> u64 {
        let segments = self.segments.lock();
        segments.values().map(|segment| segment.bytes).sum()
    }

    /// The journal is the first to stop when the disk fills.
    fn has_room(&self) -> bool {
        self.usable && self.store.admits(WritePriority::Journal).is_ok()
    }

    /// `oldest` in Unix milliseconds.
    fn drop_expired(&self, oldest: i64) -> io::Result<usize> {
        self.drop_segments(|segment, _| segment.last_at < oldest)
    }

    fn make_room(&self) -> io::Result<usize> {
        // Leaves room for the open segment and for its compressed form, which is written next to it.
        let most = self
            .settings
            .max_bytes
            .saturating_sub(2 * segment::SEGMENT_MAX);
        self.drop_segments(|_, total| total > most)
    }

    /// Forgets finished segments whose files another program has deleted.
    fn forget_deleted(&self) -> io::Result<usize> {
        // Whoever replaces or deletes a finished file holds it.
        let _rewriting = self.rewriting.lock();
        let mut segments = self.segments.lock();
        let is_deleted =
            |first: u64| matches!(self.directory.records(first).try_exists(), Ok(false));
        let deleted: Vec<SegmentSummary> = segments
            .extract_if(.., |first, segment| segment.finished && is_deleted(*first))
            .map(|(_, segment)| segment)
            .collect();
        drop(segments);
        for segment in &deleted {
            let file = self.directory.records(segment.first);
            tracing::error!(file = %file.display(), "another program has deleted a segment of the request journal; its records are lost; exclude the data directory from such programs");
            // Removes its index, and keeps its numbers from being given again.
            self.directory.remove(segment.first, segment.last)?;
        }
        Ok(deleted.len())
    }

    /// Deletes finished segments, oldest first, while `condemned` is true of the segment and the bytes that are left.
    fn drop_segments(&self, condemned: impl Fn(&SegmentSummary, u64) -> bool) -> io::Result<usize> {
        let mut dropped = 0;
        loop {
            // Taken for one segment at a time, so that erasures and the writer wait for one removal only. Lock order:
            // before `segments`.
            let _rewriting = self.rewriting.lock();
            let total = self.bytes();
            let oldest = {
                let segments = self.segments.lock();
                let oldest = segments.values().find(|segment| segment.finished).cloned();
                oldest.filter(|segment| condemned(segment, total))
            };
            let Some(oldest) = oldest else {
                return Ok(dropped);
            };
            // The files first: a listed segment without files reads as missing, but files of a segment that is not listed
            // would never be removed.
            self.directory.remove(oldest.first, oldest.last)?;
            self.segments.lock().remove(&oldest.first);
            dropped += 1;
        }
    }
}

/// Limits the records of refused requests without a valid partner token.
struct RefusalRate {
    left: u32,
    second: i64,
}

const REFUSALS_PER_SECOND: u32 = 20;
const REFUSALS_BURST: u32 = 2_000;
/// Seconds by which a record may be older than an earlier one.
const OUT_OF_ORDER: i64 = 60;

impl Default for RefusalRate {
    fn default() -> Self {
        Self {
            left: REFUSALS_BURST,
            second: i64::MIN,
        }
    }
}

impl RefusalRate {
    fn admit(&mut self, at_millis: i64) -> bool {
        let second = at_millis.div_euclid(1_000);
        if second < self.second.saturating_sub(OUT_OF_ORDER) {
            // The clock was set back.
            self.second = second;
        } else if second > self.second {
            let passed = u32::try_from(second.saturating_sub(self.second)).unwrap_or(u32::MAX);
            let more = passed.saturating_mul(REFUSALS_PER_SECOND);
            self.left = self.left.saturating_add(more).min(REFUSALS_BURST);
            self.second = second;
        }
        // The burst keeps the first refusals of an incident, which explain it. A steady rate follows.
        let admitted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        admitted
    }
}
