//! What a member knows of itself: for its probes and metrics, for other members, and for its candidacy.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::link::FleetLink;
use crate::server::lab_partners::check_lab_partners;
use playgate_config::{Effective, compared};
use playgate_fleet::candidacy::{Candidacy, MemberState};
use playgate_fleet::peer_keys::PeerKeys;
use playgate_fleet::peer_server::ReadState;
use playgate_fleet::standing::Standing;
use playgate_observe::fleet::LocalMemberState;
use playgate_services::Services;
use playgate_store::{Store, WritePriority};

/// A standby that knows less cannot answer reads, and should get none.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// An owner without space refuses changes until another member takes over.
const CHECK_DISK_EVERY: Duration = Duration::from_millis(250);
const PART: &str = "fleet";
const SETTINGS: &str = "settings";

/// Whether the store has no space for the changes of viewers.
fn is_full(store: &Store) -> bool {
    let refused = store.refuses();
    !store.is_writable() || refused.is_some_and(|first| first <= WritePriority::Session)
}

/// Keeps the candidacy of this member up to date, until the process ends.
pub(super) async fn watch_disk(store: Store, candidacy: Arc<Candidacy>) {
    loop {
        candidacy.set_full(is_full(&store));
        sleep(CHECK_DISK_EVERY).await;
    }
}

/// Returns a function that tells other members the state of this one.
pub(super) fn for_members(
    link: &Arc<FleetLink>,
    candidacy: &Arc<Candidacy>,
    effective: Vec<Effective>,
    keys: Arc<PeerKeys>,
) -> ReadState {
    let (link, candidacy) = (Arc::clone(link), Arc::clone(candidacy));
    Arc::new(move || {
        let is_owner = link.is_owner.load(Ordering::Acquire);
        let unfit = candidacy.unfit();
        let is_following = is_owner || link.follower.has_followed_within(FOLLOWED_WITHIN);
        MemberState {
            commit: link.follower.commit(),
            is_owner,
            can_own: is_following && candidacy.may_own() && candidacy.is_known() && unfit.is_none(),
            is_full: candidacy.is_full(),
            may_own: candidacy.may_own(),
            unfit,
            // With the key that all members present now: it can be rotated.
            settings: compared(&effective, &keys.presented()),
        }
    })
}

/// Lets the metrics of this process show its place in the fleet.
pub(super) fn for_metrics(link: &Arc<FleetLink>, services: &Services) {
    let link = Arc::clone(link);
    services.fleet.set_local_state(Box::new(move || {
        let is_owner = link.is_owner.load(Ordering::Acquire);
        let knows_owner = match &*link.standing.borrow() {
            Standing::Standby { owner } => owner.is_some(),
            Standing::Owner => true,
            Standing::Deposed => false,
        };
        LocalMemberState {
            is_owner,
            knows_owner,
            is_following: is_owner || link.follower.has_followed_within(FOLLOWED_WITHIN),
            commit: link.follower.commit(),
            etcd_errors: link.etcd_errors.load(Ordering::Relaxed),
            connections: link.connections(),
        }
    }));
}

/// Reports in `/readyz` what keeps a standby from its work, and examines whether its settings allow the data of the fleet.
/// Ends when this member is the owner.
pub(super) async fn watch_standby(
    services: Arc<Services>,
    link: Arc<FleetLink>,
    candidacy: Arc<Candidacy>,
    mut standing: watch::Receiver<Standing>,
) {
    let readiness = &services.readiness;
    let mut checked = None;
    let mut is_ready = true;
    // A member that has just started reads the log first.
    link.follower.catch_up(CHECK_EVERY).await;
    while matches!(*standing.borrow_and_update(), Standing::Standby { .. }) {
        let commit = Some(link.follower.commit());
        if checked != commit {
            checked = commit;
            let refused = check_lab_partners(&services.config, &services.partners).err();
            let why = refused.map(|failure| failure.message().to_owned());
            if candidacy.set_unfit(why.clone())
                && let Some(why) = &why
            {
                tracing::error!(
                    why,
                    "the settings of this member refuse the data of its fleet, so it will not become the owner"
                );
            }
            let warning = why.map(|why| format!("this member cannot become the owner: {why}"));
            readiness.warn(SETTINGS, warning);
        }
        let follows = link.follower.has_followed_within(FOLLOWED_WITHIN);
        match (follows, is_ready) {
            (true, false) => readiness.ready(PART),
            (false, true) => {
                let why =
                    "this member does not follow its fleet: neither the owner nor etcd answers it";
                readiness.not_ready(PART, why);
            }
            (true, true) | (false, false) => {}
        }
        is_ready = follows;
        tokio::select! {
            () = sleep(CHECK_EVERY) => {}
            changed = standing.changed() => if changed.is_err() { return },
        }
    }
    readiness.ready(PART);
}
