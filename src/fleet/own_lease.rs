//! The lease of the previous process. An owner that was killed needs it no more, but etcd keeps it until it expires, and
//! nobody can take over before. So the next process revokes it.
//!
//! The lease may be revoked only if that process has surely ended: it would go on with reads. The lock of the store shows
//! that, which ends with its process. It covers one directory on one running machine: a lease that was noted in another
//! boot, or in a copied directory, is left alone.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ports::private_file;

const NAME: &str = "lease.json";
/// A new one at each boot, and another one on each machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Place {
    boot: String,
    device: u64,
    inode: u64,
}

#[derive(Serialize, Deserialize)]
struct LeaseFile {
    lease: u64,
    place: Place,
}

impl Place {
    fn of(directory: &Path) -> io::Result<Self> {
        let found = fs::metadata(directory)?;
        Ok(Self {
            boot: fs::read_to_string(BOOT_ID)?,
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// Notes the lease of this process, which has the store open.
pub(super) fn write(directory: &Path, lease: u64) -> io::Result<()> {
    let place = Place::of(directory)?;
    let text = serde_json::to_string(&LeaseFile { lease, place })?;
    private_file::write(directory, NAME, text.as_bytes())
}

/// The lease of a process that has ended. The caller has the store open.
pub(super) fn read(directory: &Path) -> Option<u64> {
    let bytes = fs::read(directory.join(NAME)).ok()?;
    let file: LeaseFile = serde_json::from_slice(&bytes).ok()?;
    let here = Place::of(directory).ok()?;
    (file.place == here).then_some(file.lease)
}

/// The lease was revoked.
pub(super) fn remove(directory: &Path) {
    // One that stays is revoked once more, and etcd never gives a number twice.
    let _ = fs::remove_file(directory.join(NAME));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_that_of_a_process_of_the_same_directory_and_boot() {
        let folder = tempfile::tempdir().unwrap();
        let [own, copy] = ["own", "copy"].map(|name| folder.path().join(name));
        for directory in [&own, &copy] {
            fs::create_dir(directory).unwrap();
        }
        assert_eq!(read(&own), None);
        write(&own, 7).unwrap();
        assert_eq!(read(&own), Some(7));
        fs::copy(own.join(NAME), copy.join(NAME)).unwrap();
        assert_eq!(read(&copy), None);
        let text = fs::read_to_string(own.join(NAME)).unwrap();
        let boot = fs::read_to_string(BOOT_ID).unwrap();
        let other = text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000");
        assert_ne!(other, text);
        fs::write(own.join(NAME), other).unwrap();
        assert_eq!(read(&own), None);
        write(&own, 8).unwrap();
        remove(&own);
        assert_eq!(read(&own), None);
    }
}
