//! Clients send all but the last byte of their bodies and wait: the memory that this takes is bounded, and others are served.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, sign_up};
use crate::support::metrics::{metric, scrape};
use crate::support::raw_http::{Answer, Wire};
use crate::support::server::{PASSWORD, TestServer};
use crate::support::until::until;

const EVENTS: &str = "/api/tracker/v1/telemetry-events";
const MIB: usize = 1024 * 1024;
/// Bytes of a body that its client holds back.
const HELD_BACK: usize = 500;

/// An array of an event, after so many spaces that it has a length of `bytes`.
fn batch(bytes: usize) -> Vec<u8> {
    let event = json!([{"timestamp": 1_767_225_600, "action": "a", "seqId": 1}]).to_string();
    let mut batch = vec![b' '; bytes - event.len()];
    batch.extend(event.into_bytes());
    batch
}

struct HeldBody {
    wire: Wire,
    rest: Vec<u8>,
}

impl HeldBody {
    /// Sends nearly all of it.
    fn send(mut wire: Wire, partner: &str, bearer: &str, bytes: usize) -> Self {
        let head = format!(
            "POST {EVENTS} HTTP/1.1\r\nHost: t\r\nService-AccessToken: {partner}\r\nAuthorization: {bearer}\r\n\
             Content-Length: {bytes}\r\n\r\n"
        );
        let mut body = batch(bytes);
        let rest = body.split_off(bytes - HELD_BACK);
        wire.send(head).send(body);
        Self { wire, rest }
    }

    /// Sends one more byte, so that the body does not count as stalled.
    fn nudge(&mut self) {
        let next = self.rest.remove(0);
        self.wire.send([next]);
    }

    fn finish(mut self) -> Answer {
        self.wire.send(&self.rest);
        self.answer()
    }

    fn answer(mut self) -> Answer {
        self.wire.answer().unwrap()
    }
}

/// Sends bodies of one user to a server with a budget. Returns by how much the memory of the process grew, and the answers
/// of those that were refused.
fn attack(budget: &str, bodies: usize, admitted: usize) -> (u64, Vec<Answer>) {
    let data = tempfile::tempdir().unwrap();
    let settings = [
        ("PLAYGATE_LIMITS_BODY_BYTES", budget),
        ("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", "1000"),
    ];
    let server = Appliance::with(data.path(), &settings);
    let (partner, bearer) = sign_up(&server);
    let memory = || {
        let file = format!("/proc/{}/status", server.process.id());
        let status = fs::read_to_string(file).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().trim().trim_end_matches(" kB").parse::<u64>();
        number.unwrap() * 1024
    };
    let before = memory();
    let connect = || HeldBody::send(Wire::to(server.address), &partner, &bearer, MIB);
    let mut held: Vec<HeldBody> = (0..admitted).map(|_| connect()).collect();
    let expected = (admitted * (MIB - HELD_BACK)) as u64;
    until("the bodies to be in memory", || {
        held.iter_mut().for_each(HeldBody::nudge);
        metric::<u64>(&server.metrics(), "playgate_http_body_bytes") >= expected
    });
    let refused: Vec<HeldBody> = (admitted..bodies).map(|_| connect()).collect();
    let refused: Vec<Answer> = refused.into_iter().map(HeldBody::answer).collect();
    let grown = memory().saturating_sub(before);
    held.iter_mut().for_each(HeldBody::nudge);
    // Another user of the same network and partner.
    let headers = [("Service-AccessToken", partner.as_str())];
    let form = json!({"identity": "innocent@example.com", "accessKey": PASSWORD}).to_string();
    let signed_up = server.ask("PUT", "/api/login/v2/auth/email", &headers, &form);
    assert_eq!(signed_up.status, 200, "{}", signed_up.json());
    let innocent = format!("Bearer {}", signed_up.json()["token"].as_str().unwrap());
    let other = HeldBody::send(Wire::to(server.address), &partner, &innocent, MIB);
    assert_eq!(other.finish().status, 202);
    // What was admitted is taken, and its memory is free again.
    assert!(held.into_iter().all(|body| body.finish().status == 202));
    until("no body to be counted", || {
        metric::<u64>(&server.metrics(), "playgate_http_body_bytes") == 0
    });
    assert_eq!(connect().finish().status, 202);
    (grown, refused)
}

