//! Sources of values: file, environment, flags; later ones override earlier ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::keys::Config;
use super::schema::Given;
use super::{ConfigProblems, Provenance, cdn};
use playgate_decode::{Mistake, Node, ObjectMember, Parsed, Value, toml};
use playgate_ports::named_file;
use playgate_ports::watched_file::readable_by_all;

const PREFIX: &str = "PLAYGATE_";
/// Environment variable of Playgate that is not a configuration key.
pub(super) const UNSAFE_NO_SYNC: &str = "PLAYGATE_UNSAFE_NO_SYNC";
/// Environment variable with the path of the file.
pub const CONFIG_FILE: &str = "PLAYGATE_CONFIG";
/// Edit distance up to which an unknown variable counts as a typing error.
const TYPO_DISTANCE_MAX: usize = 2;

const FILE_MAX: u64 = 1024 * 1024;

/// Values by full key; the path of a secret's file is under `key_file`.
pub(super) struct ConfigSources<'a> {
    pub(super) given: BTreeMap<String, Given>,
    pub(super) problems: &'a mut ConfigProblems,
    pub(super) warnings: Vec<String>,
    names: KnownNames,
}

struct KnownNames {
    keys: BTreeSet<String>,
    sections: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl KnownNames {
    fn new() -> Self {
        let mut names = Self {
            keys: BTreeSet::new(),
            sections: BTreeSet::new(),
            secrets: BTreeSet::new(),
        };
        for (prefix, keys) in Config::SECTIONS {
            for (at, _) in prefix.match_indices('.') {
                names.sections.extend(prefix.get(..at).map(str::to_owned));
            }
            for key in *keys {
                let name = format!("{prefix}{}", key.name);
                if key.secret {
                    // A secret may also be given as the path of its file.
                    names.keys.insert(format!("{name}_file"));
                    names.secrets.insert(name.clone());
                }
                names.keys.insert(name);
            }
        }
        names
    }

    fn nearest(&self, unknown: &str) -> &str {
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let distance = |known: &&String| {
            // `smtp.user` for `smtp.username`: an abbreviation, which is far away in letters.
            if let Some(rest) = known.strip_prefix(unknown)
                && !rest.contains('.')
            {
                return 1;
            }
            let whole = strsim::osa_distance(unknown, known);
            // The section may have been forgotten.
            let tail = strsim::osa_distance(&last(unknown), &last(known));
            whole.min(tail + 2)
        };
        self.keys
            .iter()
            .min_by_key(distance)
            .map_or("", |name| name)
    }

    fn unknown(&self, name: &str) -> String {
        format!(
            "unknown key `{name}`; did you mean `{}`?",
            self.nearest(name)
        )
    }
}

impl<'a> ConfigSources<'a> {
    pub(super) fn new(problems: &'a mut ConfigProblems) -> Self {
        Self {
            given: BTreeMap::new(),
            problems,
            warnings: Vec::new(),
            names: KnownNames::new(),
        }
    }

    pub(super) fn file(&mut self, path: &Path, named: bool) {
        let text = match read_file(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => return,
            Err(error) => {
                let mut message = format!("cannot read {}: {error}", path.display());
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    message.push_str("; root and members of the service's group can");
                }
                return self.problems.add(None, message);
            }
        };
        // Continues after a syntax error: the keys of the other lines are checked in the same run.
        let file = toml::parse(&text);
        for Mistake { line, message } in &file.errors {
            let origin = file_origin(path, *line);
            self.problems.add(Some(origin), message.clone());
        }
        self.table(path, &file, "", &file.root);
        self.refuse_open_secrets(path);
    }

    fn table(&mut self, path: &Path, file: &Parsed, prefix: &str, members: &[ObjectMember]) {
        for member in members {
            let name = format!("{prefix}{}", member.name);
            let line = member.name_span.line;
            // After a syntax error the parser guesses the value of the line.
            if file.is_broken(line) {
                continue;
            }
            let origin = file_origin(path, line);
            let known = self.names.keys.contains(&name);
            match &member.node.value {
                Value::Table(inner) if !known && !inner.is_empty() => {
                    self.table(path, file, &format!("{name}."), inner);
                }
                // An empty section sets nothing.
                Value::Table(_) if self.names.sections.contains(&name) => {}
                _ if known => {
                    let raw = member.node.clone();
                    self.given.insert(name, Given { raw, origin });
                }
                _ if self.names.sections.contains(&name) => self
                    .problems
                    .add(Some(origin), format!("`{name}` is a section, not a key")),
                _ => self.problems.add(Some(origin), self.names.unknown(&name)),
            }
        }
    }

