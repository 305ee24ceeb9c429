//! Sign-up, login and logout as clients see them.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer, viewer};

const AUTH: &str = "/api/login/v2/auth/email";

fn login(server: &TestServer, email: &str, password: &str) -> Answer {
    let body = json!({"identity": email, "accessKey": password});
    server.partner("POST", AUTH, &body)
}

#[test]
fn sign_up_and_login_responses_are_as_specified() {
    let server = TestServer::start();
    let body = json!({
        "identity": " Ann@Example.COM ", "accessKey": PASSWORD, "name": "Ann", "locale": "sv",
        "country": "se", "birthDate": "1990-02-03",
        // Members that a client may not set are ignored.
        "userId": "x", "tags": ["vip"], "parentalControl": {"enabled": true}, "verified": true,
    });
    let answer = server.partner("PUT", AUTH, &body);
    let first = viewer(&answer);
    let json = answer.json();
    assert!(first.token.starts_with("pgu_") && first.id.len() == 22);
    let rest = |json: &Value| {
        let names = ["name", "openId", "registered", "newUser"];
        names.map(|name| json[name].clone())
    };
    assert_eq!(json.as_object().unwrap().len(), 7);
    let expected = json!(["Ann", "ann@example.com", true, true]);
    assert_eq!(json!(rest(&json)), expected);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let answer = login(&server, "ANN@example.com", PASSWORD);
    let second = viewer(&answer);
    assert_eq!(answer.json()["newUser"], false);
    assert_eq!(first.id, second.id);
    assert!(first.token != second.token && first.session != second.session);
    let record = server.user(
        &second.token,
        "GET",
        &format!("/api/user/v1/users/{}", first.id),
        &Value::Null,
    );
    assert_eq!(
        record.json(),
        json!({
            "userId": first.id, "email": "ann@example.com", "name": "Ann", "country": "SE",
            "locale": "sv", "birthDate": "1990-02-03", "createdTimestamp": 1_767_268_800,
            "tags": [], "parentalControl": {"enabled": false, "limit": 18},
        })
    );
}

#[test]
fn sign_up_errors_name_the_field() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let sign_up = |body: &Value| {
        let answer = server.partner("PUT", AUTH, body);
        // Existing clients read the message at the top level.
        assert_eq!(answer.json()["message"], answer.json()["error"]["message"]);
        (answer.status, answer.code(), answer.field())
    };
    let bad = |field: &str| (400, "INVALID_REQUEST".to_owned(), field.to_owned());
    let refused = |status, code: &str, field: &str| (status, code.to_owned(), field.to_owned());
    assert_eq!(sign_up(&json!({"accessKey": PASSWORD})), bad("identity"));
    for identity in [
        json!(["a@example.com"]),
        json!({}),
        json!("a"),
        json!("а@example.com\u{430}"),
    ] {
        assert_eq!(
            sign_up(&json!({"identity": identity, "accessKey": PASSWORD})),
            bad("identity")
        );
    }
    let with =
        |password: Value| sign_up(&json!({"identity": "bob@example.com", "accessKey": password}));
    assert_eq!(with(json!(12_345_678)), bad("accessKey"));
    let bad_password = |code: &str| refused(400, code, "accessKey");
    let common = bad_password("PASSWORD_TOO_COMMON");
    assert_eq!(with(json!("seven77")), bad_password("PASSWORD_TOO_SHORT"));
    assert_eq!(with(json!("password1")), common);
    assert_eq!(with(json!("Bob@Example.com")), common);
    let long = with(json!("x".repeat(257)));
    assert_eq!(long, bad_password("PASSWORD_TOO_LONG"));
    let again = sign_up(&json!({"identity": "ann@example.com", "accessKey": PASSWORD}));
    assert_eq!(again, refused(409, "EMAIL_IN_USE", "identity"));
    let birth =
        json!({"identity": "bob@example.com", "accessKey": PASSWORD, "birthDate": "2030-01-01"});
    assert_eq!(sign_up(&birth), bad("birthDate"));
    // 256 characters, the last one outside of ASCII, are accepted and compared in full.
    let long = format!("{}ä", "x".repeat(255));
    let body = json!({"identity": "bob@example.com", "accessKey": long});
    assert_eq!(server.partner("PUT", AUTH, &body).status, 200);
    assert_eq!(
        login(&server, "bob@example.com", &"x".repeat(255)).status,
        401
    );
    assert_eq!(
        login(
            &server,
            "bob@example.com",
            &format!("{}a\u{308}", "x".repeat(255))
        )
        .status,
        200
    );
}

