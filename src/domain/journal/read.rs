//! Reads records back, newest first.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::filter::JournalFilter;
use super::record::JournalRecord;
use super::segment::SegmentSummary;
use super::{JournalError, JournalShared, RequestJournal};

impl RequestJournal {
    /// Returns the selected records, newest first. Waits for records that are being gathered, and each step may read a
    /// file: call it on a blocking thread.
    #[must_use]
    pub fn records(&self, filter: JournalFilter) -> JournalRecords {
        self.writer.flush_for_reader();
        let segments = self.shared.segments.lock();
        let readable = segments.values().filter(|segment| !segment.unreadable);
        let reached = readable.filter(|segment| filter.reaches(segment));
        JournalRecords {
            segments: reached.cloned().collect(),
            shared: Arc::clone(&self.shared),
            // Later records are left out, so that pages do not overlap.
            upto: self.shared.last.load(Relaxed),
            filter,
            loaded: Vec::new(),
        }
    }

    /// Returns up to `limit` of the selected records, newest first. With `after` these are the first records behind it, so
    /// that a reader who follows the journal misses none.
    pub fn list(
        &self,
        filter: JournalFilter,
        limit: usize,
    ) -> Result<Vec<JournalRecord>, JournalError> {
        let follows = filter.after.is_some();
        let mut records = self.records(filter);
        let mut listed = Vec::new();
        for record in &mut records {
            listed.push(record?);
            // A follower gets the oldest records. Dropping newer ones here bounds the list to twice the limit.
            if follows && listed.len() >= 2 * limit {
                listed.drain(..listed.len() - limit);
            } else if !follows && listed.len() == limit {
                break;
            }
        }
        if follows {
            listed.drain(..listed.len().saturating_sub(limit));
        }
        Ok(listed)
    }

    pub fn find(&self, id: &str) -> Result<Option<JournalRecord>, JournalError> {
        let filter = JournalFilter {
            id: Some(id.to_owned()),
            ..JournalFilter::default()
        };
        self.records(filter).next().transpose()
    }
}

pub struct JournalRecords {
    shared: Arc<JournalShared>,
    /// Still to be read, the newest last.
    segments: Vec<SegmentSummary>,
    filter: JournalFilter,
    upto: u64,
    /// Selected records of the last segment that was read, the newest last.
    loaded: Vec<JournalRecord>,
}

impl JournalRecords {
    fn load(&mut self, segment: &SegmentSummary) -> io::Result<()> {
        let keys = self.filter.keys();
        let index = match keys.is_empty() {
            true => None,
            false => self.shared.directory.index(segment.first),
        };
        // A segment without a valid index is read.
        if index.is_some_and(|index| !keys.iter().all(|key| index.may_contain(*key))) {
            return Ok(());
        }
        let records = match self.shared.directory.read(segment.first) {
            // Retention has deleted the segment in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            records => records?,
        };
        self.loaded = records;
        self.loaded
            .retain(|record| record.number <= self.upto && self.filter.selects(record));
        Ok(())
    }
}

impl Iterator for JournalRecords {
    type Item = Result<JournalRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.loaded.pop() {
                return Some(Ok(record));
            }
            let segment = self.segments.pop()?;
            if let Err(error) = self.load(&segment) {
                // A retry would fail in the same way.
                self.segments.clear();
                return Some(Err(error.into()));
            }
        }
    }
}
