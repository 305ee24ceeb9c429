//! The fleet that `playgate fleet try` starts.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{playgate, until};
use crate::support::appliance::{binary, err};
use crate::support::external_tools::program;
use crate::support::process::{InTime as _, KilledOnDrop, first_json_line, pause, resume, signal};

/// The process of a member, started by `fleet try` or here.
pub struct MemberProcess {
    pid: u32,
    restarted: Option<KilledOnDrop>,
}

impl MemberProcess {
    pub const fn id(&self) -> u32 {
        self.pid
    }

    pub fn pause(&self) {
        assert!(pause(self.pid));
    }

    pub fn resume(&self) {
        assert!(resume(self.pid));
    }

    pub fn kill(&self) {
        assert!(signal(self.pid, Signal::KILL));
    }

    /// Sends SIGTERM, as a service manager does, and waits.
    pub fn stop(&mut self) {
        assert!(signal(self.pid, Signal::TERM));
        if let Some(mut child) = self.restarted.take() {
            child.status_in_time();
        }
        until("the end of a member", || {
            // `fleet try` does not reap its children.
            let state = fs::read_to_string(format!("/proc/{}/stat", self.pid));
            let is_running = state.is_ok_and(|state| !state.contains(") Z"));
            (!is_running).then_some(())
        });
    }

    pub fn start(&mut self, config: &Path, settings: &[(&str, &str)]) {
        let mut command = serve(config);
        let started = command.envs(settings.iter().copied()).spawn().unwrap();
        self.pid = started.id();
        self.restarted = Some(KilledOnDrop(started));
    }
}

/// Runs a service that must end by itself. Returns its exit code and log.
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
    pub process: MemberProcess,
}

pub struct Fleet {
    /// Declared first, because `fleet try` owns the directory of all members.
    pub members: Vec<Member>,
    pub etcd: Vec<String>,
    etcd_pids: Vec<u32>,
    pub partner: String,
    _trial: Trial,
}

struct Trial(KilledOnDrop);

impl Drop for Trial {
    fn drop(&mut self) {
        // The members end with it, so it is killed only if that takes too long.
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

    /// `settings` are environment variables of all members.
    pub fn with(settings: &[(&str, &str)]) -> Option<Self> {
        program("etcd")?;
        let mut command = binary();
        command
            .args(["fleet", "try", "--json"])
            // The configuration of each member has its own address.
            .env_remove("PLAYGATE_OPS_LISTEN")
            // All clients have the same address.
            .env("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000")
            .envs(settings.iter().copied())
            .stdin(Stdio::null());
        let (trial, greeting) = first_json_line(&mut command);
        let list = |name: &str| greeting[name].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let pid = |process: &Value| u32::try_from(process["pid"].as_u64().unwrap()).unwrap();
        let members = list("members").into_iter().map(|member| Member {
            name: text(&member["name"]),
            address: text(&member["baseUrl"])["http://".len()..].parse().unwrap(),
            config: text(&member["config"]).into(),
            process: MemberProcess {
                pid: pid(&member),
                restarted: None,
            },
        });
        let etcd = list("etcd");
        Some(Self {
            members: members.collect(),
            etcd: etcd
                .iter()
                .map(|process| text(&process["endpoint"]))
                .collect(),
            etcd_pids: etcd.iter().map(pid).collect(),
            partner: text(&greeting["partnerToken"]),
            _trial: Trial(trial),
        })
    }

    pub fn etcd_pid(&self, at: usize) -> u32 {
        self.etcd_pids[at]
    }

    /// Pauses two of the three members of etcd. The third one has no quorum and answers no request.
    pub fn pause_etcd_majority(&self) {
        assert!(self.etcd_majority().all(pause));
    }

    pub fn resume_etcd_majority(&self) {
        assert!(self.etcd_majority().all(resume));
    }

    pub fn kill_etcd(&self) {
        for pid in &self.etcd_pids {
            assert!(signal(*pid, Signal::KILL));
        }
    }

    fn etcd_majority(&self) -> impl Iterator<Item = u32> {
        self.etcd_pids.iter().take(2).copied()
    }

    /// Returns name, role and lag of each member from `fleet status`.
    pub fn status(&self) -> Vec<(String, String, u64)> {
        let done = playgate(&self.members[0].config, &["fleet", "status"]);
        // Without etcd the command prints what the member knows, which may be old.
        let done = done.ok().filter(|text| text.contains("  etcd "));
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

    pub fn wait_until_caught_up(&self, at: usize) {
        let name = &self.members[at].name;
        until("a member with all changes", || {
            let status = self.status();
            let mut others = status.iter();
            others
                .any(|(other, _, behind)| other == name && *behind == 0)
                .then_some(())
        });
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
