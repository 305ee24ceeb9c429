//! Tests of backups with a store on disk and a manual clock.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chrono::NaiveTime;
use chrono_tz::Tz;
use tempfile::TempDir;

use super::*;
use crate::domain;
use crate::domain::partners::Partners;
use crate::ports::Clock as _;
use crate::ports::clock::ManualClock;
use crate::ports::entropy::SeededEntropy;
use crate::store::Options;
use crate::types::{PartnerKind, Role};

/// 2026-01-05T12:00:00Z.
const NOON: UnixSeconds = UnixSeconds(1_767_614_400);
/// Seconds from noon to 03:30.
const TO_NIGHT: i64 = 15 * HOUR + HOUR / 2;

struct Place {
    folder: TempDir,
    clock: Arc<ManualClock>,
    /// Whether snapshot verification succeeds.
    sound: Arc<AtomicBool>,
    /// Number of stores opened so far; the seed of their random ids.
    opened: AtomicU64,
}

struct Machine {
    backups: Backups,
    partners: Partners,
}

fn change() -> AuditedChange {
    AuditedChange {
        at: NOON,
        operator: None,
        name: "Eva".to_owned(),
        role: Role::Admin,
        action: "admin_restore_backup".to_owned(),
        target: "backups/x/restore".to_owned(),
        request: "1".to_owned(),
        claimed: None,
    }
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(NOON)),
            sound: Arc::new(AtomicBool::new(true)),
            opened: AtomicU64::new(0),
        }
    }

    fn settings(&self, name: &str) -> BackupSettings {
        let data = self.folder.path().join(name);
        BackupSettings {
            directory: data.join("backups"),
            data,
            keep: 3,
            at: NaiveTime::from_hms_opt(3, 30, 0),
            zone: Tz::UTC,
            key: Some("ours".to_owned()),
        }
    }

    fn machine(&self, settings: BackupSettings, instance: u8) -> Machine {
        let (clock, sound) = (Arc::clone(&self.clock), Arc::clone(&self.sound));
        let options = Options {
            clock: Arc::new(move || clock.now().0),
            instance: [instance; 16],
            notes: Arc::new(|| [(KEY_NOTE.to_owned(), "ours".to_owned())].into()),
            verify_snapshot: Some(Arc::new(move |path| {
                if sound.load(Ordering::Relaxed) {
                    examine(path).map(drop).map_err(StoreError::from)
                } else {
                    Err(StoreError::Full)
                }
            })),
            ..Options::default()
        };
        let store = Store::open(&settings.data, domain::schema(), options).unwrap();
        let seed = self.opened.fetch_add(1, Ordering::Relaxed);
        Machine {
            partners: Partners::open(store.clone(), Arc::new(SeededEntropy::new(seed))).unwrap(),
            backups: Backups::new(store, settings, Arc::new(examine)),
        }
    }

    fn now(&self) -> UnixSeconds {
        self.clock.now()
    }
}

impl Machine {
    fn add(&self, name: &str) {
        self.partners
            .add(name, PartnerKind::Standard, NOON)
            .unwrap()
            .wait()
            .unwrap();
    }

    fn names(&self) -> Vec<String> {
        let listed = self.backups.directory().list().unwrap();
        listed.into_iter().map(|backup| backup.name).collect()
    }

    fn partners(&self) -> usize {
        self.partners.list().len()
    }
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn backup_is_made_every_night_and_a_missed_one_is_made_up_for() {
    let place = Place::new();
    let machine = place.machine(place.settings("a"), 1);
    let run = || machine.backups.run_scheduled(place.now()).unwrap();
    // The first backup is made immediately; commits trigger no further one before the night.
    assert_eq!(run(), 1);
    machine.add("Acme");
    place.clock.advance(TO_NIGHT - 1);
    assert_eq!(run(), 0);
    let age = place.now().since(NOON);
    let newest = machine.backups.status().newest.unwrap();
    assert_eq!(place.now().since(newest.created), age);
    place.clock.advance(1);
    assert_eq!((run(), run()), (1, 0));
    // A backup is made even if nothing was committed since the last.
    place.clock.advance(DAY);
    assert_eq!((run(), run()), (1, 0));
    // Off for three and a half nights: one backup is made up for immediately.
    drop(machine);
    place.clock.advance(3 * DAY + DAY / 2);
    let machine = place.machine(place.settings("a"), 1);
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(1));
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(0));
    assert_eq!(machine.names().len(), 3, "as many as are kept");
    let newest = machine.backups.status().newest.unwrap();
    assert_eq!(newest.created, place.now());
    let contents = machine.backups.verify(&machine.names()[0]).unwrap();
    assert_eq!(contents.records, newest.records);
    assert_eq!(contents.keys(Some("ours")), Keys::Open);
    assert_eq!(contents.keys(Some("another")), Keys::Sealed);
}

