//! Password reset by mail: who gets a link, how often, which tokens work, and what the answers reveal.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer};

const SEND: &str = "/api/login/v2/password/send-reset-password";
const SEND_TOO: &str = "/api/login/v2/password/send-reset-email";
const RESET: &str = "/api/login/v2/password/reset";
const NEW: &str = "goats gruff and gruffer";

fn send(server: &TestServer, email: &str) -> Answer {
    server.partner("POST", SEND, &json!({"email": email}))
}

fn reset(server: &TestServer, token: &str, password: &str) -> Answer {
    server.partner(
        "POST",
        RESET,
        &json!({"token": token, "password": password}),
    )
}

fn logs_in(server: &TestServer, email: &str, password: &str) -> u16 {
    let body = json!({"identity": email, "accessKey": password});
    server
        .partner("POST", "/api/login/v2/auth/email", &body)
        .status
}

fn mails(server: &TestServer) -> Vec<Value> {
    let list = server.operator("GET", "mail", &Value::Null).json();
    list.as_array().unwrap().clone()
}

#[test]
fn a_reset_by_mail_ends_every_session() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let body = json!({"email": "ANN@example.com", "locale": "de"});
    let sent = server.partner("POST", SEND_TOO, &body);
    assert_eq!((sent.status, sent.json()), (200, json!({})));
    let mail = &mails(&server)[0];
    let expected = json!({
        "id": mail["id"], "to": "ann@example.com", "subject": "Neues Passwort wählen",
        "kind": "reset", "status": "sink", "createdAt": 1_767_268_800,
    });
    assert_eq!(*mail, expected);
    let id = mail["id"].as_str().unwrap();
    let letter = server
        .operator("GET", &format!("mail/{id}"), &Value::Null)
        .json();
    for part in ["text", "html"] {
        let part = letter[part].as_str().unwrap();
        assert!(
            part.contains("https://tv.example/reset?token=pgr_"),
            "{part}"
        );
    }
    let done = reset(&server, &server.mailed_token(), NEW);
    assert_eq!((done.status, done.json()), (200, json!({})));
    let record = format!("/api/user/v1/users/{}", ann.id);
    assert_eq!(
        server.user(&ann.token, "GET", &record, &Value::Null).status,
        401
    );
    assert_eq!(logs_in(&server, "ann@example.com", PASSWORD), 401);
    assert_eq!(logs_in(&server, "ann@example.com", NEW), 200);
    assert_eq!(mails(&server)[0]["kind"], "password-changed");
}

#[test]
fn a_reset_token_applies_to_its_owner_only() {
    let server = TestServer::start();
    for email in ["ann@example.com", "ben@example.com"] {
        server.sign_up(email);
    }
    send(&server, "ann@example.com");
    let body = json!({
        "token": server.mailed_token(), "password": NEW,
        "email": "ben@example.com", "identity": "ben@example.com", "userId": "ben",
    });
    assert_eq!(server.partner("POST", RESET, &body).status, 200);
    assert_eq!(logs_in(&server, "ann@example.com", NEW), 200);
    assert_eq!(logs_in(&server, "ben@example.com", NEW), 401);
    assert_eq!(logs_in(&server, "ben@example.com", PASSWORD), 200);
}

#[test]
fn password_reset_does_not_reveal_accounts() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let timed = |email: &str| {
        let began = Instant::now();
        (send(&server, email), began.elapsed())
    };
    let (known, unknown) = (timed("ann@example.com"), timed("nobody@example.com"));
    assert_eq!(
        (known.0.status, &known.0.body),
        (unknown.0.status, &unknown.0.body)
    );
    // Every answer is delayed to a fixed minimum time.
    assert!(known.1.min(unknown.1) >= Duration::from_millis(25));
    assert_eq!(mails(&server).len(), 1);
    for bad in [
        json!({}),
        json!({"email": ["ann@example.com", "eve@example.com"]}),
        json!({"email": "ann"}),
    ] {
        let answer = server.partner("POST", SEND, &bad);
        assert_eq!((answer.status, answer.field().as_str()), (400, "email"));
    }
    // An unreadable locale is ignored.
    let odd = json!({"email": "ann@example.com", "locale": 5});
    assert_eq!(server.partner("POST", SEND, &odd).status, 200);
    assert_eq!(mails(&server).len(), 2);
}

#[test]
fn reset_mail_goes_to_the_stored_address_only() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@kk.example");
    // A Cyrillic letter in the domain makes it another address.
    let other = server.sign_up("ann@kk.ex\u{430}mple");
    assert_ne!(ann.id, other.id);
    for (asked, to) in [
        ("ann@kk.ex\u{430}mple", Some("ann@kk.xn--exmple-4nf")),
        ("ann@kk.exam\u{440}le", None),
        // Domain names treat the Kelvin sign as the letter k.
        ("ANN@\u{212a}k.example", Some("ann@kk.example")),
    ] {
        let before = mails(&server).len();
        assert_eq!(send(&server, asked).status, 200, "{asked}");
        let mails = mails(&server);
        assert_eq!(mails.len() - before, usize::from(to.is_some()), "{asked}");
        assert!(to.is_none_or(|to| mails[0]["to"] == to), "{}", mails[0]);
    }
    for asked in ["\u{430}nn@kk.example", "ann\u{ff20}kk.example"] {
        assert_eq!(send(&server, asked).status, 400, "{asked}");
    }
}

