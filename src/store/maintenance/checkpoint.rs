//! Checkpoints: sync the engine, and retire the WAL segments that neither it nor the snapshot needs.

use crate::error::StoreError;
use crate::shared::Shared;

pub(crate) fn checkpoint(core: &Shared) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    if !core.is_writable() {
        return Ok(());
    }
    let engine = core.engine();
    // The number is read before the sync, which may also cover later batches.
    let synced = engine.applied().and_then(|applied| {
        engine.sync()?;
        Ok(applied)
    });
    let applied = match synced {
        Ok(applied) => applied.number,
        Err(StoreError::Full) => {
            let _ = core.memtable.stall();
            return Err(StoreError::Full);
        }
        Err(error) => return Err(core.failure.report(&error)),
    };
    // A reader of snapshot and WAL holds this lock. The next checkpoint retires the segments.
    let Some(snapshot) = disk.snapshot.try_lock() else {
        return Ok(());
    };
    let kept = snapshot.as_ref().map_or(0, |snapshot| snapshot.number);
    let segments = disk.segments.read();
    // After a power cut the end record is at most one checkpoint old.
    segments.request_end_sync();
    segments.retire(applied.min(kept))
}
