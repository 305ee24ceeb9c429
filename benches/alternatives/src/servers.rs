//! Contestants with a server of their own, on Unix sockets: how it is started, and its connections that stay open.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::process::Process;
use crate::rounds::Contestant;
use crate::workload::{self, Client, Write};

/// A server that does not answer ends the bench.
const DEADLINE: Duration = Duration::from_secs(30);

/// A server and its clients.
pub struct Served<C> {
    name: &'static str,
    // Before the server, so that it is not asked to end connections.
    clients: Vec<C>,
    runtime: Runtime,
    process: Process,
    write: Write,
}

impl<C: Client> Served<C> {
    /// `connect` opens a connection within the runtime of the clients.
    pub fn new(
        name: &'static str,
        process: Process,
        clients: usize,
        connect: impl AsyncFn() -> C,
    ) -> Self {
        let runtime = crate::runtime();
        let connected = runtime.block_on(within(async {
            let mut connected = Vec::new();
            for _ in 0..clients {
                connected.push(connect().await);
            }
            workload::check(&mut connected[0]).await;
            connected
        }));
        Self {
            name,
            clients: connected,
            runtime,
            process,
            write: Write::SignUp,
        }
    }
}

/// Waits for what a server does, within the deadline.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.expect("the server answers")
}

impl<C: Client> Contestant for Served<C> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn select(&mut self, write: Write) {
        self.write = write;
    }

    fn turn(&mut self, clients: usize, time: Duration) -> u64 {
        let turn = workload::run(&mut self.clients[..clients], self.write, time);
        self.runtime.block_on(within(turn))
    }

    fn cpu(&self) -> Duration {
        self.process.cpu()
    }
}

/// Creates the data directory of a server, for `user` if one is named.
pub fn folder(parent: &Path, name: &str, user: Option<(&str, u32)>) -> std::path::PathBuf {
    let folder = parent.join(name);
    std::fs::create_dir(&folder).expect("a new folder");
    if let Some((_, id)) = user {
        std::os::unix::fs::chown(&folder, Some(id), None).expect("root may do this");
    }
    folder
}
