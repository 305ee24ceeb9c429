//! Making a [`Channel`]: each broadcast is written as JSON once, into memory that can be given back.

use arc_swap::ArcSwapOption;
use bytes::{Bytes, BytesMut};
use chrono_tz::Tz;

use super::channel::{Allowed, Channel, Entry, hash};
use super::model::Broadcast;
use super::rights::BroadcastRights;
use super::{json_writer, render};
use crate::types::{LivestreamId, UnixSeconds};

/// How much one block of a slab takes. The system's allocator keeps smaller pieces that are freed;
/// over 32 MiB are mapped by themselves and go back. What is not filled is never touched.
const BLOCK: usize = 40 * 1024 * 1024;

/// Where prepared JSON is put, channel behind channel. A block lives as long as any channel in it.
#[derive(Default)]
pub struct JsonArena {
    block: BytesMut,
    /// How many bytes were put into it.
    pub(super) filled: usize,
}

impl JsonArena {
    pub(super) fn insert(&mut self, json: &[u8]) -> Bytes {
        if self.block.capacity() < json.len() {
            self.block = BytesMut::with_capacity(json.len().max(BLOCK));
        }
        self.filled += json.len();
        self.block.extend_from_slice(json);
        self.block.split().freeze()
    }
}

/// Prepares channels, broadcast by broadcast.
pub struct Builder<'a> {
    slab: &'a mut JsonArena,
    livestream: LivestreamId,
    zone: Tz,
    starts: Vec<UnixSeconds>,
    entries: Vec<Entry>,
    json: Vec<u8>,
}

impl<'a> Builder<'a> {
    /// Begins a channel without broadcasts.
    #[must_use]
    pub fn new(livestream: LivestreamId, zone: Tz, slab: &'a mut JsonArena) -> Self {
        Self {
            slab,
            livestream,
            zone,
            starts: Vec::new(),
            entries: Vec::new(),
            json: Vec::new(),
        }
    }

    /// Adds the next broadcast.
    pub fn push(&mut self, broadcast: &Broadcast, rights: &BroadcastRights) {
        let separator = usize::from(!self.json.is_empty());
        self.json.resize(self.json.len() + separator, b',');
        let at = self.json.len();
        let rendered = render::broadcast(broadcast, rights, &mut self.json);
        let object = self.json.get(at..).unwrap_or_default();
        let (tag, length) = (hash(object), object.len());
        let (Ok(at), Ok(length)) = (u32::try_from(at), u32::try_from(length)) else {
            // One livestream's guide over 4 GiB: the draft's bound is a tenth of that.
            self.json.truncate(at - separator);
            return;
        };
        self.starts.push(broadcast.start);
        self.entries.push(Entry {
            stop: broadcast.stop,
            catchup: rights.catchup,
            tag,
            id_hash: hash(broadcast.id.as_str().as_bytes()),
            at,
            length,
            id: u16::try_from(rendered.id).unwrap_or(0),
            title: u16::try_from(rendered.title).unwrap_or(0),
            pg_age: broadcast.facts.pg_age,
            allowed: Allowed::from_rights(rights),
        });
    }

    /// The channel, with no more memory than it needs.
    #[must_use]
    pub fn finish(self) -> Channel {
        debug_assert!(self.starts.is_sorted());
        let mut member = Vec::new();
        json_writer::text(self.livestream.as_str(), &mut member);
        member.push(b':');
        Channel {
            tag: hash(&member),
            livestream: self.livestream,
            zone: self.zone,
            member: member.into(),
            starts: self.starts.into(),
            entries: self.entries.into(),
            json: self.slab.insert(&self.json),
            present: ArcSwapOption::empty(),
        }
    }
}
