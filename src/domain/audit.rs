//! The audit log: changes by operators, and secrets they have read.
//!
//! An entry is written before the change is made or the secret is shown; the status is added afterwards. An
//! entry names the operator, the action and the target. It never contains a body, because bodies hold passwords
//! and names.

use serde::{Deserialize, Serialize};

use playgate_store::{
    Commit, Durability, Record, Schema, Store, StoreError, Table, TreeName, Txn, read_record,
};
use playgate_types::{OperatorId, Role, UnixSeconds};

/// Maximum number of entries. The limit is a count and not an age, so that the space is bounded and an installation
/// with few changes keeps its whole history.
pub(crate) const ENTRIES_MAX: u64 = 100_000;

const DONE: u16 = 200;

pub fn schema(schema: Schema) -> Schema {
    schema.with::<Changes>()
}

/// A change or a disclosure of secrets, recorded before it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedChange {
    pub at: UnixSeconds,
    /// The operator; `None` for callers of the local administration socket.
    pub operator: Option<OperatorId>,
    pub name: String,
    pub role: Role,
    pub action: String,
    /// The rest of the route's path, and the query.
    pub target: String,
    pub request: String,
    /// The name that a caller of the local socket claimed, if it differs from the kernel's answer. It is not verified.
    pub claimed: Option<String>,
}

