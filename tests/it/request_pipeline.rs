//! Properties of every response: the order of checks, the form and language of errors, CORS, request ids, HEAD.

use std::sync::atomic::Ordering;

use crate::support::gate_only::{GateOnly, USER};
use crate::support::raw_http::{Answer, Wire, ask, request};
use playgate_config::http::CorsOrigins;

const LIVE: &str = "/api/schedule/v1/broadcasts/live";
const LOGIN: &str = "/api/login/v2/auth/email";

fn get(server: &GateOnly, target: &str, headers: &[(&str, &str)]) -> Answer {
    ask(server.public, request("GET", target, headers, ""))
}

#[test]
fn checks_run_in_the_documented_order() {
    let server = GateOnly::start();
    let partner = server.gate.tokens.partner.reveal();
    let bearer = format!("Bearer {}", server.gate.tokens.user.reveal());
    let huge = " ".repeat(20_000);
    // Everything is wrong at first. Each step corrects the check that failed.
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    let mut step =
        |status: u16, method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
            expected.push(status);
            seen.push(ask(server.public, request(method, target, headers, body)).status);
        };
    let good = format!("/api/user/v1/users/{USER}/password");
    let coding = ("Content-Encoding", "br");
    step(404, "PATCH", "/api/user/v1/nothing", &[coding], &huge);
    step(405, "PATCH", &good, &[coding], &huge);
    step(401, "PUT", &good, &[coding], &huge);
    step(
        401,
        "PUT",
        &good,
        &[coding, ("Service-AccessToken", partner)],
        &huge,
    );
    let tokens = [
        coding,
        ("Service-AccessToken", partner),
        ("Authorization", &*bearer),
    ];
    server.gate.admitted.store(0, Ordering::SeqCst);
    step(429, "PUT", &good, &tokens, &huge);
    server.gate.admitted.store(u32::MAX, Ordering::SeqCst);
    step(413, "PUT", &good, &tokens, &huge);
    step(415, "PUT", &good, &tokens, "no json");
    step(400, "PUT", &good, &tokens[1..], "no json");
    assert_eq!(seen, expected);
}

#[test]
fn rate_limits_send_retry_after() {
    let server = GateOnly::start();
    server.gate.admitted.store(0, Ordering::SeqCst);
    let headers = [("Service-AccessToken", server.gate.tokens.partner.reveal())];
    let answer = ask(server.public, request("POST", LOGIN, &headers, "{}"));
    assert_eq!(answer.header("retry-after"), Some("60"));
    assert_eq!(answer.code(), "TOO_MANY_ATTEMPTS");
    assert_eq!(answer.json()["error"]["details"]["retryAfter"], 60);
}

#[test]
fn every_401_has_www_authenticate() {
    let server = GateOnly::start();
    let partner = ("Service-AccessToken", server.gate.tokens.partner.reveal());
    let export = format!("/api/user/v1/users/{USER}/export");
    let challenge = |headers: &[(&str, &str)]| {
        let answer = get(&server, &export, headers);
        assert_eq!(answer.status, 401, "{headers:?}");
        answer.header("www-authenticate").unwrap().to_owned()
    };
    assert_eq!(challenge(&[]), "Service-AccessToken");
    assert_eq!(challenge(&[partner]), "Bearer");
    assert_eq!(
        challenge(&[partner, ("Authorization", "Basic eDp5")]),
        "Bearer"
    );
    let user = server.gate.tokens.user.reveal();
    let two_words = format!("Bearer x {user}");
    let cut = format!("Bearer {}", &user[..46]);
    let long = format!("Bearer {user}{}", "x".repeat(8_000));
    let cased = format!("Bearer {}", user.to_uppercase());
    for bad in [
        "Bearer x",
        &two_words,
        &cut,
        &long,
        &cased,
        "Bearer eyJhbGciOiJub25lIn0.e30.",
    ] {
        assert_eq!(
            challenge(&[partner, ("Authorization", bad)]),
            "Bearer error=\"invalid_token\""
        );
    }
}

