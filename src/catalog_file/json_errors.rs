//! Finds the position of the first JSON error and what was expected there. The parser decides what is
//! accepted; this only explains a rejection.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub at: usize,
    pub expected: &'static str,
    line: usize,
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

enum Step {
    Member(String),
    Element(usize),
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<Step>,
    depth: usize,
}

type Scan<T> = Result<T, &'static str>;

#[must_use]
pub(crate) fn first_mistake(bytes: &[u8], depth: usize) -> Option<JsonError> {
    let mut scanner = Scanner {
        bytes,
        at: 0,
        path: Vec::new(),
        depth,
    };
    let expected = scanner.document().err()?;
    let before = bytes.get(..scanner.at).unwrap_or(bytes);
    let line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    // Count a truncated character as one column.
    let begins_character = |b: &&u8| **b & 0xc0 != 0x80;
    Some(JsonError {
        at: scanner.at,
        line: before.iter().filter(|b| **b == b'\n').count() + 1,
        column: line.iter().filter(begins_character).count() + 1,
        member: scanner.member(),
        expected,
    })
}

impl Scanner<'_> {
    fn member(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            // Writing to a `String` cannot fail.
            let _ = match step {
                Step::Element(index) => write!(path, "[{index}]"),
                Step::Member(name) if path.is_empty() => write!(path, "{name}"),
                Step::Member(name) => write!(path, ".{name}"),
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
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn consume(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn document(&mut self) -> Scan<()> {
        self.space();
        self.value(0)?;
        self.space();
        match self.peek() {
            None => Ok(()),
            // Two values in a row, which some parsers accept and others cut off.
            Some(_) => Err("the end of the body"),
        }
    }

    fn value(&mut self, depth: usize) -> Scan<()> {
        match self.peek() {
            // Recursion is bounded by the same limit as in the parser.
            Some(b'{' | b'[') if depth == self.depth => Err("less nesting"),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => Err("a JSON value"),
        }
    }

    fn word(&mut self, word: &str) -> Scan<()> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err("a JSON value");
        }
        self.at += word.len();
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Scan<()> {
        self.at += 1;
        let mut names = HashSet::new();
        self.space();
        if self.consume(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let begin = self.at;
            if self.peek() != Some(b'"') {
                return Err("the name of a member in double quotes");
            }
            let name = self.string()?;
            self.path.push(Step::Member(name.clone()));
            if !names.insert(name) {
                self.at = begin;
                return Err("each member once");
            }
            self.space();
            if !self.consume(b':') {
                return Err("a colon");
            }
            self.space();
            self.value(depth)?;
            self.path.pop();
            self.space();
            if self.consume(b'}') {
                return Ok(());
            }
            if !self.consume(b',') {
                return Err("a comma or a closing brace");
            }
        }
    }

    fn array(&mut self, depth: usize) -> Scan<()> {
        self.at += 1;
        self.space();
        if self.consume(b']') {
            return Ok(());
        }
        for index in 0.. {
            self.space();
            self.path.push(Step::Element(index));
            self.value(depth)?;
            self.path.pop();
            self.space();
            if self.consume(b']') {
                break;
            }
            if !self.consume(b',') {
                return Err("a comma or a closing bracket");
            }
        }
        Ok(())
    }

    /// Scans a string and returns it raw, or decoded if it has escapes: two spellings of a name are the
    /// same member.
    fn string(&mut self) -> Scan<String> {
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
        if let Err(error) = std::str::from_utf8(raw) {
            self.at = begin + error.valid_up_to();
            return Err("UTF-8");
        }
        serde_json::from_slice(raw).map_err(|_| {
            self.at = begin;
            "a string with whole escapes"
        })
    }

    fn escape(&mut self) -> Scan<()> {
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

    fn digits(&mut self) -> Scan<()> {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > begin {
            true => Ok(()),
            false => Err("a digit"),
        }
    }

    fn number(&mut self) -> Scan<()> {
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
        let number = std::str::from_utf8(text)
            .ok()
            .and_then(|t| t.parse::<f64>().ok());
        // The parser rejects such numbers, which are valid JSON otherwise.
        if number.is_none_or(f64::is_infinite) {
            self.at = begin;
            return Err("a number within the range of a double");
        }
        Ok(())
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
            ("{} x", "line 1, column 4: expected the end of the body"),
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
