//! Answers requests of other members: it takes over connections, erases events, and sends the store to a member that
//! joins or reseeds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::beats::{BEAT_BYTES, BEATS_MAX, decode_beat};
use super::candidacy::MemberState;
use super::last_commit::{LastCommit, SILENCE_MAX};
use super::membership::{self, Membership, use_invitation};
use super::peer_keys::PeerKeys;
use super::peer_places::Places;
use super::peer_tls::{is_member, server_config};
use super::peers::{
    ANSWER_TIMEOUT, PART_BYTES, PeerAnswer, PeerRequest, SNAPSHOT_TIME, TOO_MANY, Welcome,
    read_line, write_line,
};
use super::promise_given::PromiseGiven;
use playgate_ports::Clock;
use playgate_process::data_file;
use playgate_store::{Store, StoreError};
use playgate_types::{ConnectionOrigin, FiguresFile, RelayedBeat, SessionId, from_hex};

const ACCEPT_REST: Duration = Duration::from_millis(100);
/// A member sends its first bytes with the connection. A silent client must not keep its place.
const FIRST_BYTES_TIME: Duration = Duration::from_millis(500);
/// Interval between two queries for the addresses of the members.
const ADDRESSES_EVERY: Duration = Duration::from_secs(60);
const KEYS: &str = "keys";
const NOT_THE_OWNER: &str = "not the owner";

pub trait PeerStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> PeerStream for S {}

/// Admits a connection of a client that another member has accepted. Returns `None` over the limits.
pub type TakeOver = Arc<dyn Fn(ConnectionOrigin) -> Option<ServeStream> + Send + Sync>;

pub type ServeStream = Box<dyn FnOnce(Box<dyn PeerStream>) + Send>;

pub struct PeerServer {
    pub membership: Membership,
    pub keys: Arc<PeerKeys>,
    pub data_dir: PathBuf,
    pub store: Store,
    pub format: u32,
    pub clock: Arc<dyn Clock>,
    pub promise: Promise,
    pub last_commit: LastCommit,
    /// Set while this member is the owner.
    pub take_over: Arc<Mutex<Option<TakeOver>>>,
    /// Set while this member is not the owner.
    pub erase: Arc<Mutex<Option<Erase>>>,
    /// Set while this member is the owner.
    pub take_beats: Arc<Mutex<Option<TakeBeats>>>,
    /// Set once the services are open.
    pub figures: Arc<OnceLock<ReadFigures>>,
    /// Returns the addresses of the registered members. Blocks.
    pub addresses: ReadAddresses,
    pub state: ReadState,
    pub yields: Yield,
    /// Held while a snapshot is made: another one would delete its partial file.
    pub copying: Mutex<()>,
}

pub type ReadAddresses = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Asks this member not to become the owner before the time has passed. Returns `None` if it does not promise that.
pub type Promise = Arc<dyn Fn(Duration) -> Option<PromiseGiven> + Send + Sync>;

/// Asks this member to leave the claim to another one for a time.
pub type Yield = Arc<dyn Fn(Duration) + Send + Sync>;

pub type ReadState = Arc<dyn Fn() -> MemberState + Send + Sync>;

/// Erases the events of a user. Blocks.
pub type Erase = Arc<dyn Fn([u8; 16]) -> Result<(), String> + Send + Sync>;

/// Takes heartbeats that another member has answered. Returns the sessions that hold no slot.
pub type TakeBeats = Arc<dyn Fn(&[RelayedBeat]) -> Vec<SessionId> + Send + Sync>;

/// Returns figures that this member has made and changed since a time. Blocks.
pub type ReadFigures = Arc<dyn Fn(i64) -> Result<Vec<FiguresFile>, String> + Send + Sync>;

/// More sessions without a slot are told with the next heartbeats, so that an answer is a short line.
const IDLE_MAX: usize = 1_000;

