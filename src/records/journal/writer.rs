//! The thread that writes the journal.
//!
//! Requests put their records into a bounded queue and do not wait. The thread writes all queued records as one piece,
//! syncs every few seconds, and finishes a segment that is full or an hour old.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::erasure_subject::ErasureSubject;
use super::record::{JournalRecord, LateFacts};
use super::segment::{OpenJournalSegment, SEGMENT_MAX, encode};
use super::{JournalError, JournalShared};

/// Maximum queued records. At 1 KiB each this is 8 MiB, enough for a slow sync at some thousand requests a second.
const QUEUE_MAX: usize = 8_192;
/// How long a record waits for others. A kill loses the records of this time. Waking the thread for each record took a
/// tenth of an entitlement's processor time.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// Maximum records of one write.
const BATCH_MAX: usize = 512;
/// A power cut loses at most the records of this time. Syncs are rare, because the store needs the disk as well.
const SYNC_EVERY: Duration = Duration::from_secs(5);
const FINISH_AFTER: Duration = Duration::from_secs(3_600);
const WAKE_EVERY: Duration = Duration::from_secs(1);
/// Longer than any request runs: a request of an erased user may still be in progress.
const FORGET_FOR: Duration = Duration::from_secs(600);
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// How long a reader waits for records that are not written yet. A stalled disk must not block readers.
const READER_WAIT: Duration = Duration::from_secs(1);

pub(super) enum JournalJob {
    Flush,
    Finish,
    /// Finishes the open segment if it has records of the subject, whose records are dropped from then on.
    Forget(ErasureSubject),
}

enum Message {
    Record(Box<JournalRecord>, Option<LateFacts>),
    Job(JournalJob, SyncSender<()>),
}

