//! Erases a user's events: rewrites the segments that contain them.
//!
//! Erased events become holes of the same length, so that offsets into the segment stay valid even if the process
//! is killed in between. Their space is freed when retention drops the hour.

use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write};

use super::error::TelemetryError;
use super::frame::{self, EventFrames};
use super::tables::{DayUsage, ErasureRecord, Erasures, UserHours};
use super::{Inner, Telemetry};
use crate::domain::segment_file::lengths::Lengths;
use crate::domain::segment_file::packed::{Members, Packer, SegmentReader};
use crate::store::{All, Durability, StoreError, Txn, sync_file};
use crate::types::{UnixSeconds, UserId};

const USERS_AT_ONCE: usize = 16;

/// Part of the transaction that removes an account, so that no crash can leave the events without
/// an erasure.
pub fn request_erasure(
    txn: &mut Txn<'_>,
    user: &UserId,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    txn.put::<Erasures>(user, &ErasureRecord { since: now })
}

impl Telemetry {
    /// Erases a user's events now. After an error the job tries again.
    pub fn erase(&self, user: UserId, now: UnixSeconds) -> Result<(), TelemetryError> {
        // Recorded first, so that a crash or an error below leaves the erasure to the job.
        self.inner
            .store
            .write(Durability::Durable, move |txn| {
                request_erasure(txn, &user, now)
            })
            .wait()?;
        self.erase_requested(user)
    }

    /// Runs recorded erasures, a bounded number of users at a time. Returns how many were done.
    pub fn run_erasures(&self) -> Result<usize, TelemetryError> {
        let noted = self
            .inner
            .store
            .read(|txn| txn.scan::<Erasures>(&All, USERS_AT_ONCE))?;
        for (user, ErasureRecord { since }) in &noted {
            self.erase_requested(*user)?;
            tracing::info!(%user, %since, "erased the telemetry of a user");
        }
        Ok(noted.len())
    }

    fn erase_requested(&self, user: UserId) -> Result<(), TelemetryError> {
        // Must precede the changes of the index, by which the other members find the hours.
        if let Some(elsewhere) = self.inner.elsewhere.get() {
            elsewhere(&user).map_err(TelemetryError::Io)?;
        }
        // A later batch of the user then writes its index entry again, after the removal below.
        self.inner.state.lock().indexed.1.remove(&user);
        // One hour at a time: a kill repeats only the hour in which it happened.
        for hour in self.hours_of(&user)? {
            let inner = &self.inner;
            inner.or_fail(inner.rewrite_without(hour, &user))?;
            self.inner
                .store
                .write(Durability::Durable, move |txn| {
                    txn.delete::<UserHours>(&(hour, user))
                })
                .wait()?;
        }
        let usage = self.inner.state.lock().usage.forget(&user);
        if let Some(observer) = self.inner.observer.get() {
            observer.erased(&user);
        }
        // The record is deleted last, when nothing of the user is left.
        let done: Result<(), StoreError> = self
            .inner
            .store
            .write(Durability::Durable, move |txn| {
                txn.delete::<DayUsage>(&usage)?;
                txn.delete::<Erasures>(&user)
            })
            .wait();
        Ok(done?)
    }
}

impl Inner {
    pub(super) fn rewrite_without(&self, hour: i64, user: &UserId) -> Result<(), TelemetryError> {
        // The fingerprint file stays: it identifies no user, and prevents retries of the erased events from
        // being stored.
        let _rewriting = self.rewriting.lock();
        let path = self.directory.events(hour);
        let source = match SegmentReader::open(&path) {
            Ok(SegmentReader::Plain(source)) => source,
            Ok(SegmentReader::Packed(source)) => {
                return Ok(self.repack_without(hour, source, user)?);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (mut state, mut length) = (None, 0);
        // Two passes: uploads wait only for the second, which copies the events that arrived during the first.
        self.directory.replace(&path, |target| {
            let mut target = BufWriter::new(target);
            length = copy_without(&source, &mut target, user, 0)?;
            target.flush()?;
            if self.settings.sync {
                sync_file(target.get_ref(), &path)?;
            }
            // Appends are blocked from here on.
            state = Some(self.state.lock());
            (&source).seek(SeekFrom::Start(length))?;
            length = copy_without(&source, &mut target, user, length)?;
            target.flush()?;
            // Before the rename: the recorded length must never exceed the length of the segment.
            Lengths::from_synced(length).write(&self.directory.lengths(hour))
        })?;
        if let Some(state) = &mut state {
            let open = state.segment.as_mut().filter(|open| open.hour == hour);
            // The old handle refers to a deleted file.
            if let Some(open) = open {
                open.reopen(&self.directory, length)?;
            }
        }
        Ok(())
    }

    fn repack_without(&self, hour: i64, source: Members, user: &UserId) -> io::Result<()> {
        self.directory
            // `rewriting` is locked by the caller, so no upload reopens the segment.
            .replace(&self.directory.events(hour), |target| {
                let mut packer = Packer::new(target);
                let length = copy_without(source, &mut packer, user, 0)?;
                packer.finish()?;
                Lengths::from_synced(length).write(&self.directory.lengths(hour))
            })
    }
}

fn copy_without(
    source: impl Read,
    target: &mut impl Write,
    user: &UserId,
    from: u64,
) -> io::Result<u64> {
    let mut frames = EventFrames::resume(source, from);
    let mut written = from;
    let mut bytes = Vec::new();
    while let Some(event) = frames.next()? {
        if event.sender.user != *user {
            // Holes keep the offsets of later events, which forwarding cursors rely on.
            let begin = frames.sound_end() - frame::length(&event);
            frame::write_holes(begin - written, target)?;
            bytes.clear();
            frame::write(&event, &mut bytes);
            target.write_all(&bytes)?;
            written = frames.sound_end();
        }
    }
    frame::write_holes(frames.sound_end() - written, target)?;
    Ok(frames.sound_end())
}