#[test]
fn disabled_nightly_backup_is_not_made() {
    let place = Place::new();
    let settings = BackupSettings {
        at: None,
        ..place.settings("a")
    };
    let machine = place.machine(settings, 1);
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(0));
    machine.backups.create(place.now()).unwrap();
    assert_eq!(machine.names().len(), 1);
}

#[test]
fn only_backups_of_this_store_are_removed() {
    let place = Place::new();
    let machine = place.machine(place.settings("a"), 1);
    let directory = place.settings("a").directory;
    let made = machine.backups.create(place.now()).unwrap();
    fs::copy(&made.path, directory.join("before-the-move.snapshot")).unwrap();
    fs::write(directory.join("notes.txt"), "a person's").unwrap();
    fs::write(directory.join("torn.snapshot"), "no snapshot").unwrap();
    // Another instance uses the same directory: one finished backup, one in progress.
    let settings = BackupSettings {
        directory: directory.clone(),
        ..place.settings("b")
    };
    let other = place.machine(settings, 2);
    let foreign = other.backups.create(place.now()).unwrap();
    let under_way = format!("{}.partial", foreign.path.display()).replace("20260105", "20260106");
    fs::write(&under_way, "half").unwrap();
    let left = format!("{}.partial", made.path.display());
    fs::write(&left, "half").unwrap();
    for _ in 0..5 {
        place.clock.advance(DAY);
        machine.backups.create(place.now()).unwrap();
    }
    let own = |machine: &Machine| {
        let listed = machine.backups.directory().list().unwrap();
        listed.iter().filter(|backup| backup.own).count()
    };
    assert_eq!((own(&machine), own(&other)), (3, 1));
    assert!(!made.path.exists() && !Path::new(&left).exists());
    for kept in ["before-the-move.snapshot", "notes.txt", "torn.snapshot"] {
        assert!(directory.join(kept).exists(), "{kept}");
    }
    assert!(foreign.path.exists() && Path::new(&under_way).exists());
}

#[test]
fn failed_backup_leaves_no_file_and_is_retried() {
    let place = Place::new();
    let machine = place.machine(place.settings("a"), 1);
    let directory = place.settings("a").directory;
    machine.backups.create(place.now()).unwrap();
    place.clock.advance(DAY);
    place.sound.store(false, Ordering::Relaxed);
    let mut tries = 0;
    let begin = place.now();
    while place.now().since(begin) < 6 * HOUR {
        tries += usize::from(machine.backups.run_scheduled(place.now()).is_err());
        place.clock.advance(5);
    }
    // After one minute, two, four …, then once an hour.
    assert!((8..=13).contains(&tries), "{tries}");
    assert_eq!(files(&directory), 1);
    assert!(machine.backups.status().failed.is_some());
    place.sound.store(true, Ordering::Relaxed);
    place.clock.advance(HOUR);
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(1));
    assert_eq!(files(&directory), 2);
}

#[test]
fn unmounted_backup_disk_is_reported_and_nothing_is_written() {
    let place = Place::new();
    let disk = place.folder.path().join("mnt/disk");
    let directory = disk.join("playgate");
    let settings = BackupSettings {
        directory: directory.clone(),
        ..place.settings("a")
    };
    fs::create_dir_all(&directory).unwrap();
    let machine = place.machine(settings, 1);
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(1));
    let away = place.folder.path().join("unplugged");
    fs::rename(&disk, &away).unwrap();
    fs::create_dir(&disk).unwrap();
    place.clock.advance(DAY);
    let refused = Err(BackupError::NoDirectory(directory.clone()));
    assert_eq!(machine.backups.run_scheduled(place.now()), refused);
    assert!(machine.backups.create(place.now()).is_err());
    assert_eq!(files(&disk), 0);
    // The status still shows the last backup, which grows older.
    assert!(machine.backups.status().newest.is_some());
    fs::remove_dir(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    place.clock.advance(HOUR);
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(1));
    assert_eq!(machine.names().len(), 2);
}

