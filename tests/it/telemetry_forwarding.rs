//! Forwards telemetry to a sink: the exported bytes arrive in order, whatever the sink answers and whenever the process
//! is killed.
//!
//! `PLAYGATE_KILL_ROUNDS` makes the kill test longer.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::event_sink::{ReceivedRequest, Sink, SinkAction};
use crate::support::process::InTime as _;
use crate::support::server::{PASSWORD, TestServer, Viewer};
use crate::support::until::until_some;

const TRACKER: &str = "/api/tracker/v1/telemetry-events";
const SECRET: &str = "Bearer canary-of-the-sink";

/// Starts a server that forwards to the sink.
fn server(sink: &Sink, batch: &str) -> TestServer {
    TestServer::with(&[
        ("telemetry.forward.url", &sink.url),
        ("telemetry.forward.authorization", SECRET),
        ("telemetry.forward.batch", batch),
    ])
}

fn batch(numbers: std::ops::Range<u64>) -> Value {
    let event = |number| {
        json!({
            "timestamp": 1_767_268_800, "action": "start", "seqId": number,
            "context": {"device_id": "tv", "text": "Łódź \"quoted\"\\"},
        })
    };
    numbers.map(event).collect()
}

fn send(server: &TestServer, viewer: &Viewer, numbers: std::ops::Range<u64>) {
    let answer = server.user(&viewer.token, "POST", TRACKER, &batch(numbers));
    assert_eq!(answer.status, 202, "{}", answer.json());
}

fn exported(server: &TestServer) -> String {
    let answer = server.operator("GET", "telemetry/events", &Value::Null);
    String::from_utf8(answer.body).unwrap()
}

/// Runs the task that is due every second.
fn run(server: &TestServer) -> usize {
    let forwarder = server.services.forwarder.as_ref().unwrap();
    forwarder.run(server.services.clock.now()).unwrap()
}

/// Returns the bodies that the sink accepted.
fn bodies(requests: &[ReceivedRequest]) -> String {
    let taken = requests.iter().filter(|request| request.taken);
    taken.map(ReceivedRequest::text).collect()
}

#[test]
fn events_arrive_in_batches_and_in_order() {
    let sink = Sink::start();
    let server = server(&sink, "100");
    let [ann, bob] = ["ann@example.com", "bob@example.com"].map(|email| server.sign_up(email));
    send(&server, &ann, 0..130);
    send(&server, &bob, 0..120);
    assert_eq!(run(&server), 200);
    let mut received = sink.received();
    server.wait(5);
    assert_eq!(run(&server), 50);
    received.extend(sink.received());
    let sizes: Vec<usize> = received.iter().map(ReceivedRequest::lines).collect();
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(bodies(&received), exported(&server));
    for request in &received {
        assert_eq!(request.head[0], "POST /in?table=events HTTP/1.1");
        assert_eq!(request.header("content-type"), "application/x-ndjson");
        assert_eq!(request.header("authorization"), SECRET);
        let agent = request.header("user-agent");
        assert!(agent.starts_with("playgate/"), "{agent}");
    }
    let keys: BTreeSet<&str> = received
        .iter()
        .map(|a| a.header("idempotency-key"))
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(
        keys.iter()
            .all(|key| key.len() == 66 && key.starts_with('"'))
    );
    server.wait(60);
    assert_eq!((run(&server), sink.received().len()), (0, 0));
}

