//! Entitlement, preflight, heartbeat, devices and sessions over HTTP.

use serde_json::{Value, json};

use crate::support::gate_only::NOON;
use crate::support::playback_fixture::{FILM_KEY, PlaybackFixture, Player, never_issued, player};
use crate::support::raw_http::Answer;
use crate::support::server::{PASSWORD, TestServer, Viewer, viewer};

/// The reason that the 410 of a heartbeat gives for the end of its session.
fn ended(answer: &Answer) -> String {
    assert_eq!(answer.outcome(), "410 SESSION_ENDED");
    let reason = &answer.json()["error"]["details"]["reason"];
    reason.as_str().unwrap().to_owned()
}

#[test]
fn playback_works_from_entitlement_to_stop() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let answer = fixture.entitle(ann, "film", "");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let body = answer.json();
    assert_eq!(body["expires"], NOON.0 + 86_400);
    assert_eq!(body.get("program"), None);
    let token = body["token"].as_str().unwrap();

    let started = fixture.preflight(ann, "film", token, &[]);
    let body = started.json();
    let player = player(ann, "tv", &started);
    assert!(player.playlist.starts_with("https://tv.example/origin/v1/"));
    assert!(player.playlist.ends_with("/film/manifest.mpd"));
    assert_eq!(
        body["license"],
        "https://tv.example/api/playback/v1/clearkey/license"
    );
    assert_eq!(
        body["heartbeat"],
        "https://tv.example/api/playback/v1/heartbeat"
    );
    assert_eq!(body["heartbeatInterval"], 10);
    assert_eq!(
        body["headers"],
        json!({
            "Service-Play-EntitlementId": token,
            "Service-Play-Session": player.session,
        })
    );
    assert_eq!(body.get("certificate"), None);

    assert_eq!(
        fixture.fetch(&player.playlist, &[]).body,
        b"<MPD>film</MPD>"
    );
    let asked = json!({"kids": [FILM_KEY.0], "type": "temporary"}).to_string();
    let license = fixture.license(&player, "clearkey", &asked);
    assert_eq!(
        license.json(),
        json!({
            "keys": [{"kty": "oct", "kid": FILM_KEY.0, "k": FILM_KEY.1}],
            "type": "temporary",
        })
    );
    fixture.server.wait(10);
    let beat = fixture.beat(&player, &[]);
    assert_eq!(
        beat.json(),
        json!({"interval": 10, "serverTime": NOON.0 + 10})
    );
    assert_eq!(fixture.stop(&player).status, 204);
    let gone = fixture.beat(&player, &[]);
    assert_eq!(gone.outcome(), "410 SESSION_ENDED");
    assert_eq!(fixture.stop(&player).outcome(), "410 SESSION_ENDED");
}

#[test]
fn every_entitlement_denial_has_its_code() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    for (asset, expected) in [
        ("film", "200"),
        ("news", "200"),
        ("noon", "200"),
        ("morning", "200"),
        ("nothing", "404 ASSET_NOT_FOUND"),
        ("swedish", "403 GEO_BLOCKED"),
        ("premium", "403 NOT_ENTITLED"),
        ("old", "403 NOT_AVAILABLE"),
        ("rated", "403 NOT_AVAILABLE"),
    ] {
        assert_eq!(
            fixture.entitle(ann, asset, "").outcome(),
            expected,
            "{asset}"
        );
    }
    let live = fixture.entitle(ann, "news", "").json();
    let program = json!({"broadcastId": "noon", "stop": NOON.0 + 3_600});
    assert_eq!(live["program"], program);
    // Offsets: time-shift, the future, and more than a day back.
    let shifted = |offset: &str| {
        let target = format!("/api/entitlement/v2/asset/news?offset={offset}");
        fixture.ask(ann, "POST", &target, &[], "")
    };
    assert_eq!(shifted("-60").json()["program"]["broadcastId"], "morning");
    assert_eq!(shifted("1").outcome(), "400 INVALID_REQUEST");
    assert_eq!(shifted("-86401").outcome(), "400 INVALID_REQUEST");
    for body in ["[]", "null", "{", r#"{"pinCode":"1","pinCode":"2"}"#] {
        let answer = fixture.entitle(ann, "film", body);
        assert_eq!(answer.outcome(), "400 INVALID_REQUEST", "{body}");
    }
    fixture.server.wait(7_200);
    assert_eq!(
        fixture.entitle(ann, "news", "").outcome(),
        "403 NO_LIVE_RIGHTS"
    );
    assert_eq!(
        fixture.entitle(ann, "dark", "").outcome(),
        "403 NO_LIVE_RIGHTS"
    );
    fixture.change(ann, &json!({"country": "SE"}));
    assert_eq!(fixture.entitle(ann, "swedish", "").outcome(), "200");
}

