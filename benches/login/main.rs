//! Logins compared with the rate at which this core hashes with argon2, and heartbeats while the pool for hashing is
//! full.
//!
//! `cargo bench --bench login`; with `-- timing`: whether the time of a refusal shows that an account exists, over
//! 2,000 pairs of login and of reset (some five minutes).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::disallowed_methods
)]

#[path = "../yardstick/scene.rs"]
mod scene;
mod timing;
#[path = "../yardstick/mod.rs"]
mod yardstick;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use yardstick::client::{self, request, send};
use yardstick::server::{Server, own_cpu};
use yardstick::{Contestant, load, median, sorted};

/// The number of counted rounds, and the length of a turn in each.
const ROUNDS: usize = 8;
const TURN: Duration = Duration::from_secs(3);
const USERS: usize = 64;
/// Concurrent logins: enough that the pool always has work, and few enough that none is refused on a busy machine.
const AT_ONCE: usize = 8;
/// Sessions that send heartbeats during logins, and the pause between two heartbeats of a session.
const SESSIONS: usize = 16;
const PAUSE: Duration = Duration::from_millis(20);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--argon2") {
        let done = hashes(TURN);
        println!("{done} {}", own_cpu().as_nanos());
        return;
    }
    yardstick::pin_or_serve_bare();
    let playgate = Server::demo(&[
        // Only the pool and a wrong password may refuse a request.
        ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000"),
        ("PLAYGATE_LIMITS_LOGIN_WRONG_PER_ACCOUNT", "1000"),
        ("PLAYGATE_LIMITS_LOGIN_WRONG_PER_ADDRESS", "1000000"),
        ("PLAYGATE_LIMITS_RESET_MAILS_PER_ACCOUNT", "1000"),
        ("PLAYGATE_LIMITS_RESET_MAILS_PER_ADDRESS", "1000000"),
        ("PLAYGATE_LIMITS_HEARTBEATS_PER_SECOND", "1000"),
        ("PLAYGATE_LIMITS_HEARTBEAT_BURST", "1000"),
    ]);
    let partner = playgate.greeting_member("partnerToken");
    if std::env::args().any(|argument| argument == "timing") {
        timing::compare(&playgate, &partner);
        return;
    }
    let requests: Vec<_> = (0..USERS).map(|n| login(&playgate, &partner, n)).collect();
    let logins = Contestant::new("login", &playgate, requests);
    rate(&logins);
    heartbeats_during_logins(&logins, &partner);
}

/// Signs a user up. Returns the login request.
fn login(server: &Server, partner: &str, number: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"identity":"login{number}@bench.example","accessKey":"a long enough secret {number}"}}"#
    );
    let headers = [("service-accesstoken", partner)];
    let path = "/api/login/v2/auth/email";
    assert_eq!(
        send(server, &request("PUT", path, &headers, &body)).status,
        200
    );
    request("POST", path, &headers, &body)
}

/// Hashes at the default cost for `time`, sequentially and in the same memory. Returns the number of hashes.
fn hashes(time: Duration) -> u64 {
    let params = Params::new(19 * 1024, 2, 1, Some(32)).expect("the default cost");
    let mut memory = vec![Block::new(); params.block_count()];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < time {
        let mut output = [0; 32];
        argon2
            .hash_password_into_with_memory(
                b"a long enough secret",
                &[7; 16],
                &mut output,
                &mut memory,
            )
            .expect("the default cost");
        std::hint::black_box(output);
        done += 1;
    }
    done
}

/// The speed of an operation, in real time and in processor time.
#[derive(Clone, Copy)]
struct Pace {
    per_second: f64,
    cpu_millis: f64,
}

/// Runs [`hashes`] in another process on the core of the server, at the priority of the server's hashing pool, so that
/// other load on the machine affects both alike.
fn hashes_on_core() -> Pace {
    let program = std::env::current_exe().expect("the path of this program can be read");
    let output = Command::new("taskset")
        .args(["-c", "0", "nice", "-n", "10"])
        .arg(program)
        .arg("--argon2")
        .stderr(Stdio::inherit())
        .output()
        .expect("taskset of util-linux is installed");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers = text.split_whitespace();
    let numbers: Vec<f64> = numbers.map(|n| n.parse().expect("a number")).collect();
    Pace {
        per_second: numbers[0] / TURN.as_secs_f64(),
        cpu_millis: numbers[1] / 1e6 / numbers[0],
    }
}

