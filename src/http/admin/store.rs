//! Handlers of the store.

use serde::Serialize;

use crate::app::App;
use crate::domain::upkeep::{TableHealth, Upkeep, UpkeepError};
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

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
struct HealthBody {
    sound: bool,
    tables: Vec<TableBody>,
}

impl From<Vec<TableHealth>> for HealthBody {
    fn from(tables: Vec<TableHealth>) -> Self {
        let table = |health: TableHealth| TableBody {
            table: health.table,
            records: health.records,
            damaged: health.damaged,
            missing: health.missing,
            stale: health.stale,
            places: health.places,
        };
        Self {
            sound: tables.iter().all(TableHealth::is_sound),
            tables: tables.into_iter().map(table).collect(),
        }
    }
}

async fn answer(
    app: &App,
    work: impl FnOnce(&Upkeep) -> Result<Vec<TableHealth>, UpkeepError> + Send + 'static,
) -> Result<Reply, ApiError> {
    let upkeep = app.upkeep.clone();
    let tables = app
        .bulk
        .run(move |()| work(&upkeep))?
        .await?
        .map_err(ApiError::internal)?;
    Reply::json(&HealthBody::from(tables))
}

/// POST verify: compares records and indexes, both ways.
///
/// # Errors
/// `OVERLOADED`, `INTERNAL`.
pub async fn verify(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    answer(app, Upkeep::verify).await
}

/// POST rebuild: makes the indexes again, and tells what was wrong.
///
/// # Errors
/// `OVERLOADED`, `INTERNAL`.
pub async fn rebuild(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    answer(app, Upkeep::rebuild).await
}
