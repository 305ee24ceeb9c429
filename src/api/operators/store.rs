//! The maintenance of the store.

use std::path::PathBuf;

use serde::Serialize;

use playgate_domain::StoreError;
use playgate_domain::store_admin::{DurableStateReport, StoreAdmin, TableReport, Verified};
use playgate_http::{ApiError, Context, OperatorAuth, Reply};
use playgate_services::Services;

#[derive(Serialize)]
struct TableBody {
    table: &'static str,
    records: u64,
    damaged: u64,
    missing: u64,
    stale: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
}

#[derive(Serialize)]
struct DurableStateBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<u64>,
    number: u64,
    missing: u64,
    extra: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
    #[serde(rename = "rebuiltFrom", skip_serializing_if = "Option::is_none")]
    rebuilt_from: Option<String>,
}

impl From<DurableStateReport> for DurableStateBody {
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

#[derive(Serialize)]
struct HealthBody {
    sound: bool,
    tables: Vec<TableBody>,
    #[serde(rename = "durableState", skip_serializing_if = "Option::is_none")]
    durable_state: Option<DurableStateBody>,
}

impl From<TableReport> for TableBody {
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

impl From<Verified> for HealthBody {
    fn from(verified: Verified) -> Self {
        Self {
            sound: verified.is_sound(),
            tables: verified.tables.into_iter().map(TableBody::from).collect(),
            durable_state: verified.durable_state.map(DurableStateBody::from),
        }
    }
}

async fn health_reply(
    services: &Services,
    work: impl FnOnce(&StoreAdmin) -> Result<Verified, StoreError> + Send + 'static,
) -> Result<Reply, ApiError> {
    let store = services.store_admin.clone();
    let health = services.bulk.run(move |()| work(&store))?.await??;
    Reply::json(&HealthBody::from(health))
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

#[derive(Serialize)]
struct SnapshotBody {
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
    Reply::json(&SnapshotBody { path })
}

#[derive(Serialize)]
struct CompactedBody {
    before: u64,
    after: u64,
}

pub(crate) async fn compact(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let store = services.store_admin.clone();
    let (before, after) = services.bulk.run(move |()| store.compact())?.await??;
    Reply::json(&CompactedBody { before, after })
}
