//! Delivers queued mails to the mail server; run by a background job.
//!
//! Delivery is at-least-once: a mail may arrive twice but is never lost. A mail is marked as sent, durably,
//! after the server has accepted it. A crash before that, or a connection that breaks before the answer, sends
//! it again under the same Message-ID.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::model::{MailCounts, MailStatus};
use super::refusals::Refusals;
use super::tables::{MailKey, MailRecord, Mails, MailsByUser, QUEUE_MAX_AGE};
use super::{BATCH, Mail, MailKind, intact};
use crate::backoff::Backoff;
use playgate_ports::mailer::{
    MailConnection, Mailer, OutgoingMail, SendError, ServerUnavailable, SmtpTranscript,
};
use playgate_store::{Durability, StoreError, Txn};
use playgate_types::{UnixSeconds, UserId};

/// Maximum number of mails per connection and run of the job.
const PER_CONNECTION: usize = 20;
const RESPONSE_MAX: usize = 500;

/// Pauses between the attempts for one mail. Greylisting servers want a second attempt after some minutes.
const MAIL_RETRY: Backoff = Backoff {
    first: 30,
    longest: 1_800,
};
/// Pauses after a server failure: short, because users wait for their mails, but long enough that a wrong password does
/// not lock the account.
const SERVER_PAUSE: Backoff = Backoff {
    first: 5,
    longest: 300,
};

#[derive(Default)]
pub(super) struct Delivery {
    progress: Mutex<DeliveryProgress>,
    failure: Mutex<Option<ServerUnavailable>>,
    sent: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    expired: AtomicU64,
}

/// The lock is held during a run, so runs never overlap.
#[derive(Default)]
struct DeliveryProgress {
    /// Outcomes that are not stored yet. Nothing is sent while there are any; otherwise a full disk would send the same
    /// mail again and again.
    unwritten: Vec<DeliveryOutcome>,
    failures: u32,
    paused_until: Option<UnixSeconds>,
    refusals: Refusals,
}

#[derive(Clone)]
struct DeliveryOutcome {
    key: MailKey,
    status: MailStatus,
    /// `None` if the server was not contacted.
    response: Option<String>,
    next: UnixSeconds,
}

impl Mail {
    /// Sends the mails that are due and expires those past their deadline. Returns the number of mails processed.
    /// Blocking.
    pub fn deliver(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        self.deliver_due(now, true)
    }

    /// Delivers mail without expiring any, while the clock is not trusted.
    pub fn deliver_without_expiry(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        self.deliver_due(now, false)
    }

    fn deliver_due(&self, now: UnixSeconds, expire: bool) -> Result<usize, StoreError> {
        let mut progress = self.0.delivery.progress.lock();
        // First the outcomes that a full disk kept from being stored: without them the mails would be sent again.
        self.record_outcomes(&mut progress)?;
        let mut done = match expire {
            true => self.expire(&mut progress, now)?,
            false => 0,
        };
        // Without a mailer nothing is sent, but mails queued by an earlier configuration still expire.
        let Some(mailer) = &self.0.mailer else {
            return Ok(done);
        };
        if progress.is_paused(now) {
            return Ok(done);
        }
        // A retry further ahead was scheduled by a clock that ran ahead.
        let longest = MAIL_RETRY.longest * 2;
        let due = self.0.queue.due(now, longest, PER_CONNECTION);
        let mut line = None;
        for key in &due {
            let mail = self.0.store.read(|txn| intact(txn, key))?;
            // The mail may have been withdrawn since the queue was read.
            let Some(mail) = mail.filter(|mail| mail.status == MailStatus::Queued) else {
                continue;
            };
            let result = self.attempt(&**mailer, &mut line, key, &mail);
            let about = (*key, &mail.to, mail.attempts);
            let result = progress.refusals.judge(about, result);
            let usable = !matches!(result, Err(SendError::Unavailable(_)));
            let outcome = self.outcome(&mut progress, (*key, &mail), result, now);
            // Recorded before the next mail is sent, so that a crash repeats at most one mail.
            progress.unwritten.push(outcome);
            self.record_outcomes(&mut progress)?;
            done += 1;
            // The other mails would fail in the same way.
            if !usable {
                self.queue_again(&mut progress)?;
                return Ok(done);
            }
        }
        if let Some(line) = line {
            line.close();
        }
        // More mails may be due. Return and run again, so that the job can be stopped in between.
        if due.len() == PER_CONNECTION {
            self.0.queue.notify();
        }
        Ok(done)
    }

    /// `None` while the mail server is available.
    pub fn last_failure(&self) -> Option<String> {
        let failure = self.0.delivery.failure.lock();
        failure.as_ref().map(|failure| failure.response.clone())
    }

    pub fn counts(&self) -> MailCounts {
        let (queued, oldest) = self.0.queue.size();
        let delivery = &self.0.delivery;
        MailCounts {
            queued,
            oldest,
            sent: delivery.sent.load(Relaxed),
            retried: delivery.retried.load(Relaxed),
            failed: delivery.failed.load(Relaxed),
            expired: delivery.expired.load(Relaxed),
        }
    }

