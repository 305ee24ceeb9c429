//! `playgate serve`: the server.

use clap::Args;

use super::member::FleetMember;
use super::reload::Reload;
use super::run::{Server, announce};
use super::server_process::{ServerExit, on_runtime, start_log};
use super::signals::ServerSignals;
use super::startup::{self, Startup};
use crate::client::fleet;
use crate::global::{Global, load_at_start};
use crate::output::CommandResult;

/// Run the server until SIGTERM or SIGINT. Prints one line with its address on standard output when it is
/// ready; logs to standard error.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    addresses: Addresses,
}

#[derive(Args)]
pub(crate) struct Addresses {
    /// Address of the partner interface: host:port, port 0 for any free port, or unix:PATH
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    listen: Vec<String>,
    /// Address of operations and administration
    #[arg(long, value_name = "ADDR")]
    ops_listen: Option<String>,
}

impl Addresses {
    pub(crate) fn flags(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut flags = Vec::new();
        if !self.listen.is_empty() {
            flags.push(("listen", "--listen", self.listen.join(",")));
        }
        if let Some(ops) = &self.ops_listen {
            flags.push(("ops.listen", "--ops-listen", ops.clone()));
        }
        flags
    }

    pub(crate) fn any_port(&self) -> bool {
        // A test that asks for any port must not collide with another server's operations port.
        self.ops_listen.is_none() && self.listen.iter().any(|address| address.ends_with(":0"))
    }
}

impl Serve {
    pub(crate) fn run(self, global: &Global) -> CommandResult {
        let mut inputs = global.inputs()?;
        inputs.flags.extend(self.addresses.flags());
        let loaded = load_at_start(&inputs)?;
        start_log(&loaded)?;
        on_runtime(async {
            let mut startup = Startup::new(loaded).with_tls()?;
            startup.signals = Some(ServerSignals::listen()?);
            // Before the store is opened, which would create one.
            startup.membership = fleet::membership(&startup.config)?;
            let reload = Reload { inputs };
            let Some(store) = startup::open_or_wait(&mut startup, &reload).await? else {
                return Ok(ServerExit::StoppedEarly);
            };
            let Some(membership) = startup.membership.clone() else {
                let server = Server::start(startup, store, Some(reload)).await?;
                announce(&server);
                return server.run().await;
            };
            let mut signals = startup.listen_for_signals()?;
            let started = tokio::select! {
                signal = signals.end() => {
                    tracing::info!(signal, "stopping; the member has not read the log of its fleet yet");
                    return Ok(ServerExit::StoppedEarly);
                }
                started = FleetMember::start(&startup, membership, &store) => started,
            };
            startup.signals = Some(signals);
            Server::run_member(startup, store, reload, started?).await
        })
    }
}
