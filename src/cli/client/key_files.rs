//! The key files that a catalogue file names.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use playgate_formats::catalog_file::{FILE_MAX, inline_key_files};

/// Key files are named relative to the catalogue file, wherever the command is run.
pub(crate) fn key_file(catalog: &Path, name: &str) -> PathBuf {
    catalog.parent().unwrap_or(Path::new("")).join(name)
}

/// Lists the key files that a catalogue file names.
pub(crate) fn key_files(catalog: &Path) -> Vec<PathBuf> {
    let Ok(file) = File::open(catalog) else {
        return Vec::new();
    };
    let mut text = String::new();
    let limit = u64::try_from(FILE_MAX).unwrap_or(u64::MAX);
    // A file that is not text is reported where it is imported.
    let _ = file.take(limit).read_to_string(&mut text);
    let names = RefCell::new(Vec::new());
    let record = |name: &str| {
        names.borrow_mut().push(key_file(catalog, name));
        Err(io::ErrorKind::NotFound.into())
    };
    let _ = inline_key_files(&text, &record);
    names.into_inner()
}
