//! Reads events back: for the export, for a user and for reports.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::error::TelemetryError;
use super::frame::{EventFrames, key_of};
use super::model::StoredEvent;
use super::tables::HoursByUser;
use super::{Inner, Telemetry, hour_of};
use playgate_segment_log::{Lengths, SegmentReader};
use playgate_types::{UnixSeconds, UserId};

#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Bounds of the time of receipt, the upper one exclusive.
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
    pub user: Option<UserId>,
}

impl Selection {
    fn selects(&self, event: &StoredEvent) -> bool {
        self.from.is_none_or(|from| event.received >= from)
            && self.to.is_none_or(|to| event.received < to)
            && self.user.is_none_or(|user| event.sender.user == user)
    }
}

impl Telemetry {
    /// Returns events in order of receipt. Each step reads a file: call it on a blocking thread.
    pub fn events(&self, selection: Selection) -> Result<Events, TelemetryError> {
        let mut hours = match selection.user {
            // The index spares reading the hours without events of the user; that of a compressed hour, its other members.
            Some(user) => self.hours_of(&user)?,
            None => self.inner.directory.hours()?,
        };
        hours.retain(|hour| {
            selection.from.is_none_or(|from| *hour >= hour_of(from))
                // A request that straddled the end of an hour is in the segment of the next one.
                && selection.to.is_none_or(|to| *hour <= hour_of(to) + 1)
        });
        let directory = &self.inner.directory;
        Ok(Events {
            files: hours
                .iter()
                .map(|hour| (directory.events(*hour), directory.lengths(*hour)))
                .collect(),
            open: None,
            selection,
            stopped: None,
        })
    }

    pub(super) fn hours_of(&self, user: &UserId) -> Result<Vec<i64>, TelemetryError> {
        self.inner.hours_of(user)
    }
}

impl Inner {
    pub(super) fn hours_of(&self, user: &UserId) -> Result<Vec<i64>, TelemetryError> {
        let entries = self
            .store
            .read(|txn| txn.scan_index::<HoursByUser>(user, usize::MAX))?;
        Ok(entries.into_iter().map(|((_, hour), _)| hour).collect())
    }
}

pub struct Events {
    files: VecDeque<(PathBuf, PathBuf)>,
    open: Option<OpenFile>,
    selection: Selection,
    /// Ends a search whose reader has gone.
    stopped: Option<Arc<AtomicBool>>,
}

struct OpenFile {
    frames: EventFrames<SegmentReader>,
    path: PathBuf,
    /// `None` if parts are left out.
    lengths: Option<Lengths>,
}

impl OpenFile {
    /// Opens what may contain selected events.
    fn open(path: PathBuf, lengths: &Path, selection: &Selection) -> io::Result<Self> {
        let (file, in_parts) = match &selection.user {
            Some(user) => SegmentReader::open_for(&path, key_of(user))?,
            None => (SegmentReader::open(&path)?, false),
        };
        Ok(Self {
            frames: EventFrames::new(file),
            path,
            // Read after the segment is opened, since a shorter one may replace it, and before its events, since the segment
            // may grow.
            lengths: (!in_parts).then(|| Lengths::read(lengths)),
        })
    }

    fn report_damage(&self) {
        let (damaged, end) = (self.frames.damaged(), self.frames.sound_end());
        if damaged > 0 {
            super::segment::report_damage(&self.path, damaged);
        }
        if let Some(lengths) = self.lengths {
            lengths.compare(&self.path, end);
        }
    }
}

impl Events {
    pub fn until(mut self, stopped: Arc<AtomicBool>) -> Self {
        self.stopped = Some(stopped);
        self
    }

    fn read(&mut self) -> io::Result<Option<StoredEvent>> {
        loop {
            if let Some(open) = &mut self.open {
                while let Some(event) = open.frames.next_frame()? {
                    if self.stopped.as_ref().is_some_and(|flag| flag.load(Relaxed)) {
                        return Ok(None);
                    }
                    if self.selection.selects(&event) {
                        return Ok(Some(event));
                    }
                }
                open.report_damage();
                self.open = None;
            }
            let Some((path, lengths)) = self.files.pop_front() else {
                return Ok(None);
            };
            match OpenFile::open(path, &lengths, &self.selection) {
                Ok(file) => self.open = Some(file),
                // Retention has removed the hour, or the index is ahead of the segment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Iterator for Events {
    type Item = Result<StoredEvent, TelemetryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.read().map_err(TelemetryError::from).transpose()?;
        if event.is_err() {
            // A retry would fail in the same way.
            self.files.clear();
            self.open = None;
        }
        Some(event)
    }
}