impl PeerServer {
    pub async fn run(self: Arc<Self>, listener: TcpListener) {
        let Ok(tls) = server_config(&self.keys) else {
            return;
        };
        let acceptor = TlsAcceptor::from(tls);
        let outgoing = self.outgoing();
        // A process that was killed may have left a snapshot.
        let cleared = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(outgoing)).await;
        if let Ok(Err(error)) = cleared
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "failed to remove old copies of the store");
        }
        let places = Arc::new(Places::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(register_members(
            Arc::clone(&self.addresses),
            Arc::clone(&places),
        ));
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(place) = places.acquire(peer.ip()) else {
                        tracing::debug!(%peer, "refused a peer: too many connections without a key");
                        continue;
                    };
                    let (server, acceptor) = (Arc::clone(&self), acceptor.clone());
                    let places = Arc::clone(&places);
                    tokio::spawn(async move {
                        let greeted = greet(stream, &acceptor, &server.keys).await;
                        let served = match greeted {
                            Ok(greeting) if greeting.is_member => {
                                places.saw_member(peer.ip());
                                // Members are not limited.
                                drop(place);
                                server.serve(greeting).await
                            }
                            Ok(greeting) => {
                                let _place = place;
                                server.serve(greeting).await
                            }
                            Err(error) => Err(error),
                        };
                        if let Err(error) = served {
                            tracing::debug!(%peer, %error, "a connection of a peer ended");
                        }
                    });
                }
                Err(error) => {
                    // Without a pause, a lack of file descriptors would make this loop spin.
                    tracing::warn!(%error, "failed to accept a peer");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, greeting: Greeting) -> io::Result<()> {
        let Greeting {
            mut stream,
            request,
            // Everything but `Join` requires the key of the fleet.
            is_member,
        } = greeting;
        if !is_member && !matches!(request, PeerRequest::Join { .. }) {
            let refused = PeerAnswer::Refused("not a member".to_owned());
            return write_line(&mut stream, &refused).await;
        }
        match request {
            PeerRequest::Forward(origin) => self.take_connection(stream, origin).await,
            PeerRequest::Erase { user } => {
                let erase = self.erase.lock().clone();
                let answer = tokio::task::spawn_blocking(move || erased(erase, &user)).await?;
                write_line(&mut stream, &answer).await
            }
            PeerRequest::Beats { count } => {
                let answer = self.beats(&mut stream, count).await?;
                write_line(&mut stream, &answer).await
            }
            PeerRequest::Figures { since } => self.send_figures(stream, since).await,
            PeerRequest::Time => {
                let time = PeerAnswer::Time(self.clock.now_millis());
                write_line(&mut stream, &time).await
            }
            PeerRequest::State => {
                let state = PeerAnswer::State((self.state)());
                write_line(&mut stream, &state).await
            }
            PeerRequest::Yield { millis } => {
                (self.yields)(Duration::from_millis(millis));
                write_line(&mut stream, &PeerAnswer::Ok).await
            }
            PeerRequest::LastCommits => {
                write_line(&mut stream, &PeerAnswer::Ok).await?;
                self.tell_last_commits(stream).await
            }
            PeerRequest::Promise { millis, named } => {
                let answer = match (self.promise)(Duration::from_millis(millis)) {
                    Some(given) if named => PeerAnswer::Promised(given),
                    Some(_) => PeerAnswer::Ok,
                    None => PeerAnswer::Refused(
                        "etcd answers this member, or its lease is shorter, so it makes no promise"
                            .to_owned(),
                    ),
                };
                write_line(&mut stream, &answer).await
            }
            PeerRequest::Key(step) => {
                let keys = Arc::clone(&self.keys);
                let taken = tokio::task::spawn_blocking(move || keys.take(&step)).await?;
                let answer = taken.map_or_else(PeerAnswer::Refused, |()| PeerAnswer::Ok);
                write_line(&mut stream, &answer).await
            }
            PeerRequest::Copy { format } => {
                tokio::task::spawn_blocking(move || self.hand_over(stream, None, format)).await?
            }
            PeerRequest::Join { secret, format } => {
                let work = move || self.hand_over(stream, Some(&secret), format);
                tokio::task::spawn_blocking(work).await?
            }
        }
    }

    async fn take_connection(
        &self,
        mut stream: TlsStream<TcpStream>,
        origin: ConnectionOrigin,
    ) -> io::Result<()> {
        let take_over = self.take_over.lock().clone();
        let Some(take_over) = take_over else {
            let refused = PeerAnswer::Refused(NOT_THE_OWNER.to_owned());
            return write_line(&mut stream, &refused).await;
        };
        let Some(serve) = take_over(origin) else {
            let refused = PeerAnswer::Refused(TOO_MANY.to_owned());
            return write_line(&mut stream, &refused).await;
        };
        let accepted = match origin.is_multiplexed {
            true => PeerAnswer::Multiplexed,
            false => PeerAnswer::Ok,
        };
        write_line(&mut stream, &accepted).await?;
        serve(Box::new(stream));
        Ok(())
    }

    /// Ends when this member is not surely the owner: the other member then reads the log.
    async fn tell_last_commits(&self, mut stream: TlsStream<TcpStream>) -> io::Result<()> {
        loop {
            timeout(SILENCE_MAX, stream.read_u8()).await??;
            let Some(number) = (self.last_commit)() else {
                return Ok(());
            };
            let answer = async {
                stream.write_u64(number).await?;
                stream.flush().await
            };
            timeout(SILENCE_MAX, answer).await??;
        }
    }

    async fn send_figures(&self, mut stream: TlsStream<TcpStream>, since: i64) -> io::Result<()> {
        let figures = self.figures.get().cloned();
        let made = tokio::task::spawn_blocking(move || match figures {
            Some(figures) => figures(since),
            None => Err("the services are not open yet".to_owned()),
        });
        let files = match made.await? {
            Ok(files) => files,
            Err(why) => return write_line(&mut stream, &PeerAnswer::Refused(why)).await,
        };
        let listed = files
            .iter()
            .map(|file| (file.hour, file.changed, file.content.len()));
        write_line(&mut stream, &PeerAnswer::Figures(listed.collect())).await?;
        for file in &files {
            timeout(SNAPSHOT_TIME, stream.write_all(&file.content)).await??;
        }
        stream.flush().await
    }

    async fn beats(
        &self,
        stream: &mut TlsStream<TcpStream>,
        count: usize,
    ) -> io::Result<PeerAnswer> {
        if count > BEATS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut rows = vec![0; count * BEAT_BYTES];
        timeout(ANSWER_TIMEOUT, stream.read_exact(&mut rows)).await??;
        let take = self.take_beats.lock().clone();
        let Some(take) = take else {
            return Ok(PeerAnswer::Refused(NOT_THE_OWNER.to_owned()));
        };
        let beats: Vec<_> = rows
            .chunks_exact(BEAT_BYTES)
            .filter_map(decode_beat)
            .collect();
        let idle = take(&beats);
        let idle = idle.iter().take(IDLE_MAX);
        let ids = idle.map(|session| HEXLOWER.encode(session.as_bytes()));
        Ok(PeerAnswer::Idle(ids.collect()))
    }

    /// Sends a snapshot. A client that is not a member needs the secret of an invitation. Blocks.
    fn hand_over(
        &self,
        mut stream: TlsStream<TcpStream>,
        secret: Option<&str>,
        format: u32,
    ) -> io::Result<()> {
        match self.snapshot(secret, format) {
            Ok(snapshot) => self.send(&mut stream, snapshot),
            Err(why) => {
                tracing::warn!(why, "refused to send a copy of the store to another member");
                let refused = PeerAnswer::Refused(why);
                Handle::current().block_on(write_line(&mut stream, &refused))
            }
        }
    }

    fn outgoing(&self) -> PathBuf {
        membership::directory(&self.data_dir).join("outgoing")
    }

    fn snapshot(&self, secret: Option<&str>, format: u32) -> Result<File, String> {
        // The format is checked before the invitation, which is used up by its check.
        check_format(format, self.format)?;
        if secret.is_some() && self.keys.settled().is_none() {
            return Err(
                "the key of the fleet is being changed: finish `playgate fleet rotate-key`, then run `playgate fleet invite` again"
                    .to_owned(),
            );
        }
        if let Some(secret) = secret {
            let now = self.clock.now().0;
            if !from_hex(secret).is_some_and(|secret| use_invitation(&self.data_dir, secret, now)) {
                return Err(
                    "the invitation was used, has expired or is not known here; run `playgate fleet invite` again"
                        .to_owned(),
                );
            }
        }
        let _one = self.copying.lock();
        let made = self.store.back_up(&self.outgoing());
        let made = made.map_err(|error| match error {
            StoreError::Io(why) => format!("no snapshot can be made: {why}"),
            other => format!("no snapshot can be made: {other}"),
        })?;
        let opened = File::open(&made.path);
        // The snapshot is for this request only. Without a name it ends with the process, and the next one cannot have
        // the same name.
        if let Err(error) = std::fs::remove_file(&made.path) {
            tracing::warn!(%error, "failed to remove the copy {}", made.path.display());
        }
        opened.map_err(|error| format!("no snapshot can be read: {error}"))
    }

    fn send(&self, stream: &mut TlsStream<TcpStream>, mut file: File) -> io::Result<()> {
        let runtime = Handle::current();
        // The new member needs the keys to decrypt values of the snapshot.
        let mut keys = BTreeMap::new();
        for entry in std::fs::read_dir(self.data_dir.join(KEYS))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            // Unfinished key files have another extension.
            if let Some(name) = name.filter(|name| name.ends_with(".key")) {
                keys.insert(name.to_owned(), data_file::read_to_string(&path)?);
            }
        }
        let welcome = PeerAnswer::Welcome(Welcome {
            fleet: HEXLOWER.encode(&self.membership.fleet),
            key: HEXLOWER.encode(&self.keys.presented()),
            keys,
            now: self.clock.now().0,
            snapshot: file.metadata()?.len(),
        });
        runtime.block_on(write_line(stream, &welcome))?;
        let mut part = vec![0; PART_BYTES];
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

