//! Concurrent requests over sockets: password guesses, uses of a reset token, sign-ups, and tokens that end during
//! other requests. Also: every outcome of a login costs the same.

use std::net::IpAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use playgate_store::{Durability, StoreError};
use serde_json::{Value, json};

use crate::support::metrics::{password_hashes, scrape};
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::{PASSWORD, TestServer, viewer};
use crate::support::stop_on_drop::StopOnDrop;

const AUTH: &str = "/api/login/v2/auth/email";
const WRONG: &str = "wrong wrong";

/// Runs `work` on `threads` threads that start together.
fn in_parallel<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads);
    let (barrier, work) = (&barrier, &work);
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn(move || {
                    barrier.wait();
                    work(n)
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|found| **found == status).count()
}

/// Lets clients name their addresses, so that the limits per address are not reached.
const MANY_ADDRESSES: [(&str, &str); 3] = [
    ("http.trusted_proxies", "127.0.0.1"),
    ("limits.connections_per_address", "1000"),
    ("limits.login_wrong_per_address", "1000"),
];

fn login_from(
    server: &TestServer,
    email: &str,
    password: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let body = json!({"identity": email, "accessKey": password}).to_string();
    let mut all = vec![("Service-AccessToken", server.partner.as_str())];
    all.extend(headers);
    ask(server.public, request("POST", AUTH, &all, &body))
}

fn login(server: &TestServer, email: &str, password: &str) -> Answer {
    login_from(server, email, password, &[])
}

#[test]
fn of_200_concurrent_wrong_passwords_10_are_checked() {
    let server = TestServer::with(&MANY_ADDRESSES);
    server.sign_up("ann@example.com");
    for email in ["ann@example.com", "nobody@example.com"] {
        let statuses = in_parallel(200, |n| {
            let from = format!("198.51.100.{n}");
            login_from(&server, email, WRONG, &[("X-Forwarded-For", &from)]).status
        });
        assert_eq!(count(&statuses, 401), 10, "{email}");
        // The pool has no room for some of them and answers 503.
        let refused = count(&statuses, 429) + count(&statuses, 503);
        assert_eq!(refused, 190, "{email}");
    }
}

#[test]
fn of_50_concurrent_uses_of_a_reset_token_1_succeeds() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let send = "/api/login/v2/password/send-reset-password";
    server.partner("POST", send, &json!({"email": "ann@example.com"}));
    let token = server.mailed_token();
    let new = |n: usize| format!("goats gruff and gruffer {n}");
    let statuses = in_parallel(50, |n| {
        let body = json!({"token": token, "password": new(n)});
        let reset = "/api/login/v2/password/reset";
        server.partner("POST", reset, &body).status
    });
    // The pool refuses requests that would wait too long.
    let refused = count(&statuses, 400) + count(&statuses, 503);
    assert_eq!((count(&statuses, 200), refused), (1, 49));
    let winner = statuses.iter().position(|status| *status == 200).unwrap();
    assert_eq!(login(&server, "ann@example.com", &new(winner)).status, 200);
}

#[test]
fn of_20_concurrent_sign_ups_of_an_email_1_succeeds() {
    let server = TestServer::start();
    let answers = in_parallel(20, |n| {
        let body = json!({
            "identity": "ann@example.com", "accessKey": format!("{PASSWORD} {n}"),
        });
        server.partner("PUT", AUTH, &body)
    });
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    let refused = count(&statuses, 409) + count(&statuses, 503);
    assert_eq!((count(&statuses, 200), refused), (1, 19));
    let winner = statuses.iter().position(|status| *status == 200).unwrap();
    let made = viewer(&answers[winner]);
    let again = login(&server, "ann@example.com", &format!("{PASSWORD} {winner}"));
    assert_eq!(viewer(&again).id, made.id);
    let users = server.operator("GET", "users", &Value::Null).json();
    assert_eq!(users.as_array().unwrap().len(), 1);
}

