//! Store tables of the schedule.
//!
//! Broadcasts are stored in chunks, since one record per broadcast would mean hundreds of thousands of writes for a
//! usual guide. The key of a chunk is livestream, UTC day of the start, and generation. An import writes the
//! changed days under a new generation; one commit then moves the head to this generation; the old chunks are
//! deleted last. For each day the newest generation up to the head is valid. Chunks of a newer generation are from
//! an import that failed.
//!
//! [`ByDay`] indexes the chunks by UTC day, for retention. There is no stored index by broadcast id or TV day: all
//! broadcasts are in memory, and TV days depend on settings that may change.

use serde::{Deserialize, Serialize};

use super::known_channels::SeenChannels;
use super::lost_overrides::LostOverrides;
use super::model::Broadcast;
use super::source_spans::AllSourceSpans;
use playgate_store::{Entries, Index, Record, Schema, Table, TreeName, read_record};
use playgate_types::LivestreamId;

/// Bytes. One broadcast without details never exceeds it; one with many has a chunk of its own.
pub const CHUNK_MAX: usize = 12 * 1024;

pub type ChunkKey = (LivestreamId, i64, u64, u32);

/// A day that lost all broadcasts has one empty chunk until the older generation is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub broadcasts: Vec<Broadcast>,
}

impl Record for Chunk {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record::<old::Chunk<old::Metadata1>>(bytes).map(Self::from),
            2 => read_record::<old::Chunk<old::Metadata2>>(bytes).map(Self::from),
            _ => None,
        }
    }
}

/// Earlier versions: in version 2 broadcasts have no details, in version 1 no subtitle, season and episode either.
mod old {
    use serde::Deserialize;

    use crate::schedule::model::{self, Image};
    use playgate_types::{BroadcastId, UnixSeconds};

    #[derive(Deserialize)]
    pub(super) struct Chunk<M> {
        broadcasts: Vec<Broadcast<M>>,
    }

    #[derive(Deserialize)]
    struct Broadcast<M> {
        id: BroadcastId,
        start: UnixSeconds,
        stop: UnixSeconds,
        metadata: M,
    }

    #[derive(Deserialize)]
    pub(super) struct Metadata1 {
        title: Box<str>,
        description: Option<Box<str>>,
        images: Vec<Image>,
        categories: Vec<Box<str>>,
        pg_age: Option<u8>,
        rating: Option<Box<str>>,
    }

    #[derive(Deserialize)]
    pub(super) struct Metadata2 {
        first: Metadata1,
        subtitle: Option<Box<str>>,
        season: Option<u16>,
        episode: Option<u16>,
    }

    impl From<Metadata1> for model::Metadata {
        fn from(old: Metadata1) -> Self {
            Self {
                title: old.title,
                description: old.description,
                images: old.images,
                categories: old.categories,
                pg_age: old.pg_age,
                rating: old.rating,
                ..Self::default()
            }
        }
    }

    impl From<Metadata2> for model::Metadata {
        fn from(old: Metadata2) -> Self {
            Self {
                subtitle: old.subtitle,
                season: old.season,
                episode: old.episode,
                ..old.first.into()
            }
        }
    }

    impl<M: Into<model::Metadata>> From<Chunk<M>> for super::Chunk {
        fn from(old: Chunk<M>) -> Self {
            let broadcasts = old.broadcasts.into_iter().map(|old| model::Broadcast {
                id: old.id,
                start: old.start,
                stop: old.stop,
                metadata: old.metadata.into(),
            });
            Self {
                broadcasts: broadcasts.collect(),
            }
        }
    }
}

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

pub struct ByDay;

