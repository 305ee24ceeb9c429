//! What has happened: the request journal, the events of players, and the figures about them. The domain does not know
//! that it is recorded.

pub mod journal;
pub mod quality;
pub mod telemetry;

use crate::domain;
use crate::store::Schema;

/// All tables of a store.
#[must_use]
pub fn schema() -> Schema {
    journal::schema(telemetry::schema(domain::schema()))
}
