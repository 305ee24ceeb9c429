//! Sends mutated requests of every route of both listeners: the server answers in well-formed HTTP or closes the
//! connection, does not fail or panic, and its store stays sound.
//!
//! Requests come in batches of a hundred with their own users and objects. A batch depends on the seed, its
//! number, and tokens of the batches before it on the same server. A failing batch is therefore repeated alone,
//! or together with those before it:
//!
//! ```console
//! $ PLAYGATE_MUTATIONS=10000000 cargo test --test it mutations -- --nocapture
//! $ PLAYGATE_MUTATION_SEED=7 PLAYGATE_MUTATION_BATCH=42 cargo test --test it mutations -- --nocapture
//! ```

mod fixtures;
mod mutators;
mod oracle;
#[allow(dead_code, reason = "the crash tests use the rest")]
#[path = "../../crash/harness/rng.rs"]
mod rng;
mod seed_requests;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use playgate_http::RouteSet;
use serde_json::Value;

use crate::mutations::fixtures::{BatchData, ServerFixture};
use crate::mutations::oracle::{check_response, read};
use crate::mutations::seed_requests::{Request, routes};
use rng::Rng;

use crate::support::gate_only::GateOnly;
use crate::support::openapi_conformance::compare;
use crate::support::raw_http::{Answer, request};

/// The number of requests in a normal test run.
const SHORT: u64 = 40_000;
/// The seed of a normal test run. It is fixed, so that a failure is due to the change.
const SEED: u64 = 1;
const BATCH: u64 = 100;
const BATCHES_PER_SERVER: u64 = 24;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Routes that cannot succeed here, because the process would have to restart.
const WITHOUT_SUCCESS: [&str; 4] = [
    // There is no fleet.
    "admin_hand_over",
    "admin_restore_backup",
    "admin_restore_sent_backup",
    // The front page answers only browsers.
    "front_page",
];

/// Steps of a viewer after the login. `BatchData::create` does the sign-up and the preflight.
const VIEWER_STEPS: [&str; 12] = [
    "login",
    "read_user",
    "live",
    "day",
    "entitlement",
    "origin",
    "license_clearkey",
    "license_widevine",
    "heartbeat",
    "telemetry",
    "end_playback",
    "logout",
];

/// A request as it is sent, perhaps corrupted.
struct Sent {
    number: u64,
    label: &'static str,
    table: RouteSet,
    method: String,
    bytes: Vec<u8>,
    /// Whether it is a well-formed request, so that its end is known.
    whole: bool,
    /// Whether another request may follow on the connection: it is well-formed and does not send `Connection: close`.
    /// After that header the server reads nothing, and unread bytes reset the connection.
    more: bool,
}

#[derive(Default)]
struct Tally {
    sent: u64,
    closed: u64,
    statuses: BTreeMap<u16, u64>,
    routes: BTreeMap<&'static str, [u64; 6]>,
}

impl Tally {
    fn count(&mut self, label: &'static str, answer: &Answer) {
        *self.statuses.entry(answer.status).or_default() += 1;
        let hundreds = self.routes.entry(label).or_default();
        hundreds[usize::from(answer.status / 100)] += 1;
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.closed += other.closed;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (label, hundreds) in other.routes {
            let known = self.routes.entry(label).or_default();
            for (known, more) in known.iter_mut().zip(hundreds) {
                *known += more;
            }
        }
    }
}

/// A response or an effect that is not allowed.
struct Failure {
    why: String,
    /// What was sent on the connection.
    bytes: Vec<Vec<u8>>,
    number: u64,
}

/// The server that requests are sent to.
struct Target<'a> {
    public: SocketAddr,
    ops: SocketAddr,
    panics: &'a dyn Fn() -> u64,
}

