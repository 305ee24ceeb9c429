//! Tests that lost commits are detected: damage at the end of the WAL, and mixed-up histories.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::tests::{Person, all, assert_sound, copy_tree, person, put, schema};
use super::wal::{Expected, Survey};
use super::*;
use crate::layout::{Identity, StoreLayout};

/// Number of commits at the time of the older copies, and in total.
const EARLY: u32 = 20;
const COUNT: u32 = 30;

fn options(backups: Option<&Path>) -> Options {
    Options {
        timeline: [6; 16],
        backups: backups.map(Path::to_owned),
        ..Options::default()
    }
}

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(directory, schema(), options(None))
}

fn numbered(count: u32) -> BTreeMap<u32, Person> {
    (0..count).map(|key| (key, person("Lund", 30))).collect()
}

fn fill(store: &Store, keys: std::ops::Range<u32>) {
    for key in keys {
        put(store, key, person("Lund", 30)).unwrap();
    }
}

fn sled(directory: &Path) -> PathBuf {
    let place = StoreLayout::new(directory, true);
    place.engines().unwrap().0.unwrap().path
}

fn last_segment(directory: &Path) -> PathBuf {
    let log = StoreLayout::new(directory, true).log();
    let survey = Survey::read_directory(&log, &Expected::default()).unwrap();
    survey.segments.last().unwrap().path.clone()
}

/// Data directories after `kill -9`.
struct Killed {
    folder: tempfile::TempDir,
    /// The last segment after [`EARLY`] commits.
    older: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum EngineIs {
    Complete,
    /// The engine has only the first [`EARLY`] commits.
    Behind,
    Gone,
}

impl Killed {
    fn new(with_base: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let store = open(&live).unwrap();
        fill(&store, 0..10);
        if with_base {
            store.write_snapshot().unwrap();
        }
        fill(&store, 10..EARLY);
        store.0.core.memtable.drain().unwrap();
        store.checkpoint().unwrap();
        copy_tree(&sled(&live), &folder.path().join("sled"));
        let older = fs::read(last_segment(&live)).unwrap();
        fill(&store, EARLY..COUNT);
        store.0.core.memtable.drain().unwrap();
        store.0.core.engine().sync().unwrap();
        copy_tree(&live, &folder.path().join("killed"));
        Self { folder, older }
    }

    fn copy(&self, engine: EngineIs) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(&self.folder.path().join("killed"), copy.path());
        if engine != EngineIs::Complete {
            let sled = sled(copy.path());
            fs::remove_dir_all(&sled).unwrap();
            if engine == EngineIs::Behind {
                copy_tree(&self.folder.path().join("sled"), &sled);
            }
        }
        copy
    }
}

fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

fn zero_tail(path: &Path, count: usize) {
    let end = used(&fs::read(path).unwrap());
    let from = end.saturating_sub(count).max(64);
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&vec![0; end - from], from as u64)
        .unwrap();
}

