//! Slow clients. Each holds a connection in its own way and measures how long the server allows it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::setpriority_process;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::sleep;

/// The interval between two bytes of a slow sender.
const DRIP: Duration = Duration::from_secs(1);
/// A connection closed within this time was refused: no kind of slowness is detected so early, and clients that do not
/// read notice late.
const REFUSAL: Duration = Duration::from_secs(3);
/// The pause before a closed client connects again.
const PAUSE: Duration = Duration::from_millis(200);

/// Clients on the first address, more than its connection limit.
const CLIENTS_ON_FIRST_ADDRESS: usize = 280;
/// Clients on each other address.
const CLIENTS_PER_ADDRESS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlowClient {
    Silent,
    OneByte,
    HeadByBytes,
    EndlessHead,
    StalledBody,
    BodyByBytes,
    NeverReads,
    SilentOverTls,
    HalfHello,
}

/// The first half of a TLS record.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

impl SlowClient {
    pub const ALL: [Self; 9] = [
        Self::Silent,
        Self::OneByte,
        Self::HeadByBytes,
        Self::EndlessHead,
        Self::StalledBody,
        Self::BodyByBytes,
        Self::NeverReads,
        Self::SilentOverTls,
        Self::HalfHello,
    ];

    /// How long the server tolerates it.
    pub const fn allowed(self) -> Duration {
        Duration::from_secs(match self {
            Self::NeverReads => 30,
            // The server reads the rest of the body for a second, so that the client can read the refusal.
            Self::StalledBody | Self::BodyByBytes => 11,
            _ => 10,
        })
    }

    const fn uses_tls(self) -> bool {
        matches!(self, Self::SilentOverTls | Self::HalfHello)
    }

    /// The first bytes that it sends.
    fn opening(self) -> Vec<u8> {
        let head = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n";
        let form = "POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4096\r\n\r\ntoken=";
        match self {
            Self::Silent | Self::SilentOverTls => Vec::new(),
            Self::OneByte => b"G".into(),
            Self::HeadByBytes | Self::EndlessHead => head.into(),
            Self::StalledBody | Self::BodyByBytes => form.into(),
            // More than the kernel buffers of both ends hold.
            Self::NeverReads => format!("{head}\r\n").repeat(100).into(),
            Self::HalfHello => HALF_HELLO.into(),
        }
    }

    /// The bytes that it sends every second afterwards.
    const fn drip(self) -> &'static [u8] {
        match self {
            Self::HeadByBytes | Self::BodyByBytes => b"a",
            Self::EndlessHead => b"X-Again: and again\r\n",
            // Writing reveals the end without reading.
            Self::NeverReads => b"\r\n",
            _ => b"",
        }
    }
}

/// The outcome of an attack.
#[derive(Clone, Default)]
pub struct AttackCost {
    pub refused: usize,
    /// The number of connections that the server closed and the longest duration of any connection, by kind.
    pub held: BTreeMap<SlowClient, (usize, Duration)>,
}

impl AttackCost {
    fn record(&mut self, kind: SlowClient, duration: Duration, closed: bool) {
        if closed && duration < REFUSAL {
            self.refused += 1;
            return;
        }
        let (count, longest) = self.held.entry(kind).or_default();
        *count += usize::from(closed);
        *longest = duration.max(*longest);
    }
}

/// Clients that reconnect whenever they are closed, stopped on drop.
pub struct Attack {
    _runtime: Runtime,
    cost: Arc<Mutex<AttackCost>>,
    stop: Sender<bool>,
    /// Closed once every client has dropped its sender.
    all_ended: tokio::sync::mpsc::Receiver<()>,
}

impl Attack {
    /// Starts `number` clients, each of the next kind, against the listeners without and with TLS.
    pub fn begin(
        number: usize,
        nice: i32,
        kinds: &'static [SlowClient],
        (plain, tls): (SocketAddr, SocketAddr),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_start(move || setpriority_process(None, nice).unwrap())
            .enable_all()
            .build()
            .unwrap();
        let cost = Arc::<Mutex<AttackCost>>::default();
        let (stop, watched) = channel(false);
        let (alive, all_ended) = tokio::sync::mpsc::channel(1);
        for n in 0..number {
            let kind = kinds[n % kinds.len()];
            let to = if kind.uses_tls() { tls } else { plain };
            let address_index = n
                .checked_sub(CLIENTS_ON_FIRST_ADDRESS)
                .map_or(0, |rest| 1 + rest / CLIENTS_PER_ADDRESS);
            let from = Ipv4Addr::new(127, 0, 2, u8::try_from(address_index + 1).unwrap());
            let attacker = Attacker {
                kind,
                from: from.into(),
                to,
                cost: Arc::clone(&cost),
                stop: watched.clone(),
            };
            let alive = alive.clone();
            runtime.spawn(async move {
                // Spread over time, because the accept queue is limited.
                sleep(Duration::from_millis(n as u64)).await;
                attacker.run().await;
                drop(alive);
            });
        }
        Self {
            _runtime: runtime,
            cost,
            stop,
            all_ended,
        }
    }

    pub fn end(mut self) -> AttackCost {
        self.stop.send(true).unwrap();
        assert!(self.all_ended.blocking_recv().is_none());
        let cost = self.cost.lock();
        cost.clone()
    }
}

struct Attacker {
    kind: SlowClient,
    from: IpAddr,
    to: SocketAddr,
    cost: Arc<Mutex<AttackCost>>,
    stop: Receiver<bool>,
}

impl Attacker {
    async fn run(mut self) {
        let mut stop = self.stop.clone();
        while !*stop.borrow() {
            let began = Instant::now();
            let closed = tokio::select! {
                _ = self.stop.changed() => false,
                () = hold(self.kind, self.from, self.to) => true,
            };
            self.cost.lock().record(self.kind, began.elapsed(), closed);
            tokio::select! {
                _ = stop.changed() => {}
                () = sleep(PAUSE) => {}
            }
        }
    }
}

/// Holds a connection until the server closes it.
async fn hold(kind: SlowClient, from: IpAddr, to: SocketAddr) {
    let Ok(mut stream) = connect(from, to).await else {
        return;
    };
    let mut chunk = [0; 4096];
    let mut waiting: Vec<u8> = kind.opening();
    loop {
        if kind == SlowClient::NeverReads {
            let (written, ()) = tokio::join!(stream.write(&waiting), sleep(DRIP));
            if written.is_err() {
                return;
            }
        } else {
            if stream.write_all(&waiting).await.is_err() {
                return;
            }
            let dripped = sleep(DRIP);
            tokio::pin!(dripped);
            loop {
                tokio::select! {
                    () = &mut dripped => break,
                    read = stream.read(&mut chunk) => {
                        if read.is_ok_and(|count| count > 0) { continue; }
                        return;
                    }
                }
            }
        }
        waiting = kind.drip().into();
    }
}

async fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}
