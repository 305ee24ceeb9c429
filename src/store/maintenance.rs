//! What the store does beside reading and writing: it watches the disk, syncs the engine, keeps base
//! and log short, and goes back to work when space has come back.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::StoreError;
use super::compaction::Waste;
use super::durable_state::DurableState;
use super::engine::{Engine, MemoryEngine};
use super::recovery::{Recovered, Recovery};
use super::shared::{OnDisk, Shared};
use super::snapshot::{self, Snapshot, SnapshotHead, Triple};
use super::wal::{Closed, Expected, FileLog, Segment, Survey};
use super::writer::{Message, Writer, last_number, run_exclusive};

/// How often the disk is looked at.
const TICK: Duration = Duration::from_millis(500);
/// How often the engine is synced and the log cut.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);
/// How often base and log are read to see that they still can be, and how soon after the start.
const SCRUB_EVERY: Duration = Duration::from_secs(6 * 3_600);
const SCRUB_AFTER: Duration = Duration::from_secs(60);
/// How often a store that cannot write tries to.
const RESUME_EVERY: Duration = Duration::from_secs(2);
/// The log grows by as much as the base, and at least by this, before there is a new base: each byte
/// is written to bases about once.
const LOG_BYTES: u64 = 16 * 1024 * 1024;

/// The thread that keeps a store on a disk.
pub(super) struct MaintenanceThread {
    pub(super) core: Weak<Shared>,
    pub(super) writer: SyncSender<Message>,
    pub(super) on_failure: super::OnFailure,
    pub(super) backups: Option<PathBuf>,
    pub(super) clock: super::Clock,
}

impl MaintenanceThread {
    /// Keeps the store until told to stop.
    pub(super) fn run(self, stopped: &Receiver<()>) {
        // Each start begins a segment: a process that is started again and again, and never lives until
        // its first checkpoint, would fill the disk with them.
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
            if core.failure.get().is_some() {
                continue;
            }
            if let Some(refused) = disk.space.check() {
                match refused {
                    Some(need) => tracing::warn!("the disk runs full: {}", need.refusal()),
                    None => tracing::info!("there is space again"),
                }
            }
            super::files::fill_reserve();
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
                    self.attempt(&core, |core, _| scrub_truth(core));
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
                tracing::error!(%error, "base and log are damaged; the engine becomes the new base");
                renew_from_engine(core, &self.writer, now).map(drop)
            }
            other => other,
        };
        match core.or_fail(kept) {
            Ok(()) | Err(StoreError::Closed) => {}
            // The log keeps everything meanwhile.
            Err(error) => tracing::error!(%error, "the store could not be tidied up"),
        }
    }

    /// The engine has no space to go on. Everything is in base and log, so memory takes its place, and
    /// nothing is written until there is space.
    fn fall_back_to_memory(&self, core: &Shared, disk: &OnDisk) {
        // Somebody reads base and log; the next look tries again.
        let Some(base) = disk.base.try_lock() else {
            return;
        };
        let left = last_number(&self.writer).and_then(|number| {
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

    /// Goes back to the engine on the disk, if the disk can be written again.
    fn resume(&self, core: &Shared, disk: &OnDisk) {
        if !disk.space.admits(super::WritePriority::Change) {
            return;
        }
        // Whoever compares the engine with base and log goes on with the one that is there.
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
            Err(error) if error.passes() => {}
            Err(error) => drop(core.failure.report(&error)),
        }
    }
}

/// Makes what the engine has survive a power cut, and retires the segments that neither it nor the
/// base needs.
pub(super) fn checkpoint(core: &Shared) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    if !core.is_writable() {
        return Ok(());
    }
    let engine = core.engine();
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
    // Whoever reads base and log holds them: the next checkpoint retires what is not needed.
    let Some(base) = disk.base.try_lock() else {
        return Ok(());
    };
    let kept = base.as_ref().map_or(0, |base| base.number);
    let segments = disk.segments.read();
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
        .filter(|(_, next)| *next > from + 1)
        .map(|(segment, _)| fs::metadata(&segment.path).map_or(0, |file| file.len()));
    let log: u64 = sizes.sum();
    let size = base.map_or(0, |base| {
        fs::metadata(disk.base_path(base.number)).map_or(0, |file| file.len())
    });
    if log <= LOG_BYTES.max(size) {
        return Ok(());
    }
    // What it takes is not asked for where it would be the last that there is.
    if !disk.space.admits(super::WritePriority::Telemetry) || disk.space.bytes().0 < size + log {
        return Ok(());
    }
    renew(core, now).map(drop)
}

/// Closes the segment that is written to, so that the new base has everything that was committed.
pub(super) fn renew_whole(
    core: &Shared,
    writer: &SyncSender<Message>,
    now: i64,
) -> Result<SnapshotHead, StoreError> {
    run_exclusive(writer, Writer::roll)?;
    renew(core, now)
}

