//! Append-only segment files: framed bodies with checksums, their recorded lengths, and their compressed form.
//!
//! Telemetry and the request journal store their data in such files.

pub(crate) mod frame;
pub(crate) mod lengths;
pub(crate) mod packed;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::data_file::at;
use crate::store::{open_file, sync_file};

/// Opens a file for reading and writing, with the reserve of descriptors.
pub(crate) fn open(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).read(true).write(true).mode(0o640);
    open_file(options.truncate(truncate), path)
}

/// Writes a file next to `path` and renames it. The caller syncs the directory.
pub(crate) fn replace(
    path: &Path,
    sync: bool,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = open(&new, true).and_then(|mut file| {
        write(&mut file).map_err(at("write", &new))?;
        if sync {
            sync_file(&file, &new)?;
        }
        fs::rename(&new, path).map_err(at("rename to", path))
    });
    // The old file is still in place, so the incomplete new one must not stay behind.
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Appends the CRC-32 of the bytes.
pub(crate) fn append_checksum(bytes: &mut Vec<u8>) {
    bytes.extend(crc32fast::hash(bytes).to_le_bytes());
}

/// Returns the bytes before the checksum, or `None` if the checksum is wrong.
pub(crate) fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*sum)).then_some(body)
}

/// Removes a file that may be missing. The caller syncs the directory.
pub(crate) fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}
