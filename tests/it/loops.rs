//! Loop channels over HTTP: livestreams that repeat a clip.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::gate_only::NOON;
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{Answer, Wire, ask, request};

const CATALOGUE: &str = r#"
[[livestream]]
id = "round"
catchup_days = 7
start_over = true
encrypted = false
playlist = { dash = "loop:demo/encrypted/manifest.mpd", hls = "loop:demo/clear/master.m3u8" }

[[offer]]
id = "round"
type = "default"
pack = { livestreams = ["round"] }
"#;

/// A server with a loop channel of the demo's clip, and a programme every hour.
fn fixture() -> PlaybackFixture {
    let fixture = PlaybackFixture::new();
    let clip = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/demo/clip");
    for kind in ["clear", "encrypted"] {
        let folder = fixture.media().join("demo").join(kind);
        fs::create_dir_all(&folder).unwrap();
        for file in fs::read_dir(clip.join(kind)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
    }
    let post = |target: &str, body: &str| {
        let bearer = format!("Bearer {}", fixture.server.admin);
        let headers = [("Authorization", bearer.as_str())];
        let answer = ask(fixture.server.ops, request("POST", target, &headers, body));
        assert_eq!(answer.status, 200, "{}", answer.json());
    };
    post("/admin/v1/catalog/import?merge=true", CATALOGUE);
    let programme = |id: &str, start: i64| {
        json!({
            "id": id, "title": id, "pgAge": 0, "start": NOON.0 + start, "stop": NOON.0 + start + 3_600,
        })
    };
    let guide = json!({"round": [programme("past", -3_600), programme("present", 0), programme("next", 3_600)]});
    post("/admin/v1/epg/import", &guide.to_string());
    fixture
}

/// Returns the manifest address of a preflight.
fn playlist(fixture: &PlaybackFixture, asset: &str, protocol: &str) -> String {
    let token = fixture.token(&fixture.ann, asset);
    let wanted = [("DRM", "none"), ("Protocol", protocol)];
    let started = fixture.preflight(&fixture.ann, asset, &token, &wanted);
    assert_eq!(started.status, 200, "{}", started.json());
    started.json()["playlist"].as_str().unwrap().to_owned()
}

/// Returns the address of a file next to the manifest.
fn sibling_address(address: &str, name: &str) -> String {
    format!("{}/{name}", address.rsplit_once('/').unwrap().0)
}

fn text(answer: &Answer) -> &str {
    assert_eq!(answer.status, 200);
    std::str::from_utf8(&answer.body).unwrap()
}

fn attribute<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap();
    rest.split_once('"').unwrap().0
}

fn number(text: &str, name: &str) -> i64 {
    attribute(text, name).parse().unwrap()
}

/// Returns the 64-bit decode time of a segment.
fn decode_time(segment: &[u8]) -> i64 {
    let at = segment.windows(4).position(|four| four == b"tfdt").unwrap();
    assert_eq!(segment[at + 4], 1);
    i64::from_be_bytes(segment[at + 8..at + 16].try_into().unwrap())
}

