//! The thread that syncs what was appended, within half a second.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Inner;
use super::error::TelemetryError;

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
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("telemetry-sync".to_owned())
            .spawn(move || {
                loop {
                    let stop = stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout);
                    if let Err(error) = inner.sync() {
                        on_failure(&error);
                        return;
                    }
                    if stop {
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
    /// Syncs what has been appended, without holding up those who append.
    fn sync(&self) -> Result<(), TelemetryError> {
        let file = {
            let mut state = self.state.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if !std::mem::take(&mut state.dirty) || !self.settings.sync {
                return Ok(());
            }
            let segment = state.segment.as_ref();
            segment.map(|segment| (segment.hour, segment.handle()))
        };
        let Some((hour, handle)) = file else {
            return Ok(());
        };
        let synced = handle.and_then(|(file, length)| file.sync_data().map(|()| length));
        let mut state = self.state.lock();
        let noted = match (synced, &mut state.segment) {
            (Ok(length), Some(segment)) if segment.hour == hour => segment.synced(length),
            (Ok(_), _) => Ok(()),
            // Read-only since it was written: a new start would have no more than this one.
            (Err(error), _) if TelemetryError::is_of_space(error.kind()) => Ok(()),
            (Err(error), _) => Err(TelemetryError::Failed(error.to_string())),
        };
        noted.inspect_err(|failed| state.failed = Some(failed.clone()))
    }
}
