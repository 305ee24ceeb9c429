//! `playgate serve`: the server.

use clap::Args;

use super::exit::Outcome;
use super::reload::Reload;
use super::server::{Server, ServerExit, announce, on_runtime, start_log};
use super::signals::ignore_sighup;
use super::startup::{self, Startup};
use super::{Global, configured};

/// Runs the server until SIGTERM or SIGINT. One line on standard output tells its address when it
/// is ready; the log goes to standard error.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    addresses: Addresses,
}

/// Where a server listens.
#[derive(Args)]
pub struct Addresses {
    /// Where the partner interface is served: host:port, port 0 for a free one, or unix:PATH
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<String>,
    /// Where operations and administration are served
    #[arg(long, value_name = "ADDR")]
    ops_listen: Option<String>,
}

impl Addresses {
    /// The flags as keys of the configuration.
    pub fn flags(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut flags = Vec::new();
        if !self.listen.is_empty() {
            flags.push(("listen", "--listen", self.listen.join(",")));
        }
        if let Some(ops) = &self.ops_listen {
            flags.push(("ops.listen", "--ops-listen", ops.clone()));
        }
        flags
    }

    /// Whether a free port is asked for.
    pub fn any_port(&self) -> bool {
        self.ops_listen.is_none() && self.listen.iter().any(|address| address.ends_with(":0"))
    }
}

impl Serve {
    /// Runs the command.
    pub fn run(self, global: &Global) -> Outcome {
        let mut inputs = global.inputs()?;
        inputs.flags.extend(self.addresses.flags());
        let loaded = configured(&inputs)?;
        start_log(&loaded)?;
        on_runtime(async {
            ignore_sighup()?;
            let mut beginning = Startup::new(loaded).with_tls()?;
            let reload = Reload { inputs };
            let Some(store) = startup::open_or_wait(&mut beginning, &reload).await? else {
                return Ok(ServerExit::Stopped);
            };
            let server = Server::start(beginning, store, Some(reload)).await?;
            announce(&server);
            server.run().await
        })
    }
}