    fn refuse_open_secrets(&mut self, path: &Path) {
        let found = named_file::open(path).and_then(|file| file.metadata());
        let open = found.is_ok_and(|found| readable_by_all(path, found.mode()));
        let secret = self.given.iter().find(|(name, given)| {
            let in_list = *name == cdn::SECRET.0 && has(&given.raw, cdn::SECRET.1);
            let has_password = *name == "epg.sources" && has(&given.raw, "password");
            in_list || has_password || self.names.secrets.contains(*name)
        });
        if let (true, Some((name, given))) = (open, secret) {
            let message = format!(
                "`{name}` is a secret, but this file is readable by all users of this machine; \
                 run: chmod o= {}",
                path.display()
            );
            self.problems.add(Some(given.origin.clone()), message);
        }
    }

    pub(super) fn environment(&mut self, variables: &[(OsString, OsString)]) {
        let by_variable: BTreeMap<String, String> = self
            .names
            .keys
            .iter()
            .map(|name| (variable_of(name), name.clone()))
            .collect();
        for (variable, value) in variables {
            let Some(variable) = variable.to_str().filter(|name| is_ours(name)) else {
                continue;
            };
            let origin = Provenance::Variable(variable.to_owned());
            let Some(value) = value.to_str() else {
                self.problems.add(Some(origin), "is not UTF-8");
                continue;
            };
            let Some(name) = by_variable.get(variable) else {
                self.unknown_variable(variable, &by_variable);
                continue;
            };
            let raw = Node::loose(value);
            self.given.insert(name.clone(), Given { raw, origin });
        }
    }

    fn unknown_variable(&mut self, variable: &str, known: &BTreeMap<String, String>) {
        let distance = |known: &&String| strsim::osa_distance(variable, known);
        let nearest = known.keys().min_by_key(distance);
        let typo = nearest.is_some_and(|known| distance(&known) <= TYPO_DISTANCE_MAX);
        let of_section = self.names.sections.iter().any(|section| {
            let prefix = variable_of(section);
            variable
                .strip_prefix(&prefix)
                .is_some_and(|rest| rest.starts_with('_'))
        });
        // The user may have forgotten the section.
        let tail = variable.strip_prefix(PREFIX).unwrap_or_default();
        let of_key = tail.contains('_')
            && known
                .keys()
                .any(|known| known.ends_with(&format!("_{tail}")));
        let nearest = nearest.map_or("", |name| name);
        let message = format!("unknown variable; did you mean {nearest}?");
        // A mistyped key must not be ignored. Any other variable with the prefix may belong to a script or a test.
        if typo || of_section || of_key {
            let origin = Provenance::Variable(variable.to_owned());
            self.problems.add(Some(origin), message);
        } else {
            self.warnings
                .push(format!("variable {variable}: {message}"));
        }
    }

    pub(super) fn flags(&mut self, flags: &[(&'static str, &'static str, String)]) {
        for (name, flag, value) in flags {
            let raw = Node::loose(value);
            let origin = Provenance::Flag((*flag).to_owned());
            self.given.insert((*name).to_owned(), Given { raw, origin });
        }
    }
}

pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

fn is_ours(variable: &str) -> bool {
    // Kubernetes sets these in every container of a namespace with a service named `playgate`.
    let of_kubernetes = variable == "PLAYGATE_PORT"
        || variable.starts_with("PLAYGATE_PORT_")
        || variable.starts_with("PLAYGATE_SERVICE_");
    variable.starts_with(PREFIX)
        && !of_kubernetes
        && ![UNSAFE_NO_SYNC, CONFIG_FILE].contains(&variable)
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    // A wrong path, such as a log or a database, must not be read into memory.
    named_file::open(path)?
        .take(FILE_MAX + 1)
        .read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > FILE_MAX) {
        return Err(std::io::Error::other("the file is over 1 MiB"));
    }
    Ok(text)
}

fn file_origin(path: &Path, line: u64) -> Provenance {
    Provenance::File {
        path: path.to_owned(),
        line,
    }
}

fn has(value: &Node, name: &str) -> bool {
    match &value.value {
        Value::Table(members) => members
            .iter()
            .any(|member| member.name == name || has(&member.node, name)),
        Value::List(items) => items.iter().any(|item| has(item, name)),
        _ => false,
    }
}
