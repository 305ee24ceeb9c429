//! An immutable snapshot of the whole schedule: all served livestreams, and an index of broadcasts by id.

use std::collections::HashMap;
use std::sync::Arc;

use super::channel::{Channel, hash};
use playgate_types::LivestreamId;

/// A change publishes a new snapshot.
#[derive(Default)]
pub struct ScheduleSnapshot {
    channels: HashMap<LivestreamId, Arc<Channel>>,
    ids: Ids,
    unrated: usize,
}

impl ScheduleSnapshot {
    pub fn new(channels: impl IntoIterator<Item = Arc<Channel>>) -> Self {
        let channels: HashMap<_, _> = channels
            .into_iter()
            .map(|channel| (channel.livestream.clone(), channel))
            .collect();
        let ids = Ids::of(channels.values().cloned().collect());
        let entries = channels.values().flat_map(|channel| &channel.entries);
        let unrated = entries.filter(|entry| entry.pg_age.is_none()).count();
        Self {
            channels,
            ids,
            unrated,
        }
    }

    pub fn channel(&self, livestream: &str) -> Option<&Arc<Channel>> {
        self.channels.get(livestream)
    }

    pub fn channels(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.channels.values()
    }

    pub fn livestreams(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(LivestreamId::as_str)
    }

    pub fn broadcast(&self, id: &str) -> Option<(&Arc<Channel>, usize)> {
        self.ids.find(id)
    }

    pub fn broadcasts(&self) -> usize {
        self.ids.places.len()
    }

    pub const fn unrated(&self) -> usize {
        self.unrated
    }

    /// Returns the bytes in memory, and the part of them that is JSON.
    pub fn memory(&self) -> (usize, usize) {
        let channels = self.channels.values().map(|c| c.memory()).sum::<usize>();
        let json = self.channels.values().map(|c| c.json_length()).sum();
        (channels + self.ids.memory(), json)
    }
}

/// Positions sorted by hash of the id, and for each hash prefix the first position. This takes 16 bytes a broadcast; a map
/// of strings would take 90.
#[derive(Default)]
struct Ids {
    channels: Vec<Arc<Channel>>,
    places: Vec<BroadcastPosition>,
    buckets: Vec<u32>,
    shift: u32,
}

#[derive(Clone, Copy)]
struct BroadcastPosition {
    hash: u64,
    channel: u32,
    index: u32,
}

impl Ids {
    fn of(channels: Vec<Arc<Channel>>) -> Self {
        let mut places = Vec::with_capacity(channels.iter().map(|c| c.entries.len()).sum());
        for (channel, number) in channels.iter().zip(0..) {
            for (entry, index) in channel.entries.iter().zip(0..) {
                places.push(BroadcastPosition {
                    hash: entry.id_hash,
                    channel: number,
                    index,
                });
            }
        }
        places.sort_unstable_by_key(|place| place.hash);
        // About one position in each bucket. At least one bit: a shift by 64 would overflow.
        let bits = (usize::BITS - places.len().leading_zeros()).clamp(1, 30);
        let shift = u64::BITS - bits;
        // One bound more than buckets: each bucket ends where the next begins.
        let buckets = (0..=1_u64 << bits)
            .map(|bucket| {
                let before = places.partition_point(|place| place.hash >> shift < bucket);
                u32::try_from(before).unwrap_or(u32::MAX)
            })
            .collect();
        Self {
            channels,
            places,
            buckets,
            shift,
        }
    }

    fn find(&self, id: &str) -> Option<(&Arc<Channel>, usize)> {
        let hash = hash(id.as_bytes());
        let bucket = usize::try_from(hash.checked_shr(self.shift)?).ok()?;
        let bound = |at: usize| {
            let place = self.buckets.get(at).copied();
            place.and_then(|place| usize::try_from(place).ok())
        };
        let places = self.places.get(bound(bucket)?..bound(bucket + 1)?)?;
        places
            .iter()
            // Different ids may have the same hash, so the id in the JSON decides.
            .filter(|place| place.hash == hash)
            .find_map(|place| {
                let channel = self.channels.get(usize::try_from(place.channel).ok()?)?;
                let index = usize::try_from(place.index).ok()?;
                (channel.id(index) == id).then_some((channel, index))
            })
    }

    fn memory(&self) -> usize {
        self.places.len() * size_of::<BroadcastPosition>() + self.buckets.len() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::channel_builder::Builder;
    use crate::schedule::json_arena::JsonArena;
    use crate::schedule::model::{Broadcast, Metadata};
    use crate::schedule::rights::BroadcastRights;
    use playgate_types::{BroadcastId, UnixSeconds};

    #[test]
    fn every_broadcast_is_found_by_its_id_and_no_other() {
        for count in [0, 1, 2, 3, 100, 1_000] {
            let channels = (0..3).map(|channel| {
                let livestream = LivestreamId::parse(&format!("tv{channel}")).unwrap();
                let mut arena = JsonArena::default();
                let mut builder = Builder::new(livestream, playgate_types::Zone::utc(), &mut arena);
                for number in 0..count {
                    let broadcast = Broadcast {
                        id: BroadcastId::parse(&format!("\"{channel}\"-{number}")).unwrap(),
                        start: UnixSeconds(number.try_into().unwrap()),
                        stop: UnixSeconds(i64::MAX),
                        metadata: Metadata::default(),
                    };
                    builder.push(&broadcast, &BroadcastRights::default());
                }
                Arc::new(builder.finish())
            });
            let snapshot = ScheduleSnapshot::new(channels);
            assert_eq!(snapshot.broadcasts(), count * 3);
            for channel in 0..3 {
                for number in 0..count {
                    let id = format!("\"{channel}\"-{number}");
                    let (found, index) = snapshot.broadcast(&id).unwrap();
                    assert_eq!(found.livestream.as_str(), format!("tv{channel}"));
                    assert_eq!(index, number);
                }
            }
            for id in ["", "x", "\"3\"-0", "\"0\"-1000000"] {
                assert!(snapshot.broadcast(id).is_none());
            }
        }
    }
}
