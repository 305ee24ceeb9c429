//! A running `playgate demo`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::appliance::{playgate, told};
use crate::support::process::{KilledOnDrop, first_json_line};

pub struct Demo {
    _process: KilledOnDrop,
    folder: TempDir,
    /// Its line of JSON: addresses, tokens, ids.
    pub told: Value,
}

impl Demo {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = playgate(&folder.path().join("data"));
        command.args(["demo", "--json", "--listen", "127.0.0.1:0"]);
        let (process, told) = first_json_line(&mut command);
        Self {
            _process: process,
            folder,
            told,
        }
    }

    pub fn text(&self, member: &str) -> &str {
        self.told[member].as_str().unwrap()
    }

    pub fn address(&self, url: &str) -> SocketAddr {
        let url = self.text(url);
        url.strip_prefix("http://").unwrap().parse().unwrap()
    }

    /// A file where its commands run.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that finds the demo, with what an application that it starts needs.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = playgate(&self.file("data"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("BASE_URL", self.text("baseUrl"))
            .env("PARTNER_TOKEN", self.text("partnerToken"));
        command
    }

    /// The JSON of a command that succeeds.
    pub fn ok(&self, arguments: &[&str]) -> Value {
        told(&mut self.command(arguments)).remove(0)
    }
}
