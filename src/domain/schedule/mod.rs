//! The broadcast schedule: what runs when on which livestream (interface part 4.1).
//!
//! A guide comes in through [`import`], is put in order per channel by [`normalise`] and compared
//! with what is there by [`plan`]; [`ids`] gives each broadcast the id it keeps. [`tables`] keep
//! it, a [`snapshot`] in memory answers from prepared JSON, and [`Schedule`] ties these together.

mod broadcast_ref;
pub mod channel;
mod channel_builder;
mod chunk_store;
pub mod diff;
pub mod ids;
pub mod import;
mod import_apply;
pub mod import_preview;
mod json_writer;
mod known_channels;
pub mod model;
pub mod normalise;
pub mod plausibility;
mod prepare;
pub mod query;
pub mod ratings;
mod render;
mod report;
pub mod rights;
mod service;
pub mod snapshot;
pub mod source_spans;
pub mod tables;
pub mod tv_day;

pub use broadcast_ref::Program;
pub use import_apply::MakeLivestreams;
pub use model::{Broadcast, Image, Metadata};
pub use query::{Answer, Body, QueryError, ScheduleSettings};
pub use report::{ImportOptions, ImportReport, Outcome, Unmapped};
pub use rights::{BroadcastRights, ChannelFacts, Rights};
pub use service::{CurrentRights, Schedule, ScheduleError};

#[cfg(test)]
mod tests;
