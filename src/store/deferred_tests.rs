//! Tests of stores that are used before their engine is verified or rebuilt.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::engine::{Engine as _, tamper};
use super::tests::{ByTown, People, Person, all, assert_sound, copy_tree, person, put, schema};
use super::*;
use crate::engine::SledEngine;
use crate::history::CommitId;
use crate::layout::StoreLayout;
use crate::maintenance::checkpoint::checkpoint;
use crate::recovery::deferred::{DeferredEngine, FoundEngine, Preparation};
use crate::snapshot::durable_reader::DurableReader;
use crate::snapshot::format::Snapshot;
use crate::wal::{Expected, Survey};
use parking_lot::Mutex;

/// Opens without waiting for the engine.
fn open_at_once(directory: &Path) -> Result<Store, StoreError> {
    let options = Options {
        engine_timeout: Duration::ZERO,
        ..Options::default()
    };
    Store::open(directory, schema(), options)
}

fn engine(directory: &Path) -> std::path::PathBuf {
    let place = StoreLayout::new(directory, true);
    place.engines().unwrap().0.unwrap().path
}

fn delete(store: &Store, key: u32) {
    store
        .write(Durability::Logged, move |txn| txn.delete::<People>(&key))
        .wait()
        .unwrap_or_else(|error: StoreError| panic!("{error}"));
}

/// Creates a store with records in its snapshot, and others that the WAL has added, changed and
/// deleted.
fn filled(directory: &Path, count: u32) -> BTreeMap<u32, Person> {
    let options = Options {
        sync: false,
        ..Options::default()
    };
    let store = Store::open(directory, schema(), options).unwrap();
    for key in 0..count {
        put(&store, key, person(&"x".repeat(300), 30)).unwrap();
    }
    store.write_snapshot().unwrap();
    for key in (0..count).step_by(3) {
        put(&store, key, person("Ystad", 31)).unwrap();
    }
    for key in (0..count).step_by(5) {
        delete(&store, key);
    }
    put(&store, count, person("Lund", 1)).unwrap();
    all(&store)
}

/// Without the report, commits would pile up until the writer waits for ever.
#[test]
fn panic_of_the_verifying_thread_is_reported_and_ends_the_wait() {
    let stand_in = DurableReader::open(None, &[], 0, &schema()).unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&reported);
    let on_failure: OnFailure = Arc::new(move |error| heard.lock().push(error.clone()));
    let make = |_: &_| panic!("a defect");
    let max_wait = Duration::from_secs(30);
    let engine = DeferredEngine::start(make, on_failure, stand_in, max_wait).unwrap();
    let why = "the thread store-engine panicked: a defect";
    let failed = StoreError::Failed(why.to_owned());
    assert_eq!(engine.wait_until_ready(), Err(failed.clone()));
    assert_eq!(
        engine.apply(CommitId::default(), &write_batch::WriteBatch::default()),
        Err(failed.clone())
    );
    assert_eq!(*reported.lock(), [failed]);
}

fn indexed(store: &Store) -> usize {
    let found = store.read(|txn| txn.scan_index::<ByTown>(&"Ystad".to_owned(), usize::MAX));
    found.unwrap().len()
}

/// Reads and writes give the same results in every state of the engine, and while it becomes ready.
#[test]
fn store_is_usable_while_its_engine_is_verified_or_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let mut model = filled(directory.path(), 1_500);
    let path = directory.path();
    let damages: [&dyn Fn(); 4] = [
        &|| {},
        &|| fs::remove_dir_all(engine(path)).unwrap(),
        &|| tamper(&engine(path), People::NAME, &1_u32.to_bytes(), None),
        &|| fs::write(engine(path).join("db"), [0xFF; 65_536]).unwrap(),
    ];
    for (round, damage) in (0..).zip(damages) {
        damage();
        let store = open_at_once(path).unwrap();
        let table = Arc::new(MemoryTable::<People>::default());
        store.attach::<People>(table.clone()).unwrap();
        assert_eq!(table.len(), model.len(), "round {round}");
        let ystad = indexed(&store);
        put(&store, 10_000 + round, person("Ystad", 7)).unwrap();
        put(&store, 1, person("Malmo", 8)).unwrap();
        delete(&store, 1_500);
        model.insert(10_000 + round, person("Ystad", 7));
        model.insert(1, person("Malmo", 8));
        model.remove(&1_500);
        assert_eq!(all(&store), model, "round {round}");
        assert_eq!(indexed(&store), ystad + 1);
        store.write_snapshot().unwrap();
        store.checkpoint().unwrap();
        assert_sound(&store);
        assert_eq!(all(&store), model, "round {round}");
        let records: BTreeMap<u32, Person> = {
            let mut records = BTreeMap::new();
            table.for_each(|key, record| {
                records.insert(*key, (**record).clone());
            });
            records
        };
        assert_eq!(records, model, "round {round}");
    }
}

