//! The fleet that `playgate fleet try` starts.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use serde_json::Value;

use super::{playgate, until};
use crate::support::appliance::{binary, err};
use crate::support::external_tools::program;
use crate::support::process::{InTime as _, KilledOnDrop, first_json_line};

/// A member's process: of the trial, or started again here.
pub struct Part {
    pid: u32,
    again: Option<KilledOnDrop>,
}

impl Part {
    pub const fn id(&self) -> u32 {
        self.pid
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid, name);
    }

    /// Sends SIGTERM, as a service manager does, and waits for the end.
    pub fn stop(&mut self) {
        self.signal("TERM");
        if let Some(mut child) = self.again.take() {
            child.status_in_time();
        }
        until("the end of a member", || {
            // The trial does not wait for its children.
            let state = fs::read_to_string(format!("/proc/{}/stat", self.pid));
            let is_running = state.is_ok_and(|state| !state.contains(") Z"));
            (!is_running).then_some(())
        });
    }

    /// Starts it, with further variables of the environment.
    pub fn start(&mut self, config: &Path, settings: &[(&str, &str)]) {
        let mut command = serve(config);
        let started = command.envs(settings.iter().copied()).spawn().unwrap();
        self.pid = started.id();
        self.again = Some(KilledOnDrop(started));
    }
}

fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status_in_time();
    assert!(sent.success());
}

/// A service that is expected to end by itself: its exit code, and the end of its log.
pub fn refusal(config: &Path) -> (i32, String) {
    let output = serve(config).output_in_time();
    (output.status.code().unwrap(), err(&output))
}

fn serve(config: &Path) -> Command {
    let mut command = binary();
    command
        .arg("--config")
        .arg(config)
        .arg("serve")
        .env_remove("PLAYGATE_OPS_LISTEN")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

pub struct Member {
    pub name: String,
    pub address: SocketAddr,
    pub config: PathBuf,
    pub part: Part,
}

pub struct Fleet {
    /// Before the process that owns the directory of all.
    pub members: Vec<Member>,
    /// Addresses for clients.
    pub etcd: Vec<String>,
    etcd_pids: Vec<u32>,
    pub partner: String,
    _trial: Trial,
}

struct Trial(KilledOnDrop);

impl Drop for Trial {
    fn drop(&mut self) {
        // Its members end with it, so it is killed only if that takes too long.
        self.0.terminate();
        for _ in 0..600 {
            if self.0.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            park_timeout(Duration::from_millis(100));
        }
    }
}

impl Fleet {
    pub fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// With further variables of the environment of all members.
    pub fn with(settings: &[(&str, &str)]) -> Option<Self> {
        program("etcd")?;
        let mut command = binary();
        command
            .args(["fleet", "try", "--json"])
            // Each member has its own, in its configuration.
            .env_remove("PLAYGATE_OPS_LISTEN")
            // All come from one address.
            .env("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000")
            .envs(settings.iter().copied())
            .stdin(Stdio::null());
        let (trial, said) = first_json_line(&mut command);
        let list = |name: &str| said[name].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let pid = |part: &Value| u32::try_from(part["pid"].as_u64().unwrap()).unwrap();
        let members = list("members").into_iter().map(|member| Member {
            name: text(&member["name"]),
            address: text(&member["url"])["http://".len()..].parse().unwrap(),
            config: text(&member["config"]).into(),
            part: Part {
                pid: pid(&member),
                again: None,
            },
        });
        let etcd = list("etcd");
        Some(Self {
            members: members.collect(),
            etcd: etcd.iter().map(|part| text(&part["url"])).collect(),
            etcd_pids: etcd.iter().map(pid).collect(),
            partner: text(&said["partnerToken"]),
            _trial: Trial(trial),
        })
    }

    pub fn signal_etcd(&self, at: usize, name: &str) {
        signal(self.etcd_pids[at], name);
    }

    /// The lines of `fleet status`: name, role and how far behind.
    pub fn status(&self) -> Vec<(String, String, u64)> {
        let done = playgate(&self.members[0].config, &["fleet", "status"]);
        let text = done.unwrap_or_default();
        let lines = text.lines().skip(1).map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            (
                words[0].to_owned(),
                words[1].to_owned(),
                words[4].parse().unwrap(),
            )
        });
        lines.collect()
    }

    pub fn owner(&self) -> usize {
        until("an owner", || {
            let status = self.status();
            let owner = status.iter().find(|(_, role, _)| role == "owner")?;
            self.members
                .iter()
                .position(|member| member.name == owner.0)
        })
    }

    pub fn wait_until_equal(&self) {
        until("equal members", || {
            let status = self.status();
            let equal = status.len() == self.members.len()
                && status.iter().all(|(_, _, behind)| *behind == 0);
            equal.then_some(())
        });
    }
}