impl Target<'_> {
    fn address(&self, table: RouteSet) -> SocketAddr {
        match table {
            RouteSet::Public => self.public,
            RouteSet::Ops => self.ops,
        }
    }

    /// Sends all requests, several on each connection, and checks every response.
    fn fire(&self, mut sent: &[Sent], rng: &mut Rng, tally: &mut Tally) -> Result<(), Failure> {
        tally.sent += sent.len() as u64;
        while let Some(first) = sent.first() {
            // Up to a request whose end is unknown.
            let most = 1 + rng.index(6);
            let alike = |next: &&Sent| next.table == first.table;
            let mut length = sent.iter().take(most).take_while(alike).count();
            if let Some(last) = sent[..length].iter().position(|one| !one.more) {
                length = last + 1;
            }
            let group = &sent[..length];
            let done = self.exchange(group, tally).map_err(|(at, why)| Failure {
                why,
                bytes: group.iter().map(|one| one.bytes.clone()).collect(),
                number: group[at].number,
            })?;
            sent = &sent[done..];
        }
        Ok(())
    }

    /// Returns how many requests of the group were answered. After a response that ends the connection the others get
    /// none.
    fn exchange(&self, group: &[Sent], tally: &mut Tally) -> Result<usize, (usize, String)> {
        let panics = (self.panics)();
        let bytes = group
            .iter()
            .map(|one| one.bytes.as_slice())
            .collect::<Vec<_>>()
            .concat();
        let (received, reset) =
            exchange_bytes(self.address(group[0].table), &bytes).map_err(|why| (0, why))?;
        let methods: Vec<&str> = group.iter().map(|one| one.method.as_str()).collect();
        let answers = read(received, &methods).map_err(|why| (0, why));
        if (self.panics)() != panics {
            return Err((0, "a panic".to_owned()));
        }
        // After a request that ends the connection the server reads nothing more. Unread bytes then reset the
        // connection, and a response in transit is lost. Sent alone, each request must be answered.
        if reset && answers.is_err() && group.len() > 1 {
            for (nth, one) in group.iter().enumerate() {
                let alone = self.exchange(std::slice::from_ref(one), tally);
                alone.map_err(|(_, why)| (nth, why))?;
            }
            return Ok(group.len());
        }
        if reset && answers.is_err() && !group[0].whole {
            tally.closed += 1;
            return Ok(1);
        }
        let answers = answers?;
        for (nth, answer) in answers.iter().enumerate() {
            let at = nth.min(group.len() - 1);
            check_response(answer).map_err(|why| (at, why))?;
            let one = &group[at];
            tally.count(one.label, answer);
            if one.whole {
                check_described(&one.bytes, answer).map_err(|why| (at, why))?;
            }
        }
        match answers.len() {
            0 if group[0].whole => Err((0, "closed without an answer".to_owned())),
            0 => {
                tally.closed += 1;
                Ok(1)
            }
            // The last request may have had no response, or several.
            many if !group[group.len() - 1].whole && many + 1 >= group.len() => Ok(group.len()),
            many => Ok(many.min(group.len())),
        }
    }
}

/// Sends the bytes and closes the sending side. Returns what the server sent, and whether it reset the
/// connection.
fn exchange_bytes(address: SocketAddr, bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut stream =
        TcpStream::connect(address).map_err(|error| format!("no connection: {error}"))?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    // The server may have closed the connection already: only its response counts.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => Ok((received, false)),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok((received, true)),
        Err(error) => Err(format!("neither an answer nor an end: {error}")),
    }
}

/// Checks that the response to a well-formed request is described. An invalid head is rejected before the route is
/// known, so those errors are in no route's description.
fn check_described(bytes: &[u8], answer: &Answer) -> Result<(), String> {
    const OF_THE_HEAD: [&str; 4] = [
        "INVALID_REQUEST",
        "EXPECTATION_FAILED",
        "HEADERS_TOO_LARGE",
        "URI_TOO_LONG",
    ];
    let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let code = body["error"]["code"].as_str();
    let packed = answer.header("content-encoding").is_some();
    if packed || code.is_some_and(|code| OF_THE_HEAD.contains(&code)) {
        return Ok(());
    }
    let compared = catch_unwind(AssertUnwindSafe(|| compare(bytes, answer)));
    compared.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => format!("not as described: {text}"),
        Err(_) => "not as described".to_owned(),
    })
}

/// Makes the requests of a batch.
fn requests_of_batch(batch: u64, data: &BatchData, rng: &Rng) -> Vec<Sent> {
    let routes = routes();
    let of = |number: u64| {
        let mut rng = rng.split(number);
        let route = routes[rng.index(routes.len())];
        let mut request = Request::seed(route, data, &mut rng);
        // One in eight is sent unchanged; most of the others are still well-formed.
        let kind = rng.below(8);
        if kind > 0 {
            for _ in 0..=rng.below(3) {
                mutators::mutate(&mut request, data, &mut rng);
            }
        }
        let ends =
            (request.headers.iter()).any(|(name, value)| name == "Connection" && value == b"close");
        let mut bytes = request.bytes();
        let whole = kind < 6 || request.method == "HEAD";
        if !whole {
            for _ in 0..=rng.below(4) {
                mutators::corrupt(&mut bytes, &mut rng);
            }
        }
        Sent {
            number: batch * BATCH + number,
            label: request.label,
            table: request.table,
            method: request.method,
            bytes,
            whole,
            more: whole && !ends,
        }
    };
    (0..BATCH).map(of).collect()
}

