//! How events get to a sink of the operator's: a job's work.
//!
//! A batch is what lies between two places of a segment, as lines of an export. The position moves on,
//! durably, once the sink has said that it took the batch. A crash in between, or a connection that
//! breaks before the answer, sends the same batch again under the same key: events may come twice,
//! by which they never come not at all. The key is a hash of the batch; a sink that compares content by
//! itself, as ClickHouse does, needs none.
//!
//! Decision: the first run sends everything that is kept, from the oldest on. There is one position,
//! whatever sink is configured: who wants an older part elsewhere exports it.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use ring::digest;

use super::Telemetry;
use super::error::TelemetryError;
use super::forward_cursor::{Extent, Positions};
use super::model::StoredEvent;
use super::tables::Erasures;
use crate::domain::backoff::Backoff;
use crate::ports::Entropy;
use crate::ports::event_sink::{EventSink, SinkError};
use crate::store::{All, Durability};
use crate::types::time::HOUR;
use crate::types::{UnixSeconds, UserId};

/// Bytes after which a batch takes no further event: what is held in memory, and sent within the time
/// that a sink has.
const LINES_MAX: usize = 8 * 1024 * 1024;
/// After a batch was not taken.
const AFTER_FAILURE: Backoff = Backoff {
    first: 1,
    longest: 300,
};
/// The longest that a sink is left alone because it asks for it.
const ASKED_MAX: i64 = HOUR;
/// Seconds after which events that wait are told of.
const BEHIND: i64 = 600;
/// How often an event that is refused alone is offered while nothing shows that the sink takes any:
/// about a quarter of an hour.
const REFUSALS: u32 = 10;

/// Appends an event as a line of an export.
pub type WriteLine = fn(&StoredEvent, &mut Vec<u8>) -> io::Result<()>;

/// How events are forwarded.
#[derive(Clone, Copy, Debug)]
pub struct ForwardSettings {
    /// The most events of a batch.
    pub batch: usize,
    /// For how many seconds events wait for others to fill it.
    pub interval: i64,
}

/// Counts since the start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounts {
    /// Events that the sink took.
    pub sent: u64,
    /// Events that it refused, one by one, and that were passed over.
    pub refused: u64,
    /// Events whose retention was over before the sink took them.
    pub expired: u64,
    /// Batches that were offered and not taken.
    pub failures: u64,
}

/// Sends what telemetry holds to a sink.
pub struct Forwarder {
    pub(super) telemetry: Telemetry,
    sink: Box<dyn EventSink>,
    line: WriteLine,
    settings: ForwardSettings,
    entropy: Arc<dyn Entropy>,
    pub(super) positions: Mutex<Positions>,
    /// Locked for as long as a run takes: there is never more than one.
    progress: Mutex<Progress>,
    /// When the oldest event was received that the sink has not taken.
    oldest: Mutex<Option<UnixSeconds>>,
    trouble: Mutex<Option<String>>,
    stopped: AtomicBool,
    sent: AtomicU64,
    refused: AtomicU64,
    pub(super) expired: AtomicU64,
    failures: AtomicU64,
}

/// What one run tells the next.
struct Progress {
    /// The most events of a batch at present: halved when one is refused, and then growing again.
    most: usize,
    /// Whether the sink has taken something since an event was last passed over: what it refuses next
    /// it refuses for what it is.
    proven: bool,
    /// How often in a row an event was refused alone.
    refusals: u32,
    /// How often in a row nothing could be sent.
    failures: u32,
    rests_until: Option<UnixSeconds>,
}

/// What is sent at once.
#[derive(Default)]
struct Batch {
    hour: i64,
    /// Where it ends, and where there is nothing more to be read before.
    to: u64,
    looked: u64,
    lines: Vec<u8>,
    events: usize,
    /// Events that cannot be written as lines, and bytes that are none.
    spoilt: u64,
    damaged: u64,
    /// When its first event was received.
    oldest: Option<UnixSeconds>,
    /// Whether it waits for no further events.
    whole: bool,
}

/// What became of a batch.
enum Outcome {
    /// It is done with; the sink took so many events of it.
    Done(usize),
    /// A smaller one is to be tried.
    Smaller,
    /// The sink is left alone for a while.
    Rest,
}

