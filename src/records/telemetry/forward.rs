//! Forwards events to the operator's event sink, driven by a job.
//!
//! A batch is a range of a segment, sent as export lines. The cursor advances durably after the sink has accepted the
//! batch. Delivery is at-least-once: after a crash, or a connection that breaks before the answer, the same batch is
//! sent again. Each batch carries the SHA-256 hash of its content as deduplication key; sinks that compare content,
//! such as ClickHouse, do not need it.
//!
//! The first run sends all retained events, oldest first. There is one cursor, whichever sink is configured: older
//! events reach a new sink by `playgate telemetry export`.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use ring::digest;

use super::Telemetry;
use super::error::TelemetryError;
use super::forward_cursor::{Extent, ForwardCursors};
use super::model::StoredEvent;
use super::tables::Erasures;
use playgate_domain::backoff::Backoff;
use playgate_ports::Entropy;
use playgate_ports::event_sink::{EventSink, SinkError};
use playgate_store::All;
use playgate_types::time::HOUR;
use playgate_types::{UnixSeconds, UserId};

/// Bytes after which a batch takes no more events. It bounds memory and the duration of one request to the sink.
const LINES_MAX: usize = 8 * 1024 * 1024;
const AFTER_FAILURE: Backoff = Backoff {
    first: 1,
    longest: 300,
};
/// The longest pause, in seconds, that a sink can ask for.
const ASKED_MAX: i64 = HOUR;
/// Age of the oldest unsent event, in seconds, from which forwarding is reported as behind.
const BEHIND_FROM_SECONDS: i64 = 600;
/// How often a single rejected event is offered while the sink accepts nothing else: with the pauses in between
/// about a quarter of an hour.
const REFUSALS_MAX: u32 = 10;

pub type WriteLine = fn(&StoredEvent, &mut Vec<u8>) -> io::Result<()>;

