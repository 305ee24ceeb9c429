//! Files that another program deletes or replaces while the store has them open.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout::StoreLayout;
use super::maintenance::missing_files;
use super::tests::{all, assert_sound, copy_tree, person, put, schema};
use super::*;

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(directory, schema(), Options::default())
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn fill(store: &Store, keys: std::ops::Range<u32>) {
    for key in keys {
        put(store, key, person("Lund", 30)).unwrap();
    }
}

fn restore(store: &Store) {
    missing_files::restore(&store.0.core, &store.0.inbox, 0).unwrap();
}

/// Returns how many people a start finds after a kill, or its error.
fn after_kill(data: &Path) -> Result<usize, StoreError> {
    let copy = tempfile::tempdir().unwrap();
    copy_tree(data, copy.path());
    // As if the engine had not written any of the last commits.
    for path in files(&copy.path().join("store")) {
        if path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("sled")
        {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let store = open(copy.path())?;
    assert_sound(&store);
    Ok(all(&store).len())
}

#[test]
fn deleted_segments_cost_no_commit() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let log = data.join("store/log");
    let ways: [fn(&Path); 4] = [
        |log| {
            for path in files(log) {
                fs::remove_file(path).unwrap();
            }
        },
        |log| fs::remove_dir_all(log).unwrap(),
        // As a program that rotates logs does it.
        |log| {
            for path in files(log) {
                fs::rename(&path, path.with_extension("1")).unwrap();
                fs::write(&path, "").unwrap();
            }
        },
        |log| {
            for path in files(log) {
                fs::File::create(path).unwrap();
            }
        },
    ];
    // The thread that looks every half second asks for the time first. It waits, so that this test alone restores.
    let gate = Arc::new(std::sync::Mutex::new(()));
    let waits = Arc::clone(&gate);
    let options = Options {
        clock: Arc::new(move || {
            drop(waits.lock());
            0
        }),
        ..Options::default()
    };
    let store = Store::open(&data, schema(), options).unwrap();
    let _held = gate.lock().unwrap();
    let mut count = 0;
    for lose in ways {
        fill(&store, count..count + 20);
        lose(&log);
        fill(&store, count + 20..count + 40);
        count += 40;
        // The control: these commits are nowhere but in files without a name.
        assert!(after_kill(&data).is_err());
        restore(&store);
        assert_eq!(after_kill(&data), Ok(count as usize));
        fill(&store, count..count + 5);
        count += 5;
        assert_eq!(after_kill(&data), Ok(count as usize));
        assert_sound(&store);
        let before = files(&log);
        restore(&store);
        assert_eq!(files(&log), before, "nothing more is missing");
    }
}

#[test]
fn a_stop_after_a_deletion_keeps_every_commit() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let store = open(data).unwrap();
    fill(&store, 0..20);
    for path in files(&data.join("store/log")) {
        fs::remove_file(path).unwrap();
    }
    fill(&store, 20..40);
    drop(store);
    assert_eq!(after_kill(data), Ok(40));
    assert_eq!(all(&open(data).unwrap()).len(), 40);
}

#[test]
fn other_deleted_files_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let store = open(data).unwrap();
    fill(&store, 0..20);
    store.write_snapshot().unwrap();
    let place = StoreLayout::new(data, true);
    let mut snapshots = files(&place.snapshots());
    let lost = [
        place.log_end(),
        place.store().join("identity"),
        place.store().join("identity.copy"),
        snapshots.pop().unwrap(),
    ];
    for path in &lost {
        fs::remove_file(path).unwrap();
    }
    restore(&store);
    fill(&store, 20..25);
    for path in &lost[..3] {
        assert!(path.exists(), "{}", path.display());
    }
    assert_eq!(files(&place.snapshots()).len(), 1);
    // The record of the end is the one that the store writes to.
    assert_eq!(after_kill(data), Ok(25));
    fs::remove_dir_all(place.log()).unwrap();
    let lost = after_kill(data);
    assert!(matches!(lost, Err(StoreError::Lost(_))), "{lost:?}");
}

#[test]
fn a_deleted_lock_is_taken_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let store = open(data).unwrap();
    fs::remove_file(data.join("lock")).unwrap();
    let mut locks: Vec<_> = store.lock().into_iter().collect();
    missing_files::restore_lock(&store.0.core, &mut locks);
    assert_eq!(locks.len(), 2);
    assert_eq!(open(data).err(), Some(StoreError::InUse));
    missing_files::restore_lock(&store.0.core, &mut locks);
    assert_eq!(locks.len(), 2);
    fs::remove_file(data.join("lock")).unwrap();
    // Another process was faster. Two writers would destroy the store.
    let _other = StoreLock::acquire(data, false).unwrap();
    missing_files::restore_lock(&store.0.core, &mut locks);
    assert!(put(&store, 1, person("Lund", 30)).is_err());
}

