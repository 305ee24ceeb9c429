//! The lanes of the service: how many threads, how many jobs may wait.

use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use rustix::process::setpriority_process;
use rustix::thread::gettid;

use super::{AppError, metrics};
use crate::domain::accounts::HashMemory;
use crate::http::worker_pool::WorkerPool;
use crate::observe::metrics::Registry;

/// Jobs that may wait for a hash. A quarter of them, about a second's worth, may be of one network: who
/// comes later is better told to come again.
const HASHES_WAITING: usize = 512;
/// How long a job may wait for a hash where hashes are dear, by setting or brought along.
const HASHES_PATIENCE: Duration = Duration::from_secs(3);
/// The niceness of threads that hash: while every core is at it, a heartbeat must not wait for a
/// slice of 16 ms to end.
const HASHES_NICE: i32 = 10;
/// Cold reads at a time. They wait for the disk, not for a core.
const COLD_THREADS: usize = 4;
/// Cold reads that may wait.
const COLD_WAITING: usize = 1_024;
/// Responses that may wait to be compressed: about a second's worth of the largest.
const COMPRESSIONS_WAITING: usize = 64;
/// Imports and verifications that may wait: they run one after the other.
const BULK_WAITING: usize = 4;

/// Where passwords and PINs are hashed: on as many threads as there are cores, in memory of their
/// own.
pub fn hashing(metrics: &Registry) -> Result<WorkerPool<HashMemory>, AppError> {
    let counts = metrics::register_hashing(metrics);
    let cores = available_parallelism().map_or(1, usize::from);
    let lane = WorkerPool::new("hashing", cores, HASHES_WAITING, move || {
        // On the thread itself. A sandbox that forbids it costs others some speed.
        if let Err(error) = setpriority_process(Some(gettid()), HASHES_NICE) {
            tracing::debug!(%error, "the threads that hash keep their priority");
        }
        HashMemory::counted(Arc::clone(&counts))
    });
    let lane = registered(lane, "hashing", metrics)?;
    Ok(lane.with_max_wait(HASHES_PATIENCE))
}

/// Where cold reads run, and short work that waits for a commit.
pub fn cold(metrics: &Registry) -> Result<WorkerPool<()>, AppError> {
    let lane = WorkerPool::new("cold", COLD_THREADS, COLD_WAITING, || ());
    registered(lane, "cold", metrics)
}

/// Where large responses are compressed. Partners take turns, and so do the networks of a partner; a
/// response that finds no room is sent uncompressed.
pub fn compression(metrics: &Registry) -> Result<WorkerPool<()>, AppError> {
    let cores = available_parallelism().map_or(1, usize::from);
    let lane = WorkerPool::new("compression", cores, COMPRESSIONS_WAITING, || ());
    registered(lane, "compression", metrics)
}

/// Where imports and verifications run, one at a time.
pub fn bulk(metrics: &Registry) -> Result<WorkerPool<()>, AppError> {
    let lane = WorkerPool::new("bulk", 1, BULK_WAITING, || ());
    registered(lane, "bulk", metrics)
}

/// The same lane, whose queue the metrics show.
fn registered<S: Send + 'static>(
    lane: io::Result<WorkerPool<S>>,
    name: &str,
    metrics: &Registry,
) -> Result<WorkerPool<S>, AppError> {
    let lane = lane.map_err(AppError::Threads)?;
    let waiting = lane.waiting();
    metrics.gauge_of(
        "playgate_worker_pool_queue_length",
        "Jobs that wait for a thread of a worker pool.",
        &[("pool", name)],
        move || i64::try_from(waiting()).unwrap_or(i64::MAX),
    );
    Ok(lane)
}
