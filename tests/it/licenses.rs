//! Licenses, certificates, and the files of the media origin.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::support::playback_fixture::{FILM_KEY, PlaybackFixture, Player, never_issued};
use crate::support::raw_http::{Answer, ask, request};

fn kids(ids: &[&str]) -> String {
    json!({"kids": ids, "type": "temporary"}).to_string()
}

#[test]
fn each_license_refusal_has_its_code() {
    let fixture = PlaybackFixture::new();
    let film = fixture.play(&fixture.ann, "film", "tv");
    let good = kids(&[FILM_KEY.0]);
    let of = |player: &Player, body: &str| fixture.license(player, "clearkey", body).outcome();
    assert_eq!(of(&film, &good), "200");
    let change = |change: fn(&mut Player)| {
        let mut other = film.clone();
        change(&mut other);
        of(&other, &good)
    };
    assert_eq!(change(|p| p.session = "x".into()), "404 SESSION_NOT_FOUND");
    assert_eq!(change(|p| p.session.clear()), "400 INVALID_REQUEST");
    assert_eq!(
        change(|p| p.entitlement = never_issued()),
        "403 ENTITLEMENT_INVALID"
    );
    assert_eq!(change(|p| p.viewer.token.clear()), "401 USER_TOKEN_INVALID");
    let bobs = fixture.play(&fixture.viewer("bob"), "film", "tv");
    let mut stolen = film.clone();
    stolen.entitlement.clone_from(&bobs.entitlement);
    assert_eq!(of(&stolen, &good), "403 ENTITLEMENT_INVALID");
    stolen.viewer = bobs.viewer.clone();
    assert_eq!(of(&stolen, &good), "403 ENTITLEMENT_INVALID");
    // One key of another asset makes the whole request fail.
    let foreign = kids(&[FILM_KEY.0, "EREiIjMzRERVVWZmd3eIiA"]);
    assert_eq!(of(&film, &foreign), "403 KEY_NOT_ALLOWED");
    for bad in ["", "{}", "[]", "challenge"] {
        assert_eq!(of(&film, bad), "400 INVALID_REQUEST", "{bad}");
    }
    let other = fixture.license(&film, "widevine", "challenge");
    assert_eq!(other.outcome(), "403 DRM_MISMATCH");
    let large = fixture.license(&film, "clearkey", &"x".repeat(64 * 1024 + 1));
    assert_eq!(large.status, 413);
    assert_eq!(fixture.stop(&film).status, 204);
    assert_eq!(of(&film, &good), "410 SESSION_ENDED");
}

/// A content key changes during playback: the running session gets licenses with the new one.
#[test]
fn a_catalogue_import_rotates_content_keys() {
    const NEW_KID: &str = "EBEiM0RVZneImaq7zN3u_w";
    let fixture = PlaybackFixture::new();
    let film = fixture.play(&fixture.ann, "film", "tv");
    let of = |ids: &[&str]| fixture.license(&film, "clearkey", &kids(ids));
    let key = |answer: &Answer| answer.json()["keys"][0]["k"].as_str().unwrap().to_owned();
    let before = of(&[FILM_KEY.0]);
    assert_eq!(key(&before), FILM_KEY.1);
    let rotated = json!({"asset": [{
        "id": "film", "pg_age": 0,
        "playlist": {"dash": "origin:film/manifest.mpd"},
        "keys": [
            {"kid": "00112233445566778899aabbccddeeff", "key": "ffffffffffffffffffffffffffffffff"},
            {"kid": "10112233445566778899aabbccddeeff", "key": "0f0e0d0c0b0a09080706050403020100"},
        ],
    }]});
    let imported = fixture
        .server
        .operator("POST", "catalog/import?merge=true", &rotated);
    assert_eq!(imported.status, 200, "{}", imported.json());
    assert_eq!(key(&of(&[FILM_KEY.0])), "_____________________w");
    assert_eq!(key(&of(&[NEW_KID])), FILM_KEY.1);
    // A key that the catalogue no longer has.
    let gone = of(&["qqqqqqqqqqqqqqqqqqqqqg"]);
    assert_eq!(gone.outcome(), "403 KEY_NOT_ALLOWED");
    assert_eq!(fixture.beat(&film, &[]).status, 200);
}

