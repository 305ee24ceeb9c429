//! The export of the schedule as XMLTV and M3U, which programs use that know nothing else of Playgate.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use playgate_config::Network;
use playgate_process::Turn;
use playgate_types::PartnerId;
use serde_json::json;

use super::real_guides;
use crate::support::external_tools::program;
use crate::support::gate_only::{GateOnly, NOON};
use crate::support::process::InTime as _;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::schedule_fixture::{
    CATALOG, ROWS, ask_with, at, get, guide, post, set_clock, stocked, stocked_with, unpacked,
};
use crate::support::synthetic_guide::xmltv_time;

const XMLTV: &str = "/api/schedule/v1/xmltv";
const M3U: &str = "/api/schedule/v1/m3u";

#[test]
fn exports_are_cached_until_the_schedule_changes() {
    let server = stocked();
    let xmltv = "/api/schedule/v1/xmltv";
    let m3u = "/api/schedule/v1/m3u";
    let tag = |target: &str| get(&server, target).header("etag").unwrap().to_owned();
    let held = |target: &str, tag: &str| {
        let answer = ask_with(&server, "GET", target, &[("If-None-Match", tag)]);
        assert_eq!(
            answer.header("cache-control"),
            Some("private, max-age=10"),
            "{target}"
        );
        answer.status == 304
    };
    let tags = [xmltv, m3u].map(tag);
    assert!(tags[0].starts_with('"') && tags[0] != tags[1]);
    assert!(held(xmltv, &tags[0]) && held(m3u, &tags[1]));
    // A new guide changes the XMLTV export, but not the list of livestreams.
    let mut changed = ROWS;
    changed[0].2 = "Another";
    let imported = post(&server, "/admin/v1/epg/import", guide(&changed).as_bytes());
    assert_eq!(imported.status, 200);
    assert!(!held(xmltv, &tags[0]) && held(m3u, &tags[1]));
    let tags = [xmltv, m3u].map(tag);
    assert!(held(xmltv, &tags[0]) && held(m3u, &tags[1]));
    // A changed name is in both exports.
    let catalog = CATALOG.replace("News & Co", "Other");
    let imported = post(&server, "/admin/v1/catalog/import", catalog.as_bytes());
    assert_eq!(imported.status, 200);
    assert!(!held(xmltv, &tags[0]) && !held(m3u, &tags[1]));
}

/// Occupies every thread of the compression pool until [`HeldPool::release`] or its drop.
struct HeldPool {
    partner: Option<PartnerId>,
    release: mpsc::Sender<()>,
    threads: usize,
}

