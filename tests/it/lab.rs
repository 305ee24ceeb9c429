//! The partner lab: faults and clocks of lab partners, which have no effect on other partners.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use playgate_api::route_table::ROUTERS;
use playgate_http::{Endpoint, Route};
use serde_json::{Value, json};

use crate::support::gate_only::NOON;
use crate::support::playback_fixture::{FILM_KEY, PlaybackFixture, Player};
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::{TestServer, viewer};
use crate::support::stop_on_drop::StopOnDrop;
use crate::support::until::until;

const FAULTS: &str = "partners/Lab/faults";

/// A fixture whose partner is a lab partner; the standard partner Acme exists too.
fn lab() -> PlaybackFixture {
    lab_with(&[])
}

fn lab_with(settings: &[(&'static str, &str)]) -> PlaybackFixture {
    let mut fixture = PlaybackFixture::with(settings);
    let body = json!({"name": "Lab", "kind": "lab"});
    let made = fixture.server.operator("POST", "partners", &body).json();
    fixture.server.partner = made["accessToken"].as_str().unwrap().to_owned();
    fixture.ann = fixture.server.sign_up("ann@example.com");
    fixture
}

/// Returns an access token of the standard partner.
fn acme_token(fixture: &PlaybackFixture) -> String {
    let made = fixture
        .server
        .operator("POST", "partners/Acme/tokens", &Value::Null);
    made.json()["accessToken"].as_str().unwrap().to_owned()
}

fn add(fixture: &PlaybackFixture, fault: &Value) {
    let answer = fixture.server.operator("POST", FAULTS, fault);
    assert_eq!(answer.status, 200, "{}", answer.json());
}

fn clear(fixture: &PlaybackFixture) {
    assert_eq!(
        fixture
            .server
            .operator("DELETE", FAULTS, &Value::Null)
            .status,
        204
    );
}

const CLEAR_KEY: &str = r#"{"kids":["ABEiM0RVZneImaq7zN3u_w"],"type":"temporary"}"#;

/// Sends one request to a route of [`ROUTES`].
fn call(fixture: &PlaybackFixture, player: &Player, phone_token: &str, route: &str) -> Answer {
    match route {
        "heartbeat" => {
            // Heartbeats have a rate limit.
            fixture.server.wait(1);
            fixture.beat(player, &[])
        }
        "license_clearkey" => fixture.license(player, "clearkey", CLEAR_KEY),
        "entitlement" => fixture.entitle(&fixture.ann, "film", ""),
        // On another device, because a preflight on the same one would displace the player.
        "preflight" => {
            let phone = [("DeviceId", "phone")];
            fixture.preflight(&fixture.ann, "film", phone_token, &phone)
        }
        "livestreams" => {
            let target = "/api/catalog/v1/livestreams";
            fixture.server.partner("GET", target, &Value::Null)
        }
        _ => panic!("{route}"),
    }
}

const ROUTES: [&str; 5] = [
    "heartbeat",
    "license_clearkey",
    "entitlement",
    "preflight",
    "livestreams",
];

#[test]
fn a_fault_applies_to_its_route_as_often_as_configured() {
    let fixture = lab();
    let player = fixture.play(&fixture.ann, "film", "tv");
    // An entitlement is bound to the first device that uses it.
    let phone = fixture.token(&fixture.ann, "film");
    for route in ROUTES {
        for (action, status, code) in [
            (
                json!({"refuse": "SESSION_ENDED"}),
                410,
                Some("SESSION_ENDED"),
            ),
            (
                json!({"refuse": "NO_LIVE_RIGHTS"}),
                552,
                Some("NO_LIVE_RIGHTS"),
            ),
            (json!({"status": 503, "retryAfter": 5}), 503, None),
        ] {
            let fault = json!({"route": route, "after": 1, "times": 1, "do": action});
            add(&fixture, &fault);
            assert_eq!(
                call(&fixture, &player, &phone, route).status,
                200,
                "{fault}"
            );
            for other in ROUTES.into_iter().filter(|other| *other != route) {
                let answer = call(&fixture, &player, &phone, other);
                assert_eq!(
                    (answer.status, answer.header("x-playgate-fault")),
                    (200, None)
                );
            }
            let answer = call(&fixture, &player, &phone, route);
            let status = if status == 552 && route != "heartbeat" {
                403
            } else {
                status
            };
            assert_eq!(answer.status, status, "{fault}");
            let named = answer.header("x-playgate-fault").unwrap().to_owned();
            match code {
                Some(code) => {
                    assert_eq!(answer.status_and_code().1, code);
                    assert!(named.ends_with(&format!("refuse={code}")), "{named}");
                }
                None => {
                    assert!(named.ends_with("status=503"), "{named}");
                    assert_eq!(answer.header("retry-after"), Some("5"));
                }
            }
            let answer = call(&fixture, &player, &phone, route);
            assert_eq!(
                (answer.status, answer.header("x-playgate-fault")),
                (200, None)
            );
            let listed = fixture.server.operator("GET", FAULTS, &Value::Null).json();
            assert_eq!(
                (&listed[0]["calls"], &listed[0]["applied"]),
                (&json!(3), &json!(1))
            );
            clear(&fixture);
        }
    }
}

/// Returns `None` if the connection ends before the complete response.
fn send(fixture: &PlaybackFixture, route: &Route, partner: &str, user: &str) -> Option<Answer> {
    let segments = route.pattern.split('/');
    let filled = segments.map(|name| if name.starts_with('{') { "x" } else { name });
    let target = filled.collect::<Vec<_>>().join("/");
    let bearer = format!("Bearer {user}");
    let headers = [
        ("Service-AccessToken", partner),
        ("Authorization", bearer.as_str()),
    ];
    let method = route.method.as_str();
    let mut wire = Wire::to(fixture.server.public);
    wire.send(request(method, &target, &headers, ""));
    wire.try_answer_to(method).ok().flatten()
}

#[test]
fn every_route_has_every_fault_and_the_same_request_of_another_partner_has_none() {
    let fixture = lab();
    let acme = acme_token(&fixture);
    let routes: Vec<_> = ROUTERS
        .public
        .routes()
        .iter()
        .filter(|route| matches!(route.endpoint, Endpoint::Partner(_) | Endpoint::User(_)))
        .filter(|route| !route.pattern.starts_with("/api/lab/"))
        .collect();
    assert!(routes.len() > 40);
    let mut user = fixture.ann.clone();
    for (number, route) in routes.into_iter().enumerate() {
        for (action, mark) in [
            (json!({"refuse": "SESSION_ENDED"}), "refuse=SESSION_ENDED"),
            (json!({"status": 503}), "status=503"),
            (json!({"delay": "1ms"}), "delay"),
            (json!({"cut": "head"}), ""),
            (json!({"cut": "body"}), "cut=body"),
        ] {
            // Longer than the windows of all rate limits.
            fixture.server.wait(600);
            if route.label == "logout" {
                user = fixture.viewer(&format!("viewer{number}{mark}").replace('=', ""));
            }
            let what = format!("{} {action}", route.label);
            add(
                &fixture,
                &json!({"route": route.label, "times": 1, "do": action}),
            );
            let other = send(&fixture, route, &acme, &user.token).unwrap();
            assert_eq!(other.header("x-playgate-fault"), None, "{what}");
            let answer = send(&fixture, route, &fixture.server.partner, &user.token);
            let status = answer.as_ref().map(|answer| answer.status);
            let named = answer
                .as_ref()
                .and_then(|answer| answer.header("x-playgate-fault"));
            match (&action, status) {
                (action, None) => assert!(action.get("cut").is_some(), "{what}"),
                (action, Some(status)) => {
                    assert!(action.get("cut").is_none(), "{what}");
                    assert!(named.unwrap().ends_with(mark), "{what}: {named:?}");
                    match mark {
                        "refuse=SESSION_ENDED" => assert_eq!(status, 410, "{what}"),
                        "status=503" => assert_eq!(status, 503, "{what}"),
                        _ => assert!(status < 500, "{what}"),
                    }
                }
            }
            if route.label == "logout" {
                user = fixture.viewer(&format!("again{number}{mark}").replace('=', ""));
            }
            let control = send(&fixture, route, &fixture.server.partner, &user.token).unwrap();
            assert_eq!(control.header("x-playgate-fault"), None, "{what}");
            clear(&fixture);
            if route.label == "logout" {
                user = fixture.viewer(&format!("next{number}{mark}").replace('=', ""));
            }
        }
    }
}

#[test]
fn delay_holds_the_answer_back() {
    let fixture = lab();
    let player = fixture.play(&fixture.ann, "film", "tv");
    add(
        &fixture,
        &json!({"route": "any", "times": 1, "do": {"delay": "300ms", "jitter": "50ms"}}),
    );
    let began = Instant::now();
    let late = fixture.beat(&player, &[]);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(
        (late.status, late.header("x-playgate-fault")),
        (200, Some("f1 delay"))
    );
}

/// Returns what a client receives before the connection ends.
fn received(fixture: &PlaybackFixture, bytes: &str) -> String {
    let mut wire = Wire::to(fixture.server.public);
    wire.send(bytes);
    let mut all = Vec::new();
    // A reset ends the connection as well.
    let _ = wire.stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn cut_ends_the_connection_before_or_within_the_answer() {
    let fixture = lab();
    let headers = [("Service-AccessToken", fixture.server.partner.as_str())];
    let bytes = request("GET", "/api/catalog/v1/livestreams", &headers, "");
    let cut = |at: &str| {
        add(
            &fixture,
            &json!({"route": "livestreams", "times": 1, "do": {"cut": at}}),
        );
        let text = received(&fixture, &bytes);
        clear(&fixture);
        text
    };
    assert_eq!(cut("head"), "");
    let text = cut("body");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("x-playgate-fault: f2 cut=body"), "{head}");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().parse().unwrap();
    assert_eq!(body.len(), length / 2, "{text}");
    let whole = ask(fixture.server.public, bytes);
    assert_eq!((whole.status, whole.body.len()), (200, length));
}

#[test]
fn license_faults_spoil_successful_licenses_only() {
    let fixture = lab();
    let player = fixture.play(&fixture.ann, "film", "tv");
    let with = |fault: &str| {
        let fault = json!({"route": "license_clearkey", "do": {"license": fault}});
        add(&fixture, &fault);
        let answers = [0, 1].map(|_| fixture.license(&player, "clearkey", CLEAR_KEY));
        let refused = fixture.license(&player, "clearkey", r#"{"kids":["AAAA"]}"#);
        clear(&fixture);
        assert!(refused.status >= 400 && refused.header("x-playgate-fault").is_none());
        let [first, second] = answers;
        assert!(first.header("x-playgate-fault").is_some());
        assert_eq!((first.status, second.status), (200, 200));
        first
    };
    assert_eq!(with("garbage").body.len(), 512);
    assert!(with("empty").body.is_empty());
    let foreign = with("foreignKid").json();
    let key = &foreign["keys"][0];
    assert_eq!(key["k"], FILM_KEY.1);
    assert_ne!(key["kid"], FILM_KEY.0);
    let control = fixture.license(&player, "clearkey", CLEAR_KEY).json();
    assert_eq!(control["keys"][0]["kid"], FILM_KEY.0);
}

#[test]
fn playlist_faults_spoil_the_address_of_a_preflight() {
    let fixture = lab();
    let token = fixture.token(&fixture.ann, "film");
    let address = |fault: Option<&str>| {
        if let Some(fault) = fault {
            add(
                &fixture,
                &json!({"route": "preflight", "do": {"playlist": fault}}),
            );
        }
        let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
        clear(&fixture);
        assert_eq!(started.status, 200, "{}", started.json());
        assert_eq!(
            started.header("x-playgate-fault").is_some(),
            fault.is_some()
        );
        started.json()["playlist"].as_str().unwrap().to_owned()
    };
    let fetch = |fault| fixture.fetch(&address(fault), &[]);
    assert_eq!(fetch(None).status, 200);
    let expired = (403, "PLAYLIST_TOKEN_INVALID".to_owned());
    assert_eq!(fetch(Some("expired")).status_and_code(), expired);
    let missing = (404, "FILE_NOT_FOUND".to_owned());
    assert_eq!(fetch(Some("missing")).status_and_code(), missing);
    // Files of the media directory have no time; the demo's tests check that the manifest of a loop channel stands
    // still.
    let stale = address(Some("stale"));
    assert_eq!(fixture.fetch(&stale, &[]).body, b"<MPD>film</MPD>");
    let segment = stale.replace("manifest.mpd", "video/1.m4s");
    assert_eq!(fixture.fetch(&segment, &[]).body, b"0123456789");
}

#[test]
fn conditions_select_requests() {
    let fixture = lab();
    let ben = fixture.viewer("ben");
    let ann = fixture.play(&fixture.ann, "film", "tv");
    let phone = fixture.play(&fixture.ann, "clear", "phone");
    let other = fixture.play(&ben, "film", "tv");
    for (matching, expected) in [
        (json!({"user": "ann@example.com"}), [true, true, false]),
        (json!({"user": ben.id}), [false, false, true]),
        (json!({"asset": "clear"}), [false, true, false]),
        (json!({"device": "tv"}), [true, false, true]),
        (json!({"session": ann.session}), [true, false, false]),
        (
            json!({"asset": "film", "user": "ann@example.com"}),
            [true, false, false],
        ),
    ] {
        let fault =
            json!({"route": "heartbeat", "match": matching, "do": {"refuse": "SESSION_ENDED"}});
        add(&fixture, &fault);
        let refused = [&ann, &phone, &other].map(|player| fixture.beat(player, &[]).status == 410);
        assert_eq!(refused, expected, "{fault}");
        clear(&fixture);
    }
}

/// Adds a heartbeat fault with these members, which must be rejected because of `field`.
fn refuses(fixture: &PlaybackFixture, members: &Value, field: &str, words: &str) {
    let mut fault = json!({"route": "heartbeat", "do": {"refuse": "SESSION_ENDED"}});
    for (name, value) in members.as_object().unwrap() {
        fault[name] = value.clone();
    }
    let answer = fixture.server.operator("POST", FAULTS, &fault);
    let error = &answer.json()["error"];
    assert_eq!(
        (answer.status, &error["details"]["field"]),
        (400, &json!(field)),
        "{fault}"
    );
    assert!(
        error["message"].as_str().unwrap().contains(words),
        "{error}"
    );
    let listed = fixture.server.operator("GET", FAULTS, &Value::Null).json();
    assert_eq!(listed, json!([]));
}

#[test]
fn a_bad_fault_is_refused_with_its_reason() {
    let fixture = lab();
    for (members, field, words) in [
        (
            json!({"route": "heartbeets"}),
            "route",
            "must be any, license",
        ),
        (json!({"route": "origin"}), "route", "must be any, license"),
        (json!({"route": "admin_partners"}), "route", "must be any"),
        (json!({"matches": {}}), "matches", "is unknown"),
        (json!({"times": 0}), "times", "must be from 1"),
        (json!({"after": -1}), "after", "must be from 0"),
        (json!({"probability": 0}), "probability", "above 0"),
        (json!({"probability": 1.5}), "probability", "at most 1"),
        (json!({"until": "soon"}), "until", "must be a number with"),
        (
            json!({"match": {"users": "x"}}),
            "match.users",
            "is unknown",
        ),
        (
            json!({"match": {"user": "nobody"}}),
            "match.user",
            "id or an",
        ),
        (json!({"match": {"session": "x"}}), "match.session", ""),
    ] {
        refuses(&fixture, &members, field, words);
    }
    for (matching, code) in [
        (json!({"user": "nobody@example.com"}), "USER_NOT_FOUND"),
        (json!({"asset": "nothing"}), "ASSET_NOT_FOUND"),
    ] {
        let fault = json!({"route": "heartbeat", "match": matching, "do": {"cut": "head"}});
        let answer = fixture.server.operator("POST", FAULTS, &fault);
        assert_eq!(answer.status_and_code(), (404, code.to_owned()));
    }
    let unknown = "partners/Lab/faults/f9";
    let gone = fixture.server.operator("DELETE", unknown, &Value::Null);
    assert_eq!(gone.status_and_code(), (404, "FAULT_NOT_FOUND".to_owned()));
}

#[test]
fn a_bad_action_is_refused_with_its_reason() {
    let fixture = lab();
    let two = json!({"refuse": "SESSION_ENDED", "cut": "head"});
    for (action, field, words) in [
        (json!({}), "do", "must have refuse"),
        (two, "do", "one action only"),
        (json!({"refuse": "NO_SUCH"}), "do.refuse", "no error code"),
        (json!({"delay": "1h"}), "do.delay", "at most 120s"),
        (json!({"cut": "head", "jitter": "1s"}), "do.jitter", "needs"),
        (json!({"status": 200}), "do.status", "from 400 to 599"),
        (
            json!({"license": "empty"}),
            "do.license",
            "can never happen",
        ),
        (
            json!({"playlist": "stale"}),
            "do.playlist",
            "can never happen",
        ),
    ] {
        refuses(&fixture, &json!({"do": action}), field, words);
    }
    let widevine = json!({"route": "license_widevine", "do": {"license": "foreignKid"}});
    refuses(
        &fixture,
        &widevine,
        "do.license",
        "needs route license_clearkey",
    );
}

#[test]
fn a_condition_that_no_request_of_the_route_can_meet_is_refused() {
    let fixture = lab();
    for (route, condition) in [
        ("livestreams", "user"),
        ("login", "asset"),
        ("entitlement", "device"),
        ("preflight", "session"),
    ] {
        let members = json!({"route": route, "match": {condition: "x"}});
        let field = format!("match.{condition}");
        refuses(&fixture, &members, &field, "can never match");
    }
}

#[test]
fn other_partners_have_neither_faults_nor_clocks() {
    let fixture = lab();
    let cut = json!({"route": "any", "do": {"cut": "head"}});
    for (method, target, body) in [
        ("POST", "partners/Acme/faults", &cut),
        ("GET", "partners/Acme/faults", &Value::Null),
        ("DELETE", "partners/Acme/faults", &Value::Null),
        ("PUT", "partners/Acme/clock", &json!({"advance": 60})),
    ] {
        let answer = fixture.server.operator(method, target, body);
        assert_eq!(
            answer.status_and_code(),
            (403, "LAB_NOT_ALLOWED".to_owned()),
            "{target}"
        );
    }
    // A standard partner works while every request of the lab partner fails.
    let token = acme_token(&fixture);
    let token = token.as_str();
    add(
        &fixture,
        &json!({"route": "any", "do": {"refuse": "INTERNAL"}}),
    );
    let target = "/api/catalog/v1/livestreams";
    for _ in 0..20 {
        let answer = fixture
            .server
            .partner_with(token, "GET", target, &Value::Null);
        assert_eq!(
            (answer.status, answer.header("x-playgate-fault")),
            (200, None)
        );
        let failed = fixture.server.partner("GET", target, &Value::Null);
        assert_eq!(failed.status, 500);
    }
}

#[test]
fn a_partners_clock_moves_its_schedule_and_no_other() {
    let fixture = lab();
    let token = acme_token(&fixture);
    let token = token.as_str();
    let live = |token: &str| {
        let target = "/api/schedule/v1/broadcasts/live?livestreams=news";
        let answer = fixture
            .server
            .partner_with(token, "GET", target, &Value::Null);
        let date = answer.header("date").unwrap().to_owned();
        let json = answer.json();
        let title = json
            .pointer("/broadcasts/0/title")
            .or(json.pointer("/0/title"));
        (title.cloned().unwrap_or(json.clone()).to_string(), date)
    };
    let ours = || live(&fixture.server.partner);
    let (before, date) = ours();
    assert_eq!(date, "Thu, 01 Jan 2026 12:00:00 GMT");
    let clock = "partners/Lab/clock";
    let moved = fixture
        .server
        .operator("PUT", clock, &json!({"advance": 3_600}));
    assert_eq!(
        moved.json(),
        json!({"now": NOON.0 + 3_600, "offset": 3_600})
    );
    let (after, date) = ours();
    assert_ne!(before, after);
    assert_eq!(date, "Thu, 01 Jan 2026 13:00:00 GMT");
    assert_eq!(
        live(token),
        (before.clone(), "Thu, 01 Jan 2026 12:00:00 GMT".to_owned())
    );
    let back = fixture
        .server
        .operator("PUT", clock, &json!({"now": NOON.0}));
    assert_eq!(back.json()["offset"], 0);
    assert_eq!(ours().0, before);
    let frozen = fixture
        .server
        .operator("PUT", clock, &json!({"freeze": true}));
    assert_eq!(
        frozen.status_and_code(),
        (400, "INVALID_REQUEST".to_owned())
    );
}

#[test]
fn the_lab_clock_stops_and_runs_at_another_pace() {
    let fixture = lab();
    let put = |body: Value| fixture.server.operator("PUT", "clock", &body);
    let advanced = put(json!({"advance": 60})).json();
    assert_eq!(
        (&advanced["offset"], &advanced["scale"]),
        (&json!(60), &json!(1.0))
    );
    assert_eq!(put(json!({"freeze": true})).json()["scale"], 0.0);
    fixture.server.wait(100);
    assert_eq!(
        fixture.server.operator("GET", "clock", &Value::Null).json()["now"],
        NOON.0 + 60
    );
    put(json!({"scale": 60}));
    fixture.server.wait(2);
    let read = fixture.server.operator("GET", "clock", &Value::Null);
    assert_eq!(read.json()["now"], NOON.0 + 180);
    assert_eq!(read.header("date"), Some("Thu, 01 Jan 2026 12:03:00 GMT"));
    let reset = fixture
        .server
        .operator("DELETE", "clock", &Value::Null)
        .json();
    assert_eq!(
        (&reset["offset"], &reset["now"]),
        (&json!(0), &json!(NOON.0 + 102))
    );
    for (body, field) in [
        (json!({}), "now"),
        (json!({"now": 1, "offset": 2}), "now"),
        (json!({"scale": 0}), "scale"),
        (json!({"scale": 1e9}), "scale"),
        (json!({"freeze": "yes"}), "freeze"),
        (json!({"advance": "2h"}), "advance"),
        (json!({"speed": 2}), "now"),
    ] {
        let json = put(body.clone()).json();
        assert_eq!(json["error"]["details"]["field"], field, "{body} {json}");
    }
}

/// Returns the number of records in each table after the erasure jobs have run. Excluded are the audit log, the
/// counters by address, and the ids of ended sessions, which exist for an hour and name no user.
fn records(fixture: &PlaybackFixture) -> Vec<(String, u64)> {
    let services = &fixture.server.services;
    while services.telemetry.run_erasures().unwrap() > 0 {}
    while services.journal.run_erasures().unwrap() > 0 {}
    let tables = services.store.verify().unwrap().tables;
    let all = tables
        .into_iter()
        .map(|table| (table.table.to_string(), table.records));
    let apart = ["audit", "throttles", "ended_sessions"];
    all.filter(|(table, _)| !apart.contains(&table.as_str()))
        .collect()
}

const RESET: &str = "partners/Lab/reset";

/// Returns the request journal of a partner, newest first.
fn journal(fixture: &PlaybackFixture, partner: &str) -> Vec<Value> {
    let target = format!("requests?partner={partner}&limit=1000");
    let listed = fixture.server.operator("GET", &target, &Value::Null).json();
    listed.as_array().unwrap().clone()
}

#[test]
fn the_journal_marks_what_a_fault_did_and_nothing_else() {
    let fixture = lab();
    let player = fixture.play(&fixture.ann, "film", "tv");
    add(
        &fixture,
        &json!({"route": "heartbeat", "times": 1, "do": {"refuse": "SESSION_ENDED"}}),
    );
    let refused = fixture.beat(&player, &[]);
    assert_eq!(refused.status_and_code(), (410, "SESSION_ENDED".to_owned()));
    fixture.server.wait(1);
    assert_eq!(fixture.beat(&player, &[]).status, 200);
    // This license fault finds no license that it could spoil.
    add(
        &fixture,
        &json!({"route": "license", "do": {"license": "empty"}}),
    );
    fixture.license(&player, "clearkey", r#"{"kids":["AAAA"]}"#);
    let marked: Vec<_> = journal(&fixture, "Lab")
        .into_iter()
        .map(|one| (one["route"].clone(), one["fault"].clone()))
        .collect();
    let expected = [
        (json!("license_clearkey"), Value::Null),
        (json!("heartbeat"), Value::Null),
        (json!("heartbeat"), json!("f1 refuse=SESSION_ENDED")),
    ];
    assert_eq!(marked[..3], expected);
    assert!(marked[3..].iter().all(|(_, fault)| fault.is_null()));
}

#[test]
fn reset_leaves_no_key_of_the_partner_and_nothing_else_changes() {
    let fixture = lab();
    let acme =
        json!({"partner": "Acme", "email": "zoe@example.com", "password": "a long pass phrase"});
    let zoe = fixture.server.operator("POST", "users", &acme).json();
    let reset = |body: &Value| fixture.server.operator("POST", RESET, body);
    assert_eq!(reset(&json!({})).json(), json!({"removed": 1, "users": 0}));
    let acme = acme_token(&fixture);
    let before = records(&fixture);

    let ann = fixture.viewer("ann");
    let ben = fixture.viewer("ben");
    fixture.protect(&ann);
    for viewer in [&ann, &ben] {
        let player = fixture.play(viewer, "film", "tv");
        fixture.beat(&player, &[]);
    }
    let granted = format!("users/{}/grants/premium", ben.id);
    assert_eq!(
        fixture.server.operator("PUT", &granted, &json!({})).status,
        200
    );
    let send = json!({"email": "ann@example.com"});
    fixture
        .server
        .partner("POST", "/api/login/v2/password/send-reset-password", &send);
    add(
        &fixture,
        &json!({"route": "any", "do": {"cut": "head"}, "after": 1000}),
    );
    fixture
        .server
        .operator("PUT", "partners/Lab/clock", &json!({"advance": 60}));
    assert_ne!(records(&fixture), before);
    let other = || {
        let unknown = "/api/schedule/v1/broadcasts/nothing";
        fixture
            .server
            .partner_with(&acme, "GET", unknown, &Value::Null)
    };
    assert_eq!(other().status, 404);
    assert!(!journal(&fixture, "Lab").is_empty());
    let of_acme = journal(&fixture, "Acme");
    assert!(!of_acme.is_empty());

    assert_eq!(
        reset(&json!({"fixture": "empty"})).json(),
        json!({"removed": 2, "users": 0})
    );
    assert_eq!(records(&fixture), before);
    assert_eq!(journal(&fixture, "Lab"), Vec::<Value>::new());
    assert_eq!(journal(&fixture, "Acme"), of_acme);
    assert_eq!(
        fixture.server.operator("GET", FAULTS, &Value::Null).json(),
        json!([])
    );
    let clock = fixture
        .server
        .operator("GET", "partners/Lab/clock", &Value::Null)
        .json();
    assert_eq!(clock["offset"], 0);
    let zoe = format!("users/{}", zoe["userId"].as_str().unwrap());
    assert_eq!(
        fixture.server.operator("GET", &zoe, &Value::Null).status,
        200
    );
}

#[test]
fn reset_adds_the_users_of_the_fixture_and_a_mistake_changes_nothing() {
    let fixture = lab();
    let done = fixture
        .server
        .operator("POST", RESET, &json!({"fixture": "demo"}));
    assert_eq!(done.json(), json!({"removed": 1, "users": 1}));
    let login = || {
        let body = json!({"identity": "demo@example.com", "accessKey": "demo pass phrase"});
        fixture
            .server
            .partner("POST", "/api/login/v2/auth/email", &body)
            .status
    };
    assert_eq!(login(), 200);
    let fixtures = fixture
        .server
        .services
        .config
        .server
        .data_dir
        .join("fixtures");
    std::fs::create_dir_all(&fixtures).unwrap();
    let offer =
        "[[user]]\nemail = 'a@b.example'\npassword = 'a long pass phrase'\noffers = ['nothing']";
    let user = |more: &str| format!("[[user]]\nemail = 'a@b.example'\n{more}\n");
    let doubled = user("password = 'a long pass phrase'").repeat(2);
    for (name, text, code) in [
        ("toml", "[[user", "INVALID_REQUEST"),
        ("member", "[[user]]\nmail = 'x'", "INVALID_REQUEST"),
        ("offer", offer, "INVALID_REQUEST"),
        (
            "common",
            &user("password = 'password1234'"),
            "PASSWORD_TOO_COMMON",
        ),
        ("short", &user("password = 'x'"), "PASSWORD_TOO_SHORT"),
        ("doubled", &doubled, "INVALID_REQUEST"),
        (
            "limit",
            &user("parentalControl = {limit = 100}"),
            "INVALID_REQUEST",
        ),
    ] {
        std::fs::write(fixtures.join(format!("{name}.toml")), text).unwrap();
        let refused = fixture
            .server
            .operator("POST", RESET, &json!({"fixture": name}));
        assert_eq!(refused.status_and_code(), (400, code.to_owned()), "{name}");
    }
    for (body, status, code) in [
        (json!({"fixture": "nothing"}), 404, "FIXTURE_NOT_FOUND"),
        (json!({"fixture": "../x"}), 400, "INVALID_REQUEST"),
        (json!({"fixtur": "demo"}), 400, "INVALID_REQUEST"),
    ] {
        let answer = fixture.server.operator("POST", RESET, &body);
        assert_eq!(answer.status_and_code(), (status, code.to_owned()));
        // A client of the lab does not learn the layout of the machine.
        let directory = &fixture.server.services.config.server.data_dir;
        let told = String::from_utf8(answer.body.clone()).unwrap();
        assert!(!told.contains(directory.to_str().unwrap()), "{told}");
        assert!(
            status != 404 || told.contains("there is no fixture nothing"),
            "{told}"
        );
    }
    let refused = fixture
        .server
        .operator("POST", "partners/Acme/reset", &json!({}));
    assert_eq!(
        refused.status_and_code(),
        (403, "LAB_NOT_ALLOWED".to_owned())
    );
    assert_eq!(login(), 200);
}

#[test]
fn a_lab_partner_reads_its_clock_and_mail_with_its_own_token() {
    let fixture = lab();
    let token = acme_token(&fixture);
    let token = token.as_str();
    let send = json!({"email": "ann@example.com"});
    let mails_after_a_reset = || {
        let server = &fixture.server;
        server.partner("POST", "/api/login/v2/password/send-reset-password", &send);
        server
            .partner("GET", "/api/lab/v1/mail", &Value::Null)
            .json()
    };
    let mails = mails_after_a_reset();
    assert_eq!(mails[0]["to"], "ann@example.com");
    assert!(
        mails[0]["text"].as_str().unwrap().contains("token="),
        "{mails}"
    );
    // The newest mail stays the first if the clock of the partner goes back.
    let back = -172_800;
    fixture
        .server
        .operator("PUT", "partners/Lab/clock", &json!({"offset": back}));
    let mails = mails_after_a_reset();
    assert_eq!(mails[0]["createdAt"], NOON.0 + back, "{mails}");
    // The lab routes are not affected by faults.
    add(&fixture, &json!({"route": "any", "do": {"cut": "head"}}));
    fixture
        .server
        .operator("PUT", "partners/Lab/clock", &json!({"offset": 5}));
    let clock = fixture
        .server
        .partner("GET", "/api/lab/v1/clock", &Value::Null);
    assert_eq!(clock.json(), json!({"now": NOON.0 + 5, "offset": 5}));
    for target in ["/api/lab/v1/clock", "/api/lab/v1/mail"] {
        let refused = fixture
            .server
            .partner_with(token, "GET", target, &Value::Null);
        assert_eq!(
            refused.status_and_code(),
            (403, "LAB_NOT_ALLOWED".to_owned())
        );
    }
}

#[test]
fn in_production_every_function_of_the_lab_is_refused_with_the_reason() {
    let server = TestServer::with(&[("environment", "production"), ("lab.clock", "false")]);
    let fault = json!({"route": "any", "do": {"cut": "head"}});
    let report = json!({"scenario": "x", "state": "running", "steps": ["a"], "done": 0});
    for (method, target, body) in [
        ("POST", "partners", json!({"name": "Lab", "kind": "lab"})),
        ("POST", "partners/Acme/faults", fault),
        ("GET", "partners/Acme/faults", Value::Null),
        ("DELETE", "partners/Acme/faults", Value::Null),
        ("DELETE", "partners/Acme/faults/f1", Value::Null),
        ("GET", "partners/Acme/clock", Value::Null),
        ("PUT", "partners/Acme/clock", json!({"advance": 60})),
        ("DELETE", "partners/Acme/clock", Value::Null),
        ("POST", "partners/Acme/reset", json!({})),
        ("GET", "partners/Acme/scenario", Value::Null),
        ("PUT", "partners/Acme/scenario", report),
    ] {
        let answer = server.operator(method, target, &body);
        let reason = answer.json()["error"]["message"].to_string();
        assert_eq!(
            answer.status_and_code(),
            (403, "LAB_NOT_ALLOWED".to_owned())
        );
        assert!(reason.contains("production"), "{method} {target}: {reason}");
    }
    for (method, body) in [("PUT", json!({"advance": 60})), ("DELETE", Value::Null)] {
        let answer = server.operator(method, "clock", &body);
        assert_eq!(answer.code(), "LAB_CLOCK_OFF", "{method}");
    }
    for target in ["clock", "mail", "requests", "requests/1"] {
        let target = format!("/api/lab/v1/{target}");
        let answer = server.partner("GET", &target, &Value::Null);
        assert_eq!(
            answer.status_and_code(),
            (403, "LAB_NOT_ALLOWED".to_owned())
        );
    }
    // Control: routes outside of the lab work.
    let target = "/api/catalog/v1/livestreams";
    assert_eq!(server.partner("GET", target, &Value::Null).status, 200);
}

#[test]
fn a_reset_during_load_removes_everything_and_breaks_no_request() {
    let fixture = lab_with(&[("limits.sign_up_per_address", "1000000")]);
    let reset = || fixture.server.operator("POST", RESET, &json!({}));
    assert_eq!(reset().status, 200);
    let before = records(&fixture);
    let stop = AtomicBool::new(false);
    let (signed_up, plays) = ([(); 3].map(|()| AtomicU32::new(0)), AtomicU32::new(0));
    let load = |client: usize| {
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let email = format!("viewer-{client}-{number}@example.com");
            let body = json!({"identity": email, "accessKey": "a long pass phrase"});
            let target = "/api/login/v2/auth/email";
            let signed = fixture.server.partner("PUT", target, &body);
            assert!(signed.status < 500, "{}", signed.json());
            if signed.status != 200 {
                continue;
            }
            signed_up[client].fetch_add(1, Ordering::SeqCst);
            let viewer = viewer(&signed);
            let entitled = fixture.entitle(&viewer, "film", "");
            assert!(entitled.status < 500, "{}", entitled.json());
            if entitled.status == 200 {
                let token = entitled.json()["token"].as_str().unwrap().to_owned();
                let started = fixture.preflight(&viewer, "film", &token, &[]);
                assert!(started.status < 500, "{}", started.json());
                plays.fetch_add(u32::from(started.status == 200), Ordering::SeqCst);
            }
        }
    };
    std::thread::scope(|scope| {
        let load = &load;
        let clients = [0, 1, 2].map(|client| scope.spawn(move || load(client)));
        let ended = StopOnDrop(&stop);
        let mut resets = 0;
        // Without sessions a reset would have nothing to race with.
        until("resets, sign-ups of each client and a session", || {
            assert!(!clients.iter().any(|client| client.is_finished()));
            let done = reset();
            assert_eq!(done.status, 200, "{}", done.json());
            resets += 1;
            let some = |count: &AtomicU32| count.load(Ordering::SeqCst) > 0;
            resets >= 8 && signed_up.iter().all(some) && some(&plays)
        });
        drop(ended);
    });
    assert_eq!(reset().status, 200);
    assert_eq!(records(&fixture), before);
    assert_eq!(journal(&fixture, "Lab"), Vec::<Value>::new());
}

#[test]
fn resets_at_the_same_time_run_one_after_the_other() {
    let fixture = lab();
    let reset = || {
        let body = json!({"fixture": "demo"});
        fixture.server.operator("POST", RESET, &body)
    };
    // More than the queue of long work holds.
    std::thread::scope(|scope| {
        for running in [(); 12].map(|()| scope.spawn(reset)) {
            let done = running.join().unwrap();
            assert_eq!((done.status, &done.json()["users"]), (200, &json!(1)));
        }
    });
    // A reset that cannot start gives the reason and `Retry-After`.
    let turn = fixture.server.services.turns.resets.try_lock().unwrap();
    let refused = reset();
    drop(turn);
    assert_eq!(refused.status_and_code(), (503, "OVERLOADED".to_owned()));
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("other resets are running"), "{message}");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(reset().status, 200);
}

#[test]
fn a_scenario_report_is_kept_until_the_reset_and_is_no_change() {
    let fixture = lab();
    let target = "partners/Lab/scenario";
    let read = || fixture.server.operator("GET", target, &Value::Null).json();
    assert_eq!(read(), json!({}));
    let report =
        json!({"scenario": "Blackout", "state": "running", "steps": ["a", "b"], "done": 1});
    let put = |report: &Value| fixture.server.operator("PUT", target, report);
    assert_eq!(put(&report).status, 204);
    assert_eq!(read(), report);
    for (member, value) in [
        ("state", json!("over")),
        ("done", json!(3)),
        ("steps", json!(vec!["x"; 51])),
        ("scenario", json!("x".repeat(201))),
        ("step", json!(1)),
    ] {
        let mut wrong = report.clone();
        wrong[member] = value;
        assert_eq!(put(&wrong).field(), member);
    }
    assert_eq!(read(), report);
    let audited = fixture.server.operator("GET", "audit", &Value::Null).json();
    assert!(!audited.to_string().contains("scenario"), "{audited}");
    assert_eq!(
        fixture.server.operator("POST", RESET, &json!({})).status,
        200
    );
    assert_eq!(read(), json!({}));
}
