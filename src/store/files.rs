//! Files made so that a power cut finds them whole or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Makes a directory that only this service reads, and its entry in the parent safe.
pub(super) fn make_directory(path: &Path, sync: bool) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o750).create(path)?;
    match path.parent() {
        Some(parent) if sync => sync_directory(parent),
        _ => Ok(()),
    }
}

/// Makes the entries of a directory survive a power cut.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    // The parent of a relative path of one part is empty and means the working directory.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)?.sync_all()
}

/// A new file that only this service reads.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o640)
        .open(path)
}

/// Writes a small file aside and renames it, so that it is the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let aside = with_suffix(path, ".new");
    let mut file = create_private(&aside)?;
    file.write_all(bytes)?;
    if sync {
        file.sync_all()?;
    }
    drop(file);
    rename(&aside, path, sync)
}

/// Renames, and makes it survive a power cut.
pub(super) fn rename(from: &Path, to: &Path, sync: bool) -> io::Result<()> {
    fs::rename(from, to)?;
    if sync {
        if let Some(parent) = to.parent() {
            sync_directory(parent)?;
        }
        if from.parent() != to.parent()
            && let Some(parent) = from.parent()
        {
            sync_directory(parent)?;
        }
    }
    Ok(())
}

/// The bytes that the files of a directory take.
pub(super) fn size_of(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// A path with something after its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
