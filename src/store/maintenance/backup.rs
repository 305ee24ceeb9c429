//! Backups: snapshot files in a separate directory. Creates, lists, verifies and restores them;
//! `retention` prunes them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::MutexGuard;

use crate::disk_space;
use crate::error::StoreError;
use crate::handle::Store;
use crate::history::{History, Lineage};
use crate::layout::StoreLayout;
use crate::maintenance::compaction::NEW_ENGINE;
use crate::maintenance::new_snapshot;
use crate::maintenance::staging::Staging;
use crate::options::FleetAccess;
use crate::record::{Record, decode_note};
use crate::recovery::evidence::snapshots;
use crate::shared::OnDisk;
use crate::snapshot::examine::{SnapshotReport, check_snapshot};
use crate::snapshot::format::{self, EXTENSION, SnapshotHead};
use crate::table::{Tables, TreeName};
use crate::wal::{Expected, Survey};
use playgate_process::data_file::{self, at};
use playgate_process::files::{make_directory, remove_file, rename, replace_file, with_suffix};

/// Distance between the highest known commit number and the first one of a restored store.
const NUMBER_GAP: u64 = 1_000_000;
/// Suffix of a backup file that is not verified yet.
const PARTIAL: &str = ".partial";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    pub path: PathBuf,
    pub head: SnapshotHead,
    pub bytes: u64,
}

impl BackupFile {
    /// Returns false for a copy that an operator keeps under another name.
    pub fn is_made_by(&self, instance: [u8; 16]) -> bool {
        self.head.instance == instance
            && self.path.file_name().and_then(|name| name.to_str()) == Some(&name(&self.head))
    }
}

fn name(head: &SnapshotHead) -> String {
    // The date comes first, so that names sort by age.
    let when = chrono::DateTime::from_timestamp(head.created, 0).unwrap_or_default();
    let when = when.format("%Y%m%dT%H%M%SZ");
    format!("{when}-{}-{}{EXTENSION}", head.number, mark(&head.instance))
}

/// A short store id, which distinguishes the backups of two stores.
fn mark(instance: &[u8; 16]) -> String {
    let start = instance.first_chunk::<4>().copied().unwrap_or_default();
    data_encoding::HEXLOWER.encode(&start)
}

/// A snapshot that was just verified. The lock prevents its replacement.
struct CheckedBackup<'a> {
    disk: &'a OnDisk,
    snapshot: MutexGuard<'a, Option<SnapshotHead>>,
    head: SnapshotHead,
    report: SnapshotReport,
}

impl Store {
    pub fn instance(&self) -> Option<[u8; 16]> {
        Some(self.0.core.disk.as_ref()?.identity.instance)
    }

    pub fn timeline_seed(&self) -> Option<[u8; 16]> {
        Some(self.0.core.disk.as_ref()?.seed)
    }

    pub fn restore_note<R: Record>(&self) -> Option<R> {
        let disk = self.0.core.disk.as_ref()?;
        decode_note(&data_file::read(&disk.layout.restore_note()).ok()?)
    }

    pub fn delete_restore_note(&self) -> Result<(), StoreError> {
        let disk = self.0.core.disk.as_ref().ok_or(StoreError::Closed)?;
        // The removal is synced: a note that a power cut brings back would record the same restore once more.
        Ok(remove_file(&disk.layout.restore_note(), disk.layout.sync)?)
    }