#[derive(Clone, Copy, Debug)]
pub struct ForwardSettings {
    pub batch: usize,
    /// Seconds that events wait for a batch to fill.
    pub interval: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounts {
    pub sent: u64,
    /// Rejected by the sink one by one, or not exportable.
    pub refused: u64,
    pub expired: u64,
    pub failures: u64,
}

pub struct Forwarder {
    pub(super) telemetry: Telemetry,
    sink: Box<dyn EventSink>,
    line: WriteLine,
    settings: ForwardSettings,
    entropy: Arc<dyn Entropy>,
    pub(super) positions: Mutex<ForwardCursors>,
    /// Locked during a run, so that runs never overlap.
    progress: Mutex<ForwardProgress>,
    oldest: Mutex<Option<UnixSeconds>>,
    failure: Mutex<Option<String>>,
    stopped: AtomicBool,
    sent: AtomicU64,
    refused: AtomicU64,
    pub(super) expired: AtomicU64,
    failures: AtomicU64,
}

struct ForwardProgress {
    /// Maximum events of a batch. Halved after a rejection, then growing again.
    most: usize,
    /// Whether the sink has accepted a batch since an event was last skipped. If so, a rejection is due to the event.
    proven: bool,
    /// Consecutive rejections of the same single event.
    refusals: u32,
    failures: u32,
    paused_until: Option<UnixSeconds>,
}

#[derive(Default)]
struct ForwardBatch {
    hour: i64,
    /// `to` is the end of the batch; the segment holds nothing to read between `to` and `scanned_to`.
    to: u64,
    scanned_to: u64,
    lines: Vec<u8>,
    events: usize,
    /// `unwritable` counts events that the line writer rejects, `damaged` counts bytes that are no valid frame.
    unwritable: u64,
    damaged: u64,
    oldest: Option<UnixSeconds>,
    /// Whether the batch is sent without waiting for more events.
    whole: bool,
}

enum ForwardOutcome {
    /// The batch is finished; the sink accepted this many events of it.
    Done(usize),
    Smaller,
    Pause,
}

impl Forwarder {
    pub fn open(
        telemetry: Telemetry,
        sink: Box<dyn EventSink>,
        line: WriteLine,
        settings: ForwardSettings,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, TelemetryError> {
        Ok(Self {
            positions: Mutex::new(ForwardCursors::open(&telemetry)?),
            telemetry,
            sink,
            line,
            progress: Mutex::new(ForwardProgress {
                most: settings.batch,
                proven: false,
                refusals: 0,
                failures: 0,
                paused_until: None,
            }),
            settings,
            entropy,
            oldest: Mutex::default(),
            failure: Mutex::default(),
            stopped: AtomicBool::default(),
            sent: AtomicU64::default(),
            refused: AtomicU64::default(),
            expired: AtomicU64::default(),
            failures: AtomicU64::default(),
        })
    }

    pub fn run(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        // Held over the whole run: overlapping runs would send batches twice.
        let mut progress = self.progress.lock();
        let mut sent = 0;
        if progress.is_paused(now) {
            return Ok(sent);
        }
        // An unwritten cursor means a full disk; sending now would repeat the batch at every run.
        self.positions.lock().write_pending()?;
        let mut unsent = VecDeque::from(self.telemetry.extents()?);
        while let Some(extent) = unsent.front().copied() {
            if !self.positions.lock().is_unsent(extent) {
                unsent.pop_front();
                continue;
            }
            let mut batch = match self.batch(extent, progress.most) {
                Err(TelemetryError::Io(error)) => {
                    self.telemetry.leave_out(extent.0, &error);
                    unsent.pop_front();
                    continue;
                }
                other => other?,
            };
            // If the batch has no event to send, only the cursor advances.
            if let Some(oldest) = batch.oldest {
                *self.oldest.lock() = Some(oldest);
                // An event from the future was received before the clock was set back: do not wait for it.
                let waits = (0..self.settings.interval).contains(&now.since(oldest));
                // A batch of a finished hour is not kept waiting, since nothing will be added to it.
                let due = batch.whole || unsent.len() > 1 || !waits;
                if !due || self.stopped.load(Relaxed) {
                    return Ok(sent);
                }
                match self.offer(&mut batch, &mut progress, now)? {
                    ForwardOutcome::Done(taken) => sent += taken,
                    ForwardOutcome::Smaller => continue,
                    ForwardOutcome::Pause => return Ok(sent),
                }
            }
            if batch.unwritable + batch.damaged > 0 {
                self.refused.fetch_add(batch.unwritable, Relaxed);
                let (events, bytes) = (batch.unwritable, batch.damaged);
                tracing::error!(
                    events,
                    bytes,
                    "skipped damaged telemetry events; they were not forwarded"
                );
            }
            // Only after the sink has accepted the batch, so that a crash repeats it and never loses it.
            let mut positions = self.positions.lock();
            positions.pass(batch.hour, batch.to, batch.scanned_to)?;
        }
        *self.oldest.lock() = None;
        Ok(sent)
    }

    /// Aborts the running request, at shutdown or before a standby takes over. The unfinished batch is sent again.
    pub fn stop(&self) {
        // The flag first: the request that ends now must not count as a failure.
        self.stopped.store(true, Relaxed);
        self.sink.stop();
    }

    /// Lets runs send again.
    pub fn resume(&self) {
        self.stopped.store(false, Relaxed);
        self.sink.resume();
    }

    pub fn counts(&self) -> ForwardCounts {
        ForwardCounts {
            sent: self.sent.load(Relaxed),
            refused: self.refused.load(Relaxed),
            expired: self.expired.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }

    pub fn lag(&self, now: UnixSeconds) -> i64 {
        let oldest = *self.oldest.lock();
        oldest.map_or(0, |oldest| now.since(oldest).max(0))
    }

    /// Describes why forwarding fails or is behind, if it does.
    pub fn warning(&self, now: UnixSeconds) -> Option<String> {
        let lag = self.lag(now);
        // A lag within two intervals is normal.
        let behind = (lag > BEHIND_FROM_SECONDS.max(2 * self.settings.interval))
            .then(|| format!("events have waited for {lag} seconds"));
        match (self.failure.lock().clone(), behind) {
            (Some(failure), Some(behind)) => Some(format!("{failure}; {behind}")),
            (failure, behind) => failure.or(behind),
        }
    }

    fn batch(&self, (hour, length): Extent, most: usize) -> Result<ForwardBatch, TelemetryError> {
        let position = self.positions.lock().get(hour);
        let from = position.kept.sent;
        // The offered batch is sent again with the same content, so that the sink recognises its key.
        let (end, most) = match position.offered() {
            Some(offered) => (offered, usize::MAX),
            None => (length, most),
        };
        let mut batch = ForwardBatch {
            hour,
            to: from,
            scanned_to: length,
            ..ForwardBatch::default()
        };
        // Must precede opening the segment: an erasure that completes in between has removed its events from the file.
        let erased = self.to_be_erased()?;
        let Some(mut events) = self.telemetry.part(hour, (from, end))? else {
            return Ok(batch);
        };
        loop {
            batch.whole = batch.events >= most || batch.lines.len() >= LINES_MAX;
            let event = match batch.whole {
                true => None,
                false => events.next_frame()?,
            };
            batch.to = events.sound_end();
            let Some(event) = event else {
                break;
            };
            let line = batch.lines.len();
            // Events of a user whose account is gone must not leave the installation.
            if erased.contains(&event.sender.user) {
                continue;
            }
            if (self.line)(&event, &mut batch.lines).is_err() {
                // Removes what the writer wrote before it failed.
                batch.lines.truncate(line);
                batch.unwritable += 1;
                continue;
            }
            batch.oldest = batch.oldest.or(Some(event.received));
            batch.events += 1;
        }
        batch.damaged = events.damaged();
        if batch.whole || end < length {
            batch.scanned_to = batch.to;
        }
        batch.whole |= position.offered().is_some();
        Ok(batch)
    }

    fn to_be_erased(&self) -> Result<HashSet<UserId>, TelemetryError> {
        let store = &self.telemetry.inner.store;
        let noted = store.read(|txn| txn.scan::<Erasures>(&All, usize::MAX))?;
        Ok(noted.into_iter().map(|(user, _)| user).collect())
    }

    fn offer(
        &self,
        batch: &mut ForwardBatch,
        progress: &mut ForwardProgress,
        now: UnixSeconds,
    ) -> Result<ForwardOutcome, TelemetryError> {
        // Recorded before the request: after a crash the same batch is offered again.
        self.positions.lock().offer(batch.hour, batch.to)?;
        // A repeated batch has the same content and so the same key, by which the sink recognises it.
        let hash = digest::digest(&digest::SHA256, &batch.lines);
        let key = HEXLOWER.encode(hash.as_ref());
        let bytes = batch.lines.len();
        let lines = std::mem::take(&mut batch.lines);
        let Err(unsent) = self.sink.post(lines, &key) else {
            self.sent.fetch_add(batch.events as u64, Relaxed);
            progress.taken(self.settings.batch);
            self.report_failure(None);
            return Ok(ForwardOutcome::Done(batch.events));
        };
        // The request was aborted by the shutdown, which is not a failure of the sink.
        if self.stopped.load(Relaxed) {
            return Ok(ForwardOutcome::Pause);
        }
        self.failures.fetch_add(1, Relaxed);
        let (reason, wait) = match unsent {
            SinkError::Refused(reason) if batch.events > 1 => {
                tracing::debug!(
                    events = batch.events,
                    reason,
                    "the event sink rejected a batch; retrying with half of it"
                );
                // Halving finds the rejected event in a few steps, and the others get through.
                progress.most = batch.events / 2;
                let mut positions = self.positions.lock();
                let from = positions.get(batch.hour).kept.sent;
                positions.offer(batch.hour, from)?;
                return Ok(ForwardOutcome::Smaller);
            }
            SinkError::Refused(reason) => {
                if progress.skips_event() {
                    self.refused.fetch_add(1, Relaxed);
                    let received = batch.oldest.unwrap_or(now).0;
                    tracing::error!(
                        received,
                        bytes,
                        reason,
                        "the event sink rejected an event; skipped it (`playgate telemetry export` still has it)"
                    );
                    return Ok(ForwardOutcome::Done(0));
                }
                (reason, None)
            }
            SinkError::Later { reason, wait } => (reason, wait),
        };
        let random = u64::from_be_bytes(self.entropy.array());
        progress.failed(wait, random, now);
        self.report_failure(Some(reason));
        Ok(ForwardOutcome::Pause)
    }

    /// Logs once when forwarding starts to fail, and once when it works again.
    fn report_failure(&self, failure: Option<String>) {
        let mut reported = self.failure.lock();
        // Only changes are logged, since the job runs every second.
        match (&*reported, &failure) {
            (old, Some(new)) if old.as_ref() != Some(new) => {
                tracing::warn!(reason = new, "failed to forward telemetry; will retry");
            }
            (Some(_), None) => tracing::info!("telemetry forwarding works again"),
            _ => {}
        }
        *reported = failure;
    }
}

impl ForwardProgress {
    fn is_paused(&self, now: UnixSeconds) -> bool {
        // A pause longer than any allowed one was set by a clock that was ahead.
        self.paused_until
            .is_some_and(|until| now < until && until <= now + 2 * ASKED_MAX)
    }

    fn taken(&mut self, batch: usize) {
        // Grow slowly: if one batch was too large, others of its size will be too.
        let more = self.most.saturating_add(self.most / 8 + 1);
        *self = Self {
            most: more.min(batch),
            proven: true,
            refusals: 0,
            failures: 0,
            paused_until: None,
        };
    }

    fn failed(&mut self, wait: Option<u64>, random: u64, now: UnixSeconds) {
        let asked = wait.map_or(0, |wait| i64::try_from(wait).unwrap_or(ASKED_MAX));
        let pause = AFTER_FAILURE.after(self.failures, random).max(1);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(now + pause.max(asked.min(ASKED_MAX)));
    }

    const fn skips_event(&mut self) -> bool {
        // If the sink has accepted other events, this one is skipped immediately. Otherwise the sink may reject every event,
        // for example because its table is wrong. Then this one is skipped after `REFUSALS_MAX` attempts: it blocks the
        // others for a quarter of an hour at most, and a misconfigured sink loses a few events an hour.
        self.refusals += 1;
        let skip = self.proven || self.refusals > REFUSALS_MAX;
        if skip {
            self.proven = false;
            self.refusals = 0;
            self.failures = 0;
        }
        skip
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
