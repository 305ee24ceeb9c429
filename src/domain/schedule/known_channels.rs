//! Which channels the last guide of each source had, so that a new one is told once.
//!
//! Decision: a channel is new to a source whose last guide that was taken had it not; to a source's
//! first guide all are. By the livestream ids that the channels are mapped to, mapped or not.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::import::CHANNELS_MAX;
use crate::store::{Durability, Record, Store, StoreError, Table};
use crate::types::LivestreamId;

/// How many channels one plan notes.
const BATCH: usize = 1_000;

/// That a channel was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownChannels;

impl Record for KnownChannels {}

/// The channels by source; the source of who names none is empty.
pub struct SeenChannels;

impl Table for SeenChannels {
    const NAME: &'static str = "schedule_seen";
    type Key = (String, LivestreamId);
    type Record = KnownChannels;
}

/// The channels of the last guide of a source. Where they cannot be read all are new once more,
/// which is no reason to leave a guide.
pub(super) fn last(store: &Store, source: &str) -> BTreeSet<LivestreamId> {
    let prefix = source.to_owned();
    match store.read(|txn| txn.scan::<SeenChannels>(&prefix, CHANNELS_MAX)) {
        Ok(all) => all.into_iter().map(|((_, channel), _)| channel).collect(),
        Err(error) => {
            tracing::warn!(source, %error, "the channels of the last guide cannot be read");
            BTreeSet::new()
        }
    }
}

/// Notes those of its new one, which is served already.
pub(super) fn record(
    store: &Store,
    source: &str,
    before: &BTreeSet<LivestreamId>,
    now: &BTreeSet<LivestreamId>,
) -> Result<(), StoreError> {
    // Those that went first: there is never more than a guide may have.
    let changed: Vec<_> = (before.difference(now).map(|id| (id, None)))
        .chain(now.difference(before).map(|id| (id, Some(KnownChannels))))
        .map(|(id, seen)| ((source.to_owned(), id.clone()), seen))
        .collect();
    for batch in changed.chunks(BATCH) {
        let batch = batch.to_vec();
        store
            .write(Durability::Logged, move |txn| {
                batch.iter().try_for_each(|(key, seen)| match seen {
                    Some(seen) => txn.put::<SeenChannels>(key, seen),
                    None => txn.delete::<SeenChannels>(key),
                })
            })
            .wait()?;
    }
    Ok(())
}
