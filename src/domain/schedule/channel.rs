//! One livestream in memory: its broadcasts as pre-rendered JSON, and lookups by time.
//!
//! Invariant: broadcasts are in order and do not overlap, so that list neighbours are the previous and next
//! broadcast of the interface. The normaliser and the diff ensure this.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::json_arena::JsonArena;
use super::rights::BroadcastRights;
use super::source_spans::CoveredSpan;
use super::{json_writer, render};
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds, Zone};

/// The facts of a broadcast that queries need without parsing its JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct BroadcastEntry {
    pub(super) stop: UnixSeconds,
    pub(super) catchup: Option<(UnixSeconds, UnixSeconds)>,
    pub(super) tag: u64,
    pub(super) id_hash: u64,
    pub(super) at: u32,
    pub(super) length: u32,
    /// Length of the id in the JSON, without quotes.
    pub(super) id: u16,
    pub(super) title: u16,
    pub(super) pg_age: Option<u8>,
    pub(super) allowed: Allowed,
}

/// One byte, so that a [`BroadcastEntry`] stays at 64 bytes: all of them are in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed(u8);

impl Allowed {
    const LIVE: u8 = 1;
    const START_OVER: u8 = 2;
    const REWIND: u8 = 4;

    pub(super) fn from_rights(rights: &BroadcastRights) -> Self {
        let bit = |allowed: bool, bit: u8| if allowed { bit } else { 0 };
        Self(
            bit(rights.live, Self::LIVE)
                | bit(rights.start_over, Self::START_OVER)
                | bit(rights.rewind, Self::REWIND),
        )
    }

    pub(super) const fn live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    pub(super) const fn start_over(self) -> bool {
        self.0 & Self::START_OVER != 0
    }

    pub(super) const fn rewind(self) -> bool {
        self.0 & Self::REWIND != 0
    }
}

impl BroadcastEntry {
    fn range(&self) -> Range<usize> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        at..at.saturating_add(usize::try_from(self.length).unwrap_or(0))
    }
}

pub struct Channel {
    pub(super) livestream: LivestreamId,
    pub(super) zone: Zone,
    /// The id of the livestream as a JSON member name, with the colon.
    pub(super) member: Box<[u8]>,
    pub(super) tag: u64,
    pub(super) starts: Box<[UnixSeconds]>,
    pub(super) entries: Box<[BroadcastEntry]>,
    /// Joined by commas; a day is a slice of it.
    pub(super) json: Bytes,
    /// The view of the last request at the live point.
    pub(super) present: ArcSwapOption<LiveView>,
}

#[derive(Debug)]
pub(crate) struct LiveView {
    pub from: UnixSeconds,
    pub until: UnixSeconds,
    /// `{"livestreamId":{…}}`; `None` in a gap.
    pub body: Option<Bytes>,
    pub tag: u64,
}

impl Channel {
    pub(super) fn current(&self, at: UnixSeconds) -> Option<usize> {
        // Starts are sorted, and a broadcast ends before the next one starts.
        let next = self.starts.partition_point(|start| *start <= at);
        let last = next.checked_sub(1)?;
        self.entries.get(last).filter(|e| e.stop > at).map(|_| last)
    }

    /// The range of time around `at` in which the live view stays the same.
    pub(super) fn span(&self, at: UnixSeconds) -> (UnixSeconds, UnixSeconds) {
        let next = self.starts.partition_point(|start| *start <= at);
        let last = next.checked_sub(1);
        let last = last.and_then(|last| self.starts.get(last).zip(self.entries.get(last)));
        match last {
            Some((start, entry)) if entry.stop > at => (*start, entry.stop),
            // In a gap the live view lasts from the end of the previous program to the start of the next.
            gap_after => (
                gap_after.map_or(UnixSeconds(i64::MIN), |(_, entry)| entry.stop),
                (self.starts.get(next).copied()).unwrap_or(UnixSeconds(i64::MAX)),
            ),
        }
    }

    pub(super) fn until(&self, at: UnixSeconds) -> UnixSeconds {
        self.span(at).1
    }