#[test]
fn a_pin_unlocks_one_program_in_one_session() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    fixture.protect(ann);
    // A PIN that is not needed is ignored and not counted, even if malformed.
    for body in [r#"{"pinCode":"0000"}"#, r#"{"pinCode":"x"}"#] {
        assert_eq!(fixture.entitle(ann, "film", body).outcome(), "200");
    }
    let needed = fixture.entitle(ann, "adult", "{}");
    assert_eq!(needed.outcome(), "403 PIN_CODE_REQUIRED");
    assert_eq!(needed.header("www-authenticate"), None);
    let malformed = fixture.entitle(ann, "adult", r#"{"pinCode":"12"}"#);
    assert_eq!(malformed.outcome(), "400 INVALID_REQUEST");
    let wrong = fixture.entitle(ann, "adult", r#"{"pinCode":"1111"}"#);
    assert_eq!(wrong.outcome(), "403 PIN_CODE_WRONG");
    assert_eq!(wrong.json()["error"]["details"], json!({"attemptsLeft": 4}));
    let right = fixture.entitle(ann, "adult", r#"{"pinCode":"2468"}"#);
    let token = right.json()["token"].as_str().unwrap().to_owned();

    let first = player(ann, "tv", &fixture.preflight(ann, "adult", &token, &[]));
    fixture.server.wait(31);
    assert_eq!(fixture.beat(&first, &[]).outcome(), "200");
    // In this session the same program needs no second PIN; in another one it does.
    let again = |session: &str| {
        let headers = [("Service-Play-Session", session)];
        let target = "/api/entitlement/v2/asset/adult";
        fixture.ask(ann, "POST", target, &headers, "").outcome()
    };
    assert_eq!(again(&first.session), "200");
    assert_eq!(again("nonsense"), "403 PIN_CODE_REQUIRED");
    // A retry and a fallback to another DRM system inherit the unlock.
    let second = player(ann, "tv", &fixture.preflight(ann, "adult", &token, &[]));
    assert_eq!(again(&second.session), "200");
    fixture.server.wait(31);
    assert_eq!(fixture.beat(&second, &[]).outcome(), "200");
    let none = player(
        ann,
        "tv",
        &fixture.preflight(ann, "clear", &fixture.token(ann, "clear"), &[]),
    );
    assert_eq!(again(&none.session), "403 PIN_CODE_REQUIRED");
    // A session of another asset passes no unlock on.
    let third = player(ann, "tv", &fixture.preflight(ann, "adult", &token, &[]));
    assert_eq!(again(&third.session), "403 PIN_CODE_REQUIRED");
    fixture.server.wait(30);
    assert_eq!(fixture.beat(&third, &[]).outcome(), "403 PIN_CODE_REQUIRED");
    for left in (1..=3).rev().chain([0]) {
        let wrong = fixture.entitle(ann, "adult", r#"{"pinCode":"1111"}"#);
        assert_eq!(wrong.json()["error"]["details"]["attemptsLeft"], left);
    }
    let locked = fixture.entitle(ann, "adult", r#"{"pinCode":"2468"}"#);
    assert_eq!(locked.outcome(), "429 PIN_CODE_LOCKED");
    assert!(locked.header("retry-after").is_some());
}

#[test]
fn the_unrated_setting_of_a_livestream_overrides_the_default() {
    let asked = "403 PIN_CODE_REQUIRED";
    for (general, unrated, expected) in [
        ("pin", "", asked),
        ("pin", "unrated = \"allow\"", "200"),
        ("pin", "unrated = 14", "200"),
        ("pin", "unrated = 15", asked),
        ("allow", "", "200"),
        ("allow", "unrated = \"pin\"", asked),
    ] {
        let server = TestServer::with(&[("parental.unrated", general)]);
        let catalogue = format!(
            "[[livestream]]\nid = \"news\"\n{unrated}\n\n\
             [[offer]]\nid = \"all\"\ntype = \"default\"\npack = \"all\"\n"
        );
        let fixture =
            PlaybackFixture::with_catalogue(server, tempfile::tempdir().unwrap(), &catalogue);
        let program = json!({"id": "p", "title": "P", "start": NOON.0 - 600, "stop": NOON.0 + 600});
        fixture.import("epg", &json!({"news": [program]}).to_string());
        fixture.protect(&fixture.ann);
        let found = fixture.entitle(&fixture.ann, "news", "").outcome();
        assert_eq!(found, expected, "{general} {unrated}");
    }
}

#[test]
fn live_playback_stops_at_programs_without_rights_or_pin() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    fixture.protect(ann);
    let player = fixture.play(ann, "news", "tv");
    fixture.server.wait(3_600);
    fixture
        .server
        .services
        .playback
        .refresh(fixture.server.services.clock.now());
    assert_eq!(fixture.beat(&player, &[]).outcome(), "200");
    fixture.server.wait(30);
    let needed = fixture.beat(&player, &[]);
    assert_eq!(needed.outcome(), "403 PIN_CODE_REQUIRED");
    let headers = [("Service-Play-Session", player.session.as_str())];
    let target = "/api/entitlement/v2/asset/news";
    let pin = r#"{"pinCode":"2468"}"#;
    let unlocked = fixture.ask(ann, "POST", target, &headers, pin);
    assert_eq!(unlocked.json()["program"]["broadcastId"], "rated");
    assert_eq!(fixture.beat(&player, &[]).outcome(), "200");

    fixture.server.wait(3_580);
    fixture
        .server
        .services
        .playback
        .refresh(fixture.server.services.clock.now());
    let origin = [("Origin", "https://player.example")];
    let dark = fixture.beat(&player, &[]);
    assert_eq!(dark.outcome(), "552 NO_LIVE_RIGHTS");
    assert_eq!(dark.reason, "No Live Rights");
    assert_eq!(dark.header("retry-after"), None);
    assert_eq!(dark.header("cache-control"), Some("no-store"));
    // The session stays open, and a time-shifted player is checked at its own position.
    let back = (NOON.0 + 1_000).to_string();
    let shifted = fixture.beat(&player, &[("Timestamp", &back)]);
    assert_eq!(shifted.outcome(), "200");
    let millis = format!("{}000.5", NOON.0 + 1_000);
    let shifted = fixture.beat(&player, &[("Timestamp", &millis)]);
    assert_eq!(shifted.outcome(), "200");
    let cors = fixture.ask(ann, "POST", "/api/playback/v1/heartbeat", &origin, "");
    assert!(cors.header("access-control-allow-origin").is_some());
    // A license is never refused with 552.
    let kid = json!({"kids": ["ERIiMzNEREVVZmZ3d4iI"], "type": "temporary"});
    assert_eq!(
        fixture
            .license(&player, "clearkey", &kid.to_string())
            .outcome(),
        "400 INVALID_REQUEST"
    );
    assert_eq!(fixture.beat(&player, &[]).outcome(), "552 NO_LIVE_RIGHTS");
    let kid = json!({"kids": ["EREiIjMzRERVVWZmd3eIiA"], "type": "temporary"});
    assert_eq!(
        fixture
            .license(&player, "clearkey", &kid.to_string())
            .outcome(),
        "403 NO_LIVE_RIGHTS"
    );
}

#[test]
fn every_preflight_error_has_its_code() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let token = fixture.token(ann, "film");
    let of = |changed: &[(&str, &str)]| fixture.preflight(ann, "film", &token, changed);
    let long = "x".repeat(257);
    for name in [
        "DRM",
        "Protocol",
        "EntitlementId",
        "DevicePlatform",
        "DeviceType",
        "DeviceModel",
        "DeviceId",
    ] {
        let answer = of(&[(name, "")]);
        assert_eq!(answer.outcome(), "400 INVALID_REQUEST");
        assert_eq!(answer.field(), format!("Service-Play-{name}"));
        if name == "DeviceId" {
            assert_eq!(of(&[(name, &long)]).outcome(), "400 INVALID_REQUEST");
        }
    }
    let unknown = never_issued();
    for (changed, expected) in [
        (("DRM", "enigma"), "400 INVALID_REQUEST"),
        (("Protocol", "rtsp"), "400 INVALID_REQUEST"),
        (("DRM", "fairplay"), "400 DRM_PROTOCOL_MISMATCH"),
        (("DRM", "none"), "400 DRM_PROTOCOL_MISMATCH"),
        (
            ("EntitlementId", unknown.as_str()),
            "403 ENTITLEMENT_INVALID",
        ),
        (("EntitlementId", "a.b.c"), "403 ENTITLEMENT_INVALID"),
        (
            ("EntitlementId", ann.token.as_str()),
            "403 ENTITLEMENT_INVALID",
        ),
    ] {
        assert_eq!(of(&[changed]).outcome(), expected, "{changed:?}");
    }
    let message = |answer: &Answer| {
        answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let hls = of(&[("DRM", "none"), ("Protocol", "hls")]);
    assert_eq!(hls.outcome(), "400 DRM_PROTOCOL_MISMATCH");
    let widevine = of(&[("DRM", "widevine")]);
    assert_eq!(widevine.outcome(), "404 PROTOCOL_NOT_AVAILABLE");
    assert_eq!(
        message(&widevine),
        "the asset is encrypted, and no license server is configured for widevine: set `license.widevine.url`"
    );
    let sstr = [("DRM", "PlayReady"), ("Protocol", "sstr")];
    assert_eq!(of(&sstr).outcome(), "404 PROTOCOL_NOT_AVAILABLE");
    let nothing = fixture.preflight(ann, "nothing", &token, &[]);
    assert_eq!(nothing.outcome(), "404 ASSET_NOT_FOUND");
    let bare = fixture.token(ann, "bare");
    let bare = fixture.preflight(ann, "bare", &bare, &[]);
    assert_eq!(bare.outcome(), "404 PROTOCOL_NOT_AVAILABLE");
    assert_eq!(
        message(&bare),
        "the catalogue has no playlist for this asset, so no protocol can play it"
    );
    let bob = fixture.viewer("bob");
    let stolen = fixture.preflight(&bob, "film", &token, &[]);
    assert_eq!(stolen.outcome(), "403 ENTITLEMENT_INVALID");
    let other = fixture.preflight(ann, "clear", &token, &[]);
    assert_eq!(other.outcome(), "403 ENTITLEMENT_INVALID");
    assert_eq!(of(&[]).outcome(), "200");
    // The preflight above bound the token to its device.
    let phone = of(&[("DeviceId", "phone")]);
    assert_eq!(phone.outcome(), "403 ENTITLEMENT_INVALID");
    fixture.server.wait(86_400);
    assert_eq!(of(&[]).outcome(), "403 ENTITLEMENT_INVALID");
}

#[test]
fn clear_assets_need_no_license() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let token = fixture.token(ann, "clear");
    let hls = [("DRM", "None"), ("Protocol", "HLS")];
    let body = fixture.preflight(ann, "clear", &token, &hls).json();
    assert_eq!(body["playlist"], "https://cdn.example/clear.m3u8");
    assert_eq!(body.get("license"), None);
    let license = [("license.fairplay.url", "http://127.0.0.1:9/")];
    let fixture = PlaybackFixture::with(&license);
    let ann = &fixture.ann;
    let token = fixture.token(ann, "news");
    let fairplay = [("DRM", "fairplay"), ("Protocol", "hls")];
    let body = fixture.preflight(ann, "news", &token, &fairplay).json();
    let session = body["headers"]["Service-Play-Session"].as_str().unwrap();
    assert_eq!(
        body["playlist"],
        format!("https://cdn.example/news.m3u8?s={session}")
    );
}

#[test]
fn revoking_a_right_ends_its_tokens() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let grant = format!("users/{}/grants/premium", ann.id);
    let given = fixture.server.operator("PUT", &grant, &json!({}));
    assert!(given.status < 300);
    let token = fixture.token(ann, "premium");
    let premium = fixture.play(ann, "premium", "phone");
    let film = fixture.play(ann, "film", "tv");
    let revoked = fixture.server.operator("DELETE", &grant, &Value::Null);
    assert!(revoked.status < 300);
    assert_eq!(fixture.beat(&film, &[]).outcome(), "200");
    let lost = fixture.beat(&premium, &[]);
    assert_eq!(ended(&lost), "revoked");
    let answer = fixture.preflight(ann, "premium", &token, &[]);
    assert_eq!(answer.outcome(), "403 ENTITLEMENT_INVALID");
}

#[test]
fn the_stream_limit_names_sessions_that_can_be_ended() {
    let fixture = PlaybackFixture::with(&[("playback.streams_total", "2")]);
    let ann = &fixture.ann;
    let tv = fixture.play(ann, "film", "tv");
    fixture.server.wait(1);
    fixture.play(ann, "clear", "phone");
    let start = |device: &str| {
        let token = fixture.token(ann, "news");
        fixture.preflight(ann, "news", &token, &[("DeviceId", device)])
    };
    let full = start("tablet");
    assert_eq!(full.outcome(), "409 STREAM_LIMIT_REACHED");
    let sessions = full.json()["error"]["details"]["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2);
    assert_eq!(
        sessions[0],
        json!({
            "sessionId": tv.session, "deviceId": "tv", "deviceModel": "Model", "deviceType": "tv",
            "assetId": "film", "since": NOON.0
        })
    );
    let sessions_path = format!("/api/user/v1/users/{}/sessions", ann.id);
    let one = format!("{sessions_path}/{}", tv.session);
    let shown = fixture.ask(ann, "GET", &one, &[], "").json();
    assert_eq!(shown["kind"], "playback");
    assert_eq!(shown["assetId"], "film");
    let list = fixture.ask(ann, "GET", &sessions_path, &[], "").json();
    let kinds: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["kind"])
        .collect();
    assert_eq!(kinds, ["login", "playback", "playback"]);
    let bob = fixture.viewer("bob");
    let foreign = format!("/api/user/v1/users/{}/sessions/{}", bob.id, tv.session);
    let foreign = fixture.ask(&bob, "DELETE", &foreign, &[], "");
    assert_eq!(foreign.outcome(), "404 SESSION_NOT_FOUND");
    assert_eq!(fixture.ask(ann, "DELETE", &one, &[], "").status, 204);
    assert_eq!(ended(&fixture.beat(&tv, &[])), "revoked");
    assert_eq!(start("tablet").outcome(), "200");

    let displacing = PlaybackFixture::with(&[
        ("playback.streams_total", "1"),
        ("playback.when_full", "displace"),
    ]);
    let first = displacing.play(&displacing.ann, "film", "tv");
    displacing.play(&displacing.ann, "film", "phone");
    assert_eq!(ended(&displacing.beat(&first, &[])), "displaced");
}

#[test]
fn devices_are_limited_listed_and_cleared() {
    let fixture = PlaybackFixture::with(&[("playback.devices", "2")]);
    let ann = &fixture.ann;
    for device in ["tv", "phone 1"] {
        let player = fixture.play(ann, "film", device);
        assert_eq!(fixture.stop(&player).status, 204);
    }
    let third = |device: &str| {
        let token = fixture.token(ann, "film");
        fixture
            .preflight(ann, "film", &token, &[("DeviceId", device)])
            .outcome()
    };
    assert_eq!(third("tablet"), "403 DEVICE_LIMIT_REACHED");
    let devices = format!("/api/user/v1/users/{}/devices", ann.id);
    let list = fixture.ask(ann, "GET", &devices, &[], "").json();
    assert_eq!(list.as_array().unwrap().len(), 2);
    let one = format!("{devices}/phone%201");
    let shown = fixture.ask(ann, "GET", &one, &[], "").json();
    assert_eq!(
        shown,
        json!({
            "deviceId": "phone 1", "devicePlatform": "linux", "deviceType": "tv",
            "deviceModel": "Model", "since": NOON.0, "lastStart": NOON.0,
        })
    );
    assert_eq!(fixture.ask(ann, "DELETE", &one, &[], "").status, 204);
    let again = fixture.ask(ann, "DELETE", &one, &[], "");
    assert_eq!(again.outcome(), "404 DEVICE_NOT_FOUND");
    assert_eq!(third("tablet"), "200");
    assert_eq!(fixture.ask(ann, "DELETE", &devices, &[], "").status, 204);
    let list = fixture.ask(ann, "GET", &devices, &[], "");
    assert_eq!(list.json(), json!([]));
    let export = format!("/api/user/v1/users/{}/export", ann.id);
    let export = fixture.ask(ann, "GET", &export, &[], "").json();
    assert_eq!(export["devices"], json!([]));
    assert_eq!(export["entitlements"][0]["assetId"], "film");
    // Another user's list is not visible.
    let bob = fixture.viewer("bob");
    let foreign = fixture.ask(&bob, "GET", &devices, &[], "");
    assert_eq!(foreign.outcome(), "404 USER_NOT_FOUND");
    fixture.change(ann, &json!({"tags": ["no-device-limit"]}));
    for device in ["a", "b", "c"] {
        fixture.stop(&fixture.play(ann, "film", device));
    }
}

#[test]
fn an_empty_entitlement_header_is_malformed_and_named() {
    let fixture = PlaybackFixture::new();
    for target in [
        "/api/playback/v2/preflight/asset/film",
        "/api/playback/v1/heartbeat",
        "/api/playback/v1/widevine/license",
    ] {
        let name = "Service-Play-EntitlementId";
        let answer = fixture.ask(&fixture.ann, "POST", target, &[(name, "")], "");
        assert_eq!(answer.outcome(), "400 INVALID_REQUEST", "{target}");
        let problems = answer.json()["error"]["details"]["problems"].to_string();
        let empty = format!(r#"{{"field":"{name}","message":"is empty"}}"#);
        assert!(problems.contains(&empty), "{target}: {problems}");
    }
}

#[test]
fn every_heartbeat_error_has_its_code() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let player = fixture.play(ann, "film", "tv");
    for name in [
        "DRM",
        "Protocol",
        "EntitlementId",
        "DevicePlatform",
        "DeviceType",
        "DeviceModel",
        "DeviceId",
        "Session",
        "Timestamp",
        "Bitrate",
        "ResolutionWidth",
        "ResolutionHeight",
    ] {
        let answer = fixture.beat(&player, &[(name, "")]);
        assert_eq!(answer.outcome(), "400 INVALID_REQUEST");
        assert_eq!(answer.field(), format!("Service-Play-{name}"));
    }
    let other = fixture.token(ann, "clear");
    let unknown = never_issued();
    let nobody = playgate_types::SessionId::from_bytes([0; 16]).to_string();
    for (changed, expected) in [
        (("Timestamp", "noon"), "400 INVALID_REQUEST"),
        (("Session", nobody.as_str()), "404 SESSION_NOT_FOUND"),
        (("Session", "nonsense"), "404 SESSION_NOT_FOUND"),
        (
            ("EntitlementId", unknown.as_str()),
            "403 ENTITLEMENT_INVALID",
        ),
        (("EntitlementId", other.as_str()), "403 SESSION_MISMATCH"),
        (("DeviceId", "phone"), "403 SESSION_MISMATCH"),
        // Odd values are recorded, not rejected.
        (("Bitrate", "-1"), "200"),
        (("Bitrate", "99999999999999999999"), "200"),
        (("ResolutionWidth", "99999999999"), "200"),
        (("Timestamp", "-5.25"), "200"),
    ] {
        fixture.server.wait(1);
        let answer = fixture.beat(&player, &[changed]);
        assert_eq!(answer.outcome(), expected, "{changed:?}");
    }
    let bob = fixture.viewer("bob");
    let bobs = fixture.play(&bob, "film", "tv");
    let mut stolen = player.clone();
    stolen.viewer = bob.clone();
    stolen.entitlement.clone_from(&bobs.entitlement);
    assert_eq!(fixture.beat(&stolen, &[]).outcome(), "403 SESSION_MISMATCH");
    let mut foreign = player.clone();
    foreign.entitlement.clone_from(&bobs.entitlement);
    let foreign = fixture.beat(&foreign, &[]);
    assert_eq!(foreign.outcome(), "403 ENTITLEMENT_INVALID");
    assert_eq!(fixture.stop(&stolen).outcome(), "403 SESSION_MISMATCH");

    fixture.server.wait(20);
    let answers: Vec<Answer> = (0..12).map(|_| fixture.beat(&player, &[])).collect();
    assert!(answers[..10].iter().all(|answer| answer.outcome() == "200"));
    assert_eq!(answers[11].outcome(), "429 RATE_LIMITED");
    assert_eq!(
        answers[11].header("ratelimit-policy"),
        Some("\"heartbeat\";q=10;w=5")
    );
    let logout = "/api/login/v2/auth/logout";
    assert!(fixture.ask(ann, "POST", logout, &[], "").status < 300);
    let out = fixture.beat(&player, &[]);
    assert_eq!(out.outcome(), "401 USER_TOKEN_INVALID");
}

#[test]
fn a_session_expires_without_heartbeats() {
    let fixture = PlaybackFixture::with(&[("playback.streams_total", "1")]);
    let ann = &fixture.ann;
    let player = fixture.play(ann, "film", "tv");
    fixture.server.wait(40);
    assert_eq!(fixture.beat(&player, &[]).outcome(), "200");
    fixture.server.wait(40);
    let other = fixture.play(ann, "film", "phone");
    assert_eq!(fixture.beat(&player, &[]).outcome(), "410 SESSION_ENDED");
    assert_eq!(fixture.stop(&other).status, 204);
    assert_eq!(fixture.beat(&player, &[]).outcome(), "200");
    fixture.server.wait(335);
    assert_eq!(fixture.beat(&player, &[]).outcome(), "410 SESSION_ENDED");
}

#[test]
fn an_ended_session_reports_its_reason() {
    let fixture = PlaybackFixture::new();
    let (server, ann) = (&fixture.server, &fixture.ann);
    let operator = |method: &str, target: &str| server.operator(method, target, &Value::Null);
    let ask = |method: &str, target: &str| {
        let answer = fixture.ask(ann, method, target, &[], "");
        assert!(answer.status < 300, "{target}: {}", answer.status);
    };
    let after = |end: &dyn Fn(&Player)| {
        let mut player = fixture.play(ann, "film", "tv");
        end(&player);
        // The heartbeat uses another login of the same user, because the first one may have ended.
        let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD});
        player.viewer = viewer(&server.partner("POST", "/api/login/v2/auth/email", &body));
        ended(&fixture.beat(&player, &[]))
    };
    let session_path =
        |player: &Player| format!("/api/user/v1/users/{}/sessions/{}", ann.id, player.session);
    let session = |player: &Player| format!("sessions/{}", player.session);
    assert_eq!(
        after(&|player| assert_eq!(fixture.stop(player).status, 204)),
        "stopped"
    );
    assert_eq!(
        after(&|_| drop(fixture.play(ann, "clear", "tv"))),
        "displaced"
    );
    assert_eq!(after(&|_| server.wait(335)), "expired");
    assert_eq!(
        after(&|player| ask("DELETE", &session_path(player))),
        "revoked"
    );
    let by_operator = after(&|player| {
        assert_eq!(operator("DELETE", &session(player)).status, 204);
    });
    assert_eq!(by_operator, "revoked");
    let logged_out = after(&|_| ask("POST", "/api/login/v2/auth/logout"));
    assert_eq!(logged_out, "signed_out");

    // These ends also remove the account or all of its logins, so the operator's request reads the reason.
    let gone = |name: &str, end: &dyn Fn(&Viewer)| {
        let viewer = fixture.viewer(name);
        let player = fixture.play(&viewer, "film", "tv");
        end(&viewer);
        ended(&operator("DELETE", &session(&player)))
    };
    let logout = |viewer: &Viewer| {
        let target = format!("users/{}/logout", viewer.id);
        assert!(operator("POST", &target).status < 300);
    };
    assert_eq!(gone("bob", &logout), "revoked");
    let disable = |viewer: &Viewer| fixture.change(viewer, &json!({"disabled": true}));
    assert_eq!(gone("cid", &disable), "revoked");
    let everywhere = |viewer: &Viewer| {
        let target = format!("/api/user/v1/users/{}/sessions", viewer.id);
        assert_eq!(fixture.ask(viewer, "DELETE", &target, &[], "").status, 204);
    };
    assert_eq!(gone("dora", &everywhere), "signed_out");
    let remove = |viewer: &Viewer| {
        let target = format!("users/{}", viewer.id);
        assert_eq!(operator("DELETE", &target).status, 204);
    };
    assert_eq!(gone("eva", &remove), "erased");
}

