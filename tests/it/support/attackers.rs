//! Slow clients: each holds a connection in its own way, and measures how long the server allows it.

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

/// How often one that drips sends its next byte.
const DRIP: Duration = Duration::from_secs(1);
/// Who is closed within this time was refused: no way of being slow is known so early, and those who do
/// not read notice late.
const REFUSAL: Duration = Duration::from_secs(3);
/// How long one that was closed waits before it comes again.
const PAUSE: Duration = Duration::from_millis(200);

/// How many come from the first address, more than it may hold.
const CROWD: usize = 280;
/// How many come from each of the others.
const BAND: usize = 200;

/// A way to be slow.
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

    /// How long the server bears it.
    pub const fn allowed(self) -> Duration {
        Duration::from_secs(match self {
            Self::NeverReads => 30,
            // What is left of the body is read for a second, so that the refusal can be.
            Self::StalledBody | Self::BodyByBytes => 11,
            _ => 10,
        })
    }

    const fn over_tls(self) -> bool {
        matches!(self, Self::SilentOverTls | Self::HalfHello)
    }

    /// What it begins with.
    fn opening(self) -> Vec<u8> {
        let head = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n";
        let form = "POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4096\r\n\r\ntoken=";
        match self {
            Self::Silent | Self::SilentOverTls => Vec::new(),
            Self::OneByte => b"G".into(),
            Self::HeadByBytes | Self::EndlessHead => head.into(),
            Self::StalledBody | Self::BodyByBytes => form.into(),
            // More than the kernel holds for both ends.
            Self::NeverReads => format!("{head}\r\n").repeat(100).into(),
            Self::HalfHello => HALF_HELLO.into(),
        }
    }

    /// What it goes on with.
    const fn drip(self) -> &'static [u8] {
        match self {
            Self::HeadByBytes | Self::BodyByBytes => b"a",
            Self::EndlessHead => b"X-Again: and again\r\n",
            // To notice the end without reading.
            Self::NeverReads => b"\r\n",
            _ => b"",
        }
    }
}

/// What an attack came to.
#[derive(Clone, Default)]
pub struct AttackCost {
    pub refused: usize,
    /// Connections that the server closed, and the longest life of any, by way.
    pub held: BTreeMap<SlowClient, (usize, Duration)>,
}

impl AttackCost {
    fn lived(&mut self, way: SlowClient, life: Duration, closed: bool) {
        if closed && life < REFUSAL {
            self.refused += 1;
            return;
        }
        let (count, longest) = self.held.entry(way).or_default();
        *count += usize::from(closed);
        *longest = life.max(*longest);
    }
}

/// Attackers that come again whenever they are closed; they leave with this.
pub struct Attack {
    _runtime: Runtime,
    toll: Arc<Mutex<AttackCost>>,
    over: Sender<bool>,
    /// Every attacker holds one.
    all: tokio::sync::mpsc::Receiver<()>,
}

impl Attack {
    /// So many, each in its way, the first of them from one address; at the doors without TLS and with it.
    pub fn begin(
        number: usize,
        nice: i32,
        ways: &'static [SlowClient],
        (plain, tls): (SocketAddr, SocketAddr),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_start(move || setpriority_process(None, nice).unwrap())
            .enable_all()
            .build()
            .unwrap();
        let toll = Arc::<Mutex<AttackCost>>::default();
        let (over, watched) = channel(false);
        let (here, all) = tokio::sync::mpsc::channel(1);
        for n in 0..number {
            let way = ways[n % ways.len()];
            let to = if way.over_tls() { tls } else { plain };
            let band = n.checked_sub(CROWD).map_or(0, |rest| 1 + rest / BAND);
            let from = Ipv4Addr::new(127, 0, 2, u8::try_from(band + 1).unwrap());
            let attacker = Attacker {
                way,
                from: from.into(),
                to,
                toll: Arc::clone(&toll),
                over: watched.clone(),
            };
            let here = here.clone();
            runtime.spawn(async move {
                // Not all in the same instant: there is a queue to get into.
                sleep(Duration::from_millis(n as u64)).await;
                attacker.go().await;
                drop(here);
            });
        }
        Self {
            _runtime: runtime,
            toll,
            over,
            all,
        }
    }

    /// Ends it.
    pub fn end(mut self) -> AttackCost {
        self.over.send(true).unwrap();
        assert!(self.all.blocking_recv().is_none());
        let toll = self.toll.lock();
        toll.clone()
    }
}

struct Attacker {
    way: SlowClient,
    from: IpAddr,
    to: SocketAddr,
    toll: Arc<Mutex<AttackCost>>,
    over: Receiver<bool>,
}

impl Attacker {
    async fn go(mut self) {
        let mut over = self.over.clone();
        while !*over.borrow() {
            let began = Instant::now();
            let closed = tokio::select! {
                _ = self.over.changed() => false,
                () = hold(self.way, self.from, self.to) => true,
            };
            self.toll.lock().lived(self.way, began.elapsed(), closed);
            tokio::select! {
                _ = over.changed() => {}
                () = sleep(PAUSE) => {}
            }
        }
    }
}

/// Holds a connection until the server has ended it.
async fn hold(way: SlowClient, from: IpAddr, to: SocketAddr) {
    let Ok(mut stream) = connect(from, to).await else {
        return;
    };
    let mut chunk = [0; 4096];
    let mut waiting: Vec<u8> = way.opening();
    loop {
        if way == SlowClient::NeverReads {
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
        waiting = way.drip().into();
    }
}

async fn connect(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    socket.connect(to).await
}
