//! How many viewers a machine carries. Viewers with a connection and a session each send the mix of requests that
//! an audience sends, at rising rates, to a server on one core; the load runs on the other. Each rate gives the
//! processor time of the server and the response times of each route. At half of the highest rate follow: each
//! route by itself, the mix during an import and a backup, and the mix over TLS.
//!
//! A rate is a number of viewers whose requests it equals: 4,096 sessions that send a heartbeat every 2 s are an
//! audience of 20,480. What memory an audience takes is measured apart, per connection and session.
//!
//! `cargo bench --bench capacity`, or `cargo bench --bench capacity -- SESSIONS SECONDS` for another size and
//! another length of each step; `docs/performance.md` has the method. The curve is written to
//! `target/capacity.svg`.

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

mod audience;
mod curve;
mod offered;
#[path = "../../tests/it/support/synthetic_guide.rs"]
mod synthetic_guide;
#[path = "../yardstick/mod.rs"]
mod yardstick;

use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use audience::{Audience, MIX};
use offered::Step;
use synthetic_guide::SyntheticGuide;
use yardstick::secure::Secure;
use yardstick::server::Server;

const SESSIONS: usize = 4_096;
const SECONDS: u64 = 15;
/// Each rate is this many times the previous one.
const RISE: f64 = 1.5;
const FIRST_RATE: f64 = 10_000.0;
/// A server that answers a smaller part of the offered requests than this is beyond its capacity.
const KEPT_UP: f64 = 0.97;
/// The part of a processor that an operator plans with; the rest is for peaks.
const PLANNED: f64 = 0.7;

fn main() {
    yardstick::pin_or_serve_bare();
    let numbers = yardstick::numbers();
    let sessions = numbers.first().copied().unwrap_or(SESSIONS);
    let length = Duration::from_secs(numbers.get(1).map_or(SECONDS, |&seconds| seconds as u64));
    let secure = Secure::new();
    let server = start(&secure);
    let before = server.resident();
    let mut audience = Audience::gather(&server, sessions, 1);
    let signed_up = server.resident();
    println!("{sessions} sessions, steps of {} s", length.as_secs());
    println!(
        "resident: {:.1} MB before, {:.1} MB with a user, an entitlement and a session each",
        before / 1e6,
        signed_up / 1e6
    );

    let steps = rising(&server, &mut audience, length);
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("capacity.svg");
    std::fs::write(&picture, curve::draw(&steps)).expect("the folder can be written");
    println!("curve: {}", picture.display());
    let Some(best) = steps.iter().rfind(|step| step.kept_up() >= KEPT_UP) else {
        println!("the lowest rate is too much for this machine");
        return;
    };
    let connected = server.resident();
    println!("\nWhat it carries (computed from the processor time of the mix)\n");
    planned(best);
    let half = best.viewers / 2.0;
    each_route_alone(&server, &mut audience, half, length);
    println!("\nThe mix of {half:.0} viewers beside other work\n");
    heading();
    audience
        .run(&server, None, &MIX, half, length)
        .print("nothing else");
    let work = thread::scope(|scope| {
        let work = scope.spawn(|| import_and_back_up(&server));
        audience
            .run(&server, None, &MIX, half, length)
            .print("an import and a backup");
        work.join().expect("it ran")
    });
    println!("\n{work}");
    println!("\nOver TLS\n");
    heading();
    audience
        .run(&server, Some(&secure), &MIX, half, length)
        .print("the mix over TLS 1.3");
    println!(
        "\nresident: {:.1} MB after the mix without TLS",
        connected / 1e6
    );
}

/// The demo with production costs and limits, except the limits on the requests of one viewer: each session here stands
/// for many viewers.
fn start(secure: &Secure) -> Server {
    let file = |name: &str| secure.file(name).display().to_string();
    Server::demo(&[
        ("PLAYGATE_LIMITS_CONNECTIONS", "100000"),
        ("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", "100000"),
        ("PLAYGATE_LIMITS_HEARTBEATS_PER_SECOND", "1000"),
        ("PLAYGATE_LIMITS_HEARTBEAT_BURST", "1000"),
        ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000"),
        ("PLAYGATE_TLS_LISTEN", &secure.address),
        ("PLAYGATE_TLS_CERT", &file("cert.pem")),
        ("PLAYGATE_TLS_KEY", &file("key.pem")),
    ])
}

fn heading() {
    print!("| | requests/s | answered | server's core | load's core |");
    MIX.iter()
        .for_each(|(route, _)| print!(" {} ms |", route.name()));
    print!("\n|---|---|---|---|---|");
    MIX.iter().for_each(|_| print!("---|"));
    println!();
}

/// Raises the rate until the server cannot keep up.
fn rising(server: &Server, audience: &mut Audience, length: Duration) -> Vec<Step> {
    println!("\nRising rates of the mix; response times are p50 / p99\n");
    heading();
    let mut steps = Vec::new();
    let mut viewers = FIRST_RATE;
    loop {
        let step = audience.run(server, None, &MIX, viewers, length);
        step.print(&format!("{viewers:.0} viewers"));
        let kept_up = step.kept_up();
        steps.push(step);
        if kept_up < KEPT_UP {
            return steps;
        }
        viewers *= RISE;
    }
}

fn planned(best: &Step) {
    let each = best.server_cpu / best.viewers;
    println!("processor time of a viewer: {:.1} us a second", each * 1e6);
    println!("| cores | viewers at {:.0} % |\n|---|---|", PLANNED * 100.0);
    for cores in [1.0, 2.0, 4.0, 8.0] {
        println!("| {cores} | {:.0} |", cores * PLANNED / each);
    }
}

/// Each route by itself, at its rate in the mix.
fn each_route_alone(server: &Server, audience: &mut Audience, viewers: f64, length: Duration) {
    println!("\nEach route alone, as often as in the mix of {viewers:.0} viewers\n");
    heading();
    for part in MIX {
        // A start is three requests that depend on each other, so it stays one action.
        let step = audience.run(server, None, &[part], viewers, length);
        step.print(&format!(
            "{}: {:.1} us of processor time each",
            part.0.name(),
            step.server_cpu / step.per_second() * 1e6
        ));
    }
}

/// Imports a guide of 50,000 programmes and makes a backup. Returns how long they took.
fn import_and_back_up(server: &Server) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("guide.xml");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    SyntheticGuide {
        channels: 100,
        programmes: 500,
        shift: 0,
        word: "Programme",
        first: i64::try_from(now.expect("after 1970").as_secs()).expect("before 2262"),
    }
    .write(&path);
    let guide = std::fs::read_to_string(&path).expect("it was written");
    let mut times = Vec::new();
    for (what, path, body) in [
        (
            "import of 50,000 programmes",
            "epg/import?createLivestreams=true&accept=true",
            guide.as_str(),
        ),
        ("backup", "backups", ""),
    ] {
        let began = std::time::Instant::now();
        server.operate(path, body);
        times.push(format!("{what}: {:.1} s", began.elapsed().as_secs_f64()));
    }
    times.join(", ")
}
