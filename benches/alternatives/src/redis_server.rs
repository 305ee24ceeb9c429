//! Redis through redis-rs: a connection for each client, one script for each write, the append-only file. Writes go over a
//! Unix socket; reads over TCP, as they do to the other servers of reads.

use std::path::Path;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, AsyncConnectionConfig, Script};

use crate::process::{Process, find};
use crate::servers::{Served, folder, within};
use crate::workload::{ASSET, Client, SEEDED, SESSIONS_MAX, SignUp, Start, seeded, seeded_right};

/// One after the other, as Redis runs scripts, so that two sign-ups cannot use the same address.
const SIGN_UP: &str = "
    if not redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 0 end
    redis.call('SET', KEYS[2], ARGV[2])
    redis.call('SET', KEYS[3], ARGV[3])
    redis.call('SET', KEYS[4], ARGV[4])
    return 1";

const START: &str = "
    local found = redis.call('MGET', KEYS[1], KEYS[2])
    if not found[1] or not found[2] or redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[3]) then return 0 end
    redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
    return 1";

#[derive(Clone)]
pub struct Connection {
    connection: MultiplexedConnection,
    sign_up: Script,
    start: Script,
}

/// Starts a new server, listening on `port` too if it is not 0. Returns `None` if Redis is not installed.
pub fn launch(parent: &Path, sync: &str, port: u16) -> Option<(Process, String)> {
    let program = find("redis-server")?;
    let folder = folder(parent, &format!("redis-{sync}"), None);
    let socket = folder.join("socket");
    let (at, named) = (folder.to_string_lossy(), socket.to_string_lossy());
    let port = port.to_string();
    let command = [
        &*program,
        "--bind",
        "127.0.0.1",
        "--port",
        &*port,
        "--unixsocket",
        &*named,
        "--dir",
        &*at,
        "--appendonly",
        "yes",
        "--appendfsync",
        sync,
        "--save",
        "",
        "--loglevel",
        "warning",
    ];
    let mut process = Process::start(&command, None, "-KILL");
    process.wait_until(|| socket.exists());
    Some((process, format!("redis+unix://{named}")))
}

/// Starts a new server for writes.
pub fn start(
    name: &'static str,
    sync: &str,
    parent: &Path,
    clients: usize,
) -> Option<Served<Connection>> {
    let (process, address) = launch(parent, sync, 0)?;
    crate::runtime().block_on(within(seed(&address)));
    Some(Served::new(name, process, clients, async || Connection {
        connection: connect(&address).await,
        sign_up: Script::new(SIGN_UP),
        start: Script::new(START),
    }))
}

/// Opens a connection of its own.
pub async fn connect(address: &str) -> MultiplexedConnection {
    let client = redis::Client::open(address).expect("an address");
    // The default is half a second, which a sync of a busy disk may take.
    let settings = AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&settings);
    connection.await.expect("the server listens")
}

/// Stores a body that is read later.
pub async fn put(address: &str, key: &str, body: &[u8]) {
    let mut connection = connect(address).await;
    let stored: redis::RedisResult<()> = connection.set(key, body).await;
    stored.expect("the server stores it");
}

async fn seed(address: &str) {
    let mut connection = connect(address).await;
    for first in (0..SEEDED).step_by(500) {
        let mut together = redis::pipe();
        for number in first..SEEDED.min(first + 500) {
            let new = seeded(number);
            together.set(key("email:", new.email.as_bytes()), &new.user[..]);
            together.set(key("user:", &new.user), new.profile);
            together.set(key("credentials:", &new.user), new.credentials);
            together.set(right(&new.user), seeded_right());
        }
        let stored: redis::RedisResult<()> = together.query_async(&mut connection).await;
        stored.expect("the server stores it");
    }
}

fn key(kind: &str, id: &[u8]) -> Vec<u8> {
    [kind.as_bytes(), id].concat()
}

fn right(user: &[u8]) -> Vec<u8> {
    [b"right:", user, b":", ASSET.as_bytes()].concat()
}

impl Client for Connection {
    async fn sign_up(&mut self, new: &SignUp) -> bool {
        let login = [&new.user[..], new.login.as_bytes()].concat();
        let mut script = self.sign_up.key(key("email:", new.email.as_bytes()));
        script
            .key(key("user:", &new.user))
            .key(key("credentials:", &new.user))
            .key(key("login:", &new.token))
            .arg(&new.user[..])
            .arg(&new.profile)
            .arg(&new.credentials)
            .arg(login);
        let added = script.invoke_async(&mut self.connection).await;
        added.expect("the server runs it")
    }

    async fn start(&mut self, start: &Start) -> bool {
        let mut script = self.start.key(key("user:", &start.user));
        script
            .key(right(&start.user))
            .key(key("sessions:", &start.user))
            .arg(&start.session[..])
            .arg(&start.record)
            .arg(SESSIONS_MAX);
        let added = script.invoke_async(&mut self.connection).await;
        added.expect("the server runs it")
    }
}
