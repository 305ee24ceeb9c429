//! An administrative command that is repeated while the server works.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::appliance::Launch;
use crate::harness::process::InTime as _;

pub struct BackgroundCommand {
    command: Command,
    running: Option<Child>,
    /// How many runs succeeded.
    pub done: u64,
    /// The last path that the command has printed.
    pub last_path: Option<String>,
}

impl BackgroundCommand {
    pub fn new(launch: &Launch, arguments: &[&str]) -> Self {
        let mut command = launch.admin_command();
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self {
            command,
            running: None,
            done: 0,
            last_path: None,
        }
    }

    /// Repeats the command for `time`; the last run may continue after that.
    pub fn repeat(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            let command = &mut self.command;
            let running = self.running.get_or_insert_with(|| command.spawn().unwrap());
            if running.try_wait().unwrap().is_some() {
                self.finish();
            }
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Waits for the run in progress.
    pub fn finish(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let output = running.output_in_time();
        if output.status.success() {
            self.done += 1;
            let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            self.last_path = json["path"]
                .as_str()
                .map(str::to_owned)
                .or(self.last_path.take());
        }
    }
}
