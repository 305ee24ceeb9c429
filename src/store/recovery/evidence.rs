//! Reads snapshots, WAL and end record, and checks whether they have every promised commit.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::StoreError;
use crate::history::{History, Lineage};
use crate::recovery::task::Recovery;
use crate::snapshot::durable_state::DurableState;
use crate::snapshot::format::{Snapshot, SnapshotHead};
use crate::table::Tables;
use crate::wal::{Expected, StoredEnd, Survey, boot_id};

type SnapshotFile = (SnapshotHead, PathBuf);

pub(crate) struct RecoverySource {
    pub(crate) survey: Survey,
    /// Snapshots of the store whose history matches, newest first.
    pub(crate) snapshots: Vec<SnapshotFile>,
    /// Backups of any history, newest first.
    pub(crate) backups: Vec<SnapshotFile>,
    pub(crate) end: StoredEnd,
    /// The last commit that must exist according to the end record of the WAL.
    pub(crate) promised: u64,
    /// The last commit of a backup, if a backup is needed for promised commits; otherwise 0.
    pub(crate) backed_up: u64,
}

impl RecoverySource {
    pub(crate) fn in_snapshot_and_wal(&self) -> u64 {
        let snapshot = self.snapshots.first().map_or(0, |(head, _)| head.number);
        snapshot.max(self.survey.last())
    }

    /// Returns the last commit that any source except the engine has.
    pub(crate) fn last(&self) -> u64 {
        self.in_snapshot_and_wal().max(self.backed_up)
    }

    pub(crate) fn continues(&self, number: u64) -> bool {
        let last = self.last();
        // The WAL must reach the last commit without a gap, or replaying it would skip promised commits.
        number >= last
            || (self.survey.next == last + 1 && self.survey.is_whole(number + 1, last + 1))
    }

    /// Returns the first commit that the WAL continues without a gap, given that it continues `known`.
    pub(crate) fn oldest(&self, known: u64) -> u64 {
        let segments = &self.survey.segments;
        let first = segments
            .first()
            .map_or(known, |first| first.first.saturating_sub(1));
        if self.continues(first) { first } else { known }
    }

    pub(crate) fn fits(&self, head: &SnapshotHead, lineage: &Lineage) -> bool {
        // Number and timeline can agree by accident after a rollback; the chain digest cannot.
        let logged = self.survey.marks.get(&head.number);
        lineage.holds(head.history.timeline, head.number)
            && logged.is_none_or(|logged| logged.agrees(head.history))
    }

