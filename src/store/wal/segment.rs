//! The files of the log, and what can be read of them.
//!
//! A segment is named after the number of its first frame. All but the last were synced before the
//! next was begun, so that only the last can end in a torn write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::StoreError;
use super::frame::{Frame, parse, was_whole};
use super::head::{Head, begin, is_cut};
use crate::store::history::{History, Lineage};

/// One file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Segment {
    /// The number of its first frame.
    pub(in crate::store) first: u64,
    /// The number after that of its last frame; of one that is written to, no bound. What a file
    /// holds beyond these two is not of this log.
    pub(in crate::store) end: u64,
    pub(in crate::store) path: PathBuf,
    /// As of the commit before the first frame, as far as it is known.
    pub(in crate::store) history: History,
}

/// The segments that nothing is written to any more.
pub(in crate::store) struct Closed {
    pub(in crate::store) segments: Vec<Segment>,
    /// The number of their last frame.
    pub(in crate::store) number: u64,
}

/// The list of segments, shared with whoever retires them. The last one is written to.
#[derive(Clone, Default)]
pub(in crate::store) struct Segments {
    all: Arc<Mutex<Vec<Segment>>>,
    /// Whether the next sync of the log syncs the record of its end too.
    end_is_due: Arc<AtomicBool>,
}

impl Segments {
    pub(super) fn new(segments: Vec<Segment>) -> Self {
        Self {
            all: Arc::new(Mutex::new(segments)),
            end_is_due: Arc::default(),
        }
    }

    /// Asks for the record of the log's end to be synced. The log does that itself, right after a
    /// sync of its own, so that what is kept never says that more was written than was synced.
    pub(in crate::store) fn want_end_synced(&self) {
        self.end_is_due.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_end_is_due(&self) -> bool {
        self.end_is_due.load(Ordering::Relaxed) && self.end_is_due.swap(false, Ordering::Relaxed)
    }

    /// Adds a new last segment. One of the same name held no frame, and has been overwritten.
    pub(super) fn push(&self, segment: Segment) {
        let mut segments = self.all.lock();
        segments.retain(|other| other.path != segment.path);
        if let Some(before) = segments.last_mut() {
            before.end = before.end.min(segment.first);
        }
        segments.push(segment);
    }

    /// All segments.
    pub(in crate::store) fn all(&self) -> Vec<Segment> {
        self.all.lock().clone()
    }

    /// The segments that nothing is written to any more; none if there are none.
    pub(in crate::store) fn closed(&self) -> Option<Closed> {
        let segments = self.all.lock();
        let (last, closed) = segments.split_last()?;
        (!closed.is_empty()).then(|| Closed {
            segments: closed.to_vec(),
            number: last.first - 1,
        })
    }

    /// The history as of a commit after which a segment begins; of any other one, the timeline alone.
    pub(in crate::store) fn history(&self, number: u64) -> History {
        let segments = self.all.lock();
        let after = segments.iter().find(|after| after.first == number + 1);
        let last = segments.last().map(|last| last.history.unchained());
        after
            .map(|after| after.history)
            .or(last)
            .unwrap_or_default()
    }

    /// Deletes the segments that hold nothing after `number`.
    pub(in crate::store) fn retire(&self, number: u64) -> Result<(), StoreError> {
        let mut segments = self.all.lock();
        while let [oldest, next, ..] = segments.as_slice() {
            if next.first > number.saturating_add(1) {
                break;
            }
            match fs::remove_file(&oldest.path) {
                // Gone already, by whatever hand: the next ones can go all the same.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
            segments.remove(0);
        }
        Ok(())
    }
}

/// Frames that were promised and cannot be read: from one number up to, not including, another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Gap {
    pub(in crate::store) from: u64,
    pub(in crate::store) to: u64,
    pub(in crate::store) path: PathBuf,
}

/// What the files of a log hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Survey {
    pub(in crate::store) segments: Vec<Segment>,
    /// The number after that of the last frame; 0 where there are no segments.
    pub(in crate::store) next: u64,
    pub(in crate::store) gaps: Vec<Gap>,
    /// Where in the last segment a torn tail begins: nothing from there on was promised.
    pub(in crate::store) torn: Option<usize>,
    /// Files that are not of this log, or not of this place in it: why. None of their frames counts.
    pub(in crate::store) foreign: Vec<String>,
    /// As of the last frame.
    pub(in crate::store) history: History,
    /// As of the commits that were asked for, as far as it is known.
    pub(in crate::store) marks: BTreeMap<u64, History>,
}

