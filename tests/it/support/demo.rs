//! A running `playgate demo`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::appliance::{playgate, run_json};
use crate::support::process::{KilledOnDrop, first_json_line};

pub struct Demo {
    _process: KilledOnDrop,
    folder: TempDir,
    /// The line of JSON that it prints: addresses, tokens, ids.
    pub details: Value,
}

impl Demo {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = playgate(&folder.path().join("data"));
        command.args(["demo", "--json", "--listen", "127.0.0.1:0"]);
        let (process, details) = first_json_line(&mut command);
        Self {
            _process: process,
            folder,
            details,
        }
    }

    pub fn text(&self, member: &str) -> &str {
        self.details[member].as_str().unwrap()
    }

    pub fn address(&self, url: &str) -> SocketAddr {
        let url = self.text(url);
        url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// Returns a path in the working directory of its commands.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that finds the demo, with the variables that an application started by it needs.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = playgate(&self.file("data"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("BASE_URL", self.text("baseUrl"))
            .env("PARTNER_TOKEN", self.text("partnerToken"));
        command
    }

    /// Runs a command that must succeed and returns the JSON value that it prints.
    pub fn ok(&self, arguments: &[&str]) -> Value {
        run_json(&mut self.command(arguments)).remove(0)
    }
}
