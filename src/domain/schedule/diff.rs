//! Diff of one livestream: what a guide changes in the stored broadcasts.
//!
//! The span that the guide covers is replaced, except for the parts that sources of higher priority own. Nothing
//! outside of it changes, so that past broadcasts stay available for catch-up.

use std::collections::HashSet;

use super::ids;
use super::import::{GuideProblem, Skip, Skipped};
use super::model::{Broadcast, NewRow};
use super::source_spans::CoveredSpan;
use playgate_types::{BroadcastId, LivestreamId};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffCounts {
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
    pub unchanged: u64,
}

impl DiffCounts {
    pub fn is_none(&self) -> bool {
        (self.added, self.changed, self.removed) == (0, 0, 0)
    }
}

impl std::ops::AddAssign for DiffCounts {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.changed += other.changed;
        self.removed += other.removed;
        self.unchanged += other.unchanged;
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChannelDiff {
    pub list: Vec<Broadcast>,
    /// Counts of changes within the span.
    pub difference: DiffCounts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WritableSpans {
    pub free: Vec<CoveredSpan>,
    pub blocked: Vec<CoveredSpan>,
}

/// `rows` and `existing` are in order and without overlaps, and each row starts and ends in a free
/// span. `taken` returns whether an id is in use outside of this livestream.
pub(crate) fn diff_channel(
    livestream: &LivestreamId,
    existing: Vec<Broadcast>,
    mut rows: Vec<NewRow>,
    writable: &WritableSpans,
    taken: impl Fn(&BroadcastId) -> bool,
    skipped: &mut Skipped,
) -> ChannelDiff {
    // The broadcasts of a source with higher priority keep their ids.
    let foreign: HashSet<&BroadcastId> = (existing.iter())
        .filter(|b| writable.blocked.iter().any(|span| span.holds(b.start)))
        .map(|b| &b.id)
        .collect();
    let taken = |id: &BroadcastId| foreign.contains(id) || taken(id);
    drop_bad_ids(&mut rows, taken, skipped);
    let given: HashSet<&BroadcastId> = rows.iter().filter_map(|row| row.id.as_ref()).collect();
    // The span that replaces or cuts a broadcast.
    let replaced_by = |b: &Broadcast| {
        writable
            .free
            .iter()
            .find(|span| span.meets(b.start, b.stop))
    };
    // A stored broadcast with a given id is concerned wherever it lies, since the row may have moved
    // it.
    let concerned = |b: &Broadcast| replaced_by(b).is_some() || given.contains(&b.id);
    let (old, mut list): (Vec<_>, Vec<_>) = existing.into_iter().partition(concerned);

    let of_row = ids::recognise(&old, &rows);
    let mut assigner: IdAssigner<'_> = IdAssigner {
        livestream,
        // Ids of replaced broadcasts stay reserved: clients may still hold them.
        used: (list.iter().chain(&old)).map(|b| b.id.clone()).collect(),
    };
    let mut difference = DiffCounts::default();
    let mut rest: Vec<Option<Broadcast>> = old.into_iter().map(Some).collect();
    for (row, at) in rows.into_iter().zip(of_row) {
        let before = at.and_then(|at| rest.get_mut(at)).and_then(Option::take);
        let Some(broadcast) = assigner.assign(row, before.as_ref()) else {
            continue;
        };
        match before {
            None => difference.added += 1,
            Some(before) if before == broadcast => difference.unchanged += 1,
            Some(_) => difference.changed += 1,
        }
        list.push(broadcast);
    }
    for mut old in rest.into_iter().flatten() {
        // A broadcast that began before a span is cut at its start, like an earlier row of the same guide.
        // One that begins inside is replaced, even if it extends beyond the end.
        match replaced_by(&old).map(|span| span.from) {
            Some(from) if old.start < from => {
                difference.changed += 1;
                old.stop = from;
                list.push(old);
            }
            _ => difference.removed += 1,
        }
    }
    // The kept broadcasts come before the rows in the list, whatever their times.
    list.sort_unstable_by_key(|broadcast| broadcast.start);
    ChannelDiff { list, difference }
}

fn drop_bad_ids(
    rows: &mut Vec<NewRow>,
    taken: impl Fn(&BroadcastId) -> bool,
    skipped: &mut Skipped,
) {
    let mut seen = HashSet::new();
    rows.retain(|row| {
        let kind = match &row.id {
            None => return true,
            // Ids are unique over all livestreams.
            Some(id) if taken(id) => Skip::IdTaken,
            Some(id) if !seen.insert(id.clone()) => Skip::BadId,
            Some(_) => return true,
        };
        let id = row.id.as_ref().map_or("", |id| id.as_str());
        skipped.add(GuideProblem::new(row.line, kind).quoting(id));
        false
    });
}

struct IdAssigner<'a> {
    livestream: &'a LivestreamId,
    used: HashSet<BroadcastId>,
}

impl IdAssigner<'_> {
    fn assign(&mut self, row: NewRow, before: Option<&Broadcast>) -> Option<Broadcast> {
        let id = match (row.id, before) {
            (Some(given), _) => given,
            // Entitlement overrides and players refer to a broadcast by its id, whatever else changes.
            (None, Some(before)) => before.id.clone(),
            (None, None) => ids::derive(
                self.livestream,
                (row.start, &row.metadata.title),
                &self.used,
            )?,
        };
        self.used.insert(id.clone());
        Some(Broadcast {
            id,
            start: row.start,
            stop: row.stop,
            metadata: row.metadata,
        })
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
