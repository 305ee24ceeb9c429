//! Notices files that another program has deleted or replaced while the store has them open, such as a cleaner of old logs. What is
//! written to such a file is gone when the process ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::{fs, io};

use crate::commit::writer::{Writer, WriterMessage, run_exclusive};
use crate::error::StoreError;
use crate::lock::StoreLock;
use crate::maintenance::checkpoint::checkpoint;
use crate::maintenance::new_snapshot;
use crate::shared::{OnDisk, Shared};

/// Puts back what is missing, from memory and the engine, which have every commit.
pub(crate) fn restore(
    core: &Arc<Shared>,
    writer: &SyncSender<WriterMessage>,
    now: i64,
) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    if let Err(error) = disk.layout.check_same_store(&disk.identity) {
        return Err(core.failure.report(&error));
    }
    if let Some(path) = missing_part(disk) {
        tracing::error!(file = %path.display(), "another program has deleted, replaced or cut a file of the store; writing a new snapshot, so that no change is lost; exclude the data directory from such programs");
        new_snapshot::from_running_engine(core, writer, now)?;
        // Otherwise the deleted segment stays in the list, and is found again.
        checkpoint(core)?;
    }
    let end = disk.layout.log_end();
    let is_end_lost = disk.segments.read().has_lost_end(&end);
    if is_end_lost {
        tracing::error!(file = %end.display(), "another program has deleted or replaced the end record of the WAL; writing it again");
        run_exclusive(writer, Writer::restore_end)?;
    }
    if !disk.layout.has_identity() {
        tracing::error!(
            "another program has deleted `store/identity` or its copy; writing them again"
        );
        disk.layout.write_identity(&disk.identity)?;
    }
    Ok(())
}

/// Like [`restore`], after the last commit.
pub(crate) fn restore_at_end(core: &Shared, now: i64) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    let engine = core.engine();
    if core.failure.get().is_some() || !core.is_writable() || !engine.is_ready() {
        return Ok(());
    }
    disk.layout.check_same_store(&disk.identity)?;
    if let Some(path) = missing_part(disk) {
        tracing::error!(file = %path.display(), "another program has deleted, replaced or cut a file of the store; writing a snapshot before the end");
        let number = engine.applied()?.number;
        engine.sync()?;
        new_snapshot::from_idle_engine(core, number, now)?;
    }
    Ok(())
}

fn missing_part(disk: &OnDisk) -> Option<PathBuf> {
    let segment = disk.segments.read().missing();
    segment.or_else(|| {
        // Held while a new snapshot is written, which replaces the file.
        let snapshot = disk.snapshot.try_lock()?;
        let path = disk.snapshot_path(snapshot.as_ref()?.number);
        let is_missing =
            fs::metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        is_missing.then_some(path)
    })
}

/// Takes the lock of the data directory again if its file was deleted: another process could take a new one.
pub(crate) fn restore_lock(core: &Shared, locks: &mut Vec<StoreLock>) {
    let (Some(disk), Some(held)) = (&core.disk, locks.last()) else {
        return;
    };
    let directory = disk.layout.directory();
    if held.is_of(directory) {
        return;
    }
    if let Err(error) = disk.layout.check_same_store(&disk.identity) {
        core.failure.report(&error);
        return;
    }
    match disk.layout.lock() {
        Ok(lock) => {
            tracing::error!(directory = %directory.display(), "another program has deleted the file `lock` of the data directory; locked it again");
            // The old one is kept: the process hands it over when it executes itself again.
            locks.push(lock);
        }
        Err(StoreError::InUse) => {
            core.failure.report(&StoreError::Failed(
                "the file `lock` of the data directory was deleted, and another process has opened the store"
                    .to_owned(),
            ));
        }
        // A full disk; the next round tries again.
        Err(_) => {}
    }
}
