//! A JSON scanner with positions. It finds the first error of a text and what was expected there, and reads files
//! to [`Node`]s. `serde_json` decides what is accepted; a test proves that both agree.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde::de::IgnoredAny;

use super::value::Span;
use super::{Mistake, Node, ObjectMember, Parsed, Value};

/// Nesting limit of files; a catalogue needs four levels.
const FILE_DEPTH: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    expected: &'static str,
    line: u64,
    /// In characters, counted from 1.
    column: usize,
    /// Path of the member with the error, such as `events[2].action`; empty at the top level.
    member: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)?;
        if !self.member.is_empty() {
            write!(f, ", member {}", self.member)?;
        }
        write!(f, ": expected {}", self.expected)
    }
}

const MEMBER_MAX: usize = 64;

enum JsonStep {
    Member(String),
    Element(usize),
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<JsonStep>,
    /// The line of `at`, counted from 1. A string has no line ends, so only white space moves it.
    line: u64,
    depth: usize,
    /// Whether lists and tables keep their content: a rejected body is only scanned.
    keep: bool,
}

type JsonScan<T> = Result<T, &'static str>;

/// Parses a file up to its first syntax error; JSON does not allow recovery.
pub(super) fn parse(text: &str) -> Parsed {
    let mistake = |line, message: String| Parsed {
        root: Vec::new(),
        errors: vec![Mistake { line, message }],
    };
    let mut scanner = Scanner::new(text.as_bytes(), FILE_DEPTH, true);
    match scanner.document() {
        Err(expected) => mistake(scanner.line, format!("expected {expected}")),
        // `serde_json` has the last word: it rejects what the scanner accepts by mistake.
        Ok(_) if serde_json::from_str::<IgnoredAny>(text).is_err() => {
            mistake(0, "is not valid JSON".to_owned())
        }
        Ok(Node {
            value: Value::Table(root),
            ..
        }) => Parsed {
            root,
            errors: Vec::new(),
        },
        Ok(node) => {
            let kind = node.value.kind();
            mistake(node.span.line, format!("must be a JSON object, not {kind}"))
        }
    }
}

/// Finds the first error of a text, or nesting deeper than `depth`.
pub(crate) fn first_mistake(bytes: &[u8], depth: usize) -> Option<JsonError> {
    let mut scanner = Scanner::new(bytes, depth, false);
    let expected = scanner.document().err()?;
    let before = bytes.get(..scanner.at).unwrap_or(bytes);
    let line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    // Count a truncated character as one column.
    let begins_character = |b: &&u8| **b & 0xc0 != 0x80;
    Some(JsonError {
        line: scanner.line,
        column: line.iter().filter(begins_character).count() + 1,
        member: scanner.member(),
        expected,
    })
}

impl<'a> Scanner<'a> {
    const fn new(bytes: &'a [u8], depth: usize, keep: bool) -> Self {
        Self {
            bytes,
            at: 0,
            path: Vec::new(),
            line: 1,
            depth,
            keep,
        }
    }

