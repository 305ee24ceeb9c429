//! Signals of a server. They are blocked in all threads and read from a descriptor, so that each stays pending in the kernel
//! until the server reads it: also while it starts, and while the process executes itself again. With handlers, a
//! signal in that time would end the process or be lost.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use tokio::net::unix::pipe::Receiver;

use crate::output::{CommandResult, Exit, Failure};
use crate::process::signals::SignalAction;

const END: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// Blocks the signals of a server. Threads and child processes inherit this, so it must be called while the process has one
/// thread. A child that verifies a file must not end by a signal that reloads the server.
pub(crate) fn block() -> CommandResult {
    set(&END)
        .thread_block()
        .and_then(|()| set(&[Signal::SIGHUP]).thread_block())
        .map_err(|error| failure(error.into()))
}

/// Lets a write beyond the limit of file size (`LimitFSIZE`) fail with an error. By default a signal ends the process without a
/// word.
pub(crate) fn block_file_size() {
    // Then it ends as by default.
    let _ = set(&[Signal::SIGXFSZ]).thread_block();
}

/// Lets SIGTERM and SIGINT end a command that a server has started.
pub(crate) fn unblock_end() {
    // A command that cannot be interrupted still works.
    let _ = set(&END).thread_unblock();
}

pub(crate) struct ServerSignals {
    /// Not a pipe, but read like one.
    pending: Receiver,
    /// A reload that was asked for while the server started.
    reload: bool,
}

impl ServerSignals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut wanted = set(&END);
        wanted.add(Signal::SIGHUP);
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let pending = SignalFd::with_flags(&wanted, flags).map_err(io::Error::from);
        let pending = pending
            .and_then(|pending| Receiver::from_owned_fd_unchecked(pending.into()))
            .map_err(failure)?;
        Ok(Self {
            pending,
            reload: false,
        })
    }

    pub(crate) async fn next(&mut self) -> SignalAction {
        if std::mem::take(&mut self.reload) {
            return SignalAction::Reload;
        }
        self.read().await
    }

    /// Waits for a signal that ends the server, and keeps a reload for later.
    pub(crate) async fn end(&mut self) -> &'static str {
        loop {
            match self.read().await {
                SignalAction::End(signal) => return signal,
                SignalAction::Reload => self.reload = true,
            }
        }
    }

    async fn read(&self) -> SignalAction {
        let mut info = [0; size_of::<siginfo>()];
        loop {
            if self.pending.readable().await.is_err() {
                // Only while the runtime ends.
                std::future::pending::<()>().await;
            }
            let Ok(_) = self.pending.try_read(&mut info) else {
                continue;
            };
            // The number of the signal comes first.
            let number = info.first_chunk().copied().map(i32::from_ne_bytes);
            match number.and_then(|number| Signal::try_from(number).ok()) {
                Some(Signal::SIGHUP) => return SignalAction::Reload,
                Some(Signal::SIGINT) => return SignalAction::End("SIGINT"),
                _ => return SignalAction::End("SIGTERM"),
            }
        }
    }
}

fn set(signals: &[Signal]) -> SigSet {
    signals.iter().copied().collect()
}

fn failure(error: io::Error) -> Failure {
    Failure::new(Exit::Fatal, format!("failed to receive signals: {error}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs a script in a child of a thread with the signals of a server.
    fn child(script: &'static str) -> String {
        let run = move || {
            block().unwrap();
            let output = Command::new("sh").args(["-c", script]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_child_of_a_server_is_not_ended_by_a_reload() {
        let survives = child("kill -HUP $$; echo alive");
        assert_eq!(survives, "alive\n");
    }

    #[test]
    fn a_reload_that_comes_during_the_start_is_kept() {
        let waited = thread::spawn(|| {
            block().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut signals = ServerSignals::listen().unwrap();
                // To this thread: others of the test process do not block them.
                let send = |signal: Signal| nix::sys::signal::raise(signal).unwrap();
                send(Signal::SIGHUP);
                send(Signal::SIGHUP);
                send(Signal::SIGTERM);
                let mut seen = vec![signals.end().await.to_owned()];
                seen.push(format!("{:?}", signals.next().await));
                seen
            })
        });
        assert_eq!(waited.join().unwrap(), ["SIGTERM", "Reload"]);
    }
}
