//! The broadcast schedule: what runs when on which livestream.
//!
//! [`import`] parses a guide, [`normalise`] sorts its rows by channel, [`mod@diff`] compares them with the stored
//! broadcasts, and [`ids`] keeps broadcast ids stable. [`tables`] defines the stored form. A [`snapshot`] in memory
//! answers requests from pre-rendered JSON. [`Schedule`] ties these together.

pub(crate) mod channel;
mod channel_builder;
mod chunk_store;
pub(crate) mod details;
pub(crate) mod diff;
pub(crate) mod ids;
pub mod import;
mod import_apply;
pub mod import_preview;
mod json_arena;
mod json_writer;
mod known_channels;
pub mod lost_overrides;
pub(crate) mod model;
mod normalise;
pub(crate) mod plausibility;
mod prepare;
pub mod query;
pub mod ratings;
mod render;
mod report;
pub(crate) mod rights;
mod service;
pub mod snapshot;
pub mod source_spans;
pub mod tables;
pub mod text_limits;
pub(crate) mod tv_day;

pub use channel::Program;
pub use details::calendar_date;
pub use details::{Credit, CreditKind, Details, ImagePurpose, PreviousShowing, TypedImage};
pub use import_apply::MakeLivestreams;
pub use model::{Broadcast, Image, Metadata};
pub use query::{QueryError, ScheduleResponse, ScheduleSettings};
pub use report::{ImportOptions, ImportOutcome, ImportReport, Unmapped};
pub use rights::{BroadcastRights, ChannelFacts, Rights};
pub use service::{CurrentRights, Schedule, ScheduleError};

#[cfg(test)]
mod tests;
