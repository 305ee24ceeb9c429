//! A server with three livestreams and a guide around noon, with helpers for schedule tests.

use std::io::Read as _;

use playgate_config::HttpSettings;
use playgate_config::limits::LimitsConfig;
use playgate_types::UnixSeconds;
use serde_json::json;

use super::gate_only::{GateOnly, NOON};
use super::raw_http::{Answer, Wire, request};

pub const CATALOG: &str = r#"
[[livestream]]
id = "news"
name = "News & Co"
zone = "Europe/Stockholm"
catchup_days = 7
extended_rights = { pause = true }
encrypted = false
playlist = { hls = "https://cdn.example/news.m3u8" }

[[livestream]]
id = "film"
live_rights = false

[[livestream]]
id = "empty"

[[offer]]
id = "free"
type = "default"
pack = "all"
"#;

/// Livestream, id, title, start and stop in minutes from noon.
pub const ROWS: [(&str, &str, &str, i64, i64); 6] = [
    ("news", "a", "A", -120, -30),
    ("news", "b", "B <b>", -30, 30),
    ("news", "c", "C", 30, 60),
    ("news", "d", "D", 120, 180),
    ("news", "e", "E", 17 * 60 - 1, 18 * 60),
    ("film", "f", "F", -120, 60),
];

pub fn at(minutes: i64) -> i64 {
    NOON.0 + minutes * 60
}

/// Builds a guide in the format of the day route.
pub fn guide(rows: &[(&str, &str, &str, i64, i64)]) -> String {
    let mut guide = json!({});
    for (livestream, id, title, start, stop) in rows {
        let object = guide.as_object_mut().unwrap();
        let list = object.entry(*livestream).or_insert_with(|| json!([]));
        list.as_array_mut().unwrap().push(json!({
            "id": id, "title": title, "start": at(*start), "stop": at(*stop),
        }));
    }
    guide.to_string()
}

pub fn post(server: &GateOnly, target: &str, body: &[u8]) -> Answer {
    let (name, value) = server.admin();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut wire = Wire::to(server.ops);
    wire.send(head).send(body);
    wire.answer().expect("an answer")
}

pub fn get(server: &GateOnly, target: &str) -> Answer {
    ask_with(server, "GET", target, &[])
}

pub fn ask_with(server: &GateOnly, method: &str, target: &str, more: &[(&str, &str)]) -> Answer {
    let token = server.gate.tokens.partner.reveal();
    let mut headers = vec![("Service-AccessToken", token)];
    headers.extend_from_slice(more);
    let mut wire = Wire::to(server.public);
    wire.send(request(method, target, &headers, ""));
    wire.answer_to(method).expect("an answer")
}

pub fn set_clock(server: &GateOnly, now: i64) {
    server
        .services
        .lab_clock
        .as_ref()
        .unwrap()
        .set_now(UnixSeconds(now));
}

pub fn stock(server: &GateOnly) {
    let answer = post(server, "/admin/v1/catalog/import", CATALOG.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.json());
    let answer = post(server, "/admin/v1/epg/import", guide(&ROWS).as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.json());
    assert_eq!(answer.json()["added"], 6);
}

pub fn stocked() -> GateOnly {
    stocked_with(|_, _| {})
}

pub fn stocked_with(change: impl FnOnce(&mut HttpSettings, &mut LimitsConfig)) -> GateOnly {
    let server = GateOnly::with(change);
    stock(&server);
    server
}

pub fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    decoder.read_to_end(&mut plain).unwrap();
    plain
}
