//! Adds the index of users to segments that were compressed without one, by a version before it, or whose index is damaged.
//!
//! The index is appended to the file. Until all of it is written, readers find none, and read the segment whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::Inner;
use super::error::TelemetryError;
use super::file_identity::FileIdentity;
use super::frame::users_in;
use playgate_process::data_file;
use playgate_process::files::sync_file;
use playgate_segment_log::member_index::MemberIndex;
use playgate_segment_log::packed::Members;

pub(super) struct IndexWork {
    pub(super) hour: i64,
    identity: FileIdentity,
    members: Members,
    index: MemberIndex,
    /// Where the index begins, once the end has been reached.
    end: Option<u64>,
}

impl IndexWork {
    /// Returns `None` if the segment has a sound index.
    pub(super) fn begin(hour: i64, path: &Path, source: &File) -> io::Result<Option<Self>> {
        let identity = FileIdentity::from(&source.metadata()?);
        if MemberIndex::read(source)?.is_some() {
            return Ok(None);
        }
        Ok(Some(Self {
            hour,
            identity,
            members: Members::new(source.try_clone()?, path),
            index: MemberIndex::default(),
            end: None,
        }))
    }

    pub(super) fn step(&mut self) -> io::Result<bool> {
        let member = match self.members.next_sound() {
            Ok(member) => member,
            // A damaged segment is read whole, so that each reading reports the damage.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
            Err(error) => return Err(error),
        };
        if member.bytes.is_empty() {
            self.end = Some(member.next);
            return Ok(false);
        }
        self.index
            .add(member.at, member.place, users_in(&member.bytes));
        Ok(true)
    }
}

impl Inner {
    /// Returns the identity under which the file needs no further work: the one with the index, or the one before if the file is
    /// damaged or has changed.
    pub(super) fn append_index(&self, work: IndexWork) -> Result<FileIdentity, TelemetryError> {
        let path = self.directory.events(work.hour);
        let Some(end) = work.end else {
            return Ok(work.identity);
        };
        let mut bytes = Vec::new();
        work.index.write(end, &mut bytes)?;
        bytes.extend(work.members.end_bytes());
        // Reopening and erasure hold `rewriting` too, so the file stays what it is.
        let _rewriting = self.rewriting.lock();
        let mut options = File::options();
        // Not created again if retention has just removed it.
        let file = data_file::open(options.read(true).write(true), &path)?;
        let found = FileIdentity::from(&file.metadata()?);
        if found != work.identity || self.is_open(work.hour) {
            return Ok(work.identity);
        }
        // A damaged index goes; the members and the end of the segment stay.
        file.set_len(end)?;
        file.write_all_at(&bytes, end)?;
        if self.settings.sync {
            sync_file(&file, &path)?;
        }
        let (hour, bytes) = (work.hour, bytes.len());
        tracing::info!(
            hour,
            bytes,
            "added the index of users to a telemetry segment"
        );
        Ok(FileIdentity::from(&file.metadata()?))
    }
}
