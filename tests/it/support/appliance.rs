//! The built binary as a process over a data directory: tests start and kill it, send requests to its sockets, and run
//! commands on the same directory.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use playgate_types::UnixSeconds;

use crate::support::process::{InTime as _, KilledOnDrop, Lines};
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::PASSWORD;

/// The built binary, or that of `PLAYGATE_BIN`, without the settings in this process's environment.
pub fn binary() -> Command {
    let given = std::env::var_os("PLAYGATE_BIN");
    binary_at(&given.unwrap_or_else(|| env!("CARGO_BIN_EXE_playgate").into()))
}

/// Another binary in the same environment.
pub fn binary_at(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLAYGATE_") {
            command.env_remove(name);
        }
    }
    command
        .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
        .env("PLAYGATE_LOG_LEVEL", "error")
        // Tests make their own backups.
        .env("PLAYGATE_BACKUP_AT", "off")
        // The cheapest hash that the configuration accepts.
        .env("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192")
        .env("PLAYGATE_ACCOUNTS_ARGON2_ITERATIONS", "1");
    command
}

pub fn playgate(data_dir: &Path) -> Command {
    let mut command = binary();
    command.args(["--data-dir".as_ref(), data_dir.as_os_str()]);
    command
}

/// Runs a command that must succeed and returns the JSON values that it prints.
pub fn run_json(command: &mut Command) -> Vec<Value> {
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

    /// Starts it with further environment variables.
    pub fn with(data_dir: &Path, settings: &[(&str, &str)]) -> Self {
        Self::with_log(data_dir, settings, Stdio::inherit())
    }

    /// Like [`Self::with`], with the log in `log`.
    pub fn with_log(data_dir: &Path, settings: &[(&str, &str)], log: Stdio) -> Self {
        let mut command = playgate(data_dir);
        command.envs(settings.iter().copied()).stderr(log);
        Self::serve(data_dir, command)
    }

    /// Starts it with arguments before the subcommand.
    pub fn start_with(data_dir: &Path, arguments: &[&str]) -> Self {
        let mut command = playgate(data_dir);
        command.args(arguments);
        Self::serve(data_dir, command)
    }

    /// Starts it with a listen address, the first of which must be TCP, and further environment variables.
    pub fn listening(data_dir: &Path, listen: &str, settings: &[(&str, &str)]) -> Self {
        let mut command = playgate(data_dir);
        command
            .envs(settings.iter().copied())
            .args(["serve", "--listen", listen]);
        Self::run(data_dir, command)
    }

    fn serve(data_dir: &Path, mut command: Command) -> Self {
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

    /// Reads the next address that it prints.
    pub fn next_address(&mut self) -> SocketAddr {
        listening(&mut self.output).unwrap()
    }

    /// Waits until the process has executed itself again, and reads its address.
    pub fn wait_for_reexec(&mut self) {
        self.address = self.next_address();
    }

    /// Sets its soft limit of open files.
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

    /// Sends SIGTERM and waits for a clean exit.
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

    /// A command over the same data directory.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = playgate(&self.data_dir);
        command.args(arguments);
        command
    }

    /// Runs a command that must succeed and returns the JSON values that it prints.
    pub fn run_json(&self, arguments: &[&str]) -> Vec<Value> {
        run_json(&mut self.command(arguments))
    }

    /// Runs a command that must exit with `code`, and returns the JSON value that it prints.
    pub fn run_json_with_code(&self, arguments: &[&str], code: i32) -> Value {
        let output = self.command(arguments).output_in_time();
        let error = err(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command that must succeed and ignores its output.
    pub fn run_ok(&self, arguments: &[&str]) {
        let output = self.command(arguments).output_in_time();
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    }

    /// Sends a request on a new connection.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(self.address, request(method, target, headers, body))
    }

    /// Reads the metrics over the administration socket.
    pub fn metrics(&self) -> String {
        let (status, text) = self.operator("GET", "/metrics", "");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Sends a request over the administration socket and returns status and body.
    pub fn operator(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let answer = self.over_socket(method, target, &[], body);
        (answer.status, String::from_utf8(answer.body).unwrap())
    }
}

/// Signs up a user of a new partner and returns the tokens of both.
pub fn sign_up(appliance: &Appliance) -> (String, String) {
    let partner = appliance.run_json(&["partner", "add", "test", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", partner.as_str())];
    let put = request("PUT", "/api/login/v2/auth/email", &headers, &body);
    let answer = ask(appliance.address, put);
    assert_eq!(answer.status, 200);
    let bearer = format!("Bearer {}", answer.json()["token"].as_str().unwrap());
    (partner, bearer)
}

/// Reads the address in the next line. `None` if the process has ended.
fn listening(output: &mut Lines) -> Option<SocketAddr> {
    let line = output.next()?;
    let (_, address) = line.rsplit_once("://")?;
    Some(address.parse().unwrap())
}

/// Returns every file below a directory with its content, invalid UTF-8 replaced.
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

/// Returns the real time, which processes under test use.
pub fn real_time() -> UnixSeconds {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap())
}
