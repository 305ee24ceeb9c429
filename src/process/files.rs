//! Atomic file operations that survive power cuts, and I/O errors that name the path.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::data_file::{self, FileError, at};
use crate::descriptor_reserve;

pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    descriptor_reserve::is_exhaustion(FileError::find(error).map_or(error, |error| &error.source))
}

pub fn is_failed_sync(error: &io::Error) -> bool {
    FileError::find(error).is_some_and(|error| error.sync)
}

pub fn make_directory(path: &Path, sync: bool) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.is_dir())
        .collect();
    for directory in missing.into_iter().rev() {
        // Another thread may have created it in the meantime.
        match DirBuilder::new().mode(0o750).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FileError::wrap("create the directory", directory, false)(
                    error,
                ));
            }
            _ => {}
        }
        // Without this sync a power cut can remove the new directory with all synced files in it.
        if sync && let Some(parent) = directory.parent() {
            sync_directory(parent)?;
        }
    }
    Ok(())
}

pub fn sync_directory(path: &Path) -> io::Result<()> {
    open_directory(path)?.sync()
}

struct OpenDirectory<'a> {
    path: &'a Path,
    file: File,
}

impl OpenDirectory<'_> {
    fn sync(self) -> io::Result<()> {
        self.file
            .sync_all()
            .map_err(FileError::wrap("sync the directory", self.path, true))
    }
}

fn open_directory(path: &Path) -> io::Result<OpenDirectory<'_>> {
    // The parent of a relative path with one component is empty and means the working directory.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    // A pipe in its place would wait for a writer, for ever.
    let flags = OFlags::DIRECTORY.union(OFlags::NONBLOCK).bits();
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(i32::try_from(flags).unwrap_or(0));
    let file =
        descriptor_reserve::open(|| options.open(path)).map_err(at("open the directory", path))?;
    Ok(OpenDirectory { path, file })
}

pub fn sync_file(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all().map_err(FileError::wrap("sync", path, true))
}

/// Unlike [`sync_file`], leaves out metadata such as the modification time.
pub fn sync_data(file: &File, path: &Path) -> io::Result<()> {
    file.sync_data()
        .map_err(FileError::wrap("sync", path, true))
}

pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o640);
    data_file::open_with_reserve(&options, path)
}

/// Replaces a small file atomically: writes a temporary file and renames it.
pub fn replace_file(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let aside = with_suffix(path, ".new");
    let mut file = create_private(&aside)?;
    file.write_all(bytes)
        .map_err(FileError::wrap("write", &aside, false))?;
    // The content must be on disk before the name points to it; otherwise a power cut can leave an
    // empty file.
    if sync {
        sync_file(&file, &aside)?;
    }
    drop(file);
    rename(&aside, path, sync)
}

/// Renames a file or directory. An error that is not a failed sync leaves both names as they were.
pub fn rename(from: &Path, to: &Path, sync: bool) -> io::Result<()> {
    // A rename changes two directories; either entry can be lost on its own.
    let parents = match from.parent() == to.parent() {
        true => [to.parent(), None],
        false => [to.parent(), from.parent()],
    };
    // They are opened before the rename: without a free descriptor, the caller would not know which names exist.
    let opened = match sync {
        true => {
            (parents.into_iter().flatten().map(open_directory)).collect::<io::Result<Vec<_>>>()?
        }
        false => Vec::new(),
    };
    fs::rename(from, to).map_err(FileError::wrap("rename to", to, false))?;
    opened.into_iter().try_for_each(OpenDirectory::sync)
}

/// Removes a file if it exists. With `sync`, a power cut does not bring it back.
pub fn remove_file(path: &Path, sync: bool) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(FileError::wrap("remove", path, false))?,
    }
    match path.parent() {
        Some(parent) if sync => sync_directory(parent),
        _ => Ok(()),
    }
}

/// Device and inode of a file. A name that leads to another file, or to none, has lost the file that a process has open: what
/// the process writes there is gone when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl FileId {
    pub fn of(file: &fs::Metadata) -> Self {
        Self(file.dev(), file.ino())
    }
}

/// Whether the name still leads to the open file. An error other than a missing file decides nothing.
pub fn is_in_place(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => FileId::of(&open) == FileId::of(&named),
        (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
        (Err(_), _) => true,
    }
}

pub fn size_of(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_created_recursively() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("a/b/c");
        make_directory(&deep, true).unwrap();
        make_directory(&deep, true).unwrap();
        assert!(deep.is_dir());
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = make_directory(&file.join("x"), true).unwrap_err();
        assert!(refused.to_string().contains("file"), "{refused}");
    }
}