/// What a survey compares the log with.
#[derive(Default)]
pub(in crate::store) struct Expected<'a> {
    /// Whose timelines count; any if there is none.
    pub(in crate::store) lineage: Option<&'a Lineage>,
    /// The commits whose history is asked for.
    pub(in crate::store) marks: BTreeSet<u64>,
}

impl Survey {
    /// Reads all segments of a directory, in order.
    pub(in crate::store) fn read_directory(
        directory: &Path,
        expected: &Expected<'_>,
    ) -> Result<Self, StoreError> {
        if !directory.exists() {
            return Ok(Self::default());
        }
        Self::over(list(directory)?, expected)
    }

    /// Reads segments, in order; what stands last may be torn.
    pub(in crate::store) fn over(
        mut segments: Vec<Segment>,
        expected: &Expected<'_>,
    ) -> Result<Self, StoreError> {
        let mut survey = Self {
            next: segments.first().map_or(0, |first| first.first),
            ..Self::default()
        };
        let count = segments.len();
        for (at, segment) in segments.iter_mut().enumerate() {
            survey.read(segment, at + 1 == count, expected)?;
        }
        survey.segments = segments;
        Ok(survey)
    }

    /// The number of the last frame; 0 where there is none.
    pub(in crate::store) const fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Whether every number of a range can be read.
    pub(in crate::store) fn is_whole(&self, from: u64, to: u64) -> bool {
        let first = self.segments.first().map_or(from, |segment| segment.first);
        (from >= to)
            || (first <= from && !self.gaps.iter().any(|gap| gap.from < to && from < gap.to))
    }

    /// The last commit up to which every one after `number` can be read.
    pub(in crate::store) fn reaches(&self, number: u64) -> u64 {
        let begins = self.segments.first().map(|segment| segment.first);
        if self.last() <= number || begins.is_none_or(|first| first > number + 1) {
            return number;
        }
        let gaps = self.gaps.iter().filter(|gap| gap.to > number + 1);
        gaps.map(|gap| gap.from - 1)
            .min()
            .map_or(self.last(), |end| end.max(number))
    }

    fn read(
        &mut self,
        segment: &mut Segment,
        last: bool,
        expected: &Expected<'_>,
    ) -> Result<(), StoreError> {
        if segment.first > self.next {
            self.reach(segment.first, &segment.path);
            self.next = segment.first;
            self.history = History::default();
        }
        let bytes = fs::read(&segment.path)?;
        let (head, start) = begin(&bytes);
        if let Some(why) = self.is_foreign(segment, head.as_ref(), bytes.get(start..), expected) {
            self.foreign
                .push(format!("{} {why}", segment.path.display()));
            segment.end = segment.first;
            return Ok(());
        }
        // A roll that failed can leave an empty file of this name, and frames from its number on in
        // the segment before it.
        segment.first = segment.first.max(self.next);
        self.join(segment, head.as_ref(), expected);
        let limit = expected
            .lineage
            .and_then(|lineage| lineage.until_in_log(segment.history.timeline))
            .unwrap_or(u64::MAX);
        let mut at = start;
        loop {
            at = frames(&bytes, at, &mut |frame, _| {
                if (self.next..=limit).contains(&frame.number) {
                    self.step(&frame, &segment.path, expected);
                }
                Ok(())
            })?;
            let missing = self.next;
            let tail = bytes.get(at..).unwrap_or_default();
            if tail.len() >= 8 && used(tail).is_empty() {
                break;
            }
            // Of a file that was cut nobody knows what came next.
            let cut = at > start && is_cut(&bytes);
            if tail.is_empty() && !cut {
                break;
            }
            let whole = cut || was_whole(&bytes, at, missing);
            // A later frame knows whether this one had been synced; in a closed segment all were.
            match later(&bytes, at + 8, missing) {
                Some((found, synced)) if whole || !last || synced >= missing => at = found,
                None if whole => {
                    self.reach(missing + 1, &segment.path);
                    self.next = missing + 1;
                    self.history = self.history.unchained();
                    break;
                }
                Some(_) | None => {
                    if last {
                        self.torn = Some(at);
                    }
                    break;
                }
            }
        }
        segment.end = self.next;
        Ok(())
    }