#[test]
fn limits_use_the_address_behind_a_trusted_proxy() {
    let with = |proxies: &str| {
        TestServer::with(&[
            ("http.trusted_proxies", proxies),
            ("limits.login_wrong_per_address", "3"),
        ])
    };
    let guess = |server: &TestServer, n: usize, name: &str, value: &str| {
        login_from(
            server,
            &format!("u{n}@example.com"),
            WRONG,
            &[(name, value)],
        )
        .status
    };
    // No proxy is trusted, so a client's own claims are ignored.
    let server = with("");
    for (n, name) in ["X-Forwarded-For", "X-Real-IP", "Forwarded"]
        .iter()
        .enumerate()
    {
        assert_eq!(guess(&server, n, name, &format!("198.51.100.{n}")), 401);
    }
    assert_eq!(guess(&server, 8, "X_Forwarded_For", "198.51.100.98"), 429);
    assert_eq!(guess(&server, 9, "X-Forwarded-For", "198.51.100.99"), 429);

    let server = with("127.0.0.1");
    let by_proxy = |n: usize, value: &str| guess(&server, n, "X-Forwarded-For", value);
    // One /64 network; addresses to the left of it may be invented.
    for n in 0..3 {
        let hops = format!("203.0.113.{n}, 2001:db8:1:2::{n}");
        assert_eq!(by_proxy(n, &hops), 401);
    }
    assert_eq!(by_proxy(3, "2001:db8:1:2:ffff::1"), 429);
    assert_eq!(by_proxy(4, "2001:db8:1:3::1"), 401);
    for (n, odd) in ["unknown", "300.1.1.1", ""].iter().enumerate() {
        assert_eq!(by_proxy(10 + n, odd), 401, "{odd}");
    }
    assert_eq!(by_proxy(20, "1.2.3.4, _hidden"), 429);
}

/// Returns how many password hashes were computed so far, by argon2 and by foreign functions.
fn hashes(server: &TestServer) -> (u64, u64) {
    let metrics = scrape(server.ops);
    (
        password_hashes(&metrics, "argon2"),
        password_hashes(&metrics, "foreign"),
    )
}

/// `benches/login` compares the times of the same responses.
#[test]
fn every_login_outcome_costs_one_hash_unless_locked() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let shut = server.sign_up("shut@example.com");
    let target = format!("users/{}", shut.id);
    server.operator("PUT", &target, &json!({"disabled": true}));
    let outcome = |email: &str, password: &str| {
        let before = hashes(&server);
        let answer = login(&server, email, password);
        let after = hashes(&server);
        (answer.status, after.0 - before.0, after.1 - before.1)
    };
    for (email, password) in [
        ("ann@example.com", WRONG),
        ("ann@example.com", ""),
        ("nobody@example.com", WRONG),
        ("nobody@example.com", ""),
        ("shut@example.com", WRONG),
        ("shut@example.com", PASSWORD),
    ] {
        assert_eq!(outcome(email, password), (401, 1, 0), "{email}");
    }
    assert_eq!(outcome("ann@example.com", PASSWORD), (200, 1, 0));
    for email in ["ann@example.com", "nobody@example.com", "shut@example.com"] {
        while login(&server, email, WRONG).status == 401 {}
        assert_eq!(outcome(email, PASSWORD), (429, 0, 0), "{email}");
    }
    // A request for a reset mail hashes no password at all, so it shows no difference either.
    let before = hashes(&server);
    for email in ["ann@example.com", "nobody@example.com", "shut@example.com"] {
        let send = "/api/login/v2/password/send-reset-password";
        let answer = server.partner("POST", send, &json!({"email": email}));
        assert_eq!((answer.status, answer.json()), (200, json!({})), "{email}");
    }
    assert_eq!(hashes(&server), before);
}

#[test]
fn a_full_worker_pool_rejects_immediately() {
    // Expensive hashes: all of them together would take minutes.
    let server = TestServer::with(&[
        ("accounts.argon2_memory_kib", "65536"),
        ("accounts.argon2_iterations", "8"),
        ("limits.connections_per_address", "1000"),
        ("limits.login_wrong_per_address", "1000"),
    ]);
    assert_eq!(login(&server, "first@example.com", WRONG).status, 401);
    let answers = in_parallel(200, |n| login(&server, &format!("u{n}@example.com"), WRONG));
    let code = |answer: &&Answer| answer.code();
    let full = answers.iter().filter(|a| code(a) == "OVERLOADED");
    assert!(
        full.clone()
            .all(|a| a.status == 503 && a.header("retry-after").is_some())
    );
    // If the pool ignored how long a hash takes, it would accept all of them. Accepted requests are answered, unless
    // the machine slows down and their deadline passes.
    assert!(full.count() > 200 - 64);
    let codes = ["OVERLOADED", "INVALID_CREDENTIALS", "DEADLINE_EXCEEDED"];
    assert!(answers.iter().all(|a| codes.contains(&a.code().as_str())));
}

