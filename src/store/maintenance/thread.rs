//! The maintenance thread: checks disk space, syncs the engine, keeps the WAL short with new snapshots, and
//! resumes writing when space is available again. It must never make the writer wait for slow work.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::commit::writer::{WriterMessage, last_number, run_exclusive};
use crate::disk_space::WritePriority;
use crate::engine::MemoryEngine;
use crate::error::StoreError;
use crate::lock::StoreLock;
use crate::maintenance::checkpoint::checkpoint;
use crate::maintenance::compaction::Waste;
use crate::maintenance::{missing_files, new_snapshot};
use crate::recovery::task::{Opened, Recovered, Recovery};
use crate::shared::{OnDisk, Shared};
use crate::snapshot::durable_state::apply_to;
use crate::snapshot::format::Snapshot;
use crate::wal::{Closed, Expected, Survey};
use playgate_process::descriptor_reserve;

const TICK: Duration = Duration::from_millis(500);
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);
/// How often snapshot and WAL are scrubbed, and how soon after the start for the first time.
const SCRUB_EVERY: Duration = Duration::from_secs(6 * 3_600);
const SCRUB_AFTER: Duration = Duration::from_secs(60);
const RESUME_EVERY: Duration = Duration::from_secs(2);
/// Minimum WAL size before a new snapshot is written. The WAL also has to be as large as the
/// snapshot, so that each byte is written to snapshots about once.
const LOG_BYTES: u64 = 16 * 1024 * 1024;
/// Before the first checkpoint the WAL may be this many times as large as the snapshot: writing a large snapshot while the
/// memory tables are filled delays the start.
const SNAPSHOTS_AT_START: u64 = 4;

pub(crate) struct MaintenanceThread {
    pub(crate) core: Weak<Shared>,
    pub(crate) writer: SyncSender<WriterMessage>,
    pub(crate) on_failure: crate::failure::OnFailure,
    pub(crate) backups: Option<PathBuf>,
    pub(crate) clock: crate::shared::SnapshotClock,
    /// The lock of the data directory; another one if its file was deleted.
    pub(crate) locks: Vec<StoreLock>,
}

