//! Overrides whose broadcast an import removed: rights that an operator has set, and that apply to nothing any more.
//!
//! A blackout that vanishes shows a match to the whole country, so that it must not do so without a word. The record
//! stays until the broadcast is back, the override is removed, or its time is over.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::model::Broadcast;
use playgate_store::{Durability, MemoryTable, Record, Store, StoreError, Table};
use playgate_types::time::DAY;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds};

/// An operator sets some hundreds of overrides. More are not named.
const LOST_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostOverride {
    pub livestream: LivestreamId,
    pub title: Box<str>,
    pub start: UnixSeconds,
}

impl Record for LostOverride {}

pub(crate) struct LostOverrides;

impl Table for LostOverrides {
    const NAME: &'static str = "schedule_lost_overrides";
    type Key = BroadcastId;
    type Record = LostOverride;
}

/// The broadcasts that are in `old` and not in `new`, and have an override.
pub(super) fn lost(
    livestream: &LivestreamId,
    (old, new): (&[Broadcast], &[Broadcast]),
    has_override: impl Fn(&BroadcastId) -> bool,
) -> Vec<(BroadcastId, LostOverride)> {
    let mut lost: Vec<_> = old.iter().filter(|old| has_override(&old.id)).collect();
    if !lost.is_empty() {
        let kept: HashSet<&BroadcastId> = new.iter().map(|new| &new.id).collect();
        lost.retain(|old| !kept.contains(&old.id));
    }
    let named = lost.into_iter().map(|old| {
        let record = LostOverride {
            livestream: livestream.clone(),
            title: old.metadata.title.clone(),
            start: old.start,
        };
        (old.id.clone(), record)
    });
    named.collect()
}

pub(super) fn record(
    store: &Store,
    known: &MemoryTable<LostOverrides>,
    lost: Vec<(BroadcastId, LostOverride)>,
) -> Result<(), StoreError> {
    let room = LOST_MAX.saturating_sub(known.len());
    let lost: Vec<_> = lost.into_iter().take(room).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let put = store.write(Durability::Logged, move |txn| {
        lost.iter()
            .try_for_each(|(id, lost)| txn.put::<LostOverrides>(id, lost))
    });
    put.wait()
}

/// Forgets records that say nothing any more.
pub(super) fn sweep(
    store: &Store,
    known: &MemoryTable<LostOverrides>,
    now: UnixSeconds,
    is_still_lost: impl Fn(&BroadcastId) -> bool,
) -> Result<usize, StoreError> {
    let mut over = Vec::new();
    known.for_each(|id, lost| {
        if lost.start + DAY < now || !is_still_lost(id) {
            over.push(id.clone());
        }
    });
    let count = over.len();
    if count > 0 {
        let delete = store.write(Durability::Logged, move |txn| {
            over.iter()
                .try_for_each(|id| txn.delete::<LostOverrides>(id))
        });
        delete.wait()?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards the format on disk: a change needs a new version of the record.
    #[test]
    fn record_bytes_are_stable() {
        let lost = LostOverride {
            livestream: LivestreamId::parse("a").unwrap(),
            title: "T".into(),
            start: UnixSeconds(10),
        };
        let bytes = bincode::serde::encode_to_vec(&lost, bincode::config::standard()).unwrap();
        assert_eq!(data_encoding::HEXLOWER.encode(&bytes), "0161015414");
    }
}
