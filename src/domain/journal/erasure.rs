//! Erases the records of a user or a partner: rewrites the segments that contain them.

use serde::{Deserialize, Serialize};

use super::index::IndexKey;
use super::record::JournalRecord;
use super::writer::JournalJob;
use super::{JournalError, RequestJournal};
use crate::store::{All, Durability, Record, Schema, StoreError, Table, TreeName, Txn};
use crate::types::{PartnerId, UnixSeconds, UserId};

const USERS_AT_ONCE: usize = 64;

#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema.with::<JournalErasures>()
}

/// A pending erasure of a user's records. It survives a crash between the removal of the account and the erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalErasure {
    since: UnixSeconds,
}

impl Record for JournalErasure {}

struct JournalErasures;

impl Table for JournalErasures {
    const NAME: TreeName = "journal_erasures";
    type Key = UserId;
    type Record = JournalErasure;
}

/// Part of the transaction that removes an account, so that no crash can leave the records without an erasure.
pub fn request_erasure(
    txn: &mut Txn<'_>,
    user: &UserId,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    txn.put::<JournalErasures>(user, &JournalErasure { since: now })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ErasureSubject {
    User(UserId),
    Partner(PartnerId),
}

impl ErasureSubject {
    pub(super) fn of(record: &JournalRecord) -> impl Iterator<Item = Self> + use<> {
        let user = record.user.map(Self::User);
        user.into_iter().chain(record.partner.map(Self::Partner))
    }

    pub(super) fn key(self) -> IndexKey {
        match self {
            Self::User(user) => IndexKey::of_user(&user),
            Self::Partner(partner) => IndexKey::of_partner(&partner),
        }
    }

    pub(super) fn owns(self, record: &JournalRecord) -> bool {
        match self {
            Self::User(user) => record.user == Some(user),
            Self::Partner(partner) => record.partner == Some(partner),
        }
    }
}

impl RequestJournal {
    /// Runs the recorded erasures. Returns how many were done. A failed one is tried again by the next run.
    pub fn run_erasures(&self) -> Result<usize, JournalError> {
        let store = &self.shared.store;
        let pending = store.read(|txn| txn.scan::<JournalErasures>(&All, USERS_AT_ONCE))?;
        for (user, JournalErasure { since }) in &pending {
            let user = *user;
            // Requests of the user may still be in progress, so their later records are dropped, too.
            self.writer
                .run(JournalJob::Forget(ErasureSubject::User(user)))?;
            self.erase(ErasureSubject::User(user))?;
            // The entry is deleted last, when nothing of the user is left.
            let done = move |txn: &mut Txn<'_>| txn.delete::<JournalErasures>(&user);
            store
                .write::<_, StoreError, _>(Durability::Durable, done)
                .wait()?;
            tracing::info!(%user, %since, "erased the journal records of a user");
        }
        Ok(pending.len())
    }

    /// Erases the records of a partner, for the reset of a lab. Requests that are answered later are recorded.
    pub fn erase_partner(&self, partner: PartnerId) -> Result<(), JournalError> {
        self.writer.run(JournalJob::Finish)?;
        self.erase(ErasureSubject::Partner(partner))
    }

    fn erase(&self, subject: ErasureSubject) -> Result<(), JournalError> {
        let shared = &self.shared;
        let finished: Vec<u64> = {
            let segments = shared.segments.lock();
            let finished = segments.values().filter(|segment| segment.finished);
            finished.map(|segment| segment.first).collect()
        };
        for first in finished {
            // One segment at a time, so that retention and the writer wait for milliseconds only.
            let _rewriting = shared.rewriting.lock();
            // The index excludes most segments, which then need no rewrite.
            let ruled_out = |index: super::index::SegmentIndex| !index.may_contain(subject.key());
            // Retention may have deleted the segment since it was listed.
            let deleted = !shared.segments.lock().contains_key(&first);
            if deleted || shared.directory.index(first).is_some_and(ruled_out) {
                continue;
            }
            let rewritten = shared
                .directory
                .rewrite(first, |record| !subject.owns(record))?;
            let mut segments = shared.segments.lock();
            match rewritten {
                Some(summary) => segments.insert(first, summary),
                None => segments.remove(&first),
            };
        }
        Ok(())
    }
}
