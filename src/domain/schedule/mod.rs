//! The broadcast schedule: what runs when on which livestream (interface part 4.1).
//!
//! A guide comes in through [`import`], is put in order per channel by [`normalise`] and compared
//! with what is there by [`plan`]; [`ids`] gives each broadcast the id it keeps. [`tables`] keep
//! it, a [`snapshot`] in memory answers from prepared JSON, and [`Schedule`] ties these together.

mod apply;
pub mod brake;
mod builder;
pub mod channel;
pub mod claims;
pub mod edits;
pub mod ids;
pub mod import;
mod json;
pub mod model;
pub mod normalise;
pub mod plan;
mod program;
pub mod query;
pub mod ratings;
mod ready;
mod render;
mod report;
pub mod rights;
mod seen;
mod service;
mod shelf;
pub mod snapshot;
pub mod tables;
pub mod zone;

pub use apply::MakeLivestreams;
pub use model::{Broadcast, Facts, Image};
pub use program::Program;
pub use query::{Answer, Body, Missing, View};
pub use report::{ImportOptions, ImportReport, Outcome, Unmapped};
pub use rights::{BroadcastRights, ChannelFacts, Rights};
pub use service::{CurrentRights, Schedule, ScheduleError};

#[cfg(test)]
mod tests;