/// Commits that the engine could not apply yet are in the WAL.
#[test]
fn closing_before_the_engine_is_ready_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut model = filled(directory.path(), 1_500);
    for round in 0..3 {
        // In a later round there may be no engine, if the previous round ended before it was built.
        let place = StoreLayout::new(directory.path(), true);
        if let Some(engine) = place.engines().unwrap().0 {
            fs::remove_dir_all(engine.path).unwrap();
        }
        let store = open_at_once(directory.path()).unwrap();
        put(&store, 20_000 + round, person("Lund", 9)).unwrap();
        model.insert(20_000 + round, person("Lund", 9));
        drop(store);
    }
    let store = open_at_once(directory.path()).unwrap();
    assert_eq!(all(&store), model);
    assert_sound(&store);
}

/// The snapshot is damaged and cannot replace the engine, so the engine is verified first.
#[test]
fn store_with_a_damaged_snapshot_opens_with_its_engine() {
    let directory = tempfile::tempdir().unwrap();
    let model = filled(directory.path(), 1_500);
    let snapshot = StoreLayout::new(directory.path(), true).snapshots();
    let snapshot = fs::read_dir(snapshot)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let sound = fs::read(&snapshot).unwrap();
    for at in [60, sound.len() / 2, sound.len() - 60] {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(directory.path(), copy.path());
        let mut bytes = sound.clone();
        bytes[at] ^= 16;
        let name = snapshot.file_name().unwrap();
        fs::write(
            StoreLayout::new(copy.path(), true).snapshots().join(name),
            bytes,
        )
        .unwrap();
        let store = open_at_once(copy.path()).unwrap();
        assert_eq!(all(&store), model, "byte {at}");
    }
}

/// Returns the content of a memory table that was filled from snapshot and WAL.
fn replayed(reader: &DurableReader, tree: &'static str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    let replayed = reader.replay_tree(tree, &mut |changes| {
        for (key, value) in changes {
            match value {
                Some(value) => pairs.insert(key.to_vec(), value.to_vec()),
                None => pairs.remove(key),
            };
        }
    });
    replayed.unwrap();
    pairs
}

/// After a power cut sled's snapshot file can disagree with its log: the engine opens, and its verification fails. Without
/// that file, the engine opens in an older state that is intact and ends before the WAL begins.
#[test]
fn engine_whose_second_opening_shows_an_older_state_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let (older, damaged) = (
        directory.path().join("older"),
        directory.path().join("damaged"),
    );
    let data = directory.path().join("data");
    let layout = StoreLayout::new(&data, true);
    let fill = |keys: Range<u32>| {
        let store = Store::open(&data, schema(), Options::default()).unwrap();
        for key in keys {
            put(&store, key, person("Lund", 30)).unwrap();
        }
        store
    };
    drop(fill(0..10));
    copy_tree(&engine(&data), &older);
    let store = fill(10..40);
    store.write_snapshot().unwrap();
    // The checkpoint retires the segments that the snapshot covers.
    checkpoint(&store.0.core).unwrap();
    put(&store, 40, person("Lund", 30)).unwrap();
    drop(store);
    copy_tree(&engine(&data), &damaged);
    tamper(&damaged, People::NAME, &1_u32.to_bytes(), None);
    let current = layout.engines().unwrap().0.unwrap();
    fs::remove_dir_all(&current.path).unwrap();
    copy_tree(&older, &current.path);
    fs::write(
        current.path.join("snap.0000000000000001"),
        "of another state",
    )
    .unwrap();

    let identity = layout.identity().unwrap();
    let survey = Survey::read_directory(&layout.log(), &Expected::default()).unwrap();
    let oldest = survey.segments.first().unwrap().first - 1;
    assert!(
        oldest >= 40,
        "the WAL has the commits that the older engine lacks"
    );
    let path = fs::read_dir(layout.snapshots())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max();
    let preparation = Preparation {
        layout: layout.clone(),
        schema: Tables::clone(&schema()),
        on_failure: Arc::new(|_| {}),
        snapshot: Some(Snapshot::open(&path.unwrap(), &schema()).unwrap()),
        number: survey.last(),
        segments: survey.segments,
        oldest,
        lineage: identity.lineage,
        from: String::new(),
        rebuilt_from: Arc::default(),
    };
    let damaged = SledEngine::open(&damaged, &schema(), true).unwrap();
    let found = FoundEngine::Unverified(Box::new(damaged), current);
    let made = preparation.run(found, &Arc::default()).unwrap();
    assert_eq!(made.scan(People::NAME, &[], None).count(), 41);
}

