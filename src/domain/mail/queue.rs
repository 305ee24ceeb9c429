//! The mails that wait for the server, in memory: which are due, how many there are, and a bell that
//! is rung when one more has been committed.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::model::Status;
use super::tables::{MailKey, Mails};
use crate::store::{Changed, CommitListener};
use crate::types::UnixSeconds;

/// What is known of a mail that waits.
struct Waiting {
    created: UnixSeconds,
    next: UnixSeconds,
    deadline: UnixSeconds,
}

/// The mails that wait. They are kept newest first, as their table is.
#[derive(Default)]
pub(super) struct MailQueue {
    waiting: Mutex<BTreeMap<MailKey, Waiting>>,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl MailQueue {
    /// Has `bell` called whenever a mail comes that was not tried yet.
    pub(super) fn on_notify(&self, bell: Box<dyn Fn() + Send + Sync>) {
        // One listener is all there is.
        let _ = self.bell.set(bell);
    }

    pub(super) fn notify(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    /// Up to `limit` mails that may be tried, those that have waited longest first. A mail that is
    /// to wait longer than any does was put off by a clock that was ahead.
    pub(super) fn due(&self, now: UnixSeconds, longest: i64, limit: usize) -> Vec<MailKey> {
        let waiting = self.waiting.lock();
        let mut due: Vec<(UnixSeconds, MailKey)> = waiting
            .iter()
            .rev()
            .filter(|(_, mail)| mail.next <= now || mail.next > now + longest)
            .map(|(key, mail)| (mail.next, *key))
            .collect();
        due.sort_by_key(|(next, _)| *next);
        due.truncate(limit);
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// The mails that are no longer worth sending.
    pub(super) fn overdue(&self, now: UnixSeconds) -> Vec<MailKey> {
        let waiting = self.waiting.lock();
        let overdue = waiting.iter().filter(|(_, mail)| mail.deadline <= now);
        overdue.map(|(key, _)| *key).collect()
    }

    /// How many there are, and when the oldest was queued.
    pub(super) fn size(&self) -> (usize, Option<UnixSeconds>) {
        let waiting = self.waiting.lock();
        let oldest = waiting.values().map(|mail| mail.created).min();
        (waiting.len(), oldest)
    }
}

impl CommitListener<Mails> for MailQueue {
    fn apply(&self, changes: Vec<Changed<Mails>>) {
        let mut fresh = false;
        let mut waiting = self.waiting.lock();
        for Changed { key, record } in changes {
            match record.filter(|mail| mail.status == Status::Queued) {
                Some(mail) => {
                    fresh |= mail.attempts == 0;
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
                    waiting.remove(&key);
                }
            }
        }
        drop(waiting);
        if fresh {
            self.notify();
        }
    }
}
