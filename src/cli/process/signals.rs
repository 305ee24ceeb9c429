//! Signals that a command handles. Those of a server are read in another way (`server_signals`).

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// Stop the process; the signal's name.
    End(&'static str),
    /// SIGHUP: reload the configuration.
    Reload,
}

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Installs the handlers: from now on these signals no longer end the process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            terminate: subscribe(SignalKind::terminate())?,
            interrupt: subscribe(SignalKind::interrupt())?,
            hang_up: subscribe(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::End("SIGTERM"),
            _ = self.interrupt.recv() => SignalAction::End("SIGINT"),
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }
}

fn subscribe(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(Failure::fatal)
}