impl MaintenanceThread {
    pub(crate) fn run(mut self, stopped: &Receiver<()>) {
        // Each start begins a segment. Without this check a process that restarts in a loop and
        // never reaches its first checkpoint would fill the disk with segments.
        if let Some(core) = self.core.upgrade()
            && core.is_writable()
        {
            self.attempt(&core, |core, now| {
                write_snapshot_if_wal_is_long(core, now, SNAPSHOTS_AT_START)
            });
        }
        let (mut checkpointed, mut resumed) = (Instant::now(), Instant::now());
        let mut scrub = Instant::now() + SCRUB_AFTER;
        let mut waste = Waste::default();
        while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let Some(core) = self.core.upgrade() else {
                return;
            };
            let Some(disk) = &core.disk else { return };
            // A failed store is left alone. The next start recovers it.
            if core.failure.get().is_some() {
                continue;
            }
            if let Some(refused) = disk.space.check() {
                match refused {
                    Some(need) => tracing::warn!(
                        free_bytes = disk.space.bytes().0,
                        "disk space is low: {}; free disk space",
                        need.refusal()
                    ),
                    None => tracing::info!("disk space is available again"),
                }
            }
            if !disk.space.admits(WritePriority::Change) {
                // What the engine cannot store is found out while its commits are few, and not when there is space again.
                core.memtable.hurry();
            }
            // Connections may have used up the reserve.
            descriptor_reserve::fill();
            missing_files::restore_lock(&core, &mut self.locks);
            if core.is_writable() {
                self.attempt(&core, |core, now| {
                    missing_files::restore(core, &self.writer, now)
                });
            }
            if core.memtable.is_stalled() {
                self.fall_back_to_memory(&core, disk);
            } else if !core.is_writable() && resumed.elapsed() >= RESUME_EVERY {
                resumed = Instant::now();
                self.resume(&core, disk);
            } else if core.is_writable() && checkpointed.elapsed() >= CHECKPOINT_EVERY {
                checkpointed = Instant::now();
                self.attempt(&core, |core, now| {
                    checkpoint(core)?;
                    write_snapshot_if_wal_is_long(core, now, 1)?;
                    waste.compact_if_wasteful(core, &self.writer, now)
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
                // The engine has every record. With a new snapshot, there are two copies of it again.
                tracing::error!(%error, "snapshot or WAL is damaged; replacing it from the engine");
                new_snapshot::from_running_engine(core, &self.writer, now).map(drop)
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
        let Some(snapshot) = disk.snapshot.try_lock() else {
            return;
        };
        let left = last_number(&self.writer).and_then(|number| {
            // Snapshot and WAL are loaded here; the writer only swaps the engines.
            let memory = MemoryEngine::default();
            core.durable_state(snapshot.as_ref(), number)?
                .load(&mut apply_to(&memory))?;
            run_exclusive(&self.writer, move |writer| {
                Ok(writer.detach_engine(memory, number))
            })
        });
        match left {
            // sled can panic when it is closed on a full disk.
            Ok(old) => drop(catch_unwind(AssertUnwindSafe(|| drop(old)))),
            Err(error) if error.is_transient() || error == StoreError::Closed => {}
            Err(error) => drop(core.failure.report(&error)),
        }
    }

    fn resume(&self, core: &Shared, disk: &OnDisk) {
        // Reopening writes a segment and perhaps an engine, which must not fill the disk again.
        if !disk.space.admits(WritePriority::Change) {
            return;
        }
        // A verification in progress must finish with the engine it started with.
        let Some(_base) = disk.snapshot.try_lock() else {
            return;
        };
        let recovered = disk.layout.identity().and_then(|identity| {
            // A start may have had space for the engine but not for the WAL. Only the WAL is opened then.
            let engine = Some(core.engine()).filter(|engine| engine.is_on_disk());
            let held = match engine {
                Some(engine) => {
                    let number = last_number(&self.writer)?;
                    Some(Opened { engine, number })
                }
                None => None,
            };
            Recovery {
                layout: &disk.layout,
                schema: &core.schema,
                on_failure: Arc::clone(&self.on_failure),
                identity,
                seed: disk.seed,
                // Only an operator may accept a loss.
                accept_loss: false,
                fork: false,
                backups: self.backups.as_deref(),
                make_room: &|| false,
                // The maintenance thread must not wait for a rebuild.
                max_wait: Duration::ZERO,
                rebuilt_from: Arc::default(),
                needs_wal: true,
                held,
            }
            .run()
        });
        let resumed = recovered.and_then(|recovered| {
            let Recovered {
                engine,
                log,
                number,
                ..
            } = recovered;
            let log = log.ok_or(StoreError::Full)?;
            run_exclusive(&self.writer, move |writer| {
                writer.resume(engine, log, number);
                Ok(())
            })
        });
        match resumed {
            Ok(()) | Err(StoreError::Closed) => {}
            // The disk became full again; the next tick repeats the attempt.
            Err(error) if error.is_transient() => {}
            Err(error) => drop(core.failure.report(&error)),
        }
    }
}

fn write_snapshot_if_wal_is_long(
    core: &Shared,
    now: i64,
    snapshots: u64,
) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    let closed = disk.segments.read().closed();
    let Some(Closed { segments, .. }) = closed else {
        return Ok(());
    };
    let from = disk.snapshot.lock().as_ref().map_or(0, |head| head.number);
    let sizes = segments
        .iter()
        // Only segments with commits that the snapshot lacks.
        .filter(|segment| segment.end > from + 1)
        .map(|segment| fs::metadata(&segment.path).map_or(0, |file| file.len()));
    let log: u64 = sizes.sum();
    let size = disk.snapshot_bytes();
    if log <= LOG_BYTES.max(snapshots * size) {
        return Ok(());
    }
    // A new snapshot is optional, so it must not use up the last free space.
    if !disk.space.admits(WritePriority::Telemetry) || disk.space.bytes().0 < size + log {
        return Ok(());
    }
    new_snapshot::from_closed_segments(core, now).map(drop)
}

/// Finds damage while the engine still has every record.
fn scrub_durable_state(core: &Shared) -> Result<(), StoreError> {
    let Some(disk) = &core.disk else {
        return Ok(());
    };
    let snapshot = disk.snapshot.lock();
    if let Some(snapshot) = &*snapshot {
        Snapshot::open(&disk.snapshot_path(snapshot.number), &core.schema)?
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
        Some(gap) => {
            let what = format!("misses commits {} to {}", gap.from, gap.to - 1);
            Err(StoreError::damaged_file(&gap.path, what))
        }
    }
}
