//! Prepares the channels of a guide for the diff: sorts and filters their rows, and checks their plausibility.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::channel::Channel;
use super::diff::WritableSpans;
use super::import::packed_metadata::Texts;
use super::import::parsed_guide::ParsedGuide;
use super::import::repairs::Repairs;
use super::import::{GuideProblem, Skip, Skipped};
use super::model::NewRow;
use super::normalise::{KeptRow, normalise};
use super::plausibility::{self, Coverage, DayCoverage, PlausibilityIssue};
use super::report::ImportOptions;
use super::rights::Rights;
use super::service::first_day;
use super::snapshot::ScheduleSnapshot;
use super::source_spans::{AllSourceSpans, CoveredSpan, ImportPriority, SourceSpans, free};
use playgate_store::MemoryTable;
use playgate_types::time::DAY;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds};

/// Seconds from now. Later starts and stops are typing errors in a date: one row to the year 2999 would make
/// every later guide look too short.
const AHEAD_MAX: i64 = 3 * 366 * DAY;

/// More than any guide has ahead.
const DAYS_COMPARED: usize = 60;

pub(super) struct PreparedChannel {
    pub(super) livestream: LivestreamId,
    /// The span from its first to its last usable row; `None` without a row.
    pub(super) whole: Option<CoveredSpan>,
    /// Seconds from UTC at its begin, so that days are those of viewers.
    offset: i64,
    pub(super) writable: WritableSpans,
    kept: Vec<KeptRow<u32>>,
    texts: Texts,
}

/// Drops the channels without a livestream, and rows that are too old, too far ahead, or in a span
/// of a source with higher priority.
pub(super) fn prepare_channels(
    draft: ParsedGuide,
    (rights, before): (&dyn Rights, &ScheduleSnapshot),
    source_spans: &MemoryTable<AllSourceSpans>,
    options: &ImportOptions,
    (skipped, repairs): (&mut Skipped, &mut Repairs),
) -> Vec<PreparedChannel> {
    let first = first_day(options.now, options.retention_days);
    let last = options.now + AHEAD_MAX;
    let mut ready = Vec::new();
    for (livestream, channel) in draft.channels {
        let mut rows = channel.rows;
        let problem = |line, kind| GuideProblem::new(line, kind).of_channel(livestream.as_str());
        // Each row is counted, so that the report shows what a missing livestream costs.
        if rights.channel(&livestream).is_none() {
            for row in rows {
                skipped.add(problem(row.line, Skip::Unmapped));
            }
            continue;
        }
        // Must come first: a programme without a stop would last until the start of a dropped row.
        retain(&mut rows, &livestream, skipped, |row| {
            let end = row.stop.unwrap_or(row.start);
            (row.start.max(end) > last).then_some((row.line, Skip::TooFar))
        });
        let mut newly_skipped = Skipped::default();
        let mut kept = normalise(rows, &mut newly_skipped, repairs);
        skipped.merge(newly_skipped, &livestream);
        if let Some(last) = kept.last_mut() {
            bound_last(last, before.channel(livestream.as_str()));
        }
        // After the normalisation, in which an old row may end a row that is kept.
        retain(&mut kept, &livestream, skipped, |row| {
            (row.start.utc_day() < first).then_some((row.line, Skip::TooOld))
        });
        // Before rows are outranked: the guide covers these times, whether it may write them or not.
        let whole = kept
            .first()
            .zip(kept.last())
            .map(|(first, last)| CoveredSpan {
                from: first.start,
                to: last.stop,
            });
        let writable = writable_spans(
            whole,
            source_spans.get(&livestream).as_deref(),
            &options.priority,
        );
        let span_of = |at: UnixSeconds| writable.free.iter().find(|span| span.holds(at));
        retain(&mut kept, &livestream, skipped, |row| {
            let outranked = span_of(row.start).is_none();
            outranked.then_some((row.line, Skip::Outranked))
        });
        // A row may reach into a span of a source with higher priority.
        for row in &mut kept {
            let end = span_of(row.start).map_or(row.stop, |span| span.to);
            row.stop = row.stop.min(end);
        }
        let zone = rights.channel(&livestream).map(|channel| channel.zone);
        let offset = whole
            .zip(zone)
            .map(|(whole, zone)| zone.offset_at(whole.from));
        ready.push(PreparedChannel {
            livestream,
            whole,
            offset: offset.unwrap_or(0),
            writable,
            kept,
            texts: channel.texts,
        });
    }
    ready
}

/// The end of a last row that the guide does not tell. What is known of the time behind it must stay.
fn bound_last(row: &mut KeptRow<u32>, known: Option<&Arc<Channel>>) {
    let end = known.and_then(|channel| channel.end_after(row.start));
    if let Some(end) = end.filter(|_| row.is_estimated) {
        row.stop = row.stop.min(end);
    }
}

fn retain<R>(
    rows: &mut Vec<R>,
    livestream: &LivestreamId,
    skipped: &mut Skipped,
    against: impl Fn(&R) -> Option<(u64, Skip)>,
) {
    rows.retain(|row| {
        let problem = against(row);
        if let Some((line, kind)) = problem {
            skipped.add(GuideProblem::new(line, kind).of_channel(livestream.as_str()));
        }
        problem.is_none()
    });
}

