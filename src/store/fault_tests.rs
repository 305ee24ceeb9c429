//! Tests of faults while the store is in use: what must continue and what must end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{fs, io, thread};

use parking_lot::Mutex;

use super::engine::{Engine, Scan};
use super::handle::Inner;
use super::shared::Shared;
use super::tests::{ByTown, People, Person, all, assert_sound, person, put, schema};
use super::wal::CommitLog;
use super::write_batch::{BatchPart, WriteBatch};
use super::*;
use crate::history::CommitId;
use crate::layout::StoreLayout;
use playgate_process::data_file::at;

/// How long a test waits for an answer that a fault could delay for ever.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// An engine whose scan blocks once in the middle until it is released.
struct Gated {
    engine: Arc<dyn Engine>,
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

/// Number of pairs of a tree that are read before the gate.
const BEFORE_GATE: usize = 20;

impl Engine for Gated {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.engine.get(tree, key)
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        let pairs = self.engine.scan(tree, from, to).enumerate();
        Box::new(pairs.map(|(nth, pair)| {
            if nth == BEFORE_GATE
                && let Some((entered, released)) = self.gate.lock().take()
            {
                entered.send(()).unwrap();
                released.recv().unwrap();
            }
            pair
        }))
    }

    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
        self.engine.apply_part(commit, part)
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        self.engine.applied()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.engine.sync()
    }
}

/// Makes the next long scan of a store block. Returns a channel that reports this and one that
/// releases it.
fn gate(store: &Store) -> (Receiver<()>, Sender<()>) {
    let core = &store.0.core;
    core.memtable.drain().unwrap();
    let (entered, waits) = channel();
    let (release, released) = channel();
    let gated = Gated {
        engine: core.engine(),
        gate: Mutex::new(Some((entered, released))),
    };
    core.replace_engine(Arc::new(gated), true);
    (waits, release)
}

fn open(directory: &Path) -> Store {
    Store::open(directory, schema(), Options::default()).unwrap()
}

/// Creates a store with 50 people, 20 of them in the snapshot.
fn filled(directory: &Path) -> Store {
    let store = open(directory);
    for key in 0..50 {
        put(&store, key, person("Lund", 30)).unwrap();
        if key == 20 {
            store.write_snapshot().unwrap();
        }
    }
    store
}

/// Commits changes while another operation is blocked: before the gate, after it and at the end.
/// Fails if one is not answered.
fn change_while_blocked(store: &Store) {
    let (answered, answers) = channel();
    let store = store.clone();
    thread::spawn(move || {
        for key in [3, 40, 60] {
            put(&store, key, person("Ystad", 31)).unwrap();
        }
        for key in [5, 45] {
            let gone: Result<(), StoreError> = store
                .write(Durability::Durable, move |txn| txn.delete::<People>(&key))
                .wait();
            gone.unwrap();
        }
        // The engine must have the changes before the scan continues.
        store.0.core.memtable.drain().unwrap();
        answered.send(()).unwrap();
    });
    let answer = answers.recv_timeout(MAX_WAIT);
    assert_eq!(
        answer,
        Ok(()),
        "commits are answered while the scan is blocked"
    );
}

fn after_changes() -> BTreeMap<u32, Person> {
    let mut people: BTreeMap<_, _> = (0..50).map(|key| (key, person("Lund", 30))).collect();
    people.extend([3, 40, 60].map(|key| (key, person("Ystad", 31))));
    people.retain(|key, _| ![5, 45].contains(key));
    people
}

#[test]
fn commits_are_answered_while_verification_is_held_in_the_middle() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let (waits, release) = gate(&store);
    let verifying = {
        let store = store.clone();
        thread::spawn(move || store.verify().unwrap())
    };
    waits.recv_timeout(MAX_WAIT).unwrap();
    change_while_blocked(&store);
    release.send(()).unwrap();
    let Verified {
        tables,
        durable_state: state,
    } = verifying.join().unwrap();
    // Changes made during the comparison are not reported as damage.
    assert!(tables.iter().all(TableReport::is_sound), "{tables:?}");
    assert!(
        state.as_ref().is_some_and(DurableStateReport::is_sound),
        "{state:?}"
    );
    assert_eq!(tables[0].records, 50);
    assert_eq!(all(&store), after_changes());
    assert_sound(&store);
}

/// The control: damage is found in spite of concurrent changes.
#[test]
fn damage_is_found_while_commits_continue() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let (waits, release) = gate(&store);
    let core = &store.0.core;
    let mut damage = WriteBatch::default();
    damage.set(People::NAME, 7_u32.to_bytes(), None);
    damage.set(People::NAME, 8_u32.to_bytes(), Some(b"nonsense".to_vec()));
    damage.set(ByTown::NAME, b"stale".to_vec(), Some(Vec::new()));
    core.engine()
        .apply(core.engine().applied().unwrap(), &damage)
        .unwrap();
    let verifying = {
        let store = store.clone();
        thread::spawn(move || store.verify().unwrap())
    };
    waits.recv_timeout(MAX_WAIT).unwrap();
    change_while_blocked(&store);
    release.send(()).unwrap();
    let Verified {
        tables,
        durable_state: state,
    } = verifying.join().unwrap();
    let state = state.unwrap();
    assert_eq!(state.missing.some, ["people:00000007", "people:00000008"]);
    assert_eq!((state.missing.count, state.extra.count), (2, 1));
    let report = &tables[0];
    assert_eq!(report.damaged.some, ["people:00000008"]);
    // Stale are the entries of the two records and one entry without a record.
    assert_eq!((report.missing.count, report.stale.count), (0, 3));
}