    /// Backs up everything committed so far, while the store is in use. No partial file is left.
    pub fn back_up(&self, directory: &Path) -> Result<BackupFile, StoreError> {
        let disk = self.0.core.disk.as_ref().ok_or(StoreError::Closed)?;
        let sync = disk.layout.sync;
        make_directory(directory, sync)?;
        // Partial files of an interrupted backup would otherwise use up the disk over time.
        clear_partials(directory, &disk.identity.instance)?;
        self.require_space(disk, directory)?;
        let checked = match self.checked_snapshot(disk) {
            Err(error @ StoreError::Damaged { .. }) => {
                // The engine still has every record; a damaged snapshot must not make backups impossible.
                tracing::error!(%error, "snapshot or WAL is damaged; writing a new snapshot from the engine");
                let core = &self.0.core;
                core.or_fail(new_snapshot::from_running_engine(
                    core,
                    &self.0.inbox,
                    (self.0.clock)(),
                ))?;
                self.checked_snapshot(disk)?
            }
            other => other?,
        };
        let CheckedBackup {
            disk,
            snapshot,
            head,
            report,
        } = checked;
        let head = SnapshotHead {
            created: (self.0.clock)(),
            records: Some(report.total()),
            notes: (disk.notes)(),
            ..head
        };
        let path = directory.join(name(&head));
        let partial = with_suffix(&path, PARTIAL);
        let copied = format::copy(&disk.snapshot_path(head.number), &partial, &head, sync);
        // The lock is released before the slow verification, so that maintenance is not delayed.
        drop(snapshot);
        let made = copied
            // The copy is verified before it gets its name: only a complete backup is ever listed.
            .and_then(|()| (disk.verify_snapshot)(&partial))
            .and_then(|()| Ok(rename(&partial, &path, sync)?))
            .and_then(|()| Ok(fs::metadata(&path).map_err(at("read", &path))?.len()));
        match made {
            Ok(bytes) => Ok(BackupFile { path, head, bytes }),
            Err(error) => {
                let _ = fs::remove_file(&partial);
                Err(error)
            }
        }
    }

    fn checked_snapshot<'a>(&'a self, disk: &'a OnDisk) -> Result<CheckedBackup<'a>, StoreError> {
        self.write_snapshot()?;
        let snapshot = disk.snapshot.lock();
        let head = snapshot.clone().ok_or(StoreError::Closed)?;
        // Disks rot, so only a snapshot that was just verified is copied.
        let (_, report) = check_snapshot(&disk.snapshot_path(head.number), &self.0.core.schema)?;
        Ok(CheckedBackup {
            disk,
            snapshot,
            head,
            report,
        })
    }

    fn require_space(&self, disk: &OnDisk, directory: &Path) -> Result<(), StoreError> {
        let bytes = new_snapshot::packed_bytes(disk);
        let store = disk.layout.store();
        let device = |path: &Path| {
            let of = fs::metadata(path).map_err(at("read", path));
            of.map(|of| of.dev())
        };
        if device(&store)? == device(directory)? {
            // One disk must have room for both copies; a separate backup disk needs room for one.
            return disk_space::require_free(directory, 2 * bytes);
        }
        disk_space::require_free(&store, bytes)?;
        disk_space::require_free(directory, bytes)
    }
}

fn clear_partials(directory: &Path, instance: &[u8; 16]) -> Result<(), StoreError> {
    let end = format!("-{}{EXTENSION}{PARTIAL}", mark(instance));
    for entry in data_file::list(directory)? {
        let path = entry.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.ends_with(&end)) {
            fs::remove_file(&path).map_err(at("remove", &path))?;
        }
    }
    Ok(())
}

/// Newest first. Files with an unreadable head are logged and skipped.
pub fn list_backups(directory: &Path, schema: &Tables) -> Vec<BackupFile> {
    let mut backups: Vec<BackupFile> = snapshots(directory, schema)
        .into_iter()
        .map(|(head, path)| BackupFile {
            bytes: fs::metadata(&path).map_or(0, |file| file.len()),
            path,
            head,
        })
        .collect();
    // Sorted by date: after a restore or rollback, commit numbers do not reflect age.
    backups.sort_by_key(|backup| std::cmp::Reverse((backup.head.created, backup.head.number)));
    backups
}

pub fn instance_of(directory: &Path) -> Option<[u8; 16]> {
    let identity = StoreLayout::new(directory, true).identity().ok()?;
    Some(identity.instance)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub head: SnapshotHead,
    pub tables: BTreeMap<TreeName, u64>,
}