/// Equal times are proven by `guessing`, which counts hashes, and measured by `benches/login`.
#[test]
fn an_unknown_user_and_a_wrong_password_look_the_same() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let shut = server.sign_up("shut@example.com");
    let target = format!("users/{}", shut.id);
    server.operator("PUT", &target, &json!({"disabled": true}));
    let known = login(&server, "ann@example.com", "wrong wrong");
    assert_eq!(
        (known.status, known.code().as_str()),
        (401, "INVALID_CREDENTIALS")
    );
    assert_eq!(known.header("www-authenticate"), Some("Bearer"));
    for (email, password) in [
        ("nobody@example.com", "wrong wrong"),
        ("nobody@example.com", PASSWORD),
        ("shut@example.com", PASSWORD),
        ("ann@example.com", ""),
    ] {
        let answer = login(&server, email, password);
        assert_eq!((answer.status, &answer.body), (401, &known.body), "{email}");
        for name in [
            "www-authenticate",
            "cache-control",
            "content-type",
            "retry-after",
        ] {
            assert_eq!(answer.header(name), known.header(name), "{email}: {name}");
        }
    }
}

#[test]
fn ten_wrong_passwords_are_checked_before_the_lock() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    for email in ["ann@example.com", "nobody@example.com"] {
        let statuses: Vec<(u16, Option<String>)> = thread::scope(|scope| {
            let guesses: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        (0..5)
                            .map(|_| {
                                let answer = login(&server, email, "wrong wrong");
                                let wait = answer.header("retry-after").map(str::to_owned);
                                (answer.status, wait)
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            guesses
                .into_iter()
                .flat_map(|guess| guess.join().unwrap())
                .collect()
        });
        assert_eq!(
            statuses.iter().filter(|(status, _)| *status == 401).count(),
            10
        );
        assert!(
            statuses
                .iter()
                .all(|answer| *answer == (401, None) || *answer == (429, Some("60".into())))
        );
    }
    let refused = login(&server, "ann@example.com", PASSWORD);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "TOO_MANY_ATTEMPTS")
    );
    assert_eq!(
        refused.json()["error"]["details"],
        json!({"retryAfter": 60})
    );
    let headers = ["ratelimit", "ratelimit-policy"].map(|name| refused.header(name).unwrap());
    let limit = ["\"login-account\";r=0;t=60", "\"login-account\";q=10;w=900"];
    assert_eq!(headers, limit);
    server.wait(60);
    assert_eq!(login(&server, "ann@example.com", PASSWORD).status, 200);
}

#[test]
fn sign_ups_are_limited_per_address() {
    let server = TestServer::with(&[("limits.sign_up_per_address", "3")]);
    let sign_up = |n: u32| {
        let body = json!({"identity": format!("u{n}@example.com"), "accessKey": PASSWORD});
        server.partner("PUT", AUTH, &body)
    };
    assert!((0..3).all(|n| sign_up(n).status == 200));
    let refused = sign_up(3);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "TOO_MANY_ATTEMPTS")
    );
    assert_eq!(refused.header("retry-after"), Some("600"));
    assert_eq!(
        refused.header("ratelimit-policy"),
        Some("\"sign-up\";q=3;w=600")
    );
    server.wait(600);
    assert_eq!(sign_up(3).status, 200);
}

#[test]
fn users_belong_to_one_partner() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let other = server
        .operator("POST", "partners", &json!({"name": "Other"}))
        .json();
    let other = other["accessToken"].as_str().unwrap();
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD});
    let elsewhere = server.partner_with(other, "POST", AUTH, &body);
    assert_eq!(elsewhere.status, 401);
    let twin = viewer(&server.partner_with(other, "PUT", AUTH, &body));
    assert_ne!(twin.id, ann.id);
    // A token of one partner is worthless with another.
    let record = format!("/api/user/v1/users/{}", twin.id);
    let foreign = server.user(&twin.token, "GET", &record, &Value::Null);
    assert_eq!(
        (foreign.status, foreign.code().as_str()),
        (401, "USER_TOKEN_INVALID")
    );
    assert!(
        foreign
            .header("www-authenticate")
            .unwrap()
            .contains("invalid_token")
    );
}

#[test]
fn a_token_is_rejected_right_after_its_session_ends() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let record = format!("/api/user/v1/users/{}", ann.id);
    let reads = |token: &str| server.user(token, "GET", &record, &Value::Null).status;
    assert_eq!(reads(&ann.token), 200);
    let out = server.user(
        &ann.token,
        "POST",
        "/api/login/v2/auth/logout",
        &Value::Null,
    );
    assert_eq!((out.status, out.json()), (200, json!({})));
    assert_eq!(reads(&ann.token), 401);
    let again = viewer(&login(&server, "ann@example.com", PASSWORD));
    // Each use moves the idle limit.
    server.wait(60 * 86_400 - 1);
    assert_eq!(reads(&again.token), 200);
    server.wait(1);
    assert_eq!(reads(&again.token), 200);
    server.wait(60 * 86_400);
    assert_eq!(reads(&again.token), 401);
}

