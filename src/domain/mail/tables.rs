//! The table of mails, newest first, and its indexes.

use serde::{Deserialize, Serialize};

use super::model::{MailKind, MailStatus};
use crate::sealing::Sealed;
use playgate_store::{Entries, Index, Record, Table, TreeName, read_record};
use playgate_types::time::DAY;
use playgate_types::{Email, Locale, MailId, UnixSeconds, UserId};

const RETENTION: i64 = 30 * DAY;
/// Maximum time in the queue, in seconds. After a day the message is out of date, and `/readyz` and the metrics have
/// reported the failure of the server.
pub(super) const QUEUE_MAX_AGE: i64 = DAY;

/// The complement of the sequence number, so that the newest mail sorts first, and random bytes, so that ids cannot be
/// guessed.
pub(super) type MailKey = (u64, [u8; 8]);

pub(super) fn id_of(key: &MailKey) -> MailId {
    // The number is the upper half, so that ids sort like keys.
    let (number, random) = key;
    MailId::from_bytes(
        (u128::from(*number) << 64 | u128::from(u64::from_be_bytes(*random))).to_be_bytes(),
    )
}

pub(super) fn key_of(id: &MailId) -> MailKey {
    let [a, b, c, d, e, f, g, h, random @ ..] = *id.as_bytes();
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), random)
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MailRecord {
    pub(super) kind: MailKind,
    pub(super) to: Email,
    pub(super) user: Option<UserId>,
    pub(super) locale: Option<Locale>,
    /// Sealed under the mail id. Removed after delivery or after its retention.
    pub(super) secret: Option<Sealed>,
    pub(super) good_for: i64,
    pub(super) created: UnixSeconds,
    /// When its time in the queue began: at its creation, or when an operator had it sent again.
    pub(super) queued: UnixSeconds,
    pub(super) status: MailStatus,
    pub(super) attempts: u32,
    pub(super) next: UnixSeconds,
    pub(super) response: Option<String>,
}

impl Record for MailRecord {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record::<v1::MailRecord>(bytes).map(Self::from),
            2 => read_record::<v2::MailRecord>(bytes).map(Self::from),
            _ => None,
        }
    }
}

/// The format of version 1, which knew only the sink and stored secrets in plain text.
mod v1 {
    use super::{Deserialize, Email, Locale, MailKind, MailStatus, Serialize, UnixSeconds, UserId};

    #[derive(Serialize, Deserialize)]
    pub(super) struct MailRecord {
        pub(super) kind: MailKind,
        pub(super) to: Email,
        pub(super) user: Option<UserId>,
        pub(super) locale: Option<Locale>,
        secret: Option<String>,
        pub(super) good_for: i64,
        pub(super) created: UnixSeconds,
        pub(super) status: MailStatus,
    }
}

/// The format of version 2, which could not send a mail again.
mod v2 {
    use super::{
        Deserialize, Email, Locale, MailKind, MailStatus, Sealed, Serialize, UnixSeconds, UserId,
    };

    #[derive(Serialize, Deserialize)]
    pub(super) struct MailRecord {
        pub(super) kind: MailKind,
        pub(super) to: Email,
        pub(super) user: Option<UserId>,
        pub(super) locale: Option<Locale>,
        pub(super) secret: Option<Sealed>,
        pub(super) good_for: i64,
        pub(super) created: UnixSeconds,
        pub(super) status: MailStatus,
        pub(super) attempts: u32,
        pub(super) next: UnixSeconds,
        pub(super) response: Option<String>,
    }
}

impl From<v2::MailRecord> for MailRecord {
    fn from(old: v2::MailRecord) -> Self {
        Self {
            kind: old.kind,
            to: old.to,
            user: old.user,
            locale: old.locale,
            secret: old.secret,
            good_for: old.good_for,
            created: old.created,
            queued: old.created,
            status: old.status,
            attempts: old.attempts,
            next: old.next,
            response: old.response,
        }
    }
}

impl From<v1::MailRecord> for MailRecord {
    fn from(old: v1::MailRecord) -> Self {
        Self {
            kind: old.kind,
            to: old.to,
            user: old.user,
            locale: old.locale,
            // Plain-text secrets are dropped.
            secret: None,
            good_for: old.good_for,
            created: old.created,
            queued: old.created,
            status: old.status,
            attempts: 0,
            next: old.created,
            response: None,
        }
    }
}

impl MailRecord {
    /// Returns the time after which the mail is not sent: at the latest when its token or PIN expires.
    pub(super) fn deadline(&self) -> UnixSeconds {
        // Notices and PINs have no validity, so only the maximum applies.
        if self.good_for > 0 {
            self.created + self.good_for.min(QUEUE_MAX_AGE)
        } else {
            self.queued + QUEUE_MAX_AGE
        }
    }

    /// Returns the time of the next sweep of the mail, which first removes the secret, then the mail.
    pub(super) fn due(&self) -> UnixSeconds {
        let kept = match self.secret {
            Some(_) => self.kind.secret_retention(),
            None => RETENTION,
        };
        self.created + kept
    }
}

pub(super) struct Mails;

impl Table for Mails {
    const NAME: TreeName = "mails";
    type Key = MailKey;
    type Record = MailRecord;
    const INDEXES: &'static [TreeName] = &[MailsByUser::NAME, MailsByDue::NAME];

    fn index(key: &MailKey, record: &MailRecord, entries: &mut Entries) {
        // Destructured, so that a new field cannot be overlooked here.
        let MailRecord {
            kind: _,
            to: _,
            user,
            locale: _,
            secret: _,
            good_for: _,
            created: _,
            queued: _,
            status: _,
            attempts: _,
            next: _,
            response: _,
        } = record;
        if let Some(user) = user {
            // `key.0` sorts the newest mail of a user first.
            entries.add::<MailsByUser>(&(*user, key.0), key);
        }
        entries.add::<MailsByDue>(&(record.due(), 0), key);
    }
}

pub(super) struct MailsByUser;

impl Index for MailsByUser {
    const NAME: TreeName = "mails.by_user";
    type Table = Mails;
    type Key = (UserId, u64);
}

/// The second part of the key is always 0.
pub(super) struct MailsByDue;

impl Index for MailsByDue {
    const NAME: TreeName = "mails.by_due";
    type Table = Mails;
    type Key = (UnixSeconds, u8);
}
