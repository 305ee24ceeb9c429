//! Sends mails again at the request of an operator.

use super::model::{MailStatus, Retried};
use super::tables::{MailKey, MailRecord, Mails, id_of, key_of};
use super::{BATCH, Mail, intact};
use playgate_store::{Durability, StoreError, Txn};
use playgate_types::time::DAY;
use playgate_types::{MailId, UnixSeconds};

/// Age of mails that are sent again without being named. Older notices would confuse their readers.
const AGE_MAX: i64 = 7 * DAY;

impl Mail {
    /// Queues mails that were given up: the named one, or all of the last seven days. A queued mail is sent at once.
    pub fn retry(&self, id: Option<&MailId>, now: UnixSeconds) -> Result<Retried, StoreError> {
        let keys = match id {
            Some(id) => vec![key_of(id)],
            None => self.given_up(now)?,
        };
        let can_send = self.0.mailer.is_some();
        let mut retried = Retried::default();
        for keys in keys.chunks(BATCH) {
            let keys = keys.to_vec();
            let batch = move |txn: &mut Txn<'_>| {
                let mut done = Retried::default();
                for key in keys {
                    let Some(mail) = intact(txn, &key)? else {
                        continue;
                    };
                    match refusal(&mail, can_send, now) {
                        Some(why) => done.left.push((id_of(&key), why)),
                        None => {
                            txn.put::<Mails>(&key, &again(mail, now))?;
                            done.queued.push(id_of(&key));
                        }
                    }
                }
                Ok::<_, StoreError>(done)
            };
            let done = self.0.store.write(Durability::Durable, batch).wait()?;
            retried.queued.extend(done.queued);
            retried.left.extend(done.left);
        }
        if !retried.queued.is_empty() {
            // The operator has mended the server, so its pause is over.
            self.end_pause();
            self.0.queue.notify();
        }
        Ok(retried)
    }

    fn given_up(&self, now: UnixSeconds) -> Result<Vec<MailKey>, StoreError> {
        let limit = usize::try_from(super::MAILS_MAX).unwrap_or(usize::MAX);
        let mails = self
            .0
            .store
            .read(|txn| txn.scan_from::<Mails>(None, limit))?;
        let recent = |mail: &MailRecord| {
            let given_up = matches!(mail.status, MailStatus::Failed | MailStatus::Expired);
            given_up && mail.created + AGE_MAX > now
        };
        Ok(mails
            .into_iter()
            .filter(|(_, mail)| mail.as_ref().is_some_and(recent))
            .map(|(key, _)| key)
            // In the order in which they were written.
            .rev()
            .collect())
    }
}

fn refusal(mail: &MailRecord, can_send: bool, now: UnixSeconds) -> Option<&'static str> {
    if !can_send {
        return Some("no mail server is set");
    }
    match mail.status {
        MailStatus::Sent => return Some("it was sent"),
        MailStatus::Queued | MailStatus::Failed | MailStatus::Expired | MailStatus::Sink => {}
    }
    if mail.kind.has_secret() && mail.secret.is_none() {
        return Some("its link or PIN is no longer valid; the viewer asks for a new one");
    }
    (again(mail.clone(), now).deadline() <= now)
        .then_some("its link is no longer valid; the viewer asks for a new one")
}

fn again(mail: MailRecord, now: UnixSeconds) -> MailRecord {
    MailRecord {
        status: MailStatus::Queued,
        queued: now,
        next: now,
        ..mail
    }
}
