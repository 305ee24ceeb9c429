//! Tests of backups with a store on disk and a manual clock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chrono::NaiveTime;
use tempfile::TempDir;

use super::*;
use crate::partners::Partners;
use playgate_ports::Clock as _;
use playgate_ports::{ManualClock, SeededEntropy};
use playgate_store::Options;
use playgate_types::{PartnerKind, Role, Zone};

/// 2026-01-05T12:00:00Z.
const NOON: UnixSeconds = UnixSeconds(1_767_614_400);
/// Seconds from noon to 03:30.
const TO_NIGHT: i64 = 15 * HOUR + HOUR / 2;

struct Fixture {
    folder: TempDir,
    clock: Arc<ManualClock>,
    /// Whether snapshot verification succeeds.
    sound: Arc<AtomicBool>,
    /// Number of stores opened so far; the seed of their random ids.
    opened: AtomicU64,
}

struct Server {
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

impl Fixture {
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
            zone: Zone::utc(),
            key: Some("ours".to_owned()),
        }
    }

    fn server(&self, settings: BackupSettings, instance: u8) -> Server {
        let (clock, sound) = (Arc::clone(&self.clock), Arc::clone(&self.sound));
        let options = Options {
            clock: Arc::new(move || clock.now().0),
            instance: [instance; 16],
            notes: Arc::new(|| [(KEY_NOTE.to_owned(), "ours".to_owned())].into()),
            verify_snapshot: Some(Arc::new(move |path| {
                if sound.load(Ordering::Relaxed) {
                    examine(path, &crate::schema())
                        .map(drop)
                        .map_err(StoreError::from)
                } else {
                    Err(StoreError::Full)
                }
            })),
            ..Options::default()
        };
        let store = Store::open(&settings.data, crate::schema(), options).unwrap();
        let seed = self.opened.fetch_add(1, Ordering::Relaxed);
        Server {
            partners: Partners::open(store.clone(), Arc::new(SeededEntropy::new(seed))).unwrap(),
            backups: Backups::new(
                store,
                settings,
                Arc::new(|path: &Path| examine(path, &crate::schema())),
                crate::schema,
            ),
        }
    }

    fn now(&self) -> UnixSeconds {
        self.clock.now()
    }
}

impl Server {
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
    let fixture = Fixture::new();
    let server = fixture.server(fixture.settings("a"), 1);
    let run = || server.backups.run_scheduled(fixture.now()).unwrap();
    // The first backup is made immediately; commits trigger no further one before the night.
    assert_eq!(run(), 1);
    server.add("Acme");
    fixture.clock.advance(TO_NIGHT - 1);
    assert_eq!(run(), 0);
    let age = fixture.now().since(NOON);
    let newest = server.backups.status().newest.unwrap();
    assert_eq!(fixture.now().since(newest.created), age);
    fixture.clock.advance(1);
    assert_eq!((run(), run()), (1, 0));
    // A backup is made even if nothing was committed since the last.
    fixture.clock.advance(DAY);
    assert_eq!((run(), run()), (1, 0));
    // Off for three and a half nights: one backup is made up for immediately.
    drop(server);
    fixture.clock.advance(3 * DAY + DAY / 2);
    let server = fixture.server(fixture.settings("a"), 1);
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(1));
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(0));
    assert_eq!(server.names().len(), 3, "as many as are kept");
    let newest = server.backups.status().newest.unwrap();
    assert_eq!(newest.created, fixture.now());
    let contents = server.backups.verify(&server.names()[0]).unwrap();
    assert_eq!(contents.records, newest.records);
    assert_eq!(contents.keys(Some("ours")), Keys::Open);
    assert_eq!(contents.keys(Some("another")), Keys::Sealed);
}

#[test]
fn disabled_nightly_backup_is_not_made() {
    let fixture = Fixture::new();
    let settings = BackupSettings {
        at: None,
        ..fixture.settings("a")
    };
    let server = fixture.server(settings, 1);
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(0));
    server.backups.create(fixture.now()).unwrap();
    assert_eq!(server.names().len(), 1);
}

#[test]
fn only_backups_of_this_store_are_removed() {
    let fixture = Fixture::new();
    let server = fixture.server(fixture.settings("a"), 1);
    let directory = fixture.settings("a").directory;
    let made = server.backups.create(fixture.now()).unwrap();
    fs::copy(&made.path, directory.join("before-the-move.snapshot")).unwrap();
    fs::write(directory.join("notes.txt"), "a person's").unwrap();
    fs::write(directory.join("torn.snapshot"), "no snapshot").unwrap();
    // Another instance uses the same directory: one finished backup, one in progress.
    let settings = BackupSettings {
        directory: directory.clone(),
        ..fixture.settings("b")
    };
    let other = fixture.server(settings, 2);
    let foreign = other.backups.create(fixture.now()).unwrap();
    let under_way = format!("{}.partial", foreign.path.display()).replace("20260105", "20260106");
    fs::write(&under_way, "half").unwrap();
    let left = format!("{}.partial", made.path.display());
    fs::write(&left, "half").unwrap();
    for _ in 0..5 {
        fixture.clock.advance(DAY);
        server.backups.create(fixture.now()).unwrap();
    }
    let backups_of = |server: &Server| {
        let listed = server.backups.directory().list().unwrap();
        listed
            .iter()
            .filter(|backup| backup.made_by_this_store)
            .count()
    };
    assert_eq!((backups_of(&server), backups_of(&other)), (3, 1));
    assert!(!made.path.exists() && !Path::new(&left).exists());
    for kept in ["before-the-move.snapshot", "notes.txt", "torn.snapshot"] {
        assert!(directory.join(kept).exists(), "{kept}");
    }
    assert!(foreign.path.exists() && Path::new(&under_way).exists());
}