impl HeldPool {
    /// Occupies the threads with jobs of this partner and address.
    fn new(server: &GateOnly, from: &str) -> Self {
        let (release, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        let (begun, begins) = mpsc::channel();
        let held = Self {
            partner: server.gate.partner_id(),
            release,
            threads: thread::available_parallelism().unwrap().get(),
        };
        let jobs = (0..held.threads).map(|_| {
            let (waits, begun) = (Arc::clone(&waits), begun.clone());
            let hold = move |_: &mut ()| {
                begun.send(()).unwrap();
                // Fails after the sender is dropped.
                let _ = waits.lock().unwrap().recv();
            };
            server
                .services
                .compression
                .run_for(held.turn(from), hold)
                .ok()
                .unwrap()
        });
        // Kept, because a job that is dropped before it begins does not run.
        let _begin: Vec<_> = jobs.collect();
        for _ in 0..held.threads {
            begins.recv().unwrap();
        }
        held
    }

    fn turn(&self, from: &str) -> Turn {
        Turn::for_client(self.partner, from.parse().unwrap())
    }

    fn release(&self) {
        for _ in 0..self.threads {
            self.release.send(()).unwrap();
        }
    }
}

#[test]
fn networks_of_a_partner_share_the_compression_pool_fairly() {
    let server = stocked_with(|http, _| {
        http.trusted_proxies = vec![Network::parse("127.0.0.1").unwrap()];
    });
    let pool = &server.services.compression;
    // A network fills its share of the queue.
    let held = HeldPool::new(&server, "203.0.113.9");
    let turn = |from: &str| held.turn(from);
    let floods = ["198.51.100.1", "2001:db8:1:2::1"].map(|from| {
        let jobs = std::iter::from_fn(|| pool.run_for(turn(from), |()| ()).ok());
        jobs.collect::<Vec<_>>()
    });
    assert!(floods.iter().all(|jobs| jobs.len() > 1));
    let export = &|from: &str| ask_with(&server, "GET", XMLTV, &[("X-Forwarded-For", from)]);
    for from in ["198.51.100.254", "2001:db8:1:ffff::2"] {
        let answer = export(from);
        assert_eq!(
            (answer.status, answer.code()),
            (503, "OVERLOADED".to_owned()),
            "{from}"
        );
    }
    thread::scope(|scope| {
        let others =
            ["198.51.101.1", "2001:db8:2::1"].map(|from| scope.spawn(move || export(from).status));
        // Both wait: one makes the export, which the other one gets too.
        held.release();
        for other in others {
            assert_eq!(other.join().unwrap(), 200);
        }
    });
    drop(floods);
}

/// Responses are cached by their meaning. With every thread of the pool occupied and its queue full, only cached ones
/// can be compressed.
#[test]
fn other_spellings_of_a_request_reuse_its_compressed_answer() {
    let server = stocked();
    let story = "A long story. ".repeat(40);
    let programs: Vec<_> = (0..200)
        .map(|n| {
            json!({
                "id": format!("n{n}"), "title": "T", "description": story, "start": at(n), "stop": at(n + 1),
            })
        })
        .collect();
    let import = |title: &str| {
        let guide = json!({"news": programs, "film": [
            {"id": "f", "title": title, "start": at(-120), "stop": at(60)},
        ]});
        let target = "/admin/v1/epg/import?accept=true";
        assert_eq!(
            post(&server, target, guide.to_string().as_bytes()).status,
            200
        );
    };
    import("F");
    let gzip = [("Accept-Encoding", "gzip")];
    let is_packed = |target: &str| {
        let answer = ask_with(&server, "GET", target, &gzip);
        assert_eq!(answer.status, 200, "{target}");
        answer.header("content-encoding") == Some("gzip")
    };
    let day = "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=";
    assert!(is_packed(&format!("{day}film,news")) && is_packed(XMLTV));
    let held = HeldPool::new(&server, "127.0.0.1");
    let pool = &server.services.compression;
    let waiting = || pool.run_for(held.turn("127.0.0.1"), |()| ()).ok();
    let _queue: Vec<_> = std::iter::from_fn(waiting).collect();
    for same in [
        "film,news",
        "news,film",
        "film,news&x=1",
        "film,news&x=2",
        "news&livestreams=film,film",
        "%6Eews%2Cfilm",
    ] {
        assert!(is_packed(&format!("{day}{same}")), "{same}");
    }
    for export in [XMLTV.to_owned(), format!("{XMLTV}?accessToken=x")] {
        assert!(is_packed(&export), "{export}");
    }
    // Controls: another meaning, and the same request after a change.
    assert!(!is_packed(&format!("{day}news")));
    import("Another");
    assert!(!is_packed(&format!("{day}film,news")));
    assert_eq!(ask_with(&server, "GET", XMLTV, &gzip).code(), "OVERLOADED");
}

#[test]
fn the_export_can_be_imported_again() {
    let server = stocked();
    let answer = get(&server, "/api/schedule/v1/xmltv");
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/xml; charset=utf-8"))
    );
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(text.contains("<display-name>News &amp; Co</display-name>"));
    assert!(text.contains("<title>B &lt;b&gt;</title>"));
    assert!(text.contains("start=\"20260101113000 +0000\" stop=\"20260101123000 +0000\""));
    let again = post(&server, "/admin/v1/epg/import", &answer.body);
    let report = again.json();
    assert_eq!((again.status, &report["unchanged"]), (200, &json!(6)));
    assert_eq!(
        (&report["channels"], &report["changed"]),
        (&json!(2), &json!(0))
    );
    // Programs that cannot send headers pass the token in the query.
    let token = server.gate.tokens.partner.reveal();
    let target = format!("/api/schedule/v1/xmltv?accessToken={token}");
    let bare = crate::support::raw_http::ask(server.public, request("GET", &target, &[], ""));
    assert_eq!((bare.status, bare.body), (200, answer.body));
}

