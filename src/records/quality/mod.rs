//! Quality figures of playback: views, their roll-ups by minute and hour, reports. `docs/quality.md` defines the figures.
//!
//! Sessions, heartbeats and events are pushed to a queue and never wait. A thread logs them and applies them to the
//! open views, which are added to the roll-ups once nothing more is expected of them. A report reads the roll-ups and
//! the open views, so that it is complete as of its time.

mod contributions;
mod copies;
mod error;
mod figures;
mod files;
mod input;
mod matching;
mod report;
mod rollup;
mod sketch;
mod state;
#[cfg(test)]
mod tests;
mod timeline;
mod user_views;
mod view;
mod view_events;
mod views;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use crate::telemetry::dimensions::{Dimension, Labels, OTHER};
pub use crate::telemetry::{BITRATE_MAX, PlayerAction, PlayerEvent, Reported};
pub use error::QualityError;
pub use figures::Figures;
pub use input::OpenedSession;
pub use report::{GroupBy, KeyPart, QualityQuery, QualityReport, ReportRow};
pub use state::{QualityCounts, RecentFigures};
pub use views::{ViewOutcome, ViewSummary, ViewsQuery};

use crate::telemetry::{EventObserver, Sender as EventSender};
use files::Files;
use input::QualityInput;
use playgate_domain::playback::SessionObserver;
use playgate_process::files::sync_data;
use playgate_types::time::{DAY, HOUR};
use playgate_types::{DurationUnit, PartnerId, SessionId, UnixSeconds, UserId};
use state::QualityState;

/// Days for which roll-ups are kept: a month can be compared with the same month a year before.
const KEPT_DAYS: i64 = 400;
/// Number of queues. There are several, so that requests rarely wait for each other.
const QUEUES: usize = 16;
/// Maximum inputs per queue, each of up to about 400 bytes. Further inputs are dropped and counted: players must not wait
/// for figures.
const QUEUE_MAX: usize = 16_384;
/// A kill loses at most the figures of this time, a power cut those of half a second.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Time between the starts of two syncs. With [`FLUSH_EVERY`] before it, a power cut costs at most half a second if a sync
/// takes up to this time.
const SYNC_EVERY: Duration = Duration::from_millis(200);

pub struct QualitySettings {
    pub directory: PathBuf,
    /// Whether files are synced. Only the control runs of durability tests switch this off.
    pub sync: bool,
    /// The unit in which a partner's players report durations. Read when a view is counted, so that correcting a wrong
    /// unit corrects the open views too.
    pub unit_of: Box<dyn Fn(&PartnerId) -> DurationUnit + Send + Sync>,
}

#[derive(Clone)]
pub struct Quality {
    inner: Arc<Inner>,
    /// The thread stops when the last handle is dropped.
    _thread: Arc<FlushThread>,
}

struct Inner {
    files: Files,
    /// Queues by hash of the user, so that the inputs of one user stay in order.
    queues: [Mutex<Vec<QualityInput>>; QUEUES],
    dropped: AtomicU64,
    state: Mutex<QualityState>,
}

impl Quality {
    pub fn open(settings: QualitySettings) -> Result<Self, QualityError> {
        let files = Files::open(&settings.directory, settings.sync);
        let state = QualityState::open(&files, settings.unit_of)?;
        let inner = Arc::new(Inner {
            files,
            queues: Default::default(),
            dropped: AtomicU64::new(0),
            state: Mutex::new(state),
        });
        let thread = FlushThread::start(Arc::clone(&inner))?;
        Ok(Self {
            inner,
            _thread: Arc::new(thread),
        })
    }

    pub fn opened(&self, opened: OpenedSession) {
        let user = opened.user;
        self.inner
            .push(&user, QualityInput::Opened(Box::new(opened)));
    }

    /// Writes and syncs the inputs so far, if it can: as after a failed flush, playback is not affected. Blocks.
    pub fn sync(&self) {
        if let Err(error) = self.inner.flush(true) {
            tracing::error!(%error, "failed to write the log of quality inputs; figures may be lost at a restart");
        }
    }

    pub fn license_refused(&self, user: &UserId, session: SessionId, at: UnixSeconds) {
        let refused = QualityInput::LicenseRefused {
            user: *user,
            session,
            at,
        };
        self.inner.push(user, refused);
    }

    /// Closes views and writes a checkpoint when they are due. Returns how many views are open. Blocks.
    pub fn tick(&self, now: UnixSeconds) -> Result<usize, QualityError> {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        // Inputs that arrived before the tick must not find their views closed.
        inner.drain(&mut state)?;
        state.log_and_apply(&inner.files, vec![QualityInput::Tick(now)])?;
        if state.needs_checkpoint() {
            state.checkpoint(&inner.files)?;
        }
        Ok(state.views.len())
    }

