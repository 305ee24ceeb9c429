//! Work with sled on a separate thread: sled may panic or hang on damaged files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::engine::SledEngine;
use crate::error::StoreError;
use crate::layout::EngineDir;

/// Longest time between two steps of opening or reading sled, in addition to the time for its file.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// Speed of the slowest supported disk: sled reads its whole file when it opens.
const BYTES_PER_SECOND: u64 = 10 * 1024 * 1024;
/// Bytes of sled's file that are verified in a millisecond on a fast machine.
const VERIFIED_IN_A_MILLISECOND: u64 = 400 * 1024;
/// How long an abandoned thread may take to reach its next step.
const ABANDON_WITHIN: Duration = Duration::from_secs(1);

/// Work with sled on a separate thread that may panic or hang.
pub(crate) struct Supervised<R> {
    receiver: Receiver<Result<R, StoreError>>,
    steps: Arc<AtomicU64>,
    max_wait: Duration,
}

impl<R: Send + 'static> Supervised<R> {
    pub(crate) fn start(
        directory: &EngineDir,
        work: impl FnOnce(&AtomicU64) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("store-open".to_owned())
            .spawn(move || {
                let done = catch_unwind(AssertUnwindSafe(|| work(&counted)))
                    .unwrap_or_else(|_| Err(StoreError::Engine("panicked when opened".to_owned())));
                let _ = sender.send(done);
            })?;
        Ok(Self {
            receiver,
            steps,
            // The limit grows with the file, since sled reads it whole when it opens.
            max_wait: MAX_WAIT + Duration::from_secs(data_size(directory) / BYTES_PER_SECOND),
        })
    }

    /// Waits for the result while the work makes steps and is not abandoned.
    pub(crate) fn wait(
        self,
        directory: &EngineDir,
        abandoned: &AtomicBool,
    ) -> Result<R, StoreError> {
        let mut seen = (Instant::now(), 0);
        loop {
            match self.receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Disconnected) => return Err(StoreError::Closed),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if abandoned.load(Ordering::Relaxed) {
                // A thread that hangs must not delay the end of the process.
                let last = self.receiver.recv_timeout(ABANDON_WITHIN);
                return last.unwrap_or(Err(StoreError::Closed));
            }
            // Progress and not total time is limited: a large engine on a slow disk is not a hang.
            let now = self.steps.load(Ordering::Relaxed);
            if now != seen.1 {
                seen = (Instant::now(), now);
            } else if seen.0.elapsed() > self.max_wait {
                // The thread cannot be ended and holds the file: only a restart helps.
                directory.mark_suspect("a read did not return")?;
                return Err(StoreError::Hung);
            }
        }
    }
}

pub(crate) fn verify_supervised(
    directory: &EngineDir,
    abandoned: &Arc<AtomicBool>,
    open: impl FnOnce() -> Result<SledEngine, StoreError> + Send + 'static,
) -> Result<SledEngine, StoreError> {
    let stop = Arc::clone(abandoned);
    let work = move |steps: &AtomicU64| {
        let engine = open()?;
        engine.verify(steps, &stop)?;
        Ok(engine)
    };
    // sled may panic or hang on damaged files, so it is read on a thread that can be left behind.
    Supervised::start(directory, work)?.wait(directory, abandoned)
}

/// Returns how long to wait for a verified engine: not at all if the time is too short for its size.
pub(crate) fn max_wait_for_engine(max_wait: Duration, found: Option<&EngineDir>) -> Duration {
    let size = found.map_or(0, data_size);
    let is_enough = Duration::from_millis(size / VERIFIED_IN_A_MILLISECOND) < max_wait;
    if is_enough { max_wait } else { Duration::ZERO }
}

fn data_size(directory: &EngineDir) -> u64 {
    std::fs::metadata(directory.path.join("db")).map_or(0, |file| file.len())
}
