//! Tests of the store's guarantees, on both engines.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::history::CommitId;
use super::layout::{Identity, StoreLayout};
use super::write_batch::WriteBatch;
use super::*;

pub(super) struct People;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Person {
    pub(super) town: String,
    pub(super) age: u8,
}

impl Record for Person {}

impl Table for People {
    const NAME: TreeName = "people";
    type Key = u32;
    type Record = Person;
    const INDEXES: &'static [TreeName] = &[ByTown::NAME];

    fn index(key: &u32, record: &Person, entries: &mut Entries) {
        let Person { town, age } = record;
        entries.add::<ByTown>(&(town.clone(), *age), key);
    }
}

pub(super) struct ByTown;

impl Index for ByTown {
    const NAME: TreeName = "people.by_town";
    type Table = People;
    type Key = (String, u8);
}

pub(super) fn schema() -> Schema {
    Schema::default().with::<People>()
}

pub(super) fn person(town: &str, age: u8) -> Person {
    Person {
        town: town.to_owned(),
        age,
    }
}

pub(super) fn put(store: &Store, key: u32, person: Person) -> Result<(), StoreError> {
    store
        .write(Durability::Durable, move |txn| {
            txn.put::<People>(&key, &person)
        })
        .wait()
}

pub(super) fn all(store: &Store) -> BTreeMap<u32, Person> {
    store
        .read(|txn| txn.scan::<People>(&All, usize::MAX))
        .unwrap()
        .into_iter()
        .collect()
}

pub(super) fn assert_sound(store: &Store) {
    let Verified {
        tables,
        durable_state: state,
    } = store.verify().unwrap();
    for report in tables {
        assert!(report.is_sound(), "{report:?}");
    }
    assert!(
        state.as_ref().is_none_or(DurableStateReport::is_sound),
        "{state:?}"
    );
}

#[test]
fn failed_transaction_changes_nothing() {
    let store = Store::in_memory(schema());
    put(&store, 1, person("Lund", 30)).unwrap();
    let failed: Result<(), StoreError> = store
        .write(Durability::Durable, |txn| {
            txn.put::<People>(&1, &person("Ystad", 31))?;
            txn.put::<People>(&2, &person("Ystad", 32))?;
            Err(StoreError::Closed)
        })
        .wait();
    assert_eq!(failed, Err(StoreError::Closed));
    assert_eq!(all(&store), BTreeMap::from([(1, person("Lund", 30))]));
    assert_sound(&store);
}

#[test]
fn panicking_transaction_changes_nothing_and_the_writer_continues() {
    let store = Store::in_memory(schema());
    let panicked: Result<(), StoreError> = store
        .write(Durability::Durable, |txn| {
            txn.put::<People>(&1, &person("Lund", 30))?;
            panic!("a mistake in a transaction");
        })
        .wait();
    assert_eq!(panicked, Err(StoreError::Closed));
    put(&store, 2, person("Lund", 31)).unwrap();
    assert_eq!(all(&store).into_keys().collect::<Vec<_>>(), [2]);
}

#[test]
fn indexes_follow_their_records() {
    let store = Store::in_memory(schema());
    put(&store, 1, person("Lund", 30)).unwrap();
    put(&store, 2, person("Lund", 20)).unwrap();
    put(&store, 1, person("Ystad", 30)).unwrap();
    let found = store.read(|txn| {
        (
            txn.scan_index::<ByTown>(&"Lund".to_owned(), 9).unwrap(),
            txn.find::<ByTown>(&("Ystad".to_owned(), 30)).unwrap(),
            txn.find::<ByTown>(&("Lund".to_owned(), 30)).unwrap(),
        )
    });
    assert_eq!(found, (vec![(("Lund".to_owned(), 20), 2)], Some(1), None));
}

