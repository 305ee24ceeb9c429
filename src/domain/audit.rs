//! The audit record: what operators have changed, and which secrets they have read. An entry is
//! written before the change is made or the secret is shown, and the status is added afterwards. It
//! names who, what and of whom, and never holds a body: bodies have passwords and names.

use serde::{Deserialize, Serialize};

use crate::store::{
    self, All, Commit, Durability, Record, Schema, Store, StoreError, Table, TreeName, Txn,
    read_record,
};
use crate::types::{OperatorId, Role, UnixSeconds};

/// How many changes are kept. Decision: a number and not a time, so that the space is bounded and an
/// appliance that is changed once a month keeps its whole history.
pub const KEPT: u64 = 100_000;

/// The status of what was done.
const DONE: u16 = 200;

/// Adds this module's table.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema.with::<Changes>()
}

/// A change that is about to be made, or secrets that are about to be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When it was asked for.
    pub at: UnixSeconds,
    /// Who asked; `None` for whoever may open the local administration socket.
    pub operator: Option<OperatorId>,
    /// What they were called then.
    pub name: String,
    /// What they could do.
    pub role: Role,
    /// What was asked for: the name of a route.
    pub action: String,
    /// Of what: the rest of the route's path, and the query.
    pub target: String,
    /// The id of the request, by which the log has more.
    pub request: String,
    /// Who the caller of the local administration socket said it was, where the kernel says
    /// otherwise. Nothing vouches for it.
    pub claimed: Option<String>,
}

impl Change {
    /// A restore, as it is told to the store that comes of it.
    ///
    /// # Errors
    /// That it is too large to be told.
    pub fn encode(self) -> Result<Vec<u8>, StoreError> {
        let record = ChangeRecord {
            change: self,
            status: Some(DONE),
        };
        store::encode_note(&record)
    }
}

/// A change as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number; they count on from 1.
    pub number: u64,
    /// What was asked for.
    pub change: Change,
    /// The status that was answered; `None` while it runs, and if the machine went down meanwhile.
    pub status: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChangeRecord {
    change: Change,
    status: Option<u16>,
}

impl Record for ChangeRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record::<v1::ChangeRecord>(bytes).map(Into::into),
            _ => None,
        }
    }
}

/// Before callers' claims were kept apart from the names that the kernel gives.
mod v1 {
    use super::{Deserialize, OperatorId, Role, UnixSeconds};

    #[derive(Deserialize)]
    struct Change {
        at: UnixSeconds,
        operator: Option<OperatorId>,
        name: String,
        role: Role,
        action: String,
        target: String,
        request: String,
    }

    #[derive(Deserialize)]
    pub(super) struct ChangeRecord {
        change: Change,
        status: Option<u16>,
    }

    impl From<ChangeRecord> for super::ChangeRecord {
        fn from(ChangeRecord { change, status }: ChangeRecord) -> Self {
            let Change {
                at,
                operator,
                name,
                role,
                action,
                target,
                request,
            } = change;
            Self {
                change: super::Change {
                    at,
                    operator,
                    name,
                    role,
                    action,
                    target,
                    request,
                    claimed: None,
                },
                status,
            }
        }
    }
}

/// Changes by the complement of their number: the newest first.
struct Changes;

impl Table for Changes {
    const NAME: TreeName = "audit";
    type Key = u64;
    type Record = ChangeRecord;
}

/// The record of changes.
#[derive(Clone)]
pub struct Audit {
    store: Store,
}

impl Audit {
    /// That of a store. One that a backup has become gets the record of the restore: the one that was
    /// made before it lies in the store that was given up.
    #[must_use]
    pub fn open(store: Store) -> Self {
        let audit = Self { store };
        // A disk that cannot be written keeps the word for another start. A kill in between has the
        // restore recorded twice.
        let recorded = audit.store.restore_note().map(|restore| {
            audit.add(restore).wait()?;
            audit.store.forget_word()
        });
        if let Some(Err(error)) = recorded {
            tracing::warn!(%error, "a restore is not in the record of changes yet");
        }
        audit
    }

    /// Records a change before it is made, durably; its number.
    ///
    /// # Errors
    /// That the store failed.
    pub async fn begin(&self, change: Change) -> Result<u64, StoreError> {
        let record = ChangeRecord {
            change,
            status: None,
        };
        self.add(record).await
    }

    /// Records a change that has been made, durably. It blocks.
    ///
    /// # Errors
    /// That the store failed.
    pub fn record_done(&self, change: Change) -> Result<(), StoreError> {
        let record = ChangeRecord {
            change,
            status: Some(DONE),
        };
        self.add(record).wait().map(drop)
    }

