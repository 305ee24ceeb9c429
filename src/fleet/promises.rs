//! The promises that an owner requests while etcd does not answer. If every other member promises not to take over, the
//! owner may continue to answer reads. The [fence](super::fence) explains why that is safe.
//!
//! The promise must be that of the process that the owner knows from the record of the member, or of a later one in the
//! same place, which proves that the known one has ended. A [process](super::process) that cannot prove that does not
//! take over before the owner knows it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::claim::DriverState;
use super::peers::{PeerClient, PeerError};

/// A promise not to become the owner, and the process that gives it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PromiseGiven {
    /// Empty for a member of an earlier version.
    pub process: String,
    /// Earlier processes of the member that have certainly ended.
    pub ended: Vec<String>,
}

impl PromiseGiven {
    /// Whether the promise binds a member whose record names this process.
    pub(super) fn is_of(&self, process: &str) -> bool {
        process.is_empty()
            || self.process == process
            || self.ended.iter().any(|ended| ended == process)
    }
}

pub(super) async fn ask(shared: Arc<DriverState>, client: PeerClient, lease: Duration) {
    while !shared.is_stopping() {
        sleep(lease / 8).await;
        let fence = &shared.fence;
        if !fence.holds() || !fence.is_ageing() {
            continue;
        }
        // This list has every member that may take over: a new member starts only once the record of the owner names it.
        let Some(others) = shared.others() else {
            continue;
        };
        // A promise counts from before the request: the member may have received it at any time after that.
        let before = fence.now();
        let mut asked = JoinSet::new();
        for member in others {
            let client = client.clone();
            asked.spawn(async move {
                let promised = client.promise(&member.address, lease).await?;
                // A copy of the member may answer, or the member itself while a copy of it takes over.
                match promised.is_of(&member.process) {
                    true => Ok(()),
                    false => Err(PeerError::Refused {
                        address: member.address,
                        why: "another process than the known one answers".to_owned(),
                    }),
                }
            });
        }
        let answers = timeout(lease / 2, asked.join_all()).await;
        // One member without a promise could take over, so all must answer.
        if answers.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            fence.promise(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_binds_only_the_process_that_gives_it_and_those_that_have_ended() {
        let given = PromiseGiven {
            process: "b".to_owned(),
            ended: vec!["a".to_owned()],
        };
        assert!(given.is_of("b") && given.is_of("a"));
        // A copy of the member has written the record since.
        assert!(!given.is_of("c"));
        // The record is that of an earlier version.
        assert!(given.is_of(""));
        // A member of an earlier version answers while the record is that of this one.
        assert!(!PromiseGiven::default().is_of("b"));
    }
}
