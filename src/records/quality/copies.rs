//! Figures in a fleet. Each member makes those of the views that it sees as the owner. All members copy the roll-ups of the
//! others, so a report of any owner has all of them, and a lost machine takes none along but those of its last views.

use std::io;

use playgate_types::{FiguresFile, SessionId, UnixSeconds};

use super::{Quality, QualityError};

/// Bytes of one answer, unless a single file is longer.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Their list must fit into a line between members.
const FILES_MAX: usize = 1_000;

impl Quality {
    /// Closes all views at a member that is not the owner any more. `is_elsewhere` tells whether the session of a view
    /// went on after the time of its last input: the next owner counts that view. Blocks.
    pub fn hand_over(
        &self,
        is_elsewhere: impl Fn(&SessionId, UnixSeconds) -> bool,
        now: UnixSeconds,
    ) -> Result<(), QualityError> {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        inner.drain(&mut state)?;
        Ok(state.close_all(&inner.files, is_elsewhere, now)?)
    }

    /// Returns roll-ups that this member has made, the oldest changes first: those that were changed at `since` (in
    /// nanoseconds, by the clock of this machine) or later, as many as one answer may have. Blocks.
    pub fn files_since(&self, since: i64) -> Result<Vec<FiguresFile>, QualityError> {
        let mut bytes = 0;
        let mut files = Vec::new();
        for (changed, hour) in self.inner.files.hours_since(since)? {
            if bytes > BYTES_MAX || files.len() == FILES_MAX {
                break;
            }
            // A file that retention has just removed is left out.
            if let Some(content) = self.inner.files.raw_hour(hour)? {
                bytes += content.len();
                files.push(FiguresFile {
                    hour,
                    changed,
                    content,
                });
            }
        }
        Ok(files)
    }

    /// Returns `changed` of the newest copy of a member's roll-ups, or 0. Blocks.
    pub fn copied_until(&self, member: &str) -> Result<i64, QualityError> {
        Ok(self.inner.files.of_member(member).last_change()?)
    }

    /// Stores copies of a member's roll-ups. Blocks.
    pub fn copy(&self, member: &str, files: &[FiguresFile]) -> Result<(), QualityError> {
        let copies = self.inner.files.of_member(member);
        copies.make()?;
        for file in files {
            match copies.put(file) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let hour = file.hour;
                    tracing::warn!(
                        member,
                        hour,
                        "ignored damaged quality figures of another member"
                    );
                }
                put => put?,
            }
        }
        Ok(())
    }
}
