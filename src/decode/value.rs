//! Parsed values with positions, common to TOML and JSON.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::Mistake;
use super::decoder::Decoder;

/// A part of a file, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
    /// The line of the start, counted from 1; 0 outside a file.
    pub line: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub span: Span,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    /// Text from outside a file, such as a variable or a flag; the reader decides its type.
    Loose(String),
    Integer(i64),
    Boolean(bool),
    /// A TOML date or time, as in RFC 3339.
    Time(String),
    List(Vec<Node>),
    Table(Vec<ObjectMember>),
    /// A value that no member accepts; the text describes it.
    Other(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ObjectMember {
    pub name: String,
    pub name_span: Span,
    pub node: Node,
}

impl Value {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Loose(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "true or false",
            Self::Time(_) => "a date or time",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(kind) => kind,
        }
    }
}

impl Node {
    pub fn loose(text: impl Into<String>) -> Self {
        Self {
            span: Span::default(),
            value: Value::Loose(text.into()),
        }
    }

    /// Describes a value of the wrong type. The text continues a sentence that begins with the name of the value.
    pub(crate) fn must_be(&self, wanted: &str) -> String {
        format!("must be {wanted}, not {}", self.value.kind())
    }

    pub fn text(&self) -> Result<&str, String> {
        match &self.value {
            Value::Text(text) | Value::Loose(text) => Ok(text),
            _ => Err(self.must_be("a string")),
        }
    }

    pub fn boolean(&self) -> Result<bool, String> {
        let value = match &self.value {
            Value::Boolean(value) => Some(*value),
            Value::Loose(text) => text.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| "must be true or false".to_owned())
    }

    pub fn number<N: TryFrom<i64>>(&self, range: &RangeInclusive<i64>) -> Result<N, String> {
        let value = match &self.value {
            Value::Integer(value) => Some(*value),
            Value::Loose(text) => text.parse().ok(),
            _ => None,
        };
        let fitting = value.filter(|value| range.contains(value));
        fitting
            .and_then(|value| N::try_from(value).ok())
            .ok_or_else(|| {
                let (least, most) = (range.start(), range.end());
                format!("must be a whole number from {least} to {most}")
            })
    }

    pub fn elements(&self) -> &[Self] {
        match &self.value {
            Value::List(nodes) => nodes,
            // A single value stands for a list of one.
            _ => std::slice::from_ref(self),
        }
    }

    /// Same as [`Node::elements`]; in a loose text, commas separate the elements.
    pub fn items(&self) -> Cow<'_, [Self]> {
        match &self.value {
            Value::Loose(text) => text
                .split(',')
                // An empty variable is an empty list, and not a list of one empty text.
                .filter(|_| !text.trim().is_empty())
                .map(|item| Self::loose(item.trim()))
                .collect(),
            _ => Cow::Borrowed(self.elements()),
        }
    }
}

pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    pub(super) fn line(&self, at: usize) -> u64 {
        let before = self.0.partition_point(|end| *end < at);
        u64::try_from(before + 1).unwrap_or(u64::MAX)
    }
}

/// A file, parsed as far as possible.
pub struct Parsed {
    pub root: Vec<ObjectMember>,
    pub errors: Vec<Mistake>,
}

impl Parsed {
    pub fn is_broken(&self, line: u64) -> bool {
        self.errors.iter().any(|error| error.line == line)
    }

    pub fn decode<T>(&self, read: impl FnOnce(&Decoder) -> T) -> (T, Vec<Mistake>) {
        let decoder = Decoder::new(!self.errors.is_empty());
        let value = read(&decoder);
        let mut mistakes = decoder.mistakes();
        // Whatever else is wrong in a broken line follows from its syntax error.
        mistakes.retain(|mistake| !self.is_broken(mistake.line));
        mistakes.extend_from_slice(&self.errors);
        // Syntax errors and other mistakes are mixed, in the order of their lines.
        mistakes.sort();
        (value, mistakes)
    }
}
