//! The catalogue file: decodes TOML or JSON for the catalogue's import, and encodes it for export.
//!
//! Used by the command line and by the administration interface. It checks names, types and bounds;
//! references between items are checked by the import. It opens no files: callers pass a function that
//! opens key files.

mod decode;
mod encode;
mod inline_keys;
mod items;
mod json;
pub(crate) mod json_errors;
mod rights;
mod toml;
mod value;

#[cfg(test)]
mod tests;

use std::io;

pub(crate) use encode::{rights_to_json, rule_to_json, to_json, to_toml};
pub(crate) use inline_keys::inline_key_files;

use crate::domain::catalog::{CatalogImport, Effects, Problem};
use decode::Decoder;
use value::{Lines, Member, Parsed};

pub(crate) const FILE_MAX: usize = 16 * 1024 * 1024;

pub(crate) type OpenKeyFile<'a> = &'a dyn Fn(&str) -> io::Result<Vec<u8>>;

/// Parses a file: JSON or TOML, detected by the first character. All errors are in
/// [`CatalogImport::problems`]. Without `open`, a `key_file` is an error: a server must not read paths that
/// a client names.
#[must_use]
pub(crate) fn parse(text: &str, open: Option<OpenKeyFile<'_>>) -> CatalogImport {
    // An empty file is what a failed export leaves, and must not delete the whole catalogue.
    if without_mark(text).trim().is_empty() {
        return unreadable("the file is empty; use `livestream = []` for an empty catalogue");
    }
    read(text, open, items::read)
}

#[must_use]
pub(crate) fn parse_rule(text: &str) -> CatalogImport {
    read(text, None, rights::one_rule)
}

pub(crate) fn parse_rights(text: &str) -> Result<Effects, Vec<Problem>> {
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
        return unreadable("the file is larger than 16 MiB");
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
    // Other problems in a line with a syntax error are consequences of it.
    let echo = |problem: &Problem| syntax.iter().any(|error| error.line == problem.line);
    let mut problems = reader.problems();
    problems.retain(|problem| !echo(problem));
    problems.extend(syntax);
    problems.sort();
    import.problems = problems;
    import.incomplete = torn;
    import
}

fn unreadable(message: &str) -> CatalogImport {
    CatalogImport {
        problems: vec![Problem {
            line: 0,
            message: message.to_owned(),
        }],
        incomplete: true,
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

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
