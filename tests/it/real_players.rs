//! What real players, browsers and devices send, and what they need: labels in Latin-1, addresses without headers,
//! timings, and the end of playback with its login.

use serde_json::{Value, json};

use crate::support::license_server::{Server, response};
use crate::support::playback_fixture::{FILM_KEY, PlaybackFixture, Player, player};
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, Viewer};

/// Sends a request whose header `Service-Play-DeviceModel` has these bytes.
fn with_model(
    fixture: &PlaybackFixture,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    model: &[u8],
) -> Answer {
    let bearer = format!("Bearer {}", fixture.ann.token);
    let mut all = vec![
        ("Service-AccessToken", fixture.server.partner.as_str()),
        ("Authorization", bearer.as_str()),
        ("Service-Play-DeviceModel", "MODEL"),
    ];
    all.extend(headers);
    let text = request(method, target, &all, "");
    let (before, after) = text.split_once("MODEL").unwrap();
    ask(
        fixture.server.public,
        [before.as_bytes(), model, after.as_bytes()].concat(),
    )
}

#[test]
fn no_label_of_a_device_stops_playback() {
    let fixture = PlaybackFixture::new();
    let long = "x".repeat(300);
    for (model, shown) in [
        (&b"Bj\xf6rns TV"[..], "Björns TV"),
        ("Björns TV".as_bytes(), "Björns TV"),
        (b"Bj%C3%B6rns TV", "Bj%C3%B6rns TV"),
        ("a\u{202e}b".as_bytes(), "ab"),
        (b"", "unknown"),
        (long.as_bytes(), &long[..256]),
    ] {
        let token = fixture.token(&fixture.ann, "film");
        let mut headers = vec![
            ("Service-Play-DRM", "clearkey"),
            ("Service-Play-Protocol", "dash"),
            ("Service-Play-EntitlementId", token.as_str()),
            ("Service-Play-DevicePlatform", "web"),
            ("Service-Play-DeviceType", "tv"),
            ("Service-Play-DeviceId", "tv"),
        ];
        let target = "/api/playback/v2/preflight/asset/film";
        let started = with_model(&fixture, "POST", target, &headers, model);
        assert_eq!(started.status, 200, "{shown}: {}", started.json());
        let session = player(&fixture.ann, "tv", &started).session;
        headers.extend([
            ("Service-Play-Session", session.as_str()),
            // As Kotlin prints a number.
            ("Service-Play-Timestamp", "1.7957E9"),
            ("Service-Play-Bitrate", "3.5E6"),
            ("Service-Play-ResolutionWidth", "1920.0"),
            ("Service-Play-ResolutionHeight", "1080"),
        ]);
        let beat = with_model(
            &fixture,
            "POST",
            "/api/playback/v1/heartbeat",
            &headers,
            model,
        );
        assert_eq!(beat.status, 200, "{shown}: {}", beat.json());
        let target = format!("/api/user/v1/users/{}/sessions/{session}", fixture.ann.id);
        let shown_to_viewers = fixture.ask(&fixture.ann, "GET", &target, &[], "").json();
        assert_eq!(shown_to_viewers["deviceModel"], shown);
    }
}

