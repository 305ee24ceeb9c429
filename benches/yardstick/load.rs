//! The load: keep-alive connections, 64 as a rule, each with one request in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Contestant;
use super::client::{self, Answer};

const CONNECTIONS: usize = 64;

/// Sends requests for `time` and returns how many were answered. An answer with another status ends
/// the benchmark: a refused request is cheap and would flatter.
pub fn run(contestant: &Contestant<'_>, time: Duration) -> u64 {
    run_on(CONNECTIONS, contestant, time)
}

/// The same on so many connections.
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

/// A connection of any kind.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

async fn connect(address: &str) -> TcpStream {
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
        let request = &requests[next % requests.len()];
        next += connections;
        let answer = exchange(&mut wire, request, &mut buffer).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        done += 1;
    }
    done
}

/// Sends a request, and waits for the whole answer to it.
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