#[test]
fn an_unconfigured_drm_system_names_the_missing_setting() {
    let fixture = PlaybackFixture::new();
    let token = fixture.token(&fixture.ann, "film");
    let answer = fixture.preflight(&fixture.ann, "film", &token, &[("DRM", "widevine")]);
    assert_eq!(answer.outcome(), "404 PROTOCOL_NOT_AVAILABLE");
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("license.widevine.url"), "{message}");
    let target = "/api/playback/v1/fairplay/certificate";
    let certificate = fixture.ask(&fixture.ann, "GET", target, &[], "");
    assert_eq!(certificate.outcome(), "404 CERTIFICATE_NOT_CONFIGURED");
}

#[test]
fn the_origin_supports_ranges_and_conditional_requests() {
    let fixture = PlaybackFixture::new();
    let player = fixture.play(&fixture.ann, "film", "tv");
    let manifest = fixture.fetch(&player.playlist, &[]);
    assert_eq!(manifest.status, 200);
    assert_eq!(
        manifest.header("content-type"),
        Some("application/dash+xml")
    );
    // Relative addresses inherit the token in the path.
    let segment = player.playlist.replace("manifest.mpd", "video/1.m4s");
    let whole = fixture.fetch(&segment, &[]);
    assert_eq!(whole.body, b"0123456789");
    assert_eq!(whole.header("content-type"), Some("video/mp4"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    for (range, body, content_range) in [
        ("bytes=2-4", &b"234"[..], "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
    ] {
        let part = fixture.fetch(&segment, &[("Range", range)]);
        assert_eq!((part.status, part.body.as_slice()), (206, body));
        assert_eq!(part.header("content-range"), Some(content_range));
    }
    let beyond = fixture.fetch(&segment, &[("Range", "bytes=10-")]);
    assert_eq!(beyond.status, 416);
    assert_eq!(beyond.header("content-range"), Some("bytes */10"));
    let tag = whole.header("etag").unwrap();
    let same = fixture.fetch(&segment, &[("If-None-Match", tag)]);
    assert_eq!(same.status, 304);
    let other = [("Range", "bytes=0-0"), ("If-Range", "\"other\"")];
    assert_eq!(fixture.fetch(&segment, &other).status, 200);
}

#[test]
fn the_origin_serves_only_the_signed_directory() {
    let fixture = PlaybackFixture::new();
    let player = fixture.play(&fixture.ann, "film", "tv");
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("key"), "k").unwrap();
    symlink(outside.path(), fixture.media().join("film/link")).unwrap();
    let base = player.playlist.strip_suffix("manifest.mpd").unwrap();
    let base = base.strip_prefix("https://tv.example").unwrap();
    let get = |target: &str| ask(fixture.server.public, request("GET", target, &[], ""));
    for below in [
        "../other/secret.mp4",
        "%2e%2e/other/secret.mp4",
        "..%2fother/secret.mp4",
        "%2e%2e%2fother%2fsecret.mp4",
        "..%5cother%5csecret.mp4",
        "video/../../other/secret.mp4",
        "video//1.m4s",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "video/1.m4s%00.mpd",
        "link/key",
        "video",
        "nothing.mp4",
        ".hidden",
    ] {
        let answer = get(&format!("{base}{below}"));
        assert!(matches!(answer.status, 400 | 403 | 404), "{below}");
    }
    let token = base.split('/').nth(3).unwrap();
    let foreign = get(&format!("/origin/v1/{token}/other/secret.mp4"));
    assert_eq!(foreign.outcome(), "403 PLAYLIST_TOKEN_INVALID");
    let missing = get(&format!("{base}nothing.mp4"));
    assert_eq!(missing.outcome(), "404 FILE_NOT_FOUND");
    let forged = get("/origin/v1/AAAA/film/manifest.mpd");
    assert_eq!(forged.outcome(), "403 PLAYLIST_TOKEN_INVALID");
    fixture.server.wait(86_400);
    let late = fixture.fetch(&player.playlist, &[]);
    assert_eq!(late.outcome(), "403 PLAYLIST_TOKEN_INVALID");
}
