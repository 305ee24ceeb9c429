//! One viewer asks for exports on twenty connections. Others log in all the same.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::appliance::Appliance;
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::{PASSWORD, TestServer, Viewer, viewer};
use crate::support::until::{until, until_some};

const EVENTS: &str = "/api/tracker/v1/telemetry-events";
/// Of one event. The bodies of the batches stay below a megabyte.
const EVENT_BYTES: usize = 60_000;

fn batch(number: usize) -> Value {
    let event = |at: usize| {
        json!({
            "timestamp": 1_767_225_600, "action": "a", "seqId": number * 16 + at,
            "extra": {"x": "x".repeat(EVENT_BYTES)},
        })
    };
    (0..16).map(event).collect()
}

fn export_of(partner: &str, viewer: &Viewer) -> String {
    let target = format!("/api/user/v1/users/{}/export", viewer.id);
    let bearer = format!("Bearer {}", viewer.token);
    let headers = [
        ("Service-AccessToken", partner),
        ("Authorization", bearer.as_str()),
    ];
    request("GET", &target, &headers, "")
}

fn is_refused(answer: &Answer) -> bool {
    if answer.status == 429 {
        assert_eq!(answer.code(), "TOO_MANY_ATTEMPTS");
        assert!(answer.header("retry-after").is_some());
    }
    answer.status == 429
}

#[test]
fn a_user_has_one_export_at_a_time_and_others_have_the_second() {
    let server = TestServer::start();
    let names = ["ann", "bob", "eve"];
    let [ann, bob, eve] = names.map(|name| server.sign_up(&format!("{name}@example.com")));
    // More than the sockets of a client that does not read can hold.
    for number in 0..8 {
        for viewer in [&ann, &bob] {
            let sent = server.user(&viewer.token, "POST", EVENTS, &batch(number));
            assert_eq!(sent.status, 202, "{}", sent.json());
        }
    }
    let begin = |viewer: &Viewer| {
        let mut wire = Wire::to(server.public);
        wire.send(export_of(&server.partner, viewer));
        wire
    };
    let ask_for = |viewer: &Viewer| ask(server.public, export_of(&server.partner, viewer));
    // One of these runs, and does not end before it is read.
    let mut running: Vec<Wire> = (0..20).map(|_| begin(&ann)).collect();
    let mut refused = 0;
    until("all but one of the user's exports to be refused", || {
        let before = running.len();
        running.retain_mut(|wire| {
            let short = Duration::from_millis(5);
            wire.stream.set_read_timeout(Some(short)).unwrap();
            let mut first = [0; 12];
            let begun = wire.stream.peek(&mut first);
            !(begun.is_ok() && first.ends_with(b"429"))
        });
        refused += before - running.len();
        refused == 19
    });
    assert!(is_refused(&ask_for(&ann)));
    let others = begin(&bob);
    let mut first = [0; 12];
    until("the second export to run", || {
        others.stream.peek(&mut first).unwrap() == first.len()
    });
    assert_eq!(&first, b"HTTP/1.1 200");
    assert!(is_refused(&ask_for(&eve)), "both places are taken");
    // Control: exports hold up nothing else.
    let form = json!({"identity": "eve@example.com", "accessKey": PASSWORD});
    let log_in = || server.partner("POST", "/api/login/v2/auth/email", &form);
    assert_eq!(log_in().status, 200);
    // Clients that go give their places back.
    drop((running, others));
    let done = until_some("an export of another user", || {
        Some(ask_for(&eve)).filter(|answer| !is_refused(answer))
    });
    assert_eq!(
        (done.status, done.json()["user"]["userId"].as_str()),
        (200, Some(&*eve.id))
    );
    until("an export of the user", || !is_refused(&ask_for(&ann)));
}

/// Logs in others and returns how long that took.
fn logins(server: &Appliance, partner: &str) -> Duration {
    let headers = [("Service-AccessToken", partner)];
    let form = json!({"identity": "other@example.com", "accessKey": PASSWORD}).to_string();
    let began = Instant::now();
    for _ in 0..20 {
        let answer = server.ask("POST", "/api/login/v2/auth/email", &headers, &form);
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    began.elapsed()
}

#[test]
fn others_log_in_while_twenty_connections_of_one_viewer_export() {
    let data = tempfile::tempdir().unwrap();
    let server = Appliance::start(data.path());
    let partner = server.run_json(&["partner", "add", "Acme", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let headers = [("Service-AccessToken", partner.as_str())];
    let sign_up = |email: &str| {
        let form = json!({"identity": email, "accessKey": PASSWORD}).to_string();
        viewer(&server.ask("PUT", "/api/login/v2/auth/email", &headers, &form))
    };
    let (mallory, _other) = (sign_up("mallory@example.com"), sign_up("other@example.com"));
    let bearer = format!("Bearer {}", mallory.token);
    let of_user = [headers[0], ("Authorization", bearer.as_str())];
    for number in 0..16 {
        let sent = server.ask("POST", EVENTS, &of_user, &batch(number).to_string());
        assert_eq!(sent.status, 202, "{}", sent.json());
    }
    let alone = logins(&server, &partner);
    let (ends, exports, refusals) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let attacked = thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                while !ends.load(Relaxed) {
                    let answer = ask(server.address, export_of(&partner, &mallory));
                    let count = if is_refused(&answer) {
                        &refusals
                    } else {
                        &exports
                    };
                    count.fetch_add(1, Relaxed);
                }
            });
        }
        until("exports to run and to be refused", || {
            exports.load(Relaxed) > 0 && refusals.load(Relaxed) > 20
        });
        let attacked = logins(&server, &partner);
        ends.store(true, Relaxed);
        attacked
    });
    println!(
        "20 logins: {alone:?} alone, {attacked:?} under attack; {} exports, {} refused",
        exports.load(Relaxed),
        refusals.load(Relaxed)
    );
    // Twenty exports at a time would have been answered as often as refused.
    assert!(refusals.load(Relaxed) > exports.load(Relaxed));
}
