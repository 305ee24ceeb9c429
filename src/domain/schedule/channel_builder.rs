//! Builds a [`Channel`]: renders each broadcast as JSON once, into memory that can be returned to the system.

use arc_swap::ArcSwapOption;

use super::channel::{Allowed, BroadcastEntry, Channel, hash};
use super::json_arena::JsonArena;
use super::model::Broadcast;
use super::rights::BroadcastRights;
use super::{json_writer, render};
use playgate_types::{LivestreamId, UnixSeconds, Zone};

pub(super) struct Builder<'a> {
    arena: &'a mut JsonArena,
    livestream: LivestreamId,
    zone: Zone,
    starts: Vec<UnixSeconds>,
    entries: Vec<BroadcastEntry>,
    json: Vec<u8>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(livestream: LivestreamId, zone: Zone, arena: &'a mut JsonArena) -> Self {
        Self {
            arena,
            livestream,
            zone,
            starts: Vec::new(),
            entries: Vec::new(),
            json: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, broadcast: &Broadcast, rights: &BroadcastRights) {
        // The comma comes before an object and not after it, so that any days in a row are one slice.
        let separator = usize::from(!self.json.is_empty());
        self.json.resize(self.json.len() + separator, b',');
        let at = self.json.len();
        let rendered = render::broadcast(broadcast, rights, &mut self.json);
        let object = self.json.get(at..).unwrap_or_default();
        // Tags are computed here, once per import, and not per request.
        let (tag, length) = (hash(object), object.len());
        let (Ok(at), Ok(length)) = (u32::try_from(at), u32::try_from(length)) else {
            // A channel above 4 GiB cannot occur: a parsed guide is limited to a tenth of that.
            self.json.truncate(at - separator);
            return;
        };
        self.starts.push(broadcast.start);
        self.entries.push(BroadcastEntry {
            stop: broadcast.stop,
            catchup: rights.catchup,
            tag,
            id_hash: hash(broadcast.id.as_str().as_bytes()),
            at,
            length,
            id: u16::try_from(rendered.id).unwrap_or(0),
            title: u16::try_from(rendered.title).unwrap_or(0),
            pg_age: broadcast.metadata.pg_age,
            allowed: Allowed::from_rights(rights),
        });
    }

    pub(super) fn finish(self) -> Channel {
        // All queries bisect the starts.
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
            json: self.arena.insert(&self.json),
            present: ArcSwapOption::empty(),
        }
    }
}