fn logins_on_core(logins: &Contestant<'_>) -> Pace {
    let (began, before) = (Instant::now(), logins.server.cpu());
    let done = load::run_on(AT_ONCE, logins, TURN) as f64;
    let spent = logins.server.cpu() - before;
    Pace {
        per_second: done / began.elapsed().as_secs_f64(),
        cpu_millis: spent.as_secs_f64() * 1e3 / done,
    }
}

/// Logins and bare hashes take turns on the same core.
fn rate(logins: &Contestant<'_>) {
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let pair = (hashes_on_core(), logins_on_core(logins));
        // The first round warms up.
        if round > 0 {
            rounds.push(pair);
        }
    }
    let of = |read: fn(&(Pace, Pace)) -> f64| sorted(rounds.iter().map(read));
    println!("| | per second on one core | CPU ms each |");
    println!("|---|---|---|");
    println!(
        "| argon2id, 19 MiB, t = 2, memory reused | {:.1} | {:.2} |",
        median(&of(|(hash, _)| hash.per_second)),
        median(&of(|(hash, _)| hash.cpu_millis))
    );
    println!(
        "| logins | {:.1} | {:.2} |",
        median(&of(|(_, login)| login.per_second)),
        median(&of(|(_, login)| login.cpu_millis))
    );
    show(
        "logins / hashes",
        &of(|(hash, login)| login.per_second / hash.per_second),
        ">= 0.95",
    );
    let by_cpu = of(|(hash, login)| hash.cpu_millis / login.cpu_millis);
    show("the same by processor time", &by_cpu, ">= 0.95");
}

fn show(what: &str, ratios: &[f64], goal: &str) {
    println!(
        "{what}: {:.3} [{:.3}..{:.3}], goal {goal}",
        median(ratios),
        ratios[0],
        ratios[ratios.len() - 1]
    );
}

/// Heartbeats at a steady pace, without logins and while more logins wait than the pool can handle.
fn heartbeats_during_logins(logins: &Contestant<'_>, partner: &str) {
    let server = logins.server;
    let greeting: serde_json::Value = serde_json::from_str(&server.greeting).expect("JSON");
    let livestream = greeting["livestreams"]["open"].as_str().expect("one");
    let beats: Vec<Vec<u8>> = (0..SESSIONS)
        .map(|number| scene::viewer(server, partner, livestream, number).beat)
        .collect();
    let beats: Arc<[Vec<u8>]> = beats.into();
    let (mut quiet, mut busy, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let alone = p99(server, &beats);
        let with_logins = thread::scope(|scope| {
            let flood =
                scope.spawn(|| load::run_on(AT_ONCE, logins, TURN + Duration::from_secs(1)));
            // Enough time for the pool to fill up.
            thread::park_timeout(Duration::from_millis(500));
            let with_logins = p99(server, &beats);
            flood.join().expect("the flood ends");
            with_logins
        });
        if round > 0 {
            ratios.push(with_logins / alone);
            quiet.push(alone);
            busy.push(with_logins);
        }
    }
    let ratios = sorted(ratios.into_iter());
    println!("| heartbeats, {SESSIONS} sessions | p99, us |");
    println!("|---|---|");
    println!("| quiet | {:.0} |", median(&sorted(quiet.into_iter())));
    println!(
        "| while users log in | {:.0} |",
        median(&sorted(busy.into_iter()))
    );
    show("busy / quiet", &ratios, "<= 2");
}

/// Returns the 99th percentile of the response times of heartbeats, in microseconds.
fn p99(server: &Server, beats: &Arc<[Vec<u8>]>) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let times = runtime.block_on(async {
        let mut sessions = JoinSet::new();
        for number in 0..SESSIONS {
            let beats = Arc::clone(beats);
            sessions.spawn(session(client::address_of(server), beats, number));
        }
        sessions.join_all().await.concat()
    });
    let times = sorted(times.into_iter());
    times[times.len() * 99 / 100]
}

async fn session(address: String, beats: Arc<[Vec<u8>]>, number: usize) -> Vec<f64> {
    let mut socket = TcpStream::connect(&address)
        .await
        .expect("the server accepts");
    socket.set_nodelay(true).expect("an open socket");
    let (mut times, mut buffer) = (Vec::new(), Vec::with_capacity(4_096));
    let until = Instant::now() + TURN;
    while Instant::now() < until {
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        let answer = load::exchange(&mut socket, &beats[number], &mut buffer).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times
}
