//! Erases a user's events: rewrites the segments that contain them.
//!
//! Erased events become holes of the same length, so that offsets into the segment stay valid even if the process
//! is killed in between. Their space is freed when retention drops the hour.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write};

use super::error::TelemetryError;
use super::frame::{self, EventFrames, key_of, users_in};
use super::segment::{Directory, TelemetrySegment};
use super::tables::{DayUsage, ErasureRecord, Erasures, UserHours};
use super::{Inner, Telemetry, TelemetryState};
use playgate_process::files::sync_file;
use playgate_segment_log::member_index::OwnerKey;
use playgate_segment_log::packed::Members;
use playgate_segment_log::{Lengths, Packer, SegmentReader};
use playgate_store::{All, Durability, StoreError, Txn};
use playgate_types::{UnixSeconds, UserId};

/// Users of one run, whose hours are rewritten together.
const USERS_AT_ONCE: usize = 256;

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
        self.erase_users(&[user])
    }

    /// Runs recorded erasures, a bounded number of users at a time. Returns how many were done. A failed erasure does not
    /// stop the others; the last error is returned, and the next run tries again.
    pub fn run_erasures(&self) -> Result<usize, TelemetryError> {
        let noted = self
            .inner
            .store
            .read(|txn| txn.scan::<Erasures>(&All, USERS_AT_ONCE))?;
        let users: Vec<UserId> = noted.iter().map(|(user, _)| *user).collect();
        self.erase_users(&users)?;
        Ok(noted.len())
    }

    fn erase_users(&self, users: &[UserId]) -> Result<(), TelemetryError> {
        let (mut failed, mut result) = (HashSet::new(), Ok(()));
        // Each hour is rewritten once for all users: a partner with thousands of users may have been removed.
        let mut hours: BTreeMap<i64, HashSet<UserId>> = BTreeMap::new();
        for user in users {
            match self.begin_erasure(user) {
                Ok(found) => {
                    for hour in found {
                        hours.entry(hour).or_default().insert(*user);
                    }
                }
                Err(error) => {
                    failed.insert(*user);
                    result = Err(error);
                }
            }
        }
        // One hour at a time: a kill repeats only the hour in which it happened.
        for (hour, of) in hours {
            if let Err(error) = self.erase_hour(hour, &of) {
                failed.extend(of);
                result = Err(error);
            }
        }
        for user in users.iter().filter(|user| !failed.contains(user)) {
            if let Err(error) = self.end_erasure(*user) {
                result = Err(error);
            }
        }
        result
    }

    /// Returns the hours that have events of the user.
    fn begin_erasure(&self, user: &UserId) -> Result<Vec<i64>, TelemetryError> {
        // Must precede the changes of the index, by which the other members find the hours.
        if let Some(elsewhere) = self.inner.elsewhere.get() {
            elsewhere(user).map_err(TelemetryError::Io)?;
        }
        // A later batch of the user then writes its index entry again, after the removal below.
        self.inner.state.lock().indexed.1.remove(user);
        self.hours_of(user)
    }

    fn erase_hour(&self, hour: i64, users: &HashSet<UserId>) -> Result<(), TelemetryError> {
        let inner = &self.inner;
        inner.or_fail(inner.rewrite_without(hour, users))?;
        let users = users.clone();
        let deleted: Result<(), StoreError> = inner
            .store
            .write(Durability::Durable, move |txn| {
                users
                    .iter()
                    .try_for_each(|user| txn.delete::<UserHours>(&(hour, *user)))
            })
            .wait();
        Ok(deleted?)
    }

    fn end_erasure(&self, user: UserId) -> Result<(), TelemetryError> {
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
        done?;
        tracing::info!(%user, "erased the telemetry of a user");
        Ok(())
    }
}

