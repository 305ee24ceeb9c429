//! How mails get from the queue to the server: a job's work.
//!
//! A mail is marked as sent, durably, once the server has said that it took it. A crash in between,
//! or a connection that breaks before the answer, sends it again under the same Message-ID: mail may
//! come twice, by which it never comes not at all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::model::{Counts, Status};
use super::tables::{MailKey, MailRecord, Mails, MailsByUser};
use super::{BATCH, Kind, Mail};
use crate::domain::backoff::Backoff;
use crate::ports::mailer::{
    MailLine, Mailer, OutgoingMail, SendError, ServerUnavailable, SmtpTranscript,
};
use crate::store::{Durability, StoreError, Txn};
use crate::types::{UnixSeconds, UserId};

/// Mails that go over one connection, and before the job may be stopped.
const PER_LINE: usize = 20;
/// The most characters that are kept of a server's words: a record is bounded.
const WORDS_MAX: usize = 500;
/// Mails of a user among which those that wait are looked for: they are among the newest.
const NEWEST: usize = 16;

/// After a mail was not taken: a list of grey senders wants to be asked again after some minutes.
const OF_MAIL: Backoff = Backoff {
    first: 30,
    longest: 1_800,
};
/// After the server could not be used: somebody waits for each mail, so it is asked often, but not so
/// often that a wrong password shuts us out.
const OF_SERVER: Backoff = Backoff {
    first: 5,
    longest: 300,
};

/// The state of the delivery.
#[derive(Default)]
pub(super) struct Delivery {
    progress: Mutex<Progress>,
    trouble: Mutex<Option<ServerUnavailable>>,
    sent: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    expired: AtomicU64,
}

/// What one run tells the next. Locked for as long as a run takes: there is never more than one.
#[derive(Default)]
struct Progress {
    /// What the store has not taken yet. Nothing is sent before it has, or a mail that was sent
    /// would be sent again for as long as a disk is full.
    unwritten: Vec<Outcome>,
    /// How often in a row the server could not be used.
    failures: u32,
    rests_until: Option<UnixSeconds>,
}

/// What became of a mail.
#[derive(Clone)]
struct Outcome {
    key: MailKey,
    status: Status,
    /// The server's words, if it was asked.
    words: Option<String>,
    next: UnixSeconds,
}

impl Mail {
    /// Sends mails that are due, and gives up those whose time is over; blocking. Returns how many it
    /// dealt with. What is left over rings the bell again.
    ///
    /// # Errors
    /// That the store failed.
    pub fn deliver(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        self.deliver_due(now, true)
    }

    /// The same, but gives no mail up for its age: for while the clock is in doubt.
    ///
    /// # Errors
    /// That the store failed.
    pub fn deliver_without_expiry(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        self.deliver_due(now, false)
    }

    fn deliver_due(&self, now: UnixSeconds, expire: bool) -> Result<usize, StoreError> {
        let mut progress = self.0.delivery.progress.lock();
        self.record_outcomes(&mut progress)?;
        let mut done = match expire {
            true => self.expire(&mut progress, now)?,
            false => 0,
        };
        let Some(mailer) = &self.0.mailer else {
            return Ok(done);
        };
        if progress.rests(now) {
            return Ok(done);
        }
        let longest = OF_MAIL.longest * 2;
        let due = self.0.outbox.due(now, longest, PER_LINE);
        let mut line = None;
        for key in &due {
            let mail = self.0.store.read(|txn| txn.get::<Mails>(key))?;
            // It may have been withdrawn since.
            let Some(mail) = mail.filter(|mail| mail.status == Status::Queued) else {
                continue;
            };
            let result = self.attempt(&**mailer, &mut line, key, &mail);
            let usable = !matches!(result, Err(SendError::Trouble(_)));
            let outcome = self.outcome(&mut progress, (*key, &mail), result, now);
            progress.unwritten.push(outcome);
            self.record_outcomes(&mut progress)?;
            done += 1;
            if !usable {
                return Ok(done);
            }
        }
        if let Some(line) = line {
            line.close();
        }
        if due.len() == PER_LINE {
            self.0.outbox.notify();
        }
        Ok(done)
    }

