//! Passes connections of clients on to the owner of the fleet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::client::fleet;
use crate::output::Failure;
use playgate_config::Config;
use playgate_fleet::etcd::{EtcdLog, EtcdSettings};
use playgate_fleet::membership::Membership;
use playgate_fleet::peers::{PeerClient, PeerError};
use playgate_fleet::standing::Standing;
use playgate_http::server::pass_on::PassOn;
use playgate_http::standby_fleet::{ClientStream, FleetFuture, NoOwner, OWNER_WAIT_MAX};
use playgate_types::{ConnectionOrigin, ListenerKind};

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
pub(crate) fn pass_on_without_store(
    config: &Config,
    membership: &Membership,
) -> Result<PassOn, Failure> {
    let settings = EtcdSettings {
        timeout: LOOK_TIME,
        ..fleet::etcd(&config.fleet)?
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
    let client = fleet::peer_client(config, membership)?;
    Ok(pass_on(client, standing, fleet::address(&config.fleet)))
}

pub(super) fn pass_on(
    client: PeerClient,
    standing: watch::Receiver<Standing>,
    own_address: String,
) -> PassOn {
    let own_address: Arc<str> = own_address.into();
    Arc::new(move |stream, origin, slot| {
        let (client, standing, own_address) =
            (client.clone(), standing.clone(), Arc::clone(&own_address));
        tokio::spawn(async move {
            forward(&client, standing, &own_address, stream, origin).await;
            drop(slot);
        });
    })
}

/// Passes a client on to the owner. Without an owner the client waits: nothing was read from it, so nothing is lost.
async fn forward(
    client: &PeerClient,
    standing: watch::Receiver<Standing>,
    own_address: &str,
    mut stream: Box<dyn ClientStream>,
    origin: ConnectionOrigin,
) {
    match connect(client, standing, own_address, origin).await {
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
pub(super) struct Connected {
    pub stream: Box<dyn ClientStream>,
    pub is_multiplexed: bool,
    pub moved: FleetFuture<'static, ()>,
}

/// Connects to the owner. Waits up to [`OWNER_WAIT_MAX`] for one.
pub(super) async fn connect(
    client: &PeerClient,
    mut standing: watch::Receiver<Standing>,
    own_address: &str,
    origin: ConnectionOrigin,
) -> Result<Connected, NoOwner> {
    let until = Instant::now() + OWNER_WAIT_MAX;
    while Instant::now() < until {
        let address = match &*standing.borrow_and_update() {
            Standing::Standby { owner } => owner.clone(),
            // The connection was accepted before this member became the owner.
            Standing::Owner => Some(own_address.to_owned()),
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
                    let own_address = own_address.to_owned();
                    return Ok(Connected {
                        stream: Box::new(stream),
                        is_multiplexed,
                        moved: Box::pin(owner_moved(standing, address, own_address)),
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
async fn owner_moved(
    mut standing: watch::Receiver<Standing>,
    address: String,
    own_address: String,
) {
    let moved = |standing: &Standing| match standing {
        Standing::Standby { owner } => owner.as_ref().is_some_and(|next| *next != address),
        Standing::Owner | Standing::Deposed => address != own_address,
    };
    let _ = standing.wait_for(moved).await;
}

/// Reads the request after the response: the kernel resets a connection that is closed with unread bytes, and the client
/// would get an error in place of the response.
async fn refuse(mut stream: Box<dyn ClientStream>) -> io::Result<()> {
    stream.write_all(NO_OWNER).await?;
    stream.shutdown().await?;
    copy(&mut stream, &mut sink()).await?;
    Ok(())
}
