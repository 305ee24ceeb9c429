//! Whole requests to Playgate, beside a bare server; and what is on now, beside nginx with a file and Redis.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use crate::process::Process;
use crate::redis_server;
use crate::rounds::{Contestant, Figures, compete};
use crate::scene;
use crate::servers::within;
use crate::yardstick::Contestant as Requests;
use crate::yardstick::client::{member, request, send};
use crate::yardstick::load;
use crate::yardstick::nginx::Nginx;
use crate::yardstick::server::Server;

pub const CONNECTIONS: usize = 64;

/// Requests to a server of HTTP.
impl Contestant for Requests<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn turn(&mut self, clients: usize, time: Duration) -> u64 {
        load::run_on(clients, self, time)
    }

    fn cpu(&self) -> Duration {
        self.server.cpu()
    }
}

/// Starts the demo as in production, with its data below `folder`. Returns it with the token of its partner.
fn playgate(folder: &Path) -> (Server, String) {
    let folder = folder.to_string_lossy();
    scene::demo(&[("TMPDIR", &folder)])
}

/// Whole requests that write, beside a bare server that answers a GET of 1,500 bytes. Each has a server of its own, since the
/// figures include what a server does later. A sign-up is not among them: nearly all of it is the hash of the password, for which
/// `cargo bench --bench login` has the figures.
pub fn writes(folder: &Path) -> Vec<Figures> {
    let bare = Server::bare(1_500);
    let get = request("GET", "/x", &[], "");
    let (entitling, entitlements) = viewers(folder, |viewer| viewer.entitlement);
    let (starting, preflights) = viewers(folder, |viewer| viewer.preflight);
    let mut bare = Requests::new("bare hyper, GET of 1,500 bytes", &bare, vec![get]);
    let mut entitlement = Requests::new("entitlement", &entitling, entitlements);
    let mut preflight = Requests::new("preflight", &starting, preflights);
    compete(
        &mut [&mut bare, &mut preflight, &mut entitlement],
        CONNECTIONS,
    )
}

/// Starts a demo with viewers. Returns it with a request of each.
fn viewers(folder: &Path, of: fn(scene::Requests) -> Vec<u8>) -> (Server, Vec<Vec<u8>>) {
    let (playgate, token) = playgate(folder);
    let viewers = (0..scene::SESSIONS).map(|n| scene::viewer(&playgate, &token, "open", n));
    let requests = viewers.map(of).collect();
    (playgate, requests)
}

/// What is on now on one livestream, beside servers that send the same bytes. Returns also how many bytes.
pub fn reads(folder: &Path) -> (Vec<Figures>, usize) {
    let (playgate, token) = playgate(folder);
    let livestreams: serde_json::Value =
        serde_json::from_str(&playgate.greeting).expect("the demo prints JSON");
    let open = member(&livestreams["livestreams"].to_string(), "open");
    let open = open.expect("the demo has a livestream");
    let path = format!("/api/schedule/v1/broadcasts/live?livestreams={open}&offset=0");
    let read = request("GET", &path, &[("service-accesstoken", &token)], "");
    let body = send(&playgate, &read).body;
    let get = request("GET", "/x", &[], "");
    let bare = Server::bare(body.len());
    let nginx = Nginx::start(&body);
    let mut redis = RedisReads::start(folder, &body);
    let mut bare = Requests::new("bare hyper", &bare, vec![get.clone()]);
    let mut now = Requests::new("Playgate, what is on now", &playgate, vec![read]);
    let mut file = nginx
        .as_ref()
        .map(|nginx| Requests::new("nginx, a file", nginx.server(), vec![get]));
    let mut contestants: Vec<&mut dyn Contestant> = vec![&mut bare, &mut now];
    contestants.extend(file.as_mut().map(|file| file as &mut dyn Contestant));
    contestants.extend(redis.as_mut().map(|redis| redis as &mut dyn Contestant));
    (compete(&mut contestants, CONNECTIONS), body.len())
}

/// `GET` of one key, over TCP.
struct RedisReads {
    connections: Vec<MultiplexedConnection>,
    runtime: Runtime,
    process: Process,
}

const KEY: &str = "now";

impl RedisReads {
    fn start(folder: &Path, body: &[u8]) -> Option<Self> {
        // Redis cannot pick a free port itself.
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("a bound socket").port();
        drop(free);
        let (process, address) = redis_server::launch(folder, "no", port)?;
        let runtime = crate::runtime();
        let connections = runtime.block_on(within(async {
            redis_server::put(&address, KEY, body).await;
            let over_tcp = format!("redis://127.0.0.1:{port}");
            let opened = (0..CONNECTIONS).map(|_| redis_server::connect(&over_tcp));
            join_all(opened).await
        }));
        Some(Self {
            connections,
            runtime,
            process,
        })
    }
}

impl Contestant for RedisReads {
    fn name(&self) -> String {
        "Redis, GET".to_owned()
    }

    fn turn(&mut self, clients: usize, time: Duration) -> u64 {
        let until = Instant::now() + time;
        let reads = self.connections[..clients]
            .iter_mut()
            .map(async |connection| {
                let mut done = 0;
                while Instant::now() < until {
                    let body: Vec<u8> = connection.get(KEY).await.expect("the server answers");
                    assert!(!body.is_empty(), "the key is gone");
                    done += 1;
                }
                done
            });
        let done: Vec<u64> = self.runtime.block_on(within(join_all(reads)));
        done.into_iter().sum()
    }

    fn cpu(&self) -> Duration {
        self.process.cpu()
    }
}
