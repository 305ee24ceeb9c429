//! Searches in the request journal over HTTP: their filters, their pages, and readers that wait.

use serde_json::{Value, json};

use crate::support::metrics::{metric, scrape};
use crate::support::playback_fixture::{PlaybackFixture, Player};
use crate::support::raw_http::Answer;
use crate::support::server::TestServer;
use crate::support::until::until;

fn requests(server: &TestServer, query: &str) -> Vec<Value> {
    let answer = server.operator("GET", &format!("requests?{query}"), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json().as_array().unwrap().clone()
}

/// Returns the address with this relation in the `Link` header.
fn linked(answer: &Answer, relation: &str) -> Option<String> {
    let links = answer.header("link")?.split(", ");
    let relation = format!(">; rel=\"{relation}\"");
    let address = links
        .filter_map(|link| link.strip_suffix(&relation))
        .next()?;
    Some(address.strip_prefix("</admin/v1/").unwrap().to_owned())
}

#[test]
fn a_list_names_the_addresses_of_older_and_later_requests() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    for asset in ["film", "premium", "swedish"] {
        fixture.entitle(&fixture.ann, asset, "");
    }
    let get = |target: &str| server.operator("GET", target, &Value::Null);
    let assets = |answer: &Answer| -> Vec<String> {
        let json = answer.json();
        let records = json.as_array().unwrap().iter();
        let asset = |record: &Value| record["asset"].as_str().unwrap_or("-").to_owned();
        records.map(asset).collect()
    };
    let first = get("requests?route=entitlement&limit=2&wait=5&user=ann%40example.com");
    assert_eq!(assets(&first), ["swedish", "premium"]);
    let older = linked(&first, "next").unwrap();
    assert!(
        older.starts_with("requests?route=entitlement&limit=2&user=ann%40example.com&before="),
        "{older}"
    );
    let second = get(&older);
    assert_eq!(assets(&second), ["film"]);
    assert_eq!(linked(&second, "next"), None);
    let later = linked(&first, "prev").unwrap();
    assert!(later.ends_with("&wait=5"), "{later}");
    fixture.entitle(&fixture.ann, "old", "");
    let third = get(&later);
    assert_eq!(assets(&third), ["old"]);
    let later = linked(&third, "prev").unwrap();
    fixture.entitle(&fixture.ann, "clear", "");
    assert_eq!(assets(&get(&later)), ["clear"]);
    let archive = get("requests.har?route=entitlement&limit=2");
    assert!(
        linked(&archive, "next")
            .unwrap()
            .starts_with("requests.har?")
    );
}

#[test]
fn readers_that_wait_are_woken_by_the_request_that_they_wait_for() {
    const READERS: u64 = 60;
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let waiting = || metric::<u64>(&scrape(server.ops), "playgate_journal_waiting");
    std::thread::scope(|scope| {
        let read = || server.operator("GET", "requests?status=403&wait=30", &Value::Null);
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        until("all readers to wait", || waiting() == READERS);
        // Another status wakes nobody.
        assert_eq!(fixture.entitle(&fixture.ann, "film", "").status, 200);
        until("it to be in the journal", || {
            !requests(server, "route=entitlement&status=2xx").is_empty()
        });
        assert_eq!(waiting(), READERS);
        let refused = fixture.entitle(&fixture.ann, "premium", "");
        assert_eq!(refused.code(), "NOT_ENTITLED");
        for reader in readers {
            let answer = reader.join().unwrap();
            let found = answer.json();
            assert_eq!(
                (found.as_array().unwrap().len(), &found[0]["asset"]),
                (1, &json!("premium"))
            );
        }
    });
    assert_eq!(waiting(), 0);
}

