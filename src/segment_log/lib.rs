//! Append-only segment files: framed bodies with checksums, their recorded lengths, and their compressed form.
//!
//! Telemetry and the request journal store their data in such files.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod frame;
pub mod lengths;
mod member_header;
pub mod member_index;
pub mod packed;
pub mod packer;

pub use lengths::Lengths;
pub use packed::{SegmentForm, SegmentReader};
pub use packer::{MEMBER_BYTES, Packer};

pub use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use playgate_process::data_file::{self, at};
use playgate_process::files::{make_directory, sync_file};

/// Opens a file for reading and writing, with the reserve of descriptors.
pub fn open(path: &Path, truncate: bool) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).read(true).write(true).mode(0o640);
    data_file::open_with_reserve(options.truncate(truncate), path)
}

fn read_at(file: &File, to: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = to.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Writes a file next to `path` and renames it. The caller syncs the directory.
pub fn replace(
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

/// Writes the content of an open file, which another program has deleted or replaced, to its name again.
pub fn restore(open_file: &File, length: u64, path: &Path, sync: bool) -> io::Result<File> {
    const BUFFER_BYTES: usize = 64 * 1024;
    if let Some(directory) = path.parent() {
        make_directory(directory, sync)?;
    }
    replace(path, sync, |new| {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut at = 0;
        while at < length {
            let read = open_file.read_at(&mut buffer, at)?;
            let rest = usize::try_from(length - at).unwrap_or(usize::MAX);
            let Some(bytes @ [_, ..]) = buffer.get(..read.min(rest)) else {
                // It was cut as well.
                break;
            };
            new.write_all(bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    })?;
    open(path, false)
}

/// Appends the CRC-32 of the bytes.
pub fn append_checksum(bytes: &mut Vec<u8>) {
    bytes.extend(crc32fast::hash(bytes).to_le_bytes());
}

/// Returns the bytes before the checksum, or `None` if the checksum is wrong.
pub fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*sum)).then_some(body)
}

/// Removes a file that may be missing. The caller syncs the directory.
pub fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        // Retention must not end at a directory that somebody has put in the place of a file.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            data_file::set_aside(path).map(drop)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_process::files::is_in_place;

    #[test]
    fn a_deleted_or_replaced_file_is_written_again_from_its_handle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/x.records");
        fs::create_dir(folder.path().join("below")).unwrap();
        let file = open(&path, true).unwrap();
        let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        file.write_all_at(&content, 0).unwrap();
        assert!(is_in_place(&file, &path));
        let kinds: [fn(&Path); 3] = [
            |path| fs::remove_file(path).unwrap(),
            |path| {
                fs::rename(path, path.with_extension("1")).unwrap();
                fs::write(path, "").unwrap();
            },
            |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
        ];
        for lose in kinds {
            let file = open(&path, false).unwrap();
            lose(&path);
            assert!(!is_in_place(&file, &path));
            let again = restore(&file, content.len() as u64, &path, false).unwrap();
            assert!(is_in_place(&again, &path));
            assert_eq!(fs::read(&path).unwrap(), content);
        }
    }
}
