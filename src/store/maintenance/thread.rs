//! The maintenance thread: checks disk space, syncs the engine, keeps the WAL short with new snapshots, and
//! resumes writing when space is available again. It must never make the writer wait for slow work.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::store::commit::writer::{Message, Writer, last_number, run_exclusive};
use crate::store::engine::{Engine, MemoryEngine};
use crate::store::maintenance::compaction::Waste;
use crate::store::recovery::opening::{Recovered, Recovery};
use crate::store::shared::{OnDisk, Shared};
use crate::store::snapshot::durable_state::DurableState;
use crate::store::snapshot::format::{self, Snapshot, SnapshotHead, Triple};
use crate::store::wal::{Closed, Expected, FileLog, Segment, Survey};

/// How often the free disk space is checked.
const TICK: Duration = Duration::from_millis(500);
/// How often the engine is synced and WAL segments are retired.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);
/// How often snapshot and WAL are scrubbed, and how soon after the start for the first time.
const SCRUB_EVERY: Duration = Duration::from_secs(6 * 3_600);
const SCRUB_AFTER: Duration = Duration::from_secs(60);
const RESUME_EVERY: Duration = Duration::from_secs(2);
/// Minimum WAL size before a new snapshot is written. The WAL also has to be as large as the
/// snapshot, so that each byte is written to snapshots about once.
const LOG_BYTES: u64 = 16 * 1024 * 1024;

pub(in crate::store) struct MaintenanceThread {
    pub(in crate::store) core: Weak<Shared>,
    pub(in crate::store) writer: SyncSender<Message>,
    pub(in crate::store) on_failure: crate::store::OnFailure,
    pub(in crate::store) backups: Option<PathBuf>,
    pub(in crate::store) clock: crate::store::Clock,
}

impl MaintenanceThread {
    pub(in crate::store) fn run(self, stopped: &Receiver<()>) {
        // Each start begins a segment. Without this check a process that restarts in a loop and
        // never reaches its first checkpoint would fill the disk with segments.
        if let Some(core) = self.core.upgrade()
            && core.is_writable()
        {
            self.attempt(&core, |core, now| renew_if_long(core, now));
        }
        let (mut checkpointed, mut resumed) = (Instant::now(), Instant::now());
        let mut scrub = Instant::now() + SCRUB_AFTER;
        let mut waste = Waste::default();
        while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let Some(core) = self.core.upgrade() else {
                return;
            };
            let Some(disk) = &core.disk else { return };
            // A failed store is not touched any more: the next start recovers it.
            if core.failure.get().is_some() {
                continue;
            }
            if let Some(refused) = disk.space.check() {
                match refused {
                    Some(need) => tracing::warn!("disk space is low: {}", need.refusal()),
                    None => tracing::info!("disk space is available again"),
                }
            }
            // Connections may have used the reserve up.
            crate::store::files::fill_reserve();
            if core.tail.is_stalled() {
                self.fall_back_to_memory(&core, disk);
            } else if !core.is_writable() && resumed.elapsed() >= RESUME_EVERY {
                resumed = Instant::now();
                self.resume(&core, disk);
            } else if core.is_writable() && checkpointed.elapsed() >= CHECKPOINT_EVERY {
                checkpointed = Instant::now();
                self.attempt(&core, |core, now| {
                    checkpoint(core)?;
                    renew_if_long(core, now)?;
                    waste.clear(core, &self.writer, now)
                });
                if scrub <= Instant::now() {
                    scrub = Instant::now() + SCRUB_EVERY;
                    self.attempt(&core, |core, _| scrub_durable_state(core));
                }
            }
        }
    }

    fn attempt(
        &self,
        core: &Arc<Shared>,
        work: impl FnOnce(&Arc<Shared>, i64) -> Result<(), StoreError>,
    ) {
        let now = (self.clock)();
        let kept = match work(core, now) {
            Err(error @ StoreError::Damaged { .. }) => {
                // The engine has every record, and replacing both files at once restores two copies.
                tracing::error!(%error, "snapshot or WAL is damaged; replacing it from the engine");
                renew_from_engine(core, &self.writer, now).map(drop)
            }
            other => other,
        };
        match core.or_fail(kept) {
            Ok(()) | Err(StoreError::Closed) => {}
            // Nothing is lost: the WAL retains everything until maintenance succeeds.
            Err(error) => tracing::error!(%error, "store maintenance failed; it will be retried"),
        }
    }

    fn fall_back_to_memory(&self, core: &Shared, disk: &OnDisk) {
        // Another thread is reading snapshot and WAL; the next tick tries again.
        let Some(base) = disk.base.try_lock() else {
            return;
        };
        let left = last_number(&self.writer).and_then(|number| {
            // Snapshot and WAL are loaded here; the writer only swaps the engines.
            let memory = MemoryEngine::default();
            truth(core, base.as_ref(), number)?.load(&memory)?;
            run_exclusive(&self.writer, move |writer| {
                Ok(writer.detach_engine(memory, number))
            })
        });
        match left {
            // sled can panic when it is closed on a full disk.
            Ok(old) => drop(catch_unwind(AssertUnwindSafe(|| drop(old)))),
            Err(error) if error.passes() || error == StoreError::Closed => {}
            Err(error) => drop(core.failure.report(&error)),
        }
    }

    fn resume(&self, core: &Shared, disk: &OnDisk) {
        // Reopening writes a segment and perhaps an engine, which must not fill the disk again.
        if !disk.space.admits(crate::store::WritePriority::Change) {
            return;
        }
        // A verification in progress must finish with the engine it started with.
        let Some(_base) = disk.base.try_lock() else {
            return;
        };
        let recovered = disk.place.identity().and_then(|identity| {
            Recovery {
                place: &disk.place,
                schema: &core.schema,
                on_failure: Arc::clone(&self.on_failure),
                identity,
                seed: disk.seed,
                // Only an operator may give up commits.
                accept_loss: false,
                backups: self.backups.as_deref(),
                make_room: &|| false,
                patience: Duration::ZERO,
                rebuilt_from: Arc::default(),
            }
            .run()
        });
        let resumed = match recovered {
            Ok(Recovered {
                engine,
                log: Some(log),
                number,
                ..
            }) => run_exclusive(&self.writer, move |writer| {
                writer.resume(engine, log, number);
                Ok(())
            }),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match resumed {
            Ok(()) | Err(StoreError::Closed) => {}
            // The disk became full again; the next tick repeats the attempt.
            Err(error) if error.passes() => {}
            Err(error) => drop(core.failure.report(&error)),
        }
    }
}

