//! Shared by the benchmarks: a bare hyper server as the yardstick, a load from the other core, and rounds in which the
//! contestants take turns.
//!
//! The figure is the processor time per request, user and system, of the server process. On a noisy machine it is much
//! more stable than requests per second; even so, quote only its ratio to the yardstick of the same run. `taskset`
//! keeps servers on core 0 and the load on core 1.

#![allow(dead_code, reason = "each benchmark takes what it needs")]

pub mod bare;
pub mod client;
pub mod installation;
pub mod load;
#[allow(dead_code, reason = "not every benchmark has a row of nginx")]
pub mod nginx;
#[allow(dead_code, reason = "one benchmark is about it")]
pub mod secure;
pub mod server;

use std::sync::Arc;
use std::time::Duration;

use secure::Secure;
use server::Server;

/// The number of counted rounds, and the length of each contestant's turn.
const ROUNDS: usize = 8;
const TURN: Duration = Duration::from_secs(2);

pub struct Contestant<'a> {
    pub name: String,
    pub server: &'a Server,
    /// TLS instead of plain HTTP.
    pub over: Option<&'a Secure>,
    /// Complete requests. Connection `n` starts with the `n`-th one, continues with the following ones, and wraps
    /// around.
    pub requests: Arc<[Vec<u8>]>,
    /// The expected status of each response.
    pub status: u16,
    /// At most this many times the first contestant.
    pub goal: Option<f64>,
}

impl<'a> Contestant<'a> {
    /// Expects 200, uses no TLS and has no goal.
    pub fn new(
        name: impl Into<String>,
        server: &'a Server,
        requests: impl Into<Arc<[Vec<u8>]>>,
    ) -> Self {
        Self {
            name: name.into(),
            server,
            over: None,
            requests: requests.into(),
            status: 200,
            goal: None,
        }
    }

    /// The yardstick: a bare server that gets the shortest GET.
    pub fn bare(name: &str, bare: &'a Server) -> Self {
        Self::new(name, bare, [client::request("GET", "/x", &[], "")])
    }

    pub fn with_goal(self, goal: f64) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }
}

/// Lets the contestants take turns. Prints the medians of each one and its ratio to the first one, the yardstick.
pub fn compare(contestants: &[Contestant<'_>]) {
    let mut figures = vec![Vec::new(); contestants.len()];
    for round in 0..=ROUNDS {
        for (contestant, figures) in contestants.iter().zip(&mut figures) {
            let server = contestant.server;
            let (before, committing) = (server.cpu(), server.cpu_of_commits());
            let done = load::run(contestant, TURN);
            let spent = server.cpu() - before;
            let apart = spent - (server.cpu_of_commits() - committing);
            let each = |time: Duration| time.as_secs_f64() * 1e6 / done as f64;
            // The first round warms up.
            if round > 0 {
                figures.push(Figure {
                    micros: each(spent),
                    apart: each(apart),
                    per_second: done as f64 / TURN.as_secs_f64(),
                });
            }
        }
    }
    println!("| contestant | CPU us/request | req/s | ratio [min..max] | commits apart | goal |");
    println!("|---|---|---|---|---|---|");
    let yardstick = figures[0].clone();
    for (contestant, figures) in contestants.iter().zip(&figures) {
        let ratios = |micros: fn(&Figure) -> f64| {
            let pairs = figures.iter().zip(&yardstick);
            sorted(pairs.map(|(figure, base)| micros(figure) / base.micros))
        };
        let (ratios, apart) = (
            ratios(|figure| figure.micros),
            ratios(|figure| figure.apart),
        );
        println!(
            "| {} | {:.2} | {:.0} | {:.2} [{:.2}..{:.2}] | {:.2} | {} |",
            contestant.name,
            median(&sorted(figures.iter().map(|figure| figure.micros))),
            median(&sorted(figures.iter().map(|figure| figure.per_second))),
            median(&ratios),
            ratios[0],
            ratios[ratios.len() - 1],
            median(&apart),
            contestant
                .goal
                .map_or_else(|| "-".to_owned(), |goal| format!("<= {goal}")),
        );
    }
}

#[derive(Clone)]
struct Figure {
    micros: f64,
    /// Without the threads that make commits.
    apart: f64,
    per_second: f64,
}

pub fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

pub fn numbers() -> Vec<usize> {
    let words = std::env::args();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Serves as the bare server if the arguments say so; otherwise moves this process to the core of the load.
pub fn pin_or_serve_bare() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--bare") {
        let length = arguments
            .next()
            .and_then(|length| length.parse().ok())
            .unwrap_or(0);
        bare::serve(length);
        std::process::exit(0);
    }
    if std::env::var_os("BENCH_PINNED").is_none() {
        let program = std::env::current_exe().expect("the path of this program can be read");
        let status = std::process::Command::new("taskset")
            .args(["-c", "1"])
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env("BENCH_PINNED", "1")
            .status()
            .expect("taskset of util-linux is installed");
        std::process::exit(status.code().unwrap_or(1));
    }
}
