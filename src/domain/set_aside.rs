//! What repairs keep: replaced stores and engines in `aside/`, and files that could not be used, beside the new ones.
//!
//! Both may have data of users that were erased since, so they are deleted once they are old. Keys are never deleted: no
//! other copy of one may exist.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use playgate_process::data_file::{self, at, is_set_aside};
use playgate_types::UnixSeconds;
use playgate_types::time::DAY;

pub const KEPT_DAYS: i64 = 30;

const WITH_USERS: [&str; 3] = ["telemetry", "journal", "quality"];

/// Replaced stores and engines.
pub fn replaced(data_dir: &Path) -> Vec<PathBuf> {
    let mut found = entries(&data_dir.join("aside"));
    // The store names an entry `KIND.NUMBER` when it moves it there.
    found.retain(|path| path.extension().is_some());
    found
}

/// Files that could not be used.
fn unusable(data_dir: &Path) -> Vec<PathBuf> {
    ["keys"]
        .iter()
        .chain(&WITH_USERS)
        .flat_map(|name| unusable_below(&data_dir.join(name)))
        .collect()
}

/// What may have data of users that were erased since.
pub fn with_erased_users(data_dir: &Path) -> Vec<PathBuf> {
    let files = WITH_USERS.map(|name| unusable_below(&data_dir.join(name)));
    [replaced(data_dir), files.concat()].concat()
}

/// Repeats what the log said when a file was set aside, until somebody has dealt with the file.
pub fn warning(data_dir: &Path) -> Option<String> {
    let found = unusable(data_dir);
    let names: Vec<_> = found
        .iter()
        .map(|path| {
            path.strip_prefix(data_dir)
                .unwrap_or(path)
                .display()
                .to_string()
        })
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "files could not be used and were set aside ({}): their content is missing; the log says what that means. To use one \
             again, stop the service, make the file whole and readable, and rename it back; otherwise delete it",
            names.join(", ")
        )
    })
}

/// Deletes what was kept for [`KEPT_DAYS`]. Returns how many entries it deleted.
pub fn remove_old(data_dir: &Path, now: UnixSeconds) -> io::Result<usize> {
    let (mut removed, mut result) = (0, Ok(()));
    for path in with_erased_users(data_dir) {
        match remove_if_old(&path, now) {
            Ok(is_removed) => removed += usize::from(is_removed),
            // The others must not stay because of one.
            Err(error) => result = Err(at("remove", &path)(error)),
        }
    }
    result.map(|()| removed)
}

fn remove_if_old(path: &Path, now: UnixSeconds) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    // The rename that set it aside changed the second of them.
    let since = found.mtime().max(found.ctime());
    if now.since(UnixSeconds(since)) < KEPT_DAYS * DAY {
        return Ok(false);
    }
    match found.is_dir() {
        true => fs::remove_dir_all(path)?,
        false => fs::remove_file(path)?,
    }
    tracing::info!(path = %path.display(), days = KEPT_DAYS, "deleted what was set aside");
    Ok(true)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    // An absent or unreadable folder has nothing to report here.
    let found = data_file::list(folder).unwrap_or_default();
    let mut paths: Vec<_> = found.iter().map(fs::DirEntry::path).collect();
    paths.sort_unstable();
    paths
}

fn unusable_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(folder) {
        if is_set_aside(&path) {
            found.push(path);
        } else if fs::symlink_metadata(&path).is_ok_and(|entry| entry.is_dir()) {
            found.extend(unusable_below(&path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_is_deleted_by_its_age_and_keys_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        for name in ["aside/store.1/log", "keys", "telemetry", "quality/of/b"] {
            fs::create_dir_all(data.join(name)).unwrap();
        }
        let kept = [
            "aside/store.1/log/1",
            "aside/engine.2",
            "keys/mail.key.damaged",
            "telemetry/2026-11-28T09.events.damaged",
            "telemetry/2026-11-28T09.events.damaged-2",
            "quality/views.damaged",
            "quality/of/b/x.rollup.damaged",
        ];
        let used = [
            "keys/mail.key",
            "telemetry/2026-11-28T09.events",
            "quality/views",
        ];
        for name in kept.iter().chain(&used) {
            fs::write(data.join(name), "").unwrap();
        }
        let warning = warning(data).unwrap();
        for name in &kept[2..] {
            assert!(warning.contains(name), "{warning}");
        }
        let made = fs::metadata(data.join("aside/engine.2")).unwrap().ctime();
        let days = |days: i64| UnixSeconds(made + days * DAY);
        assert_eq!(remove_old(data, days(KEPT_DAYS - 1)).unwrap(), 0);
        assert_eq!(replaced(data).len(), 2);
        assert_eq!(remove_old(data, days(KEPT_DAYS + 1)).unwrap(), 6);
        assert_eq!(replaced(data), Vec::<PathBuf>::new());
        assert_eq!(unusable(data), [data.join("keys/mail.key.damaged")]);
        for name in used {
            assert!(data.join(name).exists(), "{name}");
        }
    }
}
