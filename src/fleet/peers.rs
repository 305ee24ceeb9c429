//! The protocol and client for requests between members of a fleet, over
//! [TLS with the key of the fleet](super::peer_tls).
//!
//! A request is one line of JSON, and so is its answer. After the answer to [`PeerRequest::Forward`], the connection
//! carries the bytes of the client. After the answer to [`PeerRequest::Join`] or [`PeerRequest::Copy`], the snapshot
//! follows.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

use super::beats::{BEATS_MAX, encode_beat};
use super::candidacy::MemberState;
use super::membership::{Invitation, Membership};
pub use super::peer_error::PeerError;
use super::peer_keys::{KeyStep, PeerKeys};
use super::peer_tls::{any_name, client_config, joining_config};
use super::promise_given::PromiseGiven;
use playgate_ports::private_file;
use playgate_types::{ConnectionOrigin, FiguresFile, RelayedBeat, SessionId, from_hex};

/// Timeout for the connection with its handshake, and for most answers.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for the answer to a request for a copy, which waits for a snapshot.
pub(super) const SNAPSHOT_TIME: Duration = Duration::from_secs(30 * 60);
/// An erasure rewrites segments of whole hours.
const ERASURE_TIME: Duration = Duration::from_secs(5 * 60);
const FIGURES_TIME: Duration = Duration::from_secs(60);
/// Far more than the figures of an hour have.
const FIGURES_MAX: usize = 64 * 1024 * 1024;
/// The refusal of an owner that serves as many forwarded connections as it may.
pub(super) const TOO_MANY: &str = "too many connections";
const LINE_MAX: usize = 64 * 1024;
pub(super) const PART_BYTES: usize = 256 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PeerRequest {
    Forward(ConnectionOrigin),
    Time,
    /// Asks for the number of the last commit: once for each byte that follows.
    LastCommits,
    /// Asks what the member knows of itself. Members of earlier versions end the connection.
    State,
    /// Asks the member to leave the claim to another one for this time. It may still take it, unlike after a promise.
    Yield {
        millis: u64,
    },
    /// Asks the member not to become the owner before this time has passed.
    Promise {
        millis: u64,
        /// Whether the answer is to name the process. Earlier versions do not understand such an answer.
        #[serde(default)]
        named: bool,
    },
    Erase {
        user: String,
    },
    /// Heartbeats that a standby has answered. That many [records](super::beats) follow.
    Beats {
        count: usize,
    },
    Copy {
        format: u32,
    },
    /// A step of a rotation of the key of the fleet.
    Key(KeyStep),
    /// Asks for the figures that the member has made and changed since a time.
    Figures {
        since: i64,
    },
    /// Asks for a copy of the store and the key of the fleet. The only request that is allowed without this key.
    Join {
        /// Secret of the invitation in hexadecimal.
        secret: String,
        format: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PeerAnswer {
    Ok,
    Promised(PromiseGiven),
    /// Like `Ok`, and the connection carries HTTP/2, which [`ConnectionOrigin::is_multiplexed`] has offered.
    Multiplexed,
    /// Unix milliseconds.
    Time(i64),
    State(MemberState),
    Welcome(Welcome),
    /// Ids of sessions without a slot, in hexadecimal.
    Idle(Vec<String>),
    /// Hour, change and length of each file. The files follow.
    Figures(Vec<(i64, i64, usize)>),
    Refused(String),
}

#[derive(Serialize, Deserialize)]
pub struct Welcome {
    pub(super) fleet: String,
    pub(super) key: String,
    /// Key files of the installation, by name.
    pub keys: BTreeMap<String, String>,
    /// Clock of the other machine in Unix seconds.
    pub now: i64,
    pub(super) snapshot: u64,
}

impl Welcome {
    pub fn membership(&self, member: [u8; 16], name: String) -> Option<Membership> {
        Some(Membership {
            fleet: from_hex(&self.fleet)?,
            member,
            name,
            key: from_hex(&self.key)?,
        })
    }
}

#[derive(Clone)]
pub struct PeerClient(Arc<ClientConfig>, Arc<PeerKeys>);

impl PeerClient {
    pub fn new(keys: Arc<PeerKeys>) -> io::Result<Self> {
        let config = client_config(&keys).map_err(io::Error::other)?;
        Ok(Self(config, keys))
    }

    pub fn keys(&self) -> Arc<PeerKeys> {
        Arc::clone(&self.1)
    }

    pub async fn rotate_key(&self, address: &str, step: &KeyStep) -> Result<(), PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let request = PeerRequest::Key(step.clone());
        match ask(address, &mut stream, &request, ANSWER_TIMEOUT).await? {
            PeerAnswer::Ok => Ok(()),
            other => Err(unexpected(address, other)),
        }
    }

    pub async fn erase(&self, address: &str, user: &[u8; 16]) -> Result<(), PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let request = PeerRequest::Erase {
            user: HEXLOWER.encode(user),
        };
        match ask(address, &mut stream, &request, ERASURE_TIME).await? {
            PeerAnswer::Ok => Ok(()),
            other => Err(unexpected(address, other)),
        }
    }

    /// Reports heartbeats to the owner. Returns the sessions that hold no slot.
    pub async fn relay(
        &self,
        address: &str,
        beats: &[RelayedBeat],
    ) -> Result<Vec<SessionId>, PeerError> {
        let mut idle = Vec::new();
        for beats in beats.chunks(BEATS_MAX) {
            let mut stream = connect(address, &self.0).await?;
            let count = beats.len();
            let rows: Vec<u8> = beats.iter().flat_map(encode_beat).collect();
            let sending = async {
                write_line(&mut stream, &PeerRequest::Beats { count }).await?;
                stream.write_all(&rows).await?;
                stream.flush().await?;
                read_line(&mut stream).await
            };
            let answer = timeout(ANSWER_TIMEOUT, sending).await;
            let answer = answer
                .unwrap_or_else(|late| Err(late.into()))
                .map_err(|error| not_reached(address, error))?;
            match answer {
                PeerAnswer::Idle(ids) => idle.extend(
                    ids.iter()
                        .filter_map(|id| from_hex(id).map(SessionId::from_bytes)),
                ),
                other => return Err(unexpected(address, other)),
            }
        }
        Ok(idle)
    }

    /// Returns figures that a member has made and changed since a time. There may be more.
    pub async fn figures(&self, address: &str, since: i64) -> Result<Vec<FiguresFile>, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let request = PeerRequest::Figures { since };
        let listed = match ask(address, &mut stream, &request, FIGURES_TIME).await? {
            PeerAnswer::Figures(listed) => listed,
            other => return Err(unexpected(address, other)),
        };
        let reading = async {
            let mut files = Vec::new();
            for (hour, changed, length) in listed {
                let mut content = vec![0; length.min(FIGURES_MAX)];
                stream.read_exact(&mut content).await?;
                files.push(FiguresFile {
                    hour,
                    changed,
                    content,
                });
            }
            Ok(files)
        };
        let read = timeout(FIGURES_TIME, reading).await;
        read.unwrap_or_else(|late| Err(late.into()))
            .map_err(|error| not_reached(address, error))
    }

    pub async fn copy(
        &self,
        address: &str,
        format: u32,
        snapshot: &Path,
    ) -> Result<Welcome, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        receive(
            address,
            &mut stream,
            &PeerRequest::Copy { format },
            snapshot,
        )
        .await
    }

    /// Returns the clock of the member in Unix milliseconds.
    pub async fn time(&self, address: &str) -> Result<i64, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        match ask(address, &mut stream, &PeerRequest::Time, ANSWER_TIMEOUT).await? {
            PeerAnswer::Time(millis) => Ok(millis),
            other => Err(unexpected(address, other)),
        }
    }

    pub async fn state(&self, address: &str) -> Result<MemberState, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        match ask(address, &mut stream, &PeerRequest::State, ANSWER_TIMEOUT).await? {
            PeerAnswer::State(state) => Ok(state),
            other => Err(unexpected(address, other)),
        }
    }

    pub async fn yield_claim(&self, address: &str, time: Duration) -> Result<(), PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let request = PeerRequest::Yield { millis };
        match ask(address, &mut stream, &request, ANSWER_TIMEOUT).await? {
            PeerAnswer::Ok => Ok(()),
            other => Err(unexpected(address, other)),
        }
    }

    /// Connects to a member that tells the number of its last commit while it is the owner.
    pub(super) async fn last_commits(&self, address: &str) -> Result<LastCommits, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        match ask(
            address,
            &mut stream,
            &PeerRequest::LastCommits,
            ANSWER_TIMEOUT,
        )
        .await?
        {
            PeerAnswer::Ok => Ok(LastCommits(stream)),
            other => Err(unexpected(address, other)),
        }
    }

    pub async fn promise(&self, address: &str, time: Duration) -> Result<PromiseGiven, PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let named = true;
        let request = PeerRequest::Promise { millis, named };
        match ask(address, &mut stream, &request, ANSWER_TIMEOUT).await? {
            PeerAnswer::Promised(given) => Ok(given),
            PeerAnswer::Ok => Ok(PromiseGiven::default()),
            other => Err(unexpected(address, other)),
        }
    }

    /// Forwards a connection to the owner. Nothing of the client is read before, so that the caller can try again after an
    /// error. Returns whether the connection carries HTTP/2.
    pub async fn forward(
        &self,
        address: &str,
        origin: ConnectionOrigin,
    ) -> Result<(TlsStream<TcpStream>, bool), PeerError> {
        let mut stream = connect(address, &self.0).await?;
        let request = PeerRequest::Forward(origin);
        match ask(address, &mut stream, &request, ANSWER_TIMEOUT).await? {
            PeerAnswer::Ok => Ok((stream, false)),
            PeerAnswer::Multiplexed if origin.is_multiplexed => Ok((stream, true)),
            PeerAnswer::Refused(why) if why == TOO_MANY => Err(PeerError::Busy {
                address: address.to_owned(),
            }),
            other => Err(unexpected(address, other)),
        }
    }
}

