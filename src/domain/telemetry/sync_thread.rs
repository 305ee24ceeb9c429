//! The thread that syncs what was appended, within half a second.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Inner;
use super::error::TelemetryError;
use crate::store::sync_data;

/// How often it looks; with the time that a sync takes this stays under the promised 500 ms.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs until it is dropped, and syncs once more then.
pub(super) struct SyncThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start(
        inner: Arc<Inner>,
        on_failure: impl Fn(&TelemetryError) + Send + 'static,
    ) -> io::Result<Self> {
        let sync = |inner: &Inner| inner.sync().and_then(|()| inner.close_done());
        Self::start_with(inner, sync, on_failure)
    }

    /// The same with what is done at each look.
    pub(super) fn start_with(
        inner: Arc<Inner>,
        sync: impl Fn(&Inner) -> Result<(), TelemetryError> + Send + 'static,
        on_failure: impl Fn(&TelemetryError) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("telemetry-sync".to_owned())
            .spawn(move || {
                loop {
                    let stop = stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout);
                    // Without this thread nothing that is taken would ever be synced.
                    let synced = catch_unwind(AssertUnwindSafe(|| sync(&inner)))
                        .unwrap_or_else(|_| Err(inner.fail("its sync panicked")));
                    if let Err(error) = synced {
                        on_failure(&error);
                        return;
                    }
                    if stop {
                        if let Err(error) = inner.save_usage() {
                            tracing::warn!(%error, "failed to save what telemetry has used of its budgets");
                        }
                        return;
                    }
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// Notes a failure after which nothing more is taken; the sync thread tells of it.
    pub(super) fn fail(&self, why: &str) -> TelemetryError {
        let failed = TelemetryError::Failed(why.to_owned());
        let mut state = self.state.lock();
        state.failed.get_or_insert(failed).clone()
    }

    /// The same for a result, if that says so.
    pub(super) fn or_fail<T>(
        &self,
        result: Result<T, TelemetryError>,
    ) -> Result<T, TelemetryError> {
        result.map_err(|error| match error {
            TelemetryError::Failed(why) => self.fail(&why),
            other => other,
        })
    }

    /// Closes the segments that are done: their last sync, and their fingerprints for the next start.
    /// Both take long for a large one, and hold up nobody.
    fn close_done(&self) -> Result<(), TelemetryError> {
        loop {
            let (hour, (file, length)) = match self.state.lock().done.first() {
                Some(done) => (done.hour, done.handle()),
                None => return Ok(()),
            };
            if self.settings.sync {
                self.or_fail(sync_data(&file, &self.directory.events(hour)).map_err(Into::into))?;
            }
            let done = {
                let mut state = self.state.lock();
                // It may be the open one again, or have been dropped with its hour.
                let at = state.done.iter().position(|done| done.hour == hour);
                at.map(|at| state.done.swap_remove(at))
            };
            if let Some(mut done) = done {
                self.or_fail(done.synced(length))?;
                self.or_fail(done.close(&self.directory).map_err(Into::into))?;
            }
        }
    }

    /// Syncs what has been appended, without holding up those who append.
    fn sync(&self) -> Result<(), TelemetryError> {
        let (hour, file, path, length) = {
            let mut state = self.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if !std::mem::take(&mut state.dirty) || !self.settings.sync {
                return Ok(());
            }
            let Some(segment) = &state.segment else {
                return Ok(());
            };
            let (file, length) = segment.handle();
            let path = self.directory.events(segment.hour);
            (segment.hour, file, path, length)
        };
        // Whatever the reason: the next sync would succeed without what this one could not write.
        let synced = sync_data(&file, &path).map_err(TelemetryError::from);
        let mut state = self.state.lock();
        let noted = match (synced, &mut state.segment) {
            (Ok(()), Some(segment)) if segment.hour == hour => segment.synced(length),
            (synced, _) => synced,
        };
        noted.inspect_err(|failed| state.failed = Some(failed.clone()))
    }
}
