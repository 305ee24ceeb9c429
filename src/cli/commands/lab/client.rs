//! The client under a scenario: a command that the run starts and ends, a person at the terminal, or somebody who follows
//! the run elsewhere.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::output::{self, Failure};

/// Environment variable with the name of the scenario. It lacks the prefix of configuration variables, so that the
/// command may call `playgate`.
const VARIABLE: &str = "LAB_SCENARIO";
/// Time for a command to end after SIGTERM, for example to end its playback session.
const TIMEOUT: Duration = Duration::from_secs(10);
const POLL_EVERY: Duration = Duration::from_millis(50);

pub(super) enum Client {
    /// The client is operated elsewhere.
    Elsewhere,
    /// A person operates the app as the terminal says.
    Person,
    /// A command that is started with `sh -c` for each scenario.
    Command(String),
}

pub(super) enum ClientActivity {
    Elsewhere,
    Person,
    Command(RunningCommand),
}

impl Client {
    /// Lets the client start playback.
    pub(super) fn begin(&self, scenario: &str, prompt: &str) -> Result<ClientActivity, Failure> {
        match self {
            Self::Elsewhere => Ok(ClientActivity::Elsewhere),
            Self::Person => {
                output::print_note(&format!("  In the app: {prompt}"));
                Ok(ClientActivity::Person)
            }
            Self::Command(line) => Ok(ClientActivity::Command(RunningCommand::start(
                line, scenario,
            )?)),
        }
    }
}

impl ClientActivity {
    /// Returns why no more requests will come, if that is known.
    pub(super) fn failure(&mut self) -> Option<String> {
        match self {
            Self::Elsewhere | Self::Person => None,
            Self::Command(command) => command.failure(),
        }
    }

    /// Lets the client end playback, so that the end is judged too.
    pub(super) async fn end(self) {
        match self {
            Self::Elsewhere => (),
            Self::Person => {
                output::print_note("  Stop playback in the app. Then press Enter.");
                enter_pressed().await;
            }
            Self::Command(command) => command.end().await,
        }
    }
}

async fn enter_pressed() {
    let (pressed, waits) = oneshot::channel();
    // On a separate thread: a read of standard input cannot be cancelled, and the process must be able to end without
    // it.
    let reader = std::thread::Builder::new().spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        let _ = pressed.send(());
    });
    if reader.is_ok() {
        let _ = waits.await;
    }
}

/// A started command with its process group, which is killed on drop.
pub(super) struct RunningCommand {
    child: Child,
    status: Option<ExitStatus>,
}

impl RunningCommand {
    fn start(line: &str, scenario: &str) -> Result<Self, Failure> {
        let spawned = Command::new("sh")
            .args(["-c", line])
            .env(VARIABLE, scenario)
            .stdin(Stdio::null())
            // Standard output is for the report.
            .stdout(io::stderr())
            // Signals go to the group, so that the processes that the shell started end with it.
            .process_group(0)
            .spawn();
        let child = spawned.map_err(|error| Failure::failed(format!("sh: {error}")))?;
        Ok(Self {
            child,
            status: None,
        })
    }

    fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    fn failure(&mut self) -> Option<String> {
        // A command that succeeds may have started the app on a device. A command that fails has not.
        let status = self.status().filter(|status| !status.success())?;
        Some(format!("the command ended with {status}"))
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // It may have ended by itself.
            let _ = kill_process_group(group, signal);
        }
    }

    fn is_over(&mut self) -> bool {
        // The shell may end before the processes that it started, so the whole group is checked.
        let group = self.group();
        self.status().is_some() && group.is_none_or(|group| test_kill_process_group(group).is_err())
    }

    async fn end(mut self) {
        self.signal(Signal::TERM);
        let until = Instant::now() + TIMEOUT;
        while !self.is_over() && Instant::now() < until {
            sleep(POLL_EVERY).await;
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // No player may be left running, even after an error. `wait` removes the ended process.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
