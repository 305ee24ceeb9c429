//! What recorders and players use of a guide: flags, credits, dates and images, from the file through the store, the schedule
//! routes and both exports, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use playgate_types::UnixSeconds;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::real_guides::{NZ, packed};
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{Answer, request};
use crate::support::server::TestServer;

/// 2026-11-28 12:00 UTC.
const NOW: i64 = 1_795_867_200;

fn start_at(now: i64, more: &str) -> (TestServer, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("playgate.toml");
    let config = format!("environment = \"staging\"\n[lab]\nclock = true\n{more}");
    std::fs::write(&file, config).unwrap();
    let server = TestServer::with_file(&file);
    let lab = server.services.lab_clock.as_ref().unwrap();
    lab.set_now(UnixSeconds(now));
    (server, directory)
}

fn start() -> (TestServer, TempDir) {
    start_at(NOW, "")
}

fn import(server: &TestServer, guide: &[u8]) -> Value {
    let bearer = format!("Bearer {}", server.admin);
    let length = guide.len().to_string();
    let head = request(
        "POST",
        "/admin/v1/epg/import?createLivestreams=true&accept=true",
        &[("Authorization", &bearer), ("Content-Length", &length)],
        "",
    );
    let answer = crate::support::raw_http::ask(server.ops, [head.as_bytes(), guide].concat());
    let report = answer.json();
    assert_eq!(answer.status, 200, "{report}");
    report
}

fn get(server: &TestServer, path: &str) -> Answer {
    let answer = server.partner("GET", &format!("/api/schedule/v1/{path}"), &Value::Null);
    assert_eq!(answer.status, 200, "{path}");
    answer
}

fn day(server: &TestServer) -> Value {
    get(server, "broadcasts/day/2026-11-28?livestreams=f").json()
}

fn xmltv(server: &TestServer) -> String {
    String::from_utf8(get(server, "xmltv").body).unwrap()
}

const GUIDE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<tv>
  <programme start="20261128200000 +0100" stop="20261128210000 +0100" channel="f">
    <title>Drama</title><sub-title>Storm</sub-title><desc>Text</desc>
    <credits><presenter>P &amp; Q</presenter><director>A. Bee</director><actor role="Cook">C. Dee</actor>
      <actor guest="yes">E<image type="person">https://img.example/e.jpg</image></actor></credits>
    <date>2026</date><category lang="en">Series</category><category>Crime</category>
    <icon src="https://img.example/i.png" width="300" height="400"/>
    <episode-num system="xmltv_ns">0.0.</episode-num><premiere>First on this channel</premiere><new/>
    <image type="poster" size="3" orient="P">https://img.example/p.jpg</image>
    <image type="backdrop" size="3" orient="L">https://img.example/b.jpg?a&amp;b</image>
  </programme>
  <programme start="20261128210000 +0100" stop="20261128220000 +0100" channel="f">
    <title>Match</title><date>20261128</date><previously-shown start="20200101203000 +0100" channel="x"/><live/>
  </programme>
  <programme start="20261128220000 +0100" stop="20261128230000 +0100" channel="f"><title>Plain</title></programme>
</tv>
"#;

#[test]
fn details_pass_through_store_routes_exports_and_both_forms_of_import() {
    let (first, _directory) = start();
    let report = import(&first, GUIDE.as_bytes());
    assert_eq!(
        (&report["repaired"], &report["shortened"]),
        (&json!({}), &json!(0))
    );
    let all = day(&first);
    let drama = &all["f"][0];
    for (member, value) in [
        ("categories", json!(["Series", "Crime"])),
        ("date", json!("2026")),
        ("new", json!(true)),
        ("premiere", json!(true)),
        ("live", Value::Null),
        ("previouslyShown", Value::Null),
        (
            "credits",
            json!([
                {"kind": "presenter", "name": "P & Q"},
                {"kind": "director", "name": "A. Bee"},
                {"kind": "actor", "name": "C. Dee", "role": "Cook"},
                {"kind": "actor", "name": "E", "guest": true},
            ]),
        ),
        (
            "images",
            json!([
                {"type": "three-four", "default": true, "filename": "https://img.example/i.png", "embeddedText": false},
                {"type": "three-four", "default": false, "filename": "https://img.example/p.jpg", "embeddedText": false,
                 "purpose": "poster", "size": 3},
                {"type": "sixteen-nine", "default": false, "filename": "https://img.example/b.jpg?a&b",
                 "embeddedText": false, "purpose": "backdrop", "size": 3},
            ]),
        ),
    ] {
        assert_eq!(drama[member], value, "{member}");
    }
    let shown = json!({"start": "2020-01-01T19:30:00Z", "channel": "x"});
    assert_eq!(all["f"][1]["previouslyShown"], shown);
    assert_eq!(
        (&all["f"][1]["live"], &all["f"][1]["date"]),
        (&json!(true), &json!("2026-11-28"))
    );
    // A programme without details is as it was before there were any.
    let members: BTreeSet<_> = all["f"][2].as_object().unwrap().keys().cloned().collect();
    let plain = [
        "id",
        "title",
        "start",
        "stop",
        "liveAvailable",
        "extendedRights",
    ];
    assert_eq!(members, plain.map(str::to_owned).into());

    // By id, by several ids, and live.
    let id = drama["id"].as_str().unwrap();
    assert_eq!(&get(&first, &format!("broadcasts/{id}")).json(), drama);
    let several = get(&first, &format!("broadcasts?broadcasts={id}")).json();
    assert_eq!(several[id]["credits"], drama["credits"]);
    let lab = first.services.lab_clock.as_ref().unwrap();
    lab.set_now(UnixSeconds(drama["start"].as_i64().unwrap() + 60));
    let live = get(&first, "broadcasts/live?livestreams=f").json();
    assert_eq!(&live["f"]["current"], drama);
    exports_are_read_again(&first, &all);
}