#[test]
fn backup_from_the_far_future_suppresses_no_backup() {
    let place = Place::new();
    let machine = place.machine(place.settings("a"), 1);
    place.clock.advance(3_000 * DAY);
    assert_eq!(machine.backups.run_scheduled(place.now()), Ok(1));
    place.clock.set(NOON);
    assert_eq!(machine.backups.run_scheduled(NOON), Ok(1));
    assert_eq!(machine.backups.status().newest.unwrap().created, NOON);
}

#[test]
fn restore_recovers_the_backup_and_keeps_the_replaced_store() {
    let place = Place::new();
    let machine = place.machine(place.settings("a"), 1);
    machine.add("Acme");
    let made = machine.backups.create(place.now()).unwrap();
    machine.add("Later");
    let restored = machine
        .backups
        .restore(&made.path, false, change())
        .unwrap();
    assert_eq!(Some(restored.records), made.records);
    // Until the next start the store keeps working unchanged.
    machine.add("Last");
    assert_eq!(machine.partners(), 3);
    drop(machine);
    let machine = place.machine(place.settings("a"), 1);
    assert_eq!(machine.partners(), 1);
    let aside = place.settings("a").data.join("aside");
    assert_eq!(files(&aside), 1);
    // The restored store has the same identity: new backups are its own and sort as newest.
    machine.add("After");
    place.clock.advance(DAY);
    let after = machine.backups.create(place.now()).unwrap();
    assert!(after.own && after.number > made.number);
    assert_eq!(machine.names()[0], after.name);
    drop(machine);
    let shelf = BackupDirectory::new_offline(place.settings("a"));
    let how = Restoring {
        instance: [9; 16],
        timeline: [9; 16],
        adopt: false,
        change: change(),
    };
    shelf.restore_offline(&after.path, how).unwrap();
    assert_eq!(place.machine(place.settings("a"), 1).partners(), 2);
}

#[test]
fn foreign_or_damaged_backup_changes_nothing() {
    let place = Place::new();
    let machine = place.machine(place.settings("a"), 1);
    machine.add("Acme");
    let made = machine.backups.create(place.now()).unwrap();
    let other = place.machine(place.settings("b"), 2);
    assert_eq!(
        other.backups.restore(&made.path, false, change()),
        Err(BackupError::Foreign)
    );
    let mut bytes = fs::read(&made.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged: PathBuf = place.folder.path().join("damaged.snapshot");
    fs::write(&damaged, &bytes).unwrap();
    for adopt in [false, true] {
        let refused = other.backups.restore(&damaged, adopt, change());
        assert!(
            matches!(refused, Err(BackupError::Damaged { .. })),
            "{refused:?}"
        );
        let mut sent = &bytes[..middle];
        let refused = other.backups.restore_upload(&mut sent, adopt, change());
        assert!(
            matches!(refused, Err(BackupError::Damaged { .. })),
            "{refused:?}"
        );
    }
    for name in [
        "../b/backups/x.snapshot",
        "..",
        "",
        "notes.txt",
        "none.snapshot",
    ] {
        assert_eq!(other.backups.verify(name), Err(BackupError::NotFound));
    }
    let data = place.settings("b").data;
    assert!(!data.join("restored").exists() && !data.join("upload.snapshot").exists());
    drop(other);
    assert_eq!(place.machine(place.settings("b"), 2).partners(), 0);
    let other = place.machine(place.settings("b"), 2);
    let mut sent = &fs::read(&made.path).unwrap()[..];
    other
        .backups
        .restore_upload(&mut sent, true, change())
        .unwrap();
    drop(other);
    assert_eq!(place.machine(place.settings("b"), 2).partners(), 1);
}
