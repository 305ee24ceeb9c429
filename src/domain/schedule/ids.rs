//! Keeps broadcast ids stable: a row gets the id of the stored broadcast that it matches.

use std::collections::{HashMap, HashSet};

use data_encoding::BASE32_NOPAD;
use ring::digest::{SHA256, digest};

use super::diff::NewRow;
use super::model::Broadcast;
use crate::types::{BroadcastId, LivestreamId, UnixSeconds};

/// Maximum shift, in seconds, at which a programme is still matched by title and length.
pub(crate) const MOVE_MAX: i64 = 1_800;

/// The index of the matching stored broadcast for each row. Each stored broadcast matches once.
#[must_use]
pub(crate) fn recognise(existing: &[Broadcast], rows: &[NewRow]) -> Vec<Option<usize>> {
    // The order of the rules lets a programme that moved be matched before the one that replaced it in
    // its old slot.
    let mut found = Matches {
        of_row: vec![None; rows.len()],
        used: vec![false; existing.len()],
    };
    let by_id: HashMap<&str, usize> = (existing.iter().enumerate())
        .map(|(at, broadcast)| (broadcast.id.as_str(), at))
        .collect();
    let given = |row: &NewRow| row.id.as_ref().and_then(|id| by_id.get(id.as_str()));
    // First the id that the source gives.
    found.pass(rows, |row| given(row).copied());

    let at_start = |row: &NewRow| existing.binary_search_by_key(&row.start, |b| b.start).ok();
    let same_title = |row: &NewRow, at: usize| {
        existing
            .get(at)
            .is_some_and(|b| b.metadata.title == row.metadata.title)
    };
    // Then the same start and title.
    found.pass(rows, |row| {
        let at = at_start(row).filter(|at| same_title(row, *at));
        at.filter(|_| row.id.is_none())
    });
    // Then the same title and length within 30 minutes, nearest first.
    for (distance, row, at) in moves(existing, rows, &found) {
        debug_assert!(distance <= MOVE_MAX);
        found.join(row, at);
    }
    // Then the same start.
    found.pass(rows, |row| at_start(row).filter(|_| row.id.is_none()));
    found.of_row
}

fn moves(existing: &[Broadcast], rows: &[NewRow], found: &Matches) -> Vec<(i64, usize, usize)> {
    let mut pairs = Vec::new();
    for (at_row, row) in rows.iter().enumerate() {
        if row.id.is_some() || found.of_row.get(at_row).is_none_or(Option::is_some) {
            continue;
        }
        // Sorted by start, so only a window has to be compared.
        let first = existing.partition_point(|b| b.start < row.start - MOVE_MAX);
        for (at, broadcast) in existing.iter().enumerate().skip(first) {
            let distance = broadcast.start.since(row.start).abs();
            if distance > MOVE_MAX {
                break;
            }
            let same_length = broadcast.stop.since(broadcast.start) == row.stop.since(row.start);
            if same_length && broadcast.metadata.title == row.metadata.title {
                pairs.push((distance, at_row, at));
            }
        }
    }
    // Nearest first; rows and broadcasts in their order break ties.
    pairs.sort_unstable();
    pairs
}

struct Matches {
    of_row: Vec<Option<usize>>,
    used: Vec<bool>,
}

impl Matches {
    fn pass(&mut self, rows: &[NewRow], rule: impl Fn(&NewRow) -> Option<usize>) {
        for (at_row, row) in rows.iter().enumerate() {
            if let Some(at) = rule(row) {
                self.join(at_row, at);
            }
        }
    }

    fn join(&mut self, row: usize, at: usize) {
        if let (Some(slot @ None), Some(used @ false)) =
            (self.of_row.get_mut(row), self.used.get_mut(at))
        {
            *slot = Some(at);
            *used = true;
        }
    }
}

#[must_use]
pub(crate) fn derive(
    livestream: &LivestreamId,
    start: UnixSeconds,
    used: &HashSet<BroadcastId>,
) -> Option<BroadcastId> {
    // A hash and not a random number, so that two servers that import the same guide agree.
    (0..=u32::MAX).find_map(|salt| {
        let mut input = livestream.as_str().as_bytes().to_vec();
        // Unambiguous: the separator cannot occur in an id.
        input.push(b'/');
        input.extend_from_slice(&start.0.to_be_bytes());
        input.extend_from_slice(&salt.to_be_bytes());
        let hash = digest(&SHA256, &input);
        let bits = hash.as_ref().get(..10).unwrap_or_default();
        // The prefix distinguishes it from the ids of the catalogue.
        let text = format!("bc-{}", BASE32_NOPAD.encode(bits).to_ascii_lowercase());
        BroadcastId::parse(&text)
            .ok()
            .filter(|id| !used.contains(id))
    })
}
