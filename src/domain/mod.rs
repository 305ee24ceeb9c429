//! What the service knows and decides: synchronous, (now, typed arguments) to a result.
//!
//! Nothing here names HTTP, JSON libraries, the storage engine or the runtime.

pub mod accounts;
pub mod audit;
pub mod backoff;
pub mod backups;
pub mod catalog;
pub mod clock_guard;
pub mod entitlement;
pub mod epg_sources;
pub mod loop_channel;
pub mod mail;
pub mod operators;
pub mod partners;
pub mod playback;
pub mod playback_context;
pub mod schedule;
pub mod sealing;
pub mod store_admin;
pub mod telemetry;

use crate::store::Schema;
/// What can go wrong in the store, as the errors of the services carry it.
pub use crate::store::StoreError;

/// The tables that a start fills, whether or not anybody has used the service.
pub const OWN_TABLES: [&str; 1] = [clock_guard::TABLE];

/// Every table of the service.
#[must_use]
pub fn schema() -> Schema {
    let schema = clock_guard::schema(Schema::default());
    let schema = partners::schema(schema);
    let schema = operators::schema(schema);
    let schema = audit::schema(schema);
    let schema = accounts::schema(schema);
    let schema = mail::schema(schema);
    let schema = catalog::schema(schema);
    let schema = entitlement::schema(schema);
    let schema = schedule::tables::schema(schema);
    let schema = epg_sources::schema(schema);
    let schema = playback::schema(schema);
    telemetry::schema(schema)
}
