//! A server with its data directory, as an installation runs it, and administrative commands on it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::server::playgate_binary;

/// A password hash for users who never log in, but whom imports and starts read.
pub const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
    RdescudvJCsgt3ub+b1dWRWJTmaaJObGAAAAAAAAAAA";

fn playgate(data: &Path) -> Command {
    let mut command = Command::new(playgate_binary());
    command
        .arg("--data-dir")
        .arg(data)
        .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
        .env("PLAYGATE_LOG_LEVEL", "error")
        .env("PLAYGATE_BACKUP_AT", "off");
    command
}

/// Runs an administrative command on the data directory. Returns what it prints.
pub fn run_command(data: &Path, arguments: &[&str]) -> String {
    let output = playgate(data)
        .args(arguments)
        .output()
        .expect("it was built");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A running server. Dropping it kills the process.
pub struct InstalledServer {
    child: Child,
    pub address: String,
    /// Seconds from the launch to the readiness line.
    pub took: f64,
}

impl InstalledServer {
    pub fn start(data: &Path) -> Self {
        let began = Instant::now();
        let child = playgate(data)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut server = Self {
            child,
            address: String::new(),
            took: 0.0,
        };
        let mut line = String::new();
        let output = server.child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        server.took = began.elapsed().as_secs_f64();
        let address = line.trim().split_once("http://");
        let (_, address) = address.unwrap_or_else(|| panic!("the server is not ready: {line}"));
        server.address = address.to_owned();
        server
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in MB.
    pub fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        kib.expect("a number") * 1024.0 / 1e6
    }

    /// Ends the process. Returns the seconds that it took.
    pub fn end(mut self, signal: &str) -> f64 {
        let began = Instant::now();
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("a command").success());
        self.child.wait().expect("it ends");
        began.elapsed().as_secs_f64()
    }
}

impl Drop for InstalledServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