#[test]
fn indexes_are_repaired_while_commits_continue() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let core = &store.0.core;
    core.memtable.drain().unwrap();
    let mut damage = WriteBatch::default();
    let mut entry = ("Lund".to_owned(), 30_u8).to_bytes();
    entry.extend(9_u32.to_bytes());
    damage.set(ByTown::NAME, entry, None);
    damage.set(ByTown::NAME, b"stale".to_vec(), Some(Vec::new()));
    core.engine()
        .apply(core.engine().applied().unwrap(), &damage)
        .unwrap();
    let (waits, release) = gate(&store);
    let mending = {
        let store = store.clone();
        thread::spawn(move || store.rebuild().unwrap())
    };
    waits.recv_timeout(MAX_WAIT).unwrap();
    change_while_blocked(&store);
    release.send(()).unwrap();
    let report = mending.join().unwrap().remove(0);
    assert_eq!((report.missing.count, report.stale.count), (1, 1));
    let report = store.verify().unwrap().tables.remove(0);
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(all(&store), after_changes());
}

#[test]
fn commits_are_answered_while_a_snapshot_of_the_engine_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let (waits, release) = gate(&store);
    let renewing = {
        let store = store.clone();
        thread::spawn(move || {
            let Inner { core, inbox, .. } = &*store.0;
            super::maintenance::new_snapshot::from_running_engine(core, inbox, 0).unwrap()
        })
    };
    waits.recv_timeout(MAX_WAIT).unwrap();
    change_while_blocked(&store);
    release.send(()).unwrap();
    let snapshot = renewing.join().unwrap();
    assert_sound(&store);
    let last = put(&store, 70, person("Lund", 1));
    last.unwrap();
    drop(store);
    // The store is rebuilt from the new snapshot and later commits.
    let place = StoreLayout::new(directory.path(), true);
    let path = place
        .snapshots()
        .join(format!("{:020}.snapshot", snapshot.number));
    check_snapshot(&path, &schema()).unwrap();
    assert_eq!(fs::read_dir(place.snapshots()).unwrap().count(), 1);
    fs::remove_dir_all(place.engines().unwrap().0.unwrap().path).unwrap();
    let mut people = after_changes();
    people.insert(70, person("Lund", 1));
    assert_eq!(all(&open(directory.path())), people);
}

struct Panicking;

impl CommitListener<People> for Panicking {
    fn apply(&self, changes: Vec<Changed<People>>) {
        assert!(changes.iter().all(|changed| changed.key != 13), "a defect");
    }
}

#[test]
fn panic_of_a_commit_listener_fails_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&reported);
    let options = Options {
        on_failure: Arc::new(move |error| heard.lock().push(error.to_string())),
        ..Options::default()
    };
    let store = Store::open(directory.path(), schema(), options).unwrap();
    store.attach::<People>(Arc::new(Panicking)).unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    assert_eq!(put(&store, 13, person("Lund", 30)), Err(StoreError::Closed));
    // All further writes are rejected, and the watchdog probe fails.
    while put(&store, 2, person("Lund", 30)) != Err(StoreError::Closed) {
        thread::yield_now();
    }
    assert_eq!(store.probe().wait(), Err(StoreError::Closed));
    drop(store);
    let reported = reported.lock();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].contains("store-writer panicked: a defect"),
        "{reported:?}"
    );
    // A commit that was in the WAL at the time of the panic may exist. An answered one must exist.
    let store = open(directory.path());
    assert_eq!(all(&store).get(&1), Some(&person("Lund", 30)));
    assert_sound(&store);
}

struct PanickingEngine(engine::MemoryEngine);

impl Engine for PanickingEngine {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(tree, key)
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        self.0.scan(tree, from, to)
    }

    fn apply_part(&self, _: CommitId, _: &BatchPart<'_>) -> Result<(), StoreError> {
        panic!("a defect");
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        self.0.applied()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.0.sync()
    }
}

fn listening() -> (OnFailure, Receiver<String>) {
    let (report, reported) = channel();
    let report = Mutex::new(report);
    let on_failure = move |error: &StoreError| report.lock().send(error.to_string()).unwrap();
    (Arc::new(on_failure), reported)
}

/// A failed store rejects all writes, and its watchdog probe fails so that the process is ended.
fn assert_store_failed(store: &Store, reported: &Receiver<String>, thread: &str) {
    let said = reported.recv_timeout(MAX_WAIT).unwrap();
    let expected = format!("the thread {thread} panicked: a defect");
    assert!(said.contains(&expected), "{said}");
    // The writes exceed the memtable: a writer that waits for the dead thread would hang here.
    for key in 0..8 {
        let large = person(&"x".repeat(1_000_000), 1);
        let refused = put(store, 100 + key, large);
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
    }
    let probed = store.probe().wait();
    assert!(matches!(probed, Err(StoreError::Failed(_))), "{probed:?}");
    assert_eq!(reported.try_recv().ok(), None, "reported once");
}

