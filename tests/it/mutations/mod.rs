//! Mutated requests of every route of both listeners, by the hundred thousand: the server answers in
//! well-formed HTTP or closes the connection, does not fail or panic, and its store stays sound.
//!
//! Requests come in batches ("acts") of a hundred with their own fixtures. An act depends on the seed,
//! its number, and tokens of the acts before it on the same server. A failing act is therefore repeated
//! by itself, or with those before it:
//!
//! ```console
//! $ PLAYGATE_MUTATIONS=10000000 cargo test --test it mutations -- --nocapture
//! $ PLAYGATE_MUTATION_SEED=7 PLAYGATE_MUTATION_ACT=42 cargo test --test it mutations -- --nocapture
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

use playgate::http::routing::router::RouteSet;
use serde_json::Value;

use crate::mutations::fixtures::{Cast, Ground};
use crate::mutations::oracle::{judge, read};
use crate::mutations::seed_requests::{Request, routes};
use rng::Rng;

use crate::support::gate_only::GateOnly;
use crate::support::openapi_conformance::compare;
use crate::support::raw_http::{Answer, request};

/// Requests for every change.
const SHORT: u64 = 100_000;
/// Their seed: they fail for the change and not by chance.
const SEED: u64 = 1;
/// Requests of one act.
const ACT: u64 = 100;
/// Acts that one server sees.
const ACTS_OF_A_HOUSE: u64 = 24;
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(30);
/// The routes that cannot succeed here: the process would have to begin again.
const WITHOUT_SUCCESS: [&str; 3] = [
    "admin_restore_backup",
    "admin_restore_sent_backup",
    // Only for browsers.
    "front_page",
];

/// What a viewer does from the login on; signing up and preflight are done where a cast is called.
const MAIN_JOB: [&str; 12] = [
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

/// What is sent.
struct Sent {
    number: u64,
    label: &'static str,
    table: RouteSet,
    method: String,
    bytes: Vec<u8>,
    /// Whether it is a request still, of which it is known where it ends.
    whole: bool,
    /// Whether anything may follow: it neither is spoilt nor asks for the connection's end. A server
    /// that has been told of the end reads no further, and what lies unread resets the connection.
    more: bool,
}

/// What came of the requests: by route, the answers by the hundred of their status.
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

/// Something that must not be.
struct Failure {
    why: String,
    /// What was sent on the connection.
    bytes: Vec<Vec<u8>>,
    number: u64,
}

/// A server under fire.
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

    /// Sends all on connections of several requests each, and looks at every answer.
    fn fire(&self, mut sent: &[Sent], rng: &mut Rng, tally: &mut Tally) -> Result<(), Failure> {
        tally.sent += sent.len() as u64;
        while let Some(first) = sent.first() {
            // Several at once on one connection, up to one that nobody knows the end of.
            let most = 1 + rng.index(6);
            let alike = |next: &&Sent| next.table == first.table;
            let mut length = sent.iter().take(most).take_while(alike).count();
            if let Some(last) = sent[..length].iter().position(|one| !one.more) {
                length = last + 1;
            }
            let batch = &sent[..length];
            let done = self.exchange(batch, tally).map_err(|(at, why)| Failure {
                why,
                bytes: batch.iter().map(|one| one.bytes.clone()).collect(),
                number: batch[at].number,
            })?;
            sent = &sent[done..];
        }
        Ok(())
    }

    /// How many of the batch are done with: an answer that ends the connection leaves the others.
    fn exchange(&self, batch: &[Sent], tally: &mut Tally) -> Result<usize, (usize, String)> {
        let panics = (self.panics)();
        let bytes = batch
            .iter()
            .map(|one| one.bytes.as_slice())
            .collect::<Vec<_>>()
            .concat();
        let (heard, reset) =
            converse(self.address(batch[0].table), &bytes).map_err(|why| (0, why))?;
        let methods: Vec<&str> = batch.iter().map(|one| one.method.as_str()).collect();
        let answers = read(heard, &methods).map_err(|why| (0, why));
        if (self.panics)() != panics {
            return Err((0, "a panic".to_owned()));
        }
        // Behind what ends a connection the server reads no further; what lies unread then resets it, and
        // an answer that is still on its way is lost with it. By themselves all have to be answered.
        if reset && answers.is_err() && batch.len() > 1 {
            for (nth, one) in batch.iter().enumerate() {
                let alone = self.exchange(std::slice::from_ref(one), tally);
                alone.map_err(|(_, why)| (nth, why))?;
            }
            return Ok(batch.len());
        }
        if reset && answers.is_err() && !batch[0].whole {
            tally.closed += 1;
            return Ok(1);
        }
        let answers = answers?;
        for (nth, answer) in answers.iter().enumerate() {
            let at = nth.min(batch.len() - 1);
            judge(answer).map_err(|why| (at, why))?;
            let one = &batch[at];
            tally.count(one.label, answer);
            if one.whole {
                described(&one.bytes, answer).map_err(|why| (at, why))?;
            }
        }
        match answers.len() {
            0 if batch[0].whole => Err((0, "closed without an answer".to_owned())),
            0 => {
                tally.closed += 1;
                Ok(1)
            }
            // The last of them may have had no answer, or several.
            many if !batch[batch.len() - 1].whole && many + 1 >= batch.len() => Ok(batch.len()),
            many => Ok(many.min(batch.len())),
        }
    }
}

