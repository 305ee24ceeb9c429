//! While etcd does not answer the owner, it asks all other members to promise that none of them takes over, so that
//! it may go on with reads. The [fence](super::fence) says why that is safe.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::claim::DriverState;
use super::peers::PeerClient;

/// Runs until the member stops.
pub(super) async fn ask(shared: Arc<DriverState>, client: PeerClient, lease: Duration) {
    while !shared.is_stopping() {
        sleep(lease / 8).await;
        let fence = &shared.fence;
        if !fence.holds() || !fence.is_ageing() {
            continue;
        }
        // One that is missing here has not been told that it may start.
        let Some(others) = shared.others() else {
            continue;
        };
        let before = fence.now();
        let mut asked = JoinSet::new();
        for member in others {
            let client = client.clone();
            asked.spawn(async move { client.promise(&member.address, lease).await });
        }
        let answers = timeout(lease / 2, asked.join_all()).await;
        if answers.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            fence.promise(before);
        }
    }
}
