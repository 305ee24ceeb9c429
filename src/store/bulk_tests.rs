//! Tests of large batches, which are applied to the engine in parts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::engine::{Engine as _, SledEngine};
use super::tests::{People, Person, all, assert_sound, copy_tree, person, put, schema};
use super::write_batch::{PART_CHANGES, WriteBatch};
use super::*;
use crate::history::CommitId;
use crate::layout::StoreLayout;

const BEFORE: u32 = 10;
const IMPORTED: u32 = 2_600;

fn open(directory: &Path) -> Store {
    Store::open(directory, schema(), Options::default()).unwrap()
}

fn engine(directory: &Path) -> PathBuf {
    let place = StoreLayout::new(directory, true);
    place.engines().unwrap().0.unwrap().path
}

fn people() -> BTreeMap<u32, Person> {
    // The import changes the first records and adds the others.
    (0..IMPORTED).map(|key| (key, person("Ystad", 3))).collect()
}

fn import(store: &Store) {
    let _bulk = store.bulk_writes();
    store
        .write(Durability::Durable, |txn| {
            people()
                .iter()
                .try_for_each(|(key, person)| txn.put::<People>(key, person))
        })
        .wait()
        .unwrap_or_else(|error: StoreError| panic!("{error}"));
}

/// A store before and after a large commit, and the batch that the engine gets for it.
struct Fixture {
    _folder: tempfile::TempDir,
    before: PathBuf,
    after: PathBuf,
    commit: CommitId,
    batch: WriteBatch,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let store = open(&after);
    for key in 0..BEFORE {
        put(&store, key, person("Lund", 30)).unwrap();
    }
    drop(store);
    copy_tree(&after, &before);
    let store = open(&after);
    import(&store);
    let disk = store.0.core.disk.as_ref().unwrap();
    let commit = disk.identity.lineage.commit(u64::from(BEFORE) + 1);
    // The batch has the changes of this commit without those of earlier commits.
    let mut batch = WriteBatch::default();
    store.0.core.memtable.drain().unwrap();
    for tree in schema().trees() {
        for pair in store.0.core.engine().scan(tree, &[], None) {
            let (key, value) = pair.unwrap();
            batch.set(tree, key, Some(value));
        }
    }
    let old = open_engine(&engine(&before));
    for tree in schema().trees() {
        for pair in old.scan(tree, &[], None) {
            let (key, value) = pair.unwrap();
            match batch.get(tree, &key) {
                None => batch.set(tree, key, None),
                Some(new) => assert_ne!(new.as_ref(), Some(&value)),
            }
        }
    }
    Fixture {
        _folder: folder,
        before,
        after,
        commit,
        batch,
    }
}

fn open_engine(path: &Path) -> SledEngine {
    SledEngine::open(path, &schema(), true).unwrap()
}

impl Fixture {
    /// Returns a copy of a store whose engine has only the first parts of the commit, as after a kill.
    fn killed_after(&self, store: &Path, parts: usize) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(store, copy.path());
        let path = engine(copy.path());
        fs::remove_dir_all(&path).unwrap();
        copy_tree(&engine(&self.before), &path);
        let engine = open_engine(&path);
        for part in self.batch.parts().take(parts) {
            engine.apply_part(self.commit, &part).unwrap();
        }
        engine.sync().unwrap();
        copy
    }
}

fn is_rebuilt(directory: &Path) -> bool {
    let aside = StoreLayout::new(directory, true).aside();
    fs::read_dir(aside).is_ok_and(|mut kept| kept.next().is_some())
}

#[test]
fn kill_between_the_parts_of_a_batch_loses_nothing() {
    let fixture = fixture();
    let parts = fixture.batch.parts().count();
    assert!(parts > 3, "{parts}");
    for killed_after in 0..=parts {
        let copy = fixture.killed_after(&fixture.after, killed_after);
        let store = open(copy.path());
        assert_eq!(all(&store), people(), "{killed_after}");
        store.0.core.engine().wait_until_ready().unwrap();
        assert_sound(&store);
        drop(store);
        // The applied parts do not count as damage.
        assert!(!is_rebuilt(copy.path()), "{killed_after}");
    }
}

/// The log has lost the commit, like an unsynced one in a power cut, and reuses its number.
#[test]
fn engine_with_parts_of_a_commit_that_the_log_lacks_is_rebuilt() {
    let fixture = fixture();
    for parts in 1..fixture.batch.parts().count() {
        let copy = fixture.killed_after(&fixture.before, parts);
        let store = open(copy.path());
        put(&store, 0, person("Malmö", 4)).unwrap();
        let mut expected: BTreeMap<_, _> = (0..BEFORE).map(|k| (k, person("Lund", 30))).collect();
        expected.insert(0, person("Malmö", 4));
        store.0.core.engine().wait_until_ready().unwrap();
        assert_eq!(all(&store), expected, "{parts}");
        assert_sound(&store);
        drop(store);
        assert!(is_rebuilt(copy.path()));
        assert_eq!(all(&open(copy.path())), expected, "{parts}");
    }
}

/// The log can reach the number of the lost commit before the engine is rebuilt.
#[test]
fn engine_with_parts_of_a_lost_commit_is_marked_at_once() {
    let fixture = fixture();
    let copy = fixture.killed_after(&fixture.before, 1);
    let options = Options {
        engine_timeout: std::time::Duration::ZERO,
        ..Options::default()
    };
    let first = engine(copy.path());
    let store = Store::open(copy.path(), schema(), options).unwrap();
    // The rebuild moves the directory aside with its mark.
    store.0.core.engine().wait_until_ready().unwrap();
    drop(store);
    let aside = StoreLayout::new(copy.path(), true).aside();
    let kept = fs::read_dir(aside).unwrap().next().unwrap().unwrap().path();
    assert_ne!(kept, first);
    assert!(kept.join("suspect").exists());
}

#[test]
fn parts_have_every_change_once_and_in_order() {
    let mut batch = WriteBatch::default();
    let parts = |batch: &WriteBatch| -> Vec<(usize, bool)> {
        let parts = batch.parts();
        parts.map(|p| (p.changes.len(), p.is_last)).collect()
    };
    assert_eq!(parts(&batch), [(0, true)]);
    let changes = 2 * PART_CHANGES + PART_CHANGES / 2;
    for key in 0..changes {
        let tree = if key % 5 == 0 { "a" } else { "b" };
        batch.set(
            tree,
            key.to_be_bytes().to_vec(),
            (key % 2 == 0).then(Vec::new),
        );
    }
    let whole = (PART_CHANGES, false);
    assert_eq!(parts(&batch), [whole, whole, (PART_CHANGES / 2, true)]);
    let flat: Vec<_> = batch.parts().flat_map(|part| part.changes).collect();
    assert!(flat.is_sorted_by_key(|(tree, key, _)| (*tree, *key)));
    assert_eq!(flat.len(), changes);
}
