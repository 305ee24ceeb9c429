//! Passes connections of clients on to the owner of the fleet.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use super::member;
use crate::cli::exit::Failure;
use crate::config::Config;
use crate::fleet::etcd::{EtcdLog, EtcdSettings};
use crate::fleet::membership::Membership;
use crate::fleet::peers::{PeerClient, PeerError};
use crate::fleet::standing::{FollowerState, Standing};
use crate::http::server::pass_on::PassOn;
use crate::http::standby_fleet::ClientStream;
use crate::http::standby_fleet::{
    AnsweredBy, FleetFuture, NoOwner, OWNER_WAIT_MAX, OwnerStream, StandbyFleet,
};
use crate::services::Services;
use crate::types::{ConnectionOrigin, ListenerKind, RelayedBeat, SessionId};

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
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Time for a client to read the refusal and to close the connection.
const LINGER: Duration = Duration::from_secs(1);
/// Interval between two queries for the owner.
const OWNER_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit of a call of etcd in such a query.
const LOOK_TIME: Duration = Duration::from_secs(2);

/// The response to a connection that no owner has accepted. No request was read from it.
const NO_OWNER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n\
    Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Passes connections on for a member that cannot open its store and so does not follow the log. Asks etcd for the
/// owner until the result is dropped.
pub(in crate::cli) fn pass_on_without_store(
    config: &Config,
    membership: &Membership,
) -> Result<PassOn, Failure> {
    let settings = EtcdSettings {
        timeout: LOOK_TIME,
        ..member::etcd(&config.fleet)?
    };
    let log = EtcdLog::new(
        &settings,
        membership.fleet,
        config.fleet.lease,
        Handle::current(),
    )?;
    let log = Arc::new(Mutex::new(log));
    let (sender, standing) = watch::channel(Standing::Standby { owner: None });
    tokio::spawn(async move {
        while !sender.is_closed() {
            let log = Arc::clone(&log);
            // Calls of etcd block.
            let asked = tokio::task::spawn_blocking(move || log.lock().owner_record()).await;
            if let Ok(Ok(owner)) = asked {
                Standing::follow(&sender, owner.map(|record| record.address));
            }
            sleep(OWNER_POLL_INTERVAL).await;
        }
    });
    let client = member::peer_client(config, membership)?;
    Ok(pass_on(client, standing, member::address(&config.fleet)))
}

pub(super) fn pass_on(
    client: PeerClient,
    standing: watch::Receiver<Standing>,
    own: String,
) -> PassOn {
    let own: Arc<str> = own.into();
    Arc::new(move |stream, origin, slot| {
        let (client, standing, own) = (client.clone(), standing.clone(), Arc::clone(&own));
        tokio::spawn(async move {
            forward(&client, standing, &own, stream, origin).await;
            drop(slot);
        });
    })
}

/// Passes a client on to the owner. Without an owner the client waits: nothing was read from it, so nothing is lost.
async fn forward(
    client: &PeerClient,
    standing: watch::Receiver<Standing>,
    own: &str,
    mut stream: Box<dyn ClientStream>,
    origin: ConnectionOrigin,
) {
    match connect(client, standing, own, origin).await {
        Ok(Connected {
            stream: mut owner,
            moved,
            ..
        }) => {
            tokio::select! {
                // Either side may end it, for any reason.
                _ = copy_bidirectional(&mut stream, &mut owner) => {}
                // A previous owner that hangs or is cut off answers nothing more; its client may retry.
                () = moved => {}
            }
        }
        Err(_) if origin.to != ListenerKind::Secure => {
            let _ = timeout(LINGER, refuse(stream)).await;
        }
        Err(_) => {}
    }
}

/// A connection to the owner that is not counted yet.
struct Connected {
    stream: Box<dyn ClientStream>,
    is_multiplexed: bool,
    moved: FleetFuture<'static, ()>,
}

/// Connects to the owner. Waits up to [`OWNER_WAIT_MAX`] for one.
async fn connect(
    client: &PeerClient,
    mut standing: watch::Receiver<Standing>,
    own: &str,
    origin: ConnectionOrigin,
) -> Result<Connected, NoOwner> {
    let until = Instant::now() + OWNER_WAIT_MAX;
    while Instant::now() < until {
        let address = match &*standing.borrow_and_update() {
            Standing::Standby { owner } => owner.clone(),
            // The connection was accepted before this member became the owner.
            Standing::Owner => Some(own.to_owned()),
            Standing::Deposed => None,
        };
        if let Some(address) = address {
            let connected = tokio::select! {
                connected = client.forward(&address, origin) => connected,
                // A machine that was lost does not refuse the connection: a change of the owner ends the wait.
                Ok(()) = standing.changed() => continue,
            };
            match connected {
                Ok((stream, is_multiplexed)) => {
                    let own = own.to_owned();
                    return Ok(Connected {
                        stream: Box::new(stream),
                        is_multiplexed,
                        moved: Box::pin(moved(standing, address, own)),
                    });
                }
                // Attempts again and again would only add to its load.
                Err(PeerError::Busy { .. }) => return Err(NoOwner::Busy),
                Err(error) => {
                    tracing::debug!(%error, "failed to connect to the owner; trying again");
                }
            }
        }
        let _ = timeout(RETRY_INTERVAL, standing.changed()).await;
    }
    Err(NoOwner::Absent)
}

/// Returns when the owner is known to have another address.
async fn moved(mut standing: watch::Receiver<Standing>, address: String, own: String) {
    let moved = |standing: &Standing| match standing {
        Standing::Standby { owner } => owner.as_ref().is_some_and(|next| *next != address),
        Standing::Owner | Standing::Deposed => address != own,
    };
    let _ = standing.wait_for(moved).await;
}

/// The fleet of a member, for the requests of its clients.
pub(super) struct FleetLink {
    pub client: PeerClient,
    pub standing: watch::Receiver<Standing>,
    /// The address of this member for other members.
    pub own: String,
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
            let connected = connect(&self.client, standing, &self.own, origin).await?;
            Ok(OwnerStream {
                stream: connected.stream,
                is_multiplexed: connected.is_multiplexed,
                moved: connected.moved,
                permit,
            })
        })
    }
}

/// Reads the request after the response: the kernel resets a connection that is closed with unread bytes, and the client
/// would get an error in place of the response.
async fn refuse(mut stream: Box<dyn ClientStream>) -> io::Result<()> {
    stream.write_all(NO_OWNER).await?;
    stream.shutdown().await?;
    copy(&mut stream, &mut sink()).await?;
    Ok(())
}
