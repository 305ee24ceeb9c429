//! Telemetry on its way to a sink: what arrives, byte by byte, whatever the sink does and whenever the
//! process is killed.
//!
//! `PLAYGATE_KILL_ROUNDS` makes the last part longer.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::process::InTime as _;
use crate::support::server::{PASSWORD, TestServer, Viewer};

const TRACKER: &str = "/api/tracker/v1/telemetry-events";
const SECRET: &str = "Bearer canary-of-the-sink";

/// What the sink does with a request that it has read.
#[derive(Clone)]
enum Deed {
    /// Takes what is in it.
    Take,
    /// Says this and closes.
    Say(&'static str),
    /// Holds the connection and says nothing.
    Nothing,
}

/// A request as it came.
#[derive(Clone, Debug)]
struct Asked {
    head: Vec<String>,
    body: Vec<u8>,
    taken: bool,
}

impl Asked {
    fn header(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        let found = self.head.iter().find_map(|line| line.strip_prefix(&prefix));
        found.unwrap()
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    fn lines(&self) -> usize {
        self.text().lines().count()
    }
}

type Judge = fn(&[u8]) -> Deed;

/// A sink on a port of its own, which takes what no other deed was ordered for.
struct Sink {
    url: String,
    todo: Arc<Mutex<VecDeque<Deed>>>,
    asked: Receiver<Asked>,
}

impl Sink {
    fn start() -> Self {
        Self::judging(|_| Deed::Take)
    }

    fn judging(judge: Judge) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in?table=events", listener.local_addr().unwrap());
        let todo = Arc::<Mutex<VecDeque<Deed>>>::default();
        let ordered = Arc::clone(&todo);
        let (tell, asked) = channel();
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Of one who was killed nothing may come, or a part.
                let Some((head, body)) = read(&mut stream) else {
                    continue;
                };
                let ordered = ordered.lock().unwrap().pop_front();
                let deed = ordered.unwrap_or_else(|| judge(&body));
                let taken = matches!(deed, Deed::Take);
                let said = match deed {
                    Deed::Take => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                    Deed::Say(words) => words,
                    Deed::Nothing => {
                        held.push(stream.try_clone().unwrap());
                        ""
                    }
                };
                // Told before it is answered: what follows the answer follows this.
                if tell.send(Asked { head, body, taken }).is_err() {
                    return;
                }
                // Whoever was killed does not listen.
                let _ = stream.write_all(said.as_bytes());
            }
        });
        Self { url, todo, asked }
    }

    fn next(&self, deed: Deed) {
        self.todo.lock().unwrap().push_back(deed);
    }

    /// The next request, which is sure to come.
    fn asked(&self) -> Asked {
        self.asked.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// What came since the last look.
    fn came(&self) -> Vec<Asked> {
        self.asked.try_iter().collect()
    }
}

fn read(stream: &mut TcpStream) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head: Vec<String> = String::from_utf8(head)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// A server that forwards to a sink.
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

/// What the task does every second.
fn run(server: &TestServer) -> usize {
    let forwarder = server.services.forwarder.as_ref().unwrap();
    forwarder.run(server.services.clock.now()).unwrap()
}

/// What it took.
fn bodies(requests: &[Asked]) -> String {
    let taken = requests.iter().filter(|asked| asked.taken);
    taken.map(Asked::text).collect()
}

#[test]
fn events_arrive_in_batches_and_in_order() {
    let sink = Sink::start();
    let server = server(&sink, "100");
    let [ann, bob] = ["ann@example.com", "bob@example.com"].map(|email| server.sign_up(email));
    send(&server, &ann, 0..130);
    send(&server, &bob, 0..120);
    assert_eq!(run(&server), 200);
    let mut came = sink.came();
    server.wait(5);
    assert_eq!(run(&server), 50);
    came.extend(sink.came());
    let sizes: Vec<usize> = came.iter().map(Asked::lines).collect();
    assert_eq!(sizes, [100, 100, 50]);
    assert_eq!(bodies(&came), exported(&server));
    for asked in &came {
        assert_eq!(asked.head[0], "POST /in?table=events HTTP/1.1");
        assert_eq!(asked.header("content-type"), "application/x-ndjson");
        assert_eq!(asked.header("authorization"), SECRET);
        let agent = asked.header("user-agent");
        assert!(agent.starts_with("playgate/"), "{agent}");
    }
    let keys: BTreeSet<&str> = came.iter().map(|a| a.header("idempotency-key")).collect();
    assert_eq!(keys.len(), 3);
    assert!(
        keys.iter()
            .all(|key| key.len() == 66 && key.starts_with('"'))
    );
    server.wait(60);
    assert_eq!((run(&server), sink.came().len()), (0, 0));
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
        sink.next(Deed::Say(wrong));
        assert_eq!(run(&server), 0, "{wrong}");
        assert_eq!(sink.came().len(), 1, "{wrong}");
        let forwarder = server.services.forwarder.as_ref().unwrap();
        let warning = forwarder.warning(server.services.clock.now());
        assert!(warning.is_some(), "{wrong}");
        // Not at once, and not beside the path that was configured; and another batch does not overtake.
        send(&server, &ann, 7..8);
        assert_eq!((run(&server), sink.came().len()), (0, 0), "{wrong}");
        // Longer than the longest pause of our own.
        server.wait(400);
        if wrong.contains("Retry-After") {
            assert_eq!((run(&server), sink.came().len()), (0, 0));
            server.wait(500);
        }
        sink.next(Deed::Say(wrong));
        run(&server);
        let again = sink.came();
        assert_eq!(again.len(), 1, "{wrong}");
        assert_eq!(again[0].lines(), 7, "{wrong}");
        server.wait(1_000);
    }
    assert_eq!(run(&server), 8);
    let came = sink.came();
    assert_eq!(bodies(&came), exported(&server));
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
    let sink = Sink::judging(|body| match body.len() > 4_000 {
        true => Deed::Say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
        false => Deed::Take,
    });
    let server = server(&sink, "400");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..400);
    server.wait(5);
    assert_eq!(run(&server), 400);
    let came = sink.came();
    assert!(came.iter().any(|asked| !asked.taken));
    assert_eq!(bodies(&came), exported(&server));
}

