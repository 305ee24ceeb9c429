//! What an import is asked, and what it reports.

use super::diff::DiffCounts;
use super::import::Skipped;
use super::import_preview::LivestreamEdits;
use super::plausibility::PlausibilityIssue;
use super::source_spans::ImportPriority;
use crate::types::{LivestreamId, UnixSeconds};

/// What an import is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// Whose guide it is.
    pub standing: ImportPriority,
    /// Only report.
    pub dry_run: bool,
    /// Import even where the brake holds it.
    pub accept: bool,
    /// The instant of the import.
    pub now: UnixSeconds,
    /// How many days back broadcasts are kept.
    pub retention_days: u32,
}

/// What became of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is served, if it changed anything.
    Applied,
    /// Nothing was changed because only a report was asked for.
    DryRun,
    /// Nothing was changed because of doubts: the brake holds it.
    Held,
}

/// A channel of the guide that no livestream of the catalogue carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmapped {
    /// The livestream id that it maps to.
    pub id: LivestreamId,
    /// What the guide calls it.
    pub name: Option<String>,
    /// The address of its logo.
    pub icon: Option<String>,
    /// How many programmes it has.
    pub programmes: u64,
}

/// What an import did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Whether it is served.
    pub outcome: Outcome,
    /// How many channels the guide names.
    pub channels: u64,
    /// How many programmes the guide has, those skipped included.
    pub programmes: u64,
    /// What changes.
    pub difference: DiffCounts,
    /// The rows that were not taken.
    pub skipped: Skipped,
    /// How many programmes had a text or list that was cut.
    pub shortened: u64,
    /// How many programmes the guide does not rate.
    pub unrated: u64,
    /// Channels that the catalogue does not know and that were not made livestreams.
    pub unmapped: Vec<Unmapped>,
    /// Channels that were made livestreams, or would be.
    pub created: Vec<Unmapped>,
    /// Channels that the last guide of the source had not, mapped or not.
    pub newly_seen: Vec<LivestreamId>,
    /// What the brake has against it; an accepted import has them too.
    pub doubts: Vec<PlausibilityIssue>,
    /// Of an import that changed nothing, what it would change: the first of it.
    pub edits: Vec<LivestreamEdits>,
}