pub(super) struct LastCommits(TlsStream<TcpStream>);

impl LastCommits {
    pub(super) async fn next(&mut self) -> io::Result<u64> {
        self.0.write_u8(0).await?;
        self.0.flush().await?;
        self.0.read_u64().await
    }
}

pub async fn join(
    invitation: &Invitation,
    seed: &[u8; 32],
    format: u32,
    snapshot: &Path,
) -> Result<Welcome, PeerError> {
    let address = &invitation.address;
    let config = joining_config(seed, &invitation.public_key)
        .map_err(|error| PeerError::File(io::Error::other(error)))?;
    let mut stream = connect(address, &config).await?;
    let request = PeerRequest::Join {
        secret: HEXLOWER.encode(&invitation.secret),
        format,
    };
    receive(address, &mut stream, &request, snapshot).await
}

async fn receive(
    address: &str,
    stream: &mut TlsStream<TcpStream>,
    request: &PeerRequest,
    snapshot: &Path,
) -> Result<Welcome, PeerError> {
    let welcome = match ask(address, stream, request, SNAPSHOT_TIME).await? {
        PeerAnswer::Welcome(welcome) => welcome,
        other => return Err(unexpected(address, other)),
    };
    // It has e-mail addresses and password hashes.
    let mut file = private_file::create(snapshot).map_err(PeerError::File)?;
    let (mut left, mut part) = (welcome.snapshot, vec![0; PART_BYTES]);
    while left > 0 {
        let read = timeout(SNAPSHOT_TIME, stream.read(&mut part)).await;
        let length = read
            .unwrap_or_else(|late| Err(late.into()))
            .map_err(|error| not_reached(address, error))?;
        let Some(read) = part.get(..length).filter(|read| !read.is_empty()) else {
            // A connection that ends early must not look like a complete snapshot.
            let early = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(not_reached(address, early));
        };
        io::Write::write_all(&mut file, read).map_err(PeerError::File)?;
        left = left.saturating_sub(length as u64);
    }
    Ok(welcome)
}

