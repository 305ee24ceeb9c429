//! What has happened: the request journal, the events of players, and the figures about them. The domain does not know
//! that it is recorded.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod journal;
pub mod quality;
pub mod telemetry;

use playgate_store::Schema;

/// All tables of a store.
pub fn schema() -> Schema {
    journal::schema(telemetry::schema(playgate_domain::schema()))
}
