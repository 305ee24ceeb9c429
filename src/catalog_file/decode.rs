//! Decodes tables and members: types, bounds, unknown names. Records every problem with its line.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use chrono::DateTime;

use super::OpenKeyFile;
use super::value::{Lines, Member, Node, Value};
use crate::domain::catalog::{Problem, Window};
use crate::types::{Malformed, UnixSeconds};

pub(super) struct Decoder<'a> {
    lines: &'a Lines,
    pub(super) open: Option<OpenKeyFile<'a>>,
    torn: bool,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(lines: &'a Lines, open: Option<OpenKeyFile<'a>>, torn: bool) -> Self {
        Self {
            lines,
            open,
            torn,
            problems: RefCell::default(),
        }
    }

    pub(super) fn problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    pub(super) fn line(&self, node: &Node) -> u64 {
        self.lines.line(node.span.start)
    }

    fn report(&self, at: usize, message: String) {
        let line = self.lines.line(at);
        self.problems.borrow_mut().push(Problem { line, message });
    }

    /// Returns the tables of a list; reports a problem if it is not one.
    pub(super) fn tables<'r>(&'r self, member: &'r Member) -> Vec<TableDecoder<'r>> {
        let what = &member.name;
        let Value::List(nodes) = &member.node.value else {
            let message = format!("`{what}` must be a list of tables, as in `[[{what}]]`");
            self.report(member.name_span.start, message);
            return Vec::new();
        };
        nodes
            .iter()
            .filter_map(|node| TableDecoder::new(self, what.clone(), node))
            .collect()
    }

    /// Reports an unknown name and suggests the most similar known one.
    pub(super) fn unknown(&self, what: &str, member: &Member, known: &[&str]) {
        let name = &member.name;
        let nearest = nearest(name, known.iter().copied());
        let hint = nearest
            .map(|known| format!("; did you mean `{known}`?"))
            .unwrap_or_default();
        let prefix = if what.is_empty() {
            String::new()
        } else {
            format!("{what}: ")
        };
        let message = format!("{prefix}`{name}` is not known{hint}");
        self.report(member.name_span.start, message);
    }
}

/// Returns the known name most similar to `name`, if any is similar.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Comparing takes time in the product of the lengths, so very long names are not compared.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_lowercase();
    known
        .map(|known| {
            (
                strsim::normalized_damerau_levenshtein(&lower, &known.to_lowercase()),
                known,
            )
        })
        // Below that a suggestion is more often wrong than right.
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// A table, and the members that were read.
pub(super) struct TableDecoder<'r> {
    reader: &'r Decoder<'r>,
    /// The table's name in messages.
    what: String,
    at: usize,
    members: &'r [Member],
    known: RefCell<Vec<&'static str>>,
}

impl<'r> TableDecoder<'r> {
    /// Returns the table of a node; reports a problem if it is not a table.
    fn new(reader: &'r Decoder<'r>, what: String, node: &'r Node) -> Option<Self> {
        let Value::Table(members) = &node.value else {
            let message = format!("{what}: must be a table, not {}", node.value.kind());
            reader.report(node.span.start, message);
            return None;
        };
        Some(Self {
            reader,
            what,
            at: node.span.start,
            members,
            known: RefCell::default(),
        })
    }

    pub(super) fn from_root(reader: &'r Decoder<'r>, what: &str, members: &'r [Member]) -> Self {
        Self {
            reader,
            what: what.to_owned(),
            at: 0,
            members,
            known: RefCell::default(),
        }
    }

    /// Adds the id to the table's name in messages.
    pub(super) fn named(mut self, member: &str) -> Self {
        let id = self.members.iter().find(|one| one.name == member);
        if let Some(Value::Text(id)) = id.map(|one| &one.node.value) {
            // The id is not checked yet, and may be as long as the file.
            let short: String = id.chars().take(64).collect();
            self.what = format!("{} `{short}`", self.what);
        }
        self
    }

    pub(super) fn what(&self) -> &str {
        &self.what
    }

    pub(super) fn report(&self, message: &str) {
        let message = format!("{}: {message}", self.what);
        self.reader.report(self.at, message);
    }

    pub(super) fn wrong(&self, name: &str, node: &Node, why: &str) {
        self.report_at(node, &format!("`{name}` {why}"));
    }

    fn report_at(&self, node: &Node, message: &str) {
        let message = format!("{}: {message}", self.what);
        self.reader.report(node.span.start, message);
    }

