//! The catalogue: files in and out, lists for clients, offers of users, decisions explained.

use playgate::types::{LiveOffset, LivestreamId, OfferId, PartnerId};
use serde_json::{Value, json};

use super::lab::{Lab, NOON};
use super::wire::{Answer, ask, request};

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

impl Lab {
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

    /// A user of a partner of the store, by id.
    fn user(&self) -> String {
        let partner = self.operator("POST", "/admin/v1/partners", r#"{"name":"p"}"#);
        let partner = partner.json()["partnerId"].clone();
        PartnerId::parse(partner.as_str().unwrap()).unwrap();
        let body = json!({"email": "a@example.com", "partner": partner, "country": "SE"});
        let user = self.operator("POST", "/admin/v1/users", &body.to_string());
        user.json()["userId"].as_str().unwrap().to_owned()
    }
}

fn stocked() -> Lab {
    let lab = Lab::start();
    let answer = lab.import("", FILE);
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    lab
}

#[test]
fn clients_learn_ids_and_what_goes_with_them() {
    let lab = stocked();
    assert_eq!(
        lab.partner("/api/catalog/v1/livestreams").json(),
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
        lab.partner("/api/catalog/v1/assets").json(),
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
    let answer = lab.partner("/api/catalog/v1/assets");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[test]
fn every_mistake_is_answered_with_its_line_and_nothing_imported() {
    let lab = stocked();
    let answer = lab.import(
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
    let lists = lab.partner("/api/catalog/v1/livestreams").json();
    assert_eq!(lists[0]["id"], "news");
    for bad in [
        "\u{0}",
        "{\"asset\": [",
        "[[asset]]\nid = \"k\"\nkeys = [{ kid = \"00112233445566778899aabbccddeeff\", key_file = \"/etc/passwd\" }]",
    ] {
        let answer = lab.import("", bad);
        assert_eq!(answer.code(), "IMPORT_INVALID", "{bad}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("root:"));
    }
}

#[test]
fn an_import_tells_what_it_changes() {
    let lab = stocked();
    let more = r#"{"asset": [{"id": "short", "title": "A Short"}, {"id": "new"}]}"#;
    let told = lab.import("?merge=true&dryRun=true", more);
    assert_eq!(
        told.json(),
        json!({
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
        lab.partner("/api/catalog/v1/assets")
            .json()
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count(), 2, "a dry run changes nothing");
    lab.import("?merge=true", more);
    assert_eq!(count(), 3);
    let replaced = lab.import("", more).json();
    assert_eq!(
        (&replaced["added"], &replaced["removed"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(lab.partner("/api/catalog/v1/livestreams").json(), json!([]));
}

#[test]
fn an_export_is_a_file_to_import_without_keys() {
    let lab = stocked();
    for (query, media) in [
        ("", "application/toml"),
        ("?format=toml", "application/toml"),
        ("?format=json", "application/json"),
    ] {
        let export = lab.operator("GET", &format!("/admin/v1/catalog{query}"), "");
        assert_eq!(export.header("content-type"), Some(media));
        let text = String::from_utf8(export.body).unwrap();
        assert!(text.contains("00112233445566778899aabbccddeeff"));
        assert!(!text.to_lowercase().contains("0f0e0d0c"), "a key in clear");
        let again = lab.import("", &text).json();
        assert_eq!(again["changes"], json!([]), "{text}");
    }
    let answer = lab.operator("GET", "/admin/v1/catalog?format=xml", "");
    assert_eq!((answer.status, answer.field().as_str()), (400, "format"));
}

#[test]
fn the_schedule_knows_new_livestreams_at_once() {
    let lab = stocked();
    let is_known = |id: &str| {
        let ids = [LivestreamId::parse(id).unwrap()];
        let snapshot = lab.app.schedule.snapshot();
        snapshot.live(&ids, LiveOffset::LIVE, NOON).is_ok()
    };
    assert!(is_known("news") && !is_known("sport"));
    lab.import("?merge=1", "[[livestream]]\nid = \"sport\"\n");
    assert!(is_known("sport"));
    lab.import("", FILE);
    assert!(is_known("news") && !is_known("sport"));
}

#[test]
fn an_agent_gives_offers_and_does_not_touch_the_catalogue() {
    let lab = stocked();
    let user = lab.user();
    let bearer = format!("Bearer {}", lab.gate.tokens.agent.reveal());
    let agent = |method: &str, target: &str| {
        ask(
            lab.ops,
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
fn offers_are_given_explained_and_taken_away() {
    let lab = stocked();
    let user = lab.user();
    let grants = format!("/admin/v1/users/{user}/grants");
    let premium = format!("{grants}/premium");
    let why = || {
        let target = format!("/admin/v1/users/{user}/why/film?country=DE");
        lab.operator("GET", &target, "").json()
    };
    let before = why();
    assert_eq!(
        (&before["granted"], &before["code"]),
        (&json!(false), &json!("NOT_ENTITLED"))
    );
    assert_eq!(
        before["steps"],
        json!([
            {"check": "asset", "finding": "video on demand `A Film`", "passed": true},
            {"check": "country", "finding": "DE, by the address", "passed": true},
            {"check": "offer", "subject": "premium", "finding": "subscription offer: the user does not have it", "passed": false},
            {"check": "rights", "finding": "is within its availability", "passed": true},
            {"check": "playback", "finding": "no playlist: the catalogue names none for dash, hls or sstr", "passed": false},
        ])
    );
    let given = lab.operator("PUT", &premium, "").json();
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
    // By e-mail too, where there is only one partner.
    let by_mail = lab
        .operator("GET", "/admin/v1/users/a%40example.com/grants", "")
        .json();
    assert_eq!(by_mail, json!([expected]));
    let after = why();
    assert_eq!(
        (&after["granted"], &after["pinNeeded"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(lab.operator("DELETE", &premium, "").status, 204);
    assert_eq!(
        lab.operator("DELETE", &premium, "").code(),
        "GRANT_NOT_FOUND"
    );
    assert_eq!(why()["granted"], json!(false));
    let history = lab.operator("GET", &grants, "").json();
    assert_eq!(
        (&history[0]["state"], &history[0]["revokedAt"]),
        (&json!("revoked"), &json!(NOON.0))
    );
}

#[test]
fn what_cannot_be_given_is_refused() {
    let lab = stocked();
    let user = lab.user();
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
        let answer = lab.operator("PUT", &target, body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{target} {body}"
        );
    }
    let why = lab
        .operator("GET", &format!("/admin/v1/users/{user}/why/none"), "")
        .json();
    assert_eq!(
        (&why["granted"], &why["code"]),
        (&json!(false), &json!("ASSET_NOT_FOUND"))
    );
}

#[test]
fn users_see_their_offers_and_nobody_elses() {
    let lab = stocked();
    let premium = OfferId::parse("premium").unwrap();
    let until = NOON + 60;
    let user = lab.enroll();
    let granted = lab.app.grants.grant(user, premium, Some(until), None, NOON);
    granted.wait().unwrap();
    let access = lab.gate.tokens.partner.reveal();
    let bearer = format!("Bearer {}", lab.gate.tokens.user.reveal());
    let offers = |user: &str| {
        let target = format!("/api/user/v1/users/{user}/offers");
        let headers = [("Service-AccessToken", access), ("Authorization", &*bearer)];
        ask(lab.public, request("GET", &target, &headers, ""))
    };
    let basic = json!({"offerId": "basic", "type": "default", "state": "active"});
    let own = |state: &str| -> Value {
        json!([basic, {
            "offerId": "premium",
            "type": "subscription",
            "state": state,
            "purchasedAt": NOON.0,
            "expiry": until.0,
        }])
    };
    assert_eq!(offers(&user.to_string()).json(), own("active"));
    lab.app.lab.as_ref().unwrap().set_now(until);
    assert_eq!(offers(&user.to_string()).json(), own("expired"));
    assert_eq!(offers("AAAAAAAAAAAAAAAAAAAAAA").status, 404);
}
