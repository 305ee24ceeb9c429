//! The list of the segments of a log that is open, and which files of it another program has deleted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use parking_lot::Mutex;

use super::segment::Segment;
use crate::error::StoreError;
use crate::history::History;
use playgate_process::files::{FileId, remove_file};

pub(crate) struct Closed {
    pub(crate) segments: Vec<Segment>,
    pub(crate) number: u64,
}

/// The segments, shared with the threads that retire them. The last one is open for writing.
#[derive(Clone, Default)]
pub(crate) struct Segments {
    all: Arc<Mutex<Vec<Segment>>>,
    open: Arc<Mutex<OpenFiles>>,
    end_sync_requested: Arc<AtomicBool>,
}

/// The files that the writer has open.
#[derive(Default)]
struct OpenFiles {
    /// The last segment, and its length.
    segment: Option<(FileId, u64)>,
    /// The end record.
    end: Option<FileId>,
}

impl Segments {
    pub(super) fn new(segments: Vec<Segment>) -> Self {
        Self {
            all: Arc::new(Mutex::new(segments)),
            open: Arc::default(),
            end_sync_requested: Arc::default(),
        }
    }

    pub(crate) fn request_end_sync(&self) {
        // The WAL syncs the record right after its own next sync, so that the record on disk never claims more
        // commits than were synced.
        self.end_sync_requested.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_end_sync_request(&self) -> bool {
        self.end_sync_requested.load(Ordering::Relaxed)
            && self.end_sync_requested.swap(false, Ordering::Relaxed)
    }

    pub(super) fn set_end(&self, end: FileId) {
        self.open.lock().end = Some(end);
    }

    /// Whether another program has deleted or replaced the end record.
    pub(crate) fn has_lost_end(&self, path: &Path) -> bool {
        match fs::symlink_metadata(path) {
            Ok(named) => (self.open.lock().end).is_some_and(|open| open != FileId::of(&named)),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Returns a segment that another program has deleted, replaced or cut.
    pub(crate) fn missing(&self) -> Option<PathBuf> {
        // Locked, so that none is retired meanwhile.
        let segments = self.all.lock();
        let is_lost = |at: usize, segment: &Segment| match fs::symlink_metadata(&segment.path) {
            Ok(named) if at + 1 == segments.len() => {
                let open = self.open.lock().segment;
                open.is_some_and(|(id, length)| id != FileId::of(&named) || named.len() < length)
            }
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let mut all = segments.iter().enumerate();
        all.find(|(at, segment)| is_lost(*at, segment))
            .map(|(_, segment)| segment.path.clone())
    }

    pub(super) fn push(&self, segment: Segment, file: &fs::Metadata) {
        let mut segments = self.all.lock();
        self.open.lock().segment = Some((FileId::of(file), file.len()));
        // A segment of the same number has no frames and is replaced.
        segments.retain(|other| other.path.file_stem() != segment.path.file_stem());
        if let Some(before) = segments.last_mut() {
            // Frames of a failed roll beyond this number do not belong to the log.
            before.end = before.end.min(segment.first);
        }
        segments.push(segment);
    }

    pub(crate) fn all(&self) -> Vec<Segment> {
        self.all.lock().clone()
    }

    pub(crate) fn closed(&self) -> Option<Closed> {
        let segments = self.all.lock();
        let (last, closed) = segments.split_last()?;
        (!closed.is_empty()).then(|| Closed {
            segments: closed.to_vec(),
            number: last.first - 1,
        })
    }

    pub(crate) fn history(&self, number: u64) -> History {
        let segments = self.all.lock();
        // The chain is known only for the last commit before a segment; otherwise only the timeline is.
        let after = segments.iter().find(|after| after.first == number + 1);
        let last = segments.last().map(|last| last.history.unchained());
        after
            .map(|after| after.history)
            .or(last)
            .unwrap_or_default()
    }

    pub(crate) fn retire(&self, number: u64) -> Result<(), StoreError> {
        let mut segments = self.all.lock();
        // Segments go oldest first, and the last one stays, so that the log has no gaps.
        while let [oldest, next, ..] = segments.as_slice() {
            if next.first > number.saturating_add(1) {
                break;
            }
            // Not synced: a segment that a power cut brings back is retired again.
            remove_file(&oldest.path, false)?;
            segments.remove(0);
        }
        Ok(())
    }
}
