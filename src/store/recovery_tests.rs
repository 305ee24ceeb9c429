//! Tests of recovery at start-up, for each kind of damage.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::engine::{leftovers, tamper};
use super::tests::{People, Person, all, assert_sound, copy_tree, person, put, schema};
use super::*;
use crate::layout::StoreLayout;
use crate::maintenance::compaction::Waste;
use playgate_process::files::size_of;

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(directory, schema(), Options::default())
}

fn numbered(count: u32) -> BTreeMap<u32, Person> {
    (0..count).map(|key| (key, person("Lund", 30))).collect()
}

/// Creates and closes a store of `count` people, with a snapshot of the first half.
fn filled(directory: &Path, count: u32) {
    let store = open(directory).unwrap();
    for key in 0..count {
        put(&store, key, person("Lund", 30)).unwrap();
        if key == count / 2 {
            store.write_snapshot().unwrap();
        }
    }
}

/// Copies a store in its state after a power cut: the WAL is synced, and the engine may lack commits.
fn without_checkpoint(directory: &Path, at: &Path) {
    let store = open(directory).unwrap();
    for key in 0..100 {
        put(&store, key, person("Lund", 30)).unwrap();
        if key == 50 {
            store.write_snapshot().unwrap();
        }
    }
    copy_tree(directory, at);
}

pub(super) fn restore(
    directory: &Path,
    backup: &Path,
    instance: [u8; 16],
    adopt: bool,
) -> Result<Restored, StoreError> {
    Restore {
        directory,
        backup,
        backups: backup.parent().unwrap(),
        schema: &schema(),
        instance,
        timeline: [8; 16],
        adopt,
        restore_note: b"",
    }
    .prepare()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 8;
    fs::write(path, bytes).unwrap();
}

fn sled(place: &StoreLayout) -> std::path::PathBuf {
    place.engines().unwrap().0.unwrap().path
}

/// Returns the newest file; older segments may not be retired yet.
fn newest_file(directory: &Path, extension: &str) -> std::path::PathBuf {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found.pop().unwrap()
}

#[test]
fn missing_or_damaged_engine_is_rebuilt_from_snapshot_and_wal() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), 40);
    let place = StoreLayout::new(directory.path(), true);
    let damages: [&dyn Fn(); 4] = [
        &|| fs::remove_dir_all(sled(&place)).unwrap(),
        &|| {
            let db = sled(&place).join("db");
            let bytes = fs::read(&db).unwrap();
            fs::write(&db, &bytes[..bytes.len() / 2]).unwrap();
        },
        &|| fs::write(sled(&place).join("db"), [0xFF; 65_536]).unwrap(),
        &|| {
            let engine = place.engines().unwrap().0.unwrap();
            engine.mark_suspect("a test says so").unwrap();
        },
    ];
    for damage in damages {
        damage();
        let store = open(directory.path()).unwrap();
        assert_eq!(all(&store), numbered(40));
        assert_sound(&store);
        assert_eq!(place.engines().unwrap().0.unwrap().suspect_reason(), None);
    }
    assert!(fs::read_dir(place.aside()).unwrap().count() > 0);
}

/// sled itself opens such an engine without an error.
#[test]
fn engine_with_silently_lost_or_changed_records_is_detected() {
    for change in [None, Some(b"other".as_slice())] {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), 10);
        let place = StoreLayout::new(directory.path(), true);
        tamper(&sled(&place), People::NAME, &7_u32.to_bytes(), change);
        let store = open(directory.path()).unwrap();
        assert_eq!(all(&store), numbered(10));
        assert_sound(&store);
    }
}