#[test]
fn concurrent_right_passwords_all_log_in() {
    let server = TestServer::with(&[("accounts.argon2_memory_kib", "8192")]);
    server.sign_up("ann@example.com");
    // Three times the limit of wrong passwords.
    let right = in_parallel(30, |_| login(&server, "ann@example.com", PASSWORD).status);
    assert_eq!(count(&right, 200), 30, "{right:?}");
    let mixed = in_parallel(60, |n| {
        let text = if n % 2 == 0 { PASSWORD } else { WRONG };
        login(&server, "ann@example.com", text).status
    });
    assert_eq!(count(&mixed, 401), 10, "{mixed:?}");
    assert_eq!(login(&server, "ann@example.com", PASSWORD).status, 429);
}

/// Slow transactions keep the store's writer as busy as a disk with slow syncs.
#[test]
fn a_slow_disk_does_not_block_the_hashing_pool() {
    const SLOW: Duration = Duration::from_millis(100);
    let server = TestServer::with(&[("accounts.argon2_memory_kib", "8192")]);
    let stop = AtomicBool::new(false);
    let statuses = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let busy = server.services.store.write(Durability::Logged, |_| {
                    thread::park_timeout(SLOW);
                    Ok::<_, StoreError>(())
                });
                busy.wait().unwrap();
            }
        });
        let _stop = StopOnDrop(&stop);
        in_parallel(60, |n| {
            let email = format!("u{n}@example.com");
            let body = json!({"identity": email, "accessKey": PASSWORD});
            server.partner("PUT", AUTH, &body).status
        })
    });
    assert_eq!(count(&statuses, 200), 60, "{statuses:?}");
}

/// The most hashes that may be computed while a right login waits: the running ones, one of a guesser, its own, and
/// some that a busy machine lets pass. A single queue for all would have 120.
const HASHES_AHEAD: u64 = 30;

