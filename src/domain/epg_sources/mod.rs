//! Sources of guides: fetched on a timer, several beside each other, and what became of each.
//!
//! A source is configured; what is kept of it is its [`EpgSourceState`]. Fetching is a port, bringing a
//! guide in is the schedule's, and the form of a guide is told by whoever assembles the service.

mod create;
mod model;
mod service;
mod tables;
#[cfg(test)]
mod tests;

pub use model::{EpgSource, GuideOptions, HoldReason, LastImport, Settings};
pub use service::{EpgSourceError, EpgSourceView, EpgSources, GuideDecoder, Refresh};
pub use tables::{EpgSourceState, schema};