/// The checksums and the commit number of the engine are correct.
#[test]
fn engine_of_another_timeline_is_rebuilt() {
    let (original, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    filled(original.path(), 10);
    let options = Options {
        timeline: [5; 16],
        ..Options::default()
    };
    let store = Store::open(other.path(), schema(), options).unwrap();
    for key in 0..10 {
        put(&store, key, person("Ystad", 1)).unwrap();
    }
    drop(store);
    let engine = sled(&StoreLayout::new(original.path(), true));
    fs::remove_dir_all(&engine).unwrap();
    copy_tree(&sled(&StoreLayout::new(other.path(), true)), &engine);
    let store = open(original.path()).unwrap();
    assert_eq!(all(&store), numbered(10));
    assert_sound(&store);
}

/// With its snapshot file, sled may open although a part of its log is missing. Without that file it may open in an older
/// state.
#[test]
fn engine_that_lost_a_part_of_its_log_is_rebuilt() {
    const SEGMENT: usize = 512 * 1024; // sled's
    let directory = tempfile::tempdir().unwrap();
    let place = StoreLayout::new(directory.path(), true);
    let long = "a long name ".repeat(1_000);
    let people: BTreeMap<_, _> = (0..160).map(|key| (key, person(&long, 30))).collect();
    let store = open(directory.path()).unwrap();
    for (key, person) in people.clone() {
        put(&store, key, person).unwrap();
    }
    store.write_snapshot().unwrap();
    drop(store);
    // sled writes its snapshot file when it opens.
    drop(open(directory.path()).unwrap());
    assert!(!leftovers(&sled(&place)).unwrap().is_empty());
    let log = fs::read(sled(&place).join("db")).unwrap();
    assert!(log.len() > 3 * SEGMENT, "{}", log.len());
    for begin in (0..log.len()).step_by(SEGMENT) {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(directory.path(), copy.path());
        let mut damaged = log.clone();
        damaged[begin..]
            .iter_mut()
            .take(SEGMENT)
            .for_each(|byte| *byte = 0);
        fs::write(
            sled(&StoreLayout::new(copy.path(), true)).join("db"),
            damaged,
        )
        .unwrap();
        let store = open(copy.path()).unwrap();
        assert_eq!(all(&store), people, "zeroed from {begin}");
        assert_sound(&store);
    }
}

#[test]
fn leftovers_of_the_engine_are_moved_aside() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), 10);
    let place = StoreLayout::new(directory.path(), true);
    fs::write(
        sled(&place).join("snap.0000000000001000.generating"),
        "half",
    )
    .unwrap();
    fs::write(sled(&place).join("snap.00000000000FFFFF"), "nonsense").unwrap();
    assert_eq!(all(&open(directory.path()).unwrap()), numbered(10));
    // The engine was not rebuilt; only the faulty file was moved away.
    assert!(!place.aside().join("sled.1").exists());
}

#[test]
fn damage_to_commits_only_in_the_wal_prevents_opening() {
    let directory = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    without_checkpoint(directory.path(), copy.path());
    let place = StoreLayout::new(copy.path(), true);
    // The engine is as of the snapshot.
    fs::remove_dir_all(sled(&place)).unwrap();
    flip(&newest_file(&place.log(), "wal"), 200);
    let refused = open(copy.path()).err();
    let Some(StoreError::Lost(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("misses commit"), "{why}");
}

#[test]
fn damage_to_commits_in_the_engine_is_repaired_by_a_new_snapshot() {
    for broken in ["log", "base", "both"] {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), 40);
        let place = StoreLayout::new(directory.path(), true);
        if broken != "base" {
            flip(&newest_file(&place.log(), "wal"), 100);
        }
        if broken != "log" {
            flip(&newest_file(&place.snapshots(), "snapshot"), 60);
        }
        let store = open(directory.path()).unwrap();
        assert_eq!(all(&store), numbered(40), "{broken}");
        assert_sound(&store);
        put(&store, 40, person("Lund", 30)).unwrap();
        drop(store);
        // The second rebuild uses only the new snapshot.
        fs::remove_dir_all(sled(&place)).unwrap();
        let store = open(directory.path()).unwrap();
        assert_eq!(all(&store), numbered(41), "{broken}");
    }
}

#[test]
fn missing_snapshot_is_replaced_by_a_backup() {
    let directory = tempfile::tempdir().unwrap();
    let backups = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    put(&store, 0, person("Lund", 30)).unwrap();
    store.back_up(backups.path()).unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    drop(store);
    let place = StoreLayout::new(directory.path(), true);
    fs::remove_dir_all(place.snapshots()).unwrap();
    fs::remove_dir_all(sled(&place)).unwrap();
    let refused = open(directory.path()).err();
    assert!(matches!(refused, Some(StoreError::Lost(_))), "{refused:?}");
    let options = Options {
        backups: Some(backups.path().to_owned()),
        ..Options::default()
    };
    let store = Store::open(directory.path(), schema(), options).unwrap();
    assert_eq!(all(&store), numbered(2));
    assert_sound(&store);
}

