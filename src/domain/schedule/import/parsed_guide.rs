//! A parsed guide, grouped by channel.
//!
//! Guides list channels in any order and mix them, so the whole guide is in memory: times as they are, everything
//! else in [`packed_metadata`](super::packed_metadata).

use std::collections::{BTreeMap, HashMap};

use super::packed_metadata::{MetadataPacker, Texts};
use super::{
    CHANNELS_MAX, GuideChannel, GuideError, GuideEvent, GuideEvents, GuideProblem, GuideProgramme,
    PROGRAMMES_MAX, Skip, Skipped, TOO_MUCH,
};
use crate::domain::schedule::normalise::Row;
use crate::types::LivestreamId;

/// Maps channel ids of the guide to livestream ids.
pub type ChannelMap = HashMap<String, String>;

#[derive(Debug, Default)]
pub struct ParsedChannel {
    pub name: Option<String>,
    pub icon: Option<String>,
    pub rows: Vec<Row<u32>>,
    pub texts: Texts,
}

/// A guide that was read to its proper end.
#[derive(Debug, Default)]
pub struct ParsedGuide {
    pub channels: BTreeMap<LivestreamId, ParsedChannel>,
    pub programmes: u64,
    pub shortened: u64,
    pub unrated: u64,
    pub skipped: Skipped,
}

impl ParsedGuide {
    pub fn read(source: &mut dyn GuideEvents, map: &ChannelMap) -> Result<Self, GuideError> {
        Self::read_rated(source, map, None)
    }

    pub fn read_rated(
        source: &mut dyn GuideEvents,
        map: &ChannelMap,
        unrated: Option<u8>,
    ) -> Result<Self, GuideError> {
        let mut draft = Self::default();
        let mut packer = MetadataPacker::default();
        while let Some(event) = source.next_event()? {
            match event {
                GuideEvent::Channel(channel) => draft.declare(channel, map)?,
                GuideEvent::Programme(mut programme) => {
                    let metadata = &mut programme.metadata;
                    draft.unrated += u64::from(metadata.pg_age.is_none());
                    // Counted before it is rated, since the report shows what the guide lacks.
                    metadata.pg_age = metadata.pg_age.or(unrated);
                    draft.insert(*programme, map, &mut packer)?;
                }
                GuideEvent::Problem(problem) => {
                    // A channel declaration without an id does not count as a programme.
                    draft.programmes += u64::from(problem.kind != Skip::BadChannel);
                    draft.skipped.add(problem);
                }
            }
        }
        // Hundreds of channels would otherwise hold the unused half of their vectors.
        for channel in draft.channels.values_mut() {
            channel.rows.shrink_to_fit();
        }
        Ok(draft)
    }

    fn declare(&mut self, given: GuideChannel, map: &ChannelMap) -> Result<(), GuideError> {
        let Some(channel) = self.channel(&given.id, map)? else {
            self.skipped.add(GuideProblem {
                line: given.line,
                kind: Skip::BadChannel,
            });
            return Ok(());
        };
        // The first declaration wins, since guides repeat them.
        channel.name = channel.name.take().or(given.name);
        channel.icon = channel.icon.take().or(given.icon);
        Ok(())
    }

    fn insert(
        &mut self,
        given: GuideProgramme,
        map: &ChannelMap,
        packer: &mut MetadataPacker,
    ) -> Result<(), GuideError> {
        self.programmes += 1;
        let mut metadata = given.metadata;
        self.shortened += u64::from(metadata.bound());
        // Checked while reading: the limit bounds the memory.
        if self.programmes > PROGRAMMES_MAX {
            return Err(TOO_MUCH);
        }
        let line = given.line;
        let Some(channel) = self.channel(&given.channel, map)? else {
            self.skipped.add(GuideProblem {
                line,
                kind: Skip::BadChannel,
            });
            return Ok(());
        };
        channel.rows.push(Row {
            line,
            start: given.start,
            stop: given.stop,
            titled: !metadata.title.is_empty(),
            payload: u32::try_from(channel.rows.len()).map_err(|_| TOO_MUCH)?,
        });
        packer.push(&mut channel.texts, &(given.id, metadata))
    }

    fn channel(
        &mut self,
        id: &str,
        map: &ChannelMap,
    ) -> Result<Option<&mut ParsedChannel>, GuideError> {
        let mapped = map.get(id).map_or(id, String::as_str);
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

#[cfg(test)]
#[path = "parsed_guide_tests.rs"]
mod tests;
