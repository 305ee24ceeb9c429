//! One user floods telemetry, packed; the others go on.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::appliance::Appliance;
use crate::support::raw_http::{Answer, ask};
use crate::support::server::PASSWORD;

const TARGET: &str = "/api/tracker/v1/telemetry-events";

/// A batch of nearly a megabyte that packs to a few kilobytes.
fn flood(batch: usize) -> Vec<u8> {
    let event = |number: usize| json!({"timestamp": 1, "action": "a", "seqId": batch * 20 + number, "extra": {"x": "x".repeat(50_000)}});
    let events: Vec<Value> = (0..20).map(event).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed
        .write_all(Value::from(events).to_string().as_bytes())
        .unwrap();
    packed.finish().unwrap()
}

fn post(server: &Appliance, partner: &str, bearer: &str, body: &[u8]) -> Answer {
    let mut bytes = format!(
        "POST {TARGET} HTTP/1.1\r\nHost: t\r\nService-AccessToken: {partner}\r\nAuthorization: {bearer}\r\n\
         Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    ask(server.address, bytes)
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
    let partner = server.told(&["partner", "add", "Acme", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let (mallory, ann) = (
        sign_up(&server, &partner, "mallory@example.com"),
        sign_up(&server, &partner, "ann@example.com"),
    );
    let (mut sent, mut kept, mut refused) = (0, 0, None);
    for batch in 0..20 {
        let body = flood(batch);
        let answer = post(&server, &partner, &mallory, &body);
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
    // Control: the same from somebody else is taken, and nobody else is held up.
    assert_eq!(post(&server, &partner, &ann, &flood(0)).status, 202);
    sign_up(&server, &partner, "bob@example.com");

    server.end();
    let server = Appliance::with(data.path(), &settings);
    assert_eq!(post(&server, &partner, &mallory, &flood(100)).status, 429);
    assert_eq!(post(&server, &partner, &ann, &flood(1)).status, 202);
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
