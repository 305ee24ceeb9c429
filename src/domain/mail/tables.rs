//! The table of mails, newest first.

use serde::{Deserialize, Serialize};

use super::model::{Kind, Status};
use crate::domain::sealing::Sealed;
use crate::store::{Entries, Index, Record, Table, TreeName, read_record};
use crate::types::time::DAY;
use crate::types::{Email, Locale, MailId, UnixSeconds, UserId};

/// For how many seconds a mail is kept.
const KEPT: i64 = 30 * DAY;
/// For how many seconds a mail waits for the server at the most.
///
/// Decision: a day. What a mail tells is stale by then, and a server that is down for longer is
/// somebody's to look after: `/readyz` and the metrics have told of it.
const WAITS: i64 = DAY;

/// The complement of the mail's number in the queue, so that the newest sorts first, and random
/// bytes, so that an id cannot be guessed from another.
pub(super) type MailKey = (u64, [u8; 8]);

/// The key as the id that the outside knows.
pub(super) fn id_of(key: &MailKey) -> MailId {
    let (number, random) = key;
    MailId::from_bytes(
        (u128::from(*number) << 64 | u128::from(u64::from_be_bytes(*random))).to_be_bytes(),
    )
}

/// The key of an id.
pub(super) fn key_of(id: &MailId) -> MailKey {
    let [a, b, c, d, e, f, g, h, random @ ..] = *id.as_bytes();
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), random)
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MailRecord {
    pub(super) kind: Kind,
    pub(super) to: Email,
    pub(super) user: Option<UserId>,
    pub(super) locale: Option<Locale>,
    /// Sealed for the id. Gone once it has been sent, or kept long enough.
    pub(super) secret: Option<Sealed>,
    pub(super) good_for: i64,
    pub(super) created: UnixSeconds,
    pub(super) status: Status,
    pub(super) attempts: u32,
    /// When it is tried next, while it is queued.
    pub(super) next: UnixSeconds,
    /// What came of the last attempt.
    pub(super) words: Option<String>,
}

impl Record for MailRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record::<v1::MailRecord>(bytes).map(Self::from),
            _ => None,
        }
    }
}

/// Version 1 knew the sink alone, and kept secrets in clear.
mod v1 {
    use super::{Deserialize, Email, Kind, Locale, Serialize, Status, UnixSeconds, UserId};

    #[derive(Serialize, Deserialize)]
    pub(super) struct MailRecord {
        pub(super) kind: Kind,
        pub(super) to: Email,
        pub(super) user: Option<UserId>,
        pub(super) locale: Option<Locale>,
        secret: Option<String>,
        pub(super) good_for: i64,
        pub(super) created: UnixSeconds,
        pub(super) status: Status,
    }
}

impl From<v1::MailRecord> for MailRecord {
    /// Decision: a secret that lay in clear is not carried over.
    fn from(old: v1::MailRecord) -> Self {
        Self {
            kind: old.kind,
            to: old.to,
            user: old.user,
            locale: old.locale,
            secret: None,
            good_for: old.good_for,
            created: old.created,
            status: old.status,
            attempts: 0,
            next: old.created,
            words: None,
        }
    }
}

impl MailRecord {
    /// Until when it is worth sending: as long as what it brings is good.
    pub(super) fn deadline(&self) -> UnixSeconds {
        let good_for = Some(self.good_for).filter(|seconds| *seconds > 0);
        self.created + good_for.map_or(WAITS, |seconds| seconds.min(WAITS))
    }

    /// When the sweep has next to do with it: first the secret goes, then the mail.
    pub(super) fn due(&self) -> UnixSeconds {
        let kept = match self.secret {
            Some(_) => self.kind.secret_kept(),
            None => KEPT,
        };
        self.created + kept
    }
}

/// Mails in the order of the queue, turned round.
pub(super) struct Mails;

impl Table for Mails {
    const NAME: TreeName = "mails";
    type Key = MailKey;
    type Record = MailRecord;
    const INDEXES: &'static [TreeName] = &[MailsByUser::NAME, MailsByDue::NAME];

    fn index(key: &MailKey, record: &MailRecord, entries: &mut Entries) {
        let MailRecord {
            kind: _,
            to: _,
            user,
            locale: _,
            secret: _,
            good_for: _,
            created: _,
            status: _,
            attempts: _,
            next: _,
            words: _,
        } = record;
        if let Some(user) = user {
            entries.add::<MailsByUser>(&(*user, key.0), key);
        }
        entries.add::<MailsByDue>(&(record.due(), 0), key);
    }
}

/// The mails about a user, newest first, as their numbers sort.
pub(super) struct MailsByUser;

impl Index for MailsByUser {
    const NAME: TreeName = "mails.by_user";
    type Table = Mails;
    type Key = (UserId, u64);
}

/// What the sweep has to do, by instant; the second part is always 0.
pub(super) struct MailsByDue;

impl Index for MailsByDue {
    const NAME: TreeName = "mails.by_due";
    type Table = Mails;
    type Key = (UnixSeconds, u8);
}