/// Sends a batch to a server, without its first `skip` requests.
fn run_batch(
    fixture: &ServerFixture,
    seed: u64,
    batch: u64,
    skip: usize,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let rng = Rng::fixed().split(seed).split(batch);
    let called = catch_unwind(AssertUnwindSafe(|| BatchData::create(fixture, batch)));
    let data = called.map_err(|_| Failure {
        why: "the data of the batch cannot be created; an earlier batch caused this".to_owned(),
        bytes: Vec::new(),
        number: batch * BATCH,
    })?;
    let server = &fixture.server;
    let panics = &server.http.metrics.panics;
    let target = Target {
        public: server.public,
        ops: server.ops,
        panics: &|| panics.get(),
    };
    let sent = requests_of_batch(batch, &data, &rng);
    target.fire(&sent[skip..], &mut rng.split(u64::MAX), tally)
}

/// Sends batches to one server. Stopping it compares indexes and records.
fn run_server(seed: u64, batches: impl Iterator<Item = u64>) -> Result<Tally, (u64, Failure)> {
    let fixture = ServerFixture::open();
    let mut tally = Tally::default();
    let mut last = 0;
    for number in batches {
        run_batch(&fixture, seed, number, 0, &mut tally).map_err(|failure| (number, failure))?;
        last = number;
    }
    let whole = catch_unwind(AssertUnwindSafe(|| {
        let data = BatchData::create(&fixture, last + 1);
        for label in VIEWER_STEPS {
            let (status, text) = send_seed(&fixture, label, &data);
            assert!((200..300).contains(&status), "{text}");
        }
        drop(fixture);
    }));
    whole.map(|()| tally).map_err(|_| {
        let why = "a viewer is not served afterwards, or the store is damaged".to_owned();
        (
            last,
            Failure {
                why,
                bytes: Vec::new(),
                number: last * BATCH,
            },
        )
    })
}

/// Returns the first batch on the server of this batch.
const fn first_batch_of_server(batch: u64) -> u64 {
    batch / BATCHES_PER_SERVER * BATCHES_PER_SERVER
}

/// Repeats a failure with more and more of the requests before it, and describes the shortest way to repeat it.
fn describe_failure(seed: u64, number: u64, failure: &Failure) -> String {
    let index = usize::try_from(failure.number - number * BATCH).unwrap();
    let mut least = format!(
        "the batches {}..={number}, in order",
        first_batch_of_server(number)
    );
    for before in [0, 1, 4, 16, 100] {
        let skip = index.saturating_sub(before);
        let fixture = ServerFixture::open();
        let again = run_batch(&fixture, seed, number, skip, &mut Tally::default());
        // Not dropped, because the check of the store in the drop may fail too.
        std::mem::forget(fixture);
        if again.is_err() {
            least = format!("batch {number} from its request {skip} on");
            break;
        }
    }
    let shown: Vec<_> = failure
        .bytes
        .iter()
        .map(|bytes| format!("  b\"{}\"", bytes.escape_ascii()))
        .collect();
    format!(
        "{}\nrequest {}; repeated by {least}: PLAYGATE_MUTATION_SEED={seed} PLAYGATE_MUTATION_BATCH={number}\n\
         on one connection:\n{}",
        failure.why,
        failure.number,
        shown.join("\n")
    )
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} is not a number: {text:?}")))
}