#[test]
fn a_failed_batch_is_repeated_unchanged() {
    let sink = Sink::start();
    let server = server(&sink, "100");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..7);
    server.wait(5);
    let wrongs = [
        "",
        "not http\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nwhat br",
        "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 429 Slow Down\r\nRetry-After: 900\r\nContent-Length: 0\r\n\r\n",
    ];
    for wrong in wrongs {
        sink.enqueue(SinkAction::Respond(wrong));
        assert_eq!(run(&server), 0, "{wrong}");
        assert_eq!(sink.received().len(), 1, "{wrong}");
        let forwarder = server.services.forwarder.as_ref().unwrap();
        let warning = forwarder.warning(server.services.clock.now());
        assert!(warning.is_some(), "{wrong}");
        // It is not sent again immediately, not to another path, and no other batch overtakes it.
        send(&server, &ann, 7..8);
        assert_eq!((run(&server), sink.received().len()), (0, 0), "{wrong}");
        // Longer than the maximal back-off.
        server.wait(400);
        if wrong.contains("Retry-After") {
            assert_eq!((run(&server), sink.received().len()), (0, 0));
            server.wait(500);
        }
        sink.enqueue(SinkAction::Respond(wrong));
        run(&server);
        let again = sink.received();
        assert_eq!(again.len(), 1, "{wrong}");
        assert_eq!(again[0].lines(), 7, "{wrong}");
        server.wait(1_000);
    }
    assert_eq!(run(&server), 8);
    let received = sink.received();
    assert_eq!(bodies(&received), exported(&server));
    let text = server.services.metrics.render();
    for line in [
        "playgate_telemetry_forwarded_total{outcome=\"sent\"} 8",
        "playgate_telemetry_forward_failures_total 16",
        "playgate_telemetry_forward_lag_seconds 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_too_large_batch_is_split() {
    let sink = Sink::deciding(|body| match body.len() > 4_000 {
        true => SinkAction::Respond("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
        false => SinkAction::Accept,
    });
    let server = server(&sink, "400");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..400);
    server.wait(5);
    assert_eq!(run(&server), 400);
    let received = sink.received();
    assert!(received.iter().any(|request| !request.taken));
    assert_eq!(bodies(&received), exported(&server));
}

#[test]
fn a_rejected_event_is_counted_and_the_others_arrive() {
    let sink = Sink::deciding(|body| {
        let poison = String::from_utf8_lossy(body).contains("\"seqId\":77,");
        match poison {
            true => SinkAction::Respond("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
            false => SinkAction::Accept,
        }
    });
    let server = server(&sink, "100");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..200);
    server.wait(5);
    assert_eq!(run(&server), 199);
    let arrived = bodies(&sink.received());
    let export = exported(&server);
    let others = export
        .lines()
        .filter(|line| !line.contains("\"seqId\":77,"));
    let others: String = others.flat_map(|line| [line, "\n"]).collect();
    assert_eq!(arrived, others);
    let text = server.services.metrics.render();
    let refused = "playgate_telemetry_forwarded_total{outcome=\"refused\"} 1";
    assert!(text.lines().any(|line| line == refused), "{text}");
}

#[test]
fn events_of_erased_users_are_not_forwarded() {
    let sink = Sink::start();
    let server = server(&sink, "100");
    let [ann, bob] = ["ann@example.com", "bob@example.com"].map(|email| server.sign_up(email));
    send(&server, &ann, 0..5);
    send(&server, &bob, 0..5);
    let user_path = format!("/api/user/v1/users/{}", ann.id);
    let erased = server.user(
        &ann.token,
        "DELETE",
        &user_path,
        &json!({"password": PASSWORD}),
    );
    assert_eq!(erased.status, 204);
    // Her events are still stored, because the erasure task has not run.
    let export = exported(&server);
    assert!(export.contains(&ann.id));
    server.wait(5);
    assert_eq!(run(&server), 5);
    server.services.telemetry.run_erasures().unwrap();
    send(&server, &bob, 5..9);
    server.wait(5);
    assert_eq!(run(&server), 4);
    assert_eq!(bodies(&sink.received()), exported(&server));
}

#[test]
fn a_hanging_sink_does_not_delay_shutdown() {
    let sink = Sink::start();
    let server = server(&sink, "1");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..3);
    sink.enqueue(SinkAction::Hang);
    thread::scope(|scope| {
        let running = scope.spawn(|| run(&server));
        sink.next_request();
        server.services.forwarder.as_ref().unwrap().stop();
        assert_eq!(running.join().unwrap(), 0);
    });
    // Nothing more is sent.
    assert_eq!((run(&server), sink.received().len()), (0, 0));
    assert_eq!(
        server
            .services
            .forwarder
            .as_ref()
            .unwrap()
            .counts()
            .failures,
        0
    );
}

fn settings(url: &str) -> [(&str, &str); 5] {
    [
        ("PLAYGATE_TELEMETRY_FORWARD_URL", url),
        ("PLAYGATE_TELEMETRY_FORWARD_AUTHORIZATION", SECRET),
        ("PLAYGATE_TELEMETRY_FORWARD_BATCH", "5"),
        ("PLAYGATE_TELEMETRY_FORWARD_INTERVAL", "1s"),
        ("PLAYGATE_LOG_LEVEL", "trace"),
    ]
}

