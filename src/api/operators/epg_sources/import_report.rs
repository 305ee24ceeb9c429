//! The report of an EPG import.

use std::collections::BTreeMap;

use serde::Serialize;

use playgate_domain::schedule::import::GuideProblem;
use playgate_domain::schedule::import_preview::{BroadcastSummary, LivestreamEdits};
use playgate_domain::schedule::lost_overrides::LostOverride;
use playgate_domain::schedule::{ImportOutcome, ImportReport, Unmapped};
use playgate_types::{BroadcastId, Described, JsonType, LivestreamId, UnixSeconds};

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GuideReport {
    /// Whether the import was held because of `doubts` and changed nothing.
    held: bool,
    /// Whether this was a dry run, which changes nothing.
    dry_run: bool,
    /// Number of channels in the guide.
    channels: u64,
    /// Number of programmes in the guide, skipped ones included.
    programmes: u64,
    /// Number of broadcasts that the schedule did not have.
    added: u64,
    /// Number of broadcasts that the schedule has with other values.
    changed: u64,
    /// Number of broadcasts that the guide no longer has.
    removed: u64,
    /// Number of broadcasts that are the same in guide and schedule.
    unchanged: u64,
    /// Number of skipped rows, by reason.
    skipped: BTreeMap<&'static str, u64>,
    /// Line numbers of the first skipped rows, by reason.
    skipped_lines: BTreeMap<&'static str, Vec<u64>>,
    /// The first skipped rows, by reason.
    skipped_rows: BTreeMap<&'static str, Vec<SkippedRow>>,
    /// Number of repairs, by kind. The rows are imported.
    repaired: BTreeMap<&'static str, u64>,
    /// Line numbers of the first repaired rows, by kind.
    repaired_lines: BTreeMap<&'static str, Vec<u64>>,
    /// Channel ids of the guide that no livestream can have. Map them in the EPG source.
    unusable_channels: Vec<String>,
    /// Rights of single broadcasts whose broadcast the import removes. They apply to nothing.
    lost_overrides: Vec<LostOverrideBody>,
    /// Number of programmes with a text or list that was truncated.
    shortened: u64,
    /// Number of programmes without an age rating.
    unrated: u64,
    /// Livestream ids of channels that are not in the catalogue.
    unmapped: Vec<String>,
    /// Names of those channels in the guide, by id. Channels without a name are left out.
    unmapped_names: BTreeMap<String, String>,
    /// Livestreams that were created, or would be in a dry run.
    #[described(JsonType::List(&JsonType::Named("LivestreamId")))]
    created: Vec<String>,
    /// Livestream ids of channels that the last guide of the EPG source did not contain.
    new_channels: Vec<String>,
    /// Reasons to hold the import. Also listed if `accept` overrode them.
    doubts: Vec<String>,
    /// Preview of the first changes. Present only if the import changed nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<LivestreamChanges>,
}

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct LostOverrideBody {
    /// Id of the broadcast that the override is for.
    broadcast_id: String,
    /// Id of the livestream of the broadcast.
    livestream_id: LivestreamId,
    /// Title of the broadcast.
    title: String,
    /// Time at which the broadcast starts.
    start: UnixSeconds,
}

impl From<&(BroadcastId, LostOverride)> for LostOverrideBody {
    fn from((id, lost): &(BroadcastId, LostOverride)) -> Self {
        Self {
            broadcast_id: id.to_string(),
            livestream_id: lost.livestream.clone(),
            title: lost.title.to_string(),
            start: lost.start,
        }
    }
}

/// A skipped row. `channel` and `text` are absent where the guide has none.
#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct SkippedRow {
    /// Number of the line of the guide that has the row.
    line: u64,
    /// Channel id of the row, or its livestream id.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// The text that was not understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl From<&GuideProblem> for SkippedRow {
    fn from(row: &GuideProblem) -> Self {
        Self {
            line: row.line,
            channel: row.channel.as_deref().map(str::to_owned),
            text: row.text.as_deref().map(str::to_owned),
        }
    }
}

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct LivestreamChanges {
    /// Id of the livestream.
    livestream: LivestreamId,
    /// Time zone in which to display the times.
    zone: &'static str,
    /// Number of added broadcasts of this livestream.
    added: u64,
    /// Number of changed broadcasts of this livestream.
    changed: u64,
    /// Number of removed broadcasts of this livestream.
    removed: u64,
    /// First changes, ordered by time.
    edits: Vec<GuideEdit>,
}

/// A broadcast before and after. `before` is absent for a new one, `after` for a removed one.
#[derive(Debug, Described, Serialize)]
struct GuideEdit {
    /// Previous broadcast. Absent if the broadcast is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Airing>,
    /// New broadcast. Absent if the broadcast is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Airing>,
}

#[derive(Debug, Described, Serialize)]
struct Airing {
    /// Start time, inclusive.
    start: UnixSeconds,
    /// End time, exclusive.
    stop: UnixSeconds,
    /// Title of the broadcast.
    title: String,
}

impl From<&BroadcastSummary> for Airing {
    fn from(airing: &BroadcastSummary) -> Self {
        Self {
            start: airing.start,
            stop: airing.stop,
            title: airing.title.to_string(),
        }
    }
}

impl From<&LivestreamEdits> for LivestreamChanges {
    fn from(one: &LivestreamEdits) -> Self {
        let edits = one.edits.iter().map(|edit| GuideEdit {
            before: edit.before.as_ref().map(Airing::from),
            after: edit.after.as_ref().map(Airing::from),
        });
        Self {
            livestream: one.livestream.clone(),
            zone: one.zone.name(),
            added: one.difference.added,
            changed: one.difference.changed,
            removed: one.difference.removed,
            edits: edits.collect(),
        }
    }
}

impl From<&ImportReport> for GuideReport {
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
                        rows.rows.iter().map(SkippedRow::from).collect(),
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
            lost_overrides: report.lost.iter().map(LostOverrideBody::from).collect(),
            shortened: report.shortened,
            unrated: report.unrated,
            unmapped: ids(&report.unmapped),
            unmapped_names: names(&report.unmapped),
            created: ids(&report.created),
            new_channels: report.newly_seen.iter().map(ToString::to_string).collect(),
            doubts: report.issues.iter().map(ToString::to_string).collect(),
            changes: report.edits.iter().map(LivestreamChanges::from).collect(),
        }
    }
}

fn names(channels: &[Unmapped]) -> BTreeMap<String, String> {
    let named = channels
        .iter()
        .filter_map(|channel| Some((channel.id.to_string(), channel.name.clone()?)));
    named.collect()
}
