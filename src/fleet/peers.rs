//! What members of a fleet ask each other, over [TLS with the key of the fleet](super::peer_tls): to take a
//! connection over, and to let a new member join.
//!
//! A request is one line of JSON, and so is its answer. After the answer to [`PeerRequest::Forward`] the
//! connection is that of the client; after that to [`PeerRequest::Join`] the snapshot follows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::membership::{Membership, use_invitation};
use super::peer_tls::{any_name, client_config, is_member, public_key, server_config};
use crate::ports::Clock;
use crate::store::{Store, StoreError};
use crate::types::ConnectionOrigin;

/// For a connection, its handshake and the line of the other side.
const GREETING: Duration = Duration::from_secs(3);
/// For the answer to who joins, which waits for a snapshot.
const SNAPSHOT_TIME: Duration = Duration::from_secs(30 * 60);
/// Whole hours are rewritten.
const ERASURE_TIME: Duration = Duration::from_secs(5 * 60);
const LINE_MAX: usize = 64 * 1024;
const PART: usize = 256 * 1024;
/// Rest after a failed `accept`, as without free descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);
const KEYS: &str = "keys";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PeerRequest {
    Forward(ConnectionOrigin),
    /// To erase the events of a user.
    Erase {
        /// In hexadecimal.
        user: String,
    },
    /// The only one without the key of the fleet.
    Join {
        /// In hexadecimal.
        secret: String,
        format: u32,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PeerAnswer {
    Ok,
    Welcome(Welcome),
    Refused(String),
}

/// What a new member needs besides the snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    fleet: String,
    key: String,
    /// Key files of the installation, by name.
    pub keys: BTreeMap<String, String>,
    /// Of the other machine, in Unix seconds.
    pub now: i64,
    snapshot: u64,
}

impl Welcome {
    /// The membership that begins with it.
    #[must_use]
    pub fn membership(&self, member: [u8; 16], name: String) -> Option<Membership> {
        let fleet = HEXLOWER.decode(self.fleet.as_bytes()).ok()?;
        let key = HEXLOWER.decode(self.key.as_bytes()).ok()?;
        Some(Membership {
            fleet: fleet.try_into().ok()?,
            member,
            name,
            key: key.try_into().ok()?,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    #[error("{address}: {error}")]
    Connect { address: String, error: io::Error },
    #[error("{address} has another key: the invitation is for another fleet")]
    OtherKey { address: String },
    #[error("{address} refuses: {why}")]
    Refused { address: String, why: String },
    #[error("{0}")]
    File(io::Error),
}

/// A stream that was taken over from another member.
pub trait PeerStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> PeerStream for S {}

/// Serves connections that other members forward.
pub type TakeOver = Arc<dyn Fn(Box<dyn PeerStream>, ConnectionOrigin) + Send + Sync>;

pub struct PeerServer {
    pub membership: Membership,
    pub data_dir: PathBuf,
    pub store: Store,
    pub format: u32,
    pub clock: Arc<dyn Clock>,
    /// Set while this member is the owner.
    pub take_over: Arc<Mutex<Option<TakeOver>>>,
    /// Set while it is not.
    pub erase: Arc<Mutex<Option<Erase>>>,
}

/// Erases the events of a user; blocks.
pub type Erase = Arc<dyn Fn([u8; 16]) -> Result<(), String> + Send + Sync>;

impl PeerServer {
    pub async fn run(self: Arc<Self>, listener: TcpListener) {
        let Ok(tls) = server_config(&self.membership.key) else {
            return;
        };
        let acceptor = TlsAcceptor::from(tls);
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let (server, acceptor) = (Arc::clone(&self), acceptor.clone());
                    tokio::spawn(async move {
                        if let Err(error) = server.serve(stream, &acceptor).await {
                            tracing::debug!(%peer, %error, "a connection of a peer ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a peer");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, acceptor: &TlsAcceptor) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let greeting = async {
            let mut stream = acceptor.accept(stream).await?;
            let request = read_line::<PeerRequest>(&mut stream).await?;
            Ok::<_, io::Error>((stream, request))
        };
        let (mut stream, request) = timeout(GREETING, greeting).await??;
        let own = public_key(&self.membership.key).unwrap_or_default();
        let member = is_member(stream.get_ref().1.peer_certificates(), &own);
        match request {
            PeerRequest::Forward(origin) if member => {
                let take_over = self.take_over.lock().clone();
                let Some(take_over) = take_over else {
                    let refused = PeerAnswer::Refused("not the owner".to_owned());
                    return write_line(&mut stream, &refused).await;
                };
                write_line(&mut stream, &PeerAnswer::Ok).await?;
                take_over(Box::new(stream), origin);
                Ok(())
            }
            PeerRequest::Erase { user } if member => {
                let erase = self.erase.lock().clone();
                let answer = tokio::task::spawn_blocking(move || erased(erase, &user)).await?;
                write_line(&mut stream, &answer).await
            }
            PeerRequest::Forward(_) | PeerRequest::Erase { .. } => {
                let refused = PeerAnswer::Refused("not a member".to_owned());
                write_line(&mut stream, &refused).await
            }
            PeerRequest::Join { secret, format } => {
                let stream = TlsStream::from(stream);
                tokio::task::spawn_blocking(move || self.admit(stream, &secret, format)).await?
            }
        }
    }

    /// Blocks.
    fn admit(&self, mut stream: TlsStream<TcpStream>, secret: &str, format: u32) -> io::Result<()> {
        let runtime = Handle::current();
        let mut refuse = |why: String| {
            tracing::warn!(why, "refused a new member");
            let refused = PeerAnswer::Refused(why);
            runtime.block_on(write_line(&mut stream, &refused))
        };
        if format != self.format {
            return refuse(format!(
                "it reads stores of format {format}, and the fleet has format {}; install the same version",
                self.format
            ));
        }
        let secret = HEXLOWER.decode(secret.as_bytes()).ok();
        let secret = secret.and_then(|secret| <[u8; 16]>::try_from(secret).ok());
        let now = self.clock.now().0;
        if !secret.is_some_and(|secret| use_invitation(&self.data_dir, secret, now)) {
            return refuse(
                "the invitation was used, has expired or is not known here; run `playgate fleet invite` again"
                    .to_owned(),
            );
        }
        let folder = super::membership::directory(&self.data_dir).join("outgoing");
        let made = self.store.back_up(&folder).map_err(|error| match error {
            StoreError::Io(why) => why,
            other => other.to_string(),
        });
        let path = match made {
            Ok(made) => made.path,
            Err(why) => return refuse(format!("no snapshot can be made: {why}")),
        };
        let sent = self.send(&mut stream, &path);
        std::fs::remove_file(&path)?;
        sent
    }

    fn send(&self, stream: &mut TlsStream<TcpStream>, path: &Path) -> io::Result<()> {
        let runtime = Handle::current();
        let mut file = File::open(path)?;
        let mut keys = BTreeMap::new();
        for entry in std::fs::read_dir(self.data_dir.join(KEYS))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(name) = name.filter(|name| name.ends_with(".key")) {
                keys.insert(name.to_owned(), std::fs::read_to_string(&path)?);
            }
        }
        let welcome = PeerAnswer::Welcome(Welcome {
            fleet: HEXLOWER.encode(&self.membership.fleet),
            key: HEXLOWER.encode(&self.membership.key),
            keys,
            now: self.clock.now().0,
            snapshot: file.metadata()?.len(),
        });
        runtime.block_on(write_line(stream, &welcome))?;
        let mut part = vec![0; PART];
        loop {
            let length = file.read(&mut part)?;
            let Some(read) = part.get(..length).filter(|read| !read.is_empty()) else {
                break;
            };
            runtime.block_on(timeout(SNAPSHOT_TIME, stream.write_all(read)))??;
        }
        runtime.block_on(stream.shutdown())
    }
}

fn erased(erase: Option<Erase>, user: &str) -> PeerAnswer {
    let id = HEXLOWER.decode(user.as_bytes()).ok();
    let id = id.and_then(|id| <[u8; 16]>::try_from(id).ok());
    let done = match (erase, id) {
        (Some(erase), Some(id)) => erase(id),
        _ => Err("not a standby".to_owned()),
    };
    done.map_or_else(PeerAnswer::Refused, |()| PeerAnswer::Ok)
}

/// Connects to other members.
#[derive(Clone)]
pub struct PeerClient(Arc<ClientConfig>);

impl PeerClient {
    pub fn new(membership: &Membership) -> io::Result<Self> {
        let own = public_key(&membership.key).unwrap_or_default();
        let config = client_config(&membership.key, &own).map_err(io::Error::other)?;
        Ok(Self(config))
    }

    /// Erases the events of a user there.
    pub async fn erase(&self, address: &str, user: &[u8; 16]) -> Result<(), PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let request = PeerRequest::Erase {
            user: HEXLOWER.encode(user),
        };
        match ask(address, &mut stream, &request, ERASURE_TIME).await? {
            PeerAnswer::Ok => Ok(()),
            PeerAnswer::Refused(why) => Err(refused(address, why)),
            PeerAnswer::Welcome(_) => Err(refused(address, "unexpected answer".to_owned())),
        }
    }

    /// Hands a connection to the owner. Nothing of the client was read, so that an error can be followed by
    /// another attempt.
    pub async fn forward(
        &self,
        address: &str,
        origin: ConnectionOrigin,
    ) -> Result<impl PeerStream + use<>, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let request = PeerRequest::Forward(origin);
        match ask(address, &mut stream, &request, GREETING).await? {
            PeerAnswer::Ok => Ok(stream),
            PeerAnswer::Refused(why) => Err(refused(address, why)),
            PeerAnswer::Welcome(_) => Err(refused(address, "unexpected answer".to_owned())),
        }
    }
}

/// Joins with an invitation; writes the snapshot to a file.
pub async fn join(
    invitation: &super::membership::Invitation,
    seed: &[u8; 32],
    format: u32,
    snapshot: &Path,
) -> Result<Welcome, PeerError> {
    let address = &invitation.address;
    let config = client_config(seed, &invitation.public_key)
        .map_err(|error| PeerError::File(io::Error::other(error)))?;
    let mut stream = connect(address, &config).await?;
    let request = PeerRequest::Join {
        secret: HEXLOWER.encode(&invitation.secret),
        format,
    };
    let welcome = match ask(address, &mut stream, &request, SNAPSHOT_TIME).await? {
        PeerAnswer::Welcome(welcome) => welcome,
        PeerAnswer::Refused(why) => return Err(refused(address, why)),
        PeerAnswer::Ok => return Err(refused(address, "unexpected answer".to_owned())),
    };
    let mut file = File::create(snapshot).map_err(PeerError::File)?;
    let (mut left, mut part) = (welcome.snapshot, vec![0; PART]);
    while left > 0 {
        let read = timeout(SNAPSHOT_TIME, stream.read(&mut part)).await;
        let length = read
            .unwrap_or_else(|late| Err(late.into()))
            .map_err(|error| not_reached(address, error))?;
        let Some(read) = part.get(..length).filter(|read| !read.is_empty()) else {
            let early = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(not_reached(address, early));
        };
        io::Write::write_all(&mut file, read).map_err(PeerError::File)?;
        left = left.saturating_sub(length as u64);
    }
    Ok(welcome)
}

fn refused(address: &str, why: String) -> PeerError {
    PeerError::Refused {
        address: address.to_owned(),
        why,
    }
}

fn not_reached(address: &str, error: io::Error) -> PeerError {
    PeerError::Connect {
        address: address.to_owned(),
        error,
    }
}

async fn connect(
    address: &str,
    config: &Arc<ClientConfig>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, PeerError> {
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::clone(config))
            .connect(any_name(), stream)
            .await
    };
    let connected = timeout(GREETING, connecting).await;
    connected
        .unwrap_or_else(|late| Err(late.into()))
        .map_err(|error| match error.kind() {
            // The only thing that is verified.
            io::ErrorKind::InvalidData => PeerError::OtherKey {
                address: address.to_owned(),
            },
            _ => not_reached(address, error),
        })
}

async fn ask(
    address: &str,
    stream: &mut tokio_rustls::client::TlsStream<TcpStream>,
    request: &PeerRequest,
    patience: Duration,
) -> Result<PeerAnswer, PeerError> {
    let asking = async {
        write_line(stream, request).await?;
        read_line(stream).await
    };
    let answered = timeout(patience, asking).await;
    answered
        .unwrap_or_else(|late| Err(late.into()))
        .map_err(|error| not_reached(address, error))
}

async fn write_line(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.flush().await
}

/// Reads byte by byte, so that nothing of what follows the line is lost. TLS has a buffer below.
async fn read_line<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(serde_json::from_slice(&line)?),
            byte => line.push(byte),
        }
        if line.len() > LINE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
