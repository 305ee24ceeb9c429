//! The thread that syncs appended events within half a second.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Inner;
use super::error::TelemetryError;
use super::segment::TelemetrySegment;
use playgate_process::files::sync_data;
use playgate_segment_log::remove_if_present;

/// Together with the duration of a sync, this stays below the promised 500 ms.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs until dropped, then syncs once more.
pub(super) struct SyncThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start(
        inner: Arc<Inner>,
        on_failure: impl Fn(&TelemetryError) + Send + 'static,
    ) -> io::Result<Self> {
        let sync = |inner: &Inner| {
            inner.restore_deleted();
            inner.sync().and_then(|()| inner.close_done())
        };
        Self::start_with(inner, sync, on_failure)
    }

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
                    // The sync also runs at the stop, for the last events.
                    let stop = stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout);
                    // A panic must stop ingestion: without this thread, events would be accepted and never synced.
                    let synced = catch_unwind(AssertUnwindSafe(|| sync(&inner)))
                        .unwrap_or_else(|_| Err(inner.fail("its sync panicked")));
                    if let Err(error) = synced {
                        on_failure(&error);
                        return;
                    }
                    if stop {
                        if let Err(error) = inner.save_usage() {
                            tracing::warn!(%error, "failed to save the usage of the telemetry budgets");
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
        // Dropping the sender ends the wait of the thread.
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// Rejects all uploads from now on. The sync thread reports the failure.
    pub(super) fn fail(&self, why: &str) -> TelemetryError {
        let failed = TelemetryError::Failed(why.to_owned());
        let mut state = self.state.lock();
        // Wakes the uploads that wait for a sync; they are rejected.
        self.synced.notify_all();
        state.failed.get_or_insert(failed).clone()
    }

    pub(super) fn or_fail<T>(
        &self,
        result: Result<T, TelemetryError>,
    ) -> Result<T, TelemetryError> {
        result.map_err(|error| match error {
            TelemetryError::Failed(why) => self.fail(&why),
            other => other,
        })
    }

    /// Writes the segments again whose files another program has deleted.
    pub(super) fn restore_deleted(&self) {
        // An erasure, or the compression, replaces a file on purpose.
        let Some(_rewriting) = self.rewriting.try_lock() else {
            return;
        };
        let mut state = self.state.lock();
        let state = &mut *state;
        for segment in state.segment.iter_mut().chain(&mut state.done) {
            if let Err(error) = segment.restore(&self.directory) {
                // The next round tries again.
                tracing::error!(%error, "failed to write a deleted telemetry file again");
            }
        }
    }

    /// Closes finished segments with a last sync and the fingerprint file.
    fn close_done(&self) -> Result<(), TelemetryError> {
        loop {
            let (hour, (file, length), keys) = match self.state.lock().done.first() {
                Some(done) => (done.hour, done.handle(), Arc::clone(done.keys())),
                None => return Ok(()),
            };
            // Both take long for a large segment, so they run without the state lock.
            if self.settings.sync {
                self.or_fail(sync_data(&file, &self.directory.events(hour)).map_err(Into::into))?;
            }
            let written = self.directory.write_fingerprints(hour, &keys);
            self.or_fail(written.map_err(Into::into))?;
            let closed = {
                let mut state = self.state.lock();
                let is_same =
                    |done: &TelemetrySegment| done.hour == hour && done.handle().1 == length;
                match state.done.iter().position(is_same) {
                    Some(at) => state.done.swap_remove(at).synced(length),
                    // It was opened again, or removed by retention: the fingerprints are outdated.
                    None => remove_if_present(&self.directory.keys(hour)).map_err(Into::into),
                }
            };
            self.or_fail(closed)?;
        }
    }

    pub(super) fn sync(&self) -> Result<(), TelemetryError> {
        let result = self.sync_segment();
        // Also after a failure, so that waiting uploads are rejected immediately.
        self.state.lock().syncing_since = None;
        self.synced.notify_all();
        result
    }

    fn sync_segment(&self) -> Result<(), TelemetryError> {
        // Only the handles are taken under the lock: a sync of seconds must not block uploads.
        let (hour, file, length, finished) = {
            let mut state = self.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            let state = &mut *state;
            state.syncing_since = state.unsynced_since.take();
            if state.syncing_since.is_none() || !self.settings.sync {
                return Ok(());
            }
            let Some(segment) = &state.segment else {
                return Ok(());
            };
            let begun = segment.begin_sync();
            let (file, length) = begun.inspect_err(|failed| state.failed = Some(failed.clone()))?;
            // The hour may have ended since the last sync: the events before its end count too.
            let finished = state.done.iter().map(|done| (done.hour, done.handle().0));
            let finished: Vec<_> = finished.collect();
            (segment.hour, file, length, finished)
        };
        // Any failed sync is final: the kernel may drop the dirty pages, and the next sync would then succeed without
        // them.
        let synced = (finished.into_iter().chain([(hour, file)]))
            .try_for_each(|(hour, file)| sync_data(&file, &self.directory.events(hour)))
            .map_err(TelemetryError::from);
        let mut state = self.state.lock();
        let noted = match (synced, &mut state.segment) {
            (Ok(()), Some(segment)) if segment.hour == hour => segment.synced(length),
            (synced, _) => synced,
        };
        noted.inspect_err(|failed| state.failed = Some(failed.clone()))
    }
}
