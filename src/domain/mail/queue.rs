//! In-memory view of the queued mails: which are due, and how many there are. Notifies the delivery job when a
//! new mail has been committed. Holds no mail contents.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::model::MailStatus;
use super::tables::{MailKey, Mails};
use playgate_store::{Changed, CommitListener};
use playgate_types::UnixSeconds;

struct Waiting {
    created: UnixSeconds,
    next: UnixSeconds,
    deadline: UnixSeconds,
}

/// The queued mails, newest first like their table.
#[derive(Default)]
pub(super) struct MailQueue {
    waiting: Mutex<BTreeMap<MailKey, Waiting>>,
    callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl MailQueue {
    pub(super) fn on_notify(&self, callback: Box<dyn Fn() + Send + Sync>) {
        // Only the first callback counts: there is one delivery job.
        let _ = self.callback.set(callback);
    }

    pub(super) fn notify(&self) {
        if let Some(callback) = self.callback.get() {
            callback();
        }
    }

    /// Returns up to `limit` due mails, longest overdue first.
    pub(super) fn due(&self, now: UnixSeconds, longest: i64, limit: usize) -> Vec<MailKey> {
        let waiting = self.waiting.lock();
        let mut due: Vec<(UnixSeconds, MailKey)> = waiting
            .iter()
            // The table has the newest mail first. Of mails that are due at the same time, the oldest is sent first.
            .rev()
            // A time beyond the longest pause was set by a clock that ran ahead, so the mail is due.
            .filter(|(_, mail)| mail.next <= now || mail.next > now + longest)
            .map(|(key, mail)| (mail.next, *key))
            .collect();
        due.sort_by_key(|(next, _)| *next);
        due.truncate(limit);
        due.into_iter().map(|(_, key)| key).collect()
    }

    pub(super) fn overdue(&self, now: UnixSeconds) -> Vec<MailKey> {
        let waiting = self.waiting.lock();
        let overdue = waiting.iter().filter(|(_, mail)| mail.deadline <= now);
        overdue.map(|(key, _)| *key).collect()
    }

    pub(super) fn size(&self) -> (usize, Option<UnixSeconds>) {
        let waiting = self.waiting.lock();
        let oldest = waiting.values().map(|mail| mail.created).min();
        (waiting.len(), oldest)
    }
}

impl CommitListener<Mails> for MailQueue {
    fn apply(&self, changes: Vec<Changed<Mails>>) {
        let mut has_new = false;
        let mut waiting = self.waiting.lock();
        for Changed { key, record } in changes {
            match record.filter(|mail| mail.status == MailStatus::Queued) {
                Some(mail) => {
                    // Retries wait for their time; only new mails wake the delivery.
                    has_new |= mail.attempts == 0;
                    let deadline = mail.deadline();
                    waiting.insert(
                        key,
                        Waiting {
                            created: mail.created,
                            next: mail.next,
                            deadline,
                        },
                    );
                }
                None => {
                    // Sent, failed, expired or deleted.
                    waiting.remove(&key);
                }
            }
        }
        // Unlock before the callback, which may query the queue.
        drop(waiting);
        if has_new {
            self.notify();
        }
    }
}