    fn member(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            // Writing to a `String` cannot fail.
            let _ = match step {
                JsonStep::Element(index) => write!(path, "[{index}]"),
                JsonStep::Member(name) if path.is_empty() => write!(path, "{name}"),
                JsonStep::Member(name) => write!(path, ".{name}"),
            };
        }
        // The path is part of the response: names from the request must not smuggle markup or secrets into
        // it.
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.[]".contains(c);
        if path.len() > MEMBER_MAX || !path.chars().all(plain) {
            path.clear();
        }
        path
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n')) = self.peek() {
            self.at += 1;
            // Lines can end only here: a line end inside of a string is refused.
            self.line += u64::from(byte == b'\n');
        }
    }

    fn consume(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    const fn span(&self, start: usize, line: u64) -> Span {
        let end = self.at;
        Span { start, end, line }
    }

    fn document(&mut self) -> JsonScan<Node> {
        self.space();
        let node = self.node(0)?;
        self.space();
        match self.peek() {
            None => Ok(node),
            Some(_) => Err("the end of the input"),
        }
    }

    fn node(&mut self, depth: usize) -> JsonScan<Node> {
        let (start, line) = (self.at, self.line);
        let value = self.value(depth)?;
        let span = self.span(start, line);
        Ok(Node { span, value })
    }

    fn value(&mut self, depth: usize) -> JsonScan<Value> {
        match self.peek() {
            // Recursion is bounded by the same limit as in the parser.
            Some(b'{' | b'[') if depth == self.depth => Err("less nesting"),
            Some(b'{') => self.object(depth + 1).map(Value::Table),
            Some(b'[') => self.array(depth + 1).map(Value::List),
            Some(b'"') => self.string().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Boolean(true)),
            Some(b'f') => self.word("false", Value::Boolean(false)),
            Some(b'n') => self.word("null", Value::Other("null")),
            _ => Err("a JSON value"),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> JsonScan<Value> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err("a JSON value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> JsonScan<Vec<ObjectMember>> {
        self.at += 1;
        let mut names = HashSet::new();
        let mut members = Vec::new();
        self.space();
        if self.consume(b'}') {
            return Ok(members);
        }
        loop {
            self.space();
            let begin = self.at;
            if self.peek() != Some(b'"') {
                return Err("the name of a member in double quotes");
            }
            let name = self.string()?;
            let name_span = self.span(begin, self.line);
            self.path.push(JsonStep::Member(name.clone()));
            // Parsers differ in which of two members they keep.
            if !names.insert(name.clone()) {
                self.at = begin;
                return Err("each member once");
            }
            self.space();
            if !self.consume(b':') {
                return Err("a colon");
            }
            self.space();
            let node = self.node(depth)?;
            if self.keep {
                members.push(ObjectMember {
                    name,
                    name_span,
                    node,
                });
            }
            self.path.pop();
            self.space();
            if self.consume(b'}') {
                return Ok(members);
            }
            if !self.consume(b',') {
                return Err("a comma or a closing brace");
            }
        }
    }

    fn array(&mut self, depth: usize) -> JsonScan<Vec<Node>> {
        self.at += 1;
        let mut nodes = Vec::new();
        self.space();
        if self.consume(b']') {
            return Ok(nodes);
        }
        for index in 0.. {
            self.space();
            self.path.push(JsonStep::Element(index));
            let node = self.node(depth)?;
            if self.keep {
                nodes.push(node);
            }
            self.path.pop();
            self.space();
            if self.consume(b']') {
                break;
            }
            if !self.consume(b',') {
                return Err("a comma or a closing bracket");
            }
        }
        Ok(nodes)
    }

    /// Scans a string and returns it raw, or decoded if it has escapes: two spellings of a name are the
    /// same member.
    fn string(&mut self) -> JsonScan<String> {
        let begin = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err("a closing double quote"),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => return Err("an escape in place of a control character"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let raw = self.bytes.get(begin..self.at).unwrap_or_default();
        // Strings are the only place where other bytes than ASCII are accepted, so UTF-8 is checked only here.
        if let Err(error) = std::str::from_utf8(raw) {
            self.at = begin + error.valid_up_to();
            return Err("UTF-8");
        }
        // Decodes the escapes, and rejects unpaired surrogates.
        serde_json::from_slice(raw).map_err(|_| {
            self.at = begin;
            "a string with whole escapes"
        })
    }

    fn escape(&mut self) -> JsonScan<()> {
        const EXPECTED: &str = "an escape such as \\n or \\u00e4";
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(EXPECTED);
                }
                self.at += 6;
            }
            _ => return Err(EXPECTED),
        }
        Ok(())
    }

    fn digits(&mut self) -> JsonScan<()> {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > begin {
            true => Ok(()),
            false => Err("a digit"),
        }
    }

    fn number(&mut self) -> JsonScan<Value> {
        let begin = self.at;
        self.consume(b'-');
        if !self.consume(b'0') {
            self.digits()?;
        } else if matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err("a number without leading zeros");
        }
        if self.consume(b'.') {
            self.digits()?;
        }
        if self.consume(b'e') || self.consume(b'E') {
            if !self.consume(b'+') {
                self.consume(b'-');
            }
            self.digits()?;
        }
        let text = self.bytes.get(begin..self.at).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        // `serde_json` rejects these numbers, although they are valid JSON.
        if !text.parse().is_ok_and(f64::is_finite) {
            self.at = begin;
            return Err("a number within the range of a double");
        }
        let other = Value::Other("a number that is not an integer, or out of range");
        Ok(text.parse().map_or(other, Value::Integer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_position_and_the_expected_token() {
        for (text, message) in [
            ("", "line 1, column 1: expected a JSON value"),
            (" \n ", "line 2, column 2: expected a JSON value"),
            (
                "{",
                "line 1, column 2: expected the name of a member in double quotes",
            ),
            ("{\"a\"", "line 1, column 5, member a: expected a colon"),
            (
                "{\"a\":",
                "line 1, column 6, member a: expected a JSON value",
            ),
            (
                "{\"a\":\"ä\nb\"}",
                "line 1, column 8, member a: expected an escape in place of a control character",
            ),
            (
                "{\"a\": 1 \"b\"}",
                "line 1, column 9: expected a comma or a closing brace",
            ),
            (
                "{\"a\":[1,\n {\"b\":tru}]}",
                "line 2, column 7, member a[1].b: expected a JSON value",
            ),
            (
                "{\"a\":1,}",
                "line 1, column 8: expected the name of a member in double quotes",
            ),
            (
                "{\"a\":1,\"\\u0061\":2}",
                "line 1, column 8, member a: expected each member once",
            ),
            (
                "{\"a\":\"x",
                "line 1, column 8, member a: expected a closing double quote",
            ),
            (
                "{\"a\":01}",
                "line 1, column 7, member a: expected a number without leading zeros",
            ),
            (
                "{\"a\":1e999}",
                "line 1, column 6, member a: expected a number within the range of a double",
            ),
            (
                "{\"a\":\"\\x\"}",
                "line 1, column 7, member a: expected an escape such as \\n or \\u00e4",
            ),
            ("{\"a b\":x}", "line 1, column 8: expected a JSON value"),
            ("{} x", "line 1, column 4: expected the end of the input"),
        ] {
            let mistake = first_mistake(text.as_bytes(), 32).map(|mistake| mistake.to_string());
            assert_eq!(mistake.as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn it_agrees_with_the_parser_on_corrupted_texts() {
        const SEED: &str = "{\"a\": [1, -2.5e3, true, null, \"x\\n\\u00e4ö\\ud83d\\ude00\"], \"b\": {\"c\": {}, \"d\": []}}\n";
        let pieces = [
            "", "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "-", "1e9", "e", "\\u12", "\\ud800",
            "\n", "\0", "\u{e4}", "null", " ", ".",
        ];
        for at in 0..SEED.len() {
            for piece in pieces {
                for cut in 0..3 {
                    let mut bytes = SEED.as_bytes()[..at].to_vec();
                    bytes.extend_from_slice(piece.as_bytes());
                    bytes.extend_from_slice(SEED.as_bytes().get(at + cut..).unwrap_or_default());
                    let read = serde_json::from_slice::<serde_json::Value>(&bytes);
                    let accepted = read.is_ok();
                    let mistake = first_mistake(&bytes, 32);
                    let text = String::from_utf8_lossy(&bytes);
                    assert_eq!(mistake.is_none(), accepted, "{text}: {mistake:?}");
                }
            }
        }
    }
}