type Damage = (&'static str, fn(&Killed, &Path));

/// Each damage removes acknowledged commits from the WAL and leaves a log that looks intact.
const DAMAGES: &[Damage] = &[
    ("zeroed 512", |_, data| zero_tail(&last_segment(data), 512)),
    ("zeroed 4096", |_, data| {
        zero_tail(&last_segment(data), 4_096);
    }),
    ("deleted", |_, data| {
        fs::remove_file(last_segment(data)).unwrap();
    }),
    ("emptied", |_, data| {
        File::create(last_segment(data)).unwrap();
    }),
    ("cut off", |_, data| {
        let path = last_segment(data);
        let end = used(&fs::read(&path).unwrap());
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(end as u64 - 200).unwrap();
    }),
    ("older", |killed, data| {
        fs::write(last_segment(data), &killed.older).unwrap();
    }),
    ("another", |killed, data| {
        // Frames with other numbers under the name of the last segment.
        let path = last_segment(data);
        let mut bytes = killed.older.clone();
        bytes[16..24].copy_from_slice(&7_777_u64.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        fs::write(path, bytes).unwrap();
    }),
    ("no log", |_, data| {
        fs::remove_dir_all(StoreLayout::new(data, true).log()).unwrap();
    }),
];

#[test]
fn loss_of_the_last_commits_is_detected() {
    for with_base in [true, false] {
        let killed = Killed::new(with_base);
        for engine in [EngineIs::Complete, EngineIs::Behind, EngineIs::Gone] {
            // With a usable engine the snapshot is not read.
            if !with_base && engine != EngineIs::Gone {
                continue;
            }
            let sound = killed.copy(engine);
            assert_eq!(all(&open(sound.path()).unwrap()), numbered(COUNT));
            for (name, damage) in DAMAGES {
                let case = format!("{name}, engine {engine:?}, base {with_base}");
                let copy = killed.copy(engine);
                damage(&killed, copy.path());
                match open(copy.path()) {
                    Ok(store) => {
                        assert_eq!(engine, EngineIs::Complete, "{case}: commits are gone");
                        assert_eq!(all(&store), numbered(COUNT), "{case}");
                        assert_sound(&store);
                        fill(&store, COUNT..COUNT + 1);
                        drop(store);
                        fs::remove_dir_all(sled(copy.path())).unwrap();
                        let again = open(copy.path()).unwrap();
                        assert_eq!(all(&again), numbered(COUNT + 1), "{case}");
                    }
                    Err(StoreError::Lost(why)) => {
                        assert_ne!(engine, EngineIs::Complete, "{case}: {why}");
                        accepting(copy.path(), &case);
                    }
                    Err(error) => panic!("{case}: {error}"),
                }
            }
        }
    }
}

/// Opens a store whose operator accepts the loss. The store has the remaining commits without gaps and records the
/// loss.
fn accepting(data: &Path, case: &str) {
    // Without the decision of an operator, every start fails.
    assert!(matches!(open(data), Err(StoreError::Lost(_))), "{case}");
    let accepted = Options {
        accept_loss: true,
        ..options(None)
    };
    let store = Store::open(data, schema(), accepted.clone()).unwrap();
    let loss = store.loss().unwrap();
    let kept = all(&store);
    let count = u32::try_from(kept.len()).unwrap();
    assert_eq!(kept, numbered(count), "{case}");
    assert_eq!(loss.kept, u64::from(count), "{case}");
    assert_eq!(loss.last, Some(u64::from(COUNT)), "{case}");
    assert_sound(&store);
    fill(&store, count..count + 3);
    drop(store);
    // The loss is reported once. Nothing is lost at the next start.
    let store = Store::open(data, schema(), accepted).unwrap();
    assert_eq!(store.loss(), None, "{case}");
    drop(store);
    fs::remove_dir_all(sled(data)).unwrap();
    let store = open(data).unwrap();
    assert_eq!(all(&store), numbered(count + 3), "{case}");
    assert_sound(&store);
}

/// The control: without the end record the same damage is not detected.
#[test]
fn without_the_end_record_the_loss_is_not_detected() {
    let killed = Killed::new(true);
    let mut passed = 0;
    for (name, damage) in DAMAGES {
        let copy = killed.copy(EngineIs::Behind);
        damage(&killed, copy.path());
        let place = StoreLayout::new(copy.path(), true);
        fs::remove_file(place.log_end()).unwrap();
        let identity = place.identity().unwrap();
        let before = Identity {
            begun: false,
            ..identity
        };
        place.write_identity(&before).unwrap();
        if let Ok(store) = open(copy.path()) {
            assert!(all(&store).len() < COUNT as usize, "{name}");
            passed += 1;
        }
    }
    assert!(passed >= 5, "only {passed} pass");
}

#[test]
fn existing_store_is_not_created_again() {
    let killed = Killed::new(false);
    let copy = killed.copy(EngineIs::Gone);
    let place = StoreLayout::new(copy.path(), true);
    fs::remove_dir_all(place.log()).unwrap();
    assert!(matches!(open(copy.path()), Err(StoreError::Lost(_))));
    fs::remove_file(place.log_end()).unwrap();
    let refused = open(copy.path()).err();
    assert!(matches!(refused, Some(StoreError::Lost(_))), "{refused:?}");
    let accepted = Options {
        accept_loss: true,
        ..options(None)
    };
    let store = Store::open(copy.path(), schema(), accepted).unwrap();
    assert_eq!(
        store.loss(),
        Some(Loss {
            kept: 0,
            last: None
        })
    );
    fill(&store, 0..2);
    drop(store);
    assert_eq!(all(&open(copy.path()).unwrap()), numbered(2));
}

/// A power cut may lose commits that were not synced, even if the end record has their number.
#[test]
fn only_synced_commits_are_required_after_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live");
    let store = open(&live).unwrap();
    fill(&store, 0..10);
    let synced = fs::read(last_segment(&live)).unwrap();
    for key in 10..13 {
        let written: Result<(), StoreError> = store
            .write(Durability::Logged, move |txn| {
                txn.put::<super::tests::People>(&key, &person("Lund", 30))
            })
            .wait();
        written.unwrap();
    }
    for other_boot in [false, true] {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(&live, copy.path());
        fs::write(last_segment(copy.path()), &synced).unwrap();
        fs::remove_dir_all(sled(copy.path())).unwrap();
        // Whether a sync happened in between depends on timing, so the record is changed to say that none did.
        let path = StoreLayout::new(copy.path(), true).log_end();
        let mut bytes = fs::read(&path).unwrap();
        for slot in bytes.chunks_mut(512) {
            slot[24..32].copy_from_slice(&10_u64.to_le_bytes());
            if other_boot {
                slot[64..80].fill(9);
            }
            let sum = crc32fast::hash(&slot[..80]);
            slot[80..84].copy_from_slice(&sum.to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        match open(copy.path()) {
            Ok(store) => {
                assert!(other_boot);
                assert_eq!(all(&store), numbered(10));
            }
            Err(error) => assert!(!other_boot, "{error}"),
        }
    }
}

/// Rewrites a store in the format of a version before timelines.
fn as_before_timelines(data: &Path) {
    let place = StoreLayout::new(data, true);
    let text = fs::read_to_string(place.store().join("identity")).unwrap();
    let body: String = text
        .lines()
        .take(3)
        .map(|line| format!("{line}\n"))
        .collect();
    let text = format!("{body}sum = {:08x}\n", crc32fast::hash(body.as_bytes()));
    for name in ["identity", "identity.copy"] {
        fs::write(place.store().join(name), &text).unwrap();
    }
    fs::remove_file(place.log_end()).unwrap();
    for entry in fs::read_dir(place.log()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let mut old = b"PGLOG\x00\x00\x01".to_vec();
        old.extend((bytes.len() as u64 - 48).to_le_bytes());
        old.extend(&bytes[64..]);
        fs::write(&path, old).unwrap();
    }
    for entry in fs::read_dir(place.snapshots()).into_iter().flatten() {
        let path = entry.unwrap().path();
        let head = super::snapshot::format::Snapshot::open(&path, &schema())
            .unwrap()
            .head()
            .clone();
        let old = SnapshotHead {
            history: History::default(),
            ..head
        };
        let copy = path.with_extension("copy");
        super::snapshot::format::copy(&path, &copy, &old, false).unwrap();
        fs::rename(&copy, &path).unwrap();
    }
}

#[test]
fn store_without_timelines_gets_one_and_loses_nothing() {
    for engine in [EngineIs::Complete, EngineIs::Behind, EngineIs::Gone] {
        let killed = Killed::new(true);
        let copy = killed.copy(engine);
        as_before_timelines(copy.path());
        let store = open(copy.path()).unwrap();
        assert_eq!(all(&store), numbered(COUNT), "{engine:?}");
        assert_sound(&store);
        fill(&store, COUNT..COUNT + 2);
        let backups = tempfile::tempdir().unwrap();
        let backup = store.back_up(backups.path()).unwrap();
        assert_ne!(backup.head.history, History::default());
        drop(store);
        fs::remove_dir_all(sled(copy.path())).unwrap();
        assert_eq!(all(&open(copy.path()).unwrap()), numbered(COUNT + 2));
    }
}

/// A data directory that was rolled back to 10 commits, while a backup has 20 of them.
struct RolledBack {
    data: tempfile::TempDir,
    backups: tempfile::TempDir,
    backup: BackupFile,
}

impl RolledBack {
    fn new() -> Self {
        let [data, backups, live] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let store = open(live.path()).unwrap();
        fill(&store, 0..10);
        drop(store);
        copy_tree(live.path(), data.path());
        let store = open(live.path()).unwrap();
        fill(&store, 10..20);
        let backup = store.back_up(backups.path()).unwrap();
        drop(store);
        Self {
            data,
            backups,
            backup,
        }
    }

    fn open(&self, with_backups: bool) -> Result<Store, StoreError> {
        let backups = with_backups.then(|| self.backups.path());
        Store::open(self.data.path(), schema(), options(backups))
    }

    /// Commits other data under the numbers of the backup, and more.
    fn go_on(&self, store: &Store) {
        for key in 100..115 {
            put(store, key, person("Ystad", 1)).unwrap();
        }
        // The roll makes all earlier segments superfluous.
        store.run_exclusive(|writer| writer.log.roll()).unwrap();
    }

    /// Removes engine and snapshot, so that the backup is the only snapshot.
    fn damage(&self) {
        let place = StoreLayout::new(self.data.path(), true);
        fs::remove_dir_all(sled(self.data.path())).unwrap();
        let _ = fs::remove_dir_all(place.snapshots());
        // Without its first segment, the WAL is not enough without a snapshot.
        let survey = Survey::read_directory(&place.log(), &Expected::default()).unwrap();
        fs::remove_file(&survey.segments[0].path).unwrap();
    }
}

#[test]
fn wal_is_not_replayed_on_a_backup_of_another_history() {
    for seen_at_once in [true, false] {
        let rolled = RolledBack::new();
        let before = StoreLayout::new(rolled.data.path(), true)
            .identity()
            .unwrap();
        let store = rolled.open(seen_at_once).unwrap();
        let after = StoreLayout::new(rolled.data.path(), true)
            .identity()
            .unwrap();
        assert_eq!(before.lineage != after.lineage, seen_at_once);
        rolled.go_on(&store);
        let ours = all(&store);
        drop(store);
        // While the engine exists, the backup has no effect.
        assert_eq!(all(&rolled.open(true).unwrap()), ours);
        rolled.damage();
        let refused = rolled.open(true).err();
        let Some(StoreError::Lost(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.contains("another history"), "{why}");
    }
}

#[test]
fn backups_of_both_histories_are_kept_for_their_time() {
    let rolled = RolledBack::new();
    let days = Arc::new(std::sync::atomic::AtomicI64::new(1));
    let now = Arc::clone(&days);
    let options = Options {
        clock: Arc::new(move || now.load(std::sync::atomic::Ordering::Relaxed) * 86_400),
        ..options(Some(rolled.backups.path()))
    };
    let store = Store::open(rolled.data.path(), schema(), options).unwrap();
    let make = |day: i64| {
        days.store(day, std::sync::atomic::Ordering::Relaxed);
        let made = store.back_up(rolled.backups.path()).unwrap();
        let retention = Retention {
            instance: [0; 16],
            keep: 2,
            made: &made,
        };
        prune_backups(rolled.backups.path(), &schema(), retention).unwrap();
        assert!(made.path.exists(), "day {day}");
    };
    // Many backups on one day remove none of the old history.
    for nth in 0..5_u32 {
        fill(&store, 200 + nth..201 + nth);
        make(1);
    }
    assert!(rolled.backup.path.exists());
    assert_eq!(list_backups(rolled.backups.path(), &schema()).len(), 3);
    for day in 2..4 {
        fill(&store, 300..301);
        make(day);
    }
    assert!(!rolled.backup.path.exists());
    assert_eq!(list_backups(rolled.backups.path(), &schema()).len(), 2);
}

#[test]
fn newest_backup_is_kept_even_if_the_clock_was_wrong_before() {
    let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let now = Arc::new(std::sync::atomic::AtomicI64::new(1_000_000));
    let clock = Arc::clone(&now);
    let options = Options {
        clock: Arc::new(move || clock.load(std::sync::atomic::Ordering::Relaxed)),
        ..options(None)
    };
    let store = Store::open(data.path(), schema(), options).unwrap();
    for at in [9_000_000, 1_000_000, 1_000_100] {
        now.store(at, std::sync::atomic::Ordering::Relaxed);
        fill(&store, 0..1);
        let made = store.back_up(backups.path()).unwrap();
        let retention = Retention {
            instance: [0; 16],
            keep: 1,
            made: &made,
        };
        prune_backups(backups.path(), &schema(), retention).unwrap();
        assert!(made.path.exists(), "{at}");
    }
}

#[test]
fn rebuilt_engine_reports_its_source() {
    let killed = Killed::new(true);
    let copy = killed.copy(EngineIs::Gone);
    let store = open(copy.path()).unwrap();
    let from = store
        .verify()
        .unwrap()
        .durable_state
        .unwrap()
        .rebuilt_from
        .unwrap();
    assert!(from.contains("00000000000000000010.snapshot"), "{from}");
    drop(store);
    let store = open(copy.path()).unwrap();
    assert_eq!(
        store.verify().unwrap().durable_state.unwrap().rebuilt_from,
        None
    );
}

/// A failed roll can leave an empty file whose name is the number of a frame that is then written
/// to the segment before it.
#[test]
fn file_of_a_failed_roll_hides_no_frame() {
    let killed = Killed::new(true);
    let copy = killed.copy(EngineIs::Behind);
    let place = StoreLayout::new(copy.path(), true);
    for first in [EARLY + 1, COUNT] {
        File::create(place.log().join(format!("{first:020}.wal"))).unwrap();
    }
    let store = open(copy.path()).unwrap();
    assert_eq!(all(&store), numbered(COUNT));
    assert_sound(&store);
    // The next checkpoint must not retire the segment because of the name of the next file.
    store.checkpoint().unwrap();
    drop(store);
    fs::remove_dir_all(sled(copy.path())).unwrap();
    assert_eq!(all(&open(copy.path()).unwrap()), numbered(COUNT));
}

#[test]
fn missing_segment_does_not_keep_others_from_being_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    for key in 0..3 {
        fill(&store, key..key + 1);
        store.run_exclusive(|writer| writer.log.roll()).unwrap();
    }
    let log = StoreLayout::new(directory.path(), true).log();
    fs::remove_file(log.join(format!("{:020}.wal", 1))).unwrap();
    store.0.core.memtable.drain().unwrap();
    let disk = store.0.core.disk.as_ref().unwrap();
    disk.segments.read().retire(3).unwrap();
    assert_eq!(fs::read_dir(log).unwrap().count(), 1);
}