#[test]
fn held_back_bodies_of_one_user_take_little_memory() {
    let (grown, refused) = attack("32MiB", 64, 2);
    assert_eq!(refused.len(), 62);
    for answer in refused {
        assert_eq!(answer.status_and_code(), (429, "RATE_LIMITED".to_owned()));
        assert!(answer.header("retry-after").is_some());
    }
    // Control: without a budget that matters, nothing is refused, and all of it is in memory.
    let (unbounded, refused) = attack("64GiB", 64, 64);
    assert!(refused.is_empty());
    let mib = |bytes: u64| bytes / MIB as u64;
    println!(
        "{} MiB with a budget, {} without",
        mib(grown),
        mib(unbounded)
    );
    assert!(unbounded > 60 * MIB as u64, "{} MiB", mib(unbounded));
    assert!(
        grown < unbounded / 2,
        "{} of {} MiB",
        mib(grown),
        mib(unbounded)
    );
}

/// Holds bodies of a new user on a network, besides others, until one is refused.
fn fill(
    server: &TestServer,
    (partner, user, network): (&str, u8, u8),
    held: &mut Vec<HeldBody>,
) -> Answer {
    let form = json!({"identity": format!("user{user}@example.com"), "accessKey": PASSWORD});
    let signed_up = server.partner_with(partner, "PUT", "/api/login/v2/auth/email", &form);
    assert_eq!(signed_up.status, 200, "{}", signed_up.json());
    let bearer = format!("Bearer {}", signed_up.json()["token"].as_str().unwrap());
    let from: IpAddr = [127, 0, network, 1].into();
    let to: SocketAddr = server.public;
    let bytes = || metric::<u64>(&scrape(server.ops), "playgate_http_body_bytes");
    let refusals = || {
        let shares = ["total", "user", "network", "partner"];
        let text = scrape(server.ops);
        let of = |share: &str| {
            metric::<u64>(
                &text,
                &format!("playgate_http_bodies_refused_total{{share=\"{share}\"}}"),
            )
        };
        shares.into_iter().map(of).sum::<u64>()
    };
    loop {
        let refused = refusals();
        let expected = (held.len() + 1) * (MIB - HELD_BACK);
        let body = HeldBody::send(Wire::from(from, to).unwrap(), partner, &bearer, MIB);
        until("the body to be taken or refused", || {
            refusals() > refused || bytes() >= expected as u64
        });
        if refusals() > refused {
            return body.answer();
        }
        held.push(body);
        held.iter_mut().for_each(HeldBody::nudge);
    }
}

#[test]
fn the_budget_is_shared_between_users_networks_and_partners() {
    let server = TestServer::with(&[("limits.body_bytes", "32MiB")]);
    let added = server.operator("POST", "partners", &json!({"name": "Other"}));
    let other = added.json()["accessToken"].as_str().unwrap().to_owned();
    let acme = server.partner.clone();
    let mut held = Vec::new();
    let mut refusal = |partner: &str, user, network| {
        let answer = fill(&server, (partner, user, network), &mut held);
        assert!(answer.header("retry-after").is_some());
        (held.len(), answer.outcome())
    };
    let outcome = |held, outcome: &str| (held, outcome.to_owned());
    // A user has a sixteenth, a network a quarter, a partner three quarters, and all large bodies seven eighths.
    assert_eq!(refusal(&acme, 1, 1), outcome(2, "429 RATE_LIMITED"));
    for user in 2..=4 {
        refusal(&acme, user, 1);
    }
    assert_eq!(refusal(&acme, 5, 1), outcome(8, "503 OVERLOADED"));
    for user in 6..=13 {
        refusal(&acme, user, user);
    }
    assert_eq!(refusal(&acme, 14, 14), outcome(24, "503 OVERLOADED"));
    for user in 15..=16 {
        refusal(&other, user, user);
    }
    assert_eq!(refusal(&other, 17, 17), outcome(28, "503 OVERLOADED"));
    // Logins, small batches and operators still pass.
    let viewer = server.sign_up("ann@example.com");
    let small = json!([{"timestamp": 1_767_225_600, "action": "a", "seqId": 1}]);
    assert_eq!(
        server.user(&viewer.token, "POST", EVENTS, &small).status,
        202
    );
    let catalog = format!("{{\"x\": \"{}\"}}", "x".repeat(4 * MIB));
    let catalog: Value = serde_json::from_str(&catalog).unwrap();
    assert_eq!(
        server.operator("POST", "catalog/import", &catalog).status,
        400
    );
    // A client that goes gives its bytes back.
    drop(held);
    until("no body to be counted", || {
        metric::<u64>(&scrape(server.ops), "playgate_http_body_bytes") == 0
    });
    let bearer = format!("Bearer {}", viewer.token);
    let large = HeldBody::send(Wire::to(server.public), &acme, &bearer, MIB);
    assert_eq!(large.finish().status, 202);
}
