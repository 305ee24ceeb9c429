//! The catalogue file: TOML or JSON to what the catalogue imports, and back.
//!
//! Both the command line and the administration interface read it here. It knows names, forms and
//! lines; whether things fit together is checked where they are imported. Nothing here opens a
//! file: whoever reads a catalogue hands in what opens the key files that it names.

mod decode;
mod encode;
mod inline_keys;
mod items;
mod json;
pub mod json_errors;
mod rights;
mod toml;
mod value;

#[cfg(test)]
mod tests;

use std::io;

pub use encode::{rights_to_json, rule_to_json, to_json, to_toml};
pub use inline_keys::inline_key_files;

use crate::domain::catalog::{CatalogImport, Effects, Problem};
use decode::Decoder;
use value::{Lines, Member, Parsed};

/// The largest catalogue file, in bytes.
pub const FILE_MAX: usize = 16 * 1024 * 1024;

/// Opens a key file by the path that the catalogue file gives.
pub type OpenKeyFile<'a> = &'a dyn Fn(&str) -> io::Result<Vec<u8>>;

/// Reads a file, told to be JSON by its first character and TOML otherwise. It reports every mistake
/// in [`CatalogImport::problems`]. Without `open` a `key_file` is a mistake: a server must not read
/// paths that come from outside.
#[must_use]
pub fn parse(text: &str, open: Option<OpenKeyFile<'_>>) -> CatalogImport {
    // Decision: what an export that failed left behind must not take everything away.
    if without_mark(text).trim().is_empty() {
        return unreadable("the file is empty; `livestream = []` says that there is to be nothing");
    }
    read(text, open, items::read)
}

/// Reads one rule: a document of the members that a `[[rule]]` has.
#[must_use]
pub fn parse_rule(text: &str) -> CatalogImport {
    read(text, None, rights::one_rule)
}

/// Reads what is said about rights: a document of those members that a `[[broadcast]]` has beside
/// its id.
///
/// # Errors
/// Every mistake.
pub fn parse_rights(text: &str) -> Result<Effects, Vec<Problem>> {
    let mut effects = Effects::default();
    let import = read(text, None, |reader, root| {
        effects = rights::read(reader, root);
        CatalogImport::default()
    });
    if import.problems.is_empty() {
        Ok(effects)
    } else {
        Err(import.problems)
    }
}

fn read(
    text: &str,
    open: Option<OpenKeyFile<'_>>,
    items: impl FnOnce(&Decoder<'_>, &[Member]) -> CatalogImport,
) -> CatalogImport {
    if text.len() > FILE_MAX {
        return unreadable("the file has over 16 MiB");
    }
    let text = without_mark(text);
    let lines = Lines::new(text);
    let Parsed { root, errors } = parse_value(text);
    let syntax: Vec<Problem> = errors
        .into_iter()
        .map(|error| Problem {
            line: lines.line(error.at),
            message: error.message,
        })
        .collect();
    let torn = !syntax.is_empty();
    let reader = Decoder::new(&lines, open, torn);
    let mut import = items(&reader, &root);
    // What else seems wrong with a line that is no TOML is an echo of that.
    let echo = |problem: &Problem| syntax.iter().any(|error| error.line == problem.line);
    let mut problems = reader.problems();
    problems.retain(|problem| !echo(problem));
    problems.extend(syntax);
    problems.sort();
    import.problems = problems;
    import.torn = torn;
    import
}

fn unreadable(message: &str) -> CatalogImport {
    CatalogImport {
        problems: vec![Problem {
            line: 0,
            message: message.to_owned(),
        }],
        torn: true,
        ..CatalogImport::default()
    }
}

fn parse_value(text: &str) -> Parsed {
    if is_json(text) {
        json::parse(text)
    } else {
        toml::parse(text)
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A byte order mark is no mistake of the person who saved the file.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
