//! The report of a guide's import, for operators and their programs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::domain::schedule::import::GuideError;
use crate::domain::schedule::import_preview::{BroadcastSummary, LivestreamEdits};
use crate::domain::schedule::{ImportReport, Outcome, Unmapped};
use crate::http::error::ImportProblem;

/// What an import did, or would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WireReport {
    /// Whether nothing was changed because of `doubts`.
    held: bool,
    /// Whether nothing was changed because only a report was asked for.
    dry_run: bool,
    /// How many channels the guide names.
    channels: u64,
    /// How many programmes the guide has, those skipped included.
    programmes: u64,
    added: u64,
    changed: u64,
    removed: u64,
    unchanged: u64,
    /// How many rows were not taken, by kind.
    skipped: BTreeMap<&'static str, u64>,
    /// The lines of the first of them.
    skipped_lines: BTreeMap<&'static str, Vec<u64>>,
    /// How many programmes had a text or list that was cut.
    shortened: u64,
    /// How many programmes the guide does not rate.
    unrated: u64,
    /// Channels that the catalogue does not know, as livestream ids.
    unmapped: Vec<String>,
    /// Livestreams that were made, or would be.
    created: Vec<String>,
    /// Channels that the last guide of the source had not, as livestream ids.
    new_channels: Vec<String>,
    /// Why it is, or without `accept` would have been, held.
    doubts: Vec<String>,
    /// Of an import that changed nothing, the first of what it would change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<WireChanges>,
}

/// What would change on a livestream.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireChanges {
    livestream: String,
    /// The zone that a person thinks of its times in.
    zone: &'static str,
    added: u64,
    changed: u64,
    removed: u64,
    /// The first changes, in order of time.
    edits: Vec<WireEdit>,
}

/// A broadcast before and after; one of the two is absent where it is new or goes.
#[derive(Debug, Serialize)]
struct WireEdit {
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<WireAiring>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<WireAiring>,
}

#[derive(Debug, Serialize)]
struct WireAiring {
    start: i64,
    stop: i64,
    title: String,
}

impl From<&BroadcastSummary> for WireAiring {
    fn from(airing: &BroadcastSummary) -> Self {
        Self {
            start: airing.start.0,
            stop: airing.stop.0,
            title: airing.title.to_string(),
        }
    }
}

impl From<&LivestreamEdits> for WireChanges {
    fn from(one: &LivestreamEdits) -> Self {
        let edits = one.edits.iter().map(|edit| WireEdit {
            before: edit.before.as_ref().map(WireAiring::from),
            after: edit.after.as_ref().map(WireAiring::from),
        });
        Self {
            livestream: one.livestream.to_string(),
            zone: one.zone.name(),
            added: one.difference.added,
            changed: one.difference.changed,
            removed: one.difference.removed,
            edits: edits.collect(),
        }
    }
}

impl From<&ImportReport> for WireReport {
    fn from(report: &ImportReport) -> Self {
        let ids = |channels: &[Unmapped]| channels.iter().map(|c| c.id.to_string()).collect();
        let skipped = || report.skipped.iter();
        Self {
            held: report.outcome == Outcome::Held,
            dry_run: report.outcome == Outcome::DryRun,
            channels: report.channels,
            programmes: report.programmes,
            added: report.difference.added,
            changed: report.difference.changed,
            removed: report.difference.removed,
            unchanged: report.difference.unchanged,
            skipped: skipped()
                .map(|(kind, rows)| (kind.as_str(), rows.count))
                .collect(),
            skipped_lines: skipped()
                .map(|(kind, rows)| (kind.as_str(), rows.lines.clone()))
                .collect(),
            shortened: report.shortened,
            unrated: report.unrated,
            unmapped: ids(&report.unmapped),
            created: ids(&report.created),
            new_channels: report.newly_seen.iter().map(ToString::to_string).collect(),
            doubts: report.doubts.iter().map(ToString::to_string).collect(),
            changes: report.edits.iter().map(WireChanges::from).collect(),
        }
    }
}

/// What is wrong with a guide, and where.
#[must_use]
pub fn problem(error: &GuideError) -> ImportProblem {
    let line = match error {
        GuideError::Truncated { line } | GuideError::Broken { line, .. } => Some(*line),
        GuideError::Unreadable(_) | GuideError::NotAGuide(_) | GuideError::TooLarge(_) => None,
    };
    ImportProblem {
        line,
        message: guide_fault(error),
    }
}

/// What is wrong with a guide, without the words of what reads files and unpacks them.
#[must_use]
pub fn guide_fault(error: &GuideError) -> String {
    match error {
        GuideError::Unreadable(_) => {
            "the guide cannot be read or unpacked: send it whole, as plain text, gzip or xz"
                .to_owned()
        }
        GuideError::Truncated { line } => format!("the guide ends in the middle, at line {line}"),
        GuideError::Broken { line, what } => format!("the guide is broken at line {line}: {what}"),
        GuideError::NotAGuide(what) => format!("this is not a guide: {what}"),
        GuideError::TooLarge(what) => format!("the guide is too large: {what}"),
    }
}
