//! Tests of export, import, salvage and upgrade.

use std::fs;
use std::path::Path;

use super::recovery_tests::restore;
use super::tests::{People, Person, all, assert_sound, copy_tree, person, put, schema};
use super::*;
use crate::layout::StoreLayout;
use crate::maintenance::dump::Imported;

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(directory, schema(), Options::default())
}

fn filled(directory: &Path) -> Store {
    let store = open(directory).unwrap();
    for key in 0..50 {
        put(&store, key, person("Lund", 30)).unwrap();
    }
    store
}

fn exported(store: &Store) -> String {
    let mut out = Vec::new();
    let snapshot = store.snapshot_file().unwrap();
    let report = SnapshotExport::open(&snapshot, &schema())
        .and_then(|export| export.write(&schema(), &mut out))
        .unwrap();
    assert_eq!((report.records, report.damaged.count), (50, 0));
    String::from_utf8(out).unwrap()
}

fn import(text: &str) -> (Store, Result<Imported, StoreError>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let report = store.import(&mut text.as_bytes());
    (store, report, directory)
}

#[test]
fn imported_export_has_its_indexes() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let text = exported(&store);
    let (again, report, _place) = import(&text);
    let report = report.unwrap();
    assert_eq!(
        (report.records, report.skipped, report.complete),
        (50, 0, true)
    );
    assert_eq!(all(&again), all(&store));
    assert_sound(&again);
    assert_eq!(
        again.import(&mut text.as_bytes()),
        Err(StoreError::NotEmpty)
    );
}

#[test]
fn damaged_lines_are_skipped_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let text = exported(&filled(directory.path()));
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[3].push('x');
    lines[5] = lines[5].replace('\t', " ");
    lines[7] = "y".repeat(300_000);
    lines.remove(9);
    let (store, report, _place) = import(&format!("{}\n", lines.join("\n")));
    let report = report.unwrap();
    let numbers: Vec<_> = report.mistakes.iter().map(|(line, _)| *line).collect();
    assert_eq!(
        (report.records, numbers, report.complete),
        (46, vec![4, 6, 8], false)
    );
    assert_eq!(all(&store).len(), 46);
    assert_sound(&store);
    for nonsense in ["", "nonsense\n", "playgate-store\t1\tx\n"] {
        assert!(
            matches!(import(nonsense).1, Err(StoreError::Damaged { .. })),
            "{nonsense}"
        );
    }
    let newer = import("playgate-store\t1\t9\t00\n").1;
    assert!(matches!(
        newer,
        Err(StoreError::Newer { found: 9, known: 1 })
    ));
}

/// The engine is missing and one commit of the WAL is damaged: all other commits are salvaged.
#[test]
fn readable_records_of_a_lost_store_are_salvaged() {
    let directory = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    copy_tree(directory.path(), copy.path());
    drop(store);
    let place = StoreLayout::new(copy.path(), true);
    fs::remove_dir_all(place.engines().unwrap().0.unwrap().path).unwrap();
    let log = fs::read_dir(place.log())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&log).unwrap();
    bytes[300] ^= 1;
    fs::write(&log, bytes).unwrap();
    assert!(matches!(open(copy.path()), Err(StoreError::Lost(_))));
    let mut out = Vec::new();
    let saved = salvage(copy.path(), &schema(), &mut out).unwrap();
    assert_eq!(saved.exported.records, 49);
    assert!(
        saved.missing.iter().any(|what| what.contains("damaged")),
        "{saved:?}"
    );
    let (again, report, _place) = import(&String::from_utf8(out).unwrap());
    assert!(report.unwrap().complete);
    assert_eq!(all(&again).len(), 49);
    assert_sound(&again);
}

fn older(store: &Store) -> Result<(), StoreError> {
    store
        .write(Durability::Durable, |txn| {
            for (key, record) in txn.scan::<People>(&All, usize::MAX)? {
                // Work that was done before a crash is not repeated.
                if record.age == 30 {
                    txn.put::<People>(&key, &Person { age: 31, ..record })?;
                }
            }
            Ok(())
        })
        .wait()
}

fn failing(_: &Store) -> Result<(), StoreError> {
    Err(StoreError::Full)
}

#[test]
fn older_store_is_not_opened_where_an_upgrade_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    drop(filled(path));
    let refusing = || Options {
        upgrade: FormatUpgrade::Refuse,
        ..Options::default()
    };
    let upgraded = || schema().upgraded_by(older);
    let refused = Store::open(path, upgraded(), refusing());
    assert_eq!(
        refused.err(),
        Some(StoreError::Older { found: 1, known: 2 })
    );
    // Nothing has changed, so the older version still opens the store.
    assert!(!path.join("aside").exists());
    drop(open(path).unwrap());
    // An interrupted upgrade is not continued either.
    let cut_off = upgraded().upgraded_by(failing);
    assert!(Store::open(path, cut_off, Options::default()).is_err());
    let refused = Store::open(path, upgraded().upgraded_by(older), refusing());
    assert_eq!(
        refused.err(),
        Some(StoreError::Older { found: 2, known: 3 })
    );
    // A store of this format is opened.
    let whole = || upgraded().upgraded_by(older);
    drop(Store::open(path, whole(), Options::default()).unwrap());
    Store::open(path, whole(), refusing()).unwrap();
}

#[test]
fn older_store_is_backed_up_and_upgraded_step_by_step() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    drop(filled(path));
    // The second step fails after the first one. No older version opens the store any more.
    let cut_off = schema().upgraded_by(older).upgraded_by(failing);
    // The disk of the backups is not mounted, so nothing must be written to the mount point.
    let unmounted = path.join("unmounted");
    let options = Options {
        backups: Some(unmounted.clone()),
        ..Options::default()
    };
    assert!(Store::open(path, cut_off, options).is_err());
    assert!(!unmounted.exists());
    assert!(matches!(
        open(path),
        Err(StoreError::Newer { found: 3, known: 1 })
    ));
    let whole = || schema().upgraded_by(older).upgraded_by(older);
    let store = Store::open(path, whole(), Options::default()).unwrap();
    assert!(all(&store).values().all(|person| person.age == 31));
    assert_sound(&store);
    // Until a client changes something, a file names the backup of the upgrade, which the package can restore.
    let backups = list_backups(&path.join("aside"), &schema());
    assert_eq!(backups.len(), 1);
    let backup = backups[0].path.clone();
    let named = StoreLayout::new(path, true).upgrade_backup();
    assert_eq!(
        fs::read(&named).unwrap(),
        backup.as_os_str().as_encoded_bytes()
    );
    for _ in 0..2 {
        store.finalize_upgrade().unwrap();
        assert!(!named.exists());
    }
    drop(store);
    restore(path, &backup, [0; 16], false).unwrap();
    let store = open(path).unwrap();
    assert!(all(&store).values().all(|person| person.age == 30));
}
