//! The write-ahead log (WAL): all promised commits in order. After a crash it is replayed into the
//! engine, and after damage the engine is rebuilt from it.
//!
//! A segment file begins with a head (its length, the number of its first frame, and the history up
//! to there). It is preallocated with zeros, so that an append changes no file size and one
//! `fdatasync` is a whole commit. Each frame carries the number of the last synced commit at the
//! time it was written. A missing frame up to that number is damage; a missing frame above it was
//! lost in a power cut and was never promised.

mod end;
mod frame;
mod head;
mod preallocate;
mod segment;
mod segments;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use end::EndFile;
pub(super) use end::{End, StoredEnd, boot_id};
pub(super) use frame::{Frame, announced_size, frame, parse, payload_at};
use preallocate::PreallocatedSegment;
pub(super) use segment::{Expected, Segment, Survey, read_frames, read_segment};
pub(super) use segments::{Closed, Segments};

use crate::error::StoreError;
use crate::history::History;
use head::{HEAD_BYTES, Head};
use playgate_process::data_file::{self, at};
use playgate_process::files::{
    create_private, is_in_place, make_directory, remove_file, rename, sync_data, sync_file,
};
#[cfg(test)]
use segment::Gap;

pub(super) trait CommitLog: Send {
    /// Appends the payload of the next commit; `number` must follow the last one.
    fn append(&mut self, number: u64, payload: &[u8]) -> Result<(), StoreError>;

    fn sync(&mut self) -> Result<(), StoreError>;

    /// Closes the open segment and starts another one.
    fn roll(&mut self) -> Result<(), StoreError>;

    /// Writes the end record again, after another program has deleted it.
    fn restore_end(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the history up to the last commit; `None` for a log that stores nothing.
    fn history(&self) -> Option<History> {
        None
    }
}

/// Size of a segment, unless a single payload needs more.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// End of the names of segments. Earlier versions wrote `.log`, which cleaners of log files delete.
const ENDING: &str = "wal";
const OLD_ENDING: &str = "log";
/// File name while a segment is created; readers of the log ignore it.
const UNFINISHED: &str = "unfinished";

pub(super) struct FileLog {
    directory: PathBuf,
    segments: Segments,
    open: Option<OpenSegment>,
    preallocated: PreallocatedSegment,
    next: u64,
    synced: u64,
    history: History,
    end: EndFile,
    sync: bool,
}

struct OpenSegment {
    path: PathBuf,
    file: File,
    position: u64,
    length: u64,
}

pub(super) struct Resume<'a> {
    pub(super) directory: &'a Path,
    pub(super) end: &'a Path,
    pub(super) survey: &'a Survey,
    pub(super) number: u64,
    pub(super) history: History,
    pub(super) sync: bool,
}

impl FileLog {
    /// Continues a log in a new segment after it was read.
    pub(super) fn resume(resume: Resume<'_>) -> Result<Self, StoreError> {
        let Resume {
            directory,
            end,
            survey,
            number,
            history,
            sync,
        } = resume;
        // The end record is created before the directory, since `cp` copies in inode order: a copy of a running
        // store is intact if its log is newer than its end record.
        let mut end = EndFile::open(end)?;
        make_directory(directory, sync)?;
        // A killed process may have left it.
        remove_file(&directory.join(UNFINISHED), false)?;
        if let Some(last) = survey.segments.last() {
            let file = data_file::open(File::options().write(true), &last.path)?;
            if let Some(end) = survey.torn {
                // The torn tail is overwritten and not cut off: a file that is shorter than its head says is damage.
                let length = file.metadata().map_err(at("read", &last.path))?.len();
                fill(&file, end as u64, length).map_err(at("write", &last.path))?;
            }
            // Frames that a killed process had not synced count as promised from now on.
            if sync {
                sync_file(&file, &last.path)?;
            }
        }
        // The last segment was synced above.
        let at = End {
            written: number,
            synced: number,
            history,
            ..End::default()
        };
        end.begin(at, sync)?;
        let segments = Segments::new(survey.segments.clone());
        segments.set_end(end.id()?);
        let mut log = Self {
            directory: directory.to_owned(),
            segments,
            open: None,
            preallocated: PreallocatedSegment::new(directory, SEGMENT_BYTES, sync)?,
            next: number + 1,
            synced: number,
            history,
            end,
            sync,
        };
        // The log continues in a new segment, so that damage at the old end stays where it was found.
        log.open = Some(log.start_segment(0)?);
        Ok(log)
    }

    pub(super) fn segments(&self) -> Segments {
        self.segments.clone()
    }

    fn start_segment(&mut self, frame: u64) -> Result<OpenSegment, StoreError> {
        // Another program may have deleted it.
        make_directory(&self.directory, self.sync)?;
        let path = self.directory.join(format!("{:020}.{ENDING}", self.next));
        // A frame is never split over two segments.
        let length = SEGMENT_BYTES.max(frame + HEAD_BYTES as u64);
        let head = Head {
            length,
            first: self.next,
            history: self.history,
        }
        .encode();
        let ready = match length {
            SEGMENT_BYTES => self.preallocated.adopt(&path, &head),
            _ => Ok(None),
        };
        let file =
            ready.and_then(|ready| ready.map_or_else(|| self.make(&path, length, &head), Ok))?;
        // It has the number of this one and therefore no frames.
        remove_file(&path.with_extension(OLD_ENDING), false)?;
        let segment = Segment {
            first: self.next,
            end: u64::MAX,
            path: path.clone(),
            history: self.history,
        };
        self.segments.push(segment, &file.metadata()?);
        Ok(OpenSegment {
            path,
            file,
            position: HEAD_BYTES as u64,
            length,
        })
    }

