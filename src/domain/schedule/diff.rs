//! What a guide changes on one livestream: the difference between what is there and what it says.
//!
//! The span that the guide covers is replaced, less what a source of higher priority has of it;
//! nothing outside is touched, so that the past stays for catch-up.

use std::collections::HashSet;

use super::ids;
use super::import::{Problem, Skip, Skipped};
use super::model::{Broadcast, Metadata};
use super::source_spans::Span;
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

/// A row of a guide, in order, that is to become a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRow {
    /// Where the guide has it.
    pub line: u64,
    /// An id that the source gives it for good.
    pub id: Option<BroadcastId>,
    /// When it starts.
    pub start: UnixSeconds,
    /// When it stops.
    pub stop: UnixSeconds,
    /// What it is.
    pub facts: Metadata,
}

/// How many broadcasts an import touches, by what happens to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// New ones.
    pub added: u64,
    /// Those with other times or facts than before.
    pub changed: u64,
    /// Those that are gone.
    pub removed: u64,
    /// Those that the guide repeats as they were.
    pub unchanged: u64,
}

impl DiffCounts {
    /// Whether nothing changes.
    #[must_use]
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

/// All broadcasts of a livestream after the import, and what that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelDiff {
    /// In order, without overlaps.
    pub list: Vec<Broadcast>,
    /// What happens to them; those outside the span are not counted.
    pub difference: DiffCounts,
}

/// Where on a livestream a guide may change anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WritableSpans {
    /// What is replaced: in order, without overlaps.
    pub free: Vec<Span>,
    /// What other sources have.
    pub blocked: Vec<Span>,
}

/// Compares `rows` (in order, without overlaps, each starting and ending in a free span) with all
/// `existing` broadcasts (likewise) of a livestream. `taken` tells ids that belong to something
/// else than this livestream's broadcasts.
///
/// Decision: an existing broadcast that began before a span and reaches into it is cut where the
/// span begins, as an earlier row of one guide would be; one that begins inside is replaced even
/// where it reaches beyond the end.
pub fn plan(
    livestream: &LivestreamId,
    existing: Vec<Broadcast>,
    mut rows: Vec<NewRow>,
    room: &WritableSpans,
    taken: impl Fn(&BroadcastId) -> bool,
    skipped: &mut Skipped,
) -> ChannelDiff {
    let foreign: HashSet<&BroadcastId> = (existing.iter())
        .filter(|b| room.blocked.iter().any(|span| span.holds(b.start)))
        .map(|b| &b.id)
        .collect();
    let taken = |id: &BroadcastId| foreign.contains(id) || taken(id);
    drop_bad_ids(&mut rows, taken, skipped);
    let given: HashSet<&BroadcastId> = rows.iter().filter_map(|row| row.id.as_ref()).collect();
    // The span that replaces a broadcast, or cuts it off.
    let replaced_by = |b: &Broadcast| room.free.iter().find(|span| span.meets(b.start, b.stop));
    let concerned = |b: &Broadcast| replaced_by(b).is_some() || given.contains(&b.id);
    let (old, mut list): (Vec<_>, Vec<_>) = existing.into_iter().partition(concerned);

    let of_row = ids::recognise(&old, &rows);
    let mut names: IdAssigner<'_> = IdAssigner {
        livestream,
        used: (list.iter().chain(&old)).map(|b| b.id.clone()).collect(),
    };
    let mut difference = DiffCounts::default();
    let mut rest: Vec<Option<Broadcast>> = old.into_iter().map(Some).collect();
    for (row, at) in rows.into_iter().zip(of_row) {
        let before = at.and_then(|at| rest.get_mut(at)).and_then(Option::take);
        let Some(broadcast) = names.name(row, before.as_ref()) else {
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
        match replaced_by(&old).map(|span| span.from) {
            Some(from) if old.start < from => {
                difference.changed += 1;
                old.stop = from;
                list.push(old);
            }
            _ => difference.removed += 1,
        }
    }
    list.sort_unstable_by_key(|broadcast| broadcast.start);
    ChannelDiff { list, difference }
}

/// Skips rows whose given id belongs to something else or to an earlier row.
fn drop_bad_ids(
    rows: &mut Vec<NewRow>,
    taken: impl Fn(&BroadcastId) -> bool,
    skipped: &mut Skipped,
) {
    let mut seen = HashSet::new();
    rows.retain(|row| {
        let kind = match &row.id {
            None => return true,
            Some(id) if taken(id) => Skip::IdTaken,
            Some(id) if !seen.insert(id.clone()) => Skip::BadId,
            Some(_) => return true,
        };
        skipped.add(Problem {
            line: row.line,
            kind,
        });
        false
    });
}

/// Gives rows their ids.
struct IdAssigner<'a> {
    livestream: &'a LivestreamId,
    used: HashSet<BroadcastId>,
}

impl IdAssigner<'_> {
    fn name(&mut self, row: NewRow, before: Option<&Broadcast>) -> Option<Broadcast> {
        let id = match (row.id, before) {
            (Some(given), _) => given,
            (None, Some(before)) => before.id.clone(),
            (None, None) => ids::derive(self.livestream, row.start, &self.used)?,
        };
        self.used.insert(id.clone());
        Some(Broadcast {
            id,
            start: row.start,
            stop: row.stop,
            facts: row.facts,
        })
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