/// Sends events that the process must acknowledge.
fn report(
    appliance: &Appliance,
    (partner, bearer): &(String, String),
    numbers: std::ops::Range<u64>,
) {
    let headers = [
        ("Service-AccessToken", partner.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let answer = appliance.ask("POST", TRACKER, &headers, &batch(numbers).to_string());
    assert_eq!(answer.status, 202);
}

#[test]
fn sink_failures_are_reported_without_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let sink = Sink::deciding(|_| {
        SinkAction::Respond("HTTP/1.1 500 canary-of-the-answer\r\n\r\nBearer canary-of-the-sink")
    });
    let url = format!("{}&key=canary-of-the-address", sink.url);
    let log = folder.path().join("log");
    let file = fs::File::create(&log).unwrap();
    let mut appliance = Appliance::with_log(&data, &settings(&url), Stdio::from(file));
    let tokens = sign_up(&appliance);
    report(&appliance, &tokens, 0..5);
    sink.next_request();
    let ready = until_some("the failure in /readyz", || {
        let (status, body) = appliance.operator("GET", "/readyz", "");
        assert_eq!(status, 200, "{body}");
        body.contains("forwarding").then_some(body)
    });
    assert!(ready.contains("the sink answered 500"), "{ready}");
    let mut doctor = playgate(&data);
    let found = doctor.arg("doctor").envs(settings(&url)).output_in_time();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(
        found.contains("forwarding: the sink answered 500"),
        "{found}"
    );
    // The sink hangs while the process shuts down.
    sink.enqueue(SinkAction::Hang);
    sink.next_request();
    appliance.end();
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("failed to forward telemetry"), "{log}");
    assert!(!log.contains("did not finish in time"), "{log}");
    for text in [&log, &ready, &found] {
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn forwarding_survives_kills_without_repeating_confirmed_batches() {
    let rounds = std::env::var_os("PLAYGATE_KILL_ROUNDS");
    let rounds = rounds.map_or(4, |n| n.to_str().unwrap().parse::<u64>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let sink = Sink::start();
    let mut settings = settings(&sink.url);
    settings[4].1 = "error";
    let mut appliance = Appliance::with(&data, &settings);
    let tokens = sign_up(&appliance);
    let mut answered = Vec::new();
    let mut sent = 0;
    for round in 0..rounds {
        // The last three wait for a full batch.
        report(&appliance, &tokens, sent..sent + 23);
        sent += 23;
        // The sink accepts `before` batches. The process is killed during the next one.
        let before = round % 5;
        (0..before).for_each(|_| sink.enqueue(SinkAction::Accept));
        sink.enqueue(SinkAction::Hang);
        let cut = loop {
            let request = sink.next_request();
            match request.taken {
                true => answered.push(request),
                false => break request,
            }
        };
        appliance.kill();
        appliance = Appliance::with(&data, &settings);
        // More events have arrived by the time that the batch is sent again.
        report(&appliance, &tokens, sent..sent + 2);
        sent += 2;
        let again = sink.next_request();
        assert_eq!(again.text(), cut.text(), "round {round}");
        let key = "idempotency-key";
        assert_eq!(again.header(key), cut.header(key), "round {round}");
        answered.push(again);
    }
    let lines =
        |requests: &[ReceivedRequest]| requests.iter().map(ReceivedRequest::lines).sum::<usize>();
    while (lines(&answered) as u64) < sent {
        answered.push(sink.next_request());
    }
    // Each batch once and in order, because the position is stored before the next batch is sent.
    let export = appliance.command(&["telemetry", "export"]).output_in_time();
    let arrived = bodies(&answered);
    assert_eq!(arrived, String::from_utf8(export.stdout).unwrap());

    // After kills at arbitrary times every event arrives at least once.
    for round in 0..rounds {
        report(&appliance, &tokens, sent..sent + 100);
        sent += 100;
        thread::park_timeout(Duration::from_millis(round * 379 % 1_500));
        appliance.kill();
        appliance = Appliance::with(&data, &settings);
    }
    let export = appliance.command(&["telemetry", "export"]).output_in_time();
    let export = String::from_utf8(export.stdout).unwrap();
    let export: BTreeSet<&str> = export.lines().collect();
    assert_eq!(export.len() as u64, sent);
    let mut arrived: BTreeSet<String> = arrived.lines().map(str::to_owned).collect();
    while arrived.len() < export.len() {
        arrived.extend(sink.next_request().text().lines().map(str::to_owned));
    }
    assert!(arrived.iter().all(|line| export.contains(line.as_str())));
    appliance.kill();
}
