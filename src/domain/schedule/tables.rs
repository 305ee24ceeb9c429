//! How the schedule lies in the store.
//!
//! A record per broadcast would be hundreds of thousands of puts for a usual guide. Broadcasts are
//! kept in chunks by livestream, UTC day of their start, and generation. An import writes the days
//! that it changes under a new generation, then one commit makes that generation the newest that
//! counts, then the old ones go. Of each day the newest generation that counts holds; whatever is
//! newer than the head was left behind by an import that did not end.
//!
//! The primary key is the index by livestream, [`ByDay`] the one by day: retention takes the days
//! that are over from it. Its days are of UTC. Broadcasts by id and by tv day are found in memory,
//! where all of them are: tv days depend on a livestream's zone and on where the day begins, and
//! computed in memory they leave nothing to rebuild here when either changes.

use serde::{Deserialize, Serialize};

use super::known_channels::SeenChannels;
use super::model::Broadcast;
use super::source_spans::AllSourceSpans;
use crate::store::{Entries, Index, Record, Schema, Table, TreeName};
use crate::types::LivestreamId;

/// How large a chunk may become, in bytes; one broadcast is never larger.
pub const CHUNK_MAX: usize = 12 * 1024;

/// Livestream, UTC day, generation, number within the day.
pub type ChunkKey = (LivestreamId, i64, u64, u32);

/// Some of a day's broadcasts, in order. A day that lost all of its own has one empty chunk until
/// the older generation is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// In order of start.
    pub broadcasts: Vec<Broadcast>,
}

impl Record for Chunk {}

/// The broadcasts.
pub struct Chunks;

impl Table for Chunks {
    const NAME: &'static str = "schedule_chunks";
    type Key = ChunkKey;
    type Record = Chunk;

    const INDEXES: &'static [TreeName] = &[ByDay::NAME];

    fn index(key: &Self::Key, _: &Self::Record, entries: &mut Entries) {
        let (livestream, day, _, _) = key;
        entries.add::<ByDay>(&(*day, livestream.clone()), key);
    }
}

/// The chunks by UTC day, then livestream; it follows from the key alone.
pub struct ByDay;

impl Index for ByDay {
    const NAME: TreeName = "schedule_by_day";
    type Table = Chunks;
    type Key = (i64, LivestreamId);
}

/// Which generations count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The newest one that counts.
    pub generation: u64,
}

impl Record for Head {}

/// One record under the key 0.
pub struct Heads;

impl Table for Heads {
    const NAME: &'static str = "schedule_head";
    type Key = u8;
    type Record = Head;
}

/// Adds the schedule's tables to a store's.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    let schema = schema.with::<Chunks>().with::<Heads>();
    schema.with::<AllSourceSpans>().with::<SeenChannels>()
}

/// Cuts the broadcasts of one day into chunks; none make one empty chunk.
#[must_use]
pub fn chunks(day: &[Broadcast]) -> Vec<Chunk> {
    let size = |broadcast: &Broadcast| {
        let mut counter = bincode::enc::write::SizeWriter::default();
        let counted = bincode::serde::encode_into_writer(
            broadcast,
            &mut counter,
            bincode::config::standard(),
        );
        // What cannot be encoded is alone in its chunk, where the store will refuse it.
        counted.map_or(CHUNK_MAX, |()| counter.bytes_written)
    };
    let mut chunks = vec![Chunk {
        broadcasts: Vec::new(),
    }];
    // The count in front of the list.
    let mut filled = 5;
    for broadcast in day {
        let more = size(broadcast);
        if filled + more > CHUNK_MAX && filled > 5 {
            chunks.push(Chunk {
                broadcasts: Vec::new(),
            });
            filled = 5;
        }
        filled += more;
        if let Some(chunk) = chunks.last_mut() {
            chunk.broadcasts.push(broadcast.clone());
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::model::{DESCRIPTION_MAX, Image, Metadata};
    use crate::types::{BroadcastId, UnixSeconds};

    fn broadcast(number: i64, description: usize) -> Broadcast {
        Broadcast {
            id: BroadcastId::parse(&format!("b{number}")).unwrap(),
            start: UnixSeconds(number * 60),
            stop: UnixSeconds(number * 60 + 60),
            facts: Metadata {
                title: "T".into(),
                description: Some("d".repeat(description).into()),
                ..Metadata::default()
            },
        }
    }

    #[test]
    fn chunks_keep_order_and_size() {
        assert_eq!(chunks(&[]).len(), 1);
        let day: Vec<_> = (0..200)
            .map(|n| broadcast(n, usize::try_from(n * 37).unwrap() % DESCRIPTION_MAX))
            .collect();
        let cut = chunks(&day);
        assert!(cut.len() > 1);
        for chunk in &cut {
            let bytes = bincode::serde::encode_to_vec(chunk, bincode::config::standard()).unwrap();
            assert!(bytes.len() <= CHUNK_MAX, "{}", bytes.len());
            assert!(!chunk.broadcasts.is_empty());
        }
        let joined: Vec<_> = cut.into_iter().flat_map(|chunk| chunk.broadcasts).collect();
        assert_eq!(joined, day);
    }

    /// The bytes on disk: what changes them needs a new version of the record.
    #[test]
    fn the_record_is_golden() {
        let mut broadcast = broadcast(1, 1);
        broadcast.facts.images.push(Image {
            kind: "square".into(),
            default: true,
            filename: "f".into(),
            embedded_text: false,
        });
        broadcast.facts.categories.push("c".into());
        broadcast.facts.pg_age = Some(12);
        broadcast.facts.rating = Some("FSK:12".into());
        let chunk = Chunk {
            broadcasts: vec![broadcast],
        };
        let bytes = bincode::serde::encode_to_vec(&chunk, bincode::config::standard()).unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes),
            "01026231 78f0 0154 010164 01 06737175617265 01 0166 00 010163 010c 010646534b3a3132"
                .replace(' ', "")
        );
        let head = Head { generation: 7 };
        let bytes = bincode::serde::encode_to_vec(head, bincode::config::standard()).unwrap();
        assert_eq!(bytes, [7]);
    }
}
