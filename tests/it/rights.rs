//! The rights of broadcasts: operators set defaults, rules and overrides and get them explained, and clients see the
//! result.

use serde_json::{Value, json};

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::schedule_fixture::{at, get, guide, post};

const CATALOG: &str = r#"
[[livestream]]
id = "sport"
zone = "Europe/Stockholm"
catchup_days = 7
start_over = true

[[livestream]]
id = "film"

[[rule]]
livestream = "sport"
title = "Match*"
live = false
catchup_days = 2

[[rule]]
title = "*Final*"
extended_rights = { pause = true }

[[rule]]
livestream = ["sport", "film"]
window = { from = "22:00", to = "06:00" }
start_over = false

[[broadcast]]
id = "final"
live = true
"#;

const ROWS: [(&str, &str, &str, i64, i64); 4] = [
    ("sport", "studio", "Studio", -60, 0),
    ("sport", "match", "Match one", 0, 60),
    ("sport", "final", "Match: the Final", 60, 120),
    ("film", "film-a", "A", -60, 60),
];

fn stocked() -> GateOnly {
    let server = GateOnly::start();
    let catalog = post(&server, "/admin/v1/catalog/import", CATALOG.as_bytes());
    assert_eq!(catalog.status, 200, "{}", catalog.json());
    let imported = post(&server, "/admin/v1/epg/import", guide(&ROWS).as_bytes());
    assert_eq!(imported.status, 200, "{}", imported.json());
    server
}

fn admin(server: &GateOnly, method: &str, target: &str, body: &str) -> Answer {
    let (name, value) = server.admin();
    let target = format!("/admin/v1/{target}");
    ask(
        server.ops,
        request(method, &target, &[(name, &value)], body),
    )
}

fn why(server: &GateOnly, id: &str) -> Value {
    let answer = admin(server, "GET", &format!("broadcasts/{id}/why"), "");
    assert_eq!(answer.status, 200, "{}", answer.json());
    let why = answer.json();
    // The explanation must equal what clients get.
    let served = get(server, &format!("/api/schedule/v1/broadcasts/{id}")).json();
    assert_eq!(why["liveAvailable"], served["liveAvailable"]);
    assert_eq!(why.get("catchupInterval"), served.get("catchupInterval"));
    for (right, member) in [
        ("pause", "pause"),
        ("rewind", "rewind"),
        ("fastForward", "fastForward"),
    ] {
        assert_eq!(word(&why, right).0, served["extendedRights"][member]);
    }
    why
}