#[test]
fn one_event_that_cannot_be_used_never_costs_the_others() {
    let fixture = PlaybackFixture::new();
    let send = |body: &[u8]| {
        let bearer = format!("Bearer {}", fixture.ann.token);
        let length = body.len().to_string();
        let headers = [
            ("Service-AccessToken", fixture.server.partner.as_str()),
            ("Authorization", bearer.as_str()),
            ("Content-Length", length.as_str()),
        ];
        let head = request("POST", "/api/tracker/v1/telemetry-events", &headers, "");
        ask(fixture.server.public, [head.as_bytes(), body].concat())
    };
    let event = |number: u32, more: &str| {
        format!(r#"{{"timestamp":1795424651,"action":"a","seqId":{number},"context":{{{more}}}}}"#)
    };
    let mut number = 0;
    let mut batch = |more: &str| {
        number += 2;
        format!("[{},{}]", event(number, more), event(number + 1, ""))
    };
    // The text of one event is in Latin-1: both count.
    let latin: Vec<u8> = batch("\"device_model\":\"Björn\"")
        .chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap())
        .collect();
    assert_eq!(
        send(&latin).json(),
        json!({"accepted": 2, "duplicates": 0, "rejected": []})
    );
    let half = send(batch(r#""device_model":"\ud83d""#).as_bytes());
    assert_eq!(half.status, 202, "{}", half.json());
    assert_eq!(
        half.json()["accepted"],
        2 - half.json()["rejected"].as_array().unwrap().len()
    );
    for bad in ["\"duration\":NaN", "\"duration\":Infinity", "\"x\":01"] {
        let answer = send(batch(bad).as_bytes());
        assert_eq!(answer.status, 202, "{bad}: {}", answer.json());
        assert_eq!(answer.json()["accepted"], 1, "{bad}");
        assert_eq!(answer.json()["rejected"][0]["index"], 0);
    }
    let kotlin = r#"[{"timestamp":1.795424651238E12,"action":"a","seqId":9.0E2},]"#;
    assert_eq!(send(kotlin.as_bytes()).json()["accepted"], 1);
}

#[test]
fn a_license_at_its_signed_address_needs_no_headers() {
    let fixture = PlaybackFixture::new();
    let token = fixture.token(&fixture.ann, "film");
    let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
    let address = started.json()["licenseSigned"].as_str().unwrap().to_owned();
    let target = address
        .strip_prefix("https://tv.example")
        .unwrap()
        .to_owned();
    let post =
        |target: &str, body: &str| ask(fixture.server.public, request("POST", target, &[], body));
    let challenge = |kid: &str| json!({"kids": [kid]}).to_string();
    let license = post(&target, &challenge(FILM_KEY.0));
    assert_eq!(license.json()["keys"][0]["k"], FILM_KEY.1);
    let foreign = post(&target, &challenge("EREiIjMzRERVVWZmd3eIiA"));
    assert_eq!(foreign.outcome(), "403 KEY_NOT_ALLOWED");
    assert_eq!(post(&target, "{}").outcome(), "400 INVALID_REQUEST");
    // Neither an altered address nor that of the reports is one.
    let reports = started.json()["cmcd"]["url"].as_str().unwrap().to_owned();
    let other = reports.rsplit('/').next().unwrap();
    for token in ["AAAA", other] {
        let target = format!("/api/playback/v1/license/{token}");
        assert_eq!(
            post(&target, &challenge(FILM_KEY.0)).outcome(),
            "403 ENTITLEMENT_INVALID"
        );
    }
    let film = player(&fixture.ann, "tv", &started);
    assert_eq!(fixture.stop(&film).status, 204);
    assert_eq!(
        post(&target, &challenge(FILM_KEY.0)).outcome(),
        "410 SESSION_ENDED"
    );
    // An asset that is not encrypted has none.
    let token = fixture.token(&fixture.ann, "clear");
    let clear = fixture.preflight(&fixture.ann, "clear", &token, &[("DRM", "none")]);
    assert_eq!(clear.json()["licenseSigned"], Value::Null);
}

#[test]
fn the_other_requests_of_a_drm_system_reach_the_license_server_at_the_signed_address() {
    for (system, url, challenge, action) in [
        ("widevine", "license.widevine.url", "\u{8}\u{4}", None),
        (
            "playready",
            "license.playready.url",
            "<s:Body><AcknowledgeLicense xmlns='x'/></s:Body>",
            Some("AcknowledgeLicense"),
        ),
        (
            "playready",
            "license.playready.url",
            "<AcquireLicense/>",
            Some("AcquireLicense"),
        ),
    ] {
        let server = Server::start();
        let fixture = PlaybackFixture::with(&[(url, &server.url)]);
        let token = fixture.token(&fixture.ann, "film");
        let started = fixture.preflight(&fixture.ann, "film", &token, &[("DRM", system)]);
        let address = started.json()["licenseSigned"].as_str().unwrap().to_owned();
        let target = address.strip_prefix("https://tv.example").unwrap();
        server.next(response("200 OK", "a/b", b"answer"));
        let answer = ask(
            fixture.server.public,
            request("POST", target, &[], challenge),
        );
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (200, &b"answer"[..])
        );
        let received = server.received();
        assert_eq!(received.body, challenge.as_bytes());
        let sent = received.header("soapaction").map(|sent| {
            sent.trim_matches('"')
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned()
        });
        assert_eq!(sent.as_deref(), action);
    }
}

#[test]
fn pages_of_allowed_origins_may_read_timings() {
    let origin = [("Origin", "https://player.example")];
    let fixture = PlaybackFixture::new();
    let film = fixture.play(&fixture.ann, "film", "tv");
    assert_eq!(
        fixture
            .fetch(&film.playlist, &origin)
            .header("timing-allow-origin"),
        Some("*")
    );
    assert_eq!(
        fixture
            .fetch(&film.playlist, &[])
            .header("timing-allow-origin"),
        None
    );
    let fixture = PlaybackFixture::with(&[("http.cors_origins", "https://player.example")]);
    let film = fixture.play(&fixture.ann, "film", "tv");
    let listed = fixture.fetch(&film.playlist, &origin);
    assert_eq!(
        listed.header("timing-allow-origin"),
        Some("https://player.example")
    );
    let other = fixture.fetch(&film.playlist, &[("Origin", "https://other.example")]);
    assert_eq!(other.header("timing-allow-origin"), None);
}

/// Every way in which a player reaches its session: heartbeat, license, reports, signed license, and media.
fn answers(fixture: &PlaybackFixture, film: &Player, started: &Value) -> Vec<String> {
    let target = |pointer: &str| {
        let address = started.pointer(pointer).unwrap().as_str().unwrap();
        address
            .strip_prefix("https://tv.example")
            .unwrap()
            .to_owned()
    };
    let kids = json!({"kids": [FILM_KEY.0]}).to_string();
    let post = |target: &str, body: &str| {
        ask(fixture.server.public, request("POST", target, &[], body)).outcome()
    };
    vec![
        fixture.beat(film, &[]).outcome(),
        fixture.license(film, "clearkey", &kids).outcome(),
        post(&target("/cmcd/url"), "e=t,sta=p"),
        post(&target("/licenseSigned"), &kids),
        fixture.fetch(&film.playlist, &[]).outcome(),
    ]
}

/// Logs in once more.
fn log_in(fixture: &PlaybackFixture) -> Viewer {
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD});
    let answer = fixture
        .server
        .partner("POST", "/api/login/v2/auth/email", &body)
        .json();
    let text = |name: &str| answer[name].as_str().unwrap().to_owned();
    Viewer {
        token: text("token"),
        id: text("userId"),
        session: text("sessionId"),
    }
}