#[test]
fn a_retry_resumes_at_the_previous_position() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    fixture.protect(ann);
    fixture.server.wait(3_600);
    let target = |offset: i64| format!("/api/entitlement/v2/asset/news?offset={offset}");
    let token = |session: &[(&str, &str)], offset: i64, body: &str| {
        let answer = fixture.ask(ann, "POST", &target(offset), session, body);
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["token"].as_str().unwrap().to_owned()
    };
    let pin = r#"{"pinCode":"2468"}"#;
    // Starts behind the live point, where no PIN is needed. Then unlocks the live point with the PIN.
    let began = token(&[], -5_400, "");
    let first = player(ann, "tv", &fixture.preflight(ann, "news", &began, &[]));
    fixture.server.wait(31);
    token(&[("Service-Play-Session", first.session.as_str())], 0, pin);
    assert_eq!(fixture.beat(&first, &[]).outcome(), "200");
    // Reuses the token, as after a failed license. The later unlock and the position are kept.
    let retried = player(ann, "tv", &fixture.preflight(ann, "news", &began, &[]));
    let kid = json!({"kids": ["EREiIjMzRERVVWZmd3eIiA"], "type": "temporary"}).to_string();
    assert_eq!(fixture.license(&retried, "clearkey", &kid).outcome(), "200");
    fixture.server.wait(1);
    assert_eq!(fixture.beat(&retried, &[]).outcome(), "200");
    assert_eq!(ended(&fixture.beat(&first, &[])), "displaced");
    // A session that has ended passes nothing on.
    assert_eq!(fixture.stop(&retried).status, 204);
    let fresh = player(ann, "tv", &fixture.preflight(ann, "news", &began, &[]));
    fixture.server.wait(1);
    assert_eq!(fixture.beat(&fresh, &[]).outcome(), "403 PIN_CODE_REQUIRED");
}

