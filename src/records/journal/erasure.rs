//! Erases the records of a user or a partner: rewrites the segments that contain them.

use serde::{Deserialize, Serialize};

use super::erasure_subject::ErasureSubject;
use super::index::IndexKey;
use super::writer::JournalJob;
use super::{JournalError, RequestJournal};
use playgate_store::{All, Durability, Record, Schema, StoreError, Table, TreeName, Txn};
use playgate_types::{PartnerId, UnixSeconds, UserId};

/// Users of one run, for whom each segment is rewritten once.
const USERS_AT_ONCE: usize = 1_024;

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

impl RequestJournal {
    /// Runs the recorded erasures. Returns how many were done. After an error all are tried again by the next run.
    pub fn run_erasures(&self) -> Result<usize, JournalError> {
        // The files are unknown, so nothing would be erased. The next start that can read them does it.
        if !self.shared.usable {
            return Ok(0);
        }
        let store = &self.shared.store;
        let pending = store.read(|txn| txn.scan::<JournalErasures>(&All, USERS_AT_ONCE))?;
        let users: Vec<UserId> = pending.iter().map(|(user, _)| *user).collect();
        let subjects = users.iter().copied().map(ErasureSubject::User);
        let subjects: Vec<ErasureSubject> = subjects.collect();
        for subject in &subjects {
            // Requests of the user may still be in progress, so their later records are dropped, too.
            self.writer.run(JournalJob::Forget(*subject))?;
        }
        // Each segment is rewritten once for all users: a partner with thousands of users may have been removed.
        self.erase(&subjects)?;
        let done = users.clone();
        // The entries are deleted last, when nothing of the users is left.
        store
            .write::<_, StoreError, _>(Durability::Durable, move |txn: &mut Txn<'_>| {
                done.iter()
                    .try_for_each(|user| txn.delete::<JournalErasures>(user))
            })
            .wait()?;
        for user in &users {
            tracing::info!(%user, "erased the journal records of a user");
        }
        Ok(users.len())
    }

    /// Erases the records of a partner, for the reset of a lab. Requests that are answered later are recorded.
    pub fn erase_partner(&self, partner: PartnerId) -> Result<(), JournalError> {
        self.writer.run(JournalJob::Finish)?;
        self.erase(&[ErasureSubject::Partner(partner)])
    }

    /// Erases in all segments that it can rewrite, and returns the last error.
    fn erase(&self, subjects: &[ErasureSubject]) -> Result<(), JournalError> {
        let shared = &self.shared;
        let finished: Vec<u64> = {
            let segments = shared.segments.lock();
            let finished = segments.values().filter(|segment| segment.finished);
            finished.map(|segment| segment.first).collect()
        };
        let mut result = Ok(());
        for first in finished {
            // One segment at a time, so that retention and the writer wait for milliseconds only.
            let _rewriting = shared.rewriting.lock();
            // The index excludes most segments, which then need no rewrite.
            let keys: Vec<IndexKey> = subjects.iter().map(|subject| subject.key()).collect();
            let ruled_out =
                |index: super::index::SegmentIndex| !keys.iter().any(|key| index.may_contain(*key));
            // Retention may have deleted the segment since it was listed.
            let deleted = !shared.segments.lock().contains_key(&first);
            if deleted || shared.directory.index(first).is_some_and(ruled_out) {
                continue;
            }
            let rewritten = shared.directory.rewrite(first, |record| {
                !ErasureSubject::of(record).any(|owner| subjects.contains(&owner))
            });
            let mut segments = shared.segments.lock();
            match rewritten {
                Ok(Some(summary)) => {
                    segments.insert(first, summary);
                }
                Ok(None) => {
                    segments.remove(&first);
                }
                Err(error) => result = Err(error.into()),
            }
        }
        result
    }
}