#[test]
fn a_loop_channel_is_live_dash() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "dash");
    assert!(
        live.ends_with("/demo/encrypted/manifest.mpd/live.mpd"),
        "{live}"
    );
    let answer = fixture.fetch(&live, &[("Origin", "https://player.example")]);
    assert_eq!(answer.header("content-type"), Some("application/dash+xml"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let manifest = text(&answer);
    assert_eq!(attribute(manifest, "type"), "dynamic");
    let last = number(manifest, "startNumber") + number(manifest, "r");
    assert_eq!(last, NOON.0 / 2 - 1);

    // Across two repetitions of the clip, media time is Unix time.
    for (track, scale) in [(0, 48_000), (1, 12_800)] {
        let init = fixture.fetch(&sibling_address(&live, &format!("{track}-init.mp4")), &[]);
        assert_eq!(&init.body[4..8], b"ftyp");
        for number in last - 12..=last {
            let segment = fixture.fetch(
                &sibling_address(&live, &format!("{track}-{number}.m4s")),
                &[],
            );
            assert_eq!(segment.header("content-type"), Some("video/mp4"));
            let off = decode_time(&segment.body) - number * 2 * scale;
            assert!(off.abs() <= scale / 20, "{track}-{number}: {off}");
        }
    }
    let next = sibling_address(&live, &format!("1-{}.m4s", last + 1));
    assert_eq!(fixture.fetch(&next, &[]).outcome(), "404 FILE_NOT_FOUND");
    fixture.server.wait(2);
    assert_eq!(fixture.fetch(&next, &[]).outcome(), "200");

    // Like every other file of the origin.
    let whole = fixture.fetch(&next, &[]);
    let tag = whole.header("etag").unwrap().to_owned();
    let part = fixture.fetch(&next, &[("Range", "bytes=10-19"), ("If-Range", &tag)]);
    assert_eq!(
        (part.status, part.body.as_slice()),
        (206, &whole.body[10..20])
    );
    assert_eq!(fixture.fetch(&next, &[("If-None-Match", &tag)]).status, 304);
    assert_eq!(
        fixture
            .fetch(&next, &[("Range", "bytes=999999-")])
            .outcome(),
        "416 RANGE_NOT_SATISFIABLE"
    );
    let target = next.strip_prefix("https://tv.example").unwrap();
    let mut wire = Wire::to(fixture.server.public);
    wire.send(request("HEAD", target, &[], ""));
    let head = wire.answer_to("HEAD").unwrap();
    let length = whole.body.len().to_string();
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-length"), Some(length.as_str()));
}

#[test]
fn the_live_point_follows_the_lab_clock() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "dash");
    let now = |manifest: &str| {
        let (_, clock) = manifest.split_once("<UTCTiming").unwrap();
        attribute(clock, "value").to_owned()
    };
    let last = |manifest: &str| number(manifest, "startNumber") + number(manifest, "r");
    let before = fixture.fetch(&live, &[]);
    assert_eq!(now(text(&before)), "2026-01-01T12:00:00Z");
    let moved = fixture
        .server
        .operator("PUT", "clock", &json!({"offset": 3_600}));
    assert_eq!(moved.status, 200);
    let after = fixture.fetch(&live, &[]);
    assert_eq!(now(text(&after)), "2026-01-01T13:00:00Z");
    assert_eq!(last(text(&after)) - last(text(&before)), 1_800);
}

#[test]
fn catch_up_covers_exactly_the_broadcast() {
    let fixture = fixture();
    let past = playlist(&fixture, "past", "dash");
    assert!(
        past.ends_with("/manifest.mpd/catchup-1767265200-1767268800.mpd"),
        "{past}"
    );
    let answer = fixture.fetch(&past, &[]);
    let manifest = text(&answer);
    assert_eq!(attribute(manifest, "type"), "static");
    assert_eq!(attribute(manifest, "mediaPresentationDuration"), "PT3600S");
    assert_eq!(number(manifest, "presentationTimeOffset"), NOON.0 - 3_600);
    let first = number(manifest, "startNumber");
    assert_eq!(number(manifest, "r"), 1_799);
    for number in [first, first + 1_799] {
        let segment = fixture.fetch(&sibling_address(&past, &format!("2-{number}.m4s")), &[]);
        assert_eq!(decode_time(&segment.body), number * 25_600);
    }
}

