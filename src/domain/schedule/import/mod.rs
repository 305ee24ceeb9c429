//! Parses guides: from compressed bytes to rows by channel.
//!
//! A [`GuideEvents`] yields the content of a file in its order. XMLTV is parsed here; the JSON form is parsed by
//! the HTTP layer. Nothing here knows the store or the catalogue.

pub(crate) mod bounded_lines;
pub mod decompress;
mod episode;
pub(crate) mod packed_metadata;
pub mod parsed_guide;
mod xml_cursor;
pub mod xmltv;
pub(crate) mod xmltv_time;

use std::collections::BTreeMap;

use crate::domain::schedule::model::Metadata;
use crate::types::UnixSeconds;

/// Bytes, decompressed: seven times a usual guide. Stops decompression bombs.
pub const UNPACKED_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes of one piece of markup or text, which a parser buffers.
pub const PIECE_MAX: usize = 1024 * 1024;
/// About five seconds of one processor. A usual guide of [`PROGRAMMES_MAX`] programmes has fewer,
/// but a compressed file of a megabyte can contain many times more.
pub const EVENTS_MAX: u64 = 64_000_000;
/// XMLTV needs a depth of six.
pub const DEPTH_MAX: usize = 64;
/// The largest public guides have about 10,000.
pub const CHANNELS_MAX: usize = 20_000;
/// Eight times a usual guide.
pub const PROGRAMMES_MAX: u64 = 2_000_000;
/// Bytes of packed metadata, ten times that of a usual guide.
pub const DRAFT_MAX: usize = 256 * 1024 * 1024;
/// Line numbers reported for each kind of problem.
pub const LINES_MAX: usize = 20;

/// A guide decoder that is pulled for events until the end.
pub trait GuideEvents {
    /// `None` at the proper end of the guide. Any error makes the whole guide unusable, including the
    /// events before it.
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuideEvent {
    /// A guide may repeat a channel.
    Channel(GuideChannel),
    Programme(Box<GuideProgramme>),
    Problem(GuideProblem),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideChannel {
    pub line: u64,
    pub id: String,
    pub name: Option<String>,
    pub icon: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideProgramme {
    pub line: u64,
    pub channel: String,
    /// Permanent. It becomes the broadcast id.
    pub id: Option<String>,
    pub start: UnixSeconds,
    pub stop: Option<UnixSeconds>,
    /// The title may still be empty.
    pub metadata: Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuideProblem {
    pub line: u64,
    pub kind: Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    Malformed,
    BadTime,
    BadChannel,
    /// Invalid, or used by another row of the guide.
    BadId,
    /// A livestream, an asset or a broadcast of another livestream has the id.
    IdTaken,
    EmptyTitle,
    StopNotAfterStart,
    Duplicate,
    NoStop,
    Contained,
    TooOld,
    /// Years ahead, probably by a mistake in the date.
    TooFar,
    Unmapped,
    /// A source of higher priority owns the span.
    Outranked,
}

impl Skip {
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

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedRows {
    pub count: u64,
    pub lines: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Skip, SkippedRows>);

impl Skipped {
    pub fn add(&mut self, problem: GuideProblem) {
        let rows = self.0.entry(problem.kind).or_default();
        rows.count += 1;
        if rows.lines.len() < LINES_MAX {
            rows.lines.push(problem.line);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Skip, &SkippedRows)> {
        self.0.iter().map(|(kind, rows)| (*kind, rows))
    }

    #[must_use]
    pub fn count(&self, kind: Skip) -> u64 {
        self.0.get(&kind).map_or(0, |rows| rows.count)
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().map(|rows| rows.count).sum()
    }
}

const TOO_MUCH: GuideError =
    GuideError::TooLarge("it has over 2,000,000 programmes, or their texts over 256 MiB packed");

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuideError {
    #[error("the guide cannot be read: {0}")]
    Unreadable(String),
    #[error(
        "the guide is incomplete: it breaks off at line {line}; get the whole file and import it again"
    )]
    Truncated { line: u64 },
    #[error("the guide is broken at line {line}: {what}")]
    Broken { line: u64, what: String },
    #[error("this is not a guide: {0}")]
    NotAGuide(String),
    #[error("the guide is too large: {0}")]
    TooLarge(&'static str),
}