#[test]
fn failed_backup_leaves_no_file_and_is_retried() {
    let fixture = Fixture::new();
    let server = fixture.server(fixture.settings("a"), 1);
    let directory = fixture.settings("a").directory;
    server.backups.create(fixture.now()).unwrap();
    fixture.clock.advance(DAY);
    fixture.sound.store(false, Ordering::Relaxed);
    let mut tries = 0;
    let begin = fixture.now();
    while fixture.now().since(begin) < 6 * HOUR {
        tries += usize::from(server.backups.run_scheduled(fixture.now()).is_err());
        fixture.clock.advance(5);
    }
    // After one minute, two, four …, then once an hour.
    assert!((8..=13).contains(&tries), "{tries}");
    assert_eq!(files(&directory), 1);
    assert!(server.backups.status().failed.is_some());
    fixture.sound.store(true, Ordering::Relaxed);
    fixture.clock.advance(HOUR);
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(1));
    assert_eq!(files(&directory), 2);
}

#[test]
fn unmounted_backup_disk_is_reported_and_nothing_is_written() {
    let fixture = Fixture::new();
    let disk = fixture.folder.path().join("mnt/disk");
    let directory = disk.join("playgate");
    let settings = BackupSettings {
        directory: directory.clone(),
        ..fixture.settings("a")
    };
    fs::create_dir_all(&directory).unwrap();
    let server = fixture.server(settings, 1);
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(1));
    let away = fixture.folder.path().join("unplugged");
    fs::rename(&disk, &away).unwrap();
    fs::create_dir(&disk).unwrap();
    fixture.clock.advance(DAY);
    let refused = Err(BackupError::NoDirectory(directory.clone()));
    assert_eq!(server.backups.run_scheduled(fixture.now()), refused);
    assert!(server.backups.create(fixture.now()).is_err());
    assert_eq!(files(&disk), 0);
    // The status still shows the last backup, which grows older.
    assert!(server.backups.status().newest.is_some());
    fs::remove_dir(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    fixture.clock.advance(HOUR);
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(1));
    assert_eq!(server.names().len(), 2);
}

#[test]
fn backup_from_the_far_future_suppresses_no_backup() {
    let fixture = Fixture::new();
    let server = fixture.server(fixture.settings("a"), 1);
    fixture.clock.advance(3_000 * DAY);
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(1));
    fixture.clock.set(NOON);
    assert_eq!(server.backups.run_scheduled(NOON), Ok(1));
    assert_eq!(server.backups.status().newest.unwrap().created, NOON);
}

#[test]
fn restore_recovers_the_backup_and_keeps_the_replaced_store() {
    let fixture = Fixture::new();
    let server = fixture.server(fixture.settings("a"), 1);
    server.add("Acme");
    let made = server.backups.create(fixture.now()).unwrap();
    server.add("Later");
    let restored = server.backups.restore(&made.path, false, change()).unwrap();
    assert_eq!(Some(restored.records), made.records);
    // Until the next start the store keeps working unchanged.
    server.add("Last");
    assert_eq!(server.partners(), 3);
    drop(server);
    let server = fixture.server(fixture.settings("a"), 1);
    assert_eq!(server.partners(), 1);
    let aside = fixture.settings("a").data.join("aside");
    assert_eq!(files(&aside), 1);
    // The restored store has the same identity: new backups are its own and sort as newest.
    server.add("After");
    fixture.clock.advance(DAY);
    let after = server.backups.create(fixture.now()).unwrap();
    assert!(after.made_by_this_store && after.number > made.number);
    assert_eq!(server.names()[0], after.name);
    drop(server);
    let directory = BackupDirectory::new_offline(fixture.settings("a"), crate::schema);
    let how = Restoring {
        instance: [9; 16],
        timeline: [9; 16],
        adopt: false,
        change: change(),
    };
    directory.restore_offline(&after.path, how).unwrap();
    assert_eq!(fixture.server(fixture.settings("a"), 1).partners(), 2);
}

#[test]
fn foreign_or_damaged_backup_changes_nothing() {
    let fixture = Fixture::new();
    let server = fixture.server(fixture.settings("a"), 1);
    server.add("Acme");
    let made = server.backups.create(fixture.now()).unwrap();
    let other = fixture.server(fixture.settings("b"), 2);
    assert_eq!(
        other.backups.restore(&made.path, false, change()),
        Err(BackupError::Foreign)
    );
    let mut bytes = fs::read(&made.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged: PathBuf = fixture.folder.path().join("damaged.snapshot");
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
    let data = fixture.settings("b").data;
    assert!(!data.join("restored").exists() && !data.join("upload.snapshot").exists());
    drop(other);
    assert_eq!(fixture.server(fixture.settings("b"), 2).partners(), 0);
    let other = fixture.server(fixture.settings("b"), 2);
    let mut sent = &fs::read(&made.path).unwrap()[..];
    other
        .backups
        .restore_upload(&mut sent, true, change())
        .unwrap();
    drop(other);
    assert_eq!(fixture.server(fixture.settings("b"), 2).partners(), 1);
}

#[test]
fn failed_listing_is_reported_without_nightly_backups() {
    let fixture = Fixture::new();
    let settings = BackupSettings {
        directory: fixture.folder.path().join("missing"),
        at: None,
        ..fixture.settings("a")
    };
    let server = fixture.server(settings, 1);
    server.backups.run_scheduled(fixture.now()).unwrap_err();
    assert_eq!(server.backups.status().failed, Some(fixture.now()));
    // The next attempt waits.
    assert_eq!(server.backups.run_scheduled(fixture.now()), Ok(0));
}