    pub fn on_notify(&self, callback: impl Fn() + Send + Sync + 'static) {
        self.0.queue.on_notify(Box::new(callback));
    }

    fn attempt(
        &self,
        mailer: &dyn Mailer,
        line: &mut Option<Box<dyn MailConnection>>,
        key: &MailKey,
        mail: &MailRecord,
    ) -> Result<String, SendError> {
        let secret = self.secret(key, mail);
        // Without its link or PIN the mail is useless, and a retry cannot help.
        if mail.secret.is_some() && secret.is_none() {
            let response = "the token or PIN cannot be decrypted: it was sealed under another key";
            return Err(SendError::Invalid(response.to_owned()));
        }
        let render = |txn: &Txn<'_>| self.render_mail(txn, key, mail, super::Secrets::Shown);
        let rendered = self.0.store.read(render);
        let outgoing = OutgoingMail {
            id: rendered.summary.id,
            to: rendered.summary.to,
            date: mail.created,
            subject: rendered.summary.subject,
            text: rendered.text,
            html: rendered.html,
            logo: self.carried_logo(),
        };
        // Spam filters may quote the link in their rejection, so the secret is redacted.
        let redacted = |response: String| match &secret {
            Some(secret) => response.replace(secret, super::REMOVED),
            None => response,
        };
        match send_over(mailer, line, &outgoing) {
            Ok(response) => Ok(redacted(response)),
            Err(SendError::Later(response)) => Err(SendError::Later(redacted(response))),
            Err(SendError::Refused(response)) => Err(SendError::Refused(redacted(response))),
            Err(SendError::Invalid(response)) => Err(SendError::Invalid(redacted(response))),
            Err(SendError::Unavailable(failure)) => {
                Err(SendError::Unavailable(ServerUnavailable {
                    response: redacted(failure.response),
                    ..failure
                }))
            }
        }
    }

    /// Turns the result of an attempt into an outcome, and updates the pause of the server.
    fn outcome(
        &self,
        progress: &mut DeliveryProgress,
        (key, mail): (MailKey, &MailRecord),
        result: Result<String, SendError>,
        now: UnixSeconds,
    ) -> DeliveryOutcome {
        let random = u64::from_be_bytes(self.0.entropy.array());
        let failure = match &result {
            Err(SendError::Unavailable(failure)) => Some(failure.clone()),
            Ok(_) | Err(_) => None,
        };
        progress.update_pause(failure.as_ref(), random, now);
        self.0.delivery.report_failure(failure);
        let (status, response, next) = match result {
            Ok(response) => (MailStatus::Sent, response, now),
            Err(SendError::Refused(response) | SendError::Invalid(response)) => {
                (MailStatus::Failed, response, now)
            }
            Err(SendError::Later(response)) => {
                // The server defers this mail only, so the others are sent.
                let wait = MAIL_RETRY.after(mail.attempts, random);
                (MailStatus::Queued, response, now + wait)
            }
            Err(SendError::Unavailable(failure)) => {
                // The server is down, so the mail is due when the pause ends.
                let next = progress.paused_until.unwrap_or(now);
                (MailStatus::Queued, failure.response, next)
            }
        };
        // The response may contain the viewer's address, which must not be logged.
        tracing::debug!(
            kind = mail.kind.as_str(),
            status = status.as_str(),
            "tried to send a mail"
        );
        DeliveryOutcome {
            key,
            status,
            response: Some(response.chars().take(RESPONSE_MAX).collect()),
            next,
        }
    }