#[test]
fn panic_while_commits_are_applied_fails_the_store() {
    let (on_failure, reported) = listening();
    let engine = Arc::new(PanickingEngine(engine::MemoryEngine::default()));
    let core = Shared::new(Tables::clone(&schema()), engine, on_failure, true, None);
    let (store, messages) = Store::new(core, Arc::new(|| 0), None);
    let log = Box::new(wal::NoLog);
    store.start(log, 0, None, messages).unwrap();
    put(&store, 1, person("Lund", 30)).unwrap();
    assert_eq!(store.0.core.memtable.drain(), Err(StoreError::Closed));
    assert_store_failed(&store, &reported, "store-apply");
}

#[test]
fn panic_of_the_snapshot_thread_fails_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let (on_failure, reported) = listening();
    let keeps = || thread::current().name() == Some("store-keeper");
    let options = Options {
        on_failure,
        // Only the maintenance thread calls the clock, at its first tick.
        clock: Arc::new(move || if keeps() { panic!("a defect") } else { 0 }),
        ..Options::default()
    };
    let store = Store::open(directory.path(), schema(), options).unwrap();
    assert_store_failed(&store, &reported, "store-keeper");
}

/// A log whose next call fails with a given error.
struct Failing {
    error: Option<StoreError>,
    log: Box<dyn CommitLog>,
}

impl CommitLog for Failing {
    fn append(&mut self, number: u64, payload: &[u8]) -> Result<(), StoreError> {
        self.error.take().map_or(Ok(()), Err)?;
        self.log.append(number, payload)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.log.sync()
    }

    fn roll(&mut self) -> Result<(), StoreError> {
        self.error.take().map_or(Ok(()), Err)?;
        self.log.roll()
    }
}

fn fail_once(store: &Store, error: StoreError) {
    store
        .run_exclusive(move |writer| {
            let log = std::mem::replace(&mut writer.log, Box::new(super::wal::NoLog));
            let error = Some(error);
            writer.log = Box::new(Failing { error, log });
            Ok(())
        })
        .unwrap();
}

#[test]
fn lack_of_space_or_descriptors_rejects_writes_and_does_not_end_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    for errno in [28, 122, 23, 24] {
        let error = io::Error::from_raw_os_error(errno);
        let error = StoreError::from(at("make", Path::new("log/1"))(error));
        for roll in [false, true] {
            fail_once(&store, error.clone());
            if roll {
                assert_eq!(store.write_snapshot(), Err(error.clone()));
            }
            let refused = put(&store, 60, person("Lund", 30));
            assert_eq!(refused.is_err(), !roll, "{refused:?}");
            put(&store, 61, person("Lund", 30)).unwrap();
        }
    }
    assert_sound(&store);
}

#[test]
fn store_that_opened_its_engine_but_no_wal_accepts_writes_when_space_returns() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let store = open(directory.path());
    store
        .run_exclusive(|writer| {
            let engine = writer.core.engine();
            drop(writer.core.replace_engine(engine, false));
            writer.log = Box::new(super::wal::FullLog);
            Ok(())
        })
        .unwrap();
    let refused = put(&store, 60, person("Lund", 30));
    assert_eq!(refused.unwrap_err(), StoreError::Full);
    // The maintenance thread makes an attempt every two seconds.
    let attempts = MAX_WAIT.as_millis() / 50;
    let accepted = (0..attempts).any(|_| {
        thread::park_timeout(Duration::from_millis(50));
        put(&store, 60, person("Lund", 30)).is_ok()
    });
    assert!(accepted, "{:?}", put(&store, 60, person("Lund", 30)));
    assert_sound(&store);
    drop(store);
    assert_eq!(all(&open(directory.path())).len(), 51);
}

#[test]
fn failed_sync_ends_the_store_wherever_it_happens() {
    for roll in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let store = filled(directory.path());
        fail_once(&store, StoreError::NotSynced("no space left".to_owned()));
        if roll {
            store.write_snapshot().unwrap_err();
        } else {
            put(&store, 60, person("Lund", 30)).unwrap_err();
        }
        for _ in 0..2 {
            let refused = put(&store, 61, person("Lund", 30));
            assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
        }
        drop(store);
        assert_eq!(all(&open(directory.path())).len(), 50);
    }
}

#[test]
fn work_without_enough_space_is_rejected_with_the_required_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("not/there/yet");
    super::disk_space::require_free(&deep, 0).unwrap();
    let refused = super::disk_space::require_free(&deep, 1 << 60).unwrap_err();
    let StoreError::NoRoom { needed, free, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert!(*needed > 1 << 60 && free < needed);
    let text = refused.to_string();
    for part in ["not/there/yet has ", " MiB free, about 1099511"] {
        assert!(text.contains(part), "{text}");
    }
}