fn lines(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200);
    let text = String::from_utf8(answer.body.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns a catalogue of livestreams, each with its own offer.
fn catalogue(livestreams: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for (id, members, offer) in livestreams {
        text += &format!(
            "[[livestream]]\nid = \"{id}\"\n{members}\n\n[[offer]]\nid = \"of-{id}\"\n\
             pack = {{ livestreams = [\"{id}\"] }}\n{offer}\n\n"
        );
    }
    text
}

const OPEN: &str = "type = \"default\"";
const CLEAR: &str = "encrypted = false\nplaylist = { hls = \"https://cdn.example/x.m3u8\" }";

#[test]
#[expect(clippy::too_many_lines, reason = "one list and all that is not on it")]
fn the_m3u_lists_freely_watchable_livestreams() {
    let server = GateOnly::start();
    let text = catalogue(&[
        (
            "cdn",
            &format!("number = 7\ngroup = \"News\"\n{CLEAR}"),
            OPEN,
        ),
        (
            "home",
            "name = \"At \\\"home\\\"\"\nencrypted = false\n\
             images = [{ filename = \"https://i.example/h.png\" }]\n\
             playlist = { dash = \"origin:loop/home.mpd\" }",
            OPEN,
        ),
        ("dark", &format!("live_rights = false\n{CLEAR}"), OPEN),
        // Livestreams that players of the list cannot show.
        ("sealed", &CLEAR.replace("false", "true"), OPEN),
        ("sold", CLEAR, "type = \"subscription\""),
        (
            "later",
            CLEAR,
            "type = \"default\"\nsale = { from = 2026-02-01T00:00:00Z }",
        ),
        ("abroad", CLEAR, "type = \"default\"\ncountries = [\"SE\"]"),
        ("nowhere", "encrypted = false", OPEN),
        (
            "personal",
            "encrypted = false\nplaylist = { hls = \"https://cdn.example/{session}.m3u8\" }",
            OPEN,
        ),
    ]);
    let imported = post(&server, "/admin/v1/catalog/import", text.as_bytes());
    assert_eq!(imported.status, 200, "{}", imported.json());

    let token = server.gate.tokens.partner.reveal();
    let base = format!("{}/api/schedule/v1", server.http.settings.public_url);
    let address = |rest: &str| format!("{base}/{rest}?accessToken={token}");
    let guide = address("xmltv");
    let list = lines(&get(&server, M3U));
    let expected = [
        format!("#EXTM3U url-tvg=\"{guide}\" x-tvg-url=\"{guide}\""),
        "#EXTINF:-1 tvg-id=\"cdn\" tvg-name=\"cdn\" tvg-chno=\"7\" group-title=\"News\",cdn"
            .to_owned(),
        address("m3u/cdn/index.m3u8"),
        "#EXTINF:-1 tvg-id=\"dark\" tvg-name=\"dark\",dark".to_owned(),
        address("m3u/dark/index.m3u8"),
        "#EXTINF:-1 tvg-id=\"home\" tvg-name=\"At 'home'\" tvg-logo=\"https://i.example/h.png\",\
         At \"home\""
            .to_owned(),
        address("m3u/home/index.mpd"),
    ];
    assert_eq!(list, expected);
    // The token may be in the query too, and every address in the list works without changes.
    let bare = |target: &str| ask(server.public, request("GET", target, &[], ""));
    assert_eq!(
        lines(&bare(&format!("{M3U}?accessToken={token}"))),
        expected
    );
    let watch = |address: &str| {
        bare(
            address
                .strip_prefix(&server.http.settings.public_url)
                .unwrap(),
        )
    };
    assert_eq!(watch(&guide).status, 200);
    let sent = watch(&list[2]);
    assert_eq!(
        (
            sent.status,
            sent.header("location"),
            sent.header("cache-control")
        ),
        (302, Some("https://cdn.example/x.m3u8"), Some("no-store"))
    );
    for (of, manifest, status, code) in [
        ("dark", "index.m3u8", 403, "NO_LIVE_RIGHTS"),
        ("sealed", "index.m3u8", 403, "NOT_AVAILABLE"),
        ("sold", "index.m3u8", 403, "NOT_ENTITLED"),
        ("later", "index.m3u8", 403, "NOT_ENTITLED"),
        ("abroad", "index.m3u8", 403, "GEO_BLOCKED"),
        ("nowhere", "index.m3u8", 404, "PROTOCOL_NOT_AVAILABLE"),
        ("personal", "index.m3u8", 404, "PROTOCOL_NOT_AVAILABLE"),
        ("cdn", "index.mpd", 404, "PROTOCOL_NOT_AVAILABLE"),
        ("cdn", "master.m3u8", 404, "PROTOCOL_NOT_AVAILABLE"),
        ("unknown", "index.m3u8", 404, "ASSET_NOT_FOUND"),
    ] {
        let answer = get(&server, &format!("{M3U}/{of}/{manifest}"));
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{of}"
        );
    }
    assert_eq!(
        bare(&format!("{M3U}/cdn/index.m3u8")).code(),
        "PARTNER_TOKEN_INVALID"
    );
}