    /// Why a file is not the segment that its name says, if it is not.
    fn is_foreign(
        &self,
        segment: &Segment,
        head: Option<&Head>,
        frames: Option<&[u8]>,
        expected: &Expected<'_>,
    ) -> Option<String> {
        let first = head.map(|head| head.first);
        let first = first.or_else(|| frames.and_then(parse).map(|frame| frame.number));
        if let Some(found) = first.filter(|found| *found != segment.first) {
            return Some(format!("begins with commit {found}"));
        }
        let history = head?.history;
        let until = match expected.lineage {
            Some(lineage) => lineage.until_in_log(history.timeline),
            None => Some(u64::MAX),
        };
        if until.is_none_or(|until| segment.first > until) {
            return Some("is of another history of this store".to_owned());
        }
        if segment.first == self.next && !history.agrees(self.history) {
            return Some("does not continue what lies before it".to_owned());
        }
        None
    }

    /// Goes on with the history that a segment begins with.
    fn join(&mut self, segment: &mut Segment, head: Option<&Head>, expected: &Expected<'_>) {
        if let Some(head) = head.filter(|head| head.first == segment.first) {
            self.history = head.history;
        }
        segment.history = self.history;
        self.mark(segment.first.saturating_sub(1), expected);
    }

    fn mark(&mut self, number: u64, expected: &Expected<'_>) {
        if expected.marks.contains(&number) && self.history.is_chained() {
            self.marks.insert(number, self.history);
        }
    }

    fn step(&mut self, frame: &Frame<'_>, path: &Path, expected: &Expected<'_>) {
        self.reach(frame.number, path);
        self.history = if frame.number == self.next {
            self.history.after(frame.number, frame.payload)
        } else {
            self.history.unchained()
        };
        self.next = frame.number + 1;
        self.mark(frame.number, expected);
    }

    /// What lies between the next number and `number` is missing.
    fn reach(&mut self, number: u64, path: &Path) {
        if number > self.next {
            self.gaps.push(Gap {
                from: self.next,
                to: number,
                path: path.to_owned(),
            });
        }
    }
}

/// The next place from `at` on where a frame can be read, its number at least `number`; and its mark.
fn later(bytes: &[u8], mut at: usize, number: u64) -> Option<(usize, u64)> {
    let bytes = used(bytes);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(frame) = parse(rest).filter(|frame| frame.number >= number) {
            return Some((at, frame.synced));
        }
        at += 8;
    }
    None
}

/// The bytes up to the last one that is not zero, which no frame ends in. Most of a segment may be
/// zeros, so they are skipped by the page.
fn used(mut bytes: &[u8]) -> &[u8] {
    const PAGE: [u8; 4_096] = [0; 4_096];
    while let Some((before, page)) = bytes.split_last_chunk()
        && *page == PAGE
    {
        bytes = before;
    }
    let last = bytes.iter().rposition(|byte| *byte != 0);
    bytes
        .get(..last.map_or(0, |last| last + 1))
        .unwrap_or_default()
}

/// Walks the frames from a place on, handing over each with its place; returns where they end.
fn frames(
    bytes: &[u8],
    mut at: usize,
    each: &mut dyn FnMut(Frame<'_>, usize) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    while let Some(frame) = bytes.get(at..).and_then(parse) {
        let size = frame.size();
        each(frame, at)?;
        at += size;
    }
    Ok(at)
}

/// Hands over every frame of a segment that can be read and is its own, with its place in the file.
pub(in crate::store) fn read_segment(
    segment: &Segment,
    each: &mut dyn FnMut(Frame<'_>, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if segment.first >= segment.end {
        return Ok(());
    }
    let bytes = fs::read(&segment.path)?;
    let mut next = segment.first;
    let mut at = begin(&bytes).1;
    loop {
        at = frames(&bytes, at, &mut |frame, at| {
            if !(next..segment.end).contains(&frame.number) {
                return Ok(());
            }
            next = frame.number + 1;
            each(frame, at)
        })?;
        match later(&bytes, at + 8, 1) {
            Some((found, _)) => at = found,
            None => return Ok(()),
        }
    }
}

/// The segments of a directory, in order.
fn list(directory: &Path) -> Result<Vec<Segment>, StoreError> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let first = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|number| number.parse().ok());
        if let Some(first) = first {
            segments.push(Segment {
                first,
                end: u64::MAX,
                path,
                history: History::default(),
            });
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}
