//! The report of a guide import: what changed, what was skipped, and what holds it.

use super::diff::DiffCounts;
use super::import::Skipped;
use super::import::repairs::Repairs;
use super::import_preview::LivestreamEdits;
use super::lost_overrides::LostOverride;
use super::plausibility::PlausibilityIssue;
use super::source_spans::ImportPriority;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    pub priority: ImportPriority,
    pub dry_run: bool,
    pub accept: bool,
    pub now: UnixSeconds,
    pub retention_days: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    Applied,
    DryRun,
    Held,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmapped {
    pub id: LivestreamId,
    pub name: Option<String>,
    pub icon: Option<String>,
    pub programmes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    pub outcome: ImportOutcome,
    pub channels: u64,
    /// Includes skipped programmes.
    pub programmes: u64,
    pub difference: DiffCounts,
    pub skipped: Skipped,
    pub repairs: Repairs,
    /// Channel ids of the guide that no livestream can have.
    pub unusable: Vec<String>,
    /// Overrides whose broadcast is removed.
    pub lost: Vec<(BroadcastId, LostOverride)>,
    pub shortened: u64,
    pub unrated: u64,
    pub unmapped: Vec<Unmapped>,
    pub created: Vec<Unmapped>,
    pub newly_seen: Vec<LivestreamId>,
    /// Also set for an accepted import.
    pub issues: Vec<PlausibilityIssue>,
    /// The first changes that the import would make, for a dry run or a held import.
    pub edits: Vec<LivestreamEdits>,
}
