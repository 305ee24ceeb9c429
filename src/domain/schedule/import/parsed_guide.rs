//! A whole guide, read and sorted by channel, before anything is done with it.
//!
//! Guides list channels in any order and mix them, so all of a guide is held at once: its times as
//! they are, everything else in [`texts`](super::texts).

use std::collections::{BTreeMap, HashMap};

use super::packed_metadata::{Packer, Texts};
use super::{
    CHANNELS_MAX, GuideChannel, GuideError, GuideEvent, GuideEvents, GuideProgramme,
    PROGRAMMES_MAX, Problem, Skip, Skipped, TOO_MUCH,
};
use crate::domain::schedule::normalise::Row;
use crate::types::LivestreamId;

/// The guide's channel ids that are called otherwise in the catalogue.
pub type ChannelMap = HashMap<String, String>;

/// What one channel's rows say, and when.
#[derive(Debug, Default)]
pub struct ParsedChannel {
    /// What viewers call it, if the guide says so.
    pub name: Option<String>,
    /// The address of its logo.
    pub icon: Option<String>,
    /// Its rows in the guide's order; the payload of each is its number among them.
    pub rows: Vec<Row<u32>>,
    /// What they say, in the same order.
    pub texts: Texts,
}

/// A guide that was read to its proper end.
#[derive(Debug, Default)]
pub struct ParsedGuide {
    /// By the livestream that the channel is mapped to.
    pub channels: BTreeMap<LivestreamId, ParsedChannel>,
    /// How many programmes the guide has, good and bad.
    pub programmes: u64,
    /// How many programmes had a text or a list that was too long and was cut.
    pub shortened: u64,
    /// How many programmes the guide does not rate.
    pub unrated: u64,
    /// What was skipped while reading.
    pub skipped: Skipped,
}

impl ParsedGuide {
    /// Reads a guide.
    ///
    /// # Errors
    /// As the source; [`GuideError::TooLarge`] beyond the bounds.
    pub fn read(source: &mut dyn GuideEvents, map: &ChannelMap) -> Result<Self, GuideError> {
        Self::read_rated(source, map, None)
    }

    /// Reads a guide, and rates the programmes that it does not rate.
    ///
    /// # Errors
    /// As [`ParsedGuide::read`].
    pub fn read_rated(
        source: &mut dyn GuideEvents,
        map: &ChannelMap,
        unrated: Option<u8>,
    ) -> Result<Self, GuideError> {
        let mut draft = Self::default();
        let mut packer = Packer::default();
        while let Some(event) = source.next_event()? {
            match event {
                GuideEvent::Channel(channel) => draft.declare(channel, map)?,
                GuideEvent::Programme(mut programme) => {
                    let facts = &mut programme.facts;
                    draft.unrated += u64::from(facts.pg_age.is_none());
                    facts.pg_age = facts.pg_age.or(unrated);
                    draft.insert(*programme, map, &mut packer)?;
                }
                GuideEvent::Problem(problem) => {
                    // A channel without an id is no row.
                    draft.programmes += u64::from(problem.kind != Skip::BadChannel);
                    draft.skipped.add(problem);
                }
            }
        }
        for channel in draft.channels.values_mut() {
            channel.rows.shrink_to_fit();
        }
        Ok(draft)
    }

    fn declare(&mut self, given: GuideChannel, map: &ChannelMap) -> Result<(), GuideError> {
        let Some(channel) = self.channel(&given.id, map)? else {
            self.skipped.add(Problem {
                line: given.line,
                kind: Skip::BadChannel,
            });
            return Ok(());
        };
        channel.name = channel.name.take().or(given.name);
        channel.icon = channel.icon.take().or(given.icon);
        Ok(())
    }

    fn insert(
        &mut self,
        given: GuideProgramme,
        map: &ChannelMap,
        packer: &mut Packer,
    ) -> Result<(), GuideError> {
        self.programmes += 1;
        let mut facts = given.facts;
        self.shortened += u64::from(facts.bound());
        if self.programmes > PROGRAMMES_MAX {
            return Err(TOO_MUCH);
        }
        let line = given.line;
        let Some(channel) = self.channel(&given.channel, map)? else {
            self.skipped.add(Problem {
                line,
                kind: Skip::BadChannel,
            });
            return Ok(());
        };
        channel.rows.push(Row {
            line,
            start: given.start,
            stop: given.stop,
            titled: !facts.title.is_empty(),
            payload: u32::try_from(channel.rows.len()).map_err(|_| TOO_MUCH)?,
        });
        packer.push(&mut channel.texts, &(given.id, facts))
    }

    /// The channel of that id of the guide; `None` if the id cannot be one of a livestream.
    fn channel(
        &mut self,
        id: &str,
        map: &ChannelMap,
    ) -> Result<Option<&mut ParsedChannel>, GuideError> {
        let mapped = map.get(id).map_or(id, String::as_str);
        // Looked up by text first: parsing makes a new id, and there are many more rows than ids.
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