pub struct Restore<'a> {
    pub directory: &'a Path,
    pub backup: &'a Path,
    pub backups: &'a Path,
    pub schema: &'a Tables,
    pub instance: [u8; 16],
    /// Random seed: the restored store begins a new timeline.
    pub timeline: [u8; 16],
    /// Whether the backup may come from another store.
    pub adopt: bool,
    /// A note for the restored store, from [`encode_note`](crate::encode_note). The restored store returns it
    /// by [`Store::restore_note`].
    pub restore_note: &'a [u8],
}

impl Restore<'_> {
    /// Unpacks the backup into a staging directory and compares the result with the backup. The next
    /// start installs the new store and keeps the replaced one. Changes that are written to the replaced
    /// store in between are not in the new one.
    pub fn prepare(&self) -> Result<Restored, StoreError> {
        let layout = StoreLayout::new(self.directory, true);
        // The other members would not follow, and the shared log continues with commits that the backup lacks.
        FleetAccess::Refuse.admit(&layout)?;
        if layout.replaced_store().exists() {
            // A restore was interrupted between its two renames: the staging directory has the only
            // store.
            layout.install_staged()?;
        }
        let prepared = self.unpack(&layout);
        if prepared.is_err() {
            let _ = layout.clear_staged();
        }
        prepared
    }

    /// Like [`Restore::prepare`], and installs the store immediately.
    pub fn run(&self) -> Result<Restored, StoreError> {
        let layout = StoreLayout::new(self.directory, true);
        // A running store would be replaced under its own handles.
        let _lock = layout.lock()?;
        let restored = self.prepare()?;
        layout.install_staged()?;
        Ok(restored)
    }

    fn unpack(&self, layout: &StoreLayout) -> Result<Restored, StoreError> {
        layout.check_replaceable()?;
        // The backup is read to its end before anything is staged.
        let (head, report) = check_snapshot(self.backup, self.schema)?;
        let instance = self.target_instance(layout, &head)?;
        layout.clear_staged()?;
        let packed = fs::metadata(self.backup)
            .map_err(at("read", self.backup))?
            .len();
        // The new engine is larger than the backup.
        disk_space::require_free(self.directory, packed + NEW_ENGINE * packed)?;
        let number = self.next_free_number(layout, &head);
        let lineage = Lineage::new(self.timeline, instance, number);
        let restored = SnapshotHead {
            instance,
            number,
            history: History::begin(lineage.current, number),
            ..head.clone()
        };
        let staging = Staging {
            layout,
            snapshot: self.backup,
            report: &report,
            schema: self.schema,
        };
        staging.build(&restored, lineage)?;
        // The note is written before the mark: the next start must find note and store together.
        replace_file(&layout.staged().restore_note(), self.restore_note, true)?;
        layout.mark_staged_complete()?;
        Ok(Restored {
            head,
            tables: report.records,
        })
    }

    fn target_instance(
        &self,
        layout: &StoreLayout,
        head: &SnapshotHead,
    ) -> Result<[u8; 16], StoreError> {
        if !layout.exists() {
            return if head.instance == self.instance || self.adopt {
                Ok(self.instance)
            } else {
                Err(StoreError::Foreign)
            };
        }
        match layout.identity() {
            // The existing store keeps its id, so that its own backups still belong to it.
            Ok(existing) if existing.instance == head.instance || self.adopt => {
                Ok(existing.instance)
            }
            Ok(_) => Err(StoreError::Foreign),
            // The id of the existing store is lost, so it can only become the backup's store.
            Err(error) if self.adopt => {
                tracing::warn!(%error, "cannot read the id of the store; using that of the backup");
                Ok(head.instance)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns a commit number far above all known ones, so that no older snapshot or WAL fits the
    /// restored store. The margin covers commits of the running store until it is replaced.
    fn next_free_number(&self, layout: &StoreLayout, head: &SnapshotHead) -> u64 {
        let logged = Survey::read_directory(&layout.log(), &Expected::default()).map_or_else(
            |error| {
                // Not fatal: the WAL is moved aside with the replaced store.
                tracing::warn!(%error, "cannot read the WAL of the replaced store");
                0
            },
            |survey| survey.last(),
        );
        [&layout.snapshots(), self.backups]
            .iter()
            .flat_map(|directory| snapshots(directory, self.schema))
            .map(|(head, _)| head.number)
            .chain([head.number, logged])
            .max()
            .unwrap_or_default()
            + NUMBER_GAP
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::snapshot::format::Snapshot;
    use crate::tests::{People, all, assert_sound, copy_tree, person, put, schema};
    use crate::{Durability, Options};

    fn open(directory: &Path) -> Store {
        Store::open(directory, schema(), Options::default()).unwrap()
    }

    /// Creates a store with `count` people, and a backup of it.
    fn filled(data: &Path, backups: &Path, count: u32) -> (Store, BackupFile) {
        let store = open(data);
        for key in 0..count {
            put(&store, key, person("Lund", 30)).unwrap();
        }
        let backup = store.back_up(backups).unwrap();
        (store, backup)
    }

    fn restore(data: &Path, backup: &BackupFile) -> Restored {
        let restore = Restore {
            directory: data,
            backup: &backup.path,
            backups: backup.path.parent().unwrap(),
            schema: &schema(),
            instance: [0; 16],
            timeline: [8; 16],
            adopt: false,
            restore_note: b"",
        };
        restore.prepare().unwrap()
    }

    /// The control: a copy that lacks one pair and is otherwise intact is rejected.
    #[test]
    fn backup_without_one_record_is_rejected() {
        let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (_store, backup) = filled(data.path(), backups.path(), 20);
        let pairs = || Snapshot::open(&backup.path, &schema()).unwrap();
        let copy = backups.path().join("copy");
        let without = |skipped: &[usize]| {
            let kept = pairs().enumerate().filter(|(at, _)| !skipped.contains(at));
            let kept = kept.map(|(_, pair)| pair);
            format::write(&copy, &backup.head, kept, false, &|_| Ok(())).unwrap();
            check_snapshot(&copy, &schema()).map(drop)
        };
        assert_eq!(without(&[]), Ok(()));
        let count = pairs().count();
        assert_eq!(count, 40, "20 records, each with an entry");
        for skipped in 0..count {
            let found = without(&[skipped]);
            assert!(
                matches!(found, Err(StoreError::Damaged { .. })),
                "{skipped}: {found:?}"
            );
        }
        // Rejected even without its index entry: the head has the number of records.
        assert!(without(&[7, 27]).is_err());
    }

    /// The next start completes an installation that was killed between any two steps.
    #[test]
    fn interrupted_restore_leaves_the_old_store_or_the_new_one() {
        let people = |count: u32| (0..count).map(|key| (key, person("Lund", 30))).collect();
        for step in 0..5 {
            let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let data = data.path();
            let (store, backup) = filled(data, backups.path(), 2);
            put(&store, 2, person("Lund", 30)).unwrap();
            drop(store);
            restore(data, &backup);
            let layout = StoreLayout::new(data, true);
            let [installed, staged, spare] =
                ["store", "restored/store", "spare"].map(|name| data.join(name));
            if step == 0 {
                // Not staged for installation yet.
                fs::remove_file(staged.join("whole")).unwrap();
            }
            if step >= 2 {
                for (from, to) in [
                    (&installed, &spare),
                    (&staged, &installed),
                    (&spare, &staged),
                ] {
                    fs::rename(from, to).unwrap();
                }
            }
            if step >= 3 {
                layout.move_aside(&staged, "store").unwrap();
            }
            if step >= 4 {
                fs::remove_file(installed.join("whole")).unwrap();
            }
            let store = open(data);
            assert_eq!(all(&store), people(if step == 0 { 3 } else { 2 }), "{step}");
            assert_sound(&store);
            assert!(!data.join("restored").exists());
            assert_eq!(data.join("aside/store.1/log").exists(), step > 0, "{step}");
        }
    }

    /// The same on a file system that cannot exchange two directories.
    #[test]
    fn interrupted_restore_by_two_renames_is_completed_at_the_next_start() {
        for again in [false, true] {
            for step in 0..4 {
                let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
                let data = data.path();
                let (store, backup) = filled(data, backups.path(), 2);
                put(&store, 2, person("Lund", 30)).unwrap();
                drop(store);
                restore(data, &backup);
                let layout = StoreLayout::new(data, true);
                match step {
                    0 => {}
                    1 => fs::rename(layout.store(), layout.replaced_store()).unwrap(),
                    _ => layout.rename_both(&layout.staged()).unwrap(),
                }
                if step == 3 {
                    layout
                        .move_aside(&layout.replaced_store(), "store")
                        .unwrap();
                }
                if again {
                    // The restore command runs again before any start.
                    restore(data, &backup);
                }
                let store = open(data);
                assert_eq!(all(&store).len(), 2, "{step}");
                assert_sound(&store);
                assert!(!data.join("restored").exists());
                // The old store is kept, whichever restore has replaced it.
                let kept = data.join("aside/store.1/log");
                assert!(kept.exists(), "{step} {again}");
            }
        }
    }

    /// The last two replaced stores are kept, regardless of the number of restores.
    #[test]
    fn replaced_store_is_kept_after_each_restore() {
        let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let data = data.path();
        let (store, backup) = filled(data, backups.path(), 1);
        drop(store);
        for round in 1..=5_u32 {
            let store = open(data);
            for key in 0..=round {
                put(&store, key, person("Lund", 30)).unwrap();
            }
            drop(store);
            restore(data, &backup);
            assert_eq!(all(&open(data)).len(), 1);
            let aside = fs::read_dir(data.join("aside")).unwrap();
            assert_eq!(aside.count(), 2.min(round as usize));
            // A store that was moved aside is complete: it opens after it is copied back.
            let again = tempfile::tempdir().unwrap();
            copy_tree(
                &data.join(format!("aside/store.{round}")),
                &again.path().join("store"),
            );
            assert_eq!(all(&open(again.path())).len(), round as usize + 1);
        }
    }

    #[test]
    fn damaged_snapshot_is_replaced_before_it_is_copied() {
        let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (store, first) = filled(data.path(), backups.path(), 20);
        let snapshot = StoreLayout::new(data.path(), true)
            .snapshots()
            .join(format!("{:020}{EXTENSION}", first.head.number));
        let mut bytes = fs::read(&snapshot).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&snapshot, bytes).unwrap();
        let second = store.back_up(backups.path()).unwrap();
        let (_, report) = check_snapshot(&second.path, &schema()).unwrap();
        assert_eq!(report.total(), 20);
        assert_sound(&store);
    }

    #[test]
    fn backup_is_consistent_while_commits_continue() {
        let [data, backups] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let store = open(data.path());
        let done = AtomicBool::new(false);
        let made: Vec<_> = std::thread::scope(|scope| {
            // Two people who always have the same age.
            scope.spawn(|| {
                for age in (0..=u8::MAX).cycle() {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let written: Result<(), StoreError> = store
                        .write(Durability::Durable, move |txn| {
                            txn.put::<People>(&1, &person("Lund", age))?;
                            txn.put::<People>(&2, &person("Lund", age))
                        })
                        .wait();
                    written.unwrap();
                }
            });
            let made = (0..10).map(|_| store.back_up(backups.path())).collect();
            done.store(true, Ordering::Relaxed);
            made
        });
        for backup in made {
            let snapshot = Snapshot::open(&backup.unwrap().path, &schema()).unwrap();
            let pairs: Vec<_> = snapshot.map(Result::unwrap).collect();
            // Their index entries begin with town and age.
            let entries = pairs
                .iter()
                .skip(2)
                .map(|(_, key, _)| &key[..key.len() - 4]);
            let ages: Vec<_> = entries.collect();
            assert!(ages.is_empty() || (ages.len() == 2 && ages[0] == ages[1]));
        }
    }
}
