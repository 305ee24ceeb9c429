//! Reads the segment files of the WAL and finds gaps, torn writes and foreign files in them.
//!
//! A segment is named after the number of its first frame. Each segment was synced before the next
//! one was begun, so only the last one can end in a torn write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::frame::{Frame, parse, was_whole};
use super::head::{Head, begin, is_cut};
use super::{ENDING, OLD_ENDING, StoreError};
use crate::history::{History, Lineage};
use playgate_process::data_file::{self, at};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    /// One above the number of the last frame; `u64::MAX` while the segment is open.
    pub(crate) end: u64,
    pub(crate) path: PathBuf,
    /// The history up to the commit before the first frame; may be unknown.
    pub(crate) history: History,
}

/// Promised frames that cannot be read: `from` up to, but excluding, `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) path: PathBuf,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) segments: Vec<Segment>,
    /// One above the last frame's number; 0 without segments.
    pub(crate) next: u64,
    pub(crate) gaps: Vec<Gap>,
    /// Offset of a torn write in the last segment. No frame from there on was promised.
    pub(crate) torn: Option<usize>,
    /// Files that do not belong to this log or to this place in it, with the reason. Their frames
    /// are ignored.
    pub(crate) foreign: Vec<String>,
    pub(crate) history: History,
    pub(crate) marks: BTreeMap<u64, History>,
}

#[derive(Default)]
pub(crate) struct Expected<'a> {
    /// Only segments of these timelines are accepted; `None` accepts all.
    pub(crate) lineage: Option<&'a Lineage>,
    pub(crate) marks: BTreeSet<u64>,
}

impl Survey {
    pub(crate) fn read_directory(
        directory: &Path,
        expected: &Expected<'_>,
    ) -> Result<Self, StoreError> {
        if !directory.exists() {
            return Ok(Self::default());
        }
        Self::over(list(directory)?, expected)
    }

    pub(crate) fn over(
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

    pub(crate) const fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    pub(crate) fn is_whole(&self, from: u64, to: u64) -> bool {
        let first = self.segments.first().map_or(from, |segment| segment.first);
        (from >= to)
            || (first <= from && !self.gaps.iter().any(|gap| gap.from < to && from < gap.to))
    }

    /// Returns the last commit that the WAL reaches from `number` without a gap.
    pub(crate) fn reaches(&self, number: u64) -> u64 {
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
        // Commits before this segment are missing, so the chain cannot be continued.
        if segment.first > self.next {
            self.reach(segment.first, &segment.path);
            self.next = segment.first;
            self.history = History::default();
        }
        let bytes = data_file::read(&segment.path)?;
        let (head, start) = begin(&bytes);
        // The frames of a foreign file would replace commits of this log, so none of them is read.
        if let Some(why) = self.is_foreign(segment, head.as_ref(), bytes.get(start..), expected) {
            self.foreign
                .push(format!("{} {why}", segment.path.display()));
            segment.end = segment.first;
            return Ok(());
        }
        // A failed roll can leave an empty file of this name, while the segment before it contains
        // frames from its number on.
        segment.first = segment.first.max(self.next);
        self.join(segment, head.as_ref(), expected);
        let limit = expected
            .lineage
            .and_then(|lineage| lineage.until_in_log(segment.history.timeline))
            .unwrap_or(u64::MAX);
        let mut at = start;
        loop {
            at = frames(&bytes, at, &mut |frame, _| {
                // Frames above the limit belong to a timeline that was abandoned there.
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
            // A file that was cut may have had any number of further frames.
            let cut = at > start && is_cut(&bytes);
            if tail.is_empty() && !cut {
                break;
            }
            let whole = cut || was_whole(&bytes, at, missing);
            // A later frame records whether this one was synced; all frames of a closed segment
            // were.
            match later(&bytes, at + 8, missing) {
                Some((found, synced)) if whole || !last || synced >= missing => at = found,
                None if whole => {
                    self.reach(missing + 1, &segment.path);
                    // One commit is reported as missing. How many followed it is unknown.
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

    /// Returns why the file does not belong here, or `None` if it is the segment that its name says.
    fn is_foreign(
        &self,
        segment: &Segment,
        head: Option<&Head>,
        frames: Option<&[u8]>,
        expected: &Expected<'_>,
    ) -> Option<String> {
        let first = head.map(|head| head.first);
        // A segment with a damaged head is still identified by its first frame.
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
            return Some("does not continue the segment before it".to_owned());
        }
        None
    }

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

/// Returns offset and synced mark of the next readable frame with at least this number.
fn later(bytes: &[u8], mut at: usize, number: u64) -> Option<(usize, u64)> {
    let bytes = used(bytes);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(frame) = parse(rest).filter(|frame| frame.number >= number) {
            return Some((at, frame.synced));
        }
        // Frames are aligned to eight bytes.
        at += 8;
    }
    None
}

/// Returns the bytes without the zeros at their end. No frame ends in a zero.
fn used(mut bytes: &[u8]) -> &[u8] {
    const PAGE: [u8; 4_096] = [0; 4_096];
    // Whole pages go first, since most of a segment can be preallocated zeros.
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

fn frames<'a>(
    bytes: &'a [u8],
    mut at: usize,
    each: &mut dyn FnMut(Frame<'a>, usize) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    while let Some(frame) = bytes.get(at..).and_then(parse) {
        let size = frame.size();
        each(frame, at)?;
        at += size;
    }
    Ok(at)
}

pub(crate) fn read_segment(
    segment: &Segment,
    each: &mut dyn FnMut(Frame<'_>, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if segment.first >= segment.end {
        return Ok(());
    }
    let bytes = data_file::read(&segment.path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            StoreError::damaged_file(&segment.path, "is missing: another program has deleted it")
        }
        _ => error.into(),
    })?;
    read_frames(&bytes, segment, each)
}

pub(crate) fn read_frames<'a>(
    bytes: &'a [u8],
    segment: &Segment,
    each: &mut dyn FnMut(Frame<'a>, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut next = segment.first;
    let mut at = begin(bytes).1;
    loop {
        at = frames(bytes, at, &mut |frame, at| {
            // A repeated or older number is a remnant of an earlier log in the same file.
            if !(next..segment.end).contains(&frame.number) {
                return Ok(());
            }
            next = frame.number + 1;
            each(frame, at)
        })?;
        match later(bytes, at + 8, 1) {
            Some((found, _)) => at = found,
            None => return Ok(()),
        }
    }
}

fn list(directory: &Path) -> Result<Vec<Segment>, StoreError> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory).map_err(at("list", directory))? {
        let path = entry?.path();
        let first = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| {
                let (number, ending) = name.rsplit_once('.')?;
                [ENDING, OLD_ENDING].contains(&ending).then_some(number)
            })
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
    // An empty segment of an earlier version comes before the one that has its number now.
    segments.sort_by(|one, other| (one.first, &one.path).cmp(&(other.first, &other.path)));
    Ok(segments)
}