#[test]
fn a_loop_channel_is_live_hls() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "hls");
    assert!(
        live.ends_with("/demo/clear/master.m3u8/live.m3u8"),
        "{live}"
    );
    let answer = fixture.fetch(&live, &[]);
    assert_eq!(
        answer.header("content-type"),
        Some("application/vnd.apple.mpegurl")
    );
    assert!(text(&answer).contains("\nlive-2.m3u8\n"));
    for track in 0..3 {
        let answer = fixture.fetch(&sibling_address(&live, &format!("live-{track}.m3u8")), &[]);
        let playlist = text(&answer);
        assert!(!playlist.contains("#EXT-X-ENDLIST"));
        let names: Vec<_> = playlist
            .lines()
            .filter(|line| line.ends_with(".m4s"))
            .collect();
        assert_eq!(names.len(), 1_950);
        assert_eq!(
            *names.last().unwrap(),
            format!("{track}-{}.m4s", NOON.0 / 2 - 1)
        );
        for name in [names[0], names[1_949], &format!("{track}-init.mp4")] {
            assert_eq!(
                fixture.fetch(&sibling_address(&live, name), &[]).status,
                200,
                "{name}"
            );
        }
    }
    let past = playlist(&fixture, "past", "hls");
    let track = past
        .replace(".m3u8", "-1.m3u8")
        .replace("master-1", "master");
    let answer = fixture.fetch(&track, &[]);
    let list = text(&answer);
    assert!(list.contains("#EXT-X-PLAYLIST-TYPE:EVENT\n") && list.ends_with("#EXT-X-ENDLIST\n"));
    assert!(list.contains("#EXT-X-PROGRAM-DATE-TIME:2026-01-01T11:00:00Z\n"));
    assert_eq!(list.matches(".m4s").count(), 1_800);
}

#[test]
fn a_loop_token_opens_only_its_channel() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "dash");
    let refused = "403 PLAYLIST_TOKEN_INVALID";
    for other in [
        "demo/encrypted/manifest.mpd",
        "demo/encrypted/video-180.mp4",
        "demo/clear/manifest.mpd/live.mpd",
        "film/manifest.mpd",
    ] {
        let address = live.replace("demo/encrypted/manifest.mpd/live.mpd", other);
        assert_eq!(fixture.fetch(&address, &[]).outcome(), refused, "{other}");
    }
    // One letter of the signature is changed.
    let at = live.find("/demo/").unwrap() - 10;
    let letter = if &live[at..=at] == "A" { "B" } else { "A" };
    let forged = format!("{}{letter}{}", &live[..at], &live[at + 1..]);
    assert_eq!(fixture.fetch(&forged, &[]).outcome(), refused);
    fixture.server.wait(86_399);
    assert_eq!(fixture.fetch(&live, &[]).outcome(), "200");
    fixture.server.wait(1);
    assert_eq!(fixture.fetch(&live, &[]).outcome(), refused);
}

#[test]
fn an_unusable_clip_is_404_with_a_message() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "dash");
    let folder = fixture.media().join("demo/encrypted");
    fs::write(folder.join("audio.mp4"), "no sound").unwrap();
    let answer = fixture.fetch(&live, &[]);
    assert_eq!(answer.outcome(), "404 FILE_NOT_FOUND");
    let message = answer.json()["error"]["message"].clone();
    assert_eq!(
        message,
        "the clip of this livestream cannot be looped; see the log"
    );
    fs::remove_file(folder.join("manifest.mpd")).unwrap();
    let answer = fixture.fetch(&live, &[]);
    assert_eq!(answer.json()["error"]["message"], "there is no such file");
    // A real file with this path has priority.
    fs::create_dir(folder.join("manifest.mpd")).unwrap();
    fs::write(folder.join("manifest.mpd/live.mpd"), "<MPD/>").unwrap();
    assert_eq!(fixture.fetch(&live, &[]).body, b"<MPD/>");
}

#[test]
fn an_m3u_entry_redirects_to_its_loop_channel() {
    let fixture = fixture();
    let target = format!(
        "/api/schedule/v1/m3u/round/index.mpd?accessToken={}",
        fixture.server.partner
    );
    let sent_on = fixture.server.partner("GET", &target, &Value::Null);
    assert_eq!(
        sent_on.status,
        302,
        "{}",
        String::from_utf8_lossy(&sent_on.body)
    );
    let address = sent_on.header("location").unwrap();
    assert!(
        address.ends_with("/demo/encrypted/manifest.mpd/live.mpd"),
        "{address}"
    );
    assert_eq!(fixture.fetch(address, &[]).status, 200);
}

