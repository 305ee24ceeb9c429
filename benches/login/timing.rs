//! Whether the time of a response shows that an account exists.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::yardstick::client::{self, Answer, request, send};
use crate::yardstick::server::Server;
use crate::yardstick::{median, sorted};

const PAIRS: usize = 2_000;
/// Addresses of each kind. There are several because rate limits count by account.
const ADDRESSES: usize = 10;

/// Prints the median response times of known and unknown addresses and the result of a rank test, for login and for
/// reset.
pub fn compare(server: &Server, partner: &str) {
    let headers = [("service-accesstoken", partner)];
    for number in 0..ADDRESSES {
        let body = format!(
            r#"{{"identity":"known{number}@bench.example","accessKey":"a long enough secret"}}"#
        );
        let path = "/api/login/v2/auth/email";
        let made = send(server, &request("PUT", path, &headers, &body));
        assert_eq!(made.status, 200, "{}", made.text());
    }
    let login = |name: &str, number: usize| {
        let body = format!(
            r#"{{"identity":"{name}{number}@bench.example","accessKey":"not the secret"}}"#
        );
        request("POST", "/api/login/v2/auth/email", &headers, &body)
    };
    let reset = |name: &str, number: usize| {
        let body = format!(r#"{{"email":"{name}{number}@bench.example"}}"#);
        request(
            "POST",
            "/api/login/v2/password/send-reset-password",
            &headers,
            &body,
        )
    };
    println!("| {PAIRS} pairs | known, us | unknown, us | ratio | z of the rank test |");
    println!("|---|---|---|---|---|");
    pairs(server, "login, wrong password", 401, login);
    pairs(server, "request for a reset mail", 200, reset);
    println!("goal: medians within 5 %; |z| < 2.58, as by chance in 99 of 100 runs");
}

/// Alternates between a known and an unknown address, each of them first in half of the pairs.
fn pairs(server: &Server, name: &str, status: u16, of: impl Fn(&str, usize) -> Vec<u8>) {
    let mut socket = TcpStream::connect(client::address_of(server)).expect("the server accepts");
    socket.set_nodelay(true).expect("an open socket");
    let names = ["known", "nobody"];
    let requests = names.map(|name| {
        let all = (0..ADDRESSES).map(|number| of(name, number));
        all.collect::<Vec<_>>()
    });
    let mut times = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        for turn in 0..2 {
            let which = (pair + turn) % 2;
            // `pair / 2`, so that each address comes first as often as second.
            let request = &requests[which][pair / 2 % ADDRESSES];
            let began = Instant::now();
            let answer = ask(&mut socket, request);
            times[which].push(began.elapsed().as_secs_f64() * 1e6);
            assert_eq!(answer.status, status, "{}", answer.text());
        }
    }
    let [known, unknown] = times.map(|times| sorted(times.into_iter()));
    let (a, b) = (median(&known), median(&unknown));
    let z = rank_test(&known, &unknown);
    println!("| {name} | {a:.0} | {b:.0} | {:.4} | {z:.2} |", a / b);
}

fn ask(socket: &mut TcpStream, request: &[u8]) -> Answer {
    socket.write_all(request).expect("the server reads");
    let (mut bytes, mut part) = (Vec::new(), [0; 4_096]);
    loop {
        let read = socket.read(&mut part).expect("the server answers");
        assert!(read > 0, "the server closed the connection");
        bytes.extend_from_slice(&part[..read]);
        if let Some(answer) = client::parse(&bytes) {
            return answer;
        }
    }
}

/// The Mann-Whitney U test of two sorted samples: by how many standard deviations their ranks differ from those of one
/// population. The times are so precise that ties do not matter.
fn rank_test(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len() as f64, b.len() as f64);
    // How often a value of `a` is the larger one; a tie counts half.
    let larger: f64 = a
        .iter()
        .map(|x| {
            let below = b.partition_point(|y| y < x);
            let up_to = b.partition_point(|y| y <= x);
            (below + up_to) as f64 / 2.0
        })
        .sum();
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    (larger - n * m / 2.0) / deviation
}
