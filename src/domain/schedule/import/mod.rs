//! Parses guides: from compressed bytes to rows by channel.
//!
//! A [`GuideEvents`] yields the content of a file in its order. XMLTV is parsed here; the JSON form is parsed by
//! the HTTP layer. Nothing here knows the store or the catalogue.

pub(crate) mod bounded_lines;
pub mod decompress;
pub(crate) mod packed_metadata;
pub mod parsed_guide;
mod xml_cursor;
pub mod xmltv;
pub(crate) mod xmltv_time;

use std::collections::BTreeMap;

use crate::domain::schedule::model::Metadata;
use crate::types::UnixSeconds;

/// Maximum decompressed size of a guide, seven times a usual one. It stops decompression bombs.
pub const UNPACKED_MAX: u64 = 1024 * 1024 * 1024;
/// Maximum size of one piece of markup or text, which a parser buffers.
pub const PIECE_MAX: usize = 1024 * 1024;
/// Maximum pieces of markup, text and references in a guide: about five seconds of one processor. A usual guide of
/// [`PROGRAMMES_MAX`] programmes has fewer, but a compressed file of a megabyte can contain many times more.
pub const EVENTS_MAX: u64 = 64_000_000;
/// Maximum depth of elements. XMLTV needs six.
pub const DEPTH_MAX: usize = 64;
/// Maximum channels in a guide. The largest public ones have about 10,000.
pub const CHANNELS_MAX: usize = 20_000;
/// Maximum programmes in a guide, eight times a usual one.
pub const PROGRAMMES_MAX: u64 = 2_000_000;
/// Maximum memory for the packed metadata of a guide, ten times that of a usual one.
pub const DRAFT_MAX: usize = 256 * 1024 * 1024;
/// Maximum line numbers that are kept of each kind of skipped row.
pub const LINES_MAX: usize = 20;

/// A guide decoder that is pulled for events until the end.
pub trait GuideEvents {
    /// Returns the next event; `None` at the proper end of the guide.
    ///
    /// # Errors
    /// Any error makes the whole guide unusable, including the events before it.
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError>;
}

/// An event of a guide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuideEvent {
    /// Declaration of a channel. Guides may repeat it.
    Channel(GuideChannel),
    Programme(Box<GuideProgramme>),
    /// A row that cannot be used for a reason within the row.
    Problem(Problem),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideChannel {
    /// Line of its start, from 1.
    pub line: u64,
    /// Channel id in the guide, not mapped yet.
    pub id: String,
    /// Display name.
    pub name: Option<String>,
    /// URL of its logo.
    pub icon: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideProgramme {
    /// Line of its start, from 1.
    pub line: u64,
    /// Channel id in the guide, not mapped yet.
    pub channel: String,
    /// Permanent id from the source. It becomes the broadcast id.
    pub id: Option<String>,
    pub start: UnixSeconds,
    /// `None` if the guide gives no stop.
    pub stop: Option<UnixSeconds>,
    /// The title may still be empty.
    pub facts: Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// Line of the row, from 1.
    pub line: u64,
    pub kind: Skip,
}

/// Why a row was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// A member has the wrong type.
    Malformed,
    /// A time is missing or cannot be parsed.
    BadTime,
    /// The channel is missing or has an invalid id.
    BadChannel,
    /// The id is invalid, or another row of the guide has it.
    BadId,
    /// The id belongs to a livestream, an asset or a broadcast of another livestream.
    IdTaken,
    EmptyTitle,
    /// The stop is not after the start.
    StopNotAfterStart,
    /// An earlier row of the channel has the same start.
    Duplicate,
    /// It has no stop, and no row follows.
    NoStop,
    /// It lies completely inside an earlier row.
    Contained,
    /// It is older than the retention.
    TooOld,
    /// It starts years ahead, probably by a mistake in the date.
    TooFar,
    /// The catalogue has no livestream for its channel.
    Unmapped,
    /// A source of higher priority owns that span of the livestream.
    Outranked,
}

impl Skip {
    /// Returns the name used in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::BadTime => "badTime",
            Self::BadChannel => "badChannel",
            Self::BadId => "badId",
            Self::IdTaken => "idTaken",
            Self::EmptyTitle => "emptyTitle",
            Self::StopNotAfterStart => "stopNotAfterStart",
            Self::Duplicate => "duplicate",
            Self::NoStop => "noStop",
            Self::Contained => "contained",
            Self::TooOld => "tooOld",
            Self::TooFar => "tooFar",
            Self::Unmapped => "unmapped",
            Self::Outranked => "outranked",
        }
    }
}

/// Skipped rows of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    pub count: u64,
    /// Lines of the first [`LINES_MAX`] rows.
    pub lines: Vec<u64>,
}

/// Skipped rows by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Skip, SkippedRows>);

impl Skipped {
    pub fn add(&mut self, problem: Problem) {
        let rows = self.0.entry(problem.kind).or_default();
        rows.count += 1;
        if rows.lines.len() < LINES_MAX {
            rows.lines.push(problem.line);
        }
    }

    /// Returns every kind that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, &SkippedRows)> {
        self.0.iter().map(|(kind, rows)| (*kind, rows))
    }

    /// Returns the number of skipped rows of a kind.
    #[must_use]
    pub fn count(&self, kind: Skip) -> u64 {
        self.0.get(&kind).map_or(0, |rows| rows.count)
    }

    /// Returns the number of all skipped rows.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|rows| rows.count).sum()
    }
}

/// The error beyond [`PROGRAMMES_MAX`] or [`DRAFT_MAX`].
const TOO_MUCH: GuideError =
    GuideError::TooLarge("it has over 2,000,000 programmes, or their texts over 256 MiB packed");

/// Why a guide cannot be used. The text is shown to the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuideError {
    /// Reading or decompression failed.
    #[error("the guide cannot be read: {0}")]
    Unreadable(String),
    /// The file is truncated.
    #[error("the guide ends in the middle, at line {line}")]
    Truncated { line: u64 },
    /// The file is malformed.
    #[error("the guide is broken at line {line}: {what}")]
    Broken { line: u64, what: String },
    /// The file has another format.
    #[error("this is not a guide: {0}")]
    NotAGuide(String),
    /// The guide exceeds a limit.
    #[error("the guide is too large: {0}")]
    TooLarge(&'static str),
}