#[test]
fn an_m3u_entry_names_the_address_of_its_past_programs() {
    let fixture = fixture();
    let get = |target: &str| fixture.server.partner("GET", target, &Value::Null);
    let list = String::from_utf8(get("/api/schedule/v1/m3u").body).unwrap();
    let entry = list
        .lines()
        .find(|line| line.contains("\"round\""))
        .unwrap();
    assert!(
        entry.contains("catchup=\"default\" catchup-days=\"7\""),
        "{entry}"
    );
    let (_, source) = entry.split_once("catchup-source=\"").unwrap();
    let source = source.split('"').next().unwrap();
    let path = &source[source.find("/api/").unwrap()..];
    let at = |seconds: i64| path.replace("{utc}", &(NOON.0 + seconds).to_string());
    let past = get(&at(-1_800));
    assert_eq!(past.status, 302, "{}", past.json());
    let manifest = fixture.fetch(past.header("location").unwrap(), &[]);
    assert_eq!(manifest.status, 200);
    // The whole programme is played.
    let text = String::from_utf8(manifest.body).unwrap();
    let window = format!("catchup-{}-{}-", NOON.0 - 3_600, NOON.0);
    assert!(text.contains(&window), "{text}");
    // No program was on at that time.
    assert_ne!(get(&at(-86_400)).status, 302);
}

#[test]
fn a_playlist_of_a_start_over_only_grows() {
    let fixture = fixture();
    fixture.server.wait(60);
    let get = |target: &str| fixture.server.partner("GET", target, &Value::Null);
    let list = String::from_utf8(get("/api/schedule/v1/m3u").body).unwrap();
    let (_, source) = list.split_once("catchup-source=\"").unwrap();
    let path = &source[source.find("/api/").unwrap()..source.find('"').unwrap()];
    let path = path
        .replace("{utc}", &(NOON.0 + 30).to_string())
        .replace(".mpd", ".m3u8");
    let master = get(&path).header("location").unwrap().to_owned();
    let answer = fixture.fetch(&master, &[]);
    let name = text(&answer)
        .lines()
        .find(|line| !line.starts_with('#') && !line.is_empty());
    let media = sibling_address(&master, name.unwrap());
    let mut before = text(&fixture.fetch(&media, &[])).to_owned();
    assert!(before.contains("#EXT-X-START:TIME-OFFSET=0\n"), "{before}");
    // Through the end of the programme, with the same address. The token is good for longer.
    for (seconds, is_over) in [(600, false), (2_930, false), (120, true), (3_600, true)] {
        fixture.server.wait(seconds);
        let now = text(&fixture.fetch(&media, &[])).to_owned();
        assert!(
            now.starts_with(&before),
            "RFC 8216, 6.2.1: lines were changed: {before}{now}"
        );
        assert_eq!(now.ends_with("#EXT-X-ENDLIST\n"), is_over);
        before = now;
    }
    assert_eq!(text(&fixture.fetch(&master, &[])), text(&answer));
}

#[test]
fn an_early_start_over_reaches_as_far_back_in_hls_as_in_dash() {
    let fixture = fixture();
    let body = fixture.ask(
        &fixture.ann,
        "POST",
        "/api/entitlement/v2/asset/round?offset=-7200",
        &[],
        "",
    );
    let token = body.json()["token"].as_str().unwrap().to_owned();
    let wanted = [("DRM", "none"), ("Protocol", "hls")];
    let started = fixture
        .preflight(&fixture.ann, "round", &token, &wanted)
        .json();
    let master = started["playlist"].as_str().unwrap();
    let answer = fixture.fetch(master, &[]);
    let name = text(&answer)
        .lines()
        .find(|line| !line.starts_with('#') && !line.is_empty());
    let media = fixture.fetch(&sibling_address(master, name.unwrap()), &[]);
    let media = text(&media);
    let first = media
        .split_once("#EXT-X-MEDIA-SEQUENCE:")
        .unwrap()
        .1
        .lines()
        .next()
        .unwrap();
    assert_eq!(first.parse::<i64>().unwrap(), (NOON.0 - 7_200) / 2);
    assert!(!media.contains("ENDLIST"));
}
