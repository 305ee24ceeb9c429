//! The link of a member to the owner of its fleet, for the requests of its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};

use crate::server::pass_on::connect;
use playgate_fleet::peers::PeerClient;
use playgate_fleet::standing::{FollowerState, Standing};
use playgate_http::standby_fleet::{AnsweredBy, FleetFuture, NoOwner, OwnerStream, StandbyFleet};
use playgate_services::Services;
use playgate_types::{ConnectionOrigin, RelayedBeat, SessionId};

/// How long a request waits for the log before the owner is asked instead. One read of the log takes a few milliseconds.
const CATCH_UP_MAX: Duration = Duration::from_millis(250);
/// A standby that knows less answers no heartbeats: its sessions may have ended.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);
/// A session without heartbeats ends after 35 seconds, and these arrive at the owner that much later.
const RELAY_INTERVAL: Duration = Duration::from_secs(1);
/// A standby that cannot reach the owner for longer forwards heartbeats. A player sends them every 10 seconds, so the next
/// one is in time.
const RELAY_FAILING_MAX: Duration = Duration::from_secs(12);
/// Heartbeats that are kept while the owner does not answer.
const KEPT_MAX: usize = 1_000_000;

/// The fleet of a member, for the requests of its clients.
pub(super) struct FleetLink {
    pub client: PeerClient,
    pub standing: watch::Receiver<Standing>,
    /// The address of this member for other members.
    pub address: String,
    pub follower: FollowerState,
    pub is_owner: AtomicBool,
    /// Sessions whose heartbeats this member has answered, and the owner does not know of yet.
    pub beats: Mutex<Vec<SessionId>>,
    pub is_relay_failing: AtomicBool,
    /// One place for each connection to the owner.
    pub places: Arc<Semaphore>,
    pub places_max: usize,
    /// Calls to etcd that failed.
    pub etcd_errors: Arc<AtomicU64>,
}

impl FleetLink {
    /// Connections to the owner.
    pub(super) fn connections(&self) -> u64 {
        let free = self.places.available_permits();
        u64::try_from(self.places_max.saturating_sub(free)).unwrap_or(u64::MAX)
    }

    /// Reports heartbeats to the owner, until this member is the owner.
    pub(super) async fn relay_beats(self: Arc<Self>, services: Arc<Services>) {
        // Those that an owner may not have got.
        let mut kept = Vec::new();
        let mut failing: Option<Instant> = None;
        while self.is_standby() {
            sleep(RELAY_INTERVAL).await;
            let sessions = std::mem::take(&mut *self.beats.lock());
            let now = services.clock.now();
            kept.extend(services.playback.beats_to_relay(&sessions, now));
            let owner = match &*self.standing.borrow() {
                Standing::Standby { owner } => owner.clone(),
                Standing::Owner | Standing::Deposed => None,
            };
            let relayed = match owner {
                _ if kept.is_empty() => Some(Vec::new()),
                Some(owner) => self.relay(&owner, &kept).await,
                None => None,
            };
            match relayed {
                Some(idle) => {
                    kept.clear();
                    failing = None;
                    for session in idle {
                        services.playback.mark_idle(&session);
                    }
                }
                None => kept.truncate(KEPT_MAX),
            }
            if !kept.is_empty() {
                failing.get_or_insert_with(Instant::now);
            }
            let is_failing = failing.is_some_and(|since| since.elapsed() > RELAY_FAILING_MAX);
            self.is_relay_failing.store(is_failing, Ordering::Relaxed);
        }
    }

    /// Returns the sessions that hold no slot.
    async fn relay(&self, owner: &str, beats: &[RelayedBeat]) -> Option<Vec<SessionId>> {
        let relayed = self.client.relay(owner, beats).await;
        let relayed = relayed.inspect_err(|error| {
            tracing::debug!(%error, "failed to report heartbeats to the owner; trying again");
        });
        relayed.ok()
    }
}

impl StandbyFleet for FleetLink {
    fn is_standby(&self) -> bool {
        !self.is_owner.load(Ordering::Acquire)
    }

    fn catch_up(&self) -> FleetFuture<'_, bool> {
        Box::pin(self.follower.catch_up(CATCH_UP_MAX))
    }

    fn is_following(&self) -> bool {
        let is_relay_failing = self.is_relay_failing.load(Ordering::Relaxed);
        !is_relay_failing && self.follower.has_followed_within(FOLLOWED_WITHIN)
    }

    fn relay_beat(&self, session: SessionId) {
        self.beats.lock().push(session);
    }

    fn count(&self, place: AnsweredBy) {
        self.follower.count(place == AnsweredBy::This);
    }

    fn connect(&self, origin: ConnectionOrigin) -> FleetFuture<'_, Result<OwnerStream, NoOwner>> {
        Box::pin(async move {
            let permit = Arc::clone(&self.places).try_acquire_owned();
            let permit = permit.map_err(|_| NoOwner::Busy)?;
            let standing = self.standing.clone();
            let connected = connect(&self.client, standing, &self.address, origin).await?;
            Ok(OwnerStream {
                stream: connected.stream,
                is_multiplexed: connected.is_multiplexed,
                moved: connected.moved,
                permit,
            })
        })
    }
}
