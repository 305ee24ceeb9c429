//! A whole guide, read and sorted by channel, before anything is done with it.
//!
//! Guides list channels in any order and mix them, so all of a guide is held at once: its times as
//! they are, everything else packed as bytes, about 0.3 KiB a programme.

use std::collections::{BTreeMap, HashMap};

use super::{
    CHANNELS_MAX, DRAFT_MAX, GuideChannel, GuideError, GuideEvent, GuideProgramme, GuideSource,
    PROGRAMMES_MAX, Problem, Skip, Skipped,
};
use crate::domain::schedule::model::Facts;
use crate::domain::schedule::normalise::Row;
use crate::types::LivestreamId;

/// The guide's channel ids that are called otherwise in the catalogue.
pub type ChannelMap = HashMap<String, String>;

/// How much is packed into one block. Blocks over 32 MiB are always mapped by themselves, so that
/// all of a draft goes back to the system; what is not filled is never touched.
const BLOCK: usize = 33 * 1024 * 1024;

/// What one channel's rows say, and when.
#[derive(Debug, Default)]
pub struct DraftChannel {
    /// What viewers call it, if the guide says so.
    pub name: Option<String>,
    /// The address of its logo.
    pub icon: Option<String>,
    /// Its rows in the guide's order; each payload is for [`Packed::row`].
    pub rows: Vec<Row<u32>>,
}

/// What rows say apart from their times.
#[derive(Default)]
pub struct Packed {
    blocks: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({} blocks)", self.blocks.len())
    }
}

impl Packed {
    /// The id that the source gave a row, and its facts; `None` for a payload that is no row's.
    #[must_use]
    pub fn row(&self, payload: u32) -> Option<(Option<String>, Facts)> {
        let at = usize::try_from(payload).ok()?;
        let packed = self.blocks.get(at / BLOCK)?.get(at % BLOCK..)?;
        let decoded = bincode::serde::decode_from_slice(packed, bincode::config::standard());
        decoded.ok().map(|(row, _)| row)
    }

    /// Gives back what lies before a payload, as far as it fills blocks.
    pub fn release_before(&mut self, payload: u32) {
        let blocks = usize::try_from(payload).unwrap_or(0) / BLOCK;
        for block in self.blocks.iter_mut().take(blocks) {
            *block = Vec::new();
        }
    }

    /// Packs a row.
    fn push(&mut self, row: &(Option<String>, Facts)) -> Result<u32, GuideError> {
        self.scratch.clear();
        let config = bincode::config::standard();
        bincode::serde::encode_into_std_write(row, &mut self.scratch, config)
            .map_err(|_| TOO_MUCH)?;
        let fits = |block: &Vec<u8>| block.len() + self.scratch.len() <= BLOCK;
        if !self.blocks.last().is_some_and(fits) {
            if (self.blocks.len() + 1) * BLOCK > DRAFT_MAX {
                return Err(TOO_MUCH);
            }
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let before = self.blocks.len().saturating_sub(1) * BLOCK;
        let block = self.blocks.last_mut().ok_or(TOO_MUCH)?;
        let at = before + block.len();
        block.extend_from_slice(&self.scratch);
        u32::try_from(at).map_err(|_| TOO_MUCH)
    }
}

/// A guide that was read to its proper end.
#[derive(Debug, Default)]
pub struct Draft {
    /// By the livestream that the channel is mapped to.
    pub channels: BTreeMap<LivestreamId, DraftChannel>,
    /// How many programmes the guide has, good and bad.
    pub programmes: u64,
    /// How many programmes had a text or a list that was too long and was cut.
    pub shortened: u64,
    /// What was skipped while reading.
    pub skipped: Skipped,
    /// What the rows say.
    pub packed: Packed,
}

impl Draft {
    /// Reads a guide.
    ///
    /// # Errors
    /// As the source; [`GuideError::TooLarge`] beyond the bounds.
    pub fn read(source: &mut dyn GuideSource, map: &ChannelMap) -> Result<Self, GuideError> {
        let mut draft = Self::default();
        while let Some(event) = source.next_event()? {
            match event {
                GuideEvent::Channel(channel) => draft.declare(channel, map)?,
                GuideEvent::Programme(programme) => draft.take(*programme, map)?,
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

    fn take(&mut self, given: GuideProgramme, map: &ChannelMap) -> Result<(), GuideError> {
        self.programmes += 1;
        let mut facts = given.facts;
        self.shortened += u64::from(facts.bound());
        if self.programmes > PROGRAMMES_MAX {
            return Err(TOO_MUCH);
        }
        let line = given.line;
        if self.channel(&given.channel, map)?.is_none() {
            self.skipped.add(Problem {
                line,
                kind: Skip::BadChannel,
            });
            return Ok(());
        }
        let titled = !facts.title.is_empty();
        let payload = self.packed.push(&(given.id, facts))?;
        if let Some(channel) = self.channel(&given.channel, map)? {
            channel.rows.push(Row {
                line,
                start: given.start,
                stop: given.stop,
                titled,
                payload,
            });
        }
        Ok(())
    }

    /// The channel of that id of the guide; `None` if the id cannot be one of a livestream.
    fn channel(
        &mut self,
        id: &str,
        map: &ChannelMap,
    ) -> Result<Option<&mut DraftChannel>, GuideError> {
        let mapped = map.get(id).map_or(id, String::as_str);
        // Looked up by text first: parsing makes a new id, and there are many more rows than ids.
        if !self.channels.contains_key(mapped) {
            let Ok(id) = LivestreamId::parse(mapped) else {
                return Ok(None);
            };
            if self.channels.len() >= CHANNELS_MAX {
                return Err(GuideError::TooLarge("it has over 20,000 channels"));
            }
            self.channels.insert(id, DraftChannel::default());
        }
        Ok(self.channels.get_mut(mapped))
    }
}

const TOO_MUCH: GuideError =
    GuideError::TooLarge("it has over 2,000,000 programmes, or their texts over 400 MiB");

#[cfg(test)]
#[path = "draft_tests.rs"]
mod tests;