    /// Queues the mails again that were given up before the server was known to refuse everybody.
    fn queue_again(&self, progress: &mut DeliveryProgress) -> Result<(), StoreError> {
        let keys = progress.refusals.take_given_up();
        let Some(next) = progress.paused_until.filter(|_| !keys.is_empty()) else {
            return Ok(());
        };
        let batch = move |txn: &mut Txn<'_>| {
            for key in &keys {
                let mail = intact(txn, key)?;
                if let Some(mail) = mail.filter(|mail| mail.status == MailStatus::Failed) {
                    let status = MailStatus::Queued;
                    let record = MailRecord {
                        status,
                        next,
                        ..mail
                    };
                    txn.put::<Mails>(key, &record)?;
                }
            }
            Ok::<_, StoreError>(())
        };
        self.0.store.write(Durability::Durable, batch).wait()
    }

    /// Tries the server again at once.
    pub(super) fn end_pause(&self) {
        let mut progress = self.0.delivery.progress.lock();
        progress.paused_until = None;
        progress.failures = 0;
    }

    fn expire(
        &self,
        progress: &mut DeliveryProgress,
        now: UnixSeconds,
    ) -> Result<usize, StoreError> {
        let overdue = self.0.queue.overdue(now);
        for keys in overdue.chunks(BATCH) {
            // In batches, which bound the size of a commit.
            progress
                .unwritten
                .extend(keys.iter().map(|key| DeliveryOutcome {
                    key: *key,
                    status: MailStatus::Expired,
                    response: None,
                    next: now,
                }));
            self.record_outcomes(progress)?;
        }
        Ok(overdue.len())
    }

    fn record_outcomes(&self, progress: &mut DeliveryProgress) -> Result<(), StoreError> {
        if progress.unwritten.is_empty() {
            return Ok(());
        }
        let outcomes = progress.unwritten.clone();
        self.0
            .store
            // Durable: after a crash, a mail that is still queued is sent again.
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

impl DeliveryProgress {
    fn is_paused(&self, now: UnixSeconds) -> bool {
        let longest = SERVER_PAUSE.longest * 2;
        // A pause longer than the maximum was set by a clock that ran ahead.
        self.paused_until
            .is_some_and(|until| now < until && until <= now + longest)
    }

    fn update_pause(&mut self, failure: Option<&ServerUnavailable>, random: u64, now: UnixSeconds) {
        let Some(failure) = failure else {
            self.failures = 0;
            self.paused_until = None;
            return;
        };
        // A lasting failure, such as a wrong password, gets the longest pause immediately.
        let failures = if failure.lasting {
            u32::MAX
        } else {
            self.failures
        };
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(now + SERVER_PAUSE.after(failures, random));
    }
}

impl Delivery {
    fn report_failure(&self, failure: Option<ServerUnavailable>) {
        let mut last = self.failure.lock();
        // Logs only the first failure, another failure and the recovery, and not every attempt.
        match (&*last, &failure) {
            (_, Some(new)) if last.as_ref() != Some(new) => {
                tracing::warn!(
                    response = new.response,
                    "mail server unavailable; queued mails will be retried"
                );
            }
            (Some(_), None) => tracing::info!("mail server available again"),
            _ => {}
        }
        *last = failure;
    }

    fn count(&self, status: MailStatus) {
        let counter = match status {
            MailStatus::Sent => &self.sent,
            MailStatus::Queued => &self.retried,
            MailStatus::Failed => &self.failed,
            MailStatus::Expired => &self.expired,
            MailStatus::Sink => return,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// Sends over the open connection, or over a new one. A failed connection is dropped.
fn send_over(
    mailer: &dyn Mailer,
    line: &mut Option<Box<dyn MailConnection>>,
    outgoing: &OutgoingMail,
) -> Result<String, SendError> {
    let mut transcript = SmtpTranscript::new();
    if let Some(mut open) = line.take() {
        match open.send(outgoing, &mut transcript) {
            // Servers may close a connection after some mails. This mail was not accepted, so a new one is opened.
            Err(SendError::Unavailable(_)) => {}
            Err(unsent) => return Err(unsent),
            Ok(response) => {
                *line = Some(open);
                return Ok(response);
            }
        }
    }
    let mut open = mailer
        .connect(&mut transcript)
        .map_err(SendError::Unavailable)?;
    let response = open.send(outgoing, &mut transcript)?;
    *line = Some(open);
    Ok(response)
}

/// Stores the outcome of a queued mail. A mail that is sent or expired loses its secret.
fn record_outcome(txn: &mut Txn<'_>, outcome: &DeliveryOutcome) -> Result<(), StoreError> {
    let mail = txn.get::<Mails>(&outcome.key)?;
    // A mail that was withdrawn while it was being sent is not tried again, but if the server accepted it, the user has it.
    let sent_after_all = |mail: &MailRecord| {
        mail.status == MailStatus::Expired && outcome.status == MailStatus::Sent
    };
    let Some(mail) = mail.filter(|mail| mail.status == MailStatus::Queued || sent_after_all(mail))
    else {
        return Ok(());
    };
    // Without a response the server was not contacted.
    let tried = u32::from(outcome.response.is_some());
    let record = MailRecord {
        status: outcome.status,
        secret: mail.secret.filter(|_| {
            // A refused mail can be sent again while its token or PIN is valid.
            matches!(outcome.status, MailStatus::Queued | MailStatus::Failed)
        }),
        attempts: mail.attempts.saturating_add(tried),
        next: outcome.next,
        response: outcome.response.clone().or(mail.response),
        ..mail
    };
    txn.put::<Mails>(&outcome.key, &record)
}

/// Expires the queued mails of a kind, in the write batch that invalidates their token or PIN.
pub(crate) fn withdraw(txn: &mut Txn<'_>, user: &UserId, kind: MailKind) -> Result<(), StoreError> {
    let mut newest = None;
    for (_, key) in txn.scan_index::<MailsByUser>(user, usize::MAX)? {
        // A damaged mail is not sent.
        let Some(mail) = intact(txn, &key)? else {
            continue;
        };
        // Newest first: the rest has left the queue.
        if mail.created + QUEUE_MAX_AGE < *newest.get_or_insert(mail.created) {
            break;
        }
        if mail.kind == kind && mail.status == MailStatus::Failed && mail.secret.is_some() {
            let secret = None;
            txn.put::<Mails>(&key, &MailRecord { secret, ..mail })?;
        } else if mail.kind == kind {
            let outcome = DeliveryOutcome {
                key,
                status: MailStatus::Expired,
                response: None,
                next: mail.next,
            };
            record_outcome(txn, &outcome)?;
        }
    }
    Ok(())
}