/// Returns how many of twenty right logins, each from its own network, succeed within [`HASHES_AHEAD`], while 120
/// connections from as many addresses guess as fast as they can.
fn right_log_ins_under_a_flood(networks: u8, cost: &[(&'static str, &str)]) -> usize {
    let limits = [("limits.login_wrong_per_address", "100000")];
    let server = TestServer::with(&[&limits[..], cost].concat());
    for n in 0..20 {
        server.sign_up(&format!("right{n}@example.com"));
    }
    let stop = AtomicBool::new(false);
    let begun = Barrier::new(121);
    let body = |email: &str, password: &str| {
        let body = json!({"identity": email, "accessKey": password}).to_string();
        let headers = [("Service-AccessToken", server.partner.as_str())];
        request("POST", AUTH, &headers, &body)
    };
    let flood = |n: u8| {
        let from = IpAddr::from([127, 1, n % networks, 1 + n / networks]);
        let mut wire = Wire::from(from, server.public).unwrap();
        let (mut refused, mut is_known) = (0, false);
        for round in 0_u32.. {
            let guess = body(&format!("u{n}-{round}@example.com"), WRONG);
            let status = wire.send(guess).answer().unwrap().status;
            refused += u32::from(status == 503);
            // By then every network has guessed, or was refused several times.
            if !is_known && (status == 401 || refused == 8) {
                is_known = true;
                begun.wait();
            }
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let flood = &flood;
        let all: Vec<_> = (0..120).map(|n| scope.spawn(move || flood(n))).collect();
        let stop = StopOnDrop(&stop);
        begun.wait();
        let answers: Vec<(u16, u64)> = (0..20_u8)
            .map(|n| {
                let from = IpAddr::from([127, 9, n, 1]);
                let mut wire = Wire::from(from, server.public).unwrap();
                let right = body(&format!("right{n}@example.com"), PASSWORD);
                let before = hashes(&server).0;
                let status = wire.send(right).answer().unwrap().status;
                (status, hashes(&server).0 - before)
            })
            .collect();
        drop(stop);
        for one in all {
            one.join().unwrap();
        }
        println!("{networks} networks: {answers:?}");
        let served = |(status, hashes): &&(u16, u64)| *status == 200 && *hashes <= HASHES_AHEAD;
        answers.iter().filter(served).count()
    })
}

#[test]
fn guessing_floods_do_not_block_right_logins_from_elsewhere() {
    // With expensive hashes most of 120 networks are refused before one of their guesses is checked.
    let expensive = [
        ("accounts.argon2_memory_kib", "65536"),
        ("accounts.argon2_iterations", "4"),
    ];
    for (networks, cost) in [(1, &[][..]), (2, &[]), (8, &[]), (120, &expensive)] {
        let right = right_log_ins_under_a_flood(networks, cost);
        assert!(right >= 18, "{networks} networks: {right} of 20");
    }
}

#[test]
fn every_character_of_a_password_counts() {
    let server = TestServer::start();
    let sign_up = |n: usize, password: &str| {
        let body = json!({"identity": format!("u{n}@example.com"), "accessKey": password});
        server.partner("PUT", AUTH, &body).status
    };
    let opens = |n: usize, password: &str| {
        login(&server, &format!("u{n}@example.com"), password).status == 200
    };
    let long = "x".repeat(255);
    for (n, (password, other)) in [
        ("nul\0 and more", "nul"),
        ("nul\0 and more", "nul\0 and mora"),
        ("        ", "         "),
        (
            "\u{1f600}\u{1f601}\u{1f600}\u{1f601}\u{1f600}\u{1f601}\u{1f600}\u{1f601}",
            "\u{1f600}",
        ),
        ("tab\tand\nline", "tab and line"),
        (&format!("{long}y"), &format!("{long}z")),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(sign_up(n, password), 200, "{password:?}");
        assert!(opens(n, password) && !opens(n, other), "{password:?}");
    }
    // Keyboards differ in whether they compose characters, so both forms are the same password.
    assert_eq!(sign_up(20, "cafe\u{301} au lait"), 200);
    assert!(opens(20, "caf\u{e9} au lait"));
    assert_eq!(sign_up(21, &format!("{long}xx")), 400);
}

/// Returns the status of a request for the user's record on an open connection.
fn reads(wire: &mut Wire, partner: &str, token: &str, id: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Service-AccessToken", partner),
        ("Authorization", bearer.as_str()),
    ];
    let target = format!("/api/user/v1/users/{id}");
    let answer = wire.send(request("GET", &target, &headers, "")).answer();
    answer.unwrap().status
}

#[test]
fn an_ended_token_is_rejected_on_every_open_connection() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let ended = AtomicBool::new(false);
    let running = Barrier::new(9);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut wire = Wire::to(server.public);
                    let first = reads(&mut wire, &server.partner, &ann.token, &ann.id);
                    assert_eq!(first, 200);
                    running.wait();
                    let mut refused = 0;
                    while refused < 50 {
                        // Read before the request is sent: a request that starts after the logout must be rejected.
                        let late = ended.load(Ordering::SeqCst);
                        match reads(&mut wire, &server.partner, &ann.token, &ann.id) {
                            401 => refused += 1,
                            200 => assert!(!late && refused == 0, "good again, or still"),
                            other => panic!("{other}"),
                        }
                    }
                })
            })
            .collect();
        let ended_on_drop = StopOnDrop(&ended);
        running.wait();
        let out = "/api/login/v2/auth/logout";
        let answer = server.user(&ann.token, "POST", out, &Value::Null);
        assert_eq!(answer.status, 200);
        drop(ended_on_drop);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn partners_and_operators_tokens_are_rotated_while_connections_stay_open() {
    let fixture = PlaybackFixture::new();
    let (server, ann) = (&fixture.server, &fixture.ann);
    let player = fixture.play(ann, "film", "tv");
    let mut wire = Wire::to(server.public);
    let old = &server.partner;
    let added = server.operator("POST", "partners/Acme/tokens", &Value::Null);
    let new = added.json()["accessToken"].as_str().unwrap().to_owned();
    // Both are valid until the older one is revoked, even within a playback session.
    assert_eq!(reads(&mut wire, old, &ann.token, &ann.id), 200);
    assert_eq!(reads(&mut wire, &new, &ann.token, &ann.id), 200);
    assert_eq!(fixture.beat(&player, &[]).status, 200);
    let tokens = server.operator("GET", "partners/Acme/tokens", &Value::Null);
    let tokens = tokens.json();
    let oldest = tokens.as_array().unwrap().iter();
    let other = added.json()["tokenId"].clone();
    let oldest = oldest
        .map(|token| &token["tokenId"])
        .find(|id| **id != other);
    let revoke = format!("partners/Acme/tokens/{}", oldest.unwrap().as_str().unwrap());
    assert_eq!(server.operator("DELETE", &revoke, &Value::Null).status, 204);
    assert_eq!(reads(&mut wire, old, &ann.token, &ann.id), 401);
    assert_eq!(reads(&mut wire, &new, &ann.token, &ann.id), 200);
    let beat = fixture.beat(&player, &[]);
    assert_eq!(
        (beat.status, beat.code().as_str()),
        (401, "PARTNER_TOKEN_INVALID")
    );

    let added = server.operator("POST", "operators/Eva/tokens", &Value::Null);
    let second = added.json()["token"].as_str().unwrap().to_owned();
    let mut wire = Wire::to(server.ops);
    let mut lists = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        let get = request("GET", "/admin/v1/operators/Eva/tokens", &headers, "");
        wire.send(get).answer().unwrap()
    };
    assert_eq!(lists(&second).json().as_array().unwrap().len(), 2);
    assert_eq!(lists(&server.admin).status, 200);
    let revoke = format!(
        "operators/Eva/tokens/{}",
        added.json()["tokenId"].as_str().unwrap()
    );
    assert_eq!(server.operator("DELETE", &revoke, &Value::Null).status, 204);
    let refused = lists(&second);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (401, "OPERATOR_TOKEN_INVALID")
    );
    assert_eq!(lists(&server.admin).json().as_array().unwrap().len(), 1);
    let unknown = server.operator("DELETE", &revoke, &Value::Null);
    assert_eq!(unknown.code(), "TOKEN_NOT_FOUND");
}

