//! The report of an EPG import.

use std::collections::BTreeMap;

use serde::Serialize;

use playgate_domain::schedule::import::GuideProblem;
use playgate_domain::schedule::import_preview::{BroadcastSummary, LivestreamEdits};
use playgate_domain::schedule::lost_overrides::LostOverride;
use playgate_domain::schedule::{ImportOutcome, ImportReport, Unmapped};
use playgate_types::BroadcastId;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireReport {
    held: bool,
    dry_run: bool,
    channels: u64,
    programmes: u64,
    added: u64,
    changed: u64,
    removed: u64,
    unchanged: u64,
    skipped: BTreeMap<&'static str, u64>,
    skipped_lines: BTreeMap<&'static str, Vec<u64>>,
    skipped_rows: BTreeMap<&'static str, Vec<WireSkipped>>,
    repaired: BTreeMap<&'static str, u64>,
    repaired_lines: BTreeMap<&'static str, Vec<u64>>,
    /// Channel ids of the guide that no livestream can have.
    unusable_channels: Vec<String>,
    lost_overrides: Vec<WireLostOverride>,
    shortened: u64,
    unrated: u64,
    unmapped: Vec<String>,
    /// Display names of unmapped channels by channel id, where the guide has them.
    unmapped_names: BTreeMap<String, String>,
    created: Vec<String>,
    new_channels: Vec<String>,
    doubts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<WireChanges>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireLostOverride {
    broadcast_id: String,
    livestream_id: String,
    title: String,
    start: i64,
}

impl From<&(BroadcastId, LostOverride)> for WireLostOverride {
    fn from((id, lost): &(BroadcastId, LostOverride)) -> Self {
        Self {
            broadcast_id: id.to_string(),
            livestream_id: lost.livestream.to_string(),
            title: lost.title.to_string(),
            start: lost.start.0,
        }
    }
}

/// A skipped row. `channel` and `text` are absent where the guide has none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireSkipped {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl From<&GuideProblem> for WireSkipped {
    fn from(row: &GuideProblem) -> Self {
        Self {
            line: row.line,
            channel: row.channel.as_deref().map(str::to_owned),
            text: row.text.as_deref().map(str::to_owned),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireChanges {
    livestream: String,
    zone: &'static str,
    added: u64,
    changed: u64,
    removed: u64,
    edits: Vec<WireEdit>,
}

/// A broadcast before and after. `before` is absent for a new one, `after` for a removed one.
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
        let repaired = || report.repairs.iter();
        Self {
            held: report.outcome == ImportOutcome::Held,
            dry_run: report.outcome == ImportOutcome::DryRun,
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
                .map(|(kind, rows)| (kind.as_str(), rows.lines().collect()))
                .collect(),
            skipped_rows: skipped()
                .map(|(kind, rows)| {
                    (
                        kind.as_str(),
                        rows.rows.iter().map(WireSkipped::from).collect(),
                    )
                })
                .collect(),
            repaired: repaired()
                .map(|(kind, rows)| (kind.as_str(), rows.count))
                .collect(),
            repaired_lines: repaired()
                .map(|(kind, rows)| (kind.as_str(), rows.lines.clone()))
                .collect(),
            unusable_channels: report.unusable.clone(),
            lost_overrides: report.lost.iter().map(WireLostOverride::from).collect(),
            shortened: report.shortened,
            unrated: report.unrated,
            unmapped: ids(&report.unmapped),
            unmapped_names: names(&report.unmapped),
            created: ids(&report.created),
            new_channels: report.newly_seen.iter().map(ToString::to_string).collect(),
            doubts: report.issues.iter().map(ToString::to_string).collect(),
            changes: report.edits.iter().map(WireChanges::from).collect(),
        }
    }
}

fn names(channels: &[Unmapped]) -> BTreeMap<String, String> {
    let named = channels
        .iter()
        .filter_map(|channel| Some((channel.id.to_string(), channel.name.clone()?)));
    named.collect()
}
