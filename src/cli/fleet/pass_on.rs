//! Passes connections of clients on to the owner of the fleet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::member;
use crate::cli::exit::Failure;
use crate::config::Config;
use crate::fleet::driver::Standing;
use crate::fleet::etcd::{EtcdLog, EtcdSettings};
use crate::fleet::membership::Membership;
use crate::fleet::peers::PeerClient;
use crate::http::server::standby::{ClientStream, PassOn};
use crate::types::{ConnectionOrigin, ListenerKind};

/// How long a connection waits for an owner. A takeover is expected to be shorter.
const HOLD: Duration = Duration::from_secs(10);
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
    let client = member::peer_client(membership)?;
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

/// Connects a client with the owner. Without an owner the client waits: nothing was read from it, so nothing is lost.
async fn forward(
    client: &PeerClient,
    mut standing: watch::Receiver<Standing>,
    own: &str,
    mut stream: Box<dyn ClientStream>,
    origin: ConnectionOrigin,
) {
    let until = Instant::now() + HOLD;
    while Instant::now() < until {
        let address = match &*standing.borrow_and_update() {
            Standing::Standby { owner } => owner.clone(),
            // The connection was accepted before this member became the owner.
            Standing::Owner => Some(own.to_owned()),
            Standing::Deposed => None,
        };
        if let Some(address) = address {
            let connected = tokio::select! {
                connected = client.forward(&address, origin) => Some(connected),
                // A machine that was lost does not refuse the connection: a change of the owner ends the wait.
                Ok(()) = standing.changed() => None,
            };
            match connected {
                Some(Ok(mut owner)) => {
                    let moved = |standing: &Standing| match standing {
                        Standing::Standby { owner } => {
                            owner.as_ref().is_some_and(|next| *next != address)
                        }
                        Standing::Owner | Standing::Deposed => address != own,
                    };
                    tokio::select! {
                        // Either side may end it, for any reason.
                        _ = copy_bidirectional(&mut stream, &mut owner) => {}
                        // A previous owner that hangs or is cut off answers nothing more; its client may retry.
                        () = async { drop(standing.wait_for(moved).await) } => {}
                    }
                    return;
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "failed to pass a connection on to the owner; trying again")
                }
                None => continue,
            }
        }
        let _ = timeout(RETRY_INTERVAL, standing.changed()).await;
    }
    if origin.to != ListenerKind::Secure {
        let _ = timeout(LINGER, refuse(stream)).await;
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