/// Imports the exports of a server into others.
fn exports_are_read_again(first: &TestServer, all: &Value) {
    let export = xmltv(first);
    for element in [
        "<credits>\n      <director>A. Bee</director>\n      <actor role=\"Cook\">C. Dee</actor>\n      \
         <actor guest=\"yes\">E</actor>\n      <presenter>P &amp; Q</presenter>\n    </credits>\n    <date>2026</date>\n",
        "<previously-shown start=\"20200101193000 +0000\" channel=\"x\"/>\n    <live/>\n",
        "<premiere/>\n    <new/>\n    <image type=\"poster\" size=\"3\" orient=\"P\">https://img.example/p.jpg</image>\n",
    ] {
        assert!(export.contains(element), "{element}: {export}");
    }
    let (second, _directory) = start();
    import(&second, export.as_bytes());
    let again = day(&second);
    // Exports have the kinds of credits in the order of XMLTV.
    let sorted = |value: &Value| {
        let mut value = value.clone();
        let credits = value["f"][0]["credits"].as_array_mut().unwrap();
        credits.sort_by_key(ToString::to_string);
        value
    };
    assert_eq!(sorted(&again), sorted(all));
    assert_eq!(xmltv(&second), export);
    let (third, _directory) = start();
    import(&third, all.to_string().as_bytes());
    assert_eq!(&day(&third), all);
    // The same guide changes nothing.
    let report = import(first, GUIDE.as_bytes());
    assert_eq!(
        (&report["changed"], &report["unchanged"]),
        (&json!(0), &json!(3))
    );
}

#[test]
fn long_and_broken_details_are_cut_and_counted_and_cost_no_programme() {
    let (server, _directory) = start();
    let many: String = (0..5_000)
        .map(|n| format!("<actor role=\"{}\">Actor {n}</actor>", "r".repeat(n % 300)))
        .collect();
    let row = |start: u32, inside: &str| {
        format!(
            "<programme start=\"202611281{start}0000\" stop=\"202611281{}0000\" channel=\"f\"><title>T{start}</title>{inside}</programme>",
            start + 1
        )
    };
    let guide = [
        "<tv>".to_owned(),
        row(0, &format!("<credits>{many}</credits>")),
        row(1, "<date>soon</date><previously-shown start=\"long ago\"/>"),
        row(
            2,
            &"<category>C</category><category>D</category>".repeat(50),
        ),
        row(
            3,
            &(0..30)
                .map(|n| format!("<category>C{n}</category>"))
                .collect::<String>(),
        ),
        row(
            4,
            &format!("<image>https://img.example/{}</image>", "p".repeat(5_000)),
        ),
        "</tv>".to_owned(),
    ];
    let report = import(&server, guide.concat().as_bytes());
    assert_eq!(
        (&report["added"], &report["skipped"]),
        (&json!(5), &json!({}))
    );
    assert_eq!(report["repaired"], json!({"detail": 2}));
    assert_eq!(report["shortened"], 3, "{report}");
    let day = day(&server);
    let credits = day["f"][0]["credits"].as_array().unwrap().len();
    assert!((20..=40).contains(&credits), "{credits}");
    assert_eq!(day["f"][1]["previouslyShown"], json!({}));
    assert_eq!(day["f"][2]["categories"], json!(["C", "D"]));
    assert_eq!(day["f"][3]["categories"].as_array().unwrap().len(), 8);
    assert_eq!(day["f"][4].get("images"), None);
}