    /// Why mail does not get out at present, if it does not.
    #[must_use]
    pub fn last_failure(&self) -> Option<String> {
        let trouble = self.0.delivery.trouble.lock();
        trouble.as_ref().map(|trouble| trouble.words.clone())
    }

    /// Figures of the queue.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (queued, oldest) = self.0.outbox.size();
        let delivery = &self.0.delivery;
        Counts {
            queued,
            oldest,
            sent: delivery.sent.load(Relaxed),
            retried: delivery.retried.load(Relaxed),
            failed: delivery.failed.load(Relaxed),
            expired: delivery.expired.load(Relaxed),
        }
    }

    /// Has `bell` called whenever there is something to deliver.
    pub fn on_notify(&self, bell: impl Fn() + Send + Sync + 'static) {
        self.0.outbox.on_notify(Box::new(bell));
    }

    /// One try at one mail.
    fn attempt(
        &self,
        mailer: &dyn Mailer,
        line: &mut Option<Box<dyn MailLine>>,
        key: &MailKey,
        mail: &MailRecord,
    ) -> Result<String, SendError> {
        let secret = self.secret(key, mail);
        if mail.secret.is_some() && secret.is_none() {
            let words = "what it brings cannot be read: it was sealed under another key";
            return Err(SendError::Refused(words.to_owned()));
        }
        let letter = self.letter(key, mail, super::Secrets::Shown);
        let parcel = OutgoingMail {
            id: letter.summary.id,
            to: letter.summary.to,
            date: mail.created,
            subject: letter.summary.subject,
            text: letter.text,
            html: letter.html,
        };
        // A filter likes to quote the link that it objects to.
        let hidden = |words: String| match &secret {
            Some(secret) => words.replace(secret, super::REMOVED),
            None => words,
        };
        match hand_over(mailer, line, &parcel) {
            Ok(words) => Ok(hidden(words)),
            Err(SendError::Later(words)) => Err(SendError::Later(hidden(words))),
            Err(SendError::Refused(words)) => Err(SendError::Refused(hidden(words))),
            Err(SendError::Trouble(trouble)) => Err(SendError::Trouble(ServerUnavailable {
                words: hidden(trouble.words),
                ..trouble
            })),
        }
    }

    /// What an answer means for the mail, and for the server.
    fn outcome(
        &self,
        progress: &mut Progress,
        (key, mail): (MailKey, &MailRecord),
        result: Result<String, SendError>,
        now: UnixSeconds,
    ) -> Outcome {
        let random = u64::from_be_bytes(self.0.entropy.array());
        let trouble = match &result {
            Err(SendError::Trouble(trouble)) => Some(trouble.clone()),
            Ok(_) | Err(_) => None,
        };
        progress.judge(trouble.as_ref(), random, now);
        self.0.delivery.report_failure(trouble);
        let (status, words, next) = match result {
            Ok(words) => (Status::Sent, words, now),
            Err(SendError::Refused(words)) => (Status::Failed, words, now),
            Err(SendError::Later(words)) => {
                let wait = OF_MAIL.after(mail.attempts, random);
                (Status::Queued, words, now + wait)
            }
            Err(SendError::Trouble(trouble)) => {
                let next = progress.rests_until.unwrap_or(now);
                (Status::Queued, trouble.words, next)
            }
        };
        // The words may name the viewer, whom a log must not.
        tracing::debug!(kind = mail.kind.as_str(), status = status.as_str(), "mail");
        Outcome {
            key,
            status,
            words: Some(words.chars().take(WORDS_MAX).collect()),
            next,
        }
    }

    /// Marks mails whose time is over.
    fn expire(&self, progress: &mut Progress, now: UnixSeconds) -> Result<usize, StoreError> {
        let overdue = self.0.outbox.overdue(now);
        for keys in overdue.chunks(BATCH) {
            progress.unwritten.extend(keys.iter().map(|key| Outcome {
                key: *key,
                status: Status::Expired,
                words: None,
                next: now,
            }));
            self.record_outcomes(progress)?;
        }
        Ok(overdue.len())
    }

    fn record_outcomes(&self, progress: &mut Progress) -> Result<(), StoreError> {
        if progress.unwritten.is_empty() {
            return Ok(());
        }
        let outcomes = progress.unwritten.clone();
        self.0
            .store
            .write(Durability::Durable, move |txn| {
                outcomes
                    .iter()
                    .try_for_each(|outcome| record_outcome(txn, outcome))
            })
            .wait()?;
        for outcome in progress.unwritten.drain(..) {
            self.0.delivery.count(outcome.status);
        }
        Ok(())
    }
}