    /// Removes roll-ups older than [`KEPT_DAYS`]. Returns how many hours were removed. Blocks.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, QualityError> {
        let first = (now - KEPT_DAYS * DAY).0.div_euclid(HOUR);
        let mut state = self.inner.state.lock();
        // An hour in memory would be written again by the next checkpoint, so it goes together with its file.
        state.hours.retain(|hour, _| *hour >= first);
        let mut removed = self.inner.files.remove_before(first)?;
        for copies in self.inner.files.of_members()? {
            removed += copies.remove_before(first)?;
        }
        Ok(removed)
    }

    /// Returns the size of all files. Blocks.
    pub fn bytes(&self) -> Result<u64, QualityError> {
        Ok(self.inner.files.bytes()?)
    }

    pub fn counts(&self) -> QualityCounts {
        QualityCounts {
            dropped: self.inner.dropped.load(Ordering::Relaxed),
            // Dropped inputs are counted outside of the state: a full queue means that its lock is busy.
            ..self.inner.state.lock().counts
        }
    }

    /// Returns the figures of the last tick.
    pub fn recent(&self) -> RecentFigures {
        self.inner.state.lock().recent
    }

    /// Returns why figures are not being written, if a write failed.
    pub fn write_error(&self) -> Option<String> {
        self.inner.state.lock().write_error.clone()
    }
}

impl Inner {
    fn push(&self, user: &UserId, input: QualityInput) {
        self.push_all(user, &mut std::iter::once(input));
    }

    fn push_all(&self, user: &UserId, inputs: &mut dyn Iterator<Item = QualityInput>) {
        let [.., last] = user.as_bytes();
        let Some(queue) = self.queues.get(usize::from(*last) % QUEUES) else {
            return;
        };
        let mut queue = queue.lock();
        for input in inputs {
            if queue.len() < QUEUE_MAX {
                queue.push(input);
            } else {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Logs and applies the queued inputs.
    fn drain(&self, state: &mut QualityState) -> Result<(), QualityError> {
        for queue in &self.queues {
            let mut queue = queue.lock();
            if queue.is_empty() {
                continue;
            }
            // The new queue has the capacity of the last batch, so that requests rarely pay for its growth.
            let expected = queue.len();
            let batch = std::mem::replace(&mut *queue, Vec::with_capacity(expected.min(1_024)));
            // Requests push again while the batch is written.
            drop(queue);
            state.log_and_apply(&self.files, batch)?;
        }
        Ok(())
    }

    fn flush(&self, sync: bool) -> Result<(), QualityError> {
        let mut state = self.state.lock();
        self.drain(&mut state)?;
        let unsynced = (sync && self.files.syncs())
            .then(|| state.unsynced())
            .flatten();
        // A sync takes long: reports and ticks must not wait for it.
        drop(state);
        if let Some(unsynced) = unsynced {
            let (file, path) = unsynced?;
            sync_data(&file, &path).inspect_err(|error| self.state.lock().sync_failed(error))?;
        }
        Ok(())
    }
}

impl SessionObserver for Quality {
    fn beat(
        &self,
        user: &UserId,
        session: SessionId,
        at: UnixSeconds,
        position: i64,
        bitrate: u64,
    ) {
        let beat = QualityInput::Beat {
            session,
            at,
            position,
            bitrate,
        };
        self.inner.push(user, beat);
    }

    fn ended(&self, user: &UserId, session: SessionId, at: UnixSeconds, stopped: bool) {
        let ended = QualityInput::Ended {
            session,
            at,
            stopped,
        };
        self.inner.push(user, ended);
    }
}

impl EventObserver for Quality {
    fn stored_all(
        &self,
        sender: EventSender,
        events: &mut dyn Iterator<Item = Box<PlayerEvent>>,
        received: UnixSeconds,
    ) {
        let mut inputs = events.map(|event| QualityInput::Event {
            user: sender.user,
            partner: sender.partner,
            received,
            event,
        });
        self.inner.push_all(&sender.user, &mut inputs);
    }

    fn erased(&self, user: &UserId) {
        self.inner.push(user, QualityInput::Erased(*user));
    }
}

/// Runs until dropped, then flushes once more.
struct FlushThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FlushThread {
    fn start(inner: Arc<Inner>) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            let mut flushed_at = Instant::now();
            let mut synced_at = flushed_at;
            let mut failing = false;
            loop {
                // From start to start, so that a slow sync does not delay what follows.
                let due = (flushed_at + FLUSH_EVERY).min(synced_at + SYNC_EVERY);
                let wait = due.saturating_duration_since(Instant::now());
                // Nothing is ever sent: dropping the sender ends the wait immediately.
                let stop = stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
                flushed_at = Instant::now();
                let sync = stop || flushed_at >= synced_at + SYNC_EVERY;
                if sync {
                    synced_at = flushed_at;
                }
                let flushed = inner.flush(sync);
                // Not fatal: figures are lost, but playback is not affected.
                if let Err(error) = &flushed
                    && !failing
                {
                    tracing::error!(%error, "failed to write the log of quality inputs; figures of this time may be lost at a restart");
                }
                // One line for a series of failures: a full disk would otherwise write ten a second.
                failing = flushed.is_err();
                if stop {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("quality".to_owned())
            .spawn(run)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for FlushThread {
    fn drop(&mut self) {
        // Must precede the join: the thread ends only when the sender is dropped.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been logged.
            let _ = thread.join();
        }
    }
}