#[test]
fn a_heartbeat_is_rejected_after_its_login_ended() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    type End = fn(&TestServer, &crate::support::server::Viewer);
    let ends: [(&str, End); 4] = [
        ("out", |server, viewer| {
            let out = "/api/login/v2/auth/logout";
            server.user(&viewer.token, "POST", out, &Value::Null);
        }),
        ("all", |server, viewer| {
            let target = format!("/api/user/v1/users/{}/sessions", viewer.id);
            server.user(&viewer.token, "DELETE", &target, &Value::Null);
        }),
        ("operator", |server, viewer| {
            let target = format!("users/{}/logout", viewer.id);
            server.operator("POST", &target, &Value::Null);
        }),
        ("shut", |server, viewer| {
            let target = format!("users/{}", viewer.id);
            server.operator("PUT", &target, &json!({"disabled": true}));
        }),
    ];
    for (name, end) in ends {
        let viewer = fixture.viewer(name);
        let player = fixture.play(&viewer, "film", "tv");
        assert_eq!(fixture.beat(&player, &[]).status, 200, "{name}");
        end(server, &viewer);
        let beat = fixture.beat(&player, &[]);
        assert_eq!(
            (beat.status, beat.code().as_str()),
            (401, "USER_TOKEN_INVALID"),
            "{name}"
        );
    }
    // A password change ends the other login sessions, but not the one that made it.
    let viewer_here = fixture.viewer("changed");
    let there = viewer(&login(server, "changed@example.com", PASSWORD));
    let [here, there] = [&viewer_here, &there]
        .map(|viewer| fixture.play(viewer, "film", &format!("tv-{}", viewer.session)));
    let body = json!({"currentPassword": PASSWORD, "newPassword": "goats gruff and gruffer"});
    let target = format!("/api/user/v1/users/{}/password", viewer_here.id);
    let changed = server.user(&viewer_here.token, "PUT", &target, &body);
    assert_eq!(changed.status, 200);
    assert_eq!(fixture.beat(&here, &[]).status, 200);
    assert_eq!(fixture.beat(&there, &[]).status, 401);
}
