//! The promises that an owner requests while etcd does not answer. If every other member promises not to take over, the
//! owner may continue to answer reads. The [fence](super::fence) explains why that is safe.
//!
//! The promise must be that of the process that the owner knows from the record of the member, or of a later one in the
//! same place, which proves that the known one has ended. A [process](super::process) that cannot prove that does not
//! take over before the owner knows it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::claim::DriverState;
use super::peers::{PeerClient, PeerError};

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
