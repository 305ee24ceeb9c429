//! New snapshots: written from the current one and the WAL, or from the engine if those are damaged. The writer
//! must never wait for this slow work.

use std::fs;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use crate::commit::writer::{Writer, WriterMessage, run_exclusive};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::maintenance::checkpoint::checkpoint;
use crate::shared::{OnDisk, Shared};
use crate::snapshot::durable_state::DurableState;
use crate::snapshot::format::{self, Snapshot, SnapshotHead, Triple};
use crate::wal::Closed;
use playgate_process::data_file::at;
use playgate_process::files::remove_file;

pub(crate) fn with_all_commits(
    core: &Shared,
    writer: &SyncSender<WriterMessage>,
    now: i64,
) -> Result<SnapshotHead, StoreError> {
    // The open segment is closed, so that its commits are part of the snapshot.
    run_exclusive(writer, Writer::roll)?;
    from_closed_segments(core, now)
}

pub(crate) fn from_closed_segments(core: &Shared, now: i64) -> Result<SnapshotHead, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let mut snapshot = disk.snapshot.lock();
    let begin = snapshot.as_ref().map_or(0, |snapshot| snapshot.number);
    let closed = disk.segments.read().closed();
    let Closed { segments, number } = match closed {
        Some(closed) if closed.number > begin => closed,
        // Nothing new was committed.
        _ => match &*snapshot {
            Some(snapshot) => return Ok(snapshot.clone()),
            // Nothing was ever committed: write an empty snapshot.
            None => Closed {
                segments: Vec::new(),
                number: 0,
            },
        },
    };
    let pairs = disk
        .durable_state(&core.schema, snapshot.as_ref(), segments, number)?
        .pairs()?;
    let made = write_file(disk, head(disk, number, now), pairs)?;
    *snapshot = Some(made.clone());
    // The lock is released before the checkpoint, which takes it to retire segments.
    drop(snapshot);
    // The checkpoint retires only segments that the engine has too. If the engine is being rebuilt or has stalled, a
    // later checkpoint retires them.
    if core.engine().is_ready() {
        let _ = core.memtable.reach(number);
    }
    checkpoint(core)?;
    Ok(made)
}

/// Writes a snapshot from the engine. Nothing may be committed while this runs.
pub(crate) fn from_idle_engine(core: &Shared, number: u64, now: i64) -> Result<(), StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let engine = core.engine();
    let mut snapshot = disk.snapshot.try_lock().ok_or(StoreError::Overloaded)?;
    let pairs = engine_pairs(core, &*engine);
    *snapshot = Some(write_file(disk, head(disk, number, now), pairs)?);
    tracing::warn!(
        number,
        "snapshot and WAL had a gap; wrote a snapshot from the engine"
    );
    Ok(())
}

/// Like [`from_idle_engine`], while commits continue.
pub(crate) fn from_running_engine(
    core: &Shared,
    writer: &SyncSender<WriterMessage>,
    now: i64,
) -> Result<SnapshotHead, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    core.engine().wait_until_ready()?;
    let mut snapshot = disk.snapshot.lock();
    // A scan of a changing engine is inconsistent, but all changes since `begin` are in new and
    // therefore sound WAL segments. Merging these over the scan gives the state as of their last
    // commit.
    let begin = run_exclusive(writer, |writer| writer.roll().map(|()| writer.number))?;
    // The scan must not miss a commit up to `begin` that is still in the memtable.
    core.memtable.reach(begin)?;
    let scanned = disk.layout.snapshots().join("engine.unproven");
    let made = merge_scan_with_wal(core, disk, writer, &scanned, (begin, now));
    if made.is_err() {
        // On success, `write_file` has removed this file with the other old ones.
        let _ = fs::remove_file(&scanned);
    }
    *snapshot = Some(made.clone()?);
    tracing::warn!(
        begin,
        "snapshot and WAL had a gap; wrote a snapshot from the engine"
    );
    made
}

fn merge_scan_with_wal(
    core: &Shared,
    disk: &OnDisk,
    writer: &SyncSender<WriterMessage>,
    scanned: &Path,
    (begin, now): (u64, i64),
) -> Result<SnapshotHead, StoreError> {
    let engine = core.engine();
    let pairs = engine_pairs(core, &*engine);
    playgate_process::files::make_directory(&disk.layout.snapshots(), disk.layout.sync)?;
    // The intermediate file is neither synced nor verified.
    format::write(scanned, &head(disk, begin, now), pairs, false, &|_| Ok(()))?;
    let number = run_exclusive(writer, |writer| writer.roll().map(|()| writer.number))?;
    let mut segments = disk.segments.read().all();
    segments.retain(|segment| segment.first > begin);
    let state = DurableState {
        snapshot: Some(Snapshot::open(scanned, &core.schema)?),
        segments,
        schema: &core.schema,
        last: disk.identity.lineage.commit(number),
    };
    write_file(disk, head(disk, number, now), state.pairs()?)
}

fn engine_pairs<'a>(
    core: &'a Shared,
    engine: &'a dyn Engine,
) -> impl Iterator<Item = Result<Triple, StoreError>> + 'a {
    // Snapshots are sorted by tree.
    let mut trees: Vec<_> = core.schema.trees().collect();
    trees.sort_unstable();
    trees.into_iter().flat_map(move |tree| {
        engine
            .scan(tree, &[], None)
            .map(move |pair| pair.map(|(key, value)| (tree, key, value)))
    })
}

/// Returns the size of snapshot and WAL, which is an upper bound for the next snapshot.
pub(crate) fn packed_bytes(disk: &OnDisk) -> u64 {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let segments = disk.segments.read().all();
    disk.snapshot_bytes() + segments.iter().map(|s| size(&s.path)).sum::<u64>()
}

pub(crate) fn write_file(
    disk: &OnDisk,
    head: SnapshotHead,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
) -> Result<SnapshotHead, StoreError> {
    let path = disk.snapshot_path(head.number);
    playgate_process::files::make_directory(&disk.layout.snapshots(), disk.layout.sync)?;
    // The new snapshot is verified and synced before the old ones are removed.
    format::write(
        &path,
        &head,
        pairs,
        disk.layout.sync,
        &*disk.verify_snapshot,
    )?;
    for entry in
        fs::read_dir(disk.layout.snapshots()).map_err(at("list", &disk.layout.snapshots()))?
    {
        let other = entry?.path();
        if other == path {
            continue;
        }
        // Left-over files of interrupted snapshots are removed as well.
        remove_file(&other, false)?;
    }
    Ok(head)
}

fn head(disk: &OnDisk, number: u64, now: i64) -> SnapshotHead {
    SnapshotHead {
        format: disk.identity.reached,
        instance: disk.identity.instance,
        number,
        created: now,
        records: None,
        notes: (disk.notes)(),
        history: disk.segments.read().history(number),
    }
}
