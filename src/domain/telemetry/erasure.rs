//! Erasing what is known of a user: the segments that hold it are written anew without it.
//!
//! Decision: a hole takes its place, so that a position in the segment stays true whatever a kill
//! comes between. The space comes back with the retention of the hour.

use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write};

use super::error::TelemetryError;
use super::frame::{self, Frames};
use super::packed::{Members, Packer, SegmentReader};
use super::segment_length::Lengths;
use super::tables::{DayUsage, ErasureRecord, Erasures, UserHours};
use super::{Inner, Telemetry};
use crate::store::{All, Durability, StoreError, Txn, sync_file};
use crate::types::{UnixSeconds, UserId};

/// Users whose events are erased in one go of the job.
const USERS_AT_ONCE: usize = 16;

/// Notes in the transaction that removes an account that its events are to go too; the job
/// [`Telemetry::run_erasures`] does it.
///
/// # Errors
/// As [`Txn::put`].
pub fn request_erasure(
    txn: &mut Txn<'_>,
    user: &UserId,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    txn.put::<Erasures>(user, &ErasureRecord { since: now })
}

impl Telemetry {
    /// Erases what is known of a user now.
    ///
    /// # Errors
    /// That a file or the store failed; the job tries again.
    pub fn erase(&self, user: UserId, now: UnixSeconds) -> Result<(), TelemetryError> {
        self.inner
            .store
            .write(Durability::Durable, move |txn| {
                request_erasure(txn, &user, now)
            })
            .wait()?;
        self.erase_noted(user)
    }

    /// Erases what was noted, a bounded number of users at a time. Returns how many were done.
    ///
    /// # Errors
    /// As [`Telemetry::erase`].
    pub fn run_erasures(&self) -> Result<usize, TelemetryError> {
        let noted = self
            .inner
            .store
            .read(|txn| txn.scan::<Erasures>(&All, USERS_AT_ONCE))?;
        for (user, ErasureRecord { since }) in &noted {
            self.erase_noted(*user)?;
            tracing::info!(%user, %since, "telemetry of a user erased");
        }
        Ok(noted.len())
    }

    fn erase_noted(&self, user: UserId) -> Result<(), TelemetryError> {
        // From now on a batch of the user has to enter the index anew, after what is removed here.
        self.inner.state.lock().indexed.1.remove(&user);
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
    /// Writes a segment anew without the events of a user. Those who append wait for none of it but
    /// what came while the rest was copied.
    ///
    /// The file of fingerprints stays as it is: what is in it names nobody, and keeps events that
    /// are still on their way from being taken again.
    fn rewrite_without(&self, hour: i64, user: &UserId) -> Result<(), TelemetryError> {
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
        self.directory.replace(&path, |target| {
            let mut target = BufWriter::new(target);
            length = copy_without(&source, &mut target, user, 0)?;
            target.flush()?;
            if self.settings.sync {
                sync_file(target.get_ref(), &path)?;
            }
            // From here on nobody appends.
            state = Some(self.state.lock());
            (&source).seek(SeekFrom::Start(length))?;
            length = copy_without(&source, &mut target, user, length)?;
            target.flush()?;
            // Before it takes the place of the longer one, which is never too long.
            Lengths::of_whole(length).write(&self.directory.lengths(hour))
        })?;
        if let Some(state) = &mut state {
            let open = state.segment.as_mut().filter(|open| open.hour == hour);
            // The old handle leads to a file that has no name any more.
            if let Some(open) = open {
                open.moved(&self.directory, length)?;
            }
        }
        Ok(())
    }

    /// The same for a compressed segment, which nobody appends to while `rewriting` is locked.
    fn repack_without(&self, hour: i64, source: Members, user: &UserId) -> io::Result<()> {
        self.directory
            .replace(&self.directory.events(hour), |target| {
                let mut packer = Packer::new(target);
                let length = copy_without(source, &mut packer, user, 0)?;
                packer.finish()?;
                Lengths::of_whole(length).write(&self.directory.lengths(hour))
            })
    }
}

/// Copies the events of others from there on to the end of the segment; returns where the last one ends.
fn copy_without(
    source: impl Read,
    target: &mut impl Write,
    user: &UserId,
    from: u64,
) -> io::Result<u64> {
    let mut frames = Frames::resume(source, from);
    let mut written = from;
    let mut bytes = Vec::new();
    while let Some(event) = frames.next()? {
        if event.sender.user != *user {
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