impl Inner {
    pub(super) fn rewrite_without(
        &self,
        hour: i64,
        users: &HashSet<UserId>,
    ) -> Result<(), TelemetryError> {
        // The fingerprint file stays: it identifies no user, and prevents retries of the erased events from
        // being stored.
        let _rewriting = self.rewriting.lock();
        let path = self.directory.events(hour);
        let source = match SegmentReader::open(&path) {
            Ok(SegmentReader::Plain(source)) => source,
            Ok(SegmentReader::Packed(source)) => {
                return Ok(self.repack_without(hour, source, users)?);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (mut state, mut length) = (None, 0);
        // Two passes: uploads wait only for the second, which copies the events that arrived during the first.
        let replaced = self.directory.replace(&path, |target| {
            let mut target = BufWriter::new(target);
            length = copy_without(&source, &mut target, users, 0)?;
            target.flush()?;
            if self.settings.sync {
                sync_file(target.get_ref(), &path)?;
            }
            // Appends are blocked from here on.
            state = Some(self.state.lock());
            (&source).seek(SeekFrom::Start(length))?;
            length = copy_without(&source, &mut target, users, length)?;
            target.flush()?;
            // Before the rename: the recorded length must never exceed the length of the segment.
            Lengths::from_synced(length).write(&self.directory.lengths(hour))
        });
        let Some(mut state) = state else {
            return Ok(replaced?);
        };
        // The old handle may refer to a deleted file: an error can come after the rename.
        let reopened = replaced.and_then(|()| state.reopen(&self.directory, hour, length));
        if reopened.is_err() {
            // The next upload opens the file that is in place.
            let is_lost = |open: &TelemetrySegment| open.hour == hour && !open.is_in_place(&path);
            state.segment.take_if(|open| is_lost(open));
            state.done.retain(|done| !is_lost(done));
        }
        Ok(reopened?)
    }

    fn repack_without(
        &self,
        hour: i64,
        mut source: Members,
        users: &HashSet<UserId>,
    ) -> io::Result<()> {
        let path = self.directory.events(hour);
        let keys: Vec<OwnerKey> = users.iter().map(key_of).collect();
        self.directory
            // `rewriting` is locked by the caller, so no upload reopens the segment.
            .replace(&path, |target| {
                let mut packer = Packer::indexed(&mut *target, users_in);
                // Members without these users are copied as they are: most of the time goes into compression.
                let copied = source.copy_changed(
                    &mut packer,
                    |member| keys.iter().any(|key| member.may_have(*key)),
                    |bytes, place| member_without(bytes, place, users),
                )?;
                if !copied {
                    target.set_len(0)?;
                    target.rewind()?;
                    packer = Packer::indexed(target, users_in);
                    copy_without(SegmentReader::open(&path)?, &mut packer, users, 0)?;
                }
                packer.flush()?;
                let length = packer.place();
                packer.finish()?;
                Lengths::from_synced(length).write(&self.directory.lengths(hour))
            })
    }
}

/// Keeps the length: the members behind it stay at their offsets.
fn member_without(bytes: &[u8], place: u64, users: &HashSet<UserId>) -> io::Result<Vec<u8>> {
    let mut changed = Vec::with_capacity(bytes.len());
    copy_without(bytes, &mut changed, users, place)?;
    let rest = bytes.len().saturating_sub(changed.len());
    frame::write_holes(rest as u64, &mut changed)?;
    Ok(changed)
}

impl TelemetryState {
    fn reopen(&mut self, directory: &Directory, hour: i64, length: u64) -> io::Result<()> {
        // A finished segment may be appended to again, so it needs a handle of the new file, too.
        let mut open = self.segment.iter_mut().chain(&mut self.done);
        match open.find(|open| open.hour == hour) {
            Some(open) => open.reopen(directory, length),
            None => Ok(()),
        }
    }
}

fn copy_without(
    source: impl Read,
    target: &mut impl Write,
    users: &HashSet<UserId>,
    from: u64,
) -> io::Result<u64> {
    let mut frames = EventFrames::resume(source, from);
    let mut written = from;
    let mut bytes = Vec::new();
    while let Some(event) = frames.next_frame()? {
        if !users.contains(&event.sender.user) {
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
