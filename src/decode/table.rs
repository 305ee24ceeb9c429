//! Decodes tables and members: types, bounds, unknown names. Records every problem with its line.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use chrono::DateTime;

use super::decoder::Decoder;
use super::value::{Node, ObjectMember, Value};
use playgate_types::{Malformed, UnixSeconds};

/// Returns the known name most similar to `name`, if any is similar.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Comparing takes time in the product of the lengths, so very long names are not compared.
    if name.len() > 64 {
        return None;
    }
    // The commonest mistake is another case, which counts as no difference.
    let lower = name.to_lowercase();
    known
        .map(|known| {
            let name = known.to_lowercase();
            // `user` for `username`: an abbreviation, which is far away in letters.
            let likeness = match lower.len() > 2 && name.len() > lower.len() {
                true if name.starts_with(&lower) => 0.99,
                _ => strsim::normalized_damerau_levenshtein(&lower, &name),
            };
            (likeness, known)
        })
        // Below this likeness a suggestion is more often wrong than right.
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(a, first), (b, second)| a.total_cmp(b).then(second.len().cmp(&first.len())))
        .map(|(_, known)| known)
}

/// A table, and the members that were read.
pub struct TableDecoder<'r> {
    decoder: &'r Decoder,
    /// The table's name in messages; empty for a whole file.
    what: String,
    line: u64,
    members: &'r [ObjectMember],
    known: RefCell<Vec<&'static str>>,
}

impl<'r> TableDecoder<'r> {
    pub fn new(decoder: &'r Decoder, what: String, node: &'r Node) -> Option<Self> {
        let Value::Table(members) = &node.value else {
            let message = format!("{what}: {}", node.must_be("a table"));
            decoder.report(node.span.line, message);
            return None;
        };
        Some(Self {
            line: node.span.line,
            ..Self::from_root(decoder, &what, members)
        })
    }

    pub fn from_root(decoder: &'r Decoder, what: &str, members: &'r [ObjectMember]) -> Self {
        Self {
            decoder,
            what: what.to_owned(),
            line: 1,
            members,
            known: RefCell::default(),
        }
    }

    pub fn named(mut self, member: &str) -> Self {
        if let Some(Ok(id)) = self.find(member).map(Node::text) {
            // The id is not checked yet, and may be as long as the file.
            let short: String = id.chars().take(64).collect();
            self.what = format!("{} `{short}`", self.what);
        }
        self
    }

    pub fn what(&self) -> &str {
        &self.what
    }

    fn inner(&self, name: &str) -> String {
        match self.what.as_str() {
            "" => name.to_owned(),
            what => format!("{what}: {name}"),
        }
    }

    fn report_at(&self, line: u64, message: &str) {
        self.decoder.report(line, self.inner(message));
    }

    pub fn report(&self, message: &str) {
        self.report_at(self.line, message);
    }

    /// Reports a mistake of a member. `why` continues the sentence after its name.
    pub fn wrong(&self, name: &str, node: &Node, why: &str) {
        self.report_at(node.span.line, &format!("`{name}` {why}"));
    }

    pub fn has_any(&self, names: &[&str]) -> bool {
        let mut members = self.members.iter();
        members.any(|member| names.contains(&member.name.as_str()))
    }