impl Progress {
    fn rests(&self, now: UnixSeconds) -> bool {
        let longest = OF_SERVER.longest * 2;
        // A rest that is longer than any was begun by a clock that was ahead.
        self.rests_until
            .is_some_and(|until| now < until && until <= now + longest)
    }

    fn judge(&mut self, trouble: Option<&ServerUnavailable>, random: u64, now: UnixSeconds) {
        let Some(trouble) = trouble else {
            self.failures = 0;
            self.rests_until = None;
            return;
        };
        let failures = if trouble.lasting {
            u32::MAX
        } else {
            self.failures
        };
        self.failures = self.failures.saturating_add(1);
        self.rests_until = Some(now + OF_SERVER.after(failures, random));
    }
}

impl Delivery {
    /// Says once when mail stops getting out, and once when it does again.
    fn report_failure(&self, trouble: Option<ServerUnavailable>) {
        let mut told = self.trouble.lock();
        match (&*told, &trouble) {
            (_, Some(new)) if told.as_ref() != Some(new) => {
                tracing::warn!(words = new.words, "the mail server cannot be used");
            }
            (Some(_), None) => tracing::info!("the mail server can be used again"),
            _ => {}
        }
        *told = trouble;
    }

    fn count(&self, status: Status) {
        let counter = match status {
            Status::Sent => &self.sent,
            Status::Queued => &self.retried,
            Status::Failed => &self.failed,
            Status::Expired => &self.expired,
            Status::Sink => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// Hands a mail over, on the line that is open or on a new one. A line that failed is not used again.
fn hand_over(
    mailer: &dyn Mailer,
    line: &mut Option<Box<dyn MailLine>>,
    parcel: &OutgoingMail,
) -> Result<String, SendError> {
    let mut dialogue = SmtpTranscript::new();
    if let Some(mut open) = line.take() {
        match open.send(parcel, &mut dialogue) {
            // A server may want a new connection after some mails. It has not taken this one.
            Err(SendError::Trouble(_)) => {}
            Err(unsent) => return Err(unsent),
            Ok(words) => {
                *line = Some(open);
                return Ok(words);
            }
        }
    }
    let mut open = mailer.connect(&mut dialogue).map_err(SendError::Trouble)?;
    let words = open.send(parcel, &mut dialogue)?;
    *line = Some(open);
    Ok(words)
}

/// Writes down what became of a mail, if it still waits. Its secret goes with its end.
fn record_outcome(txn: &mut Txn<'_>, outcome: &Outcome) -> Result<(), StoreError> {
    let mail = txn.get::<Mails>(&outcome.key)?;
    let Some(mail) = mail.filter(|mail| mail.status == Status::Queued) else {
        return Ok(());
    };
    let tried = u32::from(outcome.words.is_some());
    let record = MailRecord {
        status: outcome.status,
        secret: mail.secret.filter(|_| outcome.status == Status::Queued),
        attempts: mail.attempts.saturating_add(tried),
        next: outcome.next,
        words: outcome.words.clone().or(mail.words),
        ..mail
    };
    txn.put::<Mails>(&outcome.key, &record)
}

/// Gives up a user's mails of a kind that still wait, within the plan that voids what they bring.
///
/// # Errors
/// That the store failed.
pub fn withdraw(txn: &mut Txn<'_>, user: &UserId, kind: Kind) -> Result<(), StoreError> {
    for (_, key) in txn.scan_index::<MailsByUser>(user, NEWEST)? {
        if let Some(mail) = txn.get::<Mails>(&key)?.filter(|mail| mail.kind == kind) {
            let outcome = Outcome {
                key,
                status: Status::Expired,
                words: None,
                next: mail.next,
            };
            record_outcome(txn, &outcome)?;
        }
    }
    Ok(())
}
