//! One decoder for the files that people write: configuration, catalogue, rating tables, messages.
//!
//! A parser turns TOML or JSON into [`Node`]s with their positions. A [`TableDecoder`] reads the members of a table,
//! and reports unknown, missing and wrong ones. Every mistake of a file is collected, in our words, with its line.
//!
//! Request bodies share only the explanation of broken JSON ([`json::first_mistake`]). They ignore unknown members,
//! name a mistake by its member and not by its line, and are parsed without positions: this keeps sign-in and
//! telemetry cheap.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod decoder;
pub(crate) mod json;
pub mod strict_json;
mod table;
pub mod toml;
mod value;

pub use decoder::Decoder;
pub use table::{TableDecoder, nearest};
pub use value::{Node, ObjectMember, Parsed, Span, Value};

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Line number starting at 1; 0 if unknown.
    pub line: u64,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

pub fn parse(text: &str) -> Parsed {
    if is_json(text) {
        json::parse(text)
    } else {
        toml::parse(text)
    }
}

pub fn is_json(text: &str) -> bool {
    // No TOML file begins with a brace.
    text.trim_start().starts_with('{')
}

/// Decodes a TOML file as one table.
///
/// # Errors
/// All mistakes of the file, in one line.
pub fn decode_toml<T>(text: &str, read: impl FnOnce(&TableDecoder<'_>) -> T) -> Result<T, String> {
    let parsed = toml::parse(text);
    let (value, mistakes) = parsed.decode(|decoder| {
        let root = TableDecoder::from_root(decoder, "", &parsed.root);
        let value = read(&root);
        root.finish();
        value
    });
    if mistakes.is_empty() {
        return Ok(value);
    }
    let mistakes: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
    Err(mistakes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_of_a_file_are_reported_with_their_lines() {
        let read = |root: &TableDecoder<'_>| {
            let text = root.text("a").map(str::to_owned);
            (text, root.boolean("b"))
        };
        let why = decode_toml("a = 1\nb = yes\nbb = 2\n", read).unwrap_err();
        let mistakes: Vec<&str> = why.split("; line ").collect();
        assert_eq!(
            mistakes.first(),
            Some(&"line 1: `a` must be a string, not an integer")
        );
        assert!(mistakes[1].starts_with("2: column 5: string values must be quoted"));
        assert_eq!(mistakes[2], "3: `bb` is not known");
        assert_eq!(mistakes.len(), 3);
        let sound = decode_toml("a = ''\nb = false", read);
        assert_eq!(sound, Ok((Some(String::new()), Some(false))));
    }
}