    pub(super) fn object(&self, index: usize) -> &[u8] {
        let range = self.entries.get(index).map(BroadcastEntry::range);
        range.and_then(|r| self.json.get(r)).unwrap_or_default()
    }

    pub(super) fn objects(&self, range: Range<usize>) -> Bytes {
        let entries = self.entries.get(range).unwrap_or_default();
        match (entries.first(), entries.last()) {
            // Consecutive objects lie side by side, with their commas.
            (Some(first), Some(last)) => self.json.slice(first.range().start..last.range().end),
            _ => Bytes::new(),
        }
    }

    pub(super) fn id_json(&self, index: usize) -> &[u8] {
        let length = self.entries.get(index).map_or(0, |e| usize::from(e.id));
        let from = render::BEFORE_ID.len();
        let object = self.object(index);
        object.get(from..from + length).unwrap_or_default()
    }

    pub(super) fn id(&self, index: usize) -> std::borrow::Cow<'_, str> {
        json_writer::read_text(self.id_json(index))
    }

    pub(super) fn title(&self, index: usize) -> std::borrow::Cow<'_, str> {
        let (id, length) = self
            .entries
            .get(index)
            .map_or((0, 0), |e| (usize::from(e.id), usize::from(e.title)));
        let from = render::BEFORE_ID.len() + id + render::BEFORE_TITLE.len();
        json_writer::read_text(
            self.object(index)
                .get(from..from + length)
                .unwrap_or_default(),
        )
    }

    /// Appends `"livestreamId":{live view}`. Returns its tag.
    pub(super) fn write_live(&self, current: usize, out: &mut Vec<u8>) -> u64 {
        let previous = current.checked_sub(1);
        let next = Some(current + 1).filter(|next| *next < self.entries.len());
        // The tag covers the livestream as well, since an empty live view has no broadcast.
        let mut tag = self.tag;
        out.extend_from_slice(&self.member);
        let parts: [(&[u8], Option<usize>); 3] = [
            (b"{\"current\":", Some(current)),
            (b",\"next\":", next),
            (b",\"previous\":", previous),
        ];
        for (name, index) in parts {
            let entry = index.and_then(|index| self.entries.get(index));
            // An absent neighbour counts too: a view without one must not equal a view with one.
            tag = mix(tag, entry.map_or(0, |entry| entry.tag));
            if let Some(index) = index {
                out.extend_from_slice(name);
                out.extend_from_slice(self.object(index));
            }
        }
        out.push(b'}');
        tag
    }

    pub(super) fn live_length(&self, current: usize) -> usize {
        let first = current.saturating_sub(1);
        let around = self.entries.get(first..).unwrap_or_default();
        let objects: usize = around.iter().take(3).map(|e| e.range().len()).sum();
        // 48 bytes are enough for the names of the members and the braces.
        objects + self.member.len() + 48
    }

    pub(super) fn render_live_view(&self, at: UnixSeconds) -> LiveView {
        let (from, until) = self.span(at);
        let Some(current) = self.current(at) else {
            return LiveView {
                from,
                until,
                body: None,
                tag: self.tag,
            };
        };
        let mut body = Vec::with_capacity(self.live_length(current));
        body.push(b'{');
        let tag = self.write_live(current, &mut body);
        body.push(b'}');
        LiveView {
            from,
            until,
            body: Some(body.into()),
            tag,
        }
    }

    pub(super) fn present(&self, now: UnixSeconds) -> Arc<LiveView> {
        let prepared = self.present.load();
        match prepared.as_ref() {
            // Two threads may render the same view concurrently, which does no harm.
            Some(view) if view.from <= now && now < view.until => Arc::clone(view),
            // Rendered once per program, since most requests ask for the live point.
            _ => {
                let view = Arc::new(self.render_live_view(now));
                self.present.store(Some(Arc::clone(&view)));
                view
            }
        }
    }

    /// Leaves out the broadcasts that start before `instant`.
    pub(super) fn since(&self, instant: UnixSeconds, arena: &mut JsonArena) -> Self {
        let gone = self.starts.partition_point(|start| *start < instant);
        let mut entries = self.entries.get(gone..).unwrap_or_default().to_vec();
        // Offsets are relative to the channel's own JSON.
        let base = entries.first().map_or(0, |entry| entry.at);
        for entry in &mut entries {
            entry.at -= base;
        }
        Self {
            livestream: self.livestream.clone(),
            zone: self.zone,
            member: self.member.clone(),
            tag: self.tag,
            starts: self.starts.get(gone..).unwrap_or_default().into(),
            entries: entries.into(),
            json: arena.insert(&self.objects(gone..self.entries.len())),
            present: ArcSwapOption::empty(),
        }
    }

    /// Counts the broadcasts that lie at least partly within the span.
    pub(super) fn count_within(&self, span: CoveredSpan) -> u64 {
        let first = self
            .entries
            .partition_point(|entry| entry.stop <= span.from);
        let end = self.starts.partition_point(|start| *start < span.to);
        u64::try_from(end.saturating_sub(first)).unwrap_or(0)
    }

    /// Where a broadcast at `start` ends as far as the schedule tells: its own stop, or the next start.
    pub(super) fn end_after(&self, start: UnixSeconds) -> Option<UnixSeconds> {
        let at = self.starts.partition_point(|known| *known < start);
        match self.starts.get(at) {
            Some(known) if *known == start => self.entries.get(at).map(|entry| entry.stop),
            next => next.copied(),
        }
    }

    pub(super) fn last(&self) -> Option<(UnixSeconds, UnixSeconds)> {
        let last = self.starts.last().copied();
        last.zip(self.entries.last().map(|entry| entry.stop))
    }

    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.json.len()
            + self.entries.len() * (size_of::<BroadcastEntry>() + size_of::<UnixSeconds>())
    }

    pub(super) fn json_length(&self) -> usize {
        self.json.len()
    }
}

