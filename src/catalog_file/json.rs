//! Parses JSON to values with positions.
//!
//! `serde_json` reports lines only for syntax errors. Its raw values borrow from the text, so their address
//! gives their position in the file.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::json_errors::first_mistake;
use super::value::{Member, Node, Parsed, SyntaxError, Value};

/// Nesting limit; a catalogue needs four levels. Each level parses its text again, so this also limits the
/// time.
const DEPTH_MAX: usize = 8;

/// Parses a file up to its first syntax error; JSON does not allow recovery.
pub(super) fn parse(text: &str) -> Parsed {
    let result = serde_json::from_str::<&RawValue>(text)
        // serde_json's own text would be the words of a library. Only a rejected file is read a second time.
        .map_err(|_| mistake(text))
        .and_then(|raw| Reader { text }.node(raw, 0));
    match result {
        Ok(Node {
            value: Value::Table(root),
            ..
        }) => Parsed {
            root,
            errors: Vec::new(),
        },
        Ok(node) => {
            let message = format!("must be a JSON object, not {}", node.value.kind());
            let at = node.span.start;
            failed(SyntaxError { at, message })
        }
        Err(error) => failed(error),
    }
}

fn failed(error: SyntaxError) -> Parsed {
    Parsed {
        root: Vec::new(),
        errors: vec![error],
    }
}

const EXPLAINED_DEPTH: usize = 127;

fn mistake(text: &str) -> SyntaxError {
    match first_mistake(text.as_bytes(), EXPLAINED_DEPTH) {
        Some(mistake) => SyntaxError {
            at: mistake.at,
            message: format!("expected {}", mistake.expected),
        },
        None => SyntaxError {
            at: 0,
            message: "is not valid JSON".to_owned(),
        },
    }
}

struct Reader<'t> {
    text: &'t str,
}

impl Reader<'_> {
    fn node(&self, raw: &RawValue, depth: usize) -> Result<Node, SyntaxError> {
        let text = raw.get();
        let at = self.offset(text);
        // The text is valid JSON, except that a string may contain an escape that is not a character.
        let failed = || SyntaxError {
            at,
            message: "has an escape that is not a character".to_owned(),
        };
        if depth > DEPTH_MAX {
            let message = "is nested too deep".to_owned();
            return Err(SyntaxError { at, message });
        }
        let value = match text.bytes().next() {
            Some(b'{') => {
                let Pairs(pairs) = serde_json::from_str(text).map_err(|_| failed())?;
                Value::Table(self.members(pairs, depth)?)
            }
            Some(b'[') => {
                let values: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| failed())?;
                let nodes = values.into_iter().map(|value| self.node(value, depth + 1));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Value::Text(serde_json::from_str(text).map_err(|_| failed())?),
            Some(b't') => Value::Boolean(true),
            Some(b'f') => Value::Boolean(false),
            Some(b'n') => Value::Other("null"),
            _ => match text.parse() {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::Other("a number that is not an integer, or out of range"),
            },
        };
        let span = at..at + text.len();
        Ok(Node { span, value })
    }

    fn members(
        &self,
        pairs: Vec<(&RawValue, &RawValue)>,
        depth: usize,
    ) -> Result<Vec<Member>, SyntaxError> {
        let mut members = Vec::with_capacity(pairs.len());
        let mut names = HashSet::new();
        for (name, value) in pairs {
            let at = self.offset(name.get());
            let name_span = at..at + name.get().len();
            let name: String = serde_json::from_str(name.get()).map_err(|_| SyntaxError {
                at,
                message: "has an escape that is not a character".to_owned(),
            })?;
            // Parsers differ in which of two members they take; another tool could check a different file
            // than we import.
            if !names.insert(name.clone()) {
                let message = format!("duplicate member `{name}`");
                return Err(SyntaxError { at, message });
            }
            let node = self.node(value, depth + 1)?;
            members.push(Member {
                name,
                name_span,
                node,
            });
        }
        Ok(members)
    }

    fn offset(&self, part: &str) -> usize {
        part.as_ptr()
            .addr()
            .saturating_sub(self.text.as_ptr().addr())
    }
}

/// The members of an object; names include their quotes.
struct Pairs<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'t> Deserialize<'t> for Pairs<'t> {
    fn deserialize<D: serde::Deserializer<'t>>(from: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'t> Visitor<'t> for Collect {
            type Value = Pairs<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        from.deserialize_map(Collect)
    }
}