    /// Returns the chain digest as of a commit, from any source that knows it, or begins a new chain.
    pub(crate) fn history(&self, number: u64, timeline: [u8; 16]) -> History {
        let logged = (self.survey.last() == number).then_some(self.survey.history);
        let based = self
            .snapshots
            .iter()
            .map(|(head, _)| (head.number, head.history));
        let ended = self.end.end().map(|end| (end.written, end.history));
        let others = based.chain(ended).filter(|(at, _)| *at == number);
        logged
            // The WAL is the newest source; the others are tried only if it does not end here.
            .into_iter()
            .chain(others.map(|(_, history)| history))
            .find(|history| history.is_chained())
            .map_or_else(
                || History::begin(timeline, number),
                |history| History {
                    timeline,
                    ..history
                },
            )
    }
}
impl Recovery<'_> {
    pub(crate) fn is_rolled_back(&self, sources: &RecoverySource, number: u64) -> bool {
        let timeline = self.identity.lineage.current;
        // A later backup of the same timeline shows that the data directory was rolled back. New commits would reuse
        // numbers that the backup already has.
        let newer = sources
            .backups
            .iter()
            .find(|(head, _)| head.history.timeline == timeline && head.number > number);
        if let Some((head, path)) = newer {
            tracing::warn!(
                number,
                backup = %path.display(),
                backup_number = head.number,
                "the data directory was set back to an earlier state: a backup has later commits; the store continues in a new timeline, and the backups of the old one are kept until they are rotated"
            );
        }
        newer.is_some()
    }

    pub(crate) fn sources(&self) -> Result<RecoverySource, StoreError> {
        let lineage = &self.identity.lineage;
        let of_this_store = |directory: &Path| {
            let mut found = snapshots(directory, self.schema);
            // A snapshot of another store can lie here after a careless copy.
            found.retain(|(head, _)| head.instance == self.identity.instance);
            found
        };
        let bases = of_this_store(&self.layout.snapshots());
        let backups = self.backups.map(of_this_store).unwrap_or_default();
        let end = self.end()?;
        let promised = end.end().map_or(0, |end| end.promised(boot_id()));
        let numbers = bases.iter().chain(&backups).map(|(head, _)| head.number);
        let expected = Expected {
            lineage: Some(lineage),
            marks: numbers.chain(end.end().map(|end| end.written)).collect(),
        };
        let survey = Survey::read_directory(&self.layout.log(), &expected)?;
        for what in &survey.foreign {
            tracing::error!(what, "ignoring a WAL file that does not belong there");
        }
        let mut sources = RecoverySource {
            survey,
            snapshots: Vec::new(),
            backups,
            end,
            promised,
            backed_up: 0,
        };
        // A snapshot of another history is ignored and not deleted, since an operator may still need it.
        let (bases, others): (Vec<_>, Vec<_>) = bases
            .into_iter()
            .partition(|(head, _)| sources.fits(head, lineage));
        for (_, path) in others {
            tracing::warn!(snapshot = %path.display(), "ignoring a snapshot of another history");
        }
        sources.snapshots = bases;
        // A backup counts as a source only if snapshot and WAL lack promised commits.
        if promised > sources.in_snapshot_and_wal() {
            let fitting = sources
                .backups
                .iter()
                .filter(|(head, _)| head.number >= promised && sources.fits(head, lineage));
            sources.backed_up = fitting.map(|(head, _)| head.number).max().unwrap_or(0);
        }
        Ok(sources)
    }

    fn end(&self) -> Result<StoredEnd, StoreError> {
        let path = self.layout.log_end();
        let end = StoredEnd::read(&path)?;
        let place = path.display();
        match end {
            StoredEnd::Sound(end) | StoredEnd::Partial(end)
                if self.identity.lineage.until(end.history.timeline).is_none() =>
            {
                tracing::warn!(%place, "ignoring the end record of the WAL: it is of another history");
                // Its numbers refer to other commits, so it proves nothing.
                return Ok(StoredEnd::Damaged);
            }
            StoredEnd::Partial(_) => tracing::warn!(
                %place,
                "one half of the WAL's end record is unreadable: a loss of the last commit would not be detected"
            ),
            StoredEnd::Damaged => tracing::warn!(
                %place,
                "the end record of the WAL is unreadable: a loss of the last commits would not be detected"
            ),
            StoredEnd::Missing if self.identity.begun => tracing::warn!(
                %place,
                "the end record of the WAL is missing: a loss of the last commits would not be detected"
            ),
            StoredEnd::Sound(_) | StoredEnd::Missing => {}
        }
        Ok(end)
    }

    /// Fails if more commits were promised than were found.
    pub(crate) fn check(&self, sources: &RecoverySource, reached: u64) -> Result<(), StoreError> {
        let lost = |what: String| {
            Err(StoreError::Lost(format!(
                "{what}; `playgate store recover --accept-loss` opens the store without them"
            )))
        };
        let logged = sources.in_snapshot_and_wal();
        let Some(end) = sources.end.end() else {
            // A store that was in use had both files, so their absence is damage.
            return if self.identity.begun && sources.survey.segments.is_empty() {
                lost(format!(
                    "the WAL and its end record are missing: commits after {reached} may be lost"
                ))
            } else {
                Ok(())
            };
        };
        if sources.promised > reached {
            return lost(format!(
                "commits {} to {} ({} in all) were acknowledged, but are not in the WAL (which ends at {}), the engine, a snapshot or a backup",
                reached + 1,
                sources.promised,
                sources.promised - reached,
                sources.survey.last(),
            ));
        }
        let marked = sources.survey.marks.get(&end.written);
        // If the content differs under the same numbers, the log was replaced by a copy from another moment.
        if marked.is_some_and(|marked| !marked.agrees(end.history)) {
            return lost(format!(
                "the commits up to {} in the WAL differ from those that were written",
                end.written
            ));
        }
        // This is logged and not fatal: the next snapshot contains these commits again.
        if sources.promised > logged {
            tracing::error!(
                from = logged + 1,
                to = sources.promised,
                count = sources.promised - logged,
                "the end of the WAL is missing; nothing is lost, since the engine or a backup has these commits"
            );
        }
        Ok(())
    }

    pub(crate) fn report_rebuild(&self, from: String, to: u64) {
        tracing::warn!(from, to, "rebuilding the engine");
        let _ = self.rebuilt_from.set(from);
    }

    /// Returns the durable state: the newest readable snapshot that the WAL continues, and the WAL.
    pub(crate) fn durable_state<'a>(
        &'a self,
        sources: &'a RecoverySource,
        why: &str,
    ) -> Result<DurableState<'a>, StoreError> {
        let state = |snapshot| DurableState {
            snapshot,
            segments: sources.survey.segments.clone(),
            schema: self.schema,
            last: self.identity.lineage.commit(sources.last()),
        };
        let mut problems = vec![why.to_owned()];
        for (head, path) in sources.snapshots.iter().chain(&sources.backups) {
            if !sources.fits(head, &self.identity.lineage) {
                problems.push(format!("{} is of another history", path.display()));
                continue;
            }
            if head.number > sources.last() || !sources.continues(head.number) {
                problems.push(format!("the WAL does not continue {}", path.display()));
                continue;
            }
            // The snapshot is read to its end before it replaces the old engine.
            match read_to_end(path, self.schema) {
                Ok(()) => {
                    self.report_rebuild(describe(head, path), sources.last());
                    return Snapshot::open(path, self.schema).map(Some).map(state);
                }
                Err(error) => problems.push(error.to_string()),
            }
        }
        let begin = sources
            .survey
            .segments
            .first()
            .map_or(1, |segment| segment.first);
        // A log from the first commit on needs no snapshot.
        if begin == 1 && sources.continues(0) {
            self.report_rebuild(WAL_ONLY.to_owned(), sources.last());
            return Ok(state(None));
        }
        problems.push(format!(
            "without a snapshot, the WAL begins only at commit {begin}"
        ));
        problems.extend(sources.survey.gaps.iter().map(|gap| {
            format!(
                "{} misses commits {} to {}",
                gap.path.display(),
                gap.from,
                gap.to - 1
            )
        }));
        Err(StoreError::Lost(problems.join("; ")))
    }
}