impl AuditedChange {
    /// Encodes a restore as the note that the restored store reads at its first start.
    ///
    /// # Errors
    /// A [`StoreError`] if the entry is too large for a note.
    pub fn encode(self) -> Result<Vec<u8>, StoreError> {
        let record = ChangeRecord {
            change: self,
            status: Some(DONE),
        };
        playgate_store::encode_note(&record)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Sequence number, starting at 1.
    pub number: u64,
    pub change: AuditedChange,
    /// The HTTP status of the response; `None` while the request runs, or if the process died during it.
    pub status: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ChangeRecord {
    change: AuditedChange,
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

/// Version 1, without `claimed`.
mod v1 {
    use serde::Deserialize;

    use playgate_types::{OperatorId, Role, UnixSeconds};

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
                change: super::AuditedChange {
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

/// Entries by the complement of their number, so that the newest comes first.
struct Changes;

impl Table for Changes {
    const NAME: TreeName = "audit";
    type Key = u64;
    type Record = ChangeRecord;
}

#[derive(Clone)]
pub struct Audit {
    store: Store,
}

impl Audit {
    /// Opens the audit log of a store. After a restore it records the restore from the staged note: the entry
    /// made before the restore is in the replaced store.
    pub fn open(store: Store) -> Self {
        let audit = Self { store };
        // If the disk is not writable, the note stays for the next start. A kill between the two writes records
        // the restore twice.
        let recorded = audit.store.restore_note().map(|restore| {
            audit.add(restore).wait()?;
            audit.store.delete_restore_note()
        });
        if let Some(Err(error)) = recorded {
            tracing::warn!(%error, "failed to write the audit entry of the restore; will retry at the next start");
        }
        audit
    }

    /// Durably records a change before it is made; returns its number.
    pub async fn begin(&self, change: AuditedChange) -> Result<u64, StoreError> {
        let record = ChangeRecord {
            change,
            status: None,
        };
        self.add(record).await
    }

    /// Durably records a completed change. Blocking.
    pub fn record_done(&self, change: AuditedChange) -> Result<(), StoreError> {
        let record = ChangeRecord {
            change,
            status: Some(DONE),
        };
        self.add(record).wait().map(drop)
    }

    fn add(&self, record: ChangeRecord) -> Commit<u64, StoreError> {
        // Durable: a power cut must not lose the entry of a change that was made.
        self.store.write(Durability::Durable, move |txn| {
            // Keys are complements, so the first record is the newest.
            // Its contents are not needed: a damaged entry must not refuse every change.
            let newest = txn.scan_from::<Changes>(None, 1)?;
            let number = newest.first().map_or(1, |(key, _)| !key + 1);
            txn.put::<Changes>(&!number, &record)?;
            // A ring buffer: each entry replaces the one that is `ENTRIES_MAX` older.
            if let Some(old) = number.checked_sub(ENTRIES_MAX) {
                txn.delete::<Changes>(&!old)?;
            }
            Ok(number)
        })
    }

    /// Records the response status. `addition` is appended to the target: the id of the created object, or
    /// counts.
    pub async fn end(
        &self,
        number: u64,
        status: u16,
        addition: Option<String>,
    ) -> Result<(), StoreError> {
        let batch = move |txn: &mut Txn<'_>| {
            // The ring may have dropped the entry while a long request ran.
            if let Some(mut record) = txn.get::<Changes>(&!number)? {
                record.status = Some(status);
                record.change.target.extend(addition);
                txn.put::<Changes>(&!number, &record)?;
            }
            Ok(())
        };
        // Not durable: without its status, the entry reads as that of a process that died.
        self.store.write(Durability::Logged, batch).await
    }

    /// Returns up to `limit` entries, newest first, optionally only those before a number. Damaged entries are
    /// skipped; `store verify` reports them.
    pub fn list(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        // Keys are complements: entries before `number` have larger keys.
        let from = before.map(|number| !number.saturating_sub(1));
        let found = self
            .store
            .read(|txn| txn.scan_from::<Changes>(from.as_ref(), limit))?;
        let entries = found.into_iter().filter_map(|(key, record)| {
            // `None` is a damaged record.
            let ChangeRecord { change, status } = record?;
            Some(AuditEntry {
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

    fn change(target: &str) -> AuditedChange {
        AuditedChange {
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
    async fn changes_are_listed_newest_first_with_their_status() {
        let audit = Audit::open(Store::in_memory(schema(Schema::default())));
        for target in ["a", "b", "c"] {
            audit.begin(change(target)).await.unwrap();
        }
        audit.end(2, 204, None).await.unwrap();
        let listed = |before, limit| {
            let entries = audit.list(before, limit).unwrap();
            let rows = entries
                .into_iter()
                .map(|e| (e.number, e.change.target, e.status));
            rows.collect::<Vec<_>>()
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
    async fn oldest_entry_is_removed() {
        let audit = Audit::open(Store::in_memory(schema(Schema::default())));
        let record = |number: u64| {
            let record = ChangeRecord {
                change: change("x"),
                status: None,
            };
            let batch = move |txn: &mut Txn<'_>| txn.put::<Changes>(&!number, &record);
            audit
                .store
                .write::<_, StoreError, _>(Durability::Logged, batch)
        };
        // The gap stands for the entries in between.
        for number in [1, 2, ENTRIES_MAX] {
            record(number).await.unwrap();
        }
        assert_eq!(audit.begin(change("x")).await.unwrap(), ENTRIES_MAX + 1);
        let numbers: Vec<_> = audit
            .list(None, 10)
            .unwrap()
            .iter()
            .map(|e| e.number)
            .collect();
        assert_eq!(numbers, [ENTRIES_MAX + 1, ENTRIES_MAX, 2]);
    }

    #[tokio::test]
    async fn damaged_newest_entry_refuses_no_change() {
        let audit = Audit::open(Store::in_memory(schema(Schema::default())));
        let damage = |txn: &mut Txn<'_>| txn.put::<DamagedChanges>(&!1, &Damaged);
        let damaged = audit
            .store
            .write::<_, StoreError, _>(Durability::Logged, damage);
        damaged.await.unwrap();
        assert_eq!(audit.begin(change("x")).await, Ok(2));
        assert_eq!(audit.list(None, 10).unwrap().len(), 1);
    }

    #[derive(Serialize, Deserialize)]
    struct Damaged;

    impl Record for Damaged {}

    struct DamagedChanges;

    impl Table for DamagedChanges {
        const NAME: TreeName = Changes::NAME;
        type Key = u64;
        type Record = Damaged;
    }

    #[test]
    fn record_bytes_are_stable() {
        let record = ChangeRecord {
            change: AuditedChange {
                action: "a".to_owned(),
                ..change("b")
            },
            status: Some(204),
        };
        assert_eq!(
            playgate_store::golden(&record),
            "02fc0072abd20003457661000161016201310001cc"
        );
        // Version 1 has no claim.
        let old = data_encoding::HEXLOWER.decode(b"fc0072abd200034576610001610162013101cc");
        assert_eq!(ChangeRecord::upgrade(1, &old.unwrap()), Some(record));
    }
}
