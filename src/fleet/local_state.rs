//! What a member knows of its fleet without etcd: the file `fleet/state.json`. It serves `playgate fleet status` while etcd
//! does not answer, and recognises an etcd that was restored from an older copy.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::etcd::{MemberRecord, Watermark};
use super::membership::directory;
use playgate_ports::private_file;

const NAME: &str = "state.json";
const VERSION: u32 = 1;
/// Least time between two writes. A commit that is missing here is in the store.
const WRITE_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetState {
    pub(super) version: u32,
    /// Id of the fleet, in hexadecimal.
    pub fleet: String,
    /// Cluster id of etcd.
    pub cluster: u64,
    /// Highest revision of etcd that the member has seen.
    pub revision: u64,
    /// The last commit of this member.
    pub commit: u64,
    /// Epoch of the last owner that the member knew.
    pub epoch: u64,
    /// Id of that owner, in hexadecimal; empty for none.
    pub owner: String,
    /// Unix seconds of the write.
    pub at: i64,
    pub members: Vec<MemberRecord>,
}

impl FleetState {
    pub(super) fn new(fleet: String, seen: &Watermark) -> Self {
        Self {
            version: VERSION,
            fleet,
            cluster: seen.cluster(),
            revision: seen.revision(),
            commit: 0,
            epoch: 0,
            owner: String::new(),
            at: 0,
            members: Vec::new(),
        }
    }

    /// Returns `None` if there is no readable file of this fleet.
    pub fn read(data_dir: &Path, fleet: &str) -> Option<Self> {
        let bytes = fs::read(directory(data_dir).join(NAME)).ok()?;
        // A damaged file is one that is missing: it has nothing that a member cannot do without.
        let state: Self = serde_json::from_slice(&bytes).ok()?;
        (state.version == VERSION && state.fleet == fleet).then_some(state)
    }

    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_string(self)?;
        private_file::write(directory, NAME, text.as_bytes())
    }

    fn differs(&self, other: &Self) -> bool {
        let position = |state: &Self| (state.revision, state.commit);
        position(self) != position(other) || self.has_other_members(other)
    }

    /// The time and the counters of the members are no news.
    fn has_other_members(&self, other: &Self) -> bool {
        let of = |state: &Self| {
            let members = state.members.iter();
            let names: Vec<_> = members.map(|member| member.name.clone()).collect();
            (state.cluster, state.epoch, state.owner.clone(), names)
        };
        of(self) != of(other)
    }
}

/// Writes the file when it has changed, on another thread: a follower must not wait for a disk.
pub(super) struct StateWriter {
    directory: Arc<Path>,
    runtime: Handle,
    latest: Option<FleetState>,
    /// What was written last, and when.
    last: Option<(FleetState, Instant)>,
    writing: Arc<AtomicBool>,
}

impl StateWriter {
    pub(super) fn new(directory: &Path, runtime: Handle) -> Self {
        Self {
            directory: directory.into(),
            runtime,
            latest: None,
            last: None,
            writing: Arc::default(),
        }
    }

    pub(super) fn update(&mut self, state: FleetState) {
        self.latest = Some(state.clone());
        if let Some((last, at)) = &self.last
            && !state.has_other_members(last)
            && (at.elapsed() < WRITE_EVERY || !state.differs(last))
        {
            return;
        }
        if self.writing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.last = Some((state.clone(), Instant::now()));
        let (directory, writing) = (Arc::clone(&self.directory), Arc::clone(&self.writing));
        self.runtime.spawn_blocking(move || {
            if let Err(error) = state.write(&directory) {
                tracing::debug!(%error, "failed to write the state of the fleet");
            }
            writing.store(false, Ordering::Release);
        });
    }

    /// Writes what is not written yet. Blocks.
    pub(super) fn finish(&mut self) {
        let is_new = |state: &FleetState| {
            let last = self.last.as_ref();
            last.is_none_or(|(last, _)| state.differs(last))
        };
        if let Some(state) = self.latest.take_if(|state| is_new(state))
            && let Err(error) = state.write(&self.directory)
        {
            tracing::debug!(%error, "failed to write the state of the fleet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_this_version_is_read_and_that_of_another_fleet_or_version_is_not() {
        let golden = r#"{"version":1,"fleet":"09","cluster":14841639068965178418,"revision":40,"commit":7,"epoch":31,"owner":"0a","at":1000,"members":[{"id":"0a","name":"north","address":"10.0.0.1:7080","version":"0.1.0","applied":7,"seen":1000,"knows":[],"answered":0,"forwarded":0,"process":"ab","processes":[],"epoch":31,"full":false,"may_own":true,"unfit":null}]}"#;
        let data = tempfile::tempdir().unwrap();
        let folder = directory(data.path());
        fs::create_dir(&folder).unwrap();
        assert_eq!(FleetState::read(data.path(), "09"), None);
        fs::write(folder.join(NAME), golden).unwrap();
        let state = FleetState::read(data.path(), "09").unwrap();
        assert_eq!(
            (state.cluster, state.revision),
            (14_841_639_068_965_178_418, 40)
        );
        assert_eq!(state.members[0].name, "north");
        state.write(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join(NAME)).unwrap(), golden);
        assert_eq!(FleetState::read(data.path(), "08"), None);
        for damaged in [
            golden.replace("\"version\":1", "\"version\":2"),
            "{".to_owned(),
        ] {
            fs::write(folder.join(NAME), damaged).unwrap();
            assert_eq!(FleetState::read(data.path(), "09"), None);
        }
    }
}