#[test]
fn playback_ends_with_its_login_wherever_that_is_ended() {
    type End = fn(&PlaybackFixture, &Viewer) -> Answer;
    let from_another_device: End = |fixture, phone| {
        let target = format!(
            "/api/user/v1/users/{}/sessions/{}",
            fixture.ann.id, fixture.ann.session
        );
        fixture.ask(phone, "DELETE", &target, &[], "")
    };
    let change_of_password: End = |fixture, phone| {
        let target = format!("/api/user/v1/users/{}/password", fixture.ann.id);
        let body = json!({"currentPassword": PASSWORD, "newPassword": "an even longer secret"});
        fixture.server.user(&phone.token, "PUT", &target, &body)
    };
    let operator: End = |fixture, _| {
        let target = format!("users/{}/logout", fixture.ann.id);
        fixture.server.operator("POST", &target, &json!({}))
    };
    for (end, phone_plays_on) in [
        (from_another_device, true),
        (change_of_password, true),
        (operator, false),
    ] {
        let fixture = PlaybackFixture::with(&[("playback.streams_total", "2")]);
        let token = fixture.token(&fixture.ann, "film");
        let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
        let mut film = player(&fixture.ann, "tv", &started);
        let good = ["200", "200", "204", "200", "200"];
        assert_eq!(answers(&fixture, &film, &started.json()), good);
        let phone = log_in(&fixture);
        let on_phone = fixture.play(&phone, "film", "phone");
        let ended = end(&fixture, &phone);
        assert!(ended.status < 300, "{}", ended.status);
        // With the token of another login: its own is refused before anything else.
        film.viewer = if phone_plays_on {
            phone.clone()
        } else {
            log_in(&fixture)
        };
        let gone = ["410 SESSION_ENDED"; 5];
        assert_eq!(answers(&fixture, &film, &started.json()), gone);
        let reason = fixture.beat(&film, &[]).json()["error"]["details"]["reason"].clone();
        assert_eq!(reason, "revoked");
        if phone_plays_on {
            assert_eq!(fixture.beat(&on_phone, &[]).status, 200);
            // The stream is free at once.
            fixture.play(&phone, "film", "tablet");
        }
    }
}

#[test]
fn a_viewer_who_logs_in_again_keeps_the_session() {
    let fixture = PlaybackFixture::new();
    let mut film = fixture.play(&fixture.ann, "film", "tv");
    film.viewer = log_in(&fixture);
    assert_eq!(fixture.beat(&film, &[]).status, 200);
    // The first login is no longer that of the session.
    let target = format!(
        "/api/user/v1/users/{}/sessions/{}",
        fixture.ann.id, fixture.ann.session
    );
    assert_eq!(
        fixture.ask(&film.viewer, "DELETE", &target, &[], "").status,
        204
    );
    assert_eq!(fixture.beat(&film, &[]).status, 200);
}

