//! One user floods telemetry with compressed batches. The others are not affected.

use std::io::Write as _;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::appliance::Appliance;
use crate::support::gate_only::NOON;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer, viewer};

const TARGET: &str = "/api/tracker/v1/telemetry-events";

/// Builds a batch of nearly a megabyte that compresses to a few kilobytes.
fn flood(batch: usize) -> Vec<u8> {
    let event = |number: usize| json!({"timestamp": 1, "action": "a", "seqId": batch * 20 + number, "extra": {"x": "x".repeat(50_000)}});
    let events: Vec<Value> = (0..20).map(event).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed
        .write_all(Value::from(events).to_string().as_bytes())
        .unwrap();
    packed.finish().unwrap()
}

fn post(to: SocketAddr, partner: &str, bearer: &str, body: &[u8]) -> Answer {
    let mut bytes = format!(
        "POST {TARGET} HTTP/1.1\r\nHost: t\r\nService-AccessToken: {partner}\r\nAuthorization: {bearer}\r\n\
         Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    ask(to, bytes)
}

fn sign_up(server: &Appliance, partner: &str, email: &str) -> String {
    let headers = [("Service-AccessToken", partner)];
    let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
    let answer = server.ask("PUT", "/api/login/v2/auth/email", &headers, &body);
    assert_eq!(answer.status, 200, "{}", answer.json());
    format!("Bearer {}", answer.json()["token"].as_str().unwrap())
}

#[test]
fn telemetry_of_one_user_is_limited_and_others_are_unaffected() {
    let data = tempfile::tempdir().unwrap();
    let settings = [("PLAYGATE_TELEMETRY_USER_BYTES_PER_DAY", "8MiB")];
    let mut server = Appliance::with(data.path(), &settings);
    let partner = server.run_json(&["partner", "add", "Acme", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let (mallory, ann) = (
        sign_up(&server, &partner, "mallory@example.com"),
        sign_up(&server, &partner, "ann@example.com"),
    );
    let (mut sent, mut kept, mut refused) = (0, 0, None);
    for batch in 0..20 {
        let body = flood(batch);
        let answer = post(server.address, &partner, &mallory, &body);
        match answer.status {
            202 => kept += 1,
            429 => refused = Some(answer),
            other => panic!("{other} {}", answer.json()),
        }
        sent += body.len();
    }
    let refused = refused.expect("a budget");
    assert_eq!(refused.code(), "RATE_LIMITED");
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait));
    assert_eq!(kept, 8, "{sent} bytes packed");
    // Control: the same batch of another user is accepted, and a sign-up is not delayed.
    assert_eq!(post(server.address, &partner, &ann, &flood(0)).status, 202);
    sign_up(&server, &partner, "bob@example.com");

    server.end();
    let server = Appliance::with(data.path(), &settings);
    assert_eq!(
        post(server.address, &partner, &mallory, &flood(100)).status,
        429
    );
    assert_eq!(post(server.address, &partner, &ann, &flood(1)).status, 202);
}

#[test]
fn of_501_events_the_first_500_are_stored() {
    let data = tempfile::tempdir().unwrap();
    let server = Appliance::start(data.path());
    let (partner, bearer) = crate::support::appliance::sign_up(&server);
    let event = |number| json!({"timestamp": 1, "action": "a", "seqId": number});
    let events: Vec<Value> = (0..501).map(event).collect();
    let headers = [
        ("Service-AccessToken", partner.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let answer = server.ask("POST", TARGET, &headers, &Value::from(events).to_string());
    assert_eq!(answer.status, 202);
    let body = answer.json();
    assert_eq!(body["accepted"], 500);
    let rejected = body["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 1);
    assert_eq!(
        (&rejected[0]["index"], &rejected[0]["code"]),
        (&json!(500), &json!("TOO_MANY_EVENTS"))
    );
}

/// Sends batches of a megabyte until one is refused. Returns how many were accepted, and the refusal.
fn flood_of(playgate: &TestServer, name: &str, most: usize) -> (usize, Answer) {
    let viewer = playgate.sign_up(&format!("{name}@example.com"));
    let bearer = format!("Bearer {}", viewer.token);
    for batch in 0..most {
        let answer = post(playgate.public, &playgate.partner, &bearer, &flood(batch));
        if answer.status != 202 {
            assert_eq!(
                (answer.status, answer.code()),
                (429, "RATE_LIMITED".to_owned())
            );
            return (batch, answer);
        }
    }
    panic!("{most} batches are taken");
}

#[test]
fn users_of_a_partner_share_its_telemetry_budget() {
    let playgate = TestServer::with(&[("telemetry.partner_bytes_per_day", "8MiB")]);
    let (taken, refused) = flood_of(&playgate, "mallory", 20);
    assert_eq!(taken, 8);
    let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(wait, 86_400 - NOON.0 % 86_400, "until the next day");
    assert_eq!(flood_of(&playgate, "ann", 1).0, 0);
    let made = playgate.operator("POST", "partners", &json!({"name": "Other"}));
    let other = made.json()["accessToken"].as_str().unwrap().to_owned();
    let form = json!({"identity": "bob@example.com", "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", other.as_str())];
    let form = request("PUT", "/api/login/v2/auth/email", &headers, &form);
    let bearer = format!("Bearer {}", viewer(&ask(playgate.public, form)).token);
    assert_eq!(
        post(playgate.public, &other, &bearer, &flood(0)).status,
        202
    );
    playgate.wait(wait);
    let next = post(playgate.public, &other, &bearer, &flood(1));
    assert_eq!(next.status, 202);
}

#[test]
fn telemetry_stays_within_its_total_limit_and_drops_the_oldest_hours() {
    let playgate = TestServer::with(&[
        ("telemetry.max_bytes", "64MiB"),
        ("telemetry.user_bytes_per_day", "1GiB"),
    ]);
    let (taken, refused) = flood_of(&playgate, "mallory", 80);
    assert!((60..=67).contains(&taken), "{taken}");
    assert_eq!(refused.header("retry-after"), Some("30"));
    let make_room = || {
        playgate
            .services
            .telemetry
            .make_room(playgate.services.clock.now())
            .unwrap()
    };
    assert_eq!(make_room(), 0, "the hour that is written to stays");
    assert_eq!(flood_of(&playgate, "ann", 1).0, 0);
    // A small batch starts the next hour.
    playgate.wait(3_600);
    let viewer = playgate.sign_up("bob@example.com");
    let few = json!([{"timestamp": 1, "action": "a", "seqId": 1}]);
    let target = "/api/tracker/v1/telemetry-events";
    let small = playgate.user(&viewer.token, "POST", target, &few);
    assert_eq!(small.status, 202, "{}", small.json());
    assert_eq!(make_room(), 1);
    let warning = playgate
        .services
        .telemetry
        .warning(playgate.services.clock.now())
        .unwrap();
    assert!(warning.contains("telemetry.max_bytes"), "{warning}");
    let bearer = format!("Bearer {}", viewer.token);
    assert_eq!(
        post(playgate.public, &playgate.partner, &bearer, &flood(0)).status,
        202
    );
}