/// The first request of a connection.
struct Greeting {
    stream: TlsStream<TcpStream>,
    request: PeerRequest,
    is_member: bool,
}

async fn greet(stream: TcpStream, acceptor: &TlsAcceptor, keys: &PeerKeys) -> io::Result<Greeting> {
    stream.set_nodelay(true)?;
    timeout(FIRST_BYTES_TIME, stream.readable()).await??;
    let greeting = async {
        let mut stream = acceptor.accept(stream).await?;
        let request = read_line::<PeerRequest>(&mut stream).await?;
        let is_member = is_member(stream.get_ref().1.peer_certificates(), keys);
        Ok::<_, io::Error>(Greeting {
            stream,
            request,
            is_member,
        })
    };
    // A client that is not a member must not hold a connection without a request.
    timeout(ANSWER_TIMEOUT, greeting).await?
}

async fn register_members(read: ReadAddresses, places: Arc<Places>) {
    loop {
        let read = Arc::clone(&read);
        let listed = tokio::task::spawn_blocking(move || read()).await;
        let mut found = Vec::new();
        for address in listed.unwrap_or_default() {
            if let Ok(resolved) = lookup_host(&address).await {
                found.extend(resolved.map(|address| address.ip()));
            }
        }
        // While etcd does not answer, the last addresses stay.
        if !found.is_empty() {
            places.register(found);
        }
        sleep(ADDRESSES_EVERY).await;
    }
}

