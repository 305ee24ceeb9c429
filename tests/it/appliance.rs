//! A real process with a data directory of its own, and the commands that speak to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::wire::{Answer, ask, request};

pub struct Appliance {
    data_dir: PathBuf,
    process: Child,
    pub address: SocketAddr,
}

fn playgate(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLAYGATE_") {
            command.env_remove(name);
        }
    }
    command
        .args(["--data-dir".as_ref(), data_dir.as_os_str()])
        .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
        .env("PLAYGATE_LOG_LEVEL", "error");
    command
}

impl Appliance {
    pub fn start(data_dir: &Path) -> Self {
        Self::with(data_dir, &[])
    }

    /// Starts with other settings, by the names of the environment.
    pub fn with(data_dir: &Path, settings: &[(&str, &str)]) -> Self {
        Self::with_log(data_dir, settings, Stdio::inherit())
    }

    /// The same with the log in `log`.
    pub fn with_log(data_dir: &Path, settings: &[(&str, &str)], log: Stdio) -> Self {
        let mut process = playgate(data_dir)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let (_, address) = line.trim().rsplit_once("http://").unwrap();
        Self {
            data_dir: data_dir.to_owned(),
            address: address.parse().unwrap(),
            process,
        }
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lines that a command prints, while the server runs.
    pub fn told(&self, arguments: &[&str]) -> Vec<Value> {
        let output = playgate(&self.data_dir).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        let text = String::from_utf8(output.stdout).unwrap();
        let values = serde_json::Deserializer::from_str(&text).into_iter();
        values.map(Result::unwrap).collect()
    }

    /// The one value that a command prints which ends with this code.
    pub fn tells(&self, arguments: &[&str], code: i32) -> Value {
        let output = playgate(&self.data_dir).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a command does whose words for people do not matter.
    pub fn does(&self, arguments: &[&str]) {
        let output = playgate(&self.data_dir).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
    }

    /// A request on a connection of its own.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(self.address, request(method, target, headers, body))
    }

    /// The metrics, through the administration socket.
    pub fn metrics(&self) -> String {
        let mut socket = UnixStream::connect(self.data_dir.join("admin.sock")).unwrap();
        let headers = [("Connection", "close")];
        let get = request("GET", "/metrics", &headers, "");
        socket.write_all(get.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        text
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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
