//! The business logic: synchronous functions of the current time and typed arguments.
//!
//! It must not depend on HTTP, JSON libraries, the storage engine or the async runtime.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod accounts;
pub mod audit;
pub mod backoff;
pub mod backups;
pub(crate) mod batches;
pub mod catalog;
pub mod clock_guard;
pub mod conformance;
pub mod decision;
pub mod entitlement;
pub mod epg_sources;
pub mod identities;
pub mod lab;
pub mod mail;
pub mod operators;
pub mod partners;
pub mod playback;
pub mod playback_context;
pub mod schedule;
pub(crate) mod sealing;
pub mod set_aside;
pub mod store_admin;

use playgate_store::Schema;
pub use playgate_store::StoreError;

/// Tables that every start writes, even without any request.
pub const SELF_FILLED_TABLES: [&str; 1] = [clock_guard::TABLE];

/// The tables of this module; `records` adds its own.
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
    playback::schema(schema)
}
