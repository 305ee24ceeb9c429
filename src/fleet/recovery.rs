//! The first start after `playgate fleet recover`: the member begins a new fleet, which continues the one whose data in
//! etcd are lost. The file `fleet/recovery.json` lasts until that is done.

use std::fs;
use std::io;
use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::etcd::{EtcdLog, MemberRecord, Recovery};
use super::membership::directory;
use playgate_ports::private_file;
use playgate_store::replication::{FleetId, SharedLogError};
use playgate_types::from_hex;

const NAME: &str = "recovery.json";
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRecovery {
    pub from: FleetId,
    pub to: FleetId,
}

#[derive(Serialize, Deserialize)]
struct RecoveryFile {
    version: u32,
    from: String,
    to: String,
}

impl PendingRecovery {
    /// Returns `None` if `fleet`, that of the data directory, need not be begun.
    pub fn read(data_dir: &Path, fleet: FleetId) -> Option<Self> {
        let bytes = fs::read(directory(data_dir).join(NAME)).ok()?;
        let file: RecoveryFile = serde_json::from_slice(&bytes).ok()?;
        let (from, to) = (from_hex(&file.from)?, from_hex(&file.to)?);
        // The file is written before the membership: until then the member belongs to its old fleet.
        (file.version == VERSION && to == fleet).then_some(Self { from, to })
    }

    pub fn write(&self, data_dir: &Path) -> io::Result<()> {
        let text = serde_json::to_string(&RecoveryFile {
            version: VERSION,
            from: HEXLOWER.encode(&self.from),
            to: HEXLOWER.encode(&self.to),
        })?;
        private_file::write(&directory(data_dir), NAME, text.as_bytes())
    }

    /// Begins the new fleet in etcd, unless that is done.
    ///
    /// # Errors
    /// `Unknown` is worth another attempt.
    pub(super) fn run(
        &self,
        log: &mut EtcdLog,
        before: &mut EtcdLog,
        member: &MemberRecord,
        number: u64,
    ) -> Result<(), SharedLogError> {
        match log.continue_fleet(self.to, before, member, number)? {
            Recovery::Done => Ok(()),
            Recovery::Owned => Err(SharedLogError::Unknown(
                "the previous fleet has an owner; stop the services of all other members"
                    .to_owned(),
            )),
            Recovery::Other(next) => Err(SharedLogError::Recovered { by: next.name }),
            Recovery::Behind(head) => Err(SharedLogError::Behind { head, number }),
        }
    }
}

/// Removes the file once the new fleet exists.
pub(super) fn finish(fleet_directory: &Path) {
    // If the file remains, the next start finds that nothing is left to do.
    let _ = fs::remove_file(fleet_directory.join(NAME));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_pending_only_for_the_fleet_that_it_begins() {
        let data = tempfile::tempdir().unwrap();
        let pending = PendingRecovery {
            from: [1; 16],
            to: [2; 16],
        };
        assert_eq!(PendingRecovery::read(data.path(), [2; 16]), None);
        pending.write(data.path()).unwrap();
        // The membership is still that of the old fleet.
        assert_eq!(PendingRecovery::read(data.path(), [1; 16]), None);
        assert_eq!(PendingRecovery::read(data.path(), [2; 16]), Some(pending));
        finish(&directory(data.path()));
        assert_eq!(PendingRecovery::read(data.path(), [2; 16]), None);
    }
}