#[test]
fn members_under_a_usual_other_name_get_a_hint() {
    let fixture = PlaybackFixture::new();
    let body = json!({"email": "ann@example.com", "password": PASSWORD});
    let refused = fixture
        .server
        .partner("POST", "/api/login/v2/auth/email", &body);
    let problems = refused.json()["error"]["details"]["problems"].clone();
    assert_eq!(
        problems[0]["message"],
        "is missing; `email` is called `identity` here"
    );
    assert_eq!(
        problems[1]["message"],
        "is missing; `password` is called `accessKey` here"
    );
    fixture.protect(&fixture.ann);
    let refused = fixture.entitle(&fixture.ann, "adult", r#"{"pincode": "2468"}"#);
    assert_eq!(refused.outcome(), "403 PIN_CODE_REQUIRED");
    let message = refused.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("`pincode` is called `pinCode` here"),
        "{message}"
    );
}

#[test]
fn a_login_that_is_pushed_out_ends_its_playback() {
    let fixture = PlaybackFixture::with(&[("accounts.logins_max", "2")]);
    let token = fixture.token(&fixture.ann, "film");
    let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
    let mut film = player(&fixture.ann, "tv", &started);
    fixture.server.wait(1);
    let second = log_in(&fixture);
    assert_eq!(fixture.beat(&film, &[]).status, 200);
    fixture.server.wait(1);
    // The third pushes out the first, which nothing has used for longer.
    film.viewer = log_in(&fixture);
    assert_eq!(
        answers(&fixture, &film, &started.json()),
        ["410 SESSION_ENDED"; 5]
    );
    let reason = fixture.beat(&film, &[]).json()["error"]["details"]["reason"].clone();
    assert_eq!(reason, "revoked");
    // The second still plays.
    let other = fixture.play(&second, "film", "phone");
    assert_eq!(fixture.beat(&other, &[]).status, 200);
}

#[test]
fn playback_goes_on_if_its_login_expires_and_the_viewer_logs_in_again() {
    let fixture = PlaybackFixture::with(&[("accounts.user_token_days", "1")]);
    let left = 86_400 - 20;
    fixture.server.wait(left);
    let mut film = fixture.play(&fixture.ann, "film", "tv");
    let mut other = fixture.play(&fixture.ann, "film", "phone");
    fixture.server.wait(30);
    for film in [&film, &other] {
        assert_eq!(fixture.beat(film, &[]).status, 401);
    }
    // The files are those of the session, which has not ended.
    assert_eq!(fixture.fetch(&film.playlist, &[]).status, 200);
    film.viewer = log_in(&fixture);
    assert_eq!(fixture.beat(&film, &[]).status, 200);
    // A player that does not log in again has ended after five minutes.
    fixture.server.wait(200);
    assert_eq!(fixture.beat(&film, &[]).status, 200);
    fixture.server.wait(130);
    other.viewer = film.viewer.clone();
    assert_eq!(fixture.beat(&other, &[]).outcome(), "410 SESSION_ENDED");
    assert_eq!(fixture.beat(&film, &[]).status, 200);
}

#[test]
fn a_request_at_a_signed_address_is_journaled_with_its_partner() {
    let fixture = PlaybackFixture::new();
    let token = fixture.token(&fixture.ann, "film");
    let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
    let film = player(&fixture.ann, "tv", &started);
    let target = |name: &str| {
        let address = match name {
            "cmcd" => started.json()["cmcd"]["url"].clone(),
            name => started.json()[name].clone(),
        };
        let address = address.as_str().unwrap();
        address
            .strip_prefix("https://tv.example")
            .unwrap()
            .to_owned()
    };
    let post = |name: &str, body: &str| {
        ask(
            fixture.server.public,
            request("POST", &target(name), &[], body),
        )
    };
    let challenge = json!({"kids": [FILM_KEY.0]}).to_string();
    assert_eq!(post("licenseSigned", &challenge).status, 200);
    assert_eq!(post("cmcd", "x").status, 400);
    assert_eq!(fixture.stop(&film).status, 204);
    assert_eq!(post("licenseSigned", &challenge).status, 410);
    assert_eq!(post("cmcd", "e=ps,sn=1,sta=p,v=2").status, 410);
    let requests = ask_journal(&fixture);
    for (route, statuses) in [("license_signed", [410, 200]), ("cmcd", [410, 400])] {
        let mut left = statuses.to_vec();
        for line in requests.iter().filter(|line| line["route"] == route) {
            assert_eq!(line["status"], left.remove(0));
            assert_eq!(line["partner"], "Acme", "{line}");
            assert_eq!(line["user"], fixture.ann.id, "{line}");
            assert_eq!(line["session"], film.session, "{line}");
            assert_eq!(line["asset"], "film", "{line}");
        }
        assert_eq!(left, [0; 0]);
    }
}

fn ask_journal(fixture: &PlaybackFixture) -> Vec<Value> {
    let answer = fixture.server.operator("GET", "requests", &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json().as_array().unwrap().clone()
}