#[test]
fn expired_and_unknown_entitlements_have_different_codes() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let player = fixture.play(ann, "film", "tv");
    fixture.server.wait(86_400);
    let services = &fixture.server.services;
    services.playback.refresh(services.clock.now());
    services
        .playback
        .sweep_entitlements(services.clock.now())
        .unwrap();
    assert_eq!(
        fixture.beat(&player, &[]).outcome(),
        "403 ENTITLEMENT_EXPIRED"
    );
}

#[test]
fn a_password_reset_ends_sessions_and_entitlements() {
    let fixture = PlaybackFixture::new();
    let ann = &fixture.ann;
    let token = fixture.token(ann, "film");
    let playing = fixture.play(ann, "film", "tv");
    let server = &fixture.server;
    let ask = json!({"email": "ann@example.com"});
    let asked = server.partner("POST", "/api/login/v2/password/send-reset-password", &ask);
    assert_eq!(asked.status, 200);
    let reset = server.mailed_token();
    let new = json!({"token": reset, "password": "a fresh and longer one"});
    let done = server.partner("POST", "/api/login/v2/password/reset", &new);
    assert_eq!(done.status, 200, "{}", done.json());
    let body = json!({"identity": "ann@example.com", "accessKey": "a fresh and longer one"});
    let back = viewer(&server.partner("POST", "/api/login/v2/auth/email", &body));
    let mut player = playing;
    player.viewer = back.clone();
    assert_eq!(ended(&fixture.beat(&player, &[])), "revoked");
    let old = fixture.preflight(&back, "film", &token, &[]);
    assert_eq!(old.outcome(), "403 ENTITLEMENT_INVALID");
}

#[test]
fn operators_list_and_end_sessions() {
    let fixture = PlaybackFixture::new();
    let player = fixture.play(&fixture.ann, "film", "tv");
    let server = &fixture.server;
    let list = server.operator("GET", "sessions", &Value::Null);
    let list = list.json();
    assert_eq!(list[0]["sessionId"], player.session.as_str());
    assert_eq!(list[0]["userId"], fixture.ann.id.as_str());
    let one = format!("sessions/{}", player.session);
    assert_eq!(server.operator("DELETE", &one, &Value::Null).status, 204);
    assert_eq!(fixture.beat(&player, &[]).outcome(), "410 SESSION_ENDED");
    let again = server.operator("DELETE", &one, &Value::Null);
    assert_eq!(again.outcome(), "410 SESSION_ENDED");
    let devices = format!("users/{}/devices", fixture.ann.id);
    assert_eq!(
        server.operator("DELETE", &devices, &Value::Null).status,
        204
    );
}
