//! Parses guides: from compressed bytes to rows by channel.
//!
//! A [`GuideEvents`] yields the content of a file in its order. XMLTV is parsed here; the JSON form is parsed by
//! the HTTP layer. Nothing here knows the store or the catalogue.

mod archives;
pub mod bounded_lines;
pub mod decompress;
pub mod encoding;
mod episode;
pub(crate) mod packed_metadata;
pub mod parsed_guide;
mod plain_text;
pub mod repairs;
mod xml_cursor;
pub mod xmltv;
mod xmltv_details;
pub mod xmltv_time;

use std::collections::BTreeMap;

use crate::schedule::model::Metadata;
use playgate_types::{LivestreamId, UnixSeconds};
use repairs::Repairs;

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

    /// What was repaired so far.
    fn repairs(&self) -> Repairs;
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
    pub repeated: RepeatedHour,
    /// The title may still be empty.
    pub metadata: Metadata,
}

/// The second instants of local times that occur twice, when clocks go back. The order of the file tells which is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepeatedHour {
    pub start: Option<UnixSeconds>,
    pub stop: Option<UnixSeconds>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuideProblem {
    pub line: u64,
    pub kind: Skip,
    /// The channel id of the guide, if it has one.
    pub channel: Option<Box<str>>,
    /// The text that was not understood.
    pub text: Option<Box<str>>,
}

impl GuideProblem {
    pub const fn new(line: u64, kind: Skip) -> Self {
        Self {
            line,
            kind,
            channel: None,
            text: None,
        }
    }

    pub fn of_channel(self, channel: &str) -> Self {
        Self {
            channel: Some(quoted(channel)),
            ..self
        }
    }

    pub fn quoting(self, text: &str) -> Self {
        Self {
            text: Some(quoted(text)),
            ..self
        }
    }
}

/// Cut, since reports quote it.
fn quoted(text: &str) -> Box<str> {
    text.chars().take(QUOTED_MAX).collect::<String>().into()
}

const QUOTED_MAX: usize = 140;

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
    Duplicate,
    Contained,
    TooOld,
    /// Years ahead, probably by a mistake in the date.
    TooFar,
    Unmapped,
    /// A source of higher priority owns the span.
    Outranked,
}

impl Skip {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::BadTime => "badTime",
            Self::BadChannel => "badChannel",
            Self::BadId => "badId",
            Self::IdTaken => "idTaken",
            Self::EmptyTitle => "emptyTitle",
            Self::Duplicate => "duplicate",
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
    /// The first, with what is known of them.
    pub rows: Vec<GuideProblem>,
}

impl SkippedRows {
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|row| row.line)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Skip, SkippedRows>);

impl Skipped {
    pub fn add(&mut self, problem: GuideProblem) {
        let rows = self.0.entry(problem.kind).or_default();
        rows.count += 1;
        if rows.rows.len() < LINES_MAX {
            rows.rows.push(problem);
        }
    }

    /// Adds the rows of a livestream.
    pub fn merge(&mut self, rows: Self, livestream: &LivestreamId) {
        for (kind, rows) in rows.0 {
            let known = self.0.entry(kind).or_default();
            known.count += rows.count;
            let room = LINES_MAX.saturating_sub(known.rows.len());
            let named = rows.rows.into_iter().take(room);
            known
                .rows
                .extend(named.map(|row| row.of_channel(livestream.as_str())));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Skip, &SkippedRows)> {
        self.0.iter().map(|(kind, rows)| (*kind, rows))
    }

    pub fn count(&self, kind: Skip) -> u64 {
        self.0.get(&kind).map_or(0, |rows| rows.count)
    }

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
