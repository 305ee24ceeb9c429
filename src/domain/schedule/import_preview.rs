//! Lists what an import would change, so that an operator can review it first.

use std::collections::HashMap;

use super::diff::DiffCounts;
use super::model::Broadcast;
use playgate_types::{LivestreamId, UnixSeconds, Zone};

/// Maximum listed changes of one livestream.
const OF_LIVESTREAM: usize = 10;
/// Maximum listed changes of all livestreams together.
const CHANGES_MAX: usize = 200;
const LIVESTREAMS_MAX: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivestreamEdits {
    pub livestream: LivestreamId,
    pub zone: Zone,
    pub difference: DiffCounts,
    pub edits: Vec<BroadcastChange>,
}

/// New broadcasts have no `before`, removed ones no `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastChange {
    pub before: Option<BroadcastSummary>,
    pub after: Option<BroadcastSummary>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastSummary {
    pub start: UnixSeconds,
    pub stop: UnixSeconds,
    pub title: Box<str>,
}

impl From<&Broadcast> for BroadcastSummary {
    fn from(broadcast: &Broadcast) -> Self {
        Self {
            start: broadcast.start,
            stop: broadcast.stop,
            title: broadcast.metadata.title.clone(),
        }
    }
}

#[derive(Default)]
pub(super) struct Edits {
    pub(super) livestreams: Vec<LivestreamEdits>,
    shown: usize,
}

impl Edits {
    pub(super) fn add(
        &mut self,
        livestream: &LivestreamId,
        zone: Zone,
        difference: DiffCounts,
        (old, new): (&[Broadcast], &[Broadcast]),
    ) {
        // The counts in the report are complete; only the list is limited.
        if difference.is_none() || self.livestreams.len() >= LIVESTREAMS_MAX {
            return;
        }
        let room = OF_LIVESTREAM.min(CHANGES_MAX - self.shown);
        let edits = first_edits(old, new, room);
        self.shown += edits.len();
        self.livestreams.push(LivestreamEdits {
            livestream: livestream.clone(),
            zone,
            difference,
            edits,
        });
    }
}

fn first_edits(old: &[Broadcast], new: &[Broadcast], most: usize) -> Vec<BroadcastChange> {
    if most == 0 {
        return Vec::new();
    }
    // Broadcasts are compared by id, so a moved one is one change.
    let by_id = |list: &[Broadcast]| -> HashMap<_, usize> {
        let ids = list.iter().map(|b| b.id.clone());
        ids.zip(0..).collect()
    };
    let (olds, news) = (by_id(old), by_id(new));
    let gone = old.iter().filter(|b| !news.contains_key(&b.id));
    let mut edits: Vec<(UnixSeconds, BroadcastChange)> = gone
        .map(|before| {
            let edit = BroadcastChange {
                before: Some(before.into()),
                after: None,
            };
            (before.start, edit)
        })
        .collect();
    for after in new {
        let before = olds.get(&after.id).and_then(|at| old.get(*at));
        if before != Some(after) {
            let edit = BroadcastChange {
                before: before.map(BroadcastSummary::from),
                after: Some(after.into()),
            };
            edits.push((after.start, edit));
        }
    }
    // Removed and new broadcasts are merged in order of time.
    edits.sort_by_key(|(at, _)| *at);
    edits.truncate(most);
    edits.into_iter().map(|(_, edit)| edit).collect()
}
