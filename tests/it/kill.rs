//! A real process that is killed while players report: what was answered is there, once.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::{Wire, ask, request};

const EVENTS: &str = "/api/tracker/v1/telemetry-events";

pub struct Appliance {
    data_dir: PathBuf,
    process: Child,
    pub address: SocketAddr,
}

/// The program, with a data directory and no settings of whoever runs the tests.
pub fn playgate(data_dir: &Path) -> Command {
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
    fn start(data_dir: &Path) -> Self {
        Self::start_with(data_dir, &[])
    }

    pub fn start_with(data_dir: &Path, arguments: &[&str]) -> Self {
        let mut process = playgate(data_dir)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
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
        assert!(output.status.success(), "{arguments:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let values = serde_json::Deserializer::from_str(&text).into_iter();
        values.map(Result::unwrap).collect()
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The tokens of a new user of a new partner.
fn sign_up(appliance: &Appliance) -> (String, String) {
    let partner = appliance.told(&["partner", "add", "test", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let body = json!({"identity": "ann@example.com", "accessKey": "a long way to go"});
    let headers = [("Service-AccessToken", partner.as_str())];
    let target = "/api/login/v2/auth/email";
    let put = request("PUT", target, &headers, &body.to_string());
    let answer = ask(appliance.address, put);
    assert_eq!(answer.status, 200);
    let bearer = format!("Bearer {}", answer.json()["token"].as_str().unwrap());
    (partner, bearer)
}

fn batch(first: i64) -> String {
    let event = |sequence| {
        json!({
            "timestamp": 1_800_000_000,
            "action": "playback_position",
            "seqId": sequence,
            "context": {"device_id": "tv"},
            // A write of some length, so that a kill has something to tear.
            "extra": {"filling": "x".repeat(4_000)},
        })
    };
    let events: Vec<Value> = (first..first + 20).map(event).collect();
    Value::from(events).to_string()
}

#[test]
fn what_was_answered_survives_kills_and_is_known_again() {
    let data_dir = tempfile::tempdir().unwrap();
    let mut appliance = Appliance::start(data_dir.path());
    let (partner, bearer) = sign_up(&appliance);
    let headers = [
        ("Service-AccessToken", partner.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let mut next = 0;
    for round in 1..=5 {
        let sent = AtomicBool::new(false);
        let address = appliance.address;
        let cut = thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut wire = Wire::to(address);
                loop {
                    let post = request("POST", EVENTS, &headers, &batch(next));
                    // Nothing when the connection ends with the process.
                    let Some(answer) = wire.send(post).answer() else {
                        return next;
                    };
                    assert_eq!(answer.json()["accepted"], 20);
                    next += 20;
                    sent.store(true, Ordering::SeqCst);
                }
            });
            while !sent.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            thread::park_timeout(Duration::from_millis(7 * round));
            appliance.kill();
            sender.join().unwrap()
        });
        appliance = Appliance::start(data_dir.path());
        let again = |first| {
            let post = request("POST", EVENTS, &headers, &batch(first));
            ask(appliance.address, post).json()
        };
        for first in (0..cut).step_by(20) {
            assert_eq!(again(first)["duplicates"], 20, "round {round}");
        }
        // The batch that got no answer may have been taken, in whole or in part; the player sends
        // it again.
        let rest = again(cut);
        let of = |name: &str| rest[name].as_i64().unwrap();
        assert_eq!(of("accepted") + of("duplicates"), 20);
        next = cut + 20;
    }
    let lines = appliance.told(&["telemetry", "export"]);
    let sequences = lines
        .iter()
        .map(|line| line["event"]["seqId"].as_i64().unwrap());
    let unique: BTreeSet<i64> = sequences.collect();
    assert_eq!(unique, (0..next).collect());
    assert_eq!(lines.len(), unique.len(), "an event is kept twice");
}