#[test]
fn restore_recovers_the_backup_and_keeps_the_replaced_store() {
    let directory = tempfile::tempdir().unwrap();
    let backups = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    put(&store, 0, person("Lund", 30)).unwrap();
    let backup = store.back_up(backups.path()).unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    drop(store);
    let restored = restore(directory.path(), &backup.path, [9; 16], false).unwrap();
    assert_eq!(restored.tables, BTreeMap::from([(People::NAME, 1)]));
    let store = open(directory.path()).unwrap();
    assert_eq!(all(&store), numbered(1));
    assert_sound(&store);
    put(&store, 5, person("Ystad", 1)).unwrap();
    drop(store);
    // No older snapshot or WAL fits the new commit numbers.
    fs::remove_dir_all(sled(&StoreLayout::new(directory.path(), true))).unwrap();
    assert_eq!(all(&open(directory.path()).unwrap()).len(), 2);
    assert!(directory.path().join("aside/store.1/log").exists());
}

#[test]
fn backup_of_another_installation_is_restored_only_on_request() {
    let [one, two, backups] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = open(one.path()).unwrap();
    put(&store, 0, person("Lund", 30)).unwrap();
    let backup = store.back_up(backups.path()).unwrap().path;
    let taken = |adopt| restore(two.path(), &backup, [9; 16], adopt);
    assert_eq!(taken(false), Err(StoreError::Foreign));
    taken(true).unwrap();
    assert_eq!(all(&open(two.path()).unwrap()), numbered(1));
}

/// The next start completes an installation that was killed at any step.
#[test]
fn interrupted_exchange_is_completed() {
    let directory = tempfile::tempdir().unwrap();
    let backups = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    put(&store, 0, person("Lund", 30)).unwrap();
    let backup = store.back_up(backups.path()).unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    drop(store);
    let path = directory.path();
    restore(path, &backup.path, [9; 16], false).unwrap();
    // Killed right after the exchange.
    for (from, to) in [
        ("store", "x"),
        ("restored/store", "store"),
        ("x", "restored/store"),
    ] {
        fs::rename(path.join(from), path.join(to)).unwrap();
    }
    assert_eq!(all(&open(path).unwrap()), numbered(1));
    assert!(!path.join("restored").exists());
    assert!(path.join("aside/store.1").exists());
    // Leftovers of the file system check at start-up do not count as a restore.
    fs::create_dir_all(path.join("restored/one")).unwrap();
    assert_eq!(all(&open(path).unwrap()), numbered(1));
    assert!(!path.join("restored").exists());
    // An incomplete restore changes nothing.
    fs::create_dir_all(path.join("restored/store/base")).unwrap();
    assert_eq!(all(&open(path).unwrap()), numbered(1));
    assert!(!path.join("restored").exists());
}

#[test]
fn segments_are_kept_until_a_snapshot_contains_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let segments = || {
        let log = StoreLayout::new(directory.path(), true).log();
        fs::read_dir(log).unwrap().count()
    };
    put(&store, 0, person("Lund", 30)).unwrap();
    store.0.core.memtable.drain().unwrap();
    store.run_exclusive(|writer| writer.log.roll()).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(segments(), 2);
    store.write_snapshot().unwrap();
    assert_eq!(segments(), 1);
    assert_sound(&store);
}

#[test]
fn compaction_changes_only_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for round in 0..50 {
        for key in 0..20 {
            put(&store, key, person(&"x".repeat(500), round)).unwrap();
        }
    }
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for key in 20..300 {
                put(&store, key, person("Lund", 1)).unwrap();
            }
        });
        store.compact().unwrap();
        writing.join().unwrap();
    });
    assert_eq!(all(&store).len(), 300);
    assert_sound(&store);
    drop(store);
    let store = open(directory.path()).unwrap();
    assert_eq!(all(&store).len(), 300);
    assert_sound(&store);
}

#[test]
fn grown_engine_is_replaced_automatically() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let engine = || {
        let place = StoreLayout::new(directory.path(), true);
        place.engines().unwrap().0.unwrap().path
    };
    let mut waste = Waste::default();
    let mut clear = |enough| {
        waste.enough = enough;
        waste
            .compact_if_wasteful(&store.0.core, &store.0.inbox, 0)
            .unwrap();
    };
    for round in 0..50 {
        for key in 0..20 {
            put(&store, key, person(&"x".repeat(500), round)).unwrap();
        }
        // Each round reaches the engine, which would otherwise get the last one only.
        store.0.core.memtable.drain().unwrap();
    }
    store.checkpoint().unwrap();
    let (old, size) = (engine(), size_of(&engine()));
    clear(size);
    assert_eq!(engine(), old);
    clear(size - 1);
    assert_ne!(engine(), old);
    assert!(!old.exists() && size_of(&engine()) < size);
    // A newly compacted engine is not compacted again, even without a minimum size.
    let new = engine();
    clear(0);
    assert_eq!(engine(), new);
    assert_eq!(all(&store).len(), 20);
    assert_sound(&store);
}
