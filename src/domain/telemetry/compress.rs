//! Compressing finished segments in the background.
//!
//! Each run packs a bounded number of bytes into a file beside the segment and holds no lock. When all is
//! packed, the new file is synced and takes the place of the old one, unless that was changed meanwhile:
//! erasure replaces it, and a clock that was put back appends to it. A kill leaves the old file or the
//! new one; what is left of an unfinished one is removed at the next start.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::error::TelemetryError;
use super::frame::{self, Frames};
use super::packed::{Form, MEMBER, Packer};
use super::segment::options;
use super::{Inner, Telemetry, hour_of};
use crate::store::{WritePriority, sync_file};
use crate::types::UnixSeconds;

/// Members that one run packs: with a run a second some 4 MiB a second, about a tenth of a processor.
const MEMBERS_AT_ONCE: usize = 4;
/// How long after its end an hour is compressed: requests that straddle the hour, and players that
/// send again at once, find it as it was.
const AFTER: i64 = 300;
/// Seconds between two searches for segments that are to be compressed.
const LOOK_EVERY: i64 = 60;
/// Seconds after which an hour that failed is tried again.
const AFTER_FAILURE: i64 = 3_600;
/// A file below this takes one block of the disk in either form.
const WORTHWHILE: u64 = 4096;

/// What compression does between two runs.
#[derive(Default)]
pub(super) struct Compression {
    work: Option<Work>,
    looked: Option<UnixSeconds>,
    /// Hours that failed, and when: the others go on.
    failed: BTreeMap<i64, UnixSeconds>,
}

/// A segment that is being compressed.
struct Work {
    hour: i64,
    source: File,
    identity: Identity,
    frames: Frames<File>,
    /// Where the event that was read last begins and ends.
    event: (u64, u64),
    read_all: bool,
    /// Where the next member begins.
    from: u64,
    target: Packer<File>,
    temporary: PathBuf,
}

/// Tells whether a file was replaced or changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Telemetry {
    /// Keeps small what is remembered of recent events. Returns how many days were merged.
    pub fn tidy_recent(&self) -> usize {
        let state = &self.inner.state;
        let _one_at_a_time = self.inner.compression.lock();
        // The hour that is written to and not the clock's: one that jumped ahead must not forget.
        let Some(hour) = state.lock().segment.as_ref().map(|open| open.hour) else {
            return 0;
        };
        let forgotten = state.lock().recent.forget(hour);
        drop(forgotten);
        let mut days = 0;
        loop {
            let next = state.lock().recent.next_merge(hour);
            let Some(merge) = next else {
                return days;
            };
            let merged = merge.run();
            let forgotten = state.lock().recent.merged(merged);
            drop(forgotten);
            days += 1;
        }
    }

    /// Compresses a bounded part of the oldest segment that is finished and plain. Returns how many
    /// members were written.
    ///
    /// # Errors
    /// That a file failed; what was begun is dropped, and begun again later.
    pub fn compress(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let inner = &self.inner;
        // Compressing takes space before it gives any.
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
                    let hour = work.hour;
                    let in_place = inner.or_fail(inner.take_place(work));
                    if in_place.is_err() {
                        compression.failed.insert(hour, now);
                    }
                    in_place?;
                    // The next one is looked for at once.
                    compression.looked = None;
                    return Ok(members + 1);
                }
                Err(error) => {
                    let _ = fs::remove_file(&work.temporary);
                    compression.failed.insert(work.hour, now);
                    return Err(error.into());
                }
            }
        }
        compression.work = Some(work);
        Ok(members)
    }
}

impl Inner {
    /// Begins with the oldest segment that is finished and plain.
    fn next_work(
        &self,
        compression: &mut Compression,
        now: UnixSeconds,
    ) -> Result<Option<Work>, TelemetryError> {
        let rests = |looked: &UnixSeconds| (0..LOOK_EVERY).contains(&now.since(*looked));
        if compression.looked.as_ref().is_some_and(rests) {
            return Ok(None);
        }
        compression.looked = Some(now);
        let waits = |_: &i64, at: &mut UnixSeconds| (0..AFTER_FAILURE).contains(&now.since(*at));
        compression.failed.retain(waits);
        let before = hour_of(UnixSeconds(now.0 - AFTER));
        for hour in self.directory.hours()? {
            let skipped = compression.failed.contains_key(&hour) || self.is_appended_to(hour);
            if hour >= before || skipped {
                continue;
            }
            match Work::begin(
                hour,
                &self.directory.events(hour),
                self.directory.packing(hour),
            ) {
                Ok(None) => {}
                Ok(work) => return Ok(work),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    compression.failed.insert(hour, now);
                    return Err(error.into());
                }
            }
        }
        Ok(None)
    }

    /// Whether the segment of an hour is open, or not closed yet.
    fn is_appended_to(&self, hour: i64) -> bool {
        let state = self.state.lock();
        let mut open = state.segment.iter().chain(&state.done);
        open.any(|open| open.hour == hour)
    }

    /// Puts the compressed file in the place of the plain one, if that is still what was packed.
    fn take_place(&self, work: Work) -> Result<(), TelemetryError> {
        let path = self.directory.events(work.hour);
        let (hour, identity, temporary) = (work.hour, work.identity, work.temporary.clone());
        let packed = work.finish(self.settings.sync).and_then(|packed| {
            // Whoever opens the segment again, or erases from it, does so before or after, not meanwhile.
            let _rewriting = self.rewriting.lock();
            let state = self.state.lock();
            let open = state.segment.iter().chain(&state.done);
            let same = fs::metadata(&path).is_ok_and(|now| Identity::from(&now) == identity);
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
                self.directory.sync()?;
                let plain = identity.length;
                tracing::info!(hour, plain, packed, "a finished segment was compressed");
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(error.into())
            }
        }
    }
}

impl Work {
    /// Begins with a segment; nothing where it is compressed already or too small.
    fn begin(hour: i64, path: &Path, temporary: PathBuf) -> io::Result<Option<Self>> {
        let source = File::open(path)?;
        let identity = Identity::from(&source.metadata()?);
        if identity.length < WORTHWHILE || Form::of(&source)? == Form::Packed {
            return Ok(None);
        }
        let target = options().truncate(true).open(&temporary)?;
        Ok(Some(Self {
            hour,
            frames: Frames::new(source.try_clone()?),
            source,
            identity,
            event: (0, 0),
            read_all: false,
            from: 0,
            target: Packer::new(target),
            temporary,
        }))
    }

    /// Packs the next member. Whether there is more to do.
    fn step(&mut self) -> io::Result<bool> {
        let full = MEMBER as u64;
        let (mut begin, mut end) = self.event;
        while end.saturating_sub(self.from) < full && !self.read_all {
            (begin, end) = match self.frames.next()? {
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
        // No event is divided, but holes, damage and a torn end are.
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

    /// Makes the packed file survive a power cut; returns its length.
    fn finish(self, sync: bool) -> io::Result<u64> {
        let target = self.target.finish()?;
        if sync {
            sync_file(&target, &self.temporary)?;
        }
        Ok(target.metadata()?.len())
    }
}
