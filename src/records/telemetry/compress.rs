//! Background compression of finished segments.
//!
//! Each run packs a bounded number of bytes into a temporary file, without a lock. When the whole segment is packed,
//! the file is synced and replaces the segment, unless the segment has changed: erasure rewrites it, and uploads after
//! a clock was set back append to it. A kill leaves either the old or the new file; the next start removes temporary
//! files. A segment that was compressed without an index of its users gets one in the same runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::error::TelemetryError;
use super::file_identity::FileIdentity;
use super::frame::{self, EventFrames, users_in};
use super::index_packed::IndexWork;
use super::segment::Directory;
use super::{Inner, Telemetry, hour_of};
use playgate_process::data_file;
use playgate_process::files::sync_file;
use playgate_segment_log::{MEMBER_BYTES, Packer, SegmentForm, open};
use playgate_store::WritePriority;
use playgate_types::UnixSeconds;

/// Members packed by one run. At one run a second this is about 4 MiB/s, a tenth of a processor.
const MEMBERS_AT_ONCE: usize = 4;
/// Seconds between the end of an hour and its compression. Uploads that straddle the hour, and immediate retries, find
/// it plain.
const DELAY_SECONDS: i64 = 300;
/// Seconds between two searches for segments to compress.
const SEARCH_EVERY: i64 = 60;
/// Seconds before a failed hour is retried.
const AFTER_FAILURE: i64 = 3_600;
/// A smaller file occupies one disk block in either form.
const SIZE_MIN: u64 = 4096;

#[derive(Default)]
pub(super) struct Compression {
    work: Option<Work>,
    searched_at: Option<UnixSeconds>,
    /// Finished files, which need no work while they are unchanged.
    done: BTreeMap<i64, FileIdentity>,
    /// Hours that failed, and when. They do not block the other hours.
    failed: BTreeMap<i64, UnixSeconds>,
}

enum Work {
    Compress(CompressionWork),
    Index(IndexWork),
}

impl Work {
    /// Returns `None` if the file is finished.
    fn begin(hour: i64, directory: &Directory) -> io::Result<Option<Self>> {
        let path = directory.events(hour);
        let source = data_file::open_to_read(&path)?;
        if SegmentForm::detect(&source)? == SegmentForm::Packed {
            return Ok(IndexWork::begin(hour, &path, &source)?.map(Self::Index));
        }
        let work = CompressionWork::begin(hour, source, directory.packing(hour))?;
        Ok(work.map(Self::Compress))
    }

    const fn hour(&self) -> i64 {
        match self {
            Self::Compress(work) => work.hour,
            Self::Index(work) => work.hour,
        }
    }

    fn step(&mut self) -> io::Result<bool> {
        match self {
            Self::Compress(work) => work.step(),
            Self::Index(work) => work.step(),
        }
    }

    /// Removes what it has written. If this fails, the next start does it.
    fn abandon(&self) {
        if let Self::Compress(work) = self {
            let _ = fs::remove_file(&work.temporary);
        }
    }
}

struct CompressionWork {
    hour: i64,
    source: File,
    identity: FileIdentity,
    frames: EventFrames<File>,
    /// Start and end of the event that was read last.
    event: (u64, u64),
    read_all: bool,
    from: u64,
    target: Packer<File>,
    temporary: PathBuf,
}

impl Telemetry {
    /// Compresses a bounded part of the oldest finished plain segment. Returns how many members were
    /// written. After an error the hour is retried later.
    pub fn compress(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let inner = &self.inner;
        // Compression needs space before it frees any.
        if inner.store.admits(WritePriority::Telemetry).is_err() {
            return Ok(0);
        }
        let mut compression = inner.compression.lock();
        let mut work = match compression.work.take() {
            Some(work) => work,
            None => match inner.next_work(&mut compression, now)? {
                Some(work) => work,
                None => return Ok(0),
            },
        };
        let mut members = 0;
        while members < MEMBERS_AT_ONCE {
            match work.step() {
                Ok(true) => members += 1,
                Ok(false) => {
                    let hour = work.hour();
                    let in_place = inner.or_fail(match work {
                        Work::Compress(work) => inner.replace_plain(work),
                        Work::Index(work) => inner.append_index(work).map(|finished| {
                            compression.done.insert(hour, finished);
                        }),
                    });
                    if in_place.is_err() {
                        compression.failed.insert(hour, now);
                    }
                    in_place?;
                    // Search for the next segment immediately.
                    compression.searched_at = None;
                    return Ok(members + 1);
                }
                Err(error) => {
                    work.abandon();
                    compression.failed.insert(work.hour(), now);
                    return Err(error.into());
                }
            }
        }
        compression.work = Some(work);
        Ok(members)
    }
}