    fn add(&self, record: ChangeRecord) -> Commit<u64, StoreError> {
        self.store.write(Durability::Durable, move |txn| {
            let newest = txn.scan::<Changes>(&All, 1)?;
            let number = newest.first().map_or(1, |(key, _)| !key + 1);
            txn.put::<Changes>(&!number, &record)?;
            if let Some(old) = number.checked_sub(KEPT) {
                txn.delete::<Changes>(&!old)?;
            }
            Ok(number)
        })
    }

    /// Records what was answered. `addition` is appended to the target: the id of what was made, or
    /// counts.
    ///
    /// # Errors
    /// That the store failed.
    pub async fn end(
        &self,
        number: u64,
        status: u16,
        addition: Option<String>,
    ) -> Result<(), StoreError> {
        let plan = move |txn: &mut Txn<'_>| {
            if let Some(mut record) = txn.get::<Changes>(&!number)? {
                record.status = Some(status);
                record.change.target.extend(addition);
                txn.put::<Changes>(&!number, &record)?;
            }
            Ok(())
        };
        self.store.write(Durability::Logged, plan).await
    }

    /// Up to `limit` changes, the newest first, or those before the one of this number. A damaged one
    /// is left out; verification tells of it.
    ///
    /// # Errors
    /// That the store failed.
    pub fn list(&self, before: Option<u64>, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let from = before.map(|number| !number.saturating_sub(1));
        let found = self
            .store
            .read(|txn| txn.scan_from::<Changes>(from.as_ref(), limit))?;
        let entries = found.into_iter().filter_map(|(key, record)| {
            let ChangeRecord { change, status } = record?;
            Some(Entry {
                number: !key,
                change,
                status,
            })
        });
        Ok(entries.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(target: &str) -> Change {
        Change {
            at: UnixSeconds(1_767_225_600),
            operator: None,
            name: "Eva".to_owned(),
            role: Role::Admin,
            action: "admin_add_partner".to_owned(),
            target: target.to_owned(),
            request: "1".to_owned(),
            claimed: None,
        }
    }

    #[tokio::test]
    async fn changes_are_listed_newest_first_with_what_came_of_them() {
        let audit = Audit::open(Store::in_memory(schema(Schema::default())));
        for target in ["a", "b", "c"] {
            audit.begin(change(target)).await.unwrap();
        }
        audit.end(2, 204, None).await.unwrap();
        let listed = |before, limit| {
            let entries = audit.list(before, limit).unwrap();
            let told = entries
                .into_iter()
                .map(|e| (e.number, e.change.target, e.status));
            told.collect::<Vec<_>>()
        };
        let entry = |number, target: &str, status| (number, target.to_owned(), status);
        let all = [
            entry(3, "c", None),
            entry(2, "b", Some(204)),
            entry(1, "a", None),
        ];
        assert_eq!(listed(None, 10), all);
        assert_eq!(listed(None, 2), all[..2]);
        assert_eq!(listed(Some(3), 1), all[1..2]);
        assert_eq!(listed(Some(1), 10), []);
    }

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let audit = Audit::open(Store::in_memory(schema(Schema::default())));
        let record = |number: u64| {
            let record = ChangeRecord {
                change: change("x"),
                status: None,
            };
            let plan = move |txn: &mut Txn<'_>| txn.put::<Changes>(&!number, &record);
            audit
                .store
                .write::<_, StoreError, _>(Durability::Logged, plan)
        };
        for number in [1, 2, KEPT] {
            record(number).await.unwrap();
        }
        assert_eq!(audit.begin(change("x")).await.unwrap(), KEPT + 1);
        let numbers: Vec<_> = audit
            .list(None, 10)
            .unwrap()
            .iter()
            .map(|e| e.number)
            .collect();
        assert_eq!(numbers, [KEPT + 1, KEPT, 2]);
    }

    #[test]
    fn the_record_is_golden() {
        let record = ChangeRecord {
            change: Change {
                action: "a".to_owned(),
                ..change("b")
            },
            status: Some(204),
        };
        assert_eq!(
            crate::store::golden(&record),
            "02fc0072abd20003457661000161016201310001cc"
        );
        // Without a claim, as versions before wrote it.
        let old = data_encoding::HEXLOWER.decode(b"fc0072abd200034576610001610162013101cc");
        assert_eq!(ChangeRecord::upgrade(1, &old.unwrap()), Some(record));
    }
}
