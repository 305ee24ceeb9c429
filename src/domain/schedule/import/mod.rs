//! Reading a guide: from bytes of any packing to rows per channel.
//!
//! A [`GuideEvents`] yields what a file says, in the file's order; XMLTV is read here, JSON by the
//! part of the service that knows JSON. Nothing here knows the store or the catalogue.

pub mod bounded_lines;
pub mod decompress;
pub mod packed_metadata;
pub mod parsed_guide;
mod xml_cursor;
pub mod xmltv;
pub mod xmltv_time;

use std::collections::BTreeMap;

use crate::domain::schedule::model::Metadata;
use crate::types::UnixSeconds;

/// How large a guide may be when unpacked: seven times a usual one. A packed file of a few
/// megabytes could otherwise grow without end.
pub const UNPACKED_MAX: u64 = 1024 * 1024 * 1024;
/// How large one piece of markup or text may be: what a parser must hold at once.
pub const PIECE_MAX: usize = 1024 * 1024;
/// How many pieces of markup, text and references a guide may have: what five seconds of one processor
/// read. [`PROGRAMMES_MAX`] programmes of a usual guide have fewer; a packed file of a megabyte can
/// unpack to many times more.
pub const EVENTS_MAX: u64 = 64_000_000;
/// How deep elements may be nested; XMLTV needs six.
pub const DEPTH_MAX: usize = 64;
/// How many channels a guide may have; the largest public ones have some 10,000.
pub const CHANNELS_MAX: usize = 20_000;
/// How many programmes a guide may have: eight times a usual one.
pub const PROGRAMMES_MAX: u64 = 2_000_000;
/// How much of a guide's texts is held while it is put in order, packed: ten times those of a usual
/// one.
pub const DRAFT_MAX: usize = 256 * 1024 * 1024;
/// How many line numbers are kept of each kind of skipped row.
pub const LINES_MAX: usize = 20;

/// Where a guide comes from: pulled until it ends.
pub trait GuideEvents {
    /// The next thing the guide says; `None` at its proper end.
    ///
    /// # Errors
    /// A guide that is broken anywhere is broken as a whole: nothing of it may be used.
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError>;
}

/// One thing that a guide says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuideEvent {
    /// A channel is declared; guides repeat that.
    Channel(GuideChannel),
    /// A programme runs.
    Programme(Box<GuideProgramme>),
    /// A row that cannot be used, whatever else the guide says.
    Problem(Problem),
}

/// The declaration of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideChannel {
    /// The line it begins on, from 1.
    pub line: u64,
    /// The guide's id of it, not yet mapped.
    pub id: String,
    /// What viewers call it.
    pub name: Option<String>,
    /// The address of its logo.
    pub icon: Option<String>,
}

/// A programme as the guide gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideProgramme {
    /// The line it begins on, from 1.
    pub line: u64,
    /// The guide's id of the channel, not yet mapped.
    pub channel: String,
    /// An id that the source gives it for good; it becomes the broadcast's id.
    pub id: Option<String>,
    /// When it starts.
    pub start: UnixSeconds,
    /// When it stops, if the guide says so.
    pub stop: Option<UnixSeconds>,
    /// The rest; the title may still be empty.
    pub facts: Metadata,
}

/// A row that was skipped, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// The line of the row, from 1.
    pub line: u64,
    /// Why it was skipped.
    pub kind: Skip,
}

/// Why a row of a guide was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// A row whose members are not of their types.
    Malformed,
    /// A time that is missing or cannot be read.
    BadTime,
    /// No channel, or one whose id cannot be an id.
    BadChannel,
    /// An id that breaks the rules for ids, or that another row of the guide has.
    BadId,
    /// The id belongs to a livestream, an asset or a broadcast of another livestream.
    IdTaken,
    /// No title.
    EmptyTitle,
    /// It stops when it starts or before.
    StopNotAfterStart,
    /// It starts with an earlier row of its channel.
    Duplicate,
    /// It has no stop and nothing follows.
    NoStop,
    /// It lies wholly inside an earlier one.
    Contained,
    /// It is older than what is kept.
    TooOld,
    /// It lies years ahead: a slip in a date.
    TooFar,
    /// The catalogue has no livestream for its channel.
    Unmapped,
    /// A source of higher priority has filled that time of the livestream.
    Outranked,
}

impl Skip {
    /// The name in reports.
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

/// The skipped rows of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// How many there were.
    pub count: u64,
    /// The lines of the first [`LINES_MAX`] of them.
    pub lines: Vec<u64>,
}

/// What was skipped, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Skip, SkippedRows>);

impl Skipped {
    /// Notes a row.
    pub fn add(&mut self, problem: Problem) {
        let rows = self.0.entry(problem.kind).or_default();
        rows.count += 1;
        if rows.lines.len() < LINES_MAX {
            rows.lines.push(problem.line);
        }
    }

    /// Every kind that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, &SkippedRows)> {
        self.0.iter().map(|(kind, rows)| (*kind, rows))
    }

    /// How many rows of a kind were skipped.
    #[must_use]
    pub fn count(&self, kind: Skip) -> u64 {
        self.0.get(&kind).map_or(0, |rows| rows.count)
    }

    /// How many rows were skipped in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|rows| rows.count).sum()
    }
}

/// A guide beyond [`PROGRAMMES_MAX`] or [`DRAFT_MAX`].
const TOO_MUCH: GuideError =
    GuideError::TooLarge("it has over 2,000,000 programmes, or their texts over 256 MiB packed");

/// Why a guide cannot be read. Its text is for the operator who brought the guide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuideError {
    /// The bytes could not be had, or not be unpacked.
    #[error("the guide cannot be read: {0}")]
    Unreadable(String),
    /// The file is cut off.
    #[error("the guide ends in the middle, at line {line}")]
    Truncated {
        /// The last line.
        line: u64,
    },
    /// It is not well-formed.
    #[error("the guide is broken at line {line}: {what}")]
    Broken {
        /// Where.
        line: u64,
        /// In which way.
        what: String,
    },
    /// It is something else.
    #[error("this is not a guide: {0}")]
    NotAGuide(String),
    /// It exceeds a bound.
    #[error("the guide is too large: {0}")]
    TooLarge(&'static str),
}