#[test]
fn a_rejected_event_is_counted_and_the_others_arrive() {
    let sink = Sink::judging(|body| {
        let poison = String::from_utf8_lossy(body).contains("\"seqId\":77,");
        match poison {
            true => Deed::Say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
            false => Deed::Take,
        }
    });
    let server = server(&sink, "100");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..200);
    server.wait(5);
    assert_eq!(run(&server), 199);
    let arrived = bodies(&sink.came());
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
    let own = format!("/api/user/v1/users/{}", ann.id);
    let erased = server.user(&ann.token, "DELETE", &own, &json!({"password": PASSWORD}));
    assert_eq!(erased.status, 204);
    // Her events are still there: the task that erases them has not run.
    let export = exported(&server);
    assert!(export.contains(&ann.id));
    server.wait(5);
    assert_eq!(run(&server), 5);
    server.services.telemetry.run_erasures().unwrap();
    send(&server, &bob, 5..9);
    server.wait(5);
    assert_eq!(run(&server), 4);
    assert_eq!(bodies(&sink.came()), exported(&server));
}

#[test]
fn a_hanging_sink_does_not_delay_shutdown() {
    let sink = Sink::start();
    let server = server(&sink, "1");
    let ann = server.sign_up("ann@example.com");
    send(&server, &ann, 0..3);
    sink.next(Deed::Nothing);
    thread::scope(|scope| {
        let running = scope.spawn(|| run(&server));
        sink.asked();
        server.services.forwarder.as_ref().unwrap().stop();
        assert_eq!(running.join().unwrap(), 0);
    });
    // And nothing more is begun.
    assert_eq!((run(&server), sink.came().len()), (0, 0));
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

/// Settings of a process that forwards.
fn settings(url: &str) -> [(&str, &str); 5] {
    [
        ("PLAYGATE_TELEMETRY_FORWARD_URL", url),
        ("PLAYGATE_TELEMETRY_FORWARD_AUTHORIZATION", SECRET),
        ("PLAYGATE_TELEMETRY_FORWARD_BATCH", "5"),
        ("PLAYGATE_TELEMETRY_FORWARD_INTERVAL", "1s"),
        ("PLAYGATE_LOG_LEVEL", "trace"),
    ]
}

/// Sends events to a process; tells whether it answered that it has them.
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
    let sink = Sink::judging(|_| {
        Deed::Say("HTTP/1.1 500 canary-of-the-answer\r\n\r\nBearer canary-of-the-sink")
    });
    let url = format!("{}&key=canary-of-the-address", sink.url);
    let log = folder.path().join("log");
    let file = fs::File::create(&log).unwrap();
    let mut appliance = Appliance::with_log(&data, &settings(&url), Stdio::from(file));
    let tokens = sign_up(&appliance);
    report(&appliance, &tokens, 0..5);
    sink.asked();
    let ready = loop {
        let (status, body) = appliance.operator("GET", "/readyz", "");
        assert_eq!(status, 200, "{body}");
        if body.contains("forwarding") {
            break body;
        }
        thread::park_timeout(Duration::from_millis(20));
    };
    assert!(ready.contains("the sink answered 500"), "{ready}");
    let mut doctor = playgate(&data);
    let found = doctor.arg("doctor").envs(settings(&url)).output_in_time();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(
        found.contains("forwarding: the sink answered 500"),
        "{found}"
    );
    // It hangs when the process is asked to end.
    sink.next(Deed::Nothing);
    sink.asked();
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
        // The last of them waits for others.
        report(&appliance, &tokens, sent..sent + 23);
        sent += 23;
        // So many are answered, and at the next one it is killed.
        let before = round % 5;
        (0..before).for_each(|_| sink.next(Deed::Take));
        sink.next(Deed::Nothing);
        let cut = loop {
            let asked = sink.asked();
            match asked.taken {
                true => answered.push(asked),
                false => break asked,
            }
        };
        appliance.kill();
        appliance = Appliance::with(&data, &settings);
        // More has come by the time that it goes out again.
        report(&appliance, &tokens, sent..sent + 2);
        sent += 2;
        let again = sink.asked();
        assert_eq!(again.text(), cut.text(), "round {round}");
        let key = "idempotency-key";
        assert_eq!(again.header(key), cut.header(key), "round {round}");
        answered.push(again);
    }
    let lines = |requests: &[Asked]| requests.iter().map(Asked::lines).sum::<usize>();
    while (lines(&answered) as u64) < sent {
        answered.push(sink.asked());
    }
    // Each once, in order: the position was on the disk before the next batch went out.
    let export = appliance.command(&["telemetry", "export"]).output_in_time();
    let arrived = bodies(&answered);
    assert_eq!(arrived, String::from_utf8(export.stdout).unwrap());

    // Killed at any time, everything arrives once or more.
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
        arrived.extend(sink.asked().text().lines().map(str::to_owned));
    }
    assert!(arrived.iter().all(|line| export.contains(line.as_str())));
    appliance.kill();
}