fn erased(erase: Option<Erase>, user: &str) -> PeerAnswer {
    let done = match (erase, from_hex(user)) {
        (Some(erase), Some(id)) => erase(id),
        _ => Err("not a standby".to_owned()),
    };
    done.map_or_else(PeerAnswer::Refused, |()| PeerAnswer::Ok)
}

fn check_format(reads: u32, fleet_format: u32) -> Result<(), String> {
    // The other version would upgrade a copy of another format, which then could not continue the log.
    if reads == fleet_format {
        return Ok(());
    }
    let install = match reads < fleet_format {
        true => "install the version of this fleet there",
        false => "install the version of this fleet there, or upgrade the fleet first",
    };
    Err(format!(
        "it reads stores of format {reads}, and the fleet has format {fleet_format}; {install}"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use tokio::net::TcpSocket;

    use super::*;
    use crate::fence::tests::Uptime;
    use crate::peers::PeerClient;
    use playgate_store::{Options, Schema, check_snapshot};

    fn server(data: &Path, last_commit: fn() -> Option<u64>) -> PeerServer {
        let schema = Schema::default();
        PeerServer {
            keys: Arc::new(PeerKeys::new([4; 32], None)),
            membership: Membership {
                fleet: [1; 16],
                member: [3; 16],
                name: "south".to_owned(),
                key: [4; 32],
            },
            data_dir: data.to_owned(),
            store: Store::open(data, schema.clone(), Options::default()).unwrap(),
            format: schema.format(),
            clock: Arc::new(Uptime(AtomicI64::new(0))),
            promise: Arc::new(|_| None),
            last_commit: Arc::new(last_commit),
            take_over: Arc::default(),
            erase: Arc::default(),
            take_beats: Arc::default(),
            figures: Arc::default(),
            addresses: Arc::new(|| vec!["127.0.0.1:1".to_owned()]),
            state: Arc::new(MemberState::default),
            yields: Arc::new(|_| {}),
            copying: Mutex::default(),
        }
    }

    /// Control: before, all connections waited behind 256 silent ones, for three seconds each.
    #[tokio::test(flavor = "multi_thread")]
    async fn silent_strangers_do_not_delay_a_member() {
        let data = tempfile::tempdir().unwrap();
        let server = server(data.path(), || None);
        let client = PeerClient::new(Arc::clone(&server.keys)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let running = tokio::spawn(Arc::new(server).run(listener));
        let mut silent = Vec::new();
        for last in [1, 2] {
            for _ in 0..300 {
                let socket = TcpSocket::new_v4().unwrap();
                // Also from the address of a member.
                socket.bind(([127, 0, 0, last], 0).into()).unwrap();
                silent.push(socket.connect(address).await.unwrap());
            }
        }
        client.time(&address.to_string()).await.unwrap();
        drop(silent);
        running.abort();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_last_commit_is_told_as_long_as_the_member_is_the_owner() {
        static LAST: AtomicU64 = AtomicU64::new(7);
        let data = tempfile::tempdir().unwrap();
        let last_commit = || Some(LAST.load(Ordering::SeqCst)).filter(|number| *number > 0);
        let server = server(data.path(), last_commit);
        let client = PeerClient::new(Arc::clone(&server.keys)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let running = tokio::spawn(Arc::new(server).run(listener));
        let mut commits = client.last_commits(&address).await.unwrap();
        assert_eq!(commits.next().await.unwrap(), 7);
        LAST.store(8, Ordering::SeqCst);
        assert_eq!(commits.next().await.unwrap(), 8);
        LAST.store(0, Ordering::SeqCst);
        assert!(commits.next().await.is_err());
        running.abort();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn copies_at_the_same_time_are_whole_and_leave_no_file() {
        let data = tempfile::tempdir().unwrap();
        let outgoing = data.path().join("fleet/outgoing");
        fs::create_dir_all(&outgoing).unwrap();
        fs::write(outgoing.join("of-a-killed-process.snapshot"), "x").unwrap();
        fs::create_dir(data.path().join(KEYS)).unwrap();
        let schema = Schema::default();
        let server = server(data.path(), || None);
        let client = PeerClient::new(Arc::clone(&server.keys)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let running = tokio::spawn(Arc::new(server).run(listener));
        let received = ["a", "b"].map(|name| data.path().join(name));
        let [first, second] = &received;
        let copied = tokio::join!(
            client.copy(&address, schema.format(), first),
            client.copy(&address, schema.format(), second),
        );
        copied.0.unwrap();
        copied.1.unwrap();
        for path in &received {
            check_snapshot(path, &schema).unwrap();
        }
        assert_eq!(fs::read_dir(&outgoing).unwrap().count(), 0);
        running.abort();
    }

    #[test]
    fn a_member_of_another_format_is_refused_with_both_formats() {
        assert_eq!(check_format(4, 4), Ok(()));
        let older = check_format(3, 4).unwrap_err();
        assert!(
            older.contains("format 3") && older.contains("format 4; install"),
            "{older}"
        );
        assert!(
            check_format(5, 4)
                .unwrap_err()
                .contains("upgrade the fleet first")
        );
    }
}
