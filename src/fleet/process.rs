//! The process of a member. Each process has a random id, so that a copy of a data directory that runs as the same member
//! is noticed.
//!
//! A process may become the owner only if no earlier process of its member can still make
//! [promises](super::promises): the earlier one has certainly ended, or the owner knows this one and asks it. The file
//! `fleet/process.json` names the process that etcd has in the record of the member. In the directory in which the file was
//! written, the lock of the store proves that this process has ended. A copied directory has another inode or time of
//! creation, and one that was moved to another machine another machine id. An image of a whole machine has all of them: it is
//! noticed only while the original is connected to etcd.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use playgate_ports::private_file;

const NAME: &str = "process.json";
const MACHINE_ID: &str = "/etc/machine-id";
/// The default of `fleet.lease` when this file had no lease.
const FORMER_LEASE: u64 = 2_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessId {
    /// In hexadecimal.
    pub id: String,
    /// Ids of earlier processes of this member that have certainly ended.
    pub ended: Vec<String>,
    /// For how long an earlier process may have promised not to become the owner.
    pub may_have_promised: Duration,
}

/// Where a directory is. The number of its device may be another one after a boot.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Place {
    inode: u64,
    /// Seconds and nanoseconds; `None` where the file system does not keep the time of creation.
    created: Option<(u64, u32)>,
    machine: String,
}

#[derive(Serialize, Deserialize)]
struct ProcessFile {
    /// The process in the record of the member, and the one before it: the record may not have been written yet.
    processes: Vec<String>,
    place: Place,
    /// Milliseconds of the lease: no promise is for longer. The next process may have a shorter lease.
    #[serde(default = "former_lease")]
    lease: u64,
}

const fn former_lease() -> u64 {
    FORMER_LEASE
}

impl Place {
    fn of(directory: &Path) -> io::Result<Self> {
        let found = fs::metadata(directory)?;
        let machine = fs::read_to_string(MACHINE_ID).unwrap_or_default();
        let created = found.created().ok();
        let created = created.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            inode: found.ino(),
            created: created.map(|since| (since.as_secs(), since.subsec_nanos())),
            machine: machine.trim().to_owned(),
        })
    }
}

impl ProcessId {
    /// The caller must have the store of the directory open.
    pub(super) fn new(directory: &Path, random: [u8; 16]) -> Self {
        let file = read(directory);
        let lease = file.as_ref().map_or(FORMER_LEASE, |file| file.lease);
        Self {
            id: HEXLOWER.encode(&random),
            ended: file
                .and_then(|file| ended(file, directory))
                .unwrap_or_default(),
            may_have_promised: Duration::from_millis(lease),
        }
    }

    /// Records that the record of the member names this process.
    pub(super) fn write(&self, directory: &Path, lease: Duration) -> io::Result<()> {
        let mut processes = vec![self.id.clone()];
        processes.extend(self.ended.first().cloned());
        let text = serde_json::to_string(&ProcessFile {
            processes,
            place: Place::of(directory)?,
            lease: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        })?;
        private_file::write(directory, NAME, text.as_bytes())
    }

    /// Whether a process is this one or has ended.
    pub(super) fn covers(&self, process: &str) -> bool {
        self.id == process || self.ended.iter().any(|ended| ended == process)
    }
}

fn read(directory: &Path) -> Option<ProcessFile> {
    let bytes = fs::read(directory.join(NAME)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn ended(file: ProcessFile, directory: &Path) -> Option<Vec<String>> {
    let here = Place::of(directory).ok()?;
    (file.place == here).then_some(file.processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    #[test]
    fn an_earlier_process_has_ended_only_in_its_own_directory_and_machine() {
        let folder = tempfile::tempdir().unwrap();
        let [original, copy] = ["original", "copy"].map(|name| folder.path().join(name));
        for directory in [&original, &copy] {
            fs::create_dir(directory).unwrap();
        }
        let first = ProcessId::new(&original, [1; 16]);
        assert_eq!(first.ended, Vec::<String>::new());
        first.write(&original, LEASE).unwrap();
        fs::copy(original.join(NAME), copy.join(NAME)).unwrap();
        let second = ProcessId::new(&original, [2; 16]);
        assert!(second.covers(&first.id) && second.covers(&second.id));
        assert!(!ProcessId::new(&copy, [3; 16]).covers(&first.id));
        // The record of the second one may not have been written.
        second.write(&original, LEASE).unwrap();
        let third = ProcessId::new(&original, [4; 16]);
        assert!(third.covers(&first.id) && third.covers(&second.id));
        let text = fs::read_to_string(original.join(NAME)).unwrap();
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (key, value) in [
            ("machine", "another".into()),
            ("inode", 1.into()),
            ("created", serde_json::json!([1, 2])),
        ] {
            let mut other = file.clone();
            other["place"][key] = value;
            fs::write(original.join(NAME), other.to_string()).unwrap();
            let moved = ProcessId::new(&original, [5; 16]);
            assert_eq!(moved.ended, Vec::<String>::new(), "{key}");
            assert_eq!(moved.may_have_promised, LEASE);
        }
        let golden = r#"{"processes":["ab"],"place":{"inode":7,"created":[1,2],"machine":"m"},"lease":5000}"#;
        let read: ProcessFile = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), golden);
        let former = golden.replace(r#","lease":5000"#, "");
        fs::write(original.join(NAME), former).unwrap();
        let next = ProcessId::new(&original, [6; 16]);
        assert_eq!(next.may_have_promised, Duration::from_secs(2));
    }
}