#[test]
fn the_scheme_is_case_insensitive_and_repeated_tokens_are_400() {
    let server = GateOnly::start();
    let partner = ("Service-AccessToken", server.gate.tokens.partner.reveal());
    let other = format!("/api/user/v1/users/{}", "A".repeat(22));
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let value = format!("{scheme} {}", server.gate.tokens.user.reveal());
        let answer = get(&server, &other, &[partner, ("Authorization", &value)]);
        assert_eq!(
            (answer.status, answer.code()),
            (404, "USER_NOT_FOUND".to_owned())
        );
        let twice = [
            partner,
            ("Authorization", &*value),
            ("Authorization", &*value),
        ];
        assert_eq!(get(&server, &other, &twice).status, 400);
    }
    assert_eq!(get(&server, LIVE, &[partner, partner]).status, 400);
}

#[test]
fn errors_use_the_clients_language() {
    let server = GateOnly::start();
    let message = |headers: &[(&str, &str)]| {
        let json = get(&server, LIVE, headers).json();
        json["error"]["user_message"].as_str().unwrap().to_owned()
    };
    let english = message(&[]);
    let german = message(&[("Accept-Language", "de-CH, en;q=0.5")]);
    assert_ne!(english, german);
    // The user's own language, if the request names none.
    let export = "/api/user/v1/users/x/export";
    let bearer = format!("Bearer {}", server.gate.tokens.user.reveal());
    let tokens = [
        ("Service-AccessToken", server.gate.tokens.partner.reveal()),
        ("Authorization", &*bearer),
    ];
    let swedish = get(&server, export, &tokens).json();
    assert_eq!(swedish["error"]["user_message"], "Kontot finns inte.");
}

#[test]
fn parameter_errors_name_the_parameter() {
    let server = GateOnly::start();
    let token = ("Service-AccessToken", server.gate.tokens.partner.reveal());
    let ids: Vec<_> = (0..201).map(|n| format!("a{n}")).collect();
    let ids = ids.join(",");
    let kilobyte = "x".repeat(1024);
    let long_date = "1".repeat(5_000);
    for (target, field) in [
        (LIVE.to_owned(), "livestreams"),
        (format!("{LIVE}?livestreams="), "livestreams"),
        (format!("{LIVE}?livestreams=,,"), "livestreams"),
        (format!("{LIVE}?livestreams={ids}"), "livestreams"),
        (format!("{LIVE}?livestreams={kilobyte}"), "livestreams"),
        (format!("{LIVE}?livestreams=a&livestreams="), "livestreams"),
        (format!("{LIVE}?livestreams=a&offset=1"), "offset"),
        (format!("{LIVE}?livestreams=a&offset=-86401"), "offset"),
        (format!("{LIVE}?livestreams=a&offset=%2B0"), "offset"),
        (format!("{LIVE}?livestreams=a&offset=1e2"), "offset"),
        (format!("{LIVE}?livestreams=a&offset="), "offset"),
        (format!("{LIVE}?livestreams=a&offset=0&offset=0"), "offset"),
        (
            "/api/schedule/v1/broadcasts/day/2024-02-30?livestreams=a".to_owned(),
            "date",
        ),
        (
            "/api/schedule/v1/broadcasts/day/10000-01-01?livestreams=a".to_owned(),
            "date",
        ),
        (
            "/api/schedule/v1/broadcasts/day/2024-1-1?livestreams=a".to_owned(),
            "date",
        ),
        (
            format!("/api/schedule/v1/livestreams/a/day/{long_date}"),
            "date",
        ),
        (
            "/api/schedule/v1/broadcasts/a%2Cb".to_owned(),
            "broadcastId",
        ),
    ] {
        let answer = get(&server, &target, &[token]);
        assert_eq!(
            (answer.status, answer.field()),
            (400, field.to_owned()),
            "{target:.80}"
        );
    }
}

#[test]
fn an_unsupported_version_error_names_the_supported_one() {
    let server = GateOnly::start();
    for target in [
        "/api/schedule/v2/broadcasts/live",
        "/api/schedule/V1/broadcasts/live",
    ] {
        let answer = get(&server, target, &[]);
        assert_eq!(
            (answer.status, answer.code()),
            (404, "VERSION_NOT_SERVED".to_owned())
        );
        assert!(
            answer.json()["error"]["message"]
                .as_str()
                .unwrap()
                .contains("v1")
        );
    }
}

