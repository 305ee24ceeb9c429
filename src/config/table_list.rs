//! Lists of tables. All errors in a table are reported at once.

use std::collections::BTreeMap;

use super::raw::Raw;
use super::value_parsers::{Read, text};

pub(super) struct TableSchema {
    pub(super) what: &'static str,
    /// Member names. The first is the table's name, unique in the list.
    pub(super) members: &'static [&'static str],
    pub(super) needed: &'static [&'static str],
}

pub(super) struct Members<'a> {
    subject: String,
    members: &'a BTreeMap<String, Raw>,
    wrong: Vec<String>,
}

impl TableSchema {
    pub(super) fn list<T>(
        &self,
        raw: &Raw,
        read: impl Fn(&mut Members<'_>) -> Option<T>,
    ) -> Read<Vec<T>> {
        if matches!(raw, Raw::Loose(_)) {
            return Err("can be set only in the file".to_owned());
        }
        let (mut tables, mut wrong, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for item in raw.items() {
            let Raw::Table(members) = &item else {
                return Err("must be a list of tables".to_owned());
            };
            let mut table = self.open(members);
            tables.extend(read(&mut table));
            // The other tables are read too: all mistakes are reported in one run.
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

    fn name(&self, members: &BTreeMap<String, Raw>) -> Option<String> {
        let name = members.get(*self.members.first()?)?;
        text(64)(name).ok()
    }

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
                "has {subject} with an unknown member `{unknown}`; did you mean `{}`?",
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
    /// Reads a member; reports an invalid value.
    pub(super) fn read<T>(&mut self, name: &str, read: impl Fn(&Raw) -> Read<T>) -> Option<T> {
        match read(self.members.get(name)?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.refuse(name, &why);
                None
            }
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Reports an invalid member. `why` continues the sentence after its name.
    pub(super) fn refuse(&mut self, name: &str, why: &str) {
        let subject = &self.subject;
        self.wrong
            .push(format!("has {subject} whose `{name}` {why}"));
    }
}
