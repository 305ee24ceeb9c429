//! Retention of backups.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::error::StoreError;
use crate::maintenance::backup::{BackupFile, list_backups};
use crate::table::Tables;
use playgate_process::data_file::at;

const DAY: i64 = 86_400;

#[derive(Clone, Copy, Debug)]
pub struct Retention<'a> {
    pub instance: [u8; 16],
    pub keep: usize,
    /// The newest backup. It is always kept, even if the clock was wrong before.
    pub made: &'a BackupFile,
}

/// Removes old backups of a store; returns how many were removed. The newest `keep` of each
/// timeline stay, by date.
pub fn prune_backups(
    directory: &Path,
    schema: &Tables,
    retention: Retention<'_>,
) -> Result<usize, StoreError> {
    let Retention {
        instance,
        keep,
        made,
    } = retention;
    let mut backups = list_backups(directory, schema);
    // Backups of other stores, and copies under another name, belong to the operator.
    backups.retain(|backup| backup.is_made_by(instance));
    let timeline = made.head.history.timeline;
    let present = backups
        .iter()
        .filter(|backup| backup.head.history.timeline == timeline);
    let oldest_kept = present
        .map(|backup| backup.head.created)
        .nth(keep.saturating_sub(1));
    // After a rollback or restore an operator may still need the abandoned timeline. Its backups are removed only once
    // the current timeline has `keep` newer ones, and they are more than `keep` days older than the newest.
    let rotated = |backup: &BackupFile| {
        oldest_kept.is_some_and(|oldest| {
            let days = i64::try_from(keep).unwrap_or(i64::MAX).saturating_mul(DAY);
            backup.head.created < oldest
                && backup.head.created < made.head.created.saturating_sub(days)
        })
    };
    let mut seen = BTreeMap::<[u8; 16], usize>::new();
    let mut removed = 0;
    for old in &backups {
        let of_timeline = seen.entry(old.head.history.timeline).or_default();
        *of_timeline += 1;
        // `backups` is sorted by date, newest first.
        let is_over = *of_timeline > keep;
        let is_rotated = old.head.history.timeline != timeline && rotated(old);
        if (is_over || is_rotated) && old.path != made.path {
            fs::remove_file(&old.path).map_err(at("remove", &old.path))?;
            removed += 1;
        }
    }
    Ok(removed)
}
