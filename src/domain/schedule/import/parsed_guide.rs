//! A parsed guide, grouped by channel.
//!
//! Guides list channels in any order and mix them, so the whole guide is in memory: times as they are, everything
//! else in [`packed_metadata`](super::packed_metadata).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::packed_metadata::{MetadataPacker, Texts};
use super::repairs::{Repair, Repairs};
use super::xmltv_time::{self, REPEAT_MAX};
use super::{
    CHANNELS_MAX, GuideChannel, GuideError, GuideEvent, GuideEvents, GuideProblem, GuideProgramme,
    PROGRAMMES_MAX, QUOTED_MAX, Skip, Skipped, TOO_MUCH,
};
use crate::schedule::model::Metadata;
use crate::schedule::normalise::Row;
use playgate_types::{LivestreamId, UnixSeconds};

/// Maps channel ids of the guide to livestreams.
pub type ChannelMap = HashMap<String, ChannelTarget>;

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelTarget {
    /// SD and HD of a channel have one entry in a guide.
    pub livestreams: Vec<String>,
    /// Seconds that its times are moved, beside those of the source.
    pub shift: i64,
}

impl From<&str> for ChannelTarget {
    fn from(livestream: &str) -> Self {
        Self {
            livestreams: vec![livestream.to_owned()],
            shift: 0,
        }
    }
}

/// How a source is mapped to livestreams.
#[derive(Debug, Clone, Copy)]
pub struct Mapping<'a> {
    pub channels: &'a ChannelMap,
    /// Seconds that all times are moved.
    pub shift: i64,
    pub unrated: Option<u8>,
}

/// Channel ids of a guide that no livestream can have, as far as they are named.
const UNUSABLE_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct ParsedChannel {
    pub name: Option<String>,
    pub icon: Option<String>,
    pub rows: Vec<Row<u32>>,
    pub texts: Texts,
    /// Start and title of the row before, while its local time is one that occurs twice.
    repeated: Option<(UnixSeconds, Box<str>)>,
}

/// A guide that was read to its proper end.
#[derive(Debug, Default)]
pub struct ParsedGuide {
    pub channels: BTreeMap<LivestreamId, ParsedChannel>,
    pub programmes: u64,
    pub shortened: u64,
    pub unrated: u64,
    pub skipped: Skipped,
    pub repairs: Repairs,
    /// Ids of channels that have to be mapped, because no livestream can have them.
    pub unusable: BTreeSet<String>,
}

impl ParsedGuide {
    pub fn read(source: &mut dyn GuideEvents, map: &ChannelMap) -> Result<Self, GuideError> {
        let mapping = Mapping {
            channels: map,
            shift: 0,
            unrated: None,
        };
        Self::read_mapped(source, mapping)
    }

    pub fn read_mapped(
        source: &mut dyn GuideEvents,
        mapping: Mapping<'_>,
    ) -> Result<Self, GuideError> {
        let mut draft = Self::default();
        let mut packer = MetadataPacker::default();
        while let Some(event) = source.next_event()? {
            match event {
                GuideEvent::Channel(channel) => draft.declare(&channel, mapping)?,
                GuideEvent::Programme(mut programme) => {
                    let metadata = &mut programme.metadata;
                    draft.unrated += u64::from(metadata.pg_age.is_none());
                    // Counted before it is rated, since the report shows what the guide lacks.
                    metadata.pg_age = metadata.pg_age.or(mapping.unrated);
                    draft.insert(*programme, mapping, &mut packer)?;
                }
                GuideEvent::Problem(problem) => {
                    // A channel declaration without an id does not count as a programme.
                    draft.programmes += u64::from(problem.kind != Skip::BadChannel);
                    draft.skipped.add(problem);
                }
            }
        }
        for (repair, rows) in source.repairs().iter() {
            draft.repairs.merge(repair, rows);
        }
        // Hundreds of channels would otherwise hold the unused half of their vectors.
        for channel in draft.channels.values_mut() {
            channel.rows.shrink_to_fit();
        }
        Ok(draft)
    }

    fn declare(&mut self, given: &GuideChannel, mapping: Mapping<'_>) -> Result<(), GuideError> {
        let target = mapping.channels.get(&given.id);
        for livestream in targets(target, &given.id) {
            let Some(channel) = self.channel(livestream)? else {
                self.refuse(given.line, &given.id);
                continue;
            };
            // The first declaration wins, since guides repeat them.
            channel.name = channel.name.take().or_else(|| given.name.clone());
            channel.icon = channel.icon.take().or_else(|| given.icon.clone());
        }
        Ok(())
    }

    fn refuse(&mut self, line: u64, id: &str) {
        let problem = GuideProblem::new(line, Skip::BadChannel);
        self.skipped.add(problem.of_channel(id));
        if self.unusable.len() < UNUSABLE_MAX {
            self.unusable.insert(id.chars().take(QUOTED_MAX).collect());
        }
    }

