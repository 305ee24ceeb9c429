//! Parsed values with positions, common to TOML and JSON.

use std::ops::Range;

/// A value and its byte range in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    /// A date and time with UTC offset, in RFC 3339.
    Time(String),
    List(Vec<Node>),
    Table(Vec<Member>),
    /// A value that no member accepts; the text describes it.
    Other(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) name_span: Range<usize>,
    pub(super) node: Node,
}

impl Value {
    /// The type's name in messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "true or false",
            Self::Time(_) => "a date and time",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

/// Converts byte positions to line numbers.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    /// The line of a position, counted from 1.
    pub(super) fn line(&self, at: usize) -> u64 {
        let before = self.0.partition_point(|end| *end < at);
        u64::try_from(before + 1).unwrap_or(u64::MAX)
    }
}

/// A syntax error.
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) message: String,
}

/// A file, parsed as far as possible.
pub(super) struct Parsed {
    pub(super) root: Vec<Member>,
    pub(super) errors: Vec<SyntaxError>,
}