/// Makes a new base of the base and the closed segments; retires what nobody needs any more.
pub(super) fn renew(core: &Shared, now: i64) -> Result<SnapshotHead, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let mut base = disk.base.lock();
    let begin = base.as_ref().map_or(0, |base| base.number);
    let closed = disk.segments.read().closed();
    let Closed { segments, number } = match closed {
        Some(closed) if closed.number > begin => closed,
        _ => match &*base {
            Some(base) => return Ok(base.clone()),
            // Nothing was ever committed: the base of nothing.
            None => Closed {
                segments: Vec::new(),
                number: 0,
            },
        },
    };
    let pairs = truth_over(core, disk, base.as_ref(), segments, number)?.pairs()?;
    let made = put_base(disk, head(disk, number, now), pairs)?;
    *base = Some(made.clone());
    drop(base);
    checkpoint(core)?;
    Ok(made)
}

/// Reads the base and the closed segments to their end: damage is found while the engine still has
/// everything, and not when it has failed.
fn scrub_truth(core: &Shared) -> Result<(), StoreError> {
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

/// Base and log as of a commit. Whoever asks holds the lock of the base, so that none of it is
/// retired: the writer never waits for it, since a new base takes as long as the disk does.
pub(super) fn truth<'a>(
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

/// Makes a new base of what the engine holds, where base and log are no whole any more. Nothing is
/// committed meanwhile, and the engine has everything.
pub(super) fn base_from_engine(core: &Shared, number: u64, now: i64) -> Result<(), StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    let engine = core.engine();
    let mut base = disk.base.try_lock().ok_or(StoreError::Overloaded)?;
    let pairs = engine_pairs(core, &*engine);
    *base = Some(put_base(disk, head(disk, number, now), pairs)?);
    tracing::warn!(
        number,
        "base and log were no whole; the engine is the new base"
    );
    Ok(())
}

/// The same while commits go on. The engine moves while it is read, so what is read of it is of no one
/// moment. All that has changed since the first pair was read is in the log, in segments that are
/// sound since they have just been begun: with those over it, it is as of their last commit.
pub(super) fn renew_from_engine(
    core: &Shared,
    writer: &SyncSender<Message>,
    now: i64,
) -> Result<SnapshotHead, StoreError> {
    let disk = core.disk.as_ref().ok_or(StoreError::Closed)?;
    core.engine().wait_until_ready()?;
    let mut base = disk.base.lock();
    let begin = run_exclusive(writer, |writer| writer.roll().map(|()| writer.number))?;
    core.tail.reach(begin)?;
    let blurred = disk.place.base().join("engine.unproven");
    let made = from_moving_engine(core, disk, writer, &blurred, (begin, now));
    if made.is_err() {
        // Otherwise it went with everything else that lay beside the new base.
        let _ = fs::remove_file(&blurred);
    }
    *base = Some(made.clone()?);
    tracing::warn!(
        begin,
        "base and log were no whole; the engine is the new base"
    );
    made
}

fn from_moving_engine(
    core: &Shared,
    disk: &OnDisk,
    writer: &SyncSender<Message>,
    blurred: &Path,
    (begin, now): (u64, i64),
) -> Result<SnapshotHead, StoreError> {
    let engine = core.engine();
    let pairs = engine_pairs(core, &*engine);
    super::files::make_directory(&disk.place.base(), disk.place.sync)?;
    snapshot::write(blurred, &head(disk, begin, now), pairs, false, &|_| Ok(()))?;
    let number = run_exclusive(writer, |writer| writer.roll().map(|()| writer.number))?;
    let mut segments = disk.segments.read().all();
    segments.retain(|segment| segment.first > begin);
    let truth = DurableState {
        base: Some(Snapshot::open(blurred, &core.schema)?),
        segments,
        schema: &core.schema,
        number,
    };
    put_base(disk, head(disk, number, now), truth.pairs()?)
}

/// Every pair of an engine, sorted by tree and key.
fn engine_pairs<'a>(
    core: &'a Shared,
    engine: &'a dyn Engine,
) -> impl Iterator<Item = Result<Triple, StoreError>> + 'a {
    let mut trees: Vec<_> = core.schema.trees().collect();
    trees.sort_unstable();
    trees.into_iter().flat_map(move |tree| {
        engine
            .scan(tree, &[], None)
            .map(move |pair| pair.map(|(key, value)| (tree, key, value)))
    })
}

/// The bytes of base and log: no new base takes more.
pub(super) fn packed_bytes(disk: &OnDisk) -> u64 {
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    let base = disk.base.lock().as_ref().map(|base| base.number);
    let segments = disk.segments.read().all();
    base.map_or(0, |number| size(&disk.base_path(number)))
        + segments.iter().map(|s| size(&s.path)).sum::<u64>()
}

/// Writes a base, proves it, and removes those before it.
pub(super) fn put_base(
    disk: &OnDisk,
    head: SnapshotHead,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
) -> Result<SnapshotHead, StoreError> {
    let path = disk.base_path(head.number);
    super::files::make_directory(&disk.place.base(), disk.place.sync)?;
    snapshot::write(&path, &head, pairs, disk.place.sync, &*disk.prove)?;
    for entry in fs::read_dir(disk.place.base())? {
        let other = entry?.path();
        if other == path {
            continue;
        }
        match fs::remove_file(other) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(head)
}

/// What a snapshot of this store says of itself.
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

/// The log that a store goes on with, and the segments of it, as everyone else sees them.
pub(super) fn adopt_log(core: &Shared, log: &FileLog) {
    if let Some(disk) = &core.disk {
        *disk.segments.write() = log.segments();
    }
}