    fn find(&self, name: &str) -> Option<&'r Node> {
        let member = self.members.iter().find(|member| member.name == name);
        member.map(|member| &member.node)
    }

    pub fn node(&self, name: &'static str) -> Option<&'r Node> {
        // Every name that is asked for is known: the list of names for `finish` cannot become stale.
        self.known.borrow_mut().push(name);
        self.find(name)
    }

    pub fn line(&self, name: &str) -> u64 {
        self.find(name).map_or(self.line, |node| node.span.line)
    }

    /// Returns a member, and reports it if it is missing.
    pub fn needed(&self, name: &'static str) -> Option<&'r Node> {
        let node = self.node(name);
        // After a syntax error the member may be in the part that was not parsed.
        if node.is_none() && !self.decoder.broken {
            self.report(&format!("`{name}` is missing"));
        }
        node
    }

    pub fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'r Node) -> Result<T, String>,
    ) -> Option<T> {
        self.read_node(name, self.node(name)?, read)
    }

    pub fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'r Node) -> Result<T, String>,
    ) -> Option<T> {
        self.read_node(name, self.needed(name)?, read)
    }

    /// Reads a value, which is the member `name` or a part of it.
    pub fn read_node<T>(
        &self,
        name: &str,
        node: &'r Node,
        read: impl FnOnce(&'r Node) -> Result<T, String>,
    ) -> Option<T> {
        // The decoder continues after an invalid value, so that one run reports all mistakes.
        let value = read(node).map_err(|why| self.wrong(name, node, &why));
        value.ok()
    }

    pub fn text(&self, name: &'static str) -> Option<&'r str> {
        self.read(name, Node::text)
    }

    pub fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Option<T> {
        self.parse(name, self.node(name)?, parse)
    }

    pub fn needed_parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Option<T> {
        self.parse(name, self.needed(name)?, parse)
    }

    pub fn parse<T>(
        &self,
        name: &str,
        node: &'r Node,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Option<T> {
        let text = self.read_node(name, node, Node::text)?;
        parse(text)
            .map_err(|Malformed(why)| self.report_at(node.span.line, &format!("`{name}`: {why}")))
            .ok()
    }

    pub fn boolean(&self, name: &'static str) -> Option<bool> {
        self.read(name, Node::boolean)
    }

    pub fn number<N: TryFrom<i64>>(
        &self,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<N> {
        self.read(name, |node| node.number(&range))
    }

    /// Returns a list, which is empty if the member is missing.
    pub fn list(&self, name: &'static str) -> &'r [Node] {
        let list = self.read(name, |node| match &node.value {
            Value::List(nodes) => Ok(nodes.as_slice()),
            _ => Err(node.must_be("a list")),
        });
        list.unwrap_or_default()
    }

    pub fn tables(&self, name: &'static str) -> Vec<Self> {
        let nodes = self.read(name, |node| match (&node.value, self.what.as_str()) {
            (Value::List(nodes), _) => Ok(nodes.as_slice()),
            // At the top of a TOML file single brackets are the usual mistake.
            (_, "") => Err(format!("must be a list of tables, as in `[[{name}]]`")),
            (_, _) => Err(node.must_be("a list of tables")),
        });
        let nodes = nodes.unwrap_or_default().iter();
        nodes.filter_map(|node| self.as_table(name, node)).collect()
    }

    pub fn table(&self, name: &'static str) -> Option<Self> {
        self.as_table(name, self.node(name)?)
    }

    pub fn as_table(&self, name: &str, node: &'r Node) -> Option<Self> {
        TableDecoder::new(self.decoder, self.inner(name), node)
    }

    pub const fn members(&self) -> &'r [ObjectMember] {
        self.members
    }

    /// Returns a time: a TOML date and time, an RFC 3339 text, or Unix seconds.
    pub fn time(&self, name: &'static str) -> Option<UnixSeconds> {
        self.read(name, |node| {
            let text = match &node.value {
                Value::Integer(seconds) => return Ok(UnixSeconds(*seconds)),
                Value::Time(text) | Value::Text(text) => text,
                _ => return Err(node.must_be("a date and time such as 2026-01-01T00:00:00Z")),
            };
            DateTime::parse_from_rfc3339(text)
                .map(|time| UnixSeconds(time.timestamp()))
                .map_err(|_| {
                    "must be a date and time with its offset, such as 2026-01-01T00:00:00Z"
                        .to_owned()
                })
        })
    }

    /// Reports the members that were not read, each with the most similar known name.
    pub fn finish(self) {
        let known = self.known.borrow();
        for ObjectMember {
            name, name_span, ..
        } in self.members
        {
            if known.contains(&name.as_str()) {
                continue;
            }
            let hint = nearest(name, known.iter().copied())
                .map(|known| format!("; did you mean `{known}`?"))
                .unwrap_or_default();
            self.report_at(name_span.line, &format!("`{name}` is not known{hint}"));
        }
    }
}