    fn insert(
        &mut self,
        given: GuideProgramme,
        mapping: Mapping<'_>,
        packer: &mut MetadataPacker,
    ) -> Result<(), GuideError> {
        self.programmes += 1;
        let mut given = given;
        self.shortened += u64::from(given.metadata.bound());
        // Checked while reading: the limit bounds the memory.
        if self.programmes > PROGRAMMES_MAX {
            return Err(TOO_MUCH);
        }
        let target = mapping.channels.get(&given.channel);
        let shift = mapping
            .shift
            .saturating_add(target.map_or(0, |target| target.shift));
        let moved = |at: UnixSeconds| match shift {
            0 => Some(at),
            shift => xmltv_time::shifted(at, shift),
        };
        let row_text = (given.id.take(), std::mem::take(&mut given.metadata));
        let title: &str = &row_text.1.title;
        let (title_hash, fullness) = (hash(title), fullness(&row_text.1));
        let repeats = given.repeated.start.is_some() || given.repeated.stop.is_some();
        for livestream in targets(target, &given.channel) {
            let Some(channel) = self.channel(livestream)? else {
                self.refuse(given.line, &given.channel);
                continue;
            };
            let (mut start, mut stop) = (given.start, given.stop);
            if repeats || channel.repeated.is_some() {
                let was_later;
                (start, stop, was_later) = channel.place(&given, title);
                if was_later {
                    self.repairs.add(Repair::RepeatedHour, given.line);
                }
            }
            let Some(channel) = self.channel(livestream)? else {
                continue;
            };
            let (Some(start), Some(stop)) = (
                moved(start),
                stop.map(moved).map_or(Some(None), |s| s.map(Some)),
            ) else {
                let problem = GuideProblem::new(given.line, Skip::BadTime);
                self.skipped.add(problem.of_channel(&given.channel));
                continue;
            };
            channel.rows.push(Row {
                line: given.line,
                start,
                stop,
                title: title_hash,
                fullness,
                payload: u32::try_from(channel.rows.len()).map_err(|_| TOO_MUCH)?,
            });
            packer.push(&mut channel.texts, &row_text)?;
        }
        Ok(())
    }

    fn channel(&mut self, mapped: &str) -> Result<Option<&mut ParsedChannel>, GuideError> {
        // Look up by text first, since parsing allocates an id: there are far more rows than channels.
        if !self.channels.contains_key(mapped) {
            let Ok(id) = LivestreamId::parse(mapped) else {
                return Ok(None);
            };
            if self.channels.len() >= CHANNELS_MAX {
                return Err(GuideError::TooLarge("it has over 20,000 channels"));
            }
            self.channels.insert(id, ParsedChannel::default());
        }
        Ok(self.channels.get_mut(mapped))
    }
}

impl ParsedChannel {
    /// Chooses between the instants of local times that occur twice, by the row before. Returns whether a later one was
    /// chosen for the start.
    fn place(
        &mut self,
        given: &GuideProgramme,
        title: &str,
    ) -> (UnixSeconds, Option<UnixSeconds>, bool) {
        let before = self.rows.last();
        let is_later = given.repeated.start.is_some_and(|later| {
            let after_last = self.repeated.as_ref().is_some_and(|(start, known)| {
                // The same start again is the second hour, unless the row is a copy.
                let passed = *start > given.start || (*start == given.start && **known != *title);
                passed && later.since(*start) < REPEAT_MAX
            });
            let continues = before.is_some_and(|row| row.stop == Some(later) && row.start < later);
            after_last || continues
        });
        let start = given
            .repeated
            .start
            .filter(|_| is_later)
            .unwrap_or(given.start);
        let stop = given.stop.map(|stop| match given.repeated.stop {
            Some(later) if stop <= start => later,
            _ => stop,
        });
        self.repeated = given.repeated.start.map(|_| (start, title.into()));
        (start, stop, is_later)
    }
}

fn targets<'a>(target: Option<&'a ChannelTarget>, id: &'a str) -> impl Iterator<Item = &'a str> {
    let mapped = target.into_iter().flat_map(|target| &target.livestreams);
    let unmapped = target.is_none().then_some(id);
    mapped.map(String::as_str).chain(unmapped)
}

/// Never 0, which is a row without a title.
fn hash(title: &str) -> u32 {
    match title {
        "" => 0,
        title => crc32fast::hash(title.as_bytes()).max(1),
    }
}

/// How much a row says, to choose between two copies of it.
fn fullness(metadata: &Metadata) -> u16 {
    let length = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    let details = [
        metadata.images.len(),
        metadata.categories.len(),
        usize::from(metadata.pg_age.is_some()),
        usize::from(metadata.episode.is_some()),
        usize::from(metadata.season.is_some()),
        metadata.details.as_ref().map_or(0, |d| d.fullness()),
    ];
    let sum = length(&metadata.description)
        + length(&metadata.subtitle)
        + 20 * details.iter().sum::<usize>();
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
#[path = "parsed_guide_tests.rs"]
mod tests;
