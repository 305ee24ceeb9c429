//! What an import would change, so that a person can judge it before it is done.

use std::collections::HashMap;

use chrono_tz::Tz;

use super::diff::DiffCounts;
use super::model::Broadcast;
use crate::types::{LivestreamId, UnixSeconds};

/// How many changes of one livestream are shown.
const OF_LIVESTREAM: usize = 10;
/// How many changes are shown in all.
const IN_ALL: usize = 200;
/// How many livestreams are shown.
const LIVESTREAMS: usize = 500;

/// What would change on a livestream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivestreamEdits {
    /// The livestream.
    pub livestream: LivestreamId,
    /// The zone that its times are shown in.
    pub zone: Tz,
    /// How much of each kind.
    pub difference: DiffCounts,
    /// The first changes, in order of time.
    pub edits: Vec<Edit>,
}

/// A broadcast before and after: one that is new has no before, one that goes no after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// As it is.
    pub before: Option<BroadcastSummary>,
    /// As it would be.
    pub after: Option<BroadcastSummary>,
}

/// What is shown of a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroadcastSummary {
    /// When it starts.
    pub start: UnixSeconds,
    /// When it stops.
    pub stop: UnixSeconds,
    /// Its title.
    pub title: Box<str>,
}

impl From<&Broadcast> for BroadcastSummary {
    fn from(broadcast: &Broadcast) -> Self {
        Self {
            start: broadcast.start,
            stop: broadcast.stop,
            title: broadcast.facts.title.clone(),
        }
    }
}

/// Collects what would change, up to what a person reads.
#[derive(Default)]
pub(super) struct Edits {
    pub(super) livestreams: Vec<LivestreamEdits>,
    shown: usize,
}

impl Edits {
    /// Adds a livestream: its broadcasts before and after, each in order.
    pub(super) fn add(
        &mut self,
        livestream: &LivestreamId,
        zone: Tz,
        difference: DiffCounts,
        (old, new): (&[Broadcast], &[Broadcast]),
    ) {
        if difference.is_none() || self.livestreams.len() >= LIVESTREAMS {
            return;
        }
        let room = OF_LIVESTREAM.min(IN_ALL - self.shown);
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

/// The first changes between two lists.
fn first_edits(old: &[Broadcast], new: &[Broadcast], most: usize) -> Vec<Edit> {
    if most == 0 {
        return Vec::new();
    }
    let by_id = |list: &[Broadcast]| -> HashMap<_, usize> {
        let ids = list.iter().map(|b| b.id.clone());
        ids.zip(0..).collect()
    };
    let (olds, news) = (by_id(old), by_id(new));
    let gone = old.iter().filter(|b| !news.contains_key(&b.id));
    let mut edits: Vec<(UnixSeconds, Edit)> = gone
        .map(|before| {
            let edit = Edit {
                before: Some(before.into()),
                after: None,
            };
            (before.start, edit)
        })
        .collect();
    for after in new {
        let before = olds.get(&after.id).and_then(|at| old.get(*at));
        if before != Some(after) {
            let edit = Edit {
                before: before.map(BroadcastSummary::from),
                after: Some(after.into()),
            };
            edits.push((after.start, edit));
        }
    }
    edits.sort_by_key(|(at, _)| *at);
    edits.truncate(most);
    edits.into_iter().map(|(_, edit)| edit).collect()
}