#[test]
fn routes_have_the_names_of_the_journal_and_of_the_description() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let live = "/api/schedule/v1/broadcasts/live?livestreams=none";
    assert_eq!(server.partner("GET", live, &Value::Null).status, 404);
    let player = fixture.play(&fixture.ann, "film", "tv");
    let body = r#"{"kids":["AAAAAAAAAAAAAAAAAAAAAA"]}"#;
    assert_eq!(fixture.license(&player, "clearkey", body).status, 403);
    server.partner("GET", "/api/nothing", &Value::Null);
    for (name, label) in [
        ("live", "live"),
        ("schedule_live", "live"),
        ("license_clearkey", "license_clearkey"),
        ("license", "license_clearkey"),
        ("none", "none"),
        // As a log has it.
        ("/api/schedule/v1/broadcasts/live", "live"),
        ("GET%20/api/schedule/v1/broadcasts/live%3Fa=b", "live"),
        ("https://tv.example/api/schedule/v1/broadcasts/live", "live"),
    ] {
        let found = requests(server, &format!("route={name}"));
        let routes: Vec<_> = found.iter().map(|one| &one["route"]).collect();
        assert_eq!(routes, [label], "{name}");
    }
    // Faults take both, too.
    let lab = server.operator("POST", "partners", &json!({"name": "Lab", "kind": "lab"}));
    assert_eq!(lab.status, 200, "{}", lab.json());
    for name in ["live", "schedule_live"] {
        let fault = json!({"route": name, "do": {"status": 503}});
        let added = server.operator("POST", "partners/Lab/faults", &fault);
        assert_eq!(added.status, 200, "{}", added.json());
    }
}

#[test]
fn names_that_no_record_can_have_are_refused_with_the_nearest_one() {
    let server = TestServer::start();
    for (query, field, hint) in [
        ("route=hartbeat", "route", "did you mean heartbeat?"),
        (
            "route=schedule_life",
            "route",
            "did you mean schedule_live?",
        ),
        ("route=", "route", "is no route"),
        ("route=/api/nothing", "route", "is no route"),
        (
            "route=PUT%20/api/schedule/v1/broadcasts/live",
            "route",
            "is no route",
        ),
        ("code=NOT_ENTITELD", "code", "did you mean NOT_ENTITLED?"),
        ("code=xyz", "code", "is no error code"),
        ("status=199", "status", "from 200 to 599"),
        ("status=1xx", "status", "from 200 to 599"),
        ("status=403,404", "status", "from 200 to 599"),
    ] {
        for list in ["requests", "requests.har"] {
            let refused = server.operator("GET", &format!("{list}?{query}"), &Value::Null);
            assert_eq!((refused.status, refused.field()), (400, field.to_owned()));
            let message = refused.json()["error"]["message"].to_string();
            assert!(message.contains(hint), "{query}: {message}");
        }
    }
    // What has one sensible meaning is understood.
    for query in ["status=4XX", "code=not_entitled", "route=%20heartbeat%20"] {
        assert_eq!(requests(&server, query), [] as [Value; 0], "{query}");
    }
}

#[test]
fn heartbeats_have_the_asset_of_the_users_own_session() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let player = fixture.play(&fixture.ann, "film", "tv");
    assert_eq!(fixture.beat(&player, &[]).status, 200);
    assert_eq!(fixture.stop(&player).status, 204);
    assert_eq!(fixture.beat(&player, &[]).status, 410);
    let found = requests(server, "asset=film");
    let found: Vec<_> = found
        .iter()
        .map(|one| format!("{} {}", one["route"].as_str().unwrap(), one["status"]))
        .collect();
    assert_eq!(
        found,
        [
            "heartbeat 410",
            "end_playback 204",
            "heartbeat 200",
            "preflight 200",
            "entitlement 200"
        ]
    );
    // Another user names the session in a header, and learns nothing by the journal.
    let bob = server.sign_up("bob@example.com");
    let running = fixture.play(&fixture.ann, "film", "tv");
    let foreign = Player {
        viewer: bob,
        ..running
    };
    assert!(fixture.beat(&foreign, &[]).status >= 400);
    let found = requests(server, "user=bob@example.com&route=heartbeat");
    assert_eq!(found.len(), 1);
}