/// The log is read again whenever a tree is read. A frame that was lost in between must not look like a missing record.
#[test]
fn log_that_is_damaged_after_the_start_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), schema(), Options::default()).unwrap();
    for key in 0..50 {
        put(&store, key, person(&"x".repeat(300), 30)).unwrap();
    }
    drop(store);
    let segments = StoreLayout::new(directory.path(), true).log();
    let survey = Survey::read_directory(&segments, &Expected::default()).unwrap();
    let open = || DurableReader::open(None, &survey.segments, survey.last(), &schema()).unwrap();
    let people = People::NAME;
    assert_eq!(replayed(&open(), people).len(), 50);
    let reader = Arc::new(open());
    let path = &survey.segments[0].path;
    let mut bytes = fs::read(path).unwrap();
    bytes[1_000] ^= 16;
    fs::write(path, bytes).unwrap();
    let damaged = |result: Result<(), StoreError>| {
        assert!(
            matches!(result, Err(StoreError::Damaged { .. })),
            "{result:?}"
        );
    };
    damaged(reader.replay_tree(people, &mut |_| {}));
    damaged(reader.get(people, b"nobody").map(drop));
    damaged(reader.scan(people, &[], None).map(drop));
}

#[derive(Debug, Clone)]
enum Act {
    Put(u8, u16),
    Delete(u8),
    Renew,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => (any::<u8>(), 0..1_500_u16).prop_map(|(key, length)| Act::Put(key, length)),
        5 => any::<u8>().prop_map(Act::Delete),
        1 => Just(Act::Renew),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reads_of_snapshot_and_wal_equal_those_of_the_engine(
        acts in prop::collection::vec(act(), 1..120),
        bounds in prop::collection::vec((any::<u8>(), any::<u8>()), 8),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { sync: false, ..Options::default() };
        let store = Store::open(directory.path(), schema(), options).unwrap();
        for act in acts {
            match act {
                Act::Put(key, length) => {
                    let town = "y".repeat(usize::from(length));
                    put(&store, u32::from(key), person(&town, key)).unwrap();
                }
                Act::Delete(key) => delete(&store, u32::from(key)),
                Act::Renew => {
                    store.write_snapshot().unwrap();
                }
            }
        }
        store.0.core.memtable.drain().unwrap();
        let engine = store.0.core.engine();
        let disk = store.0.core.disk.as_ref().unwrap();
        let snapshot = disk.snapshot.lock().clone().map(|snapshot| disk.snapshot_path(snapshot.number));
        let segments = disk.segments.read().all();
        let number = store.run_exclusive(|writer| Ok(writer.number)).unwrap();
        let reader = DurableReader::open(snapshot.as_deref(), &segments, number, &schema()).unwrap();
        let reader = Arc::new(reader);
        for tree in schema().trees() {
            let whole: Vec<_> = engine.scan(tree, &[], None).map(Result::unwrap).collect();
            let read: Vec<_> = reader.scan(tree, &[], None).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(&read, &whole);
            prop_assert_eq!(replayed(&reader, tree), whole.iter().cloned().collect());
            for (from, to) in &bounds {
                let (from, to) = (from.min(to), from.max(to));
                let [from, to] = [from, to].map(|key| u32::from(*key).to_be_bytes());
                let within = |key: &Vec<u8>| *key >= from.to_vec() && *key < to.to_vec();
                let read: Vec<_> = reader
                    .scan(tree, &from, Some(&to))
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                let known: Vec<_> = whole.iter().filter(|(key, _)| within(key)).cloned().collect();
                prop_assert_eq!(read, known);
                prop_assert_eq!(reader.get(tree, &from).unwrap(), engine.get(tree, &from).unwrap());
            }
        }
    }
}