#[test]
fn errors_below_login_have_a_top_level_message() {
    let server = GateOnly::start();
    let login = "/api/login/v2/auth/email";
    for (method, target, headers, status) in [
        ("PATCH", login, &[][..], 405),
        ("POST", login, &[("Expect", "magic")], 417),
        ("POST", login, &[], 401),
        ("POST", "/api/login/v3/auth/email", &[], 404),
        ("POST", "/api/login/v2/nothing", &[], 404),
    ] {
        let answer = ask(server.public, request(method, target, headers, ""));
        assert_eq!(answer.status, status, "{method} {target}");
        let json = answer.json();
        assert_eq!(json["message"], json["error"]["message"], "{target}");
    }
    let elsewhere = ask(server.public, request("PATCH", LIVE, &[], ""));
    assert_eq!(elsewhere.json().get("message"), None);
}

#[test]
fn a_deprecated_route_names_its_successor() {
    let server =
        GateOnly::with(|settings, _| settings.public_url = "https://tv.example".to_owned());
    let token = ("Service-AccessToken", server.gate.tokens.partner.reveal());
    let answer = get(
        &server,
        "/api/schedule/v1/livestreams/TV%204/live?offset=-60",
        &[token],
    );
    assert!(answer.header("deprecation").unwrap().starts_with('@'));
    assert_eq!(
        answer.header("link").unwrap(),
        "<https://tv.example/api/schedule/v1/broadcasts/live?livestreams=TV%204&offset=-60>; rel=\"successor-version\""
    );
    assert!(
        get(&server, &format!("{LIVE}?livestreams=a"), &[token])
            .header("deprecation")
            .is_none()
    );
}

#[test]
fn cors_allows_any_origin_by_default() {
    let server = GateOnly::start();
    let preflight = request(
        "OPTIONS",
        "/api/playback/v1/heartbeat",
        &[
            ("Origin", "https://player.example"),
            ("Access-Control-Request-Method", "POST"),
            (
                "Access-Control-Request-Headers",
                "authorization,service-accesstoken,service-play-drm",
            ),
        ],
        "",
    );
    let answer = ask(server.public, preflight);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(
        answer.header("access-control-allow-methods"),
        Some("POST, DELETE, OPTIONS")
    );
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some("authorization,service-accesstoken,service-play-drm")
    );
    assert!(answer.header("access-control-max-age").is_some());
    let refused = get(&server, LIVE, &[("Origin", "https://player.example")]);
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
    assert!(
        refused
            .header("access-control-expose-headers")
            .unwrap()
            .contains("Retry-After")
    );
    assert!(refused.header("access-control-allow-credentials").is_none());
}

#[test]
fn cors_allows_only_listed_origins() {
    let server = GateOnly::with(|settings, _| {
        settings.cors_origins = CorsOrigins::Listed(vec!["https://ours.example".to_owned()]);
    });
    let origin = |origin: &str| {
        let answer = get(&server, LIVE, &[("Origin", origin)]);
        answer
            .header("access-control-allow-origin")
            .map(str::to_owned)
    };
    assert_eq!(
        origin("https://ours.example"),
        Some("https://ours.example".to_owned())
    );
    assert_eq!(origin("https://theirs.example"), None);
    assert_eq!(origin("null"), None);
}

