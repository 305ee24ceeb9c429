//! The business logic: synchronous functions of the current time and typed arguments.
//!
//! It must not depend on HTTP, JSON libraries, the storage engine or the async runtime.

pub mod accounts;
pub(crate) mod audit;
pub(crate) mod backoff;
pub mod backups;
pub(crate) mod batches;
pub mod catalog;
pub(crate) mod clock_guard;
pub mod conformance;
pub(crate) mod decision;
pub(crate) mod entitlement;
pub(crate) mod epg_sources;
pub(crate) mod identities;
pub(crate) mod lab;
pub(crate) mod mail;
pub(crate) mod operators;
pub(crate) mod partners;
pub(crate) mod playback;
pub(crate) mod playback_context;
pub mod schedule;
pub(crate) mod sealing;
pub(crate) mod set_aside;
pub(crate) mod store_admin;

use crate::store::Schema;
pub use crate::store::StoreError;

/// Tables that every start writes, even without any request.
pub const OWN_TABLES: [&str; 1] = [clock_guard::TABLE];

/// The tables of this module; `records` adds its own.
#[must_use]
pub(crate) fn schema() -> Schema {
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
    playback::schema(schema)
}