/// Earlier versions named segments `.log`.
#[test]
fn segments_of_earlier_versions_are_read_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let log = data.join("store/log");
    fill(&open(data).unwrap(), 0..20);
    for path in files(&log) {
        fs::rename(&path, path.with_extension("log")).unwrap();
    }
    for round in 1..=3 {
        // A start without a commit leaves an empty segment, whose number the next one has.
        drop(open(data).unwrap());
        let store = open(data).unwrap();
        assert_eq!(all(&store).len(), round * 20);
        let first = u32::try_from(round * 20).unwrap();
        fill(&store, first..first + 20);
        assert_sound(&store);
        drop(store);
        assert_eq!(after_kill(data), Ok(round * 20 + 20));
    }
    // An empty segment is replaced by the one with its number.
    let empty = files(&log).into_iter().max().unwrap();
    fs::rename(&empty, empty.with_extension("log")).unwrap();
    let store = open(data).unwrap();
    fill(&store, 80..81);
    assert_eq!(after_kill(data), Ok(81));
}

#[test]
fn one_unreadable_copy_of_the_identity_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    fill(&open(data).unwrap(), 0..3);
    let identity = data.join("store/identity");
    fs::remove_file(&identity).unwrap();
    // An error of another kind than a missing file.
    fs::create_dir(&identity).unwrap();
    let read = StoreLayout::new(data, true).identity().unwrap();
    fs::remove_dir(&identity).unwrap();
    drop(open(data).unwrap());
    assert_eq!(StoreLayout::new(data, true).identity().unwrap(), read);
}

#[test]
fn a_store_that_is_a_link_refuses_a_restore_and_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let [data, backups, moved] = ["data", "backups", "moved"].map(|name| folder.path().join(name));
    let store = open(&data).unwrap();
    fill(&store, 0..3);
    let backup = store.back_up(&backups).unwrap();
    fill(&store, 3..5);
    drop(store);
    let prepare = || {
        let schema = schema();
        let restore = Restore {
            directory: &data,
            backup: &backup.path,
            backups: &backups,
            schema: &schema,
            instance: [0; 16],
            timeline: [8; 16],
            adopt: false,
            restore_note: b"",
        };
        restore.prepare()
    };
    // Staged by a version that did not look.
    prepare().unwrap();
    fs::rename(data.join("store"), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, data.join("store")).unwrap();
    let store = open(&data).unwrap();
    assert_eq!(all(&store).len(), 5);
    drop(store);
    assert!(!data.join("restored").exists());
    let refused = prepare();
    assert!(
        matches!(&refused, Err(StoreError::NotReplaceable(why)) if why.contains("link")),
        "{refused:?}"
    );
    assert!(!data.join("restored").exists());
}

/// A disk that is mounted over the data directory hides the lock, so that only the identity tells.
#[test]
fn a_store_that_takes_the_place_of_an_open_one_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let [data, other, hidden] = ["data", "other", "hidden"].map(|name| folder.path().join(name));
    let begin = |place: &Path, instance: u8| {
        let options = Options {
            instance: [instance; 16],
            timeline: [instance; 16],
            ..Options::default()
        };
        Store::open(place, schema(), options)
    };
    let before = begin(&other, 1).unwrap();
    fill(&before, 0..5);
    drop(before);
    // The thread that looks by itself finds the same, and must not write either.
    let store = begin(&data, 2).unwrap();
    fill(&store, 0..2);
    fs::rename(&data, &hidden).unwrap();
    fs::rename(&other, &data).unwrap();
    let refused = missing_files::restore(&store.0.core, &store.0.inbox, 0);
    assert!(
        matches!(&refused, Err(StoreError::Failed(why)) if why.contains("taken the place")),
        "{refused:?}"
    );
    put(&store, 9, person("Lund", 30)).unwrap_err();
    drop(store);
    let kept = begin(&data, 3).unwrap();
    assert_sound(&kept);
    assert_eq!(all(&kept).len(), 5);
    drop(kept);
    assert_eq!(all(&begin(&hidden, 4).unwrap()).len(), 2);
}
