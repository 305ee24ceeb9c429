//! Options and report of an import.

use super::diff::DiffCounts;
use super::import::Skipped;
use super::import_preview::LivestreamEdits;
use super::plausibility::PlausibilityIssue;
use super::source_spans::ImportPriority;
use crate::types::{LivestreamId, UnixSeconds};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    pub standing: ImportPriority,
    /// Report changes without applying them.
    pub dry_run: bool,
    /// Import even if the guide looks implausible.
    pub accept: bool,
    pub now: UnixSeconds,
    /// Days for which past broadcasts are kept.
    pub retention_days: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The guide is served.
    Applied,
    /// Nothing was changed, since only a report was requested.
    DryRun,
    /// Nothing was changed, since the guide looks implausible.
    Held,
}

/// A channel of the guide without a livestream in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmapped {
    /// The livestream id that it maps to.
    pub id: LivestreamId,
    /// Display name in the guide.
    pub name: Option<String>,
    /// URL of its logo.
    pub icon: Option<String>,
    /// Number of its programmes.
    pub programmes: u64,
}

/// The result of an import or a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    pub outcome: Outcome,
    /// Channels in the guide.
    pub channels: u64,
    /// Programmes in the guide, including skipped ones.
    pub programmes: u64,
    pub difference: DiffCounts,
    /// Rows that were not imported.
    pub skipped: Skipped,
    /// Programmes with a text or list that was shortened.
    pub shortened: u64,
    /// Programmes that the guide does not rate.
    pub unrated: u64,
    /// Channels without a livestream, for which none was created.
    pub unmapped: Vec<Unmapped>,
    /// Channels for which livestreams were or would be created.
    pub created: Vec<Unmapped>,
    /// Channels that the source's last accepted guide did not contain, mapped or not.
    pub newly_seen: Vec<LivestreamId>,
    /// Plausibility issues. An accepted import has them too.
    pub doubts: Vec<PlausibilityIssue>,
    /// If nothing was changed: the first changes that the import would make.
    pub edits: Vec<LivestreamEdits>,
}
