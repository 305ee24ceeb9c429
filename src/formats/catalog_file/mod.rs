//! The catalogue file: decodes TOML or JSON for the catalogue's import, and encodes it for export.
//!
//! Used by the command line and by the administration interface. It checks names, types and bounds;
//! references between items are checked by the import. It opens no files: callers pass a function that
//! opens key files.

mod encode;
mod inline_keys;
mod items;
mod rights;

#[cfg(test)]
mod tests;

use std::io;

pub use encode::{rights_to_json, rule_to_json, to_json, to_toml};
pub use inline_keys::inline_key_files;

use playgate_decode::{Decoder, Mistake, ObjectMember};
use playgate_domain::catalog::{CatalogImport, Effects};

/// Maximum size of a file and of a request body with one, in bytes.
pub const FILE_MAX: usize = 16 * 1024 * 1024;

pub(crate) type OpenKeyFile<'a> = &'a dyn Fn(&str) -> io::Result<Vec<u8>>;

/// Parses a file: JSON or TOML, detected by the first character. All errors are in
/// [`CatalogImport::problems`]. Without `open`, a `key_file` is an error: a server must not read paths that
/// a client names.
pub fn parse(text: &str, open: Option<OpenKeyFile<'_>>) -> CatalogImport {
    // An empty file is what a failed export leaves, and must not delete the whole catalogue.
    if without_mark(text).trim().is_empty() {
        return unreadable("the file is empty; use `livestream = []` for an empty catalogue");
    }
    read(text, |decoder, root| items::read(decoder, root, open))
}

pub fn parse_rule(text: &str) -> CatalogImport {
    read(text, rights::one_rule)
}

pub fn parse_rights(text: &str) -> Result<Effects, Vec<Mistake>> {
    let mut effects = Effects::default();
    let import = read(text, |decoder, root| {
        effects = rights::read(decoder, root);
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
    items: impl FnOnce(&Decoder, &[ObjectMember]) -> CatalogImport,
) -> CatalogImport {
    if text.len() > FILE_MAX {
        return unreadable("the file is larger than 16 MiB");
    }
    let parsed = playgate_decode::parse(without_mark(text));
    let (import, problems) = parsed.decode(|decoder| items(decoder, &parsed.root));
    CatalogImport {
        problems,
        incomplete: !parsed.errors.is_empty(),
        ..import
    }
}

fn unreadable(message: &str) -> CatalogImport {
    CatalogImport {
        problems: vec![Mistake {
            line: 0,
            message: message.to_owned(),
        }],
        incomplete: true,
        ..CatalogImport::default()
    }
}

fn without_mark(text: &str) -> &str {
    // Some editors begin a file with a byte order mark.
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
