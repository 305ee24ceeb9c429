//! EPG sources: fetched on a timer, each with its own interval and priority.
//!
//! Owns the settings of the sources and their [`EpgSourceState`]. Fetching is a port, importing belongs to the
//! schedule, and the guide decoder is injected: nothing here parses a guide.

mod create;
mod error;
mod fetching;
mod model;
mod service;
mod tables;
#[cfg(test)]
mod tests;

pub use error::EpgSourceError;
pub use model::{EpgSettings, EpgSource, GuideOptions, HoldReason, LastImport};
pub use service::{DemoGuide, EpgSourceView, EpgSources, Refresh};
pub use tables::{EpgSourceState, schema};
