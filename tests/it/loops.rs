//! Loop channels over HTTP: livestreams that repeat a clip.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use playgate_ports::clock::Clock as _;
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

/// The segments of a media playlist: seconds and name.
fn segments(playlist: &str) -> Vec<(f64, &str)> {
    let lines: Vec<&str> = playlist.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let seconds = pair[0].strip_prefix("#EXTINF:")?.split(',').next()?;
        Some((seconds.parse().unwrap(), pair[1]))
    });
    pairs.collect()
}

fn tag<'a>(playlist: &'a str, name: &str) -> Option<&'a str> {
    let mut found = playlist.lines().filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        Some(value)
    });
    let value = found.next();
    assert!(found.next().is_none(), "{name} occurs twice");
    value
}

/// RFC 8216, and the authoring specification of Apple for live playlists.
#[test]
fn live_playlists_keep_the_rules_of_hls_at_every_update() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "hls");
    let master = fixture.fetch(&live, &[]);
    let master = text(&master);
    assert!(master.starts_with("#EXTM3U\n"));
    assert!(master.contains("\n#EXT-X-INDEPENDENT-SEGMENTS\n"));
    let variants = || {
        master
            .lines()
            .filter(|line| line.starts_with("#EXT-X-STREAM-INF:"))
    };
    assert_eq!(variants().count(), 2);
    for variant in variants() {
        for name in [
            "BANDWIDTH=",
            "AVERAGE-BANDWIDTH=",
            "CODECS=",
            "RESOLUTION=",
            "FRAME-RATE=",
            "CLOSED-CAPTIONS=",
        ] {
            assert!(variant.contains(name), "{name} of {variant}");
        }
    }
    let mut before: [Vec<(i64, String)>; 3] = Default::default();
    let mut targets = Vec::new();
    for round in 0..6 {
        for (track, before) in before.iter_mut().enumerate() {
            let name = format!("live-{track}.m3u8");
            let answer = fixture.fetch(&sibling_address(&live, &name), &[]);
            let list = text(&answer);
            // 4.3.1.2: `EXT-X-MAP` outside of I-frame playlists.
            assert_eq!(tag(list, "#EXT-X-VERSION"), Some("6"));
            let target: f64 = tag(list, "#EXT-X-TARGETDURATION").unwrap().parse().unwrap();
            targets.push(target.to_string());
            let first: i64 = tag(list, "#EXT-X-MEDIA-SEQUENCE").unwrap().parse().unwrap();
            // 4.3.3.5 and 4.3.3.4: a playlist without a type that is not at its end may lose segments.
            assert_eq!(tag(list, "#EXT-X-PLAYLIST-TYPE"), None);
            assert!(!list.contains("#EXT-X-ENDLIST"));
            // Timestamps are continuous, so there is no discontinuity to count.
            assert!(!list.contains("DISCONTINUITY"));
            let date = tag(list, "#EXT-X-PROGRAM-DATE-TIME").unwrap();
            let date = chrono::DateTime::parse_from_rfc3339(date).unwrap();
            // The date is that of the first segment, and so is its timestamp, up to the reordering of frames.
            let segments = segments(list);
            let head = fixture.fetch(&sibling_address(&live, segments[0].1), &[]);
            let scale = if track == 0 { 48_000.0 } else { 12_800.0 };
            let begins = decode_time(&head.body) as f64 / scale;
            assert!((begins - date.timestamp_millis() as f64 / 1e3).abs() < 0.1);
            // 4.3.3.1, 6.2.2: no segment is longer than the target, and no playlist shorter than three.
            assert!(
                segments
                    .iter()
                    .all(|(seconds, _)| seconds.round() <= target)
            );
            let length: f64 = segments.iter().map(|(seconds, _)| seconds).sum();
            assert!(length >= 3.0 * target);
            // The last segment has ended: within a target duration of now.
            let edge = date.timestamp_millis() as f64 / 1e3 + length;
            let behind = fixture.server.clock.now().0 as f64 - edge;
            assert!((-1.1..=target).contains(&behind), "{behind}");
            // 6.2.1: what was named keeps its number, and what goes goes at the front.
            let named: Vec<(i64, String)> = (first..)
                .zip(segments.iter().map(|(_, name)| (*name).to_owned()))
                .collect();
            for entry in before.iter().filter(|(number, _)| *number >= first) {
                assert!(named.contains(entry), "round {round}: {entry:?} is gone");
            }
            // 6.2.2: a segment that was removed stays for as long as the playlist that named it.
            for (_, name) in before.iter().filter(|(number, _)| *number < first).take(1) {
                assert_eq!(
                    fixture.fetch(&sibling_address(&live, name), &[]).status,
                    200
                );
            }
            *before = named;
        }
        fixture.server.wait(2 + round % 3);
    }
    // 6.2.4 and 4.3.3.1: one target duration for all playlists, which never changes.
    targets.dedup();
    assert_eq!(targets, ["2"]);
}

/// The bandwidth of a variant is that of its loop: RFC 8216, 4.3.4.2, within a tenth (Apple's specification, 9.8).
#[test]
fn a_variant_of_a_loop_has_the_bandwidth_that_it_states() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "hls");
    let master = fixture.fetch(&live, &[]);
    let peak = |track: usize| {
        let answer = fixture.fetch(&sibling_address(&live, &format!("live-{track}.m3u8")), &[]);
        let list = text(&answer);
        let segments = segments(list).into_iter().rev().take(5);
        let rates = segments.map(|(seconds, name)| {
            let segment = fixture.fetch(&sibling_address(&live, name), &[]);
            segment.body.len() as f64 * 8.0 / seconds
        });
        rates.fold(0.0, f64::max)
    };
    let stated = text(&master).lines().filter_map(|line| {
        let (_, rest) = line
            .strip_prefix("#EXT-X-STREAM-INF:")?
            .split_once("BANDWIDTH=")?;
        rest.split(',').next()?.parse::<f64>().ok()
    });
    let stated: Vec<f64> = stated.collect();
    let sound = peak(0);
    for (track, stated) in [1, 2].into_iter().zip(stated) {
        let peak = sound + peak(track);
        assert!((0.9..=1.1).contains(&(peak / stated)), "{peak} of {stated}");
    }
}

