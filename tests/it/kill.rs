//! A real process that is killed while players report: what was answered is there, once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::appliance::Appliance;
use crate::wire::{Wire, ask, request};

const EVENTS: &str = "/api/tracker/v1/telemetry-events";

/// The tokens of a new user of a new partner.
pub fn sign_up(appliance: &Appliance) -> (String, String) {
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