pub(super) struct WriterThread {
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    pub(super) fn start(shared: Arc<JournalShared>) -> io::Result<Self> {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let mut writer = JournalWriter {
            // Numbers continue after a restart: readers ask for records after the last number that they have seen.
            next: shared.last.load(Relaxed) + 1,
            shared,
            open: None,
            batch: Vec::new(),
            forgotten: VecDeque::new(),
            synced: Instant::now(),
            reported: None,
        };
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&messages))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Returns false if the queue is full or the thread has stopped.
    pub(super) fn offer(&self, record: JournalRecord, facts: Option<LateFacts>) -> bool {
        let message = Message::Record(Box::new(record), facts);
        match self.queue.as_ref().map(|queue| queue.try_send(message)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }

    /// Runs a job on the thread, after everything queued before, and waits for its end.
    pub(super) fn run(&self, job: JournalJob) -> Result<(), JournalError> {
        let (done, end) = sync_channel(1);
        let queue = self.queue.as_ref().ok_or(JournalError::Stopped)?;
        // Through the queue of records, so that a job finds all records written that were queued before it. It waits
        // for room, unlike a request.
        let sent = queue.send(Message::Job(job, done));
        sent.map_err(|_| JournalError::Stopped)?;
        self.end_gathering();
        end.recv().map_err(|_| JournalError::Stopped)
    }

    /// Waits until records queued before are readable, but not longer than `READER_WAIT`.
    pub(super) fn flush_for_reader(&self) {
        let (done, end) = sync_channel(1);
        let flush = Message::Job(JournalJob::Flush, done);
        // With a full queue the thread is writing already.
        if self
            .queue
            .as_ref()
            .is_some_and(|queue| queue.try_send(flush).is_ok())
        {
            self.end_gathering();
            let _ = end.recv_timeout(READER_WAIT);
        }
    }

    fn end_gathering(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // Dropping the sender ends the wait of the thread.
        self.queue.take();
        self.end_gathering();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct JournalWriter {
    shared: Arc<JournalShared>,
    next: u64,
    open: Option<(OpenJournalSegment, Instant)>,
    batch: Vec<JournalRecord>,
    forgotten: VecDeque<(ErasureSubject, Instant)>,
    synced: Instant,
    reported: Option<Instant>,
}

impl JournalWriter {
    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let mut waiting = match messages.recv_timeout(WAKE_EVERY) {
                Ok(message) => {
                    if matches!(message, Message::Record(..)) {
                        // Lets more records gather. A job, or the end of the journal, ends the wait early.
                        thread::park_timeout(GATHER_TIME);
                    }
                    Some(message)
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            while let Some(message) = waiting {
                match message {
                    Message::Record(mut record, late) => {
                        if let Some(add_facts) = late {
                            // Not done by the request: these facts may have to be read from disk.
                            add_facts(&mut record);
                        }
                        self.batch.push(*record);
                    }
                    Message::Job(job, done) => {
                        self.write();
                        self.work(job);
                        // Fails only if the caller does not wait any more.
                        let _ = done.send(());
                    }
                }
                if self.batch.len() >= BATCH_MAX {
                    self.write();
                    // Under load the queue is never empty, so syncs and ends must be checked here too.
                    self.tidy();
                }
                waiting = messages.try_recv().ok();
            }
            self.write();
            self.tidy();
        }
        self.write();
        self.restore_deleted();
        self.sync();
    }

    fn work(&mut self, job: JournalJob) {
        match job {
            // Whoever reads next needs the file.
            JournalJob::Flush => self.restore_deleted(),
            JournalJob::Finish => self.finish(),
            JournalJob::Forget(subject) => {
                // Must precede the end of the segment: records of the subject that are still queued are dropped later.
                self.forgotten.push_back((subject, Instant::now()));
                if self
                    .open
                    .as_ref()
                    .is_some_and(|(open, _)| open.has_records_of(subject))
                {
                    self.finish();
                }
            }
        }
    }

    fn write(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        // Must precede the write: after it the erasure would have to rewrite the segment again.
        batch.retain(|record| !self.forgotten.iter().any(|(gone, _)| gone.owns(record)));
        if batch.is_empty() {
            return;
        }
        if !self.shared.has_room() {
            self.shared.unwritten.fetch_add(batch.len() as u64, Relaxed);
            return;
        }
        let (mut frames, mut records) = (Vec::new(), Vec::new());
        for record in batch {
            let mut record = record.bounded();
            record.number = self.next;
            // A record that cannot be encoded uses no number, so that it leaves no gap.
            if encode(&record, &mut frames) {
                self.next += 1;
                records.push(record);
            } else {
                self.shared.unwritten.fetch_add(1, Relaxed);
            }
        }
        match self.append(&frames, &records) {
            Ok(()) => {
                self.shared.written.fetch_add(records.len() as u64, Relaxed);
                // After the append: readers that wait for new records must find them.
                self.shared.last.store(self.next - 1, Relaxed);
                self.shared.waiters.notify(&records, self.next - 1);
            }
            Err(error) => {
                self.shared
                    .unwritten
                    .fetch_add(records.len() as u64, Relaxed);
                self.report(
                    &error,
                    "failed to write to the request journal; its records are lost",
                );
            }
        }
        if self
            .open
            .as_ref()
            .is_some_and(|(open, _)| open.length() >= SEGMENT_MAX)
        {
            self.finish();
        }
    }

    fn append(&mut self, frames: &[u8], records: &[JournalRecord]) -> io::Result<()> {
        let Some(first) = records.first() else {
            return Ok(());
        };
        let (open, _) = match &mut self.open {
            Some(open) => open,
            none => {
                let open = OpenJournalSegment::create(&self.shared.directory, first.number)?;
                none.insert((open, Instant::now()))
            }
        };
        open.append(frames, records)?;
        let summary = open.summary();
        // After every append, so that readers see how far the open segment can be read.
        self.shared.segments.lock().insert(open.first, summary);
        Ok(())
    }

    fn tidy(&mut self) {
        let now = Instant::now();
        self.restore_deleted();
        while self
            .forgotten
            .front()
            .is_some_and(|(_, at)| now - *at > FORGET_FOR)
        {
            self.forgotten.pop_front();
        }
        if self
            .open
            .as_ref()
            .is_some_and(|(_, since)| now - *since > FINISH_AFTER)
        {
            self.finish();
        } else if now - self.synced > SYNC_EVERY {
            // Set even if the sync fails, so that a broken disk is not tried again in each round.
            self.synced = now;
            self.sync();
        }
    }

    fn sync(&mut self) {
        let synced = self.open.as_mut().map_or(Ok(()), |(open, _)| open.sync());
        if let Err(error) = synced {
            // The kernel may have dropped dirty pages of the segment, so nothing may be appended to it.
            self.report(&error, "failed to sync the request journal");
            self.finish();
        }
    }

    /// Writes the open file again if another program has deleted it.
    fn restore_deleted(&mut self) {
        let restored = self
            .open
            .as_mut()
            .map_or(Ok(()), |(open, _)| open.restore());
        if let Err(error) = restored {
            self.report(
                &error,
                "failed to write a deleted file of the request journal again",
            );
        }
    }

    fn finish(&mut self) {
        self.restore_deleted();
        let Some((open, _)) = self.open.take() else {
            return;
        };
        let finished = {
            let _rewriting = self.shared.rewriting.lock();
            // The plain form stays until its compressed form is complete: `rewrite` replaces it by a rename.
            let finished = self.shared.directory.rewrite(open.first, |_| true);
            let mut segments = self.shared.segments.lock();
            match &finished {
                Ok(Some(summary)) => segments.insert(open.first, summary.clone()),
                Ok(None) => segments.remove(&open.first),
                // The segment stays readable in its plain form, and the next start tries again.
                Err(_) => segments.get_mut(&open.first).map(|open| {
                    open.finished = true;
                    open.clone()
                }),
            };
            finished.map(drop)
        };
        let tidied = finished.and_then(|()| self.shared.make_room().map(drop));
        if let Err(error) = tidied {
            self.report(&error, "failed to finish a segment of the request journal");
        }
    }

    /// Logs at most once a minute, since a full disk fails every write.
    fn report(&mut self, error: &io::Error, what: &str) {
        if self.reported.is_none_or(|at| at.elapsed() > REPORT_EVERY) {
            self.reported = Some(Instant::now());
            tracing::error!(%error, "{what}");
        }
    }
}
