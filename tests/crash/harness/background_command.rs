//! A command that is repeated while the server works.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::appliance::Launch;
use crate::harness::process::InTime as _;

pub struct BackgroundCommand {
    command: Command,
    running: Option<Child>,
    /// How often it was done.
    pub done: u64,
    /// The path that it told last, if it tells any.
    pub told: Option<String>,
}

impl BackgroundCommand {
    pub fn give(launch: &Launch, arguments: &[&str]) -> Self {
        let mut command = launch.order();
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self {
            command,
            running: None,
            done: 0,
            told: None,
        }
    }

    /// Gives it until the time is over; the last one goes on.
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

    /// Waits for the one that goes on.
    pub fn finish(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let output = running.output_in_time();
        if output.status.success() {
            self.done += 1;
            let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            self.told = json["path"]
                .as_str()
                .map(str::to_owned)
                .or(self.told.take());
        }
    }
}
