//! What an operator has to know about the files. `/readyz` and `doctor` repeat it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;

use super::{Inner, Telemetry, TelemetryError};
use playgate_types::UnixSeconds;
use playgate_types::time::DAY;

#[derive(Default)]
pub(super) struct Notices {
    /// When hours were last dropped because the files exceeded their limit, and the message about it.
    pub(super) cut: Option<(UnixSeconds, String)>,
    /// Hours whose file the start could not read.
    unreadable: BTreeSet<i64>,
    /// Hours that had a file at the last look.
    present: BTreeSet<i64>,
    /// When files were last found deleted, and the names of all of them.
    deleted: Option<(UnixSeconds, Vec<String>)>,
}

impl Notices {
    /// Returns whether that is news.
    pub(super) fn add_unreadable(&mut self, hour: i64) -> bool {
        self.unreadable.insert(hour)
    }

    /// The file of the hour is deleted on purpose.
    pub(super) fn forget(&mut self, hour: i64) {
        self.present.remove(&hour);
        self.unreadable.remove(&hour);
    }

    /// Returns the hours that had a file at the last look and are not among `hours`. The files of the hours in `open` are
    /// written again if they were deleted.
    pub(super) fn look(&mut self, hours: Vec<i64>, open: &[i64]) -> Vec<i64> {
        let present = hours.into_iter().chain(open.iter().copied()).collect();
        let before = std::mem::replace(&mut self.present, present);
        before.difference(&self.present).copied().collect()
    }

    pub(super) fn warning(&self, now: UnixSeconds) -> Option<String> {
        let is_recent = |at: &UnixSeconds| now.since(*at).abs() < DAY;
        let cut = self.cut.as_ref().filter(|(at, _)| is_recent(at));
        let deleted = self.deleted.as_ref().filter(|(at, _)| is_recent(at));
        let parts = [
            cut.map(|(_, message)| message.clone()),
            deleted.map(|(_, names)| deletion(names)),
            (!self.unreadable.is_empty()).then(|| {
                let count = self.unreadable.len();
                format!("{count} files of past hours cannot be read and are left out; the log names them")
            }),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

fn deletion(names: &[String]) -> String {
    format!(
        "another program has deleted telemetry files ({}), whose events are lost; exclude the data directory from that program",
        names.join(", ")
    )
}

impl Telemetry {
    /// One file that cannot be read must not hold up the others.
    pub(super) fn leave_out(&self, hour: i64, error: &impl Display) {
        if self.inner.state.lock().notices.add_unreadable(hour) {
            let file = self.inner.directory.events(hour);
            tracing::error!(%error, file = %file.display(), "cannot read a telemetry file; its events are not forwarded until it can be read");
        }
    }

    /// Tells once of finished files that another program has deleted. Returns how many.
    pub fn look_for_deleted(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        self.inner.look_for_deleted(now)
    }
}

impl Inner {
    fn look_for_deleted(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        // A file that cannot be used is set aside on purpose.
        let Some(_rewriting) = self.rewriting.try_lock() else {
            return Ok(0);
        };
        // Listed under the lock, since retention deletes files under it.
        let mut state = self.state.lock();
        let hours = match self.directory.hours() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let open = state.segment.iter().chain(&state.done);
        let open: Vec<i64> = open.map(|segment| segment.hour).collect();
        let missing = state.notices.look(hours, &open);
        if missing.is_empty() {
            return Ok(0);
        }
        let names = missing.iter().filter_map(|hour| {
            let path = self.directory.events(*hour);
            Some(path.file_name()?.to_string_lossy().into_owned())
        });
        let names: Vec<String> = names.collect();
        tracing::error!("{}", deletion(&names));
        let (at, known) = state.notices.deleted.get_or_insert_default();
        *at = now;
        known.extend(names);
        Ok(missing.len())
    }
}
