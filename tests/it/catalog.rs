//! The catalogue: import and export of files, lists for clients, offers of users, explained decisions.

use playgate_types::{LiveOffset, LivestreamId, OfferId, PartnerId};
use serde_json::{Value, json};

use crate::support::gate_only::{GateOnly, NOON};
use crate::support::raw_http::{Answer, ask, request};

const FILE: &str = r#"
[[livestream]]
id = "news"
name = "News"
zone = "Europe/Stockholm"
catchup_days = 7
start_over = true
extended_rights = { pause = true }
images = [{ type = "square", filename = "https://img.example/news.png" }]
playlist = { dash = "origin:news.mpd", hls = "https://cdn.example/news.m3u8" }

[[asset]]
id = "film"
title = "A Film"
pg_age = 15
available = { from = 2025-01-01T00:00:00Z }
keys = [{ kid = "00112233445566778899aabbccddeeff", key = "0f0e0d0c0b0a09080706050403020100" }]

[[asset]]
id = "short"                        # a comment, as people write them
encrypted = false

[[offer]]
id = "basic"
type = "default"
pack = { livestreams = ["news"] }

[[offer]]
id = "premium"
type = "subscription"
pack = { assets = ["film"] }
duration_days = 30
"#;

impl GateOnly {
    fn operator(&self, method: &str, target: &str, body: &str) -> Answer {
        let (name, value) = self.admin();
        ask(self.ops, request(method, target, &[(name, &value)], body))
    }

    fn partner(&self, target: &str) -> Answer {
        let token = self.gate.tokens.partner.reveal();
        ask(
            self.public,
            request("GET", target, &[("Service-AccessToken", token)], ""),
        )
    }

    fn import(&self, query: &str, file: &str) -> Answer {
        self.operator("POST", &format!("/admin/v1/catalog/import{query}"), file)
    }

    /// Creates a user of a new partner. Returns the user's id.
    fn user(&self) -> String {
        let partner = self.operator("POST", "/admin/v1/partners", r#"{"name":"p"}"#);
        let partner = partner.json()["partnerId"].clone();
        PartnerId::parse(partner.as_str().unwrap()).unwrap();
        let body = json!({"email": "a@example.com", "partner": partner, "country": "SE"});
        let user = self.operator("POST", "/admin/v1/users", &body.to_string());
        user.json()["userId"].as_str().unwrap().to_owned()
    }
}

fn stocked() -> GateOnly {
    let server = GateOnly::start();
    let answer = server.import("", FILE);
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    server
}

#[test]
fn client_lists_have_ids_and_attributes() {
    let server = stocked();
    assert_eq!(
        server.partner("/api/catalog/v1/livestreams").json(),
        json!([{
            "id": "news",
            "name": "News",
            "images": [{
                "type": "square",
                "default": true,
                "filename": "https://img.example/news.png",
                "embeddedText": false,
            }],
            "zone": "Europe/Stockholm",
            "liveRights": true,
            "catchupDays": 7,
            "startOver": true,
            "extendedRights": {"pause": true, "rewind": false, "fastForward": false},
            "encrypted": true,
            "protocols": ["dash", "hls"],
        }])
    );
    assert_eq!(
        server.partner("/api/catalog/v1/assets").json(),
        json!([
            {
                "id": "film",
                "title": "A Film",
                "pgAge": 15,
                "available": {"from": 1_735_689_600},
                "encrypted": true,
                "protocols": [],
            },
            {"id": "short", "title": "short", "encrypted": false, "protocols": []},
        ])
    );
    let answer = server.partner("/api/catalog/v1/assets");
    assert!(answer.header("etag").is_some());
}

#[test]
fn every_mistake_is_reported_with_its_line_and_nothing_imported() {
    let server = stocked();
    let answer = server.import(
        "",
        "[[livestream]]\nid = \"a\"\nzone = \"Mars\"\n\n[[offer]]\nid = \"o\"\ntype = \"default\"\npack = { assets = [\"x\"] }\n",
    );
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "IMPORT_INVALID")
    );
    assert_eq!(
        answer.json()["error"]["details"],
        json!({"problems": [
            {"line": 3, "message": "livestream `a`: `zone` must be a time zone such as Europe/Stockholm"},
            {"line": 8, "message": "offer `o`: pack: there is no asset `x`"},
        ]})
    );
    let lists = server.partner("/api/catalog/v1/livestreams").json();
    assert_eq!(lists[0]["id"], "news");
    for bad in [
        "\u{0}",
        "{\"asset\": [",
        "[[asset]]\nid = \"k\"\nkeys = [{ kid = \"00112233445566778899aabbccddeeff\", key_file = \"/etc/passwd\" }]",
    ] {
        let answer = server.import("", bad);
        assert_eq!(answer.code(), "IMPORT_INVALID", "{bad}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("root:"));
    }
}