#[test]
fn memory_table_equals_its_table_from_the_start_and_after_each_commit() {
    let store = Store::in_memory(schema());
    put(&store, 1, person("Lund", 30)).unwrap();
    let table = Arc::new(MemoryTable::<People>::default());
    store.attach::<People>(table.clone()).unwrap();
    assert_eq!(table.get(&1).as_deref(), Some(&person("Lund", 30)));
    put(&store, 2, person("Ystad", 31)).unwrap();
    assert_eq!(table.get(&2).as_deref(), Some(&person("Ystad", 31)));
    store
        .write(Durability::Logged, |txn| txn.delete::<People>(&1))
        .wait()
        .unwrap();
    assert_eq!((table.get(&1), table.len()), (None, 1));
}

#[test]
fn transaction_reads_a_memory_table_and_not_the_engine() {
    for is_in_memory in [true, false] {
        let store = Store::in_memory(schema());
        let table = Arc::new(MemoryTable::<People>::default());
        match is_in_memory {
            true => store.attach_memory_table(table).unwrap(),
            false => store.attach::<People>(table).unwrap(),
        }
        put(&store, 1, person("Lund", 30)).unwrap();
        store.0.core.memtable.drain().unwrap();
        let mut deletion = WriteBatch::default();
        deletion.set(People::NAME, 1_u32.to_bytes(), None);
        for part in deletion.parts() {
            let engine = store.0.core.engine();
            engine.apply_part(CommitId::default(), &part).unwrap();
        }
        let found = store.read(|txn| txn.get::<People>(&1)).unwrap();
        assert_eq!(found, is_in_memory.then(|| person("Lund", 30)));
    }
}

#[test]
fn transaction_reads_its_own_changes_before_the_memory_table() {
    let store = Store::in_memory(schema());
    let table = Arc::new(MemoryTable::<People>::default());
    store.attach_memory_table(table).unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    let found: Result<_, StoreError> = store
        .write(Durability::Logged, |txn| {
            txn.put::<People>(&1, &person("Ystad", 31))?;
            let changed = txn.get::<People>(&1)?;
            txn.delete::<People>(&1)?;
            Ok((changed, txn.get::<People>(&1)?))
        })
        .wait();
    assert_eq!(found, Ok((Some(person("Ystad", 31)), None)));
    let town = |name: &str| {
        store.read(|txn| {
            let found = txn.scan_index::<ByTown>(&name.to_owned(), 9);
            found.unwrap().len()
        })
    };
    assert_eq!((town("Lund"), town("Ystad")), (0, 0));
}

#[test]
fn commits_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(directory.path(), schema(), Options::default());
    let store = open().unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    assert!(matches!(open(), Err(StoreError::InUse)));
    drop(store);
    let store = open().unwrap();
    assert_eq!(all(&store), BTreeMap::from([(1, person("Lund", 30))]));
    put(&store, 2, person("Ystad", 31)).unwrap();
    drop(store);
    assert_eq!(all(&open().unwrap()).len(), 2);
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (
            entry.as_ref().unwrap().path(),
            to.join(entry.unwrap().file_name()),
        );
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The engine may lose everything since its last sync; the WAL restores it.
#[test]
fn empty_engine_is_rebuilt_from_the_wal() {
    let directory = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), schema(), Options::default()).unwrap();
    for key in 0..100 {
        put(&store, key, person("Lund", 30)).unwrap();
    }
    // The state after a power cut: the WAL was synced, the engine was not.
    copy_tree(directory.path(), copy.path());
    fs::remove_dir_all(copy.path().join("store/sled.1")).unwrap();
    let recovered = Store::open(copy.path(), schema(), Options::default()).unwrap();
    assert_eq!(all(&recovered), all(&store));
    assert_sound(&recovered);
}

#[test]
fn newer_store_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    StoreLayout::new(directory.path(), true)
        .write_identity(&Identity {
            format: 2,
            reached: 2,
            instance: [1; 16],
            lineage: super::history::Lineage::default(),
            begun: true,
        })
        .unwrap();
    let refused = Store::open(directory.path(), schema(), Options::default());
    assert!(matches!(
        refused,
        Err(StoreError::Newer { found: 2, known: 1 })
    ));
}

