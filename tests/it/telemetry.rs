//! Telemetry: which events are accepted or rejected, the export, the reports, and the check of the store.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use playgate_records::telemetry::{NewEvent, Sender};
use serde_json::{Value, json};

use crate::support::gate_only::{GateOnly, NOON};
use crate::support::raw_http::{Answer, ask, request};

const TARGET: &str = "/api/tracker/v1/telemetry-events";

/// Starts a server whose user has an account.
fn start() -> GateOnly {
    let server = GateOnly::start();
    server.enroll();
    server
}

fn post(server: &GateOnly, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let partner = server.gate.tokens.partner.reveal();
    let bearer = format!("Bearer {}", server.gate.tokens.user.reveal());
    let mut bytes = format!(
        "POST {TARGET} HTTP/1.1\r\nHost: localhost\r\nService-AccessToken: {partner}\r\n\
         Authorization: {bearer}\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut bytes = format!("{bytes}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    ask(server.public, bytes)
}

fn event(sequence: i64) -> Value {
    json!({
        "timestamp": NOON.0 - 5,
        "source": "APP_ACTION",
        "component": "player/core",
        "action": "playback_buffering",
        "seqId": sequence,
        "context": {
            "playback_buffering_type": "initial",
            "duration": 640,
            "asset_id": "news",
            "device_id": "tv-1",
        },
        "extra": {"player_version": "1.0"},
    })
}

/// A view without a session, as from an application that reports only the start.
fn started() -> Value {
    let mut event = event(1);
    event["action"] = json!("playback_started");
    event["context"] = json!({"startup_duration": 640, "asset_id": "news", "device_id": "tv-1"});
    event
}

fn taken(accepted: u32, duplicates: u32) -> Value {
    json!({"accepted": accepted, "duplicates": duplicates, "rejected": []})
}

/// Sends a request to the operations listener.
fn operator(server: &GateOnly, method: &str, target: &str) -> Answer {
    let (name, value) = server.admin();
    ask(server.ops, request(method, target, &[(name, &value)], ""))
}

fn exported(server: &GateOnly, query: &str) -> Vec<Value> {
    let answer = operator(server, "GET", &format!("/admin/v1/telemetry/events{query}"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let text = String::from_utf8(answer.body).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[test]
fn events_are_stored_once_and_exported_unchanged() {
    let server = start();
    let batch = json!([event(1), event(2)]).to_string();
    let answer = post(&server, &[], &batch);
    assert_eq!((answer.status, answer.json()), (202, taken(2, 0)));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let again = post(&server, &[("Content-Type", "text/plain")], &batch);
    assert_eq!((again.status, again.json()), (202, taken(0, 2)));
    let lines = exported(&server, "");
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["event"], event(2));
    assert_eq!(lines[1]["receivedTimestamp"], NOON.0);
    assert_eq!(lines[1]["clockSkew"], -5);
    let user = lines[0]["userId"].as_str().unwrap();
    assert_eq!(exported(&server, &format!("?user={user}")).len(), 2);
    assert!(exported(&server, &format!("?from={}", NOON.0 + 1)).is_empty());
    assert!(exported(&server, &format!("?to={}", NOON.0)).is_empty());
    let bad = operator(&server, "GET", "/admin/v1/telemetry/events?from=yesterday");
    assert_eq!((bad.status, bad.field()), (400, "from".to_owned()));
}

#[test]
fn a_bad_event_is_reported_and_the_others_stored() {
    let server = start();
    let batch = json!([event(1), {"action": "a"}, event(2), 7]).to_string();
    let answer = post(&server, &[], batch);
    assert_eq!(answer.status, 202);
    assert_eq!(
        answer.json(),
        json!({
            "accepted": 2,
            "duplicates": 0,
            "rejected": [
                {"index": 1, "code": "INVALID_EVENT", "message": "timestamp: is missing"},
                {"index": 3, "code": "INVALID_EVENT", "message": "must be an object"},
            ],
        })
    );
}

#[test]
fn a_non_array_is_400_and_too_much_is_413_and_nothing_is_stored() {
    let server = start();
    for body in ["", "{}", "null", "[1,]", "[] x", "\u{feff}[]"] {
        let answer = post(&server, &[], body);
        assert_eq!(
            (answer.status, answer.field()),
            (400, "body".to_owned()),
            "{body}"
        );
    }
    let mut large = json!([event(1)]).to_string();
    large.push_str(&" ".repeat(1024 * 1024 + 1 - large.len()));
    let answer = post(&server, &[], &large);
    assert_eq!(answer.status, 413);
    assert!(
        answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("halve it and retry")
    );
    assert!(exported(&server, "").is_empty());
    // One byte less is within the limit.
    large.pop();
    assert_eq!(post(&server, &[], &large).json(), taken(1, 0));
}

#[test]
fn a_compressed_batch_is_accepted() {
    let server = start();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let batch = json!([event(1)]).to_string();
    gzip.write_all(batch.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let answer = post(&server, &[("Content-Encoding", "gzip")], packed);
    assert_eq!(answer.json(), taken(1, 0));
    assert_eq!(post(&server, &[], batch).json(), taken(0, 1));
}

#[test]
fn an_export_of_many_chunks_is_complete() {
    let server = start();
    let filling = "x".repeat(1_000);
    for batch in 0..4 {
        let events: Vec<Value> = (0..400)
            .map(|at| {
                let mut event = event(batch * 400 + at);
                event["extra"] = json!({ "filling": filling });
                event
            })
            .collect();
        let answer = post(&server, &[], Value::from(events).to_string());
        assert_eq!(answer.json(), taken(400, 0));
    }
    let lines = exported(&server, "");
    let sequences: Vec<_> = lines
        .iter()
        .map(|line| line["event"]["seqId"].as_i64().unwrap())
        .collect();
    assert_eq!(sequences, (0..1_600).collect::<Vec<_>>());
}

#[test]
fn the_duration_unit_of_a_partner_applies_to_reports() {
    let server = start();
    post(&server, &[], json!([started()]).to_string());
    let startup = || {
        let report = operator(&server, "GET", "/admin/v1/telemetry/report").json();
        report["total"]["startupP50Millis"].as_f64().unwrap()
    };
    let partners = operator(&server, "GET", "/admin/v1/partners").json();
    let partner = partners[0]["partnerId"].as_str().unwrap();
    let target = format!("/admin/v1/partners/{partner}");
    let (name, value) = server.admin();
    let set = |unit: Value| {
        let body = json!({ "telemetryDurationUnit": unit }).to_string();
        ask(
            server.ops,
            request("PUT", &target, &[(name, &value)], &body),
        )
        .status
    };
    assert_near(startup(), 640.0);
    assert_eq!(set(json!("s")), 200);
    assert_near(startup(), 640_000.0);
    for wrong in [json!("h"), json!(""), json!(1)] {
        assert_eq!(set(wrong), 400);
    }
    assert_near(startup(), 640_000.0);
    assert_eq!(set(json!("default")), 200);
    assert_near(startup(), 640.0);
}

#[test]
fn a_compressed_hour_is_exported_and_reported_as_before() {
    let server = GateOnly::start();
    let user = server.enroll();
    for batch in 0..4 {
        let events: Vec<Value> = (0..400).map(|at| event(batch * 400 + at)).collect();
        let answer = post(&server, &[], Value::from(events).to_string());
        assert_eq!(answer.json(), taken(400, 0));
    }
    let to = NOON.0 + 60;
    let readings = || {
        let report = format!("/admin/v1/telemetry/report?to={to}");
        (
            exported(&server, &format!("?to={to}")),
            operator(&server, "GET", &report).json(),
        )
    };
    let before = readings();
    // An event of a later hour closes this one.
    let services = &server.services;
    let partner = services.partners.list()[0].id;
    let later = NewEvent {
        timestamp_millis: 0,
        sequence: 0,
        action: "later".into(),
        device: None,
        json: b"{}".into(),
        player: None,
        ignored_values: 0,
    };
    let mut now = NOON + 3 * 3_600;
    let sent = services
        .telemetry
        .ingest(Sender { user, partner }, vec![later], now);
    assert_eq!(sent.unwrap().accepted, 1);
    let file = services
        .config
        .server
        .data_dir
        .join("telemetry/2026-01-01T12.events");
    let plain = std::fs::read(&file).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read(&file).unwrap().starts_with(&[0x1f, 0x8b]) {
        assert!(Instant::now() < deadline, "it is not compressed");
        services.telemetry.compress(now).unwrap();
        now = now + 60;
    }
    let mut unpacked = Vec::new();
    let packed = std::fs::File::open(&file).unwrap();
    let mut gzip = flate2::read::MultiGzDecoder::new(packed);
    gzip.read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == plain, "zcat gives other bytes");
    assert_eq!(readings(), before);
}

/// Percentiles have a documented error of 1 %.
fn assert_near(read: f64, truth: f64) {
    assert!((read / truth - 1.0).abs() < 0.011, "{read}, not {truth}");
}

#[test]
fn reports_are_by_dimensions_and_absent_figures_have_no_member() {
    let server = start();
    post(&server, &[], json!([started()]).to_string());
    let target = "/admin/v1/telemetry/report?by=minute&by=asset,platform&where=asset%3Dnews";
    let mut report = operator(&server, "GET", target).json();
    let minute = (NOON.0 - 5).div_euclid(60) * 60;
    assert_near(
        report["rows"][0]["startupP50Millis"].as_f64().unwrap(),
        640.0,
    );
    let mut without_times = |pointer: &str| {
        let figures = report.pointer_mut(pointer).unwrap().as_object_mut();
        figures
            .unwrap()
            .retain(|name, _| !name.starts_with("startupP"));
    };
    without_times("/rows/0");
    without_times("/total");
    let figures = json!({
        "attempts": 0, "plays": 1, "startFailures": 0, "exitsBeforeStart": 0, "playbackFailures": 0,
        "rebufferCount": 0, "minutesPlayed": 0.0, "maxConcurrent": 0,
    });
    let mut row = figures.clone();
    row["key"] = json!({"minute": minute, "asset": "news"});
    let to = (NOON.0 + 1 + 59).div_euclid(60) * 60;
    assert_eq!(
        report,
        json!({
            "from": to - 86_400, "to": to, "by": ["minute", "asset", "platform"],
            "total": figures, "rows": [row],
        })
    );
    let other = operator(&server, "GET", "/admin/v1/telemetry/report?where=asset%3Dx").json();
    assert_eq!(
        (&other["total"]["plays"], &other["rows"]),
        (&json!(0), &json!([]))
    );
    let series = format!(
        "/admin/v1/telemetry/series?from={}&step=60&by=asset",
        NOON.0 - 120
    );
    let series = operator(&server, "GET", &series).json();
    let point = |points: &Value| (points[0]["at"].clone(), points[0]["plays"].clone());
    assert_eq!(
        point(&series["points"]),
        (json!(minute), json!(1)),
        "{series}"
    );
    assert_eq!(
        point(&series["rows"][0]["points"]),
        (json!(minute), json!(1))
    );
    for (query, field) in [
        ("by=user", "by"),
        ("by=minute,hour", "by"),
        ("where=asset", "where"),
        ("where=user%3Dx", "where"),
        ("from=yesterday", "from"),
    ] {
        let bad = operator(
            &server,
            "GET",
            &format!("/admin/v1/telemetry/report?{query}"),
        );
        assert_eq!(
            (bad.status, bad.field()),
            (400, field.to_owned()),
            "{query}"
        );
    }
    let bad = operator(&server, "GET", "/admin/v1/telemetry/series?step=61");
    assert_eq!((bad.status, bad.field()), (400, "step".to_owned()));
    let late = format!("/admin/v1/telemetry/report?from={}", NOON.0 + 120);
    assert_eq!(operator(&server, "GET", &late).status, 400);
    let agent = format!("Bearer {}", server.gate.tokens.agent.reveal());
    let target = "/admin/v1/telemetry/events";
    let refused = ask(
        server.ops,
        request("GET", target, &[("Authorization", &agent)], ""),
    );
    assert_eq!(refused.status, 403);
}

#[test]
fn operators_verify_and_repair_the_store() {
    let server = start();
    post(&server, &[], json!([event(1)]).to_string());
    for verb in ["verify", "rebuild"] {
        let answer = operator(&server, "POST", &format!("/admin/v1/store/{verb}"));
        let body = answer.json();
        assert_eq!(
            (answer.status, &body["sound"]),
            (200, &json!(true)),
            "{body}"
        );
        let tables = body["tables"].as_array().unwrap();
        let hours = tables
            .iter()
            .find(|table| table["table"] == "telemetry_hours");
        let expected = json!({
            "table": "telemetry_hours",
            "records": 1,
            "damaged": 0,
            "missing": 0,
            "stale": 0,
        });
        assert_eq!(hours, Some(&expected));
    }
}
