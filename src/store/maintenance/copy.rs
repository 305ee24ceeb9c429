//! Copies the files of a store that no process has open, so that another version can try to open the copy.

use std::fs;
use std::path::Path;

use crate::disk_space;
use crate::error::StoreError;
use crate::layout::{StoreLayout, check_format};
use crate::table::Tables;
use playgate_process::data_file::{self, at};

/// Required space in multiples of the store: for the copy itself, the backup before a format upgrade, and a rebuilt
/// engine.
const SPACE_FACTOR: u64 = 3;

/// Copies the store of the data directory `from` to the empty directory `to`. A staged restore is copied too, since the
/// next start would install it.
pub fn copy_store(from: &Path, to: &Path, schema: &Tables) -> Result<(), StoreError> {
    // Not synced: a copy for a check need not survive a power cut.
    let place = StoreLayout::new(from, false);
    // The lock is held until the end, so that no server starts to write.
    let _lock = place.lock()?;
    if place.is_initialised() {
        check_format(place.identity()?.format, schema.format())?;
    }
    let parts = [place.store(), place.staged().directory().to_owned()];
    let parts = parts.iter().filter(|part| part.is_dir());
    let bytes = parts
        .clone()
        .map(|part| bytes_below(part))
        .sum::<Result<u64, _>>()?;
    disk_space::require_free(to, SPACE_FACTOR * bytes)?;
    for part in parts {
        copy_directory(part, &to.join(part.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(to).map_err(at("create the directory", to))?;
    for entry in fs::read_dir(from).map_err(at("read the directory", from))? {
        let (entry, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy_directory(&entry, &target)?;
        } else {
            data_file::copy(&entry, &target)?;
        }
    }
    Ok(())
}

pub fn bytes_below(directory: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for entry in data_file::list(directory)? {
        bytes += match entry.metadata().map_err(at("read", &entry.path()))? {
            about if about.is_dir() => bytes_below(&entry.path())?,
            about => about.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{all, assert_sound, person, put, schema};
    use crate::{Options, Store};

    #[test]
    fn a_copy_opens_with_every_record_and_the_store_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let store = Store::open(&from, schema(), Options::default()).unwrap();
        put(&store, 1, person("Lund", 30)).unwrap();
        fs::create_dir(&to).unwrap();
        let busy = copy_store(&from, &to, &schema());
        assert_eq!(busy, Err(StoreError::InUse));
        drop(store);

        copy_store(&from, &to, &schema()).unwrap();
        let copy = Store::open(&to, schema(), Options::default()).unwrap();
        put(&copy, 2, person("Umeå", 40)).unwrap();
        assert_sound(&copy);
        assert_eq!(all(&copy).len(), 2);
        drop(copy);
        let store = Store::open(&from, schema(), Options::default()).unwrap();
        assert_eq!(all(&store).len(), 1);
    }

    #[test]
    fn a_store_of_a_newer_format_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let newer = schema().upgraded_by(|_| Ok(()));
        drop(Store::open(&from, newer, Options::default()).unwrap());
        fs::create_dir(&to).unwrap();
        let copied = copy_store(&from, &to, &schema());
        assert_eq!(copied, Err(StoreError::Newer { found: 2, known: 1 }));
        assert_eq!(bytes_below(&to), Ok(0));
    }
}
