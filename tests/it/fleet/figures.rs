//! What a change costs on a single node and in a fleet, in one run: `PLAYGATE_FLEET_ROUNDS` runs it.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::campaign::{long_form, machines, percentile};
use super::send;
use crate::support::appliance::Appliance;
use crate::support::server::PASSWORD;

const PERIOD: Duration = Duration::from_secs(10);
const SIGN_UPS: usize = 3;
const CHANGES: usize = 16;

#[test]
fn changes_are_measured_on_a_single_node_and_in_a_fleet() {
    if long_form().is_none() {
        return;
    }
    let Some(fleet) = machines() else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let limit = ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000");
    let single = Appliance::with(data.path(), &[limit]);
    let added = single.told(&["partner", "add", "test", "--json"]);
    let partner = added[0]["accessToken"].as_str().unwrap();
    let owner = fleet.owner();
    let (served, standby) = (fleet.addresses()[owner], fleet.addresses()[(owner + 1) % 3]);
    // Twice and alternating: the machine is used by others.
    for _ in 0..2 {
        measure("single node", partner, single.address);
        measure("fleet, at the owner", &fleet.partner, served);
        measure("fleet, at a standby", &fleet.partner, standby);
    }
}

fn measure(name: &str, partner: &str, address: SocketAddr) {
    let sign_ups = repeat(SIGN_UPS, |client, number| {
        sign_up(partner, address, &format!("{client}-{number}")).is_some()
    });
    let users: Vec<_> = (0..CHANGES)
        .map(|client| sign_up(partner, address, &format!("c{client}")).unwrap())
        .collect();
    let changes = repeat(CHANGES, |client, number| {
        let (id, bearer) = &users[client];
        let headers = [
            ("Service-AccessToken", partner),
            ("Authorization", bearer.as_str()),
        ];
        let body = json!({"name": number.to_string()}).to_string();
        let target = format!("/api/user/v1/users/{id}");
        send(address, "PUT", &target, &headers, &body).is_some_and(|(status, _)| status == 200)
    });
    println!(
        "{name}: sign-up {}; changes of {CHANGES} clients {}",
        text(&sign_ups),
        text(&changes)
    );
}

/// Id and token of a new user.
fn sign_up(partner: &str, address: SocketAddr, name: &str) -> Option<(String, String)> {
    let unique = Instant::now();
    let email = format!("{name}.{unique:?}@example.com").replace([' ', '{', '}', ':', ','], "");
    let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", partner)];
    let (status, body) = send(address, "PUT", "/api/login/v2/auth/email", &headers, &body)?;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).ok()?;
    let bearer = format!("Bearer {}", body["token"].as_str()?);
    Some((body["userId"].as_str()?.to_owned(), bearer))
}

/// How long each call took that succeeded, of clients that repeat it.
fn repeat(clients: usize, call: impl Fn(usize, usize) -> bool + Sync) -> Vec<Duration> {
    let took = Mutex::new(Vec::new());
    let end = Instant::now() + PERIOD;
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (call, took) = (&call, &took);
            scope.spawn(move || {
                for number in 0.. {
                    let began = Instant::now();
                    if began > end {
                        return;
                    }
                    if call(client, number) {
                        took.lock().unwrap().push(began.elapsed());
                    }
                }
            });
        }
    });
    let mut took = took.into_inner().unwrap();
    took.sort_unstable();
    took
}

fn text(took: &[Duration]) -> String {
    let millis = |percent| percentile(took, percent).as_micros() as f64 / 1_000.0;
    let rate = took.len() as f64 / PERIOD.as_secs_f64();
    format!(
        "p50 {:.1} ms, p99 {:.1} ms, {rate:.0} a second",
        millis(50),
        millis(99)
    )
}