#[test]
fn mutated_requests_get_valid_responses_and_harm_nothing() {
    let long = number("PLAYGATE_MUTATIONS");
    let seed = number("PLAYGATE_MUTATION_SEED").unwrap_or_else(|| match long {
        Some(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
        None => SEED,
    });
    let began = Instant::now();
    println!("PLAYGATE_MUTATION_SEED={seed}");
    if let Some(only) = number("PLAYGATE_MUTATION_BATCH") {
        // First alone, then after the previous batches of its server.
        for first in [only, first_batch_of_server(only)] {
            if let Err((number, failure)) = run_server(seed, first..=only) {
                panic!("{}", describe_failure(seed, number, &failure));
            }
        }
        return;
    }
    let batches = long.unwrap_or(SHORT).div_ceil(BATCH);
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    let failed = Mutex::new(None);
    let work = || {
        loop {
            let first = next.fetch_add(BATCHES_PER_SERVER, Ordering::SeqCst);
            if first >= batches || failed.lock().unwrap().is_some() {
                return;
            }
            match run_server(seed, first..(first + BATCHES_PER_SERVER).min(batches)) {
                Ok(tally) => total.lock().unwrap().add(tally),
                Err(failure) => drop(failed.lock().unwrap().get_or_insert(failure)),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    if let Some((number, failure)) = failed.into_inner().unwrap() {
        panic!("{}", describe_failure(seed, number, &failure));
    }
    let tally = total.into_inner().unwrap();
    report(&tally, began.elapsed());
    if batches >= SHORT.div_ceil(BATCH) {
        check_coverage(&tally);
    }
}

fn report(tally: &Tally, took: Duration) {
    println!(
        "{} requests in {took:?}; {} ended without an answer",
        tally.sent, tally.closed
    );
    let statuses: Vec<_> = tally
        .statuses
        .iter()
        .map(|(status, count)| format!("{status}: {count}"))
        .collect();
    println!("{}", statuses.join(", "));
    for (label, [_, _, good, moved, refused, failed]) in &tally.routes {
        println!("{label:28} 2xx {good:6} 3xx {moved:6} 4xx {refused:6} 5xx {failed:6}");
    }
}

/// Checks that every route succeeded at least once and refused at least once.
fn check_coverage(tally: &Tally) {
    for (_, route, _) in routes() {
        let label = route.label;
        let [_, _, good, moved, refused, _] = tally.routes.get(label).copied().unwrap_or_default();
        assert!(
            good + moved > 0 || WITHOUT_SUCCESS.contains(&label),
            "{label} never succeeded"
        );
        assert!(refused > 0, "{label} never refused anything");
    }
}

/// Sends the unchanged request of a route. Returns the status, and request and response as text.
fn send_seed(fixture: &ServerFixture, label: &str, data: &BatchData) -> (u16, String) {
    let routes = routes();
    let route = routes.iter().find(|(_, route, _)| route.label == label);
    let request = Request::seed(*route.unwrap(), data, &mut Rng::fixed());
    let address = match request.table {
        RouteSet::Public => fixture.server.public,
        RouteSet::Ops => fixture.server.ops,
    };
    let bytes = request.bytes();
    let answers = read(
        exchange_bytes(address, &bytes).unwrap().0,
        &[&request.method],
    )
    .unwrap();
    let body = String::from_utf8_lossy(&answers[0].body);
    let text = format!(
        "{label}: {} {body}\n  {}",
        answers[0].status,
        bytes.escape_ascii()
    );
    (answers[0].status, text)
}

#[test]
fn every_route_has_a_request_that_succeeds() {
    let fixture = ServerFixture::open();
    let mut wrong = Vec::new();
    for (nth, (_, route, _)) in routes().into_iter().enumerate() {
        let data = BatchData::create(&fixture, nth as u64);
        let (status, text) = send_seed(&fixture, route.label, &data);
        if (200..400).contains(&status) == WITHOUT_SUCCESS.contains(&route.label) {
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_panic_is_detected() {
    let server = GateOnly::start();
    let counted = || server.http.metrics.panics.get();
    let fire = |token: &str, panics: &dyn Fn() -> u64| {
        let target = Target {
            public: server.public,
            ops: server.ops,
            panics,
        };
        let sent = |number, path: &str| Sent {
            number,
            label: "assets",
            table: RouteSet::Public,
            method: "GET".to_owned(),
            bytes: request("GET", path, &[("Service-AccessToken", token)], "").into_bytes(),
            whole: true,
            more: true,
        };
        let both = [sent(0, "/openapi.json"), sent(1, "/api/catalog/v1/assets")];
        target.fire(&both, &mut Rng::fixed(), &mut Tally::default())
    };
    let tokens = &server.gate.tokens;
    assert!(fire(tokens.partner.reveal(), &counted).is_ok());
    let found = fire(tokens.panicking.reveal(), &counted).unwrap_err();
    assert_eq!(found.why, "a panic");
    // Control: even if the panic were not counted, its 500 is a failure.
    let found = fire(tokens.panicking.reveal(), &|| 0).unwrap_err();
    assert!(found.why.starts_with("a failure: 500"), "{}", found.why);
    assert_eq!(found.number, 1);
}

#[test]
fn invalid_responses_are_detected() {
    let answer = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let error = |code: &str| {
        format!("{{\"error\":{{\"message\":\"m\",\"user_message\":\"u\",\"code\":\"{code}\"}}}}")
    };
    let checked = |text: String| {
        read(text.into_bytes(), &["GET"]).and_then(|answers| check_response(&answers[0]))
    };
    assert_eq!(checked(answer("404", &error("PATH_NOT_FOUND"))), Ok(()));
    assert_eq!(checked(answer("552", &error("NO_LIVE_RIGHTS"))), Ok(()));
    for (status, body) in [
        ("500", error("INTERNAL")),
        ("503", error("OVERLOADED")),
        ("400", error("PATH_NOT_FOUND")),
        ("404", error("NONSENSE")),
        (
            "404",
            "{\"error\":{\"code\":\"PATH_NOT_FOUND\"}}".to_owned(),
        ),
        ("404", "no JSON".to_owned()),
        ("404", String::new()),
        ("199", String::new()),
    ] {
        assert!(checked(answer(status, &body)).is_err(), "{status} {body}");
    }
    for text in [
        "nonsense",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab\r\n",
    ] {
        assert!(read(text.into(), &["GET"]).is_err(), "{text}");
    }
}
