//! The lease of the previous process. After an owner is killed, etcd keeps its lease until it expires, and no member can
//! take over before. The next process therefore revokes it.
//!
//! The lease may be revoked only if the previous process has certainly ended, since an owner without a lease would continue
//! to answer reads. The lock of the store proves that, because it ends with its process. It covers one directory on one
//! running machine, so a lease that was recorded in another boot or in a copied directory is not revoked.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use playgate_ports::clock::boot_id;
use playgate_ports::private_file;
use playgate_process::data_file;

const NAME: &str = "lease.json";

#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct DirectoryIdentity {
    boot: String,
    device: u64,
    inode: u64,
}

#[derive(Serialize, Deserialize)]
struct LeaseFile {
    lease: u64,
    place: DirectoryIdentity,
}

impl DirectoryIdentity {
    fn of(directory: &Path) -> io::Result<Self> {
        let found = fs::metadata(directory)?;
        Ok(Self {
            boot: boot_id().ok_or(io::ErrorKind::Unsupported)?,
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

pub(super) fn write(directory: &Path, lease: u64) -> io::Result<()> {
    let place = DirectoryIdentity::of(directory)?;
    let text = serde_json::to_string(&LeaseFile { lease, place })?;
    private_file::write(directory, NAME, text.as_bytes())
}

/// Returns the lease of a process that has ended. The caller must have the store open.
pub(super) fn read(directory: &Path) -> Option<u64> {
    let bytes = data_file::read(&directory.join(NAME)).ok()?;
    let file: LeaseFile = serde_json::from_slice(&bytes).ok()?;
    let here = DirectoryIdentity::of(directory).ok()?;
    // In another boot or directory, the lock of the store proves nothing about the process of this lease.
    (file.place == here).then_some(file.lease)
}

pub(super) fn remove(directory: &Path) {
    // If the file remains, its lease is revoked once more. That is harmless, since etcd never reuses a lease id.
    let _ = fs::remove_file(directory.join(NAME));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_that_of_a_process_of_the_same_directory_and_boot() {
        let folder = tempfile::tempdir().unwrap();
        let [original, copy] = ["original", "copy"].map(|name| folder.path().join(name));
        for directory in [&original, &copy] {
            fs::create_dir(directory).unwrap();
        }
        assert_eq!(read(&original), None);
        write(&original, 7).unwrap();
        assert_eq!(read(&original), Some(7));
        fs::copy(original.join(NAME), copy.join(NAME)).unwrap();
        assert_eq!(read(&copy), None);
        let text = fs::read_to_string(original.join(NAME)).unwrap();
        let boot = boot_id().unwrap();
        let other = text.replace(&boot, "00000000-0000-0000-0000-000000000000");
        assert_ne!(other, text);
        fs::write(original.join(NAME), other).unwrap();
        assert_eq!(read(&original), None);
        write(&original, 8).unwrap();
        remove(&original);
        assert_eq!(read(&original), None);
    }
}