pub(in crate::store) fn checkpoint(core: &Shared) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    if !core.is_writable() {
        return Ok(());
    }
    let engine = core.engine();
    // Read before the sync, which may also cover later batches.
    let synced = engine.applied().and_then(|applied| {
        engine.sync()?;
        Ok(applied)
    });
    let applied = match synced {
        Ok(applied) => applied,
        Err(StoreError::Full) => {
            core.tail.stall();
            return Err(StoreError::Full);
        }
        Err(error) => return Err(core.failure.report(&error)),
    };
    // A reader of snapshot and WAL holds this lock. The next checkpoint retires the segments.
    let Some(base) = disk.base.try_lock() else {
        return Ok(());
    };
    let kept = base.as_ref().map_or(0, |base| base.number);
    let segments = disk.segments.read();
    // Bounds the age of the end record that a power cut leaves: one checkpoint.
    segments.want_end_synced();
    segments.retire(applied.min(kept))
}

fn renew_if_long(core: &Shared, now: i64) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    let closed = disk.segments.read().closed();
    let Some(Closed { segments, number }) = closed else {
        return Ok(());
    };
    let base = disk.base.lock().clone();
    let from = base.as_ref().map_or(0, |base| base.number);
    let sizes = segments
        .iter()
        .zip(
            segments
                .iter()
                .skip(1)
                .map(|next| next.first)
                .chain([number + 1]),
        )
        // Only segments with commits that the snapshot lacks.
        .filter(|(_, next)| *next > from + 1)
        .map(|(segment, _)| fs::metadata(&segment.path).map_or(0, |file| file.len()));
    let log: u64 = sizes.sum();
    let size = base.map_or(0, |base| {
        fs::metadata(disk.base_path(base.number)).map_or(0, |file| file.len())
    });
    if log <= LOG_BYTES.max(size) {
        return Ok(());
    }
    // A new snapshot is optional, so it must not use up the last free space.
    if !disk.space.admits(crate::store::WritePriority::Telemetry)
        || disk.space.bytes().0 < size + log
    {
        return Ok(());
    }
    renew(core, now).map(drop)
}

pub(in crate::store) fn renew_whole(
    core: &Shared,
    writer: &SyncSender<Message>,
    now: i64,
) -> Result<SnapshotHead, StoreError> {
    // The open segment is closed, so that its commits are part of the snapshot.
    run_exclusive(writer, Writer::roll)?;
    renew(core, now)
}

/// From the current snapshot and the closed segments.
pub(in crate::store) fn renew(core: &Shared, now: i64) -> Result<SnapshotHead, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let mut base = disk.base.lock();
    let begin = base.as_ref().map_or(0, |base| base.number);
    let closed = disk.segments.read().closed();
    let Closed { segments, number } = match closed {
        Some(closed) if closed.number > begin => closed,
        // Nothing new was committed.
        _ => match &*base {
            Some(base) => return Ok(base.clone()),
            // Nothing was ever committed: write an empty snapshot.
            None => Closed {
                segments: Vec::new(),
                number: 0,
            },
        },
    };
    let pairs = truth_over(core, disk, base.as_ref(), segments, number)?.pairs()?;
    let made = put_base(disk, head(disk, number, now), pairs)?;
    *base = Some(made.clone());
    // Released before the checkpoint, which takes the same lock to retire segments.
    drop(base);
    checkpoint(core)?;
    Ok(made)
}

