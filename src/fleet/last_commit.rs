//! Asks the owner for the number of its last commit, on behalf of requests at a standby that
//! [wait](super::catch_up) until the state of the standby is not old.
//!
//! A read of the log costs etcd more than all of this, and requires that etcd answers. The connection stays open, and the
//! owner answers only while its [fence](super::fence) holds. Otherwise the standby reads the log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::claim::DriverState;
use super::peers::{PeerClient, PeerError};
use super::standing::Standing;

/// Number of the last commit, if this member is surely the owner.
pub type LastCommit = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// A request waits no longer for the owner before the log is read. The owner answers within a millisecond.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// The owner is also asked without a request, so that a connection that has broken is noticed before requests wait for it.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The owner ends a connection that was silent for longer.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn ask(
    shared: Arc<DriverState>,
    client: PeerClient,
    mut standing: watch::Receiver<Standing>,
) {
    while !shared.is_stopping() {
        let owner = match &*standing.borrow_and_update() {
            Standing::Standby { owner } => owner.clone(),
            Standing::Owner | Standing::Deposed => return,
        };
        if let Some(owner) = owner {
            let failed = tokio::select! {
                failed = ask_owner(&shared, &client, &owner) => failed.err(),
                Ok(()) = standing.changed() => None,
            };
            shared.stop_asking_owner();
            match failed {
                Some(error) => {
                    tracing::debug!(%error, "failed to ask the owner for its last commit; reading the log instead");
                }
                None => continue,
            }
        }
        // The sender is dropped when the thread that follows the log has ended.
        if let Ok(Err(_)) = timeout(RETRY_INTERVAL, standing.changed()).await {
            return;
        }
    }
}

/// Returns when the owner has not answered.
async fn ask_owner(
    shared: &DriverState,
    client: &PeerClient,
    owner: &str,
) -> Result<(), PeerError> {
    let mut commits = client.last_commits(owner).await?;
    shared.catch_up.start_asking_owner();
    loop {
        // After a timeout no request is waiting, and the owner is asked to test the connection.
        let _ = timeout(ASK_EVERY, shared.catch_up.wait_for_request()).await;
        let asked = shared.catch_up.asked();
        let answer = timeout(ANSWER_MAX, commits.next()).await;
        let answer = answer.unwrap_or_else(|late| Err(io::Error::from(late)));
        let number = answer.map_err(|error| PeerError::Connect {
            address: owner.to_owned(),
            error,
        })?;
        if shared.published.load(Ordering::Acquire) >= number {
            shared.reach(asked);
        } else {
            shared.require_log(asked);
        }
    }
}
