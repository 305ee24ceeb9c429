//! The files of the log, and what can be read of them.
//!
//! A segment is named after the number of its first frame. All but the last were synced before the
//! next was begun, so that only the last can end in a torn write.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::StoreError;
use super::frame::{Frame, parse, was_whole};

/// The first bytes of each segment.
const MAGIC: &[u8; 8] = b"PGLOG\x00\x00\x01";
/// The magic word, and the length that the file was made with.
pub(super) const HEAD: usize = 16;

/// What a segment of a length begins with.
pub(super) fn head(length: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let (magic, rest) = head.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    rest.copy_from_slice(&length.to_le_bytes());
    head
}

/// Whether a file is shorter than it was made: nothing of ours ever cuts one.
fn is_cut(bytes: &[u8]) -> bool {
    let length = bytes.strip_prefix(MAGIC).and_then(<[u8]>::first_chunk::<8>);
    length.is_some_and(|length| u64::from_le_bytes(*length) > bytes.len() as u64)
}

/// One file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Segment {
    /// The number of its first frame.
    pub(in crate::store) first: u64,
    pub(in crate::store) path: PathBuf,
}

/// The list of segments, shared with whoever retires them. The last one is written to.
#[derive(Clone, Default)]
pub(in crate::store) struct Segments(Arc<Mutex<Vec<Segment>>>);

impl Segments {
    pub(super) fn new(segments: Vec<Segment>) -> Self {
        Self(Arc::new(Mutex::new(segments)))
    }

    /// Adds a new last segment. One of the same name held no frame, and has been overwritten.
    pub(super) fn push(&self, segment: Segment) {
        let mut segments = self.0.lock();
        segments.retain(|other| other.path != segment.path);
        segments.push(segment);
    }

    /// All segments.
    pub(in crate::store) fn all(&self) -> Vec<Segment> {
        self.0.lock().clone()
    }

    /// The segments that nothing is written to any more, and the number of their last frame.
    pub(in crate::store) fn closed(&self) -> Option<(Vec<Segment>, u64)> {
        let segments = self.0.lock();
        let (last, closed) = segments.split_last()?;
        (!closed.is_empty()).then(|| (closed.to_vec(), last.first - 1))
    }

    /// Deletes the segments that hold nothing after `number`.
    pub(in crate::store) fn retire(&self, number: u64) -> Result<(), StoreError> {
        let mut segments = self.0.lock();
        while let [oldest, next, ..] = segments.as_slice() {
            if next.first > number.saturating_add(1) {
                break;
            }
            fs::remove_file(&oldest.path)?;
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
}

impl Survey {
    /// Reads all segments of a directory, in order.
    pub(in crate::store) fn of(directory: &Path) -> Result<Self, StoreError> {
        Self::over(list(directory)?)
    }

    /// Reads segments, in order; what stands last may be torn.
    pub(in crate::store) fn over(segments: Vec<Segment>) -> Result<Self, StoreError> {
        let mut survey = Self {
            next: segments.first().map_or(0, |first| first.first),
            ..Self::default()
        };
        for (at, segment) in segments.iter().enumerate() {
            survey.read(segment, at + 1 == segments.len())?;
        }
        survey.segments = segments;
        Ok(survey)
    }

    /// The number of the last frame in a directory; 0 where there is none.
    pub(in crate::store) fn last_in(directory: &Path) -> Result<u64, StoreError> {
        if !directory.exists() {
            return Ok(0);
        }
        Ok(Self::of(directory)?.next.saturating_sub(1))
    }

    /// Whether every number of a range can be read.
    pub(in crate::store) fn is_whole(&self, from: u64, to: u64) -> bool {
        let first = self.segments.first().map_or(from, |segment| segment.first);
        (from >= to)
            || (first <= from && !self.gaps.iter().any(|gap| gap.from < to && from < gap.to))
    }

    fn read(&mut self, segment: &Segment, last: bool) -> Result<(), StoreError> {
        self.reach(segment.first, &segment.path);
        let bytes = fs::read(&segment.path)?;
        let mut at = HEAD;
        loop {
            at = frames(&bytes, at, &mut |frame, _| {
                self.reach(frame.number, &segment.path);
                self.next = self.next.max(frame.number + 1);
                Ok(())
            })?;
            let missing = self.next;
            let tail = bytes.get(at..).unwrap_or_default();
            if tail.len() >= 8 && used(tail).is_empty() {
                break;
            }
            // Of a file that was cut nobody knows what came next.
            let cut = at > HEAD && is_cut(&bytes);
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
        Ok(())
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

/// Hands over every frame of a segment that can be read, with its place in the file.
pub(in crate::store) fn read_segment(
    segment: &Segment,
    each: &mut dyn FnMut(Frame<'_>, usize) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let bytes = fs::read(&segment.path)?;
    let mut at = HEAD;
    loop {
        at = frames(&bytes, at, each)?;
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
            segments.push(Segment { first, path });
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}
