//! Backups: snapshots in a directory of their own, made, listed, checked and brought back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::engine::{Engine as _, SledEngine};
use super::files::{create_private, make_directory, rename, with_suffix};
use super::place::{Identity, Place, check_format};
use super::recovery::snapshots;
use super::snapshot::{self, Snapshot, SnapshotHead};
use super::table::{Schema, TreeName};
use super::truth::Truth;
use super::verify::{SnapshotReport, examine_snapshot};
use super::{FORMAT, Store, StoreError};

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its file.
    pub path: PathBuf,
    /// What it says of itself.
    pub head: SnapshotHead,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// A restore that the next start puts into place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup.
    pub head: SnapshotHead,
    /// The records of each table.
    pub tables: BTreeMap<TreeName, u64>,
}

impl Store {
    /// Makes a backup of everything that was committed so far, while the store serves: a copy of a
    /// new base, which is proven again where it lies.
    ///
    /// # Errors
    /// [`StoreError::Full`], or what is wrong with the files.
    pub fn back_up(&self, directory: &Path) -> Result<Backup, StoreError> {
        let head = self.renew_base()?;
        let disk = self.0.core.disk.as_ref().ok_or(StoreError::Closed)?;
        let sync = disk.place.sync;
        make_directory(directory, sync)?;
        let path = directory.join(name(&head));
        let partial = with_suffix(&path, ".partial");
        let made = {
            // The base stays while it is copied.
            let _base = disk.base.lock();
            copy(&disk.base_path(head.number), &partial, sync)
        }
        .and_then(|()| (disk.prove)(&partial))
        .and_then(|()| Ok(rename(&partial, &path, sync)?));
        if let Err(error) = made {
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
        let bytes = fs::metadata(&path)?.len();
        Ok(Backup { path, head, bytes })
    }
}

/// A name that sorts by age and tells when and of what state the backup is.
fn name(head: &SnapshotHead) -> String {
    let when = chrono::DateTime::from_timestamp(head.created, 0).unwrap_or_default();
    format!("{}-{}.snapshot", when.format("%Y%m%dT%H%M%SZ"), head.number)
}

fn copy(from: &Path, to: &Path, sync: bool) -> Result<(), StoreError> {
    let mut file = create_private(to)?;
    io::copy(&mut File::open(from)?, &mut file)?;
    if sync {
        file.sync_all()?;
    }
    Ok(())
}

/// The backups of a directory whose head can be read, the newest first.
#[must_use]
pub fn list_backups(directory: &Path, schema: &Schema) -> Vec<Backup> {
    snapshots(directory, schema)
        .into_iter()
        .map(|(head, path)| Backup {
            bytes: fs::metadata(&path).map_or(0, |file| file.len()),
            path,
            head,
        })
        .collect()
}

/// Reads a snapshot to its end: frames, order, sums, every record, and indexes both ways.
///
/// # Errors
/// What is wrong with it, with its place.
pub fn check_snapshot(
    path: &Path,
    schema: &Schema,
) -> Result<(SnapshotHead, SnapshotReport), StoreError> {
    let snapshot = Snapshot::open(path, schema)?;
    let head = snapshot.head().clone();
    check_format(head.format)?;
    let report = examine_snapshot(snapshot, schema)?;
    match report.damage() {
        None => Ok((head, report)),
        Some(what) => Err(StoreError::Damaged {
            place: path.display().to_string(),
            what,
        }),
    }
}

/// Unpacks a backup beside the store of a data directory and compares what came of it with the
/// backup. The next start puts it into place and keeps the store that was there.
///
/// # Errors
/// That it is of another machine and `adopt` is not set, or what is wrong with it.
pub fn prepare_restore(
    directory: &Path,
    backup: &Path,
    schema: &Schema,
    instance: [u8; 16],
    adopt: bool,
) -> Result<Restored, StoreError> {
    let (head, report) = check_snapshot(backup, schema)?;
    let place = Place::of(directory, true);
    let own = if place.exists() {
        place.identity()?.instance
    } else {
        instance
    };
    if head.instance != own && !adopt {
        return Err(StoreError::Foreign);
    }
    place.clear_side()?;
    let side = place.side();
    // Numbers go on above all that were ever used, so that no older snapshot or log fits to it.
    let known = snapshots(&place.base(), schema);
    let near = backup
        .parent()
        .map(|parent| snapshots(parent, schema))
        .unwrap_or_default();
    let number = known
        .iter()
        .chain(&near)
        .map(|(head, _)| head.number)
        .chain([head.number, super::log::Survey::last_in(&place.log())?])
        .max()
        .unwrap_or_default()
        + 1;
    side.identify(Identity {
        format: FORMAT,
        instance: own,
    })?;
    make_directory(&side.base(), true)?;
    let base = side.base().join(format!("{number:020}.snapshot"));
    let of_side = SnapshotHead {
        format: FORMAT,
        instance: own,
        number,
        ..head.clone()
    };
    let pairs = Snapshot::open(backup, schema)?;
    snapshot::write(&base, &of_side, pairs, true, &|path| {
        check_snapshot(path, schema).and_then(|(_, copied)| report.same(&copied, path))
    })?;
    let engine = SledEngine::open(&side.sled(), schema, true)?;
    Truth {
        base: Some(Snapshot::open(&base, schema)?),
        segments: Vec::new(),
        schema,
        number,
    }
    .load(&engine)?;
    engine.prove(&std::sync::atomic::AtomicU64::new(0))?;
    engine.sync()?;
    drop(engine);
    place.offer_side()?;
    Ok(Restored {
        head,
        tables: report.records,
    })
}