/// ISO 23009-1 and the guidelines of the DASH Industry Forum for live services.
#[test]
fn live_manifests_keep_the_rules_of_dash_at_every_update() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "dash");
    let mut before: Option<(i64, i64)> = None;
    for _ in 0..4 {
        let answer = fixture.fetch(&live, &[]);
        let manifest = text(&answer);
        assert_eq!(
            attribute(manifest, "profiles"),
            "urn:mpeg:dash:profile:isoff-live:2011"
        );
        for (name, value) in [
            ("type", "dynamic"),
            // Neither start changes while the service lasts.
            ("availabilityStartTime", "1970-01-01T00:00:00Z"),
            ("minimumUpdatePeriod", "PT2S"),
            ("timeShiftBufferDepth", "PT90000S"),
            ("suggestedPresentationDelay", "PT6S"),
            ("maxSegmentDuration", "PT2S"),
            ("minBufferTime", "PT2S"),
        ] {
            assert_eq!(attribute(manifest, name), value, "{name}");
        }
        assert!(manifest.contains("<Period id=\"0\" start=\"PT0S\">"));
        assert!(manifest.contains("segmentAlignment=\"true\""));
        let clock = manifest.split_once("<UTCTiming").unwrap().1;
        let published = attribute(manifest, "publishTime");
        assert_eq!(attribute(clock, "value"), published);
        // Each representation names its first segment by number and time, which belong together for ever.
        let first = number(manifest, "startNumber");
        let (time, length) = (number(manifest, "t"), number(manifest, "d"));
        assert_eq!(time, first * length);
        let last = first + number(manifest, "r");
        // What is listed is available, and has been listed until it left the time-shift buffer.
        let end = (last + 1) * length;
        let now = fixture.server.clock.now().0;
        assert!((now - 2..=now).contains(&end), "{end} at {now}");
        let media = sibling_address(&live, &format!("0-{last}.m4s"));
        assert_eq!(fixture.fetch(&media, &[]).status, 200);
        if let Some((earlier, latest)) = before {
            assert!(earlier <= first && latest <= last);
        }
        before = Some((first, last));
        fixture.server.wait(3);
    }
    let encrypted = fixture.fetch(&live, &[]);
    let manifest = text(&encrypted);
    // The key id of the catalogue is readable without a segment.
    assert_eq!(manifest.matches("cenc:default_KID=").count(), 2);
}

#[test]
fn manifests_are_compressed_and_their_ranges_are_not() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "hls");
    let media = sibling_address(&live, "live-0.m3u8");
    let plain = fixture.fetch(&media, &[]);
    let packed = fixture.fetch(&media, &[("Accept-Encoding", "gzip, br")]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("cache-control"), Some("no-store"));
    assert_eq!(packed.header("content-type"), plain.header("content-type"));
    assert!(packed.body.len() * 4 < plain.body.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.body.as_slice())
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain.body);
    // Each coding has a tag of its own, and a range is one of the plain bytes.
    let tags = [plain.header("etag"), packed.header("etag")];
    assert_ne!(tags[0], tags[1]);
    let ranged = [
        ("Accept-Encoding", "gzip"),
        ("Range", "bytes=0-6"),
        ("If-Range", tags[0].unwrap()),
    ];
    let part = fixture.fetch(&media, &ranged);
    assert_eq!((part.status, part.body.as_slice()), (206, &b"#EXTM3U"[..]));
    assert_eq!(part.header("content-encoding"), None);
    let known = [
        ("Accept-Encoding", "gzip"),
        ("If-None-Match", tags[1].unwrap()),
    ];
    assert_eq!(fixture.fetch(&media, &known).status, 304);
    // Segments are compressed already. A player may add the query of CMCD, or of a low-latency playlist.
    let name = format!("0-{}.m4s?CMCD=bl%3D2000", NOON.0 / 2 - 1);
    let segment = fixture.fetch(
        &sibling_address(&live, &name),
        &[("Accept-Encoding", "gzip")],
    );
    assert_eq!(
        (segment.status, segment.header("content-encoding")),
        (200, None)
    );
}

#[test]
fn every_answer_of_the_origin_can_be_read_and_timed_by_a_page() {
    let fixture = fixture();
    let live = playlist(&fixture, "round", "dash");
    let segment = sibling_address(&live, &format!("0-{}.m4s", NOON.0 / 2 - 1));
    let origin = ("Origin", "https://player.example");
    let beyond = sibling_address(&live, "0-999999999999.m4s");
    for (address, headers, status) in [
        (&live, vec![origin], 200),
        (&segment, vec![origin], 200),
        (&segment, vec![origin, ("Range", "bytes=0-9")], 206),
        (&segment, vec![origin, ("If-None-Match", "*")], 304),
        (&segment, vec![origin, ("Range", "bytes=99999999-")], 416),
        (&beyond, vec![origin], 404),
    ] {
        let answer = fixture.fetch(address, &headers);
        assert_eq!(answer.status, status, "{address}");
        for name in ["access-control-allow-origin", "timing-allow-origin"] {
            assert_eq!(answer.header(name), Some("*"), "{name} of {status}");
        }
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("Content-Range") && exposed.contains("Date"));
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{status}");
    }
}