#[test]
fn damage_is_reported_with_its_key_and_never_served() {
    let store = Store::in_memory(schema());
    put(&store, 1, person("Lund", 30)).unwrap();
    let mut batch = WriteBatch::default();
    batch.set("people", 1_u32.to_bytes(), Some(b"nonsense".to_vec()));
    batch.set("people.by_town", b"stale".to_vec(), Some(Vec::new()));
    store.0.core.memtable.drain().unwrap();
    let commit = CommitId::default().at(2);
    store.0.core.engine().apply(commit, &batch).unwrap();
    let read = store.read(|txn| txn.get::<People>(&1));
    assert!(
        matches!(&read, Err(StoreError::Damaged { place, .. }) if place == "table people, key 00000001"),
        "{read:?}"
    );
    let report = store.verify().unwrap().tables.remove(0);
    // The index entry of the damaged record counts as stale too.
    assert_eq!(
        (
            report.damaged.count,
            report.missing.count,
            report.stale.count
        ),
        (1, 0, 2)
    );
    store.rebuild().unwrap();
    let report = store.verify().unwrap().tables.remove(0);
    assert_eq!(
        (
            report.damaged.count,
            report.missing.count,
            report.stale.count
        ),
        (1, 0, 0)
    );
}

/// A table as a later version writes it: the name is the same, and the record version differs.
struct LaterPeople;

#[derive(Serialize, Deserialize)]
struct LaterPerson(String);

impl Record for LaterPerson {
    const VERSION: u8 = 2;
}

impl Table for LaterPeople {
    const NAME: TreeName = People::NAME;
    type Key = u32;
    type Record = LaterPerson;
}

#[test]
fn record_of_a_newer_version_stops_a_start_and_every_change_of_it() {
    let store = Store::in_memory(schema());
    put(&store, 1, person("Lund", 30)).unwrap();
    let written: Result<(), StoreError> = store
        .write(Durability::Durable, |txn| {
            txn.put::<LaterPeople>(&2, &LaterPerson("Lund".to_owned()))
        })
        .wait();
    written.unwrap();
    let newer = StoreError::NewerRecord {
        table: "people".to_owned(),
        found: 2,
        known: 1,
    };
    // The checks run before and after the engine has the record.
    for _ in 0..2 {
        let table = Arc::new(MemoryTable::<People>::default());
        assert_eq!(store.attach::<People>(table), Err(newer.clone()));
        let packed = Arc::new(PackedTable::<People, Person>::new(|_, person| person));
        assert_eq!(store.attach_packed_table(packed), Err(newer.clone()));
        let listed = store.read(|txn| txn.scan_from::<People>(None, 9).map(drop));
        assert_eq!(listed, Err(newer.clone()));
        // The index entries of the record are unknown, so a change would leave stale ones.
        assert_eq!(put(&store, 2, person("Ystad", 1)), Err(newer.clone()));
        store.0.core.memtable.drain().unwrap();
        assert_eq!(store.verify().err(), Some(newer.clone()));
    }
    put(&store, 1, person("Ystad", 1)).unwrap();
}

#[test]
fn a_transaction_sees_its_own_changes_in_order() {
    let store = Store::in_memory(schema());
    for key in [1, 3, 5] {
        put(&store, key, person("Lund", 30)).unwrap();
    }
    let seen: Result<_, StoreError> = store
        .write(Durability::Durable, |txn| {
            txn.put::<People>(&2, &person("Lund", 2))?;
            txn.delete::<People>(&3)?;
            txn.put::<People>(&5, &person("Ystad", 5))?;
            let keys: Vec<_> = txn
                .scan::<People>(&All, 9)?
                .into_iter()
                .map(|(key, _)| key)
                .collect();
            let towns = txn.scan_index::<ByTown>(&"Lund".to_owned(), 9)?;
            Ok((
                keys,
                towns.into_iter().map(|(_, key)| key).collect::<Vec<_>>(),
            ))
        })
        .wait();
    assert_eq!(seen, Ok((vec![1, 2, 5], vec![2, 1])));
}

#[test]
fn unusable_directory_is_named_in_the_error() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a-file");
    fs::write(&file, "").unwrap();
    let Err(error) = Store::open(&file, schema(), Options::default()) else {
        panic!("a file is no data directory");
    };
    assert!(error.to_string().contains("a-file"), "{error}");
}
