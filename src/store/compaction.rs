//! Making the engine anew beside the one that serves: what the old one held on to is free again.
//!
//! sled frees little of what it has once written, in its file and in memory, so an engine that takes
//! far more than it did when it was new is replaced without being asked for.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

use super::durable_state::replay;
use super::engine::Engine;
use super::files::size_of;
use super::shared::{OnDisk, Shared};
use super::writer::{Message, last_number, run_exclusive};
use super::{StoreError, WritePriority, disk_space, maintenance, recovery};

const ENOUGH: u64 = 64 * 1024 * 1024;
/// How many times the size that it had when it was new an engine may grow to.
const GROWTH: u64 = 4;
/// How many times the base, which is packed, an engine may take whose size as a new one is not known.
const UNPACKED: u64 = 8;
/// How many times the base a new engine takes at the most: 3.7 of 20,000 users, 1.9 of a million.
pub(super) const NEW_ENGINE: u64 = 4;
/// The writer waits for a new engine while it is given so many commits at the most...
const FEW: u64 = 64;
/// ...unless more come each time than it can be given meanwhile.
const CATCH_UPS: u32 = 16;

/// Makes the engine anew; the bytes that it took before, and takes now.
pub(super) fn compact(
    core: &Arc<Shared>,
    writer: &SyncSender<Message>,
    now: i64,
) -> Result<(u64, u64), StoreError> {
    core.engine().wait_until_ready()?;
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    ask_for_room(disk)?;
    maintenance::renew_whole(core, writer, now)?;
    // Before anything is chosen: two that run at once would make the same engine.
    let base = disk.base.lock();
    let old = disk.place.engines()?.0.ok_or(StoreError::Closed)?;
    let next = disk.place.next_engine()?;
    let begin = base.as_ref().map_or(0, |base| base.number);
    let truth = maintenance::truth(core, base.as_ref(), begin)?;
    let made = recovery::make_engine(&next, &disk.place, truth, &AtomicBool::new(false))?;
    let before = size_of(&old.path);
    let engine = recovery::guarded(made, &next, &core.failure.handler());
    match change_over(core, writer, Arc::new(engine), begin) {
        Ok(replaced) => drop(replaced),
        Err(error) => {
            // It is marked as whole, and the next start would take it for the newest.
            let _ = fs::remove_dir_all(&next.path);
            return Err(error);
        }
    }
    fs::remove_dir_all(&old.path)?;
    Ok((before, size_of(&next.path)))
}

/// Brings an engine that has everything up to a commit forward while commits go on, and has the writer
/// change over to it once little is missing. Gives back the engine that is not used any more.
fn change_over(
    core: &Shared,
    writer: &SyncSender<Message>,
    engine: Arc<dyn Engine>,
    begin: u64,
) -> Result<Arc<dyn Engine>, StoreError> {
    let mut reached = begin;
    for _ in 0..CATCH_UPS {
        let number = last_number(writer)?;
        if number - reached <= FEW {
            break;
        }
        let truth = maintenance::truth(core, None, number)?;
        replay(&truth.segments, reached, number, truth.schema, &*engine)?;
        reached = number;
    }
    engine.sync()?;
    run_exclusive(writer, move |writer| writer.change_engine(engine, reached))
}

/// Refuses what would not fit beside everything else: a new base, and a new engine.
fn ask_for_room(disk: &OnDisk) -> Result<(), StoreError> {
    let packed = maintenance::packed_bytes(disk);
    let old = disk.place.engines()?.0;
    let old = old.map_or(u64::MAX, |engine| size_of(&engine.path));
    disk_space::require_free(&disk.place.store(), packed + old.min(NEW_ENGINE * packed))
}

/// Watches what the engine takes.
pub(super) struct Waste {
    /// An engine may take this much, whatever it holds.
    pub(super) enough: u64,
    /// Which engine took how much when it was new.
    new: Option<(PathBuf, u64)>,
}

impl Default for Waste {
    fn default() -> Self {
        Self {
            enough: ENOUGH,
            new: None,
        }
    }
}

impl Waste {
    /// Makes the engine anew if it takes far more than it needs, and there is room for another one.
    pub(super) fn clear(
        &mut self,
        core: &Arc<Shared>,
        writer: &SyncSender<Message>,
        now: i64,
    ) -> Result<(), StoreError> {
        let Some(disk) = &core.disk else {
            return Ok(());
        };
        if !core.engine().is_ready() {
            return Ok(());
        }
        let Some(engine) = disk.place.engines()?.0 else {
            return Ok(());
        };
        let allowed = match &self.new {
            Some((path, size)) if *path == engine.path => GROWTH * size,
            _ => UNPACKED * base_bytes(disk),
        };
        let allowed = allowed.max(self.enough);
        let room = disk.space.admits(WritePriority::Telemetry) && disk.space.bytes().0 > allowed;
        if size_of(&engine.path) <= allowed || !room {
            return Ok(());
        }
        let (before, after) = compact(core, writer, now)?;
        tracing::info!(before, after, "the engine had grown, and was made anew");
        self.new = disk.place.engines()?.0.map(|new| (new.path, after));
        Ok(())
    }
}

fn base_bytes(disk: &OnDisk) -> u64 {
    let base = disk.base.lock().as_ref().map(|base| base.number);
    let file = base.and_then(|number| fs::metadata(disk.base_path(number)).ok());
    file.map_or(0, |file| file.len())
}