fn unexpected(address: &str, answer: PeerAnswer) -> PeerError {
    PeerError::Refused {
        address: address.to_owned(),
        why: match answer {
            PeerAnswer::Refused(why) => why,
            PeerAnswer::Ok
            | PeerAnswer::Multiplexed
            | PeerAnswer::Time(_)
            | PeerAnswer::State(_)
            | PeerAnswer::Idle(_)
            | PeerAnswer::Figures(_)
            | PeerAnswer::Promised(_)
            | PeerAnswer::Welcome(_) => "unexpected answer".to_owned(),
        },
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
) -> Result<TlsStream<TcpStream>, PeerError> {
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::clone(config))
            .connect(any_name(), stream)
            .await
    };
    let connected = timeout(ANSWER_TIMEOUT, connecting).await;
    connected
        .unwrap_or_else(|late| Err(late.into()))
        .map_err(|error| match error.kind() {
            // Only the key is verified.
            io::ErrorKind::InvalidData => PeerError::OtherKey {
                address: address.to_owned(),
            },
            _ => not_reached(address, error),
        })
}

async fn ask(
    address: &str,
    stream: &mut TlsStream<TcpStream>,
    request: &PeerRequest,
    max_wait: Duration,
) -> Result<PeerAnswer, PeerError> {
    let asking = async {
        write_line(stream, request).await?;
        read_line(stream).await
    };
    let answered = timeout(max_wait, asking).await;
    answered
        .unwrap_or_else(|late| Err(late.into()))
        .map_err(|error| not_reached(address, error))
}

pub(super) async fn write_line(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.flush().await
}

pub(super) async fn read_line<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<T> {
    let mut line = Vec::new();
    loop {
        // Single bytes are read, so that nothing after the line is lost. TLS has a buffer.
        match stream.read_u8().await? {
            b'\n' => return Ok(serde_json::from_slice(&line)?),
            byte => line.push(byte),
        }
        // A client that is not a member must not fill the memory.
        if line.len() > LINE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