impl Inner {
    fn next_work(
        &self,
        compression: &mut Compression,
        now: UnixSeconds,
    ) -> Result<Option<Work>, TelemetryError> {
        let is_recent =
            |searched_at: &UnixSeconds| (0..SEARCH_EVERY).contains(&now.since(*searched_at));
        // Listing the directory in each run would cost more than the compression.
        if compression.searched_at.as_ref().is_some_and(is_recent) {
            return Ok(None);
        }
        compression.searched_at = Some(now);
        let waits = |_: &i64, at: &mut UnixSeconds| (0..AFTER_FAILURE).contains(&now.since(*at));
        compression.failed.retain(waits);
        let before = hour_of(UnixSeconds(now.0 - DELAY_SECONDS));
        let hours = self.directory.hours()?;
        compression
            .done
            .retain(|hour, _| hours.binary_search(hour).is_ok());
        for hour in hours {
            let skipped = compression.failed.contains_key(&hour) || self.is_open(hour);
            if hour >= before || skipped {
                continue;
            }
            // Taken before the content is read, so that any later change is noticed.
            let found = fs::metadata(self.directory.events(hour)).map(|file| (&file).into());
            if let Ok(found) = &found
                && compression.done.get(&hour) == Some(found)
            {
                continue;
            }
            match Work::begin(hour, &self.directory) {
                Ok(None) => compression.done.extend(found.map(|found| (hour, found))),
                Ok(work) => return Ok(work),
                // Retention removed the hour after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    compression.failed.insert(hour, now);
                    return Err(error.into());
                }
            }
        }
        Ok(None)
    }

    pub(super) fn is_open(&self, hour: i64) -> bool {
        let state = self.state.lock();
        let mut open = state.segment.iter().chain(&state.done);
        open.any(|open| open.hour == hour)
    }

    /// Replaces the plain file, unless it has changed since packing began.
    fn replace_plain(&self, work: CompressionWork) -> Result<(), TelemetryError> {
        let path = self.directory.events(work.hour);
        let (hour, identity, temporary) = (work.hour, work.identity, work.temporary.clone());
        // Synced before the lock is taken: uploads must not wait for a slow disk.
        let packed = work.finish(self.settings.sync).and_then(|packed| {
            // Reopening and erasure hold `rewriting` too, so neither can run between the check and the rename.
            let _rewriting = self.rewriting.lock();
            let state = self.state.lock();
            let open = state.segment.iter().chain(&state.done);
            let same = fs::metadata(&path).is_ok_and(|now| FileIdentity::from(&now) == identity);
            if !same || open.into_iter().any(|open| open.hour == hour) {
                fs::remove_file(&temporary)?;
                return Ok(None);
            }
            fs::rename(&temporary, &path)?;
            Ok(Some(packed))
        });
        match packed {
            Ok(None) => Ok(()),
            Ok(Some(packed)) => {
                // The rename must be durable before the plain form counts as gone.
                self.directory.sync()?;
                let plain = identity.length;
                tracing::info!(hour, plain, packed, "compressed a telemetry segment");
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error.into())
            }
        }
    }
}

impl CompressionWork {
    /// Returns `None` if the segment is too small.
    fn begin(hour: i64, source: File, temporary: PathBuf) -> io::Result<Option<Self>> {
        // Taken before the content is read, so that any later change is noticed.
        let identity = FileIdentity::from(&source.metadata()?);
        if identity.length < SIZE_MIN {
            return Ok(None);
        }
        let target = open(&temporary, true)?;
        // The segment is read through one handle, so that a replaced file is still read to its end.
        Ok(Some(Self {
            hour,
            frames: EventFrames::new(source.try_clone()?),
            source,
            identity,
            event: (0, 0),
            read_all: false,
            from: 0,
            target: Packer::indexed(target, users_in),
            temporary,
        }))
    }

    fn step(&mut self) -> io::Result<bool> {
        let full = MEMBER_BYTES as u64;
        let (mut begin, mut end) = self.event;
        // Reads ahead to the end of the event that crosses the size of a member.
        while end.saturating_sub(self.from) < full && !self.read_all {
            (begin, end) = match self.frames.next_frame()? {
                Some(event) => {
                    let end = self.frames.sound_end();
                    (end - frame::length(&event), end)
                }
                None => {
                    self.read_all = true;
                    (self.identity.length, self.identity.length)
                }
            };
        }
        self.event = (begin, end);
        // Events are never divided; holes, damage and a torn end may be.
        let to = match begin.saturating_sub(self.from) > full {
            true => self.from + full,
            false => end,
        };
        if to <= self.from {
            return Ok(false);
        }
        let length = usize::try_from(to - self.from).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.source.read_exact_at(&mut bytes, self.from)?;
        self.target.member(&bytes)?;
        self.from = to;
        Ok(true)
    }

    fn finish(self, sync: bool) -> io::Result<u64> {
        let target = self.target.finish()?;
        if sync {
            sync_file(&target, &self.temporary)?;
        }
        Ok(target.metadata()?.len())
    }
}