/// Sends the bytes and no more; what comes until the server closes, and whether it did so by a reset.
fn converse(address: SocketAddr, bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut stream =
        TcpStream::connect(address).map_err(|error| format!("no connection: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    // It may have closed already; what it answered is what counts.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Ok(_) => Ok((heard, false)),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok((heard, true)),
        Err(error) => Err(format!("neither an answer nor an end: {error}")),
    }
}

/// Whether the answer to a whole request is one that the description knows. What is wrong with a head
/// is refused before it is known which route it is for.
fn described(bytes: &[u8], answer: &Answer) -> Result<(), String> {
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

/// The requests of an act.
fn play(act: u64, cast: &Cast, rng: &Rng) -> Vec<Sent> {
    let routes = routes();
    let of = |number: u64| {
        let mut rng = rng.split(number);
        let route = routes[rng.index(routes.len())];
        let mut request = Request::seed(route, cast, &mut rng);
        // One in eight goes as it is; of the others most are still requests.
        let kind = rng.below(8);
        if kind > 0 {
            for _ in 0..=rng.below(3) {
                mutators::reshape(&mut request, cast, &mut rng);
            }
        }
        let ends =
            (request.headers.iter()).any(|(name, value)| name == "Connection" && value == b"close");
        let mut bytes = request.bytes();
        let whole = kind < 6 || request.method == "HEAD";
        if !whole {
            for _ in 0..=rng.below(4) {
                mutators::spoil(&mut bytes, &mut rng);
            }
        }
        Sent {
            number: act * ACT + number,
            label: request.label,
            table: request.table,
            method: request.method,
            bytes,
            whole,
            more: whole && !ends,
        }
    };
    (0..ACT).map(of).collect()
}

/// Plays one act on a server, its first requests left out.
fn act(
    ground: &Ground,
    seed: u64,
    act: u64,
    skip: usize,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let rng = Rng::of_nothing().split(seed).split(act);
    let called = catch_unwind(AssertUnwindSafe(|| Cast::call(ground, act)));
    let cast = called.map_err(|_| Failure {
        why: "a main job fails before the act; what led to it lies in the acts before".to_owned(),
        bytes: Vec::new(),
        number: act * ACT,
    })?;
    let server = &ground.house;
    let panics = &server.http.metrics.panics;
    let target = Target {
        public: server.public,
        ops: server.ops,
        panics: &|| panics.get(),
    };
    let sent = play(act, &cast, &rng);
    target.fire(&sent[skip..], &mut rng.split(u64::MAX), tally)
}

/// Plays the acts of a server; its end compares indexes and records.
fn server(seed: u64, acts: impl Iterator<Item = u64>) -> Result<Tally, (u64, Failure)> {
    let ground = Ground::open();
    let mut tally = Tally::default();
    let mut last = 0;
    for number in acts {
        act(&ground, seed, number, 0, &mut tally).map_err(|failure| (number, failure))?;
        last = number;
    }
    let whole = catch_unwind(AssertUnwindSafe(|| {
        let cast = Cast::call(&ground, last + 1);
        for label in MAIN_JOB {
            let (status, told) = ask(&ground, label, &cast);
            assert!((200..300).contains(&status), "{told}");
        }
        drop(ground);
    }));
    whole.map(|()| tally).map_err(|_| {
        let why =
            "the server does not serve a main job afterwards, or its store is not sound".to_owned();
        (
            last,
            Failure {
                why,
                bytes: Vec::new(),
                number: last * ACT,
            },
        )
    })
}

/// The act with which the server of an act begins.
const fn first_of_house(act: u64) -> u64 {
    act / ACTS_OF_A_HOUSE * ACTS_OF_A_HOUSE
}

/// Plays a failure again with ever more of what was before it, and tells the least that repeats it.
fn told(seed: u64, number: u64, failure: &Failure) -> String {
    let place = usize::try_from(failure.number - number * ACT).unwrap();
    let mut least = format!(
        "the acts {}..={number}, one after the other",
        first_of_house(number)
    );
    for before in [0, 1, 4, 16, 100] {
        let skip = place.saturating_sub(before);
        let ground = Ground::open();
        let again = act(&ground, seed, number, skip, &mut Tally::default());
        // What has failed need not be sound at its end.
        std::mem::forget(ground);
        if again.is_err() {
            least = format!("act {number} from its request {skip} on");
            break;
        }
    }
    let shown: Vec<_> = failure
        .bytes
        .iter()
        .map(|bytes| format!("  b\"{}\"", bytes.escape_ascii()))
        .collect();
    format!(
        "{}\nrequest {}; repeated by {least}: PLAYGATE_MUTATION_SEED={seed} PLAYGATE_MUTATION_ACT={number}\n\
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
    if let Some(only) = number("PLAYGATE_MUTATION_ACT") {
        // Alone, or with those before it on its server.
        for first in [only, first_of_house(only)] {
            if let Err((number, failure)) = server(seed, first..=only) {
                panic!("{}", told(seed, number, &failure));
            }
        }
        return;
    }
    let acts = long.unwrap_or(SHORT).div_ceil(ACT);
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    let failed = Mutex::new(None);
    let work = || {
        loop {
            let first = next.fetch_add(ACTS_OF_A_HOUSE, Ordering::SeqCst);
            if first >= acts || failed.lock().unwrap().is_some() {
                return;
            }
            match server(seed, first..(first + ACTS_OF_A_HOUSE).min(acts)) {
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
        panic!("{}", told(seed, number, &failure));
    }
    let tally = total.into_inner().unwrap();
    report(&tally, began.elapsed());
    if acts >= SHORT.div_ceil(ACT) {
        reached(&tally);
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

/// Whether every route was really reached, and really refused something.
fn reached(tally: &Tally) {
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

/// The status of the answer to a route's request as it should be, and what went to and fro.
fn ask(ground: &Ground, label: &str, cast: &Cast) -> (u16, String) {
    let routes = routes();
    let route = routes.iter().find(|(_, route, _)| route.label == label);
    let request = Request::seed(*route.unwrap(), cast, &mut Rng::of_nothing());
    let address = match request.table {
        RouteSet::Public => ground.house.public,
        RouteSet::Ops => ground.house.ops,
    };
    let bytes = request.bytes();
    let answers = read(converse(address, &bytes).unwrap().0, &[&request.method]).unwrap();
    let body = String::from_utf8_lossy(&answers[0].body);
    let told = format!(
        "{label}: {} {body}\n  {}",
        answers[0].status,
        bytes.escape_ascii()
    );
    (answers[0].status, told)
}

#[test]
fn every_route_has_a_request_that_succeeds() {
    let ground = Ground::open();
    let mut wrong = Vec::new();
    for (nth, (_, route, _)) in routes().into_iter().enumerate() {
        let cast = Cast::call(&ground, nth as u64);
        let (status, told) = ask(&ground, route.label, &cast);
        if (200..400).contains(&status) == WITHOUT_SUCCESS.contains(&route.label) {
            wrong.push(told);
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
        target.fire(&both, &mut Rng::of_nothing(), &mut Tally::default())
    };
    let tokens = &server.gate.tokens;
    assert!(fire(tokens.partner.reveal(), &counted).is_ok());
    let found = fire(tokens.panicking.reveal(), &counted).unwrap_err();
    assert_eq!(found.why, "a panic");
    // Were it not counted, its answer would tell.
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
    let judged =
        |text: String| read(text.into_bytes(), &["GET"]).and_then(|answers| judge(&answers[0]));
    assert_eq!(judged(answer("404", &error("PATH_NOT_FOUND"))), Ok(()));
    assert_eq!(judged(answer("552", &error("NO_LIVE_RIGHTS"))), Ok(()));
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
        assert!(judged(answer(status, &body)).is_err(), "{status} {body}");
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
