//! Records which channels the last accepted guide of each source contained, to report new channels once.
//!
//! A channel is new if the source's last accepted guide did not contain it; with a source's first guide, all
//! channels are new. Channels are identified by the livestream id that they map to, whether that livestream exists
//! or not.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::import::CHANNELS_MAX;
use playgate_store::{Durability, Record, Store, StoreError, Table};
use playgate_types::LivestreamId;

const BATCH: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownChannels;

impl Record for KnownChannels {}

/// Known channels by source; the name is empty for imports without a source.
pub(super) struct SeenChannels;

impl Table for SeenChannels {
    const NAME: &'static str = "schedule_seen";
    type Key = (String, LivestreamId);
    type Record = KnownChannels;
}

pub(super) fn last(store: &Store, source: &str) -> BTreeSet<LivestreamId> {
    let prefix = source.to_owned();
    match store.read(|txn| txn.scan::<SeenChannels>(&prefix, CHANNELS_MAX)) {
        Ok(all) => all.into_iter().map(|((_, channel), _)| channel).collect(),
        // All channels then count as new, which does not justify failing the import.
        Err(error) => {
            tracing::warn!(source, %error, "failed to read the channels of the last guide; all channels will count as new");
            BTreeSet::new()
        }
    }
}

pub(super) fn record(
    store: &Store,
    source: &str,
    before: &BTreeSet<LivestreamId>,
    now: &BTreeSet<LivestreamId>,
) -> Result<(), StoreError> {
    // Removals first, so that the table never exceeds the limit of one guide.
    let changed: Vec<_> = (before.difference(now).map(|id| (id, None)))
        .chain(now.difference(before).map(|id| (id, Some(KnownChannels))))
        .map(|(id, seen)| ((source.to_owned(), id.clone()), seen))
        .collect();
    for batch in changed.chunks(BATCH) {
        let batch = batch.to_vec();
        store
            // Lost at a power cut, the channels are reported as new once more.
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