fn writable_spans(
    whole: Option<CoveredSpan>,
    source_spans: Option<&SourceSpans>,
    priority: &ImportPriority,
) -> WritableSpans {
    let blocked = source_spans.map_or_else(Vec::new, |source_spans| source_spans.blocked(priority));
    WritableSpans {
        free: whole.map_or_else(Vec::new, |whole| free(whole, &blocked)),
        blocked,
    }
}

pub(super) fn plausibility_issues_of(
    before: &ScheduleSnapshot,
    source_spans: &MemoryTable<AllSourceSpans>,
    source: &str,
    ready: &[PreparedChannel],
) -> Vec<PlausibilityIssue> {
    let (mut now, mut new) = (Coverage::default(), Coverage::default());
    let mut usable = false;
    let mut days: BTreeMap<i64, DayCoverage> = BTreeMap::new();
    for one in ready {
        let Some(whole) = one.whole else {
            continue;
        };
        usable = true;
        new.add(Coverage {
            programmes: u64::try_from(one.kept.len()).unwrap_or(u64::MAX),
            horizon: Some(whole.to),
        });
        if let Some(channel) = before.channel(one.livestream.as_str()) {
            one.add_days(channel, whole, &mut days);
            let spans = one.writable.free.iter();
            let source_spans = source_spans.get(&one.livestream);
            // Compared with what the guide may replace only.
            now.add(Coverage {
                programmes: spans.map(|span| channel.count_within(*span)).sum(),
                horizon: horizon(channel.last(), source_spans.as_deref(), source),
            });
        }
    }
    if usable {
        plausibility::plausibility_issues(now, new, &days)
    } else {
        vec![PlausibilityIssue::Nothing]
    }
}

/// Returns how far the guide of a source is expected to reach on a livestream.
fn horizon(
    last: Option<(UnixSeconds, UnixSeconds)>,
    source_spans: Option<&SourceSpans>,
    source: &str,
) -> Option<UnixSeconds> {
    let (start, stop) = last?;
    // Normally as far as its last guide did.
    let claimed = source_spans.and_then(|source_spans| source_spans.horizon(source));
    let foreign = || {
        source_spans
            .and_then(|source_spans| source_spans.owner(start))
            .unwrap_or("")
    };
    // A source that is new here is only compared with broadcasts that no source filled: two weeks from another source
    // must not hold one good week.
    claimed.or_else(|| (source.is_empty() || foreign().is_empty()).then_some(stop))
}

impl PreparedChannel {
    /// Counts the broadcasts of each day of the guide, now and then.
    fn add_days(&self, now: &Channel, whole: CoveredSpan, days: &mut BTreeMap<i64, DayCoverage>) {
        let day_of = |at: UnixSeconds| (at.0 + self.offset).div_euclid(DAY);
        for row in &self.kept {
            days.entry(day_of(row.start)).or_default().new += 1;
        }
        for day in (day_of(whole.from)..=day_of(whole.to)).take(DAYS_COMPARED) {
            let from = UnixSeconds(day * DAY - self.offset);
            let parts = self.writable.free.iter().map(|span| CoveredSpan {
                from: span.from.max(from),
                to: span.to.min(from + DAY),
            });
            let parts = parts.filter(|part| part.from < part.to);
            let parts: Vec<CoveredSpan> = parts.collect();
            let covered: i64 = parts.iter().map(|part| part.to.since(part.from)).sum();
            // At the edges of a guide one film may replace many short programmes.
            if covered < DAY / 2 {
                continue;
            }
            let count: u64 = parts.iter().map(|part| now.count_within(*part)).sum();
            if count > 0 {
                days.entry(day).or_default().now += count;
            }
        }
    }

    pub(super) fn rows(self, skipped: &mut Skipped) -> (LivestreamId, WritableSpans, Vec<NewRow>) {
        let mut rows: Vec<Option<NewRow>> = Vec::new();
        // A slot stays empty if the id of its row is invalid.
        rows.resize_with(self.kept.len(), || None);
        // Metadata is packed in the order of the guide, rows are in order of time.
        let mut by_payload: Vec<(usize, KeptRow<u32>)> =
            self.kept.into_iter().enumerate().collect();
        by_payload.sort_unstable_by_key(|(at, row)| (row.payload, *at));
        let mut wanted = by_payload.into_iter().peekable();
        for (number, (id, metadata)) in (0..).zip(self.texts) {
            let Some((at, row)) = wanted.next_if(|(_, row)| row.payload == number) else {
                continue;
            };
            // The other parts of a placeholder. The first one has the id.
            while let Some((at, part)) = wanted.next_if(|(_, row)| row.payload == number) {
                if let Some(slot) = rows.get_mut(at) {
                    *slot = Some(NewRow {
                        line: part.line,
                        id: None,
                        start: part.start,
                        stop: part.stop,
                        metadata: metadata.clone(),
                    });
                }
            }
            // Parsed here and not while reading, since most rows of other channels are dropped before.
            let Ok(id) = id.map(|id| BroadcastId::parse(&id)).transpose() else {
                let problem = GuideProblem::new(row.line, Skip::BadId);
                skipped.add(problem.of_channel(self.livestream.as_str()));
                continue;
            };
            if let Some(slot) = rows.get_mut(at) {
                *slot = Some(NewRow {
                    line: row.line,
                    id,
                    start: row.start,
                    stop: row.stop,
                    metadata,
                });
            }
        }
        let rows = rows.into_iter().flatten().collect();
        (self.livestream, self.writable, rows)
    }
}