/// Finds damage while the engine still has every record.
fn scrub_durable_state(core: &Shared) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    let base = disk.base.lock();
    if let Some(base) = &*base {
        Snapshot::open(&disk.base_path(base.number), &core.schema)?
            .try_for_each(|pair| pair.map(drop))?;
    }
    let Some(closed) = disk.segments.read().closed() else {
        return Ok(());
    };
    match Survey::over(closed.segments, &Expected::default())?
        .gaps
        .first()
    {
        None => Ok(()),
        Some(gap) => Err(StoreError::Damaged {
            place: gap.path.display().to_string(),
            what: format!("misses commits {} to {}", gap.from, gap.to - 1),
        }),
    }
}

/// The durable state as of a commit. The caller holds the lock of the snapshot, so that no file is
/// removed. The writer must not wait for that lock: writing a snapshot is slow.
pub(in crate::store) fn truth<'a>(
    core: &'a Shared,
    base: Option<&SnapshotHead>,
    number: u64,
) -> Result<DurableState<'a>, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let segments = disk.segments.read().all();
    truth_over(core, disk, base, segments, number)
}

fn truth_over<'a>(
    core: &'a Shared,
    disk: &OnDisk,
    base: Option<&SnapshotHead>,
    segments: Vec<Segment>,
    number: u64,
) -> Result<DurableState<'a>, StoreError> {
    Ok(DurableState {
        base: base
            .map(|base| Snapshot::open(&disk.base_path(base.number), &core.schema))
            .transpose()?,
        segments,
        schema: &core.schema,
        number,
    })
}

/// Nothing may be committed while this runs.
pub(in crate::store) fn base_from_engine(
    core: &Shared,
    number: u64,
    now: i64,
) -> Result<(), StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let engine = core.engine();
    let mut base = disk.base.try_lock().ok_or(StoreError::Overloaded)?;
    let pairs = engine_pairs(core, &*engine);
    *base = Some(put_base(disk, head(disk, number, now), pairs)?);
    tracing::warn!(
        number,
        "snapshot and WAL had a gap; wrote a snapshot from the engine"
    );
    Ok(())
}

/// Like [`base_from_engine`], while commits continue.
pub(in crate::store) fn renew_from_engine(
    core: &Shared,
    writer: &SyncSender<Message>,
    now: i64,
) -> Result<SnapshotHead, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    core.engine().wait_until_ready()?;
    let mut base = disk.base.lock();
    // A scan of a changing engine is inconsistent, but all changes since `begin` are in new and
    // therefore sound WAL segments. Merging these over the scan gives the state as of their last
    // commit.
    let begin = run_exclusive(writer, |writer| writer.roll().map(|()| writer.number))?;
    // The scan must not miss a commit up to `begin` that is still in the memtable.
    core.tail.reach(begin)?;
    let scanned = disk.place.base().join("engine.unproven");
    let made = from_moving_engine(core, disk, writer, &scanned, (begin, now));
    if made.is_err() {
        // On success, `put_base` has removed this file with the other old ones.
        let _ = fs::remove_file(&scanned);
    }
    *base = Some(made.clone()?);
    tracing::warn!(
        begin,
        "snapshot and WAL had a gap; wrote a snapshot from the engine"
    );
    made
}

fn from_moving_engine(
    core: &Shared,
    disk: &OnDisk,
    writer: &SyncSender<Message>,
    scanned: &Path,
    (begin, now): (u64, i64),
) -> Result<SnapshotHead, StoreError> {
    let engine = core.engine();
    let pairs = engine_pairs(core, &*engine);
    crate::store::files::make_directory(&disk.place.base(), disk.place.sync)?;
    // Not synced and not verified: it is an intermediate file.
    format::write(scanned, &head(disk, begin, now), pairs, false, &|_| Ok(()))?;
    let number = run_exclusive(writer, |writer| writer.roll().map(|()| writer.number))?;
    let mut segments = disk.segments.read().all();
    segments.retain(|segment| segment.first > begin);
    let truth = DurableState {
        base: Some(Snapshot::open(scanned, &core.schema)?),
        segments,
        schema: &core.schema,
        number,
    };
    put_base(disk, head(disk, number, now), truth.pairs()?)
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

/// Bytes of snapshot and WAL: an upper bound for the next snapshot.
pub(in crate::store) fn packed_bytes(disk: &OnDisk) -> u64 {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let base = disk.base.lock().as_ref().map(|base| base.number);
    let segments = disk.segments.read().all();
    base.map_or(0, |number| size(&disk.base_path(number)))
        + segments.iter().map(|s| size(&s.path)).sum::<u64>()
}

pub(in crate::store) fn put_base(
    disk: &OnDisk,
    head: SnapshotHead,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
) -> Result<SnapshotHead, StoreError> {
    let path = disk.base_path(head.number);
    crate::store::files::make_directory(&disk.place.base(), disk.place.sync)?;
    // The new snapshot is verified and synced before the old ones are removed.
    format::write(&path, &head, pairs, disk.place.sync, &*disk.prove)?;
    for entry in fs::read_dir(disk.place.base())? {
        let other = entry?.path();
        if other == path {
            continue;
        }
        // Left-over files of interrupted snapshots are removed as well.
        match fs::remove_file(other) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
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

pub(in crate::store) fn adopt_log(core: &Shared, log: &FileLog) {
    if let Some(disk) = &core.disk {
        *disk.segments.write() = log.segments();
    }
}
