//! One file for each defect that guides are known for. Each is imported after the same day of a channel, and schedule
//! and report must be as documented.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::gate_only::{GateOnly, NOON};
use crate::support::schedule_fixture::{get, post};

const CATALOG: &str = "[[livestream]]\nid = \"news\"\n[[livestream]]\nid = \"film\"\n";
const BASE: &str = "Morning 06-10, Forenoon 10-12, Noon 12-13, Film 13-15, Evening 15-18";

macro_rules! file {
    ($name:literal) => {
        (
            $name,
            &include_bytes!(concat!("malformed_guides/", $name))[..],
        )
    };
}

/// A server with the base guide.
fn server() -> GateOnly {
    let server = GateOnly::start();
    let answer = post(&server, "/admin/v1/catalog/import", CATALOG.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.json());
    let (_, base) = file!("base.xml");
    assert_eq!(post(&server, "/admin/v1/epg/import", base).status, 200);
    assert_eq!(shown(&server), BASE);
    server
}

fn day(server: &GateOnly) -> Vec<Value> {
    let answer = get(
        server,
        "/api/schedule/v1/broadcasts/day/2026-01-01?livestreams=news",
    );
    answer.json()["news"].as_array().unwrap().clone()
}

/// Formats the day as `title from-to, …` in hours, with minutes if necessary.
fn shown(server: &GateOnly) -> String {
    let hour = |at: &Value| {
        let minutes = (at.as_i64().unwrap() - NOON.0) / 60 + 12 * 60;
        match minutes % 60 {
            0 => format!("{:02}", minutes / 60),
            rest => format!("{:02}:{rest:02}", minutes / 60),
        }
    };
    let one = |b: &Value| {
        let title = b["title"].as_str().unwrap();
        format!("{title} {}-{}", hour(&b["start"]), hour(&b["stop"]))
    };
    day(server).iter().map(one).collect::<Vec<_>>().join(", ")
}

fn ids(server: &GateOnly) -> BTreeMap<String, String> {
    let text = |b: &Value, name: &str| b[name].as_str().unwrap().to_owned();
    let of = |b: &Value| (text(b, "title"), text(b, "id"));
    day(server).iter().map(of).collect()
}

#[test]
fn each_guide_defect_has_its_documented_effect() {
    let early = "Morning 06-10, Forenoon 10-12, ";
    for ((name, file), rest, skipped) in [
        (
            file!("history.xml"),
            "Noon 12-13, Film 13-15, Evening 15-18, Night 18-20",
            json!({}),
        ),
        (
            file!("moved.xml"),
            "Noon 12-13:15, Film 13:15-15:15, Evening 15:15-18:15",
            json!({}),
        ),
        (
            file!("twice.xml"),
            "Noon 12-13, Marathon 13-18",
            json!({"duplicate": 2, "contained": 2}),
        ),
        (
            file!("overlaps.xml"),
            "Noon 12-13, Film 13-15, Evening 15-18",
            json!({}),
        ),
        (
            file!("zones.xml"),
            "Noon 12-13, Film 13-15, Evening 15-18, Without an end 19:30-20, Another form 20-21",
            json!({"badTime": 2}),
        ),
        (
            file!("rows.xml"),
            "Noon 12-12:30, No time 12:30-12:40, Backwards 12:40-13, Film 13-15, Evening 15-18, \
             The last one, without end 18-21",
            json!({"badTime": 1, "badChannel": 2, "emptyTitle": 2, "tooOld": 1, "tooFar": 1, "unmapped": 1}),
        ),
        (file!("languages.xml"), "Le été & l'hiver 12-18", json!({})),
        (file!("pictures.xml"), "Feature 12-18", json!({})),
        (
            file!("ids.json"),
            "Noon 12-13, Last 17-18",
            json!({"badId": 2, "idTaken": 1, "malformed": 1}),
        ),
        (file!("laughs.xml"), "&c; &file; 12-18", json!({})),
    ] {
        let server = server();
        let before = ids(&server);
        let answer = post(&server, "/admin/v1/epg/import?accept=true", file);
        let report = answer.json();
        assert_eq!(answer.status, 200, "{name}: {report}");
        assert_eq!(shown(&server), format!("{early}{rest}"), "{name}");
        assert_eq!(report["skipped"], skipped, "{name}");
        for (kind, count) in skipped.as_object().unwrap() {
            let lines = report["skippedLines"][kind].as_array().unwrap();
            assert_eq!(lines.len() as u64, count.as_u64().unwrap(), "{name}");
        }
        // Remaining broadcasts keep their ids, unless the guide has its own ids.
        for (title, id) in ids(&server) {
            if name != "ids.json" {
                assert!(
                    before.get(&title).is_none_or(|old| *old == id),
                    "{name}: {title}"
                );
            }
        }
        // The same guide can be imported again.
        let again = post(&server, "/admin/v1/epg/import", file);
        let report = again.json();
        let changed = ["added", "changed", "removed"].map(|member| report[member].as_i64());
        assert_eq!(changed, [Some(0); 3], "{name}: {report}");
    }
}

#[test]
fn a_file_that_is_no_guide_changes_nothing() {
    let server = server();
    for ((name, file), status, code) in [
        (file!("truncated.xml"), 400, "IMPORT_INVALID"),
        (file!("unclosed.xml"), 400, "IMPORT_INVALID"),
        (file!("broken.xml"), 400, "IMPORT_INVALID"),
        (file!("login.html"), 400, "IMPORT_INVALID"),
        (file!("empty.xml"), 409, "IMPORT_HELD"),
        (file!("fewer.xml"), 409, "IMPORT_HELD"),
    ] {
        let answer = post(&server, "/admin/v1/epg/import", file);
        let outcome = (answer.status, answer.code());
        assert_eq!(outcome, (status, code.to_owned()), "{name}");
        assert_eq!(shown(&server), BASE, "{name}");
    }
}

#[test]
fn texts_pictures_and_ratings_are_imported_unchanged() {
    let server = server();
    let (_, file) = file!("languages.xml");
    post(&server, "/admin/v1/epg/import?accept=true", file);
    let film = day(&server).pop().unwrap();
    assert_eq!(film["description"], "Ein fetter Satz.");
    let (_, file) = file!("pictures.xml");
    post(&server, "/admin/v1/epg/import?accept=true", file);
    let film = day(&server).pop().unwrap();
    assert_eq!(film["pgAge"], 15);
    let images = film["images"].as_array().unwrap();
    let kinds: Vec<_> = images
        .iter()
        .map(|i| (i["type"].as_str(), i["default"].as_bool()))
        .collect();
    assert_eq!(
        kinds,
        [
            (Some("sixteen-nine"), Some(true)),
            (Some("three-four"), Some(false)),
            (Some("square"), Some(false)),
            (Some("sixteen-nine"), Some(false)),
        ]
    );
}