    /// Returns whether there is a member with one of these names.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        let mut members = self.members.iter();
        members.any(|member| names.contains(&member.name.as_str()))
    }

    fn mismatch(&self, name: &str, node: &Node, wanted: &str) {
        self.wrong(
            name,
            node,
            &format!("must be {wanted}, not {}", node.value.kind()),
        );
    }

    /// Returns a member and marks its name as known.
    pub(super) fn node(&self, name: &'static str) -> Option<&'r Node> {
        // Every name that is asked for is known: the list of names for `finish` cannot become stale.
        self.known.borrow_mut().push(name);
        let member = self.members.iter().find(|member| member.name == name);
        member.map(|member| &member.node)
    }

    /// The line of a member, or of the table if the member is missing.
    pub(super) fn line(&self, name: &str) -> u64 {
        let member = self.members.iter().find(|member| member.name == name);
        let at = member.map_or(self.at, |member| member.node.span.start);
        self.reader.lines.line(at)
    }

    /// Returns a required member; reports it if it is missing.
    fn needed(&self, name: &'static str) -> Option<&'r Node> {
        let node = self.node(name);
        // After a syntax error the member may be in the part that was not parsed.
        if node.is_none() && !self.reader.torn {
            self.report(&format!("`{name}` is missing"));
        }
        node
    }

    pub(super) fn text(&self, name: &'static str) -> Option<&'r str> {
        self.node(name).and_then(|node| self.as_text(name, node))
    }

    pub(super) fn as_text(&self, name: &str, node: &'r Node) -> Option<&'r str> {
        match &node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.mismatch(name, node, "a string");
                None
            }
        }
    }

    pub(super) fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Malformed>,
    ) -> Option<T> {
        let node = self.node(name)?;
        self.parse(name, node, parse)
    }

    pub(super) fn needed_parsed<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Malformed>,
    ) -> Option<T> {
        let node = self.needed(name)?;
        self.parse(name, node, parse)
    }

    pub(super) fn parse<T>(
        &self,
        name: &str,
        node: &'r Node,
        parse: impl Fn(&str) -> Result<T, Malformed>,
    ) -> Option<T> {
        let text = self.as_text(name, node)?;
        parse(text)
            .map_err(|Malformed(why)| self.report_at(node, &format!("`{name}`: {why}")))
            .ok()
    }

    pub(super) fn boolean(&self, name: &'static str) -> Option<bool> {
        let node = self.node(name)?;
        match node.value {
            Value::Boolean(value) => Some(value),
            _ => {
                self.mismatch(name, node, "true or false");
                None
            }
        }
    }

    pub(super) fn number<N: TryFrom<i64> + Copy>(
        &self,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<N> {
        let node = self.node(name)?;
        let Value::Integer(number) = node.value else {
            self.mismatch(name, node, "an integer");
            return None;
        };
        let fitting = Some(number).filter(|number| range.contains(number));
        let value = fitting.and_then(|number| N::try_from(number).ok());
        if value.is_none() {
            let why = format!("must be from {} to {}", range.start(), range.end());
            self.wrong(name, node, &why);
        }
        value
    }

    /// Returns a list; a single value stands for a list of one where the name is singular.
    pub(super) fn list(&self, name: &'static str) -> &'r [Node] {
        let Some(node) = self.node(name) else {
            return &[];
        };
        match &node.value {
            Value::List(nodes) => nodes,
            _ => {
                self.mismatch(name, node, "a list");
                &[]
            }
        }
    }

    pub(super) fn tables(&self, name: &'static str) -> Vec<Self> {
        let what = || format!("{}: {name}", self.what);
        let nodes = self.list(name).iter();
        nodes
            .filter_map(|node| TableDecoder::new(self.reader, what(), node))
            .collect()
    }

    pub(super) fn table(&self, name: &'static str) -> Option<Self> {
        let node = self.node(name)?;
        self.as_table(name, node)
    }

    pub(super) fn as_table(&self, name: &str, node: &'r Node) -> Option<Self> {
        TableDecoder::new(self.reader, format!("{}: {name}", self.what), node)
    }

    pub(super) const fn members(&self) -> &'r [Member] {
        self.members
    }

    /// Returns a time: a TOML date and time, an RFC 3339 text, or Unix seconds.
    pub(super) fn time(&self, name: &'static str) -> Option<UnixSeconds> {
        let node = self.node(name)?;
        let text = match &node.value {
            Value::Integer(seconds) => return Some(UnixSeconds(*seconds)),
            Value::Time(text) | Value::Text(text) => text,
            _ => {
                self.mismatch(name, node, "a date and time such as 2026-01-01T00:00:00Z");
                return None;
            }
        };
        match DateTime::parse_from_rfc3339(text) {
            Ok(time) => Some(UnixSeconds(time.timestamp())),
            Err(_) => {
                let why = "must be a date and time with its offset, such as 2026-01-01T00:00:00Z";
                self.wrong(name, node, why);
                None
            }
        }
    }

    pub(super) fn window(&self, name: &'static str) -> Window {
        self.table(name)
            .map(|table| table.into_window())
            .unwrap_or_default()
    }

    pub(super) fn into_window(self) -> Window {
        let window = Window {
            from: self.time("from"),
            to: self.time("to"),
        };
        if let (Some(from), Some(to)) = (window.from, window.to)
            && to <= from
        // an empty window would silently make the item unavailable
        {
            self.report("`to` must be after `from`");
        }
        self.finish();
        window
    }

    pub(super) fn reader(&self) -> &'r Decoder<'r> {
        self.reader
    }

    /// Reports the members that were not read.
    pub(super) fn finish(self) {
        let known = self.known.into_inner();
        for member in self.members {
            if !known.contains(&member.name.as_str()) {
                self.reader.unknown(&self.what, member, &known);
            }
        }
    }
}