pub(super) const fn mix(a: u64, b: u64) -> u64 {
    // Tags are hashes already, so a cheap combination is enough.
    let mixed = (a.rotate_left(23) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    // This hasher has no random key, so ETags survive a restart.
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// A broadcast in the schedule, for playback. Its fields are read without parsing JSON.
#[derive(Clone)]
pub struct Program {
    channel: Arc<Channel>,
    index: usize,
    start: UnixSeconds,
    stop: UnixSeconds,
    pg_age: Option<u8>,
    allowed: Allowed,
    catchup: Option<(UnixSeconds, UnixSeconds)>,
}

impl Program {
    pub(super) fn new(channel: &Arc<Channel>, index: usize) -> Option<Self> {
        let start = *channel.starts.get(index)?;
        let entry = channel.entries.get(index)?;
        Some(Self {
            index,
            start,
            stop: entry.stop,
            pg_age: entry.pg_age,
            allowed: entry.allowed,
            catchup: entry.catchup,
            channel: Arc::clone(channel),
        })
    }

    pub fn id(&self) -> Option<BroadcastId> {
        // Ids are validated before they are stored.
        BroadcastId::parse(&self.channel.id(self.index)).ok()
    }

    pub fn livestream(&self) -> &LivestreamId {
        &self.channel.livestream
    }

    pub fn title(&self) -> String {
        self.channel.title(self.index).into_owned()
    }

    pub fn start(&self) -> UnixSeconds {
        self.start
    }

    pub fn stop(&self) -> UnixSeconds {
        self.stop
    }

    pub fn pg_age(&self) -> Option<u8> {
        self.pg_age
    }

    pub fn live(&self) -> bool {
        self.allowed.live()
    }

    /// Whether it may be watched from its start while on air.
    pub fn start_over(&self) -> bool {
        self.allowed.start_over()
    }

    pub fn rewind(&self) -> bool {
        self.allowed.rewind()
    }

    pub fn catchup(&self) -> Option<(UnixSeconds, UnixSeconds)> {
        self.catchup
    }
}