#[test]
fn an_import_reports_its_changes() {
    let server = stocked();
    let more = r#"{"asset": [{"id": "short", "title": "A Short"}, {"id": "new"}]}"#;
    let preview = server.import("?merge=true&dryRun=true", more);
    assert_eq!(
        preview.json(),
        json!({
            "held": false,
            "doubts": [],
            "dryRun": true,
            "added": 1,
            "changed": 1,
            "removed": 0,
            "unchanged": 5,
            "changes": [
                {"kind": "asset", "id": "new", "change": "added", "text": "+ asset new"},
                {
                    "kind": "asset",
                    "id": "short",
                    "change": "changed",
                    "members": [
                        {"member": "title", "before": "short", "after": "A Short"},
                        {"member": "encrypted", "before": "false", "after": "true"},
                    ],
                    "text": "~ asset short: title \"short\" -> \"A Short\"; encrypted \"false\" -> \"true\"",
                },
            ],
        })
    );
    let count = || {
        server
            .partner("/api/catalog/v1/assets")
            .json()
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count(), 2, "a dry run changes nothing");
    server.import("?merge=true", more);
    assert_eq!(count(), 3);
    let replaced = server.import("?accept=true", more).json();
    assert_eq!(
        (&replaced["added"], &replaced["removed"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(
        server.partner("/api/catalog/v1/livestreams").json(),
        json!([])
    );
}

#[test]
fn an_export_without_keys_can_be_imported() {
    let server = stocked();
    for (query, media) in [
        ("", "application/toml"),
        ("?format=toml", "application/toml"),
        ("?format=json", "application/json"),
    ] {
        let export = server.operator("GET", &format!("/admin/v1/catalog{query}"), "");
        assert_eq!(export.header("content-type"), Some(media));
        let text = String::from_utf8(export.body).unwrap();
        assert!(text.contains("00112233445566778899aabbccddeeff"));
        assert!(!text.to_lowercase().contains("0f0e0d0c"), "a key in clear");
        let again = server.import("", &text).json();
        assert_eq!(again["changes"], json!([]), "{text}");
    }
    let answer = server.operator("GET", "/admin/v1/catalog?format=xml", "");
    assert_eq!((answer.status, answer.field().as_str()), (400, "format"));
}

#[test]
fn new_livestreams_appear_in_the_schedule_immediately() {
    let server = stocked();
    let is_known = |id: &str| {
        let ids = [LivestreamId::parse(id).unwrap()];
        let snapshot = server.services.schedule.snapshot();
        snapshot.live(&ids, LiveOffset::LIVE, NOON).is_ok()
    };
    assert!(is_known("news") && !is_known("sport"));
    server.import("?merge=1", "[[livestream]]\nid = \"sport\"\n");
    assert!(is_known("sport"));
    server.import("?accept=true", FILE);
    assert!(is_known("news") && !is_known("sport"));
}

#[test]
fn an_agent_grants_offers_but_cannot_change_the_catalogue() {
    let server = stocked();
    let user = server.user();
    let bearer = format!("Bearer {}", server.gate.tokens.agent.reveal());
    let agent = |method: &str, target: &str| {
        ask(
            server.ops,
            request(method, target, &[("Authorization", &bearer)], ""),
        )
    };
    for (method, target) in [
        ("POST", "/admin/v1/catalog/import"),
        ("GET", "/admin/v1/catalog"),
    ] {
        assert_eq!(agent(method, target).code(), "ROLE_NOT_ALLOWED");
    }
    let target = format!("/admin/v1/users/{user}/grants/premium");
    assert_eq!(agent("PUT", &target).status, 200);
}

#[test]
fn offers_are_granted_explained_and_revoked() {
    let server = stocked();
    let user = server.user();
    let grants = format!("/admin/v1/users/{user}/grants");
    let premium = format!("{grants}/premium");
    let why = || {
        let target = format!("/admin/v1/users/{user}/why/film?country=DE");
        server.operator("GET", &target, "").json()
    };
    let before = why();
    assert_eq!(
        (&before["granted"], &before["code"]),
        (&json!(false), &json!("NOT_ENTITLED"))
    );
    let reason =
        "the user has no offer that includes the asset. To allow it, grant one of: premium";
    assert_eq!(before["reason"], reason);
    assert_eq!(
        before["steps"],
        json!([
            {"check": "asset", "finding": "video on demand `A Film`", "passed": true},
            {"check": "country", "finding": "DE, by the address", "passed": true},
            {"check": "offer", "subject": "premium", "finding": "subscription offer: the user does not have it", "passed": false},
            {"check": "rights", "finding": "the video is inside its availability window", "passed": true},
            {"check": "devices", "finding": "0 of 5 devices are registered", "passed": true},
            {"check": "streams", "finding": "0 of 3 streams run, 0 of 3 of this asset", "passed": true},
            {"check": "playback", "finding": "no playlist: the catalogue names none for dash, hls or sstr", "passed": false},
        ])
    );
    let given = server.operator("PUT", &premium, "").json();
    let expiry = NOON.0 + 30 * 86_400;
    let expected = json!({
        "offerId": "premium",
        "type": "subscription",
        "state": "active",
        "purchasedAt": NOON.0,
        "expiry": expiry,
        "grantedBy": given["grantedBy"],
    });
    assert_eq!(given, expected);
    assert!(given["grantedBy"].is_string());
    // An e-mail address works as well, because it is unique.
    let by_mail = server
        .operator("GET", "/admin/v1/users/a%40example.com/grants", "")
        .json();
    assert_eq!(by_mail, json!([expected]));
    let after = why();
    assert_eq!(
        (&after["granted"], &after["pinNeeded"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(server.operator("DELETE", &premium, "").status, 204);
    assert_eq!(
        server.operator("DELETE", &premium, "").code(),
        "GRANT_NOT_FOUND"
    );
    assert_eq!(why()["granted"], json!(false));
    let history = server.operator("GET", &grants, "").json();
    assert_eq!(
        (&history[0]["state"], &history[0]["revokedAt"]),
        (&json!("revoked"), &json!(NOON.0))
    );
}

#[test]
fn invalid_grants_are_rejected() {
    let server = stocked();
    let user = server.user();
    for (target, body, status, code) in [
        (
            format!("/admin/v1/users/{user}/grants/none"),
            "",
            404,
            "OFFER_NOT_FOUND",
        ),
        (
            format!("/admin/v1/users/{user}/grants/premium"),
            r#"{"expiry": 5}"#,
            400,
            "INVALID_REQUEST",
        ),
        (
            format!("/admin/v1/users/{user}/grants/premium"),
            r#"{"expiry": "x"}"#,
            400,
            "INVALID_REQUEST",
        ),
        (
            "/admin/v1/users/AAAAAAAAAAAAAAAAAAAAAA/grants/premium".to_owned(),
            "",
            404,
            "USER_NOT_FOUND",
        ),
        (
            "/admin/v1/users/b@example.com/grants/premium".to_owned(),
            "",
            404,
            "USER_NOT_FOUND",
        ),
    ] {
        let answer = server.operator("PUT", &target, body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{target} {body}"
        );
    }
    let why = server
        .operator("GET", &format!("/admin/v1/users/{user}/why/none"), "")
        .json();
    assert_eq!(
        (&why["granted"], &why["code"]),
        (&json!(false), &json!("ASSET_NOT_FOUND"))
    );
    let reason = "no livestream, broadcast or video on demand has this id";
    assert_eq!(why["reason"], reason);
}

#[test]
fn users_see_only_their_own_offers() {
    let server = stocked();
    let premium = OfferId::parse("premium").unwrap();
    let until = NOON + 60;
    let user = server.enroll();
    let granted = server
        .services
        .grants
        .grant(user, premium, Some(until), None, NOON);
    granted.wait().unwrap();
    let access = server.gate.tokens.partner.reveal();
    let bearer = format!("Bearer {}", server.gate.tokens.user.reveal());
    let offers = |user: &str| {
        let target = format!("/api/user/v1/users/{user}/offers");
        let headers = [("Service-AccessToken", access), ("Authorization", &*bearer)];
        ask(server.public, request("GET", &target, &headers, ""))
    };
    let basic = json!({"offerId": "basic", "type": "default", "state": "active"});
    let with_premium = |state: &str| -> Value {
        json!([basic, {
            "offerId": "premium",
            "type": "subscription",
            "state": state,
            "purchasedAt": NOON.0,
            "expiry": until.0,
        }])
    };
    assert_eq!(offers(&user.to_string()).json(), with_premium("active"));
    server.services.lab_clock.as_ref().unwrap().set_now(until);
    assert_eq!(offers(&user.to_string()).json(), with_premium("expired"));
    assert_eq!(offers("AAAAAAAAAAAAAAAAAAAAAA").status, 404);
}

/// Returns the livestreams and assets that clients see.
fn served(server: &GateOnly) -> (Value, Value) {
    let list = |kind: &str| server.partner(&format!("/api/catalog/v1/{kind}")).json();
    (list("livestreams"), list("assets"))
}

#[test]
fn an_import_that_removes_much_is_held_until_accepted() {
    let server = stocked();
    let before = served(&server);
    // It removes one of two assets, the only livestream and both offers.
    let less = "[[asset]]\nid = \"film\"\n";
    let dry = server.import("?dryRun=true", less).json();
    let doubts = json!([
        "it removes 1 of 1 livestreams",
        "it removes 1 of 2 assets",
        "it removes 2 of 2 offers",
    ]);
    assert_eq!((&dry["held"], &dry["doubts"]), (&json!(false), &doubts));
    let held = server.import("", less);
    assert_eq!((held.status, held.code().as_str()), (409, "IMPORT_HELD"));
    let report = held.json()["error"]["details"].clone();
    assert_eq!(
        (&report["held"], &report["doubts"]),
        (&json!(true), &doubts)
    );
    // The fifth item is the key of the film.
    assert_eq!(report["removed"], 5);
    assert_eq!(served(&server), before, "nothing was imported");
    assert_eq!(server.import("?merge=true", less).status, 200);
    assert_eq!(server.import("?accept=true", less).status, 200);
    assert_ne!(served(&server), before);
}

#[test]
fn removing_an_offer_in_use_needs_acceptance() {
    let server = stocked();
    let many: String = (0..9)
        .map(|n| format!("[[offer]]\nid = \"o{n}\"\ntype = \"pass\"\npack = \"all\"\n"))
        .collect();
    let all = format!("{FILE}{many}");
    assert_eq!(server.import("", &all).status, 200);
    // One of eleven offers is below the limit, and no user has it.
    let without = |id: &str| {
        let offer = format!("[[offer]]\nid = \"{id}\"\ntype = \"pass\"\npack = \"all\"\n");
        all.replace(&offer, "")
    };
    assert_eq!(server.import("", &without("o1")).status, 200);
    assert_eq!(server.import("", &all).status, 200);
    let user = server.enroll();
    let offer = OfferId::parse("o1").unwrap();
    server
        .services
        .grants
        .grant(user, offer, None, None, NOON)
        .wait()
        .unwrap();
    assert_eq!(server.import("", &without("o2")).status, 200);
    assert_eq!(server.import("", &all).status, 200);
    let held = server.import("", &without("o1"));
    assert_eq!(
        held.json()["error"]["details"]["doubts"],
        json!(["it removes offer `o1`, which 1 users hold"])
    );
    // All users have a default offer.
    let basic =
        "[[offer]]\nid = \"basic\"\ntype = \"default\"\npack = { livestreams = [\"news\"] }\n";
    let held = server.import("", &all.replace(basic, ""));
    assert_eq!(
        held.json()["error"]["details"]["doubts"],
        json!(["it removes offer `basic`, which 1 users hold"])
    );
}

#[test]
fn an_import_and_its_undo_can_be_undone_with_keys() {
    let server = stocked();
    let undo = |query: &str| server.operator("POST", &format!("/admin/v1/catalog/undo{query}"), "");
    let history = || {
        server
            .operator("GET", "/admin/v1/catalog/history", "")
            .json()
    };
    let key = || {
        let kid = playgate_domain::catalog::KeyId::from_bytes(
            *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
        );
        server
            .services
            .catalog
            .content_key(&kid)
            .map(|key| *key.reveal())
    };
    let (first, secret) = (served(&server), key());
    assert!(secret.is_some());
    assert_eq!(server.import("?accept=true", "livestream = []").status, 200);
    assert_eq!((served(&server), key()), ((json!([]), json!([])), None));
    // Before the first import the catalogue was empty.
    let listed = history();
    let counts = |version: &Value| {
        ["version", "livestreams", "assets", "offers"].map(|name| version[name].as_u64().unwrap())
    };
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(counts).collect();
    assert_eq!(listed, [[2, 1, 2, 2], [1, 0, 0, 0]]);

    let tried = undo("?dryRun=true").json();
    assert_eq!((&tried["version"], &tried["added"]), (&json!(2), &json!(6)));
    assert_eq!(served(&server).0, json!([]), "it was only tried");
    let undone = undo("").json();
    assert_eq!(undone["version"], 2);
    assert_eq!((served(&server), key()), (first.clone(), secret));
    // The undo is undone, and then the same again by its version.
    assert_eq!(undo("").json()["version"], 3);
    assert_eq!(served(&server).0, json!([]));
    assert_eq!(history()[0]["replacedBy"], "undo");
    assert_eq!(undo("?version=2").json()["version"], 2);
    assert_eq!((served(&server), key()), (first, secret));
    let missing = undo("?version=99");
    assert_eq!(
        (missing.status, missing.code().as_str()),
        (404, "CATALOG_VERSION_NOT_FOUND")
    );
    assert_eq!(undo("?version=x").status, 400);
}

#[test]
fn twenty_versions_are_kept_and_unchanged_imports_add_none() {
    let server = stocked();
    for n in 0..25 {
        let file = FILE.replace("A Film", &format!("Film {n}"));
        assert_eq!(server.import("", &file).status, 200);
        assert_eq!(server.import("", &file).status, 200);
    }
    let history = server
        .operator("GET", "/admin/v1/catalog/history", "")
        .json();
    let numbers: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["version"].clone())
        .collect();
    assert_eq!(
        (numbers.len(), &numbers[0], &numbers[19]),
        (20, &json!(26), &json!(7))
    );
    let verified = server.operator("POST", "/admin/v1/store/verify", "").json();
    assert_eq!(verified["sound"], true);
    let rows = |table: &str| {
        let tables = verified["tables"].as_array().unwrap();
        let found = tables.iter().find(|one| one["table"] == table).unwrap();
        found["records"].as_u64().unwrap()
    };
    assert_eq!(
        (rows("catalog.version_texts"), rows("catalog.version_keys")),
        (20, 20)
    );
}

#[test]
fn the_livestream_sets_the_rating_of_unrated_programs() {
    let server = GateOnly::start();
    let file = |unrated: &str| format!("[[livestream]]\nid = \"news\"\nunrated = {unrated}\n");
    for (unrated, shown) in [
        ("\"pin\"", "\"pin\""),
        ("\"allow\"", "\"allow\""),
        ("12", "12"),
    ] {
        assert_eq!(server.import("", &file(unrated)).status, 200);
        let export = server.operator("GET", "/admin/v1/catalog", "");
        let text = String::from_utf8(export.body).unwrap();
        assert!(text.contains(&format!("unrated = {shown}\n")), "{text}");
        assert_eq!(server.import("", &text).json()["changes"], json!([]));
    }
    for wrong in ["\"never\"", "100", "-1", "true"] {
        let answer = server.import("", &file(wrong));
        assert_eq!(answer.code(), "IMPORT_INVALID", "{wrong}");
    }
}