pub(crate) fn read_to_end(path: &Path, schema: &Tables) -> Result<(), StoreError> {
    Snapshot::open(path, schema)?.try_for_each(|pair| pair.map(drop))
}

pub(crate) const WAL_ONLY: &str = "the WAL only";

pub(crate) fn describe(head: &SnapshotHead, path: &Path) -> String {
    let made = chrono::DateTime::from_timestamp(head.created, 0).unwrap_or_default();
    format!(
        "{} (commit {}, made {})",
        path.display(),
        head.number,
        made.format("%Y-%m-%dT%H:%M:%SZ")
    )
}

/// Returns the snapshots of a directory, newest first. Files with an unreadable head are logged and skipped.
pub(crate) fn snapshots(directory: &Path, schema: &Tables) -> Vec<(SnapshotHead, PathBuf)> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            // A store without snapshots has no directory for them yet.
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(directory = %directory.display(), %error, "cannot list snapshots");
            }
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path
            .extension()
            .is_none_or(|extension| extension != "snapshot")
        {
            continue;
        }
        match Snapshot::open(&path, schema) {
            Ok(snapshot) => found.push((snapshot.head().clone(), path)),
            Err(error) => {
                tracing::warn!(snapshot = %path.display(), %error, "skipped a snapshot that cannot be read");
            }
        }
    }
    found.sort_by_key(|(head, _)| std::cmp::Reverse(head.number));
    found
}
