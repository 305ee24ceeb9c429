//! The worker pools of the service: numbers of threads and queue limits.

use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::{AppError, metrics};
use playgate_domain::accounts::HashMemory;
use playgate_observe::Registry;
use playgate_observe::metrics::metric_value;
use playgate_process::worker_pool::export_slots::ExportSlots;
use playgate_process::worker_pool::license_slots::LicenseSlots;
use playgate_process::{WorkerPool, thread_priority};
use playgate_services::RequestSlots;

/// Queue limit of hashing. One network may use a quarter of it, about a second's work; further jobs are
/// rejected, since clients can retry.
const HASHES_WAITING: usize = 512;
/// Time limit in the queue if hashes are expensive, by configuration or because they were imported.
const HASHES_MAX_WAIT: Duration = Duration::from_secs(3);
/// Threads for cold reads, which wait for the disk and not for a core.
const COLD_THREADS: usize = 4;
const COLD_WAITING: usize = 1_024;
/// Queue limit of compression: about a second's work for the largest responses.
const COMPRESSIONS_WAITING: usize = 64;
const BULK_WAITING: usize = 4;
const EXPORTS_WAITING: usize = 16;

pub(super) fn hashing(metrics: &Registry) -> Result<WorkerPool<HashMemory>, AppError> {
    let counts = metrics::register_hashing(metrics);
    let cores = available_parallelism().map_or(1, usize::from);
    let pool = WorkerPool::new("hashing", cores, HASHES_WAITING, move || {
        thread_priority::lower();
        HashMemory::counted(Arc::clone(&counts))
    });
    let pool = registered(pool, "hashing", metrics)?;
    Ok(pool.with_max_wait(HASHES_MAX_WAIT))
}

pub(super) fn cold(metrics: &Registry) -> Result<WorkerPool<()>, AppError> {
    let pool = WorkerPool::new("cold", COLD_THREADS, COLD_WAITING, || ());
    registered(pool, "cold", metrics)
}

/// Compresses large responses. If the queue is full, the response is sent uncompressed.
pub(super) fn compression(metrics: &Registry) -> Result<WorkerPool<()>, AppError> {
    let cores = available_parallelism().map_or(1, usize::from);
    let pool = WorkerPool::new("compression", cores, COMPRESSIONS_WAITING, || ());
    registered(pool, "compression", metrics)
}

pub(super) fn bulk(metrics: &Registry) -> Result<WorkerPool<()>, AppError> {
    // One at a time: two imports would compete for the writer and for memory.
    let pool = WorkerPool::new("bulk", 1, BULK_WAITING, thread_priority::lower);
    registered(pool, "bulk", metrics)
}

/// The exports of users' data have one thread of low priority: they read months of telemetry, and nobody waits for one.
pub(super) fn slots(metrics: &Registry) -> Result<RequestSlots, AppError> {
    let pool = WorkerPool::new("exports", 1, EXPORTS_WAITING, thread_priority::lower);
    Ok(RequestSlots {
        exports: registered(pool, "exports", metrics).map(ExportSlots::new)?,
        licenses: LicenseSlots::default(),
    })
}

fn registered<S: Send + 'static>(
    pool: io::Result<WorkerPool<S>>,
    name: &str,
    metrics: &Registry,
) -> Result<WorkerPool<S>, AppError> {
    let pool = pool.map_err(AppError::Threads)?;
    let waiting = pool.waiting();
    metrics.gauge_of(
        "playgate_worker_pool_queue_length",
        "Jobs that wait for a thread of a worker pool.",
        &[("pool", name)],
        move || metric_value(waiting()),
    );
    Ok(pool)
}