impl Forwarder {
    /// Goes on where the store says that forwarding was.
    ///
    /// # Errors
    /// That the store or the directory of the segments could not be read.
    pub fn open(
        telemetry: Telemetry,
        sink: Box<dyn EventSink>,
        line: WriteLine,
        settings: ForwardSettings,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, TelemetryError> {
        Ok(Self {
            positions: Mutex::new(Positions::open(&telemetry)?),
            telemetry,
            sink,
            line,
            progress: Mutex::new(Progress {
                most: settings.batch,
                proven: false,
                refusals: 0,
                failures: 0,
                rests_until: None,
            }),
            settings,
            entropy,
            oldest: Mutex::default(),
            trouble: Mutex::default(),
            stopped: AtomicBool::default(),
            sent: AtomicU64::default(),
            refused: AtomicU64::default(),
            expired: AtomicU64::default(),
            failures: AtomicU64::default(),
        })
    }

    /// Sends what is due, batch after batch; blocking. Returns how many events the sink took.
    ///
    /// # Errors
    /// That the store or a segment failed.
    pub fn run(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let mut progress = self.progress.lock();
        let mut sent = 0;
        if progress.rests(now) {
            return Ok(sent);
        }
        self.positions.lock().write_down(Durability::Durable)?;
        let mut unsent = VecDeque::from(self.telemetry.extents()?);
        while let Some(extent) = unsent.front().copied() {
            if !self.positions.lock().is_unsent(extent) {
                unsent.pop_front();
                continue;
            }
            let mut batch = self.batch(extent, progress.most)?;
            if let Some(oldest) = batch.oldest {
                *self.oldest.lock() = Some(oldest);
                // What was received in the future came before a clock was put back.
                let waits = (0..self.settings.interval).contains(&now.since(oldest));
                let due = batch.whole || unsent.len() > 1 || !waits;
                if !due || self.stopped.load(Relaxed) {
                    return Ok(sent);
                }
                match self.offer(&mut batch, &mut progress, now)? {
                    Outcome::Done(taken) => sent += taken,
                    Outcome::Smaller => continue,
                    Outcome::Rest => return Ok(sent),
                }
            }
            if batch.spoilt + batch.damaged > 0 {
                self.refused.fetch_add(batch.spoilt, Relaxed);
                let (events, bytes) = (batch.spoilt, batch.damaged);
                tracing::error!(events, bytes, "what is damaged is not forwarded");
            }
            let mut positions = self.positions.lock();
            positions.pass(batch.hour, batch.to, batch.looked)?;
        }
        *self.oldest.lock() = None;
        Ok(sent)
    }

    /// Ends what is being sent: the process is about to end. What was not taken is sent after the start.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.sink.stop();
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> ForwardCounts {
        ForwardCounts {
            sent: self.sent.load(Relaxed),
            refused: self.refused.load(Relaxed),
            expired: self.expired.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }

    /// How many seconds the oldest event has waited that the sink has not taken.
    #[must_use]
    pub fn lag(&self, now: UnixSeconds) -> i64 {
        let oldest = *self.oldest.lock();
        oldest.map_or(0, |oldest| now.since(oldest).max(0))
    }

    /// Why events do not get out at present, or not soon enough, if that is so.
    #[must_use]
    pub fn trouble(&self, now: UnixSeconds) -> Option<String> {
        let lag = self.lag(now);
        let behind = (lag > BEHIND.max(2 * self.settings.interval))
            .then(|| format!("events have waited for {lag} seconds"));
        match (self.trouble.lock().clone(), behind) {
            (Some(trouble), Some(behind)) => Some(format!("{trouble}; {behind}")),
            (trouble, behind) => trouble.or(behind),
        }
    }

    /// Reads the next batch of an hour: the one that was offered before, or one of up to `most` events.
    fn batch(&self, (hour, length): Extent, most: usize) -> Result<Batch, TelemetryError> {
        let position = self.positions.lock().get(hour);
        let from = position.kept.sent;
        let (end, most) = match position.offered() {
            Some(offered) => (offered, usize::MAX),
            None => (length, most),
        };
        let mut batch = Batch {
            hour,
            to: from,
            looked: length,
            ..Batch::default()
        };
        // Before the segment is opened: whose erasure is done by then is no longer in it.
        let erased = self.to_be_erased()?;
        let Some(mut events) = self.telemetry.part(hour, (from, end))? else {
            return Ok(batch);
        };
        loop {
            batch.whole = batch.events >= most || batch.lines.len() >= LINES_MAX;
            let event = match batch.whole {
                true => None,
                false => events.next()?,
            };
            batch.to = events.sound_end();
            let Some(event) = event else {
                break;
            };
            let line = batch.lines.len();
            if erased.contains(&event.sender.user) {
                continue;
            }
            if (self.line)(&event, &mut batch.lines).is_err() {
                batch.lines.truncate(line);
                batch.spoilt += 1;
                continue;
            }
            batch.oldest = batch.oldest.or(Some(event.received));
            batch.events += 1;
        }
        batch.damaged = events.damaged();
        if batch.whole || end < length {
            batch.looked = batch.to;
        }
        batch.whole |= position.offered().is_some();
        Ok(batch)
    }

    /// The users whose accounts are gone, and whose events are about to go.
    fn to_be_erased(&self) -> Result<HashSet<UserId>, TelemetryError> {
        let store = &self.telemetry.inner.store;
        let noted = store.read(|txn| txn.scan::<Erasures>(&All, usize::MAX))?;
        Ok(noted.into_iter().map(|(user, _)| user).collect())
    }

    fn offer(
        &self,
        batch: &mut Batch,
        progress: &mut Progress,
        now: UnixSeconds,
    ) -> Result<Outcome, TelemetryError> {
        self.positions.lock().offer(batch.hour, batch.to)?;
        let hash = digest::digest(&digest::SHA256, &batch.lines);
        let key = HEXLOWER.encode(hash.as_ref());
        let bytes = batch.lines.len();
        let lines = std::mem::take(&mut batch.lines);
        let Err(unsent) = self.sink.post(lines, &key) else {
            self.sent.fetch_add(batch.events as u64, Relaxed);
            progress.taken(self.settings.batch);
            self.report_failure(None);
            return Ok(Outcome::Done(batch.events));
        };
        if self.stopped.load(Relaxed) {
            return Ok(Outcome::Rest);
        }
        self.failures.fetch_add(1, Relaxed);
        let (words, wait) = match unsent {
            SinkError::Refused(words) if batch.events > 1 => {
                tracing::debug!(
                    events = batch.events,
                    words,
                    "a batch is refused and halved"
                );
                progress.most = batch.events / 2;
                let mut positions = self.positions.lock();
                let from = positions.get(batch.hour).kept.sent;
                positions.offer(batch.hour, from)?;
                return Ok(Outcome::Smaller);
            }
            SinkError::Refused(words) => {
                if progress.gives_up() {
                    self.refused.fetch_add(1, Relaxed);
                    let received = batch.oldest.unwrap_or(now).0;
                    tracing::error!(
                        received,
                        bytes,
                        words,
                        "the sink refuses an event; it is passed over, and `playgate telemetry export` has it"
                    );
                    return Ok(Outcome::Done(0));
                }
                (words, None)
            }
            SinkError::Later { words, wait } => (words, wait),
        };
        let random = u64::from_be_bytes(self.entropy.array());
        progress.failed(wait, random, now);
        self.report_failure(Some(words));
        Ok(Outcome::Rest)
    }

    /// Says once when events stop getting out, and once when they do again.
    fn report_failure(&self, trouble: Option<String>) {
        let mut told = self.trouble.lock();
        match (&*told, &trouble) {
            (old, Some(new)) if old.as_ref() != Some(new) => {
                tracing::warn!(
                    words = new,
                    "telemetry cannot be forwarded; it is tried again"
                );
            }
            (Some(_), None) => tracing::info!("telemetry is forwarded again"),
            _ => {}
        }
        *told = trouble;
    }
}

impl Progress {
    fn rests(&self, now: UnixSeconds) -> bool {
        // A rest that is longer than any was begun by a clock that was ahead.
        self.rests_until
            .is_some_and(|until| now < until && until <= now + 2 * ASKED_MAX)
    }

    fn taken(&mut self, batch: usize) {
        // Slowly: where one batch was too large the next one of its size is so too.
        let more = self.most.saturating_add(self.most / 8 + 1);
        *self = Self {
            most: more.min(batch),
            proven: true,
            refusals: 0,
            failures: 0,
            rests_until: None,
        };
    }

    fn failed(&mut self, wait: Option<u64>, random: u64, now: UnixSeconds) {
        let asked = wait.map_or(0, |wait| i64::try_from(wait).unwrap_or(ASKED_MAX));
        let pause = AFTER_FAILURE.after(self.failures, random).max(1);
        self.failures = self.failures.saturating_add(1);
        self.rests_until = Some(now + pause.max(asked.min(ASKED_MAX)));
    }

    /// Whether an event that was refused alone is passed over.
    ///
    /// Decision: at once where the sink takes others; where it may be refusing everything, as a wrong
    /// table makes it, after a quarter of an hour. So an event holds up the others no longer than that, and
    /// a sink that is set up wrongly costs a handful of events an hour and not the whole store of them;
    /// those are in the log and in the export.
    const fn gives_up(&mut self) -> bool {
        self.refusals += 1;
        let gives_up = self.proven || self.refusals > REFUSALS;
        if gives_up {
            self.proven = false;
            self.refusals = 0;
            self.failures = 0;
        }
        gives_up
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
