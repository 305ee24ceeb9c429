//! The signals that a server heeds.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::{Exit, Failure, Outcome};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalAction {
    /// To come to an end; the signal's name.
    End(&'static str),
    /// To read the configuration again: SIGHUP.
    Reload,
}

/// Listens for them.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// From now on none of them ends the process by itself.
    ///
    /// # Errors
    /// The system lets none be listened for.
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {
            terminate: heard(SignalKind::terminate())?,
            interrupt: heard(SignalKind::interrupt())?,
            hang_up: heard(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::End("SIGTERM"),
            _ = self.interrupt.recv() => SignalAction::End("SIGINT"),
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }
}

/// From now on a SIGHUP does not end the process, which reads its configuration anyway when it begins.
///
/// # Errors
/// The system lets it not be listened for.
pub fn ignore_sighup() -> Outcome {
    heard(SignalKind::hangup()).map(drop)
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error: io::Error| Failure::new(Exit::Fatal, error.to_string()))
}