#[test]
fn request_headers_do_not_affect_the_link() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let body = json!({"email": "ann@example.com"}).to_string();
    let headers = [
        ("Service-AccessToken", server.partner.as_str()),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-For", "198.51.100.1"),
        ("Forwarded", "host=evil.example;proto=http"),
        ("X-Original-URL", "https://evil.example/"),
        ("Origin", "https://evil.example"),
    ];
    let poisoned =
        request("POST", SEND, &headers, &body).replace("Host: localhost", "Host: evil.example");
    assert_eq!(ask(server.public, poisoned).status, 200);
    let id = mails(&server)[0]["id"].as_str().unwrap().to_owned();
    let letter = server
        .operator("GET", &format!("mail/{id}"), &Value::Null)
        .json()
        .to_string();
    assert!(letter.contains("https://tv.example/reset") && !letter.contains("evil"));
}

#[test]
fn unknown_used_expired_and_foreign_tokens_get_the_same_error() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    send(&server, "ann@example.com");
    let older = server.mailed_token();
    send(&server, "ann@example.com");
    let newer = server.mailed_token();
    assert_ne!(older, newer);
    let other = server
        .operator("POST", "partners", &json!({"name": "Other"}))
        .json();
    let other = other["accessToken"].as_str().unwrap();
    let foreign = server.partner_with(
        other,
        "POST",
        RESET,
        &json!({"token": newer, "password": NEW}),
    );
    let weak = reset(&server, &newer, "password");
    assert_eq!(
        (weak.status, weak.code().as_str(), weak.field().as_str()),
        (400, "PASSWORD_TOO_COMMON", "password")
    );
    let mut refused = vec![
        foreign,
        reset(&server, &older, NEW),
        reset(&server, &ann.token, NEW),
    ];
    refused
        .extend(["", "x", &newer[1..], &"x".repeat(8_000)].map(|token| reset(&server, token, NEW)));
    server.wait(1_799);
    assert_eq!(reset(&server, &newer, NEW).status, 200);
    // A form that is sent twice is answered as the first, for ten minutes and with the same password.
    assert_eq!(reset(&server, &newer, NEW).status, 200);
    assert_eq!(
        mails(&server)
            .iter()
            .filter(|m| m["kind"] == "password-changed")
            .count(),
        1
    );
    refused.push(reset(&server, &newer, "another meadow path"));
    server.wait(600);
    refused.push(reset(&server, &newer, NEW));
    send(&server, "ann@example.com");
    server.wait(1_800);
    refused.push(reset(&server, &server.mailed_token(), NEW));
    let first = refused[0].json();
    assert_eq!(first["error"]["code"], "RESET_TOKEN_INVALID");
    assert!(
        refused
            .iter()
            .all(|answer| answer.status == 400 && answer.json() == first)
    );
}

#[test]
fn a_token_works_once_and_an_account_gets_three_mails_an_hour() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    assert!((0..10).all(|_| send(&server, "ann@example.com").status == 200));
    assert_eq!(mails(&server).len(), 3);
    assert_eq!(logs_in(&server, "ann@example.com", PASSWORD), 200);
    let token = server.mailed_token();
    let done: Vec<u16> = thread::scope(|scope| {
        let tries: Vec<_> = (0..10)
            .map(|n| {
                scope.spawn({
                    let (server, token) = (&server, &token);
                    move || reset(server, token, &format!("{NEW} {n}")).status
                })
            })
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(done.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(done.iter().filter(|status| **status == 400).count(), 9);
}

#[test]
fn concurrent_reset_requests_respect_the_mail_limit() {
    let server = TestServer::with(&[("limits.reset_mails_per_address", "40")]);
    server.sign_up("ann@example.com");
    let gate = Barrier::new(50);
    let answers: Vec<u16> = thread::scope(|scope| {
        let asking: Vec<_> = (0..50)
            .map(|n| {
                let (server, gate) = (&server, &gate);
                scope.spawn(move || {
                    gate.wait();
                    // Both routes share the limits.
                    let path = [SEND, SEND_TOO][n % 2];
                    let body = json!({"email": "ann@example.com"});
                    server.partner("POST", path, &body).status
                })
            })
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // The limit of the address answers 429. The limit of the account is silent.
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 40);
    assert_eq!(answers.iter().filter(|status| **status == 429).count(), 10);
    assert_eq!(mails(&server).len(), 3);
    assert_eq!(send(&server, "ann@example.com").status, 429);
    server.wait(3_600);
    assert_eq!(send(&server, "ann@example.com").status, 200);
    assert_eq!(mails(&server).len(), 4);
}