    fn make(&self, path: &Path, length: u64, head: &[u8]) -> io::Result<File> {
        // An open segment without frames has the same path. It stays in use if the new one cannot be created.
        let unfinished = self.directory.join(UNFINISHED);
        let made = prepare(&unfinished, length, head, self.sync).and_then(|file| {
            rename(&unfinished, path, self.sync)?;
            Ok(file)
        });
        if made.is_err() {
            // A partial file would only use space on a full disk.
            let _ = std::fs::remove_file(&unfinished);
        }
        made
    }

    fn write_end(&mut self) -> Result<(), StoreError> {
        let end = End {
            written: self.next - 1,
            synced: self.synced,
            history: self.history,
            ..End::default()
        };
        // Never reported as `Full`: the frame is already in the log, so the caller must not treat
        // the commit as failed without effect.
        self.end.write(end).map_err(|error| {
            StoreError::Failed(format!(
                "failed to write the end record of the WAL: {error}"
            ))
        })
    }

    fn sync_end(&self) -> Result<(), StoreError> {
        // Only right after a sync of the log: otherwise the record on disk would promise commits that a power cut can
        // still lose.
        if self.sync && self.synced + 1 == self.next {
            self.end.sync()?;
        }
        Ok(())
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // An error is ignored: the next start compares the record with the log.
        let _ = self.sync_end();
    }
}

/// Creates a segment file. Its directory entry is not synced.
fn prepare(path: &Path, length: u64, head: &[u8], sync: bool) -> io::Result<File> {
    let file = create_private(path)?;
    file.write_all_at(head, 0)
        .and_then(|()| fill(&file, head.len() as u64, length))
        .map_err(at("write to", path))?;
    if sync {
        sync_file(&file, path)?;
    }
    Ok(file)
}

fn fill(file: &File, mut from: u64, to: u64) -> io::Result<()> {
    // Written zeros and not a sparse file: later writes must not change block allocations, which
    // `fdatasync` would have to store too.
    let zeros = [0; 64 * 1024];
    while from < to {
        let part = usize::try_from(to - from)
            .unwrap_or(usize::MAX)
            .min(zeros.len());
        file.write_all_at(zeros.get(..part).unwrap_or_default(), from)?;
        from += part as u64;
    }
    Ok(())
}

impl CommitLog for FileLog {
    fn restore_end(&mut self) -> Result<(), StoreError> {
        let mut end = EndFile::open(self.end.path())?;
        let at = End {
            written: self.next - 1,
            synced: self.synced,
            history: self.history,
            ..End::default()
        };
        end.begin(at, self.sync)?;
        self.segments.set_end(end.id()?);
        self.end = end;
        Ok(())
    }

    fn history(&self) -> Option<History> {
        Some(self.history)
    }

    fn append(&mut self, number: u64, payload: &[u8]) -> Result<(), StoreError> {
        // A gap in the numbers would look like lost commits at the next start.
        if number != self.next {
            return Err(StoreError::Failed(format!(
                "the WAL expects commit {}, not {number}",
                self.next
            )));
        }
        let frame = frame(number, self.synced, payload)?;
        let size = frame.len() as u64;
        let fits = self
            .open
            .as_ref()
            .is_some_and(|open| open.position + size <= open.length);
        if !fits {
            // The old segment must be synced before the next one is written: only the last may be
            // torn.
            self.sync()?;
            self.sync_end()?;
            self.open = Some(self.start_segment(size)?);
        }
        let Some(open) = &mut self.open else {
            return Err(StoreError::Failed("no WAL segment is open".to_owned()));
        };
        open.file
            .write_all_at(&frame, open.position)
            .map_err(at("write to", &open.path))?;
        open.position += size;
        // This is early enough for the next segment to be ready when this one is full.
        if open.position > open.length / 2 {
            self.preallocated.begin();
        }
        self.history = self.history.after(number, payload);
        // The number advances after the write: a failed append leaves the log as it was.
        self.next = number + 1;
        self.write_end()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if let Some(open) = &self.open
            && self.sync
        {
            sync_data(&open.file, &open.path)?;
        }
        self.synced = self.next - 1;
        self.write_end()?;
        // A checkpoint requests this.
        if self.segments.take_end_sync_request() {
            self.sync_end()?;
        }
        Ok(())
    }

    fn roll(&mut self) -> Result<(), StoreError> {
        let stays = self.open.as_ref().is_none_or(|open| {
            open.position == HEAD_BYTES as u64 && is_in_place(&open.file, &open.path)
        });
        // An empty segment needs no successor, unless another program has deleted it.
        if !stays {
            self.sync()?;
            self.sync_end()?;
            self.open = Some(self.start_segment(0)?);
        }
        Ok(())
    }
}

/// A log for a store in memory; it discards everything.
pub(super) struct NoLog;

impl CommitLog for NoLog {
    fn append(&mut self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn roll(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A log that rejects every commit, for a disk that is not writable.
pub(super) struct FullLog;

impl CommitLog for FullLog {
    fn append(&mut self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::Full)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn roll(&mut self) -> Result<(), StoreError> {
        Err(StoreError::Full)
    }
}
