//! Copies quality figures between the members of a fleet.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use playgate_fleet::etcd::MemberRecord;
use playgate_fleet::peers::PeerClient;
use playgate_fleet::standing::Standing;
use playgate_records::quality::QualityError;
use playgate_services::Services;
use playgate_store::replication::SharedLogError;

/// A member writes its figures every five minutes.
const COPY_EVERY: Duration = Duration::from_secs(60);
/// Seconds for which a member has followed another owner when it closes the views that it has made as the owner.
const HAND_OVER_AFTER: u32 = 10;

/// Asks etcd for the other members. Blocks.
pub(super) type OtherMembers =
    Arc<dyn Fn() -> Result<Vec<MemberRecord>, SharedLogError> + Send + Sync>;

/// Copies the figures of the other members until the process ends.
pub(super) async fn copy(services: Arc<Services>, client: PeerClient, others: OtherMembers) {
    loop {
        sleep(COPY_EVERY).await;
        let others = Arc::clone(&others);
        let Ok(Ok(members)) = spawn_blocking(move || others()).await else {
            continue;
        };
        for member in members {
            if let Err(error) = copy_of(&services, &client, &member).await {
                // A member of the version before does not know the request.
                tracing::debug!(
                    member = member.name,
                    error,
                    "failed to copy quality figures"
                );
            }
        }
    }
}

async fn copy_of(
    services: &Services,
    client: &PeerClient,
    member: &MemberRecord,
) -> Result<(), String> {
    let mut since = None;
    loop {
        let (quality, id) = (services.quality.clone(), member.id.clone());
        let until = blocking(move || quality.copied_until(&id)).await?;
        // The last answer brought no newer file, so the copy is complete.
        if since == Some(until) {
            return Ok(());
        }
        since = Some(until);
        let files = client.figures(&member.address, until).await;
        let files = files.map_err(|error| error.to_string())?;
        let (quality, id) = (services.quality.clone(), member.id.clone());
        blocking(move || quality.copy(&id, &files)).await?;
    }
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, QualityError> + Send + 'static,
) -> Result<R, String> {
    let done = spawn_blocking(work).await;
    let done = done.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}

/// Closes the views that this member has made as the owner, once another member is the owner.
pub(super) async fn hand_over(services: Arc<Services>, standing: watch::Receiver<Standing>) {
    let mut followed = 0;
    while followed < HAND_OVER_AFTER {
        sleep(Duration::from_secs(1)).await;
        match &*standing.borrow() {
            Standing::Standby { owner: Some(_) } => followed += 1,
            Standing::Standby { owner: None } => followed = 0,
            Standing::Owner | Standing::Deposed => return,
        }
    }
    let handed_over = blocking(move || {
        let (quality, playback) = (&services.quality, &services.playback);
        let is_elsewhere = |session: &_, last| playback.went_on_after(session, last);
        quality.hand_over(is_elsewhere, services.clock.now())
    });
    if let Err(error) = handed_over.await {
        tracing::warn!(
            error,
            "failed to close the views of the time when this member was the owner"
        );
    }
}