#[test]
fn an_origin_livestream_plays_until_a_program_without_rights() {
    let server = GateOnly::start();
    let text = catalogue(&[(
        "home",
        "encrypted = false\nplaylist = { hls = \"origin:loop/home.m3u8\" }",
        "type = \"default\"\nsale = { to = 2026-01-02T00:00:00Z }",
    )]);
    let rule = "[[rule]]\ntitle = \"Match*\"\nlive = false\n";
    let imported = post(
        &server,
        "/admin/v1/catalog/import",
        (text + rule).as_bytes(),
    );
    assert_eq!(imported.status, 200, "{}", imported.json());
    let rows = [
        ("home", "a", "Studio", -60, 60),
        ("home", "b", "Match", 60, 120),
        ("home", "c", "Studio", 120, 180),
    ];
    assert_eq!(
        post(&server, "/admin/v1/epg/import", guide(&rows).as_bytes()).status,
        200
    );
    let media = server.services.config.origin.media_dir.join("loop");
    std::fs::create_dir_all(&media).unwrap();
    std::fs::write(media.join("home.m3u8"), "#EXTM3U\nhome.ts\n").unwrap();
    std::fs::write(media.join("home.ts"), "moving").unwrap();

    let tune = || get(&server, &format!("{M3U}/home/index.m3u8"));
    let fetch = |target: &str| ask(server.public, request("GET", target, &[], ""));
    let origin = |answer: &Answer| {
        let address = answer.header("location").unwrap();
        address
            .strip_prefix(&server.http.settings.public_url)
            .unwrap()
            .to_owned()
    };
    let tuned = tune();
    assert_eq!(tuned.status, 302);
    let playlist = origin(&tuned);
    assert!(playlist.starts_with("/origin/v1/"), "{playlist}");
    assert_eq!(fetch(&playlist).body, b"#EXTM3U\nhome.ts\n");
    // Players resolve relative addresses against the redirect target.
    let segment = playlist.replace("home.m3u8", "home.ts");
    assert_eq!(fetch(&segment).body, b"moving");
    set_clock(&server, at(60) - 1);
    assert_eq!(fetch(&segment).status, 200);
    set_clock(&server, at(60));
    assert_eq!(fetch(&segment).code(), "PLAYLIST_TOKEN_INVALID");
    assert_eq!(tune().code(), "NO_LIVE_RIGHTS");
    set_clock(&server, at(120));
    let tuned = origin(&tune());
    // The offer ends at midnight, twelve hours after noon.
    set_clock(&server, at(12 * 60) - 1);
    assert_eq!(fetch(&tuned).status, 200);
    set_clock(&server, at(12 * 60));
    assert_eq!(fetch(&tuned).code(), "PLAYLIST_TOKEN_INVALID");
    assert_eq!(tune().code(), "NOT_ENTITLED");
}

