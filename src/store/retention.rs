//! Which backups stay, and which make room for newer ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::StoreError;
use super::backup::{Backup, list_backups};
use super::table::Schema;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Which backups stay.
#[derive(Clone, Copy, Debug)]
pub struct Retention<'a> {
    /// Whose backups count; all others stay.
    pub instance: [u8; 16],
    /// How many of a timeline stay.
    pub keep: usize,
    /// The one that was just made, which stays whatever the clock said before.
    pub made: &'a Backup,
}

/// Removes old backups that a store made. Returns how many went.
///
/// The newest of each timeline stay, by date. Of a timeline that was abandoned (the data directory was
/// rolled back, or restored) they are what an operator may have to go back to: they go only once the
/// present timeline has as many, all of them made later and over at least as many days.
///
/// # Errors
/// That one cannot be removed.
pub fn prune_backups(
    directory: &Path,
    schema: &Schema,
    retention: Retention<'_>,
) -> Result<usize, StoreError> {
    let Retention {
        instance,
        keep,
        made,
    } = retention;
    let mut own = list_backups(directory, schema);
    own.retain(|backup| backup.is_made_by(instance));
    let timeline = made.head.history.timeline;
    let present = own
        .iter()
        .filter(|backup| backup.head.history.timeline == timeline);
    let oldest_kept = present
        .map(|backup| backup.head.created)
        .nth(keep.saturating_sub(1));
    let rotated = |backup: &Backup| {
        oldest_kept.is_some_and(|oldest| {
            let days = i64::try_from(keep).unwrap_or(i64::MAX).saturating_mul(DAY);
            backup.head.created < oldest
                && backup.head.created < made.head.created.saturating_sub(days)
        })
    };
    let mut seen = BTreeMap::<[u8; 16], usize>::new();
    let mut removed = 0;
    for old in &own {
        let of_timeline = seen.entry(old.head.history.timeline).or_default();
        *of_timeline += 1;
        let is_over = *of_timeline > keep;
        let is_rotated = old.head.history.timeline != timeline && rotated(old);
        if (is_over || is_rotated) && old.path != made.path {
            fs::remove_file(&old.path)?;
            removed += 1;
        }
    }
    Ok(removed)
}
