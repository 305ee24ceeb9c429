//! The built binary as a process over a data directory: started, killed, and used over its sockets and
//! by commands.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use playgate::types::UnixSeconds;

use crate::support::process::{InTime as _, KilledOnDrop, Lines};
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::PASSWORD;

/// The built binary with nothing of this process's settings.
pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLAYGATE_") {
            command.env_remove(name);
        }
    }
    command
        .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
        .env("PLAYGATE_LOG_LEVEL", "error")
        // Each test makes its own.
        .env("PLAYGATE_BACKUP_AT", "off")
        // The cheapest hash that the configuration takes.
        .env("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192")
        .env("PLAYGATE_ACCOUNTS_ARGON2_ITERATIONS", "1");
    command
}

/// A command over a data directory.
pub fn playgate(data_dir: &Path) -> Command {
    let mut command = binary();
    command.args(["--data-dir".as_ref(), data_dir.as_os_str()]);
    command
}

/// What a command that succeeds prints, as JSON.
pub fn told(command: &mut Command) -> Vec<Value> {
    let output = command.output_in_time();
    assert!(output.status.success(), "{command:?}: {}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let values = serde_json::Deserializer::from_str(&text).into_iter();
    values.map(Result::unwrap).collect()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub struct Appliance {
    data_dir: PathBuf,
    pub process: KilledOnDrop,
    output: Lines,
    pub address: SocketAddr,
}

impl Appliance {
    pub fn start(data_dir: &Path) -> Self {
        Self::with(data_dir, &[])
    }

    /// With further variables of the environment.
    pub fn with(data_dir: &Path, settings: &[(&str, &str)]) -> Self {
        Self::with_log(data_dir, settings, Stdio::inherit())
    }

    /// The same with the log in `log`.
    pub fn with_log(data_dir: &Path, settings: &[(&str, &str)], log: Stdio) -> Self {
        let mut command = playgate(data_dir);
        command.envs(settings.iter().copied()).stderr(log);
        Self::of(data_dir, command)
    }

    /// With arguments of the command line that stand before the command.
    pub fn start_with(data_dir: &Path, arguments: &[&str]) -> Self {
        let mut command = playgate(data_dir);
        command.args(arguments);
        Self::of(data_dir, command)
    }

    /// One that listens there, on TCP first of all, with further variables of the environment.
    pub fn listening(data_dir: &Path, listen: &str, settings: &[(&str, &str)]) -> Self {
        let mut command = playgate(data_dir);
        command
            .envs(settings.iter().copied())
            .args(["serve", "--listen", listen]);
        Self::run(data_dir, command)
    }

    fn of(data_dir: &Path, mut command: Command) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        Self::run(data_dir, command)
    }

    /// Runs a command that serves.
    pub fn run(data_dir: &Path, mut command: Command) -> Self {
        let mut process = KilledOnDrop(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut output = Lines::read(process.stdout.take().unwrap());
        Self {
            data_dir: data_dir.to_owned(),
            address: listening(&mut output).unwrap(),
            process,
            output,
        }
    }

    /// The next address that it says it listens on.
    pub fn next_address(&mut self) -> SocketAddr {
        listening(&mut self.output).unwrap()
    }

    /// Waits until the process has begun again and says where it listens now.
    pub fn begun_again(&mut self) {
        self.address = self.next_address();
    }

    /// Changes its limit of open files: the number from which on no descriptor may be.
    pub fn limit_descriptors(&self, limit: usize) {
        let status = Command::new("prlimit")
            .arg(format!("--nofile={limit}:"))
            .args(["--pid", &self.process.id().to_string()])
            .status_in_time();
        assert!(status.success());
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.status_in_time();
    }

    /// Asks it to end, and waits until it has.
    pub fn end(&mut self) {
        self.process.terminate();
        assert!(self.process.status_in_time().success());
    }

    /// Sends a request over the administration socket.
    pub fn over_socket(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut wire = Wire::to_socket(&self.data_dir.join("admin.sock")).unwrap();
        wire.send(request(method, target, headers, body));
        wire.answer().unwrap()
    }

    /// A command, to be run while the server does.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = playgate(&self.data_dir);
        command.args(arguments);
        command
    }

    /// Lines that a command prints, while the server runs.
    pub fn told(&self, arguments: &[&str]) -> Vec<Value> {
        told(&mut self.command(arguments))
    }

    /// The one value that a command prints which ends with this code.
    pub fn tells(&self, arguments: &[&str], code: i32) -> Value {
        let output = self.command(arguments).output_in_time();
        let error = err(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a command does whose words for people do not matter.
    pub fn does(&self, arguments: &[&str]) {
        let output = self.command(arguments).output_in_time();
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    }

    /// A request on a connection of its own.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(self.address, request(method, target, headers, body))
    }

    /// The metrics, through the administration socket.
    pub fn metrics(&self) -> String {
        let (status, text) = self.operator("GET", "/metrics", "");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Status and body of an answer over the administration socket.
    pub fn operator(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let answer = self.over_socket(method, target, &[], body);
        (answer.status, String::from_utf8(answer.body).unwrap())
    }
}

/// The tokens of a new user of a new partner.
pub fn sign_up(appliance: &Appliance) -> (String, String) {
    let partner = appliance.told(&["partner", "add", "test", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", partner.as_str())];
    let put = request("PUT", "/api/login/v2/auth/email", &headers, &body);
    let answer = ask(appliance.address, put);
    assert_eq!(answer.status, 200);
    let bearer = format!("Bearer {}", answer.json()["token"].as_str().unwrap());
    (partner, bearer)
}

/// The address in the next line; none if the process has ended.
fn listening(output: &mut Lines) -> Option<SocketAddr> {
    let line = output.next()?;
    let (_, address) = line.rsplit_once("://")?;
    Some(address.parse().unwrap())
}

/// Every file below a directory with its content, in which what is no text has been replaced.
pub fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap();
            found.push((path, String::from_utf8_lossy(&content).into_owned()));
        }
    }
    found
}

/// The clock of a process under test.
pub fn real_time() -> UnixSeconds {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap())
}