#[test]
fn xmltv_is_compressed_for_clients_that_accept_gzip() {
    let server = stocked();
    let gzip = ("Accept-Encoding", "gzip");
    let plain = get(&server, XMLTV);
    let packed = ask_with(&server, "GET", XMLTV, &[gzip]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(unpacked(&packed.body), plain.body);
    let tag = packed.header("etag").unwrap();
    assert_ne!(plain.header("etag"), Some(tag));
    let same = ask_with(&server, "GET", XMLTV, &[gzip, ("If-None-Match", tag)]);
    assert_eq!((same.status, same.header("etag")), (304, Some(tag)));
    let head = ask_with(&server, "HEAD", XMLTV, &[gzip]);
    assert_eq!((head.status, head.header("etag")), (200, Some(tag)));
}

/// A guide that has everything that the schedule keeps.
fn generated(channels: usize, days: i64) -> String {
    let time = |at: i64| format!("{} +0000", xmltv_time(at));
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<tv>\n");
    for channel in 0..channels {
        xml += &format!(
            "<channel id=\"c{channel}.example\"><display-name>C &amp; {channel}</display-name>\
             <icon src=\"https://i.example/{channel}.png\"/></channel>\n"
        );
    }
    let sides = [
        "",
        "width=\"1920\" height=\"1080\"",
        "width=\"2\" height=\"3\"",
        "width=\"9\" height=\"9\"",
    ];
    let ratings = [
        "",
        "<rating system=\"FSK\"><value>12</value></rating>",
        "<rating><value>16</value></rating>",
        "<rating system=\"nobody\"><value>M</value></rating>",
        "<rating system=\"MPAA\"><value>PG-13</value></rating>",
        "<rating><value>strange</value></rating>",
    ];
    for channel in 0..channels {
        let mut start = NOON.0;
        let mut number = channel;
        while start < NOON.0 + days * 86_400 {
            let length = 600 + i64::try_from(number % 13).unwrap() * 300;
            let pick = |list: &[&'static str]| list[number % list.len()];
            xml += &format!(
                "<programme start=\"{}\" stop=\"{}\" channel=\"c{channel}.example\">\
                 <title>T &lt;{number}&gt; \"ä\" &#128250;</title>\n\
                 <desc>First.&#10;Second &amp; {number}.</desc><category>News</category>\
                 <category>K{}</category><icon src=\"https://i.example/?a=1&amp;n={number}\" {}/>\
                 <icon src=\"https://i.example/two\"/>{}</programme>\n",
                time(start),
                time(start + length),
                number % 7,
                pick(&sides),
                pick(&ratings),
            );
            // Some gaps.
            start += length + i64::from(number % 11 == 0) * 900;
            number += 1;
        }
    }
    xml + "</tv>\n"
}

/// Imports a guide and its export, which must change nothing. Returns the export.
fn round_trip(guide: &[u8], now: i64) -> Vec<u8> {
    let server = GateOnly::start();
    set_clock(&server, now);
    let import = |guide: &[u8]| {
        let answer = post(
            &server,
            "/admin/v1/epg/import?createLivestreams=true",
            guide,
        );
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    };
    let added = import(guide)["added"].clone();
    assert!(added.as_u64().unwrap() > 1_000, "{added}");
    let export = get(&server, XMLTV).body;
    let again = import(&export);
    assert_eq!(again["unchanged"], added, "{again}");
    for member in ["added", "changed", "removed"] {
        assert_eq!(again[member], 0, "{member}: {again}");
    }
    assert_eq!(again["skipped"], json!({}));
    assert_eq!(get(&server, XMLTV).body, export);
    export
}

/// The DTD of the format as xmltv-util installs it.
const DEFINITION: &str = "/usr/share/xmltv/xmltv.dtd";

/// Returns what the validators report. They require a dot in each channel id; ids come from the guide or the operator,
/// so that report is ignored.
fn complaints(export: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export.xml");
    std::fs::write(&file, export).unwrap();
    assert!(Path::new(DEFINITION).is_file(), "{DEFINITION} is absent");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .arg(&file)
            .output_in_time();
        let output_text = [output.stdout, output.stderr].concat();
        let output_text = String::from_utf8(output_text).unwrap();
        let mut lines: Vec<_> = output_text.lines().map(str::to_owned).collect();
        if !output.status.success() && lines.is_empty() {
            lines.push(format!("{program}: {}", output.status));
        }
        lines
    };
    let mut output_text = run("tv_validate_file", &["--dtd-file", DEFINITION]);
    output_text.retain(|line| {
        let is_expected = line.contains("Invalid channel-id") || line == "1 error found.";
        !is_expected && line != "Validated ok."
    });
    output_text.extend(run("tv_sort", &["--output", "/dev/null"]));
    output_text
}

/// Whether xmltv-util is installed.
fn has_validators() -> bool {
    ["tv_validate_file", "tv_sort"]
        .iter()
        .all(|name| program(name).is_some())
}

/// `live` is the one element that grabbers write, recorders read and the definition lacks. All else must be valid.
fn assert_valid_xmltv(export: &[u8]) {
    if has_validators() {
        let export = String::from_utf8_lossy(export);
        let defined = export.replace("    <live/>\n", "");
        assert_eq!(complaints(defined.as_bytes()), [""; 0]);
    }
}

#[test]
fn the_checkers_detect_planted_mistakes() {
    if !has_validators() {
        return;
    }
    let server = stocked();
    let export = String::from_utf8(get(&server, XMLTV).body).unwrap();
    assert_eq!(complaints(export.as_bytes()), [""; 0]);
    for (what, from, to) in [
        ("no such element", "</title>", "</title><colour/>"),
        (
            "another order",
            "<title>A</title>",
            "<desc>D</desc><title>A</title>",
        ),
        ("no title", "<title>A</title>", ""),
        ("an unknown channel", "channel=\"film\"", "channel=\"flim\""),
        (
            "not well-formed",
            "<title>A</title>",
            "<title>A & B</title>",
        ),
    ] {
        let broken = export.replacen(from, to, 1);
        assert_ne!(broken, export, "{what}");
        assert_ne!(complaints(broken.as_bytes()), [""; 0], "{what}");
    }
}

#[test]
fn a_generated_guide_round_trips() {
    assert_valid_xmltv(&round_trip(generated(20, 7).as_bytes(), NOON.0));
}

#[test]
fn real_guides_round_trip() {
    for (name, now) in [real_guides::NZ, real_guides::SINGTEL] {
        if let Some(packed) = real_guides::packed(name) {
            assert_valid_xmltv(&round_trip(&packed, now));
        }
    }
}
