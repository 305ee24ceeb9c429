//! The load: keep-alive connections, each with one request in flight.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Contestant;
use super::client::{self, Answer};

const CONNECTIONS: usize = 64;

/// Sends requests for `time` and returns how many were answered. Any other status ends the benchmark: a refused request
/// is cheap and would flatter the result.
pub fn run(contestant: &Contestant<'_>, time: Duration) -> u64 {
    run_on(CONNECTIONS, contestant, time)
}

pub fn run_on(connections: usize, contestant: &Contestant<'_>, time: Duration) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let until = Instant::now() + time;
        let mut running = JoinSet::new();
        for number in 0..connections {
            let wire: Box<dyn Wire> = match contestant.over {
                Some(secure) => Box::new(secure.connect().await),
                None => Box::new(connect(&client::address_of(contestant.server)).await),
            };
            let requests = Arc::clone(&contestant.requests);
            running.spawn(connection(
                wire,
                requests,
                contestant.status,
                (number, connections),
                until,
            ));
        }
        running.join_all().await.into_iter().sum()
    })
}

pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

pub async fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).await;
    let socket = socket.expect("the server accepts");
    socket.set_nodelay(true).expect("an open socket");
    socket
}

async fn connection(
    mut wire: Box<dyn Wire>,
    requests: Arc<[Vec<u8>]>,
    status: u16,
    (number, connections): (usize, usize),
    until: Instant,
) -> u64 {
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut done = 0;
    let mut next = number;
    while Instant::now() < until {
        let request = stamped(&requests[next % requests.len()]);
        next += connections;
        let answer = exchange(&mut wire, &request, &mut buffer).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        done += 1;
    }
    done
}

/// A placeholder for a time in a request, so that repeated telemetry events are not duplicates.
pub const STAMP: &str = "1111111111111";

/// Replaces each [`STAMP`] by milliseconds that are unique in this run.
fn stamped(request: &[u8]) -> Cow<'_, [u8]> {
    static NEXT: AtomicU64 = AtomicU64::new(1_800_000_000_000);
    let windows = request.windows(STAMP.len()).enumerate();
    let positions = windows.filter(|(_, window)| *window == STAMP.as_bytes());
    let positions: Vec<usize> = positions.map(|(position, _)| position).collect();
    if positions.is_empty() {
        return Cow::Borrowed(request);
    }
    let stamp = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut stamped = request.to_vec();
    for position in positions {
        stamped[position..position + STAMP.len()].copy_from_slice(stamp.as_bytes());
    }
    Cow::Owned(stamped)
}

/// Sends a request and waits for the complete response.
pub async fn exchange(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
    buffer: &mut Vec<u8>,
) -> Answer {
    socket.write_all(request).await.expect("the server reads");
    buffer.clear();
    loop {
        let read = socket.read_buf(buffer).await.expect("the server answers");
        assert!(read > 0, "the server closed a connection");
        if let Some(answer) = client::parse(buffer) {
            return answer;
        }
    }
}