impl Index for ByDay {
    const NAME: TreeName = "schedule_by_day";
    type Table = Chunks;
    type Key = (i64, LivestreamId);
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleHead {
    pub generation: u64,
}

impl Record for ScheduleHead {}

pub struct Heads;

impl Table for Heads {
    const NAME: &'static str = "schedule_head";
    type Key = u8;
    type Record = ScheduleHead;
}

pub fn schema(schema: Schema) -> Schema {
    let schema = schema.with::<Chunks>().with::<Heads>();
    let schema = schema.with::<AllSourceSpans>().with::<SeenChannels>();
    schema.with::<LostOverrides>()
}

/// An empty day gives one empty chunk.
pub fn chunks(day: &[Broadcast]) -> Vec<Chunk> {
    let size = |broadcast: &Broadcast| {
        let mut counter = bincode::enc::write::SizeWriter::default();
        let counted = bincode::serde::encode_into_writer(
            broadcast,
            &mut counter,
            bincode::config::standard(),
        );
        // A broadcast that cannot be encoded gets its own chunk; the store then rejects it.
        counted.map_or(CHUNK_MAX, |()| counter.bytes_written)
    };
    let mut chunks = vec![Chunk {
        broadcasts: Vec::new(),
    }];
    // Reserve the length prefix of the list.
    let mut filled = 5;
    for broadcast in day {
        let more = size(broadcast);
        // A chunk has at least one broadcast, so this ends.
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
    use crate::schedule::details::{
        Credit, CreditKind, Details, ImagePurpose, PreviousShowing, TypedImage,
    };
    use crate::schedule::model::{Image, Metadata};
    use crate::schedule::text_limits::DESCRIPTION_MAX;
    use playgate_types::{BroadcastId, UnixSeconds};

    fn broadcast(number: i64, description: usize) -> Broadcast {
        Broadcast {
            id: BroadcastId::parse(&format!("b{number}")).unwrap(),
            start: UnixSeconds(number * 60),
            stop: UnixSeconds(number * 60 + 60),
            metadata: Metadata {
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
            assert_eq!(read_record::<Chunk>(&bytes).as_ref(), Some(chunk));
        }
        let joined: Vec<_> = cut.into_iter().flat_map(|chunk| chunk.broadcasts).collect();
        assert_eq!(joined, day);
    }

    #[test]
    fn full_chunk_of_short_broadcasts_is_read_back() {
        let day: Vec<_> = (0..400).map(|n| broadcast(n, 60)).collect();
        for chunk in chunks(&day) {
            let bytes = playgate_store::encode_note(&chunk).unwrap();
            assert_eq!(playgate_store::decode_note(&bytes), Some(chunk));
        }
    }

    /// Guards the format on disk: a change needs a new version of the record.
    #[test]
    fn record_bytes_are_stable() {
        let mut broadcast = broadcast(1, 1);
        broadcast.metadata.images.push(Image {
            kind: "square".into(),
            default: true,
            filename: "f".into(),
            embedded_text: false,
        });
        broadcast.metadata.categories.push("c".into());
        broadcast.metadata.pg_age = Some(12);
        broadcast.metadata.rating = Some("FSK:12".into());
        let old =
            "01026231 78f0 0154 010164 01 06737175617265 01 0166 00 010163 010c 010646534b3a3132"
                .replace(' ', "");
        let bytes = data_encoding::HEXLOWER.decode(old.as_bytes()).unwrap();
        let chunk = Chunk {
            broadcasts: vec![broadcast],
        };
        assert_eq!(<Chunk as Record>::upgrade(1, &bytes).as_ref(), Some(&chunk));
        let mut chunk = chunk;
        let metadata = &mut chunk.broadcasts[0].metadata;
        metadata.subtitle = Some("s".into());
        (metadata.season, metadata.episode) = (Some(2), Some(5));
        let second = old + "01017301020105";
        let bytes = data_encoding::HEXLOWER.decode(second.as_bytes()).unwrap();
        assert_eq!(<Chunk as Record>::upgrade(2, &bytes).as_ref(), Some(&chunk));
        let hex = |chunk: &Chunk| {
            let bytes = bincode::serde::encode_to_vec(chunk, bincode::config::standard());
            data_encoding::HEXLOWER.encode(&bytes.unwrap())
        };
        assert_eq!(hex(&chunk), second.clone() + "00");
        chunk.broadcasts[0].metadata.details = Details {
            date: Some("2026".into()),
            is_new: true,
            is_live: false,
            is_premiere: true,
            previously_shown: Some(PreviousShowing {
                start: Some("2020".into()),
                channel: Some("x".into()),
            }),
            credits: vec![Credit {
                kind: CreditKind::Actor,
                name: "A".into(),
                role: Some("B".into()),
                guest: true,
            }],
            images: vec![TypedImage {
                filename: "f".into(),
                purpose: Some(ImagePurpose::Still),
                size: Some(3),
                is_upright: Some(true),
            }],
        }
        .boxed();
        let details =
            "01 010432303236 010001 01010432303230010178 0101014101014201 010166010201030101"
                .replace(' ', "");
        assert_eq!(hex(&chunk), second + &details);
        let bytes = data_encoding::HEXLOWER.decode(hex(&chunk).as_bytes());
        assert_eq!(read_record::<Chunk>(&bytes.unwrap()), Some(chunk));
        let head = ScheduleHead { generation: 7 };
        let bytes = bincode::serde::encode_to_vec(head, bincode::config::standard()).unwrap();
        assert_eq!(bytes, [7]);
    }
}
