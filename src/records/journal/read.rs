//! Reads records back, newest first, or on from a record that the reader knows.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::filter::JournalFilter;
use super::record::JournalRecord;
use super::segment::SegmentSummary;
use super::{JournalError, JournalShared, RequestJournal};

/// How much a page may read. Unpacking a segment takes some 15 milliseconds, a look into an index much less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBudget(u32);

const OF_SEGMENT: u32 = 64;

impl ReadBudget {
    pub const UNLIMITED: Self = Self(u32::MAX);

    pub const fn segments(segments: u32) -> Self {
        Self(segments.saturating_mul(OF_SEGMENT))
    }

    fn spend(&mut self, cost: u32) {
        self.0 = self.0.saturating_sub(cost);
    }
}

/// Selected records in the order of the search: the newest first, or the oldest first behind `after`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalPage {
    pub records: Vec<JournalRecord>,
    /// Where the search continues if it is not complete: at records before this number, or behind it.
    pub rest: Option<u64>,
    /// Number of the last record at the time of the search.
    pub upto: u64,
}

impl RequestJournal {
    /// Returns the selected records, newest first. Waits for records that are being gathered, and each step may read a
    /// file: call it on a blocking thread.
    pub fn records(&self, filter: JournalFilter) -> JournalRecords {
        let (segments, upto) = self.reached(&filter);
        JournalRecords {
            segments,
            shared: Arc::clone(&self.shared),
            // Later records are left out, so that pages do not overlap.
            upto,
            filter,
            loaded: Vec::new(),
        }
    }

    /// Returns the segments that can contain a selected record, the newest last, and the number of the last record.
    fn reached(&self, filter: &JournalFilter) -> (Vec<SegmentSummary>, u64) {
        self.writer.flush_for_reader();
        let segments = self.shared.segments.lock();
        let readable = segments.values().filter(|segment| !segment.unreadable);
        let reached = readable.filter(|segment| filter.reaches(segment));
        (reached.cloned().collect(), self.shared.last.load(Relaxed))
    }

    /// Returns up to `limit` of the selected records within a budget. With `after` they are the first records behind it,
    /// so that a reader who follows the journal misses none. Call it on a blocking thread.
    pub fn page(
        &self,
        filter: &JournalFilter,
        limit: usize,
        mut budget: ReadBudget,
    ) -> Result<JournalPage, JournalError> {
        let (mut segments, upto) = self.reached(filter);
        let follows = filter.after.is_some();
        if !follows {
            segments.reverse();
        }
        let mut page = JournalPage {
            upto,
            ..JournalPage::default()
        };
        let mut segments = segments.into_iter().peekable();
        while let Some(segment) = segments.next() {
            let mut found = self.shared.load(&segment, filter, upto, &mut budget)?;
            if !follows {
                found.reverse();
            }
            let room = limit - page.records.len();
            if found.len() > room {
                found.truncate(room);
                page.rest = found.last().map(|record| record.number);
            }
            page.records.append(&mut found);
            if page.rest.is_some() || segments.peek().is_none() {
                break;
            }
            if page.records.len() >= limit || budget.0 == 0 {
                page.rest = Some(match follows {
                    true => segment.last,
                    false => segment.first,
                });
                break;
            }
        }
        Ok(page)
    }

    /// Returns up to `limit` of the selected records, newest first. With `after` these are the first records behind it.
    pub fn list(
        &self,
        filter: &JournalFilter,
        limit: usize,
    ) -> Result<Vec<JournalRecord>, JournalError> {
        let mut records = self.page(filter, limit, ReadBudget::UNLIMITED)?.records;
        if filter.after.is_some() {
            records.reverse();
        }
        Ok(records)
    }

    pub fn find(&self, id: &str) -> Result<Option<JournalRecord>, JournalError> {
        let filter = JournalFilter {
            id: Some(id.to_owned()),
            ..JournalFilter::default()
        };
        self.records(filter).next().transpose()
    }
}

impl JournalShared {
    /// Reads the selected records of a segment, the oldest first.
    fn load(
        &self,
        segment: &SegmentSummary,
        filter: &JournalFilter,
        upto: u64,
        budget: &mut ReadBudget,
    ) -> io::Result<Vec<JournalRecord>> {
        budget.spend(1);
        let index = match filter.has_keys() {
            true => self.directory.index(segment.first),
            false => None,
        };
        // A segment without a valid index is read.
        if index.is_some_and(|index| !filter.may_be_in(&index)) {
            return Ok(Vec::new());
        }
        budget.spend(OF_SEGMENT);
        let mut records = match self.directory.read(segment.first) {
            // Retention has deleted the segment in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            records => records?,
        };
        records.retain(|record| record.number <= upto && filter.selects(record));
        Ok(records)
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

impl Iterator for JournalRecords {
    type Item = Result<JournalRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.loaded.pop() {
                return Some(Ok(record));
            }
            let segment = self.segments.pop()?;
            let (filter, mut budget) = (&self.filter, ReadBudget::UNLIMITED);
            match self.shared.load(&segment, filter, self.upto, &mut budget) {
                Ok(loaded) => self.loaded = loaded,
                Err(error) => {
                    // A retry would fail in the same way.
                    self.segments.clear();
                    return Some(Err(error.into()));
                }
            }
        }
    }
}