#[test]
fn account_settings_take_effect() {
    let words = tempfile::tempdir().unwrap();
    let swedish = words.path().join("sv");
    fs::create_dir(&swedish).unwrap();
    fs::write(swedish.join("reset.txt"), "Subject: Hej\n\n{email}: {link}").unwrap();
    let server = TestServer::with(&[
        ("accounts.user_token_days", "1"),
        ("accounts.reset_token_minutes", "5"),
        (
            "accounts.reset_url",
            "https://pw.example/{locale}/new#{token}",
        ),
        ("accounts.password_min", "12"),
        ("accounts.password_words", "Springfield"),
        ("mail.templates", words.path().to_str().unwrap()),
        ("parental.limit", "15"),
        ("limits.login_wrong_per_account", "2"),
        ("limits.reset_mails_per_account", "1"),
        ("limits.pin_wrong", "2"),
    ]);
    let sign_up = |password: &str| {
        let body = json!({"identity": "ben@example.com", "accessKey": password});
        server.partner("PUT", AUTH, &body).code()
    };
    assert_eq!(sign_up("eleven more"), "PASSWORD_TOO_SHORT");
    assert_eq!(sign_up("springfield7"), "PASSWORD_TOO_COMMON");
    let ann = server.sign_up("ann@example.com");
    let user_path = format!("/api/user/v1/users/{}", ann.id);
    let record = || server.user(&ann.token, "GET", &user_path, &Value::Null);
    assert_eq!(record().json()["parentalControl"]["limit"], 15);

    let pin = |body: Value| server.user(&ann.token, "PUT", &format!("{user_path}/pin"), &body);
    let first = pin(json!({"password": PASSWORD, "newPinCode": "1234"}));
    assert_eq!(first.status, 200);
    let wrong = || pin(json!({"pinCode": "4321", "newPinCode": "4321"})).status;
    assert_eq!([wrong(), wrong(), wrong()], [403, 403, 429]);
    let wrong = || login(&server, "ann@example.com", "wrong wrong").status;
    assert_eq!([wrong(), wrong(), wrong()], [401, 401, 429]);

    for _ in 0..2 {
        let body = json!({"email": "ann@example.com", "locale": "sv"});
        let send = "/api/login/v2/password/send-reset-password";
        assert_eq!(server.partner("POST", send, &body).status, 200);
    }
    let mails = server.operator("GET", "mail", &Value::Null).json();
    assert_eq!(mails.as_array().unwrap().len(), 1);
    let target = format!("mail/{}", mails[0]["id"].as_str().unwrap());
    let mail = server.operator("GET", &target, &Value::Null).json();
    assert_eq!(mail["subject"], "Hej");
    let link = "ann@example.com: https://pw.example/sv/new#";
    let text = mail["text"].as_str().unwrap();
    let token = text.strip_prefix(link).unwrap_or_else(|| panic!("{text}"));
    assert!(
        mail["html"]
            .to_string()
            .contains("https://pw.example/sv/new#")
    );
    let reset = || {
        let body = json!({"token": token, "password": "short"});
        let target = "/api/login/v2/password/reset";
        server.partner("POST", target, &body).code()
    };
    server.wait(299);
    assert_eq!(reset(), "PASSWORD_TOO_SHORT");
    server.wait(1);
    assert_eq!(reset(), "RESET_TOKEN_INVALID");
    server.wait(86_400 - 301);
    assert_eq!(record().status, 200);
    server.wait(1);
    assert_eq!(record().status, 401);
}

#[test]
fn known_device_logs_in_while_strangers_guess_and_the_answers_name_the_same_limit() {
    let server = TestServer::with(&[("http.trusted_proxies", "127.0.0.1")]);
    let log_in = |from: &str, device: &str, password: &str| {
        let body = json!({"identity": "ann@example.com", "accessKey": password}).to_string();
        let headers = [("X-Forwarded-For", from), ("Service-Play-DeviceId", device)];
        let token = [("Service-AccessToken", server.partner.as_str())];
        let headers = [token.as_slice(), &headers].concat();
        ask(server.public, request("POST", AUTH, &headers, &body))
    };
    server.sign_up("ann@example.com");
    assert_eq!(log_in("192.0.2.1", "tv-1", PASSWORD).status, 200);
    for n in 0..10 {
        let guess = log_in(&format!("198.51.100.{n}"), "tv-2", "wrong wrong");
        assert_eq!(guess.status, 401);
    }
    let stranger = log_in("198.51.100.99", "tv-2", PASSWORD);
    assert_eq!(stranger.code(), "TOO_MANY_ATTEMPTS");
    // The network, and the device elsewhere.
    assert_eq!(log_in("192.0.2.1", "tv-2", PASSWORD).status, 200);
    assert_eq!(log_in("203.0.113.1", "tv-1", PASSWORD).status, 200);
    for _ in 0..10 {
        assert_eq!(log_in("192.0.2.1", "tv-9", "wrong wrong").status, 401);
    }
    let known = log_in("192.0.2.1", "tv-9", PASSWORD);
    let told = |response: &Answer| response.json()["details"].clone();
    assert_eq!(
        (known.code(), told(&known)),
        (stranger.code(), told(&stranger))
    );
}
