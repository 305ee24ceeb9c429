//! Compaction: builds a new engine while the old one is in use, to free unused space.
//!
//! sled frees little of the space it once used, in its file and in memory. An engine that has grown
//! far beyond its initial size is therefore replaced automatically.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

use crate::commit::writer::{WriterMessage, last_number, run_exclusive};
use crate::disk_space::{self, WritePriority};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::maintenance::new_snapshot;
use crate::recovery::engines::{make_engine, watched};
use crate::shared::{OnDisk, Shared};
use crate::snapshot::durable_state::{apply_to, replay};
use playgate_process::data_file::at;
use playgate_process::files::size_of;

/// An engine up to this size is never replaced.
const REPLACED_FROM_BYTES: u64 = 64 * 1024 * 1024;
/// Growth factor at which an engine is replaced.
const GROWTH_FACTOR: u64 = 4;
/// Multiples of the snapshot: the size limit for an engine of unknown initial size.
const SNAPSHOT_FACTOR: u64 = 8;
/// Upper bound of a new engine's size in multiples of the snapshot. Measured: 3.7 with 20,000
/// users, 1.9 with a million.
pub(crate) const NEW_ENGINE: u64 = 4;
/// The writer replays at most this many commits while it switches engines.
const REPLAYED_MAX: u64 = 64;
/// After this many attempts the writer replays more, so that steady traffic cannot prevent the switch.
const CATCH_UPS: u32 = 16;

pub(crate) fn compact(
    core: &Arc<Shared>,
    writer: &SyncSender<WriterMessage>,
    now: i64,
) -> Result<(u64, u64), StoreError> {
    core.engine().wait_until_ready()?;
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    // Checked first: a rebuild that runs out of space halfway has only made things worse.
    require_space(disk)?;
    // The new snapshot leaves few commits to replay.
    new_snapshot::with_all_commits(core, writer, now)?;
    // Locked before the directories are chosen: two compactions would choose the same one.
    let snapshot = disk.snapshot.lock();
    let old = disk.layout.engines()?.0.ok_or(StoreError::Closed)?;
    let next = disk.layout.next_engine()?;
    let begin = snapshot.as_ref().map_or(0, |snapshot| snapshot.number);
    let state = core.durable_state(snapshot.as_ref(), begin)?;
    let made = make_engine(&next, &disk.layout, state, &AtomicBool::new(false))?;
    let before = size_of(&old.path);
    let engine = watched(made, &next, &core.failure.handler());
    match change_over(core, writer, Arc::new(engine), begin) {
        Ok(replaced) => drop(replaced),
        Err(error) => {
            // The new engine is marked as complete, so the next start would use it.
            let _ = fs::remove_dir_all(&next.path);
            return Err(error);
        }
    }
    // The files of the old engine are removed last: until the switch they are in use.
    fs::remove_dir_all(&old.path).map_err(at("remove", &old.path))?;
    Ok((before, size_of(&next.path)))
}

fn change_over(
    core: &Shared,
    writer: &SyncSender<WriterMessage>,
    engine: Arc<dyn Engine>,
    begin: u64,
) -> Result<Arc<dyn Engine>, StoreError> {
    let mut reached = begin;
    for _ in 0..CATCH_UPS {
        let number = last_number(writer)?;
        // The replay runs here and not on the writer thread, which must not wait.
        if number - reached <= REPLAYED_MAX {
            break;
        }
        let state = core.durable_state(None, number)?;
        replay(
            &state.segments,
            reached,
            state.last,
            state.schema,
            &mut apply_to(&*engine),
        )?;
        reached = number;
    }
    // The sync can be slow or fail, so it runs while the old engine is still in use.
    engine.sync()?;
    run_exclusive(writer, move |writer| writer.change_engine(engine, reached))
}

fn require_space(disk: &OnDisk) -> Result<(), StoreError> {
    let packed = new_snapshot::packed_bytes(disk);
    let old = disk.layout.engines()?.0;
    // A new engine is at most as large as the old one.
    let old = old.map_or(u64::MAX, |engine| size_of(&engine.path));
    disk_space::require_free(&disk.layout.store(), packed + old.min(NEW_ENGINE * packed))
}

pub(crate) struct Waste {
    pub(crate) enough: u64,
    /// Path and initial size of the current engine.
    new: Option<(PathBuf, u64)>,
}

impl Default for Waste {
    fn default() -> Self {
        Self {
            enough: REPLACED_FROM_BYTES,
            new: None,
        }
    }
}

impl Waste {
    /// Compacts an engine that is far larger than needed, if there is space for another one.
    pub(crate) fn compact_if_wasteful(
        &mut self,
        core: &Arc<Shared>,
        writer: &SyncSender<WriterMessage>,
        now: i64,
    ) -> Result<(), StoreError> {
        let Some(disk) = &core.disk else {
            return Ok(());
        };
        // A rebuild in progress produces a compact engine anyway.
        if !core.engine().is_ready() {
            return Ok(());
        }
        let Some(engine) = disk.layout.engines()?.0 else {
            return Ok(());
        };
        let allowed = match &self.new {
            Some((path, size)) if *path == engine.path => GROWTH_FACTOR * size,
            _ => SNAPSHOT_FACTOR * disk.snapshot_bytes(),
        };
        let allowed = allowed.max(self.enough);
        // A disk that runs low needs compaction most, but it must have room for both engines.
        let room = disk.space.admits(WritePriority::Telemetry) && disk.space.bytes().0 > allowed;
        if size_of(&engine.path) <= allowed || !room {
            return Ok(());
        }
        let (before, after) = compact(core, writer, now)?;
        tracing::info!(before, after, "compacted the engine, which had grown");
        self.new = disk.layout.engines()?.0.map(|new| (new.path, after));
        Ok(())
    }
}