/// Returns the value of a right and the layer that decides it.
fn word(why: &Value, right: &str) -> (Value, String) {
    let mut rights = why["rights"].as_array().unwrap().iter();
    let found = rights.find(|line| line["right"] == right).unwrap();
    (
        found["value"].clone(),
        found["by"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn the_rights_of_a_broadcast_are_explained() {
    let server = stocked();
    let whole = why(&server, "final");
    let start = at(60);
    let expected = json!({
        "broadcastId": "final", "livestreamId": "sport", "livestreamName": "sport", "title": "Match: the Final",
        "start": start, "stop": start + 3_600, "zone": "Europe/Stockholm", "categories": [],
        "layers": [
            {"by": "livestream", "applies": true, "effects": {
                "live": true, "catchup": true, "catchup_days": 7, "start_over": true,
                "extended_rights": {"pause": false, "rewind": false, "fastForward": false}}},
            {"by": "rule 1", "applies": true,
             "rule": "livestream sport, title Match*, live off, catchup_days 2",
             "effects": {"live": false, "catchup_days": 2}},
            {"by": "rule 2", "applies": true, "rule": "title *Final*, pause on",
             "effects": {"extended_rights": {"pause": true}}},
            {"by": "rule 3", "applies": false, "mismatch": "window",
             "rule": "livestream film, sport, window 22:00 to 06:00, start_over off",
             "effects": {"start_over": false}},
            {"by": "broadcast", "applies": true, "effects": {"live": true}}
        ],
        "rights": [
            {"right": "live", "value": true, "by": "broadcast"},
            {"right": "catchup", "value": true, "by": "livestream"},
            {"right": "catchup_days", "value": 2, "by": "rule 1"},
            {"right": "start_over", "value": true, "by": "livestream"},
            {"right": "pause", "value": true, "by": "rule 2"},
            {"right": "rewind", "value": false, "by": "livestream"},
            {"right": "fastForward", "value": false, "by": "livestream"}
        ],
        "liveAvailable": true,
        "catchupInterval": {"from": start, "to": start + 3_600 + 2 * 86_400}
    });
    assert_eq!(whole, expected);
    assert_eq!(
        word(&why(&server, "match"), "live"),
        (json!(false), "rule 1".to_owned())
    );
    assert_eq!(
        word(&why(&server, "studio"), "live"),
        (json!(true), "livestream".to_owned())
    );
    // A rule for another livestream is left out.
    let film = why(&server, "film-a");
    let by: Vec<_> = film["layers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| &l["by"])
        .collect();
    assert_eq!(by, ["livestream", "rule 2", "rule 3"]);
    let unknown = admin(&server, "GET", "broadcasts/nothing/why", "");
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "BROADCAST_NOT_FOUND")
    );
}

/// Returns live and the catch-up days of a broadcast as clients see them.
fn seen(server: &GateOnly, id: &str) -> (bool, Option<i64>) {
    let broadcast = get(server, &format!("/api/schedule/v1/broadcasts/{id}")).json();
    let stop = broadcast["stop"].as_i64().unwrap();
    let until = broadcast["catchupInterval"]["to"].as_i64();
    let live = broadcast["liveAvailable"].as_bool().unwrap();
    (live, until.map(|until| (until - stop) / 86_400))
}

#[test]
fn each_right_can_be_overridden_separately() {
    let server = stocked();
    let ok = |method: &str, target: &str, body: &str| {
        let answer = admin(&server, method, target, body);
        assert_eq!(answer.status, 200, "{target}: {}", answer.json());
        answer.json()
    };
    assert_eq!(seen(&server, "match"), (false, Some(2)));
    let tag = |id: &str| {
        let one = get(&server, &format!("/api/schedule/v1/broadcasts/{id}"));
        one.header("etag").unwrap().to_owned()
    };
    let before = tag("film-a");
    let set = ok(
        "PUT",
        "broadcasts/match/rights",
        r#"{"live": true, "catchup": false}"#,
    );
    assert_eq!((&set["added"], &set["changed"]), (&json!(1), &json!(0)));
    assert_eq!(set["changes"][0]["text"], "+ broadcast match");
    assert_eq!(seen(&server, "match"), (true, None));
    // An override replaces the previous one.
    ok("PUT", "broadcasts/match/rights", r#"{"catchup_days": 1}"#);
    assert_eq!(seen(&server, "match"), (false, Some(1)));
    let cleared = ok("DELETE", "broadcasts/match/rights", "");
    assert_eq!(cleared["removed"], 1);
    assert_eq!(seen(&server, "match"), (false, Some(2)));
    assert_eq!(ok("DELETE", "broadcasts/match/rights", "")["removed"], 0);

    let defaults = ok(
        "PUT",
        "livestreams/film/rights",
        r#"{"live": false, "catchup_days": 3}"#,
    );
    assert_eq!(
        defaults["changes"][0]["text"],
        "~ livestream film: live_rights \"true\" -> \"false\"; catchup_days \"0\" -> \"3\""
    );
    assert_eq!(seen(&server, "film-a"), (false, Some(3)));
    assert_ne!(tag("film-a"), before);
    assert_eq!(
        seen(&server, "studio"),
        (true, Some(7)),
        "another livestream stays"
    );

    let rules = || ok("GET", "rules", "");
    assert_eq!(rules().as_array().unwrap().len(), 3);
    assert_eq!(
        rules()[0],
        json!({
            "number": 1, "text": "livestream sport, title Match*, live off, catchup_days 2",
            "rule": {"livestream": "sport", "title": "Match*", "live": false, "catchup_days": 2}
        })
    );
    let rule = r#"{"livestream": "film", "rating": {"to": 99}, "live": true}"#;
    assert_eq!(ok("POST", "rules", rule)["added"], 1);
    assert_eq!(ok("POST", "rules", rule)["added"], 0, "it is there already");
    assert_eq!(seen(&server, "film-a"), (false, Some(3)), "nobody rated it");
    ok("POST", "rules", r#"{"title": "A", "live": true}"#);
    assert_eq!(seen(&server, "film-a"), (true, Some(3)));
    let other = admin(&server, "DELETE", "rules/1?text=title+A%2C+live+true", "");
    assert_eq!(other.status, 404, "{}", other.json());
    let first = "rules/1?text=livestream+sport%2C+title+Match*%2C+live+off%2C+catchup_days+2";
    assert_eq!(ok("DELETE", first, "")["removed"], 1);
    assert_eq!(seen(&server, "match"), (true, Some(7)), "its rule has gone");
    assert_eq!(rules().as_array().unwrap().len(), 4);
    for report in server.services.store.verify().unwrap().tables {
        assert!(report.is_sound(), "{report:?}");
    }
}

#[test]
fn a_rule_that_takes_rights_from_every_broadcast_is_held_until_accepted() {
    let server = stocked();
    let warnings = || {
        let ready = ask(server.ops, request("GET", "/readyz", &[], "")).json();
        ready["warnings"]["rules"].clone()
    };
    let rule = r#"{"live": false}"#;
    let held = admin(&server, "POST", "rules", rule);
    assert_eq!((held.status, held.code().as_str()), (409, "IMPORT_HELD"));
    let why = "the rule `live off` has no condition and takes rights from every broadcast";
    assert_eq!(held.json()["error"]["details"]["doubts"], json!([why]));
    assert_eq!(warnings(), Value::Null);
    // A file that has the rule is held, too, and not once the catalogue has it.
    let file = "[[rule]]\nlive = false\n";
    let import = |query: &str| admin(&server, "POST", &format!("catalog/import{query}"), file);
    assert_eq!(import("?merge=true").code(), "IMPORT_HELD");
    let added = admin(&server, "POST", "rules?accept=true", rule);
    assert_eq!((added.status, &added.json()["added"]), (200, &json!(1)));
    assert!(warnings().as_str().unwrap().contains("`live off`"));
    assert_eq!(import("?merge=true").status, 200);
    for harmless in [
        r#"{"live": true, "catchup": true}"#,
        r#"{"title": "A", "live": false}"#,
        r#"{"rating": {"from": 18}, "catchup_days": 0}"#,
    ] {
        let answer = admin(&server, "POST", "rules", harmless);
        assert_eq!(answer.status, 200, "{harmless}");
    }
}

#[test]
fn invalid_rights_requests_change_nothing() {
    let server = stocked();
    let exported = || admin(&server, "GET", "catalog", "").body;
    let before = exported();
    let invalid = (400, "IMPORT_INVALID");
    for (method, target, body, expected) in [
        ("PUT", "broadcasts/match/rights", "", invalid),
        ("PUT", "broadcasts/match/rights", "{}", invalid),
        (
            "PUT",
            "broadcasts/match/rights",
            r#"{"life": true}"#,
            invalid,
        ),
        (
            "PUT",
            "broadcasts/match/rights",
            r#"{"live": "yes"}"#,
            invalid,
        ),
        (
            "PUT",
            "broadcasts/match/rights",
            r#"{"catchup_days": 999}"#,
            invalid,
        ),
        (
            "PUT",
            "broadcasts/match/rights",
            r#"{"live": true"#,
            invalid,
        ),
        (
            "PUT",
            "livestreams/film/rights",
            r#"{"catchup": false}"#,
            (400, "INVALID_REQUEST"),
        ),
        (
            "POST",
            "rules",
            r#"{"livestream": "nobody", "live": true}"#,
            invalid,
        ),
        (
            "POST",
            "rules",
            r#"{"livestream": [], "live": true}"#,
            invalid,
        ),
        ("POST", "rules", r#"{"title": "x"}"#, invalid),
        (
            "PUT",
            "broadcasts/nothing/rights",
            r#"{"live": true}"#,
            (404, "BROADCAST_NOT_FOUND"),
        ),
        (
            "PUT",
            "livestreams/nobody/rights",
            r#"{"live": true}"#,
            (404, "LIVESTREAM_NOT_FOUND"),
        ),
        ("DELETE", "rules/0", "", (404, "RULE_NOT_FOUND")),
        ("DELETE", "rules/4", "", (404, "RULE_NOT_FOUND")),
        ("DELETE", "rules/x", "", (404, "RULE_NOT_FOUND")),
    ] {
        let answer = admin(&server, method, target, body);
        let found = (answer.status, answer.code());
        assert_eq!(
            (found.0, found.1.as_str()),
            expected,
            "{method} {target} {body}"
        );
    }
    assert_eq!(exported(), before);
}

#[test]
fn an_unknown_right_is_refused_with_the_nearest_known_one() {
    let server = stocked();
    let target = "broadcasts/match/rights";
    let named = admin(&server, "PUT", target, r#"{"life": true}"#).json();
    assert_eq!(
        named["error"]["details"]["problems"][0]["message"],
        "rights: `life` is not known; did you mean `live`?"
    );
}
