//! Lists of tables: members read one by one, every mistake in a table told at once.

use std::collections::BTreeMap;

use super::raw::Raw;
use super::value_parsers::{Read, text};

/// The form of a table in a list.
pub(super) struct TableSchema {
    /// What a table is, with its article.
    pub(super) what: &'static str,
    /// Its members; the first is its name, which no other of the list has.
    pub(super) members: &'static [&'static str],
    /// The members that must be there.
    pub(super) needed: &'static [&'static str],
}

/// A table that is being read.
pub(super) struct Members<'a> {
    subject: String,
    members: &'a BTreeMap<String, Raw>,
    wrong: Vec<String>,
}

impl TableSchema {
    /// Reads a list of such tables: all of them, so that whoever writes one mends it in one go.
    pub(super) fn list<T>(
        &self,
        raw: &Raw,
        read: impl Fn(&mut Members<'_>) -> Option<T>,
    ) -> Read<Vec<T>> {
        if matches!(raw, Raw::Loose(_)) {
            return Err("can be set in the file alone".to_owned());
        }
        let (mut tables, mut wrong, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for item in raw.items() {
            let Raw::Table(members) = &item else {
                return Err("must be a list of tables".to_owned());
            };
            let mut table = self.open(members);
            tables.extend(read(&mut table));
            wrong.append(&mut table.wrong);
            if let Some(name) = self.name(members) {
                if names.contains(&name) {
                    wrong.push(format!("has {} `{name}` twice", self.noun()));
                }
                names.push(name);
            }
        }
        if wrong.is_empty() {
            Ok(tables)
        } else {
            Err(wrong.join("; "))
        }
    }

    fn noun(&self) -> &str {
        self.what
            .split_once(' ')
            .map_or(self.what, |(_, noun)| noun)
    }

    /// What a table calls itself, as far as that can be said in a sentence.
    fn name(&self, members: &BTreeMap<String, Raw>) -> Option<String> {
        let name = members.get(*self.members.first()?)?;
        text(64)(name).ok()
    }

    /// Notes what is unknown, and what is needed and absent.
    fn open<'a>(&self, members: &'a BTreeMap<String, Raw>) -> Members<'a> {
        let subject = match self.name(members) {
            Some(name) => format!("{} `{name}`", self.what),
            None => self.what.to_owned(),
        };
        let mut wrong = Vec::new();
        for unknown in members.keys() {
            if self.members.contains(&unknown.as_str()) {
                continue;
            }
            let nearest = self.members.iter();
            let nearest = nearest.min_by_key(|known| strsim::osa_distance(unknown, known));
            wrong.push(format!(
                "has {subject} with an unknown member `{unknown}`; the nearest is `{}`",
                nearest.unwrap_or(&"")
            ));
        }
        for needed in self.needed {
            if !members.contains_key(*needed) {
                wrong.push(format!("has {subject} without `{needed}`"));
            }
        }
        Members {
            subject,
            members,
            wrong,
        }
    }
}

impl Members<'_> {
    /// The value of a member; a mistake in it is noted.
    pub(super) fn read<T>(&mut self, name: &str, read: impl Fn(&Raw) -> Read<T>) -> Option<T> {
        match read(self.members.get(name)?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.refuse(name, &why);
                None
            }
        }
    }

    /// Whether a member is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Notes that a member is not as it must be: `why` goes on from its name.
    pub(super) fn refuse(&mut self, name: &str, why: &str) {
        let subject = &self.subject;
        self.wrong
            .push(format!("has {subject} whose `{name}` {why}"));
    }
}