/// What a programme of an XMLTV file has, found by its text.
fn naive(programme: &str) -> (Vec<String>, Vec<String>, Option<String>) {
    let has = |name: &str| {
        programme.contains(&format!("<{name}/>")) || programme.contains(&format!("<{name}>"))
    };
    let flags = ["new", "live", "premiere", "previously-shown"];
    let flags = flags
        .into_iter()
        .filter(|name| has(name))
        .map(str::to_owned);
    let mut categories = Vec::new();
    for part in programme.split("<category").skip(1) {
        // An empty one.
        if part.starts_with('/') {
            continue;
        }
        let text = part
            .split_once('>')
            .unwrap()
            .1
            .split("</category>")
            .next()
            .unwrap()
            .trim();
        if !text.is_empty() && !categories.iter().any(|known| known == text) {
            categories.push(text.to_owned());
        }
    }
    let date = programme
        .split_once("<date>")
        .and_then(|(_, rest)| rest.split('<').next());
    (flags.collect(), categories, date.map(str::to_owned))
}

/// Programmes by channel, start in UTC and title. What occurs twice is left out: the fuller copy is imported.
fn programmes(
    xml: &str,
) -> BTreeMap<(String, i64, String), (Vec<String>, Vec<String>, Option<String>)> {
    let mut all = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for part in xml.split("<programme ").skip(1) {
        let programme = part.split("</programme>").next().unwrap();
        let attribute = |name: &str| {
            let (_, rest) = programme.split_once(&format!("{name}=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let start =
            chrono::DateTime::parse_from_str(&attribute("start"), "%Y%m%d%H%M%S %z").unwrap();
        let title = programme
            .split_once("<title")
            .map_or("", |(_, rest)| rest.split_once('>').unwrap().1);
        let key = (attribute("channel"), start.timestamp());
        if !twice.insert(key.clone()) {
            all.retain(|(channel, start, _): &(String, i64, String), _| {
                (channel, start) != (&key.0, &key.1)
            });
            continue;
        }
        let title = title.split("</title>").next().unwrap().trim().to_owned();
        all.insert((key.0, key.1, title), naive(programme));
    }
    all
}

#[test]
fn flags_categories_and_dates_of_a_real_guide_equal_a_naive_reading() {
    let Some(packed) = packed(NZ.0) else {
        return;
    };
    let mut xml = String::new();
    flate2::read::MultiGzDecoder::new(&*packed)
        .read_to_string(&mut xml)
        .unwrap();
    let (server, _directory) = start_at(NZ.1, "");
    import(&server, &packed);
    let (given, exported) = (programmes(&xml), programmes(&xmltv(&server)));
    let mut compared = 0;
    for (key, naive) in &given {
        // Rows that the rules of import leave out.
        let Some(exported) = exported.get(key) else {
            continue;
        };
        assert_eq!(exported.0, naive.0, "{key:?}");
        assert_eq!(exported.1, naive.1, "{key:?}");
        assert_eq!(
            exported.2,
            naive.2.clone().filter(|date| !date.is_empty()),
            "{key:?}"
        );
        compared += 1;
    }
    assert!(compared > 4_000, "{compared} of {}", given.len());
}

#[test]
fn a_film_in_the_night_of_its_zone_asks_for_the_pin() {
    // 22:45 in Vancouver and Phoenix, 06:45 in Stockholm, half past the start of the film.
    let now = 1_795_931_100;
    let (server, directory) = start_at(now, "[parental]\nrule = \"watershed\"\n");
    let channel = |(id, zone): (&str, &str)| {
        format!(
            "[[livestream]]\nid = \"{id}\"\nzone = \"{zone}\"\nencrypted = false\n\
             playlist = {{ hls = \"https://cdn.example/v.m3u8\" }}\n"
        )
    };
    let channels = [
        ("van", "America/Vancouver"),
        ("phx", "America/Phoenix"),
        ("sto", "Europe/Stockholm"),
    ];
    let catalog = channels.map(channel).concat()
        + "[[offer]]\nid = \"free\"\ntype = \"default\"\npack = \"all\"\n";
    let fixture = PlaybackFixture::with_catalogue(server, directory, &catalog);
    let rows = channels.map(|(id, _)| {
        format!(
            "<programme start=\"20261129053000 +0000\" stop=\"20261129070000 +0000\" channel=\"{id}\">\
             <title>Late film</title><rating><value>0</value></rating></programme>"
        )
    });
    fixture.import("epg", &format!("<tv>{}</tv>", rows.concat()));
    fixture.protect(&fixture.ann);
    for (id, expected) in [
        ("van", "403 PIN_CODE_REQUIRED"),
        ("phx", "403 PIN_CODE_REQUIRED"),
        ("sto", "200"),
    ] {
        assert_eq!(
            fixture.entitle(&fixture.ann, id, "").outcome(),
            expected,
            "{id}"
        );
        let with_pin = fixture.entitle(&fixture.ann, id, r#"{"pinCode":"2468"}"#);
        assert_eq!(with_pin.outcome(), "200", "{id}");
    }
}
