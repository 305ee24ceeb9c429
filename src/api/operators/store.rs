//! The maintenance of the store.

use std::path::PathBuf;

use serde::Serialize;

use playgate_domain::StoreError;
use playgate_domain::store_admin::{DurableStateReport, StoreAdmin, TableReport, Verified};
use playgate_http::{ApiError, Context, OperatorAuth, Reply};
use playgate_services::Services;
use playgate_types::{Described, JsonType};

crate::openapi::words::words! { Compacted, StoreHealth, SnapshotFile => r##"
[operations.admin_verify_store]
summary = "Verify the store"
text = "Compares records with indexes, in both directions, and the engine with snapshot and commit log."
returns."200" = "StoreHealth: Defects found."

[operations.admin_rebuild_store]
summary = "Rebuild the indexes"
returns."200" = "StoreHealth: Defects found before the rebuild."

[operations.admin_write_snapshot]
summary = "Write a new snapshot"
returns."200" = "SnapshotFile: The snapshot."

[operations.admin_compact_store]
summary = "Compact the store"
text = "Rewrites commit log, snapshot and engine. Erased data is physically gone afterwards."
returns."200" = "Compacted: Size before and after."
"## }

#[derive(Described, Serialize)]
struct TableHealth {
    /// Name of the table.
    table: &'static str,
    /// Number of records that the table has.
    records: u64,
    /// Number of records that cannot be read.
    damaged: u64,
    /// Number of missing index entries.
    missing: u64,
    /// Number of index entries that have no record.
    stale: u64,
    /// First defects found. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
}

#[derive(Described, Serialize)]
struct DurableStateHealth {
    /// Number of the commit that the snapshot contains. Absent without a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<u64>,
    /// Number of the last commit.
    number: u64,
    /// Number of records that the engine lacks.
    missing: u64,
    /// Number of records that the engine has in excess.
    extra: u64,
    /// Defect of the snapshot or the commit log. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    /// First defects found. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
    /// Snapshot or backup, with its commit and date, from which the engine was rebuilt when the store was opened. Absent if
    /// it was not rebuilt.
    #[serde(rename = "rebuiltFrom", skip_serializing_if = "Option::is_none")]
    rebuilt_from: Option<String>,
}

impl From<DurableStateReport> for DurableStateHealth {
    fn from(report: DurableStateReport) -> Self {
        Self {
            snapshot: report.snapshot,
            number: report.number,
            missing: report.missing.count,
            extra: report.extra.count,
            damage: report.damage,
            places: [report.missing.some, report.extra.some].concat(),
            rebuilt_from: report.rebuilt_from,
        }
    }
}

#[derive(Described, Serialize)]
struct StoreHealth {
    /// Whether no defect was found.
    sound: bool,
    /// Records and indexes of each table.
    tables: Vec<TableHealth>,
    /// Comparison of the engine with snapshot and commit log. Absent if it was not made.
    #[serde(rename = "durableState", skip_serializing_if = "Option::is_none")]
    durable_state: Option<DurableStateHealth>,
}

impl From<TableReport> for TableHealth {
    fn from(report: TableReport) -> Self {
        Self {
            table: report.table,
            records: report.records,
            damaged: report.damaged.count,
            missing: report.missing.count,
            stale: report.stale.count,
            places: [report.damaged.some, report.missing.some, report.stale.some].concat(),
        }
    }
}

impl From<Verified> for StoreHealth {
    fn from(verified: Verified) -> Self {
        Self {
            sound: verified.is_sound(),
            tables: verified.tables.into_iter().map(TableHealth::from).collect(),
            durable_state: verified.durable_state.map(DurableStateHealth::from),
        }
    }
}

async fn health_reply(
    services: &Services,
    work: impl FnOnce(&StoreAdmin) -> Result<Verified, StoreError> + Send + 'static,
) -> Result<Reply, ApiError> {
    let store = services.store_admin.clone();
    let health = services.bulk.run(move |()| work(&store))?.await??;
    Reply::json(&StoreHealth::from(health))
}

pub(crate) async fn verify(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    health_reply(services, StoreAdmin::verify).await
}

pub(crate) async fn rebuild(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    health_reply(services, StoreAdmin::rebuild).await
}

#[derive(Described, Serialize)]
struct SnapshotFile {
    /// Path of the snapshot on this machine.
    #[described(JsonType::Text)]
    path: PathBuf,
}

pub(crate) async fn write_snapshot(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let store = services.store_admin.clone();
    let path = services
        .bulk
        .run(move |()| store.write_snapshot())?
        .await??;
    Reply::json(&SnapshotFile { path })
}

#[derive(Described, Serialize)]
struct Compacted {
    /// Size of the engine before, in bytes.
    before: u64,
    /// Size of the engine now, in bytes.
    after: u64,
}

pub(crate) async fn compact(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let store = services.store_admin.clone();
    let (before, after) = services.bulk.run(move |()| store.compact())?.await??;
    Reply::json(&Compacted { before, after })
}
