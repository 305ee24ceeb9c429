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
use std::time::UNIX_EPOCH;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use playgate_ports::private_file;

const NAME: &str = "process.json";
const MACHINE_ID: &str = "/etc/machine-id";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessId {
    /// In hexadecimal.
    pub id: String,
    /// Ids of earlier processes of this member that have certainly ended.
    pub ended: Vec<String>,
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
        Self {
            id: HEXLOWER.encode(&random),
            ended: ended(directory).unwrap_or_default(),
        }
    }

    /// Records that the record of the member names this process.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let mut processes = vec![self.id.clone()];
        processes.extend(self.ended.first().cloned());
        let place = Place::of(directory)?;
        let text = serde_json::to_string(&ProcessFile { processes, place })?;
        private_file::write(directory, NAME, text.as_bytes())
    }

    /// Whether a process is this one or has ended.
    pub(super) fn covers(&self, process: &str) -> bool {
        self.id == process || self.ended.iter().any(|ended| ended == process)
    }
}

fn ended(directory: &Path) -> Option<Vec<String>> {
    let bytes = fs::read(directory.join(NAME)).ok()?;
    let file: ProcessFile = serde_json::from_slice(&bytes).ok()?;
    let here = Place::of(directory).ok()?;
    (file.place == here).then_some(file.processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_process_has_ended_only_in_its_own_directory_and_machine() {
        let folder = tempfile::tempdir().unwrap();
        let [own, copy] = ["own", "copy"].map(|name| folder.path().join(name));
        for directory in [&own, &copy] {
            fs::create_dir(directory).unwrap();
        }
        let first = ProcessId::new(&own, [1; 16]);
        assert_eq!(first.ended, Vec::<String>::new());
        first.write(&own).unwrap();
        fs::copy(own.join(NAME), copy.join(NAME)).unwrap();
        let second = ProcessId::new(&own, [2; 16]);
        assert!(second.covers(&first.id) && second.covers(&second.id));
        assert!(!ProcessId::new(&copy, [3; 16]).covers(&first.id));
        // The record of the second one may not have been written.
        second.write(&own).unwrap();
        let third = ProcessId::new(&own, [4; 16]);
        assert!(third.covers(&first.id) && third.covers(&second.id));
        let text = fs::read_to_string(own.join(NAME)).unwrap();
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (key, value) in [
            ("machine", "another".into()),
            ("inode", 1.into()),
            ("created", serde_json::json!([1, 2])),
        ] {
            let mut other = file.clone();
            other["place"][key] = value;
            fs::write(own.join(NAME), other.to_string()).unwrap();
            assert_eq!(ended(&own), None, "{key}");
        }
        let golden = r#"{"processes":["ab"],"place":{"inode":7,"created":[1,2],"machine":"m"}}"#;
        let read: ProcessFile = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), golden);
    }
}