#[test]
fn responses_have_ids_and_are_not_cached() {
    let server = GateOnly::start();
    let answer = get(&server, LIVE, &[("X-Request-Id", "ticket-42")]);
    assert_eq!(answer.header("x-request-id"), Some("ticket-42"));
    let made = get(&server, LIVE, &[("X-Request-Id", "a\"b")]);
    assert_eq!(made.header("x-request-id").map(str::len), Some(32));
    for answer in [answer, made] {
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[test]
fn head_equals_get_without_the_body() {
    let server = GateOnly::start();
    let mut wire = Wire::to(server.ops);
    wire.send(request("HEAD", "/livez", &[], ""));
    let answer = wire.answer_to("HEAD").unwrap();
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (200, Some("3"))
    );
    wire.send(request("GET", "/livez", &[], ""));
    assert_eq!(wire.answer().unwrap().body, b"ok\n");
    let mut wire = Wire::to(server.public);
    wire.send(request("HEAD", LIVE, &[], ""));
    assert_eq!(wire.answer_to("HEAD").unwrap().status, 401);
    wire.send(request("GET", LIVE, &[], ""));
    assert_eq!(wire.answer().unwrap().status, 401);
}

#[test]
fn the_header_prefix_setting_renames_headers() {
    let server = GateOnly::with(|settings, _| settings.header_prefix = "Acme-".to_owned());
    let token = server.gate.tokens.partner.reveal();
    let refused = get(&server, LIVE, &[("Service-AccessToken", token)]);
    assert_eq!(refused.header("www-authenticate"), Some("Acme-AccessToken"));
    assert_eq!(
        get(&server, LIVE, &[("ACME-accesstoken", token)]).status,
        400
    );
}

#[test]
fn heartbeat_headers_are_required_bounded_and_unique() {
    let server = GateOnly::start();
    let bearer = format!("Bearer {}", server.gate.tokens.user.reveal());
    let all = [
        (
            "Service-AccessToken",
            server.gate.tokens.partner.reveal().to_owned(),
        ),
        ("Authorization", bearer),
        ("Service-Play-DRM", "widevine".to_owned()),
        ("Service-Play-Protocol", "dash".to_owned()),
        ("Service-Play-EntitlementId", "x".to_owned()),
        ("Service-Play-DevicePlatform", "web".to_owned()),
        ("Service-Play-DeviceType", "desktop".to_owned()),
        ("Service-Play-DeviceModel", "chrome".to_owned()),
        ("Service-Play-DeviceId", "d1".to_owned()),
        ("Service-Play-Session", "not-one-of-ours".to_owned()),
        ("Service-Play-Timestamp", "1767268800.5".to_owned()),
        ("Service-Play-Bitrate", "-1".to_owned()),
        ("Service-Play-ResolutionWidth", "0".to_owned()),
        ("Service-Play-ResolutionHeight", "0".to_owned()),
    ];
    let beat = |headers: &[(&str, String)]| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        ask(
            server.public,
            request("POST", "/api/playback/v1/heartbeat", &headers, ""),
        )
    };
    let answer = beat(&all);
    assert_eq!(
        (answer.status, answer.code()),
        (404, "SESSION_NOT_FOUND".to_owned())
    );
    for at in 2..all.len() {
        let name = all[at].0;
        let mut changed = all.clone().to_vec();
        let missing = changed.remove(at);
        assert_eq!(beat(&changed).field(), name, "missing");
        changed.extend([missing.clone(), missing]);
        assert_eq!(beat(&changed).field(), name, "twice");
        // Ids are opaque, and no label of a device stops playback.
        let takes_any_length = [
            "Service-Play-EntitlementId",
            "Service-Play-Session",
            "Service-Play-DevicePlatform",
            "Service-Play-DeviceType",
            "Service-Play-DeviceModel",
        ];
        if !takes_any_length.contains(&name) {
            let mut changed = all.clone();
            changed[at].1 = "x".repeat(4_096);
            assert_eq!(beat(&changed).field(), name, "too long");
        }
    }
}

#[test]
fn a_panic_answers_500_and_the_connection_survives() {
    let server = GateOnly::start();
    let mut wire = Wire::to(server.public);
    let token = ("Service-AccessToken", server.gate.tokens.panicking.reveal());
    wire.send(request("GET", LIVE, &[token], ""));
    let answer = wire.answer().unwrap();
    assert_eq!((answer.status, answer.code()), (500, "INTERNAL".to_owned()));
    assert!(!String::from_utf8(answer.body).unwrap().contains("purpose"));
    wire.send(request("GET", LIVE, &[], ""));
    assert_eq!(wire.answer().unwrap().status, 401);
    assert_eq!(server.http.metrics.panics.get(), 1);
}

#[test]
fn xmltv_and_m3u_accept_the_token_in_the_query() {
    let server = GateOnly::start();
    let token = server.gate.tokens.partner.reveal();
    let status = |target: &str| get(&server, target, &[]).status;
    assert_eq!(status("/api/schedule/v1/xmltv"), 401);
    assert_eq!(status("/api/schedule/v1/xmltv?accessToken=x"), 401);
    assert_ne!(
        status(&format!("/api/schedule/v1/xmltv?accessToken={token}")),
        401
    );
    assert_eq!(
        status(&format!("{LIVE}?livestreams=a&accessToken={token}")),
        401
    );
}
