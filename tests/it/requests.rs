//! The request journal over HTTP: which requests are kept, how they are found, and who may read them.

use std::time::{Duration, Instant};

use playgate_types::PartnerKind;
use serde_json::{Value, json};

use crate::support::appliance::Appliance;
use crate::support::gate_only::NOON;
use crate::support::metrics::scrape;
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer};

fn requests(server: &TestServer, query: &str) -> Vec<Value> {
    let answer = server.operator("GET", &format!("requests?{query}"), &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json().as_array().unwrap().clone()
}

fn record(server: &TestServer, answer: &Answer) -> Value {
    let id = answer.header("x-request-id").unwrap();
    let found = server.operator("GET", &format!("requests/{id}"), &Value::Null);
    assert_eq!(found.status, 200, "{}", found.json());
    found.json()
}

fn steps(record: &Value) -> Vec<String> {
    let steps = record["steps"].as_array().unwrap().iter();
    let line = |step: &Value| {
        let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
        format!(
            "{} {} {}: {}",
            step["passed"],
            text("check"),
            text("subject"),
            text("finding")
        )
    };
    steps.map(line).collect()
}

#[test]
fn a_refusal_is_found_by_its_id_with_the_decision_as_it_was_made() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let refused = fixture.entitle(&fixture.ann, "premium", r#"{"pinCode":"9731"}"#);
    assert_eq!(refused.code(), "NOT_ENTITLED");
    // A later grant does not change the recorded decision.
    let target = format!("users/{}/grants/premium", fixture.ann.id);
    assert_eq!(server.operator("PUT", &target, &json!({})).status, 200);
    let found = record(server, &refused);
    assert_eq!(found["status"], 403);
    assert_eq!(found["code"], "NOT_ENTITLED");
    assert_eq!(found["partner"], "Acme");
    assert_eq!(found["user"], fixture.ann.id);
    assert_eq!(found["asset"], "premium");
    assert_eq!(found["route"], "entitlement");
    assert_eq!(found["path"], "/api/entitlement/v2/asset/premium");
    assert_eq!(found["network"], "127.0.0.0/24");
    assert_eq!(found["body"], json!({"pinCode": "***"}));
    assert_eq!(found["at"], NOON.0);
    let steps = steps(&found);
    let offer = "false offer premium: subscription offer: the user does not have it";
    assert!(steps.iter().any(|step| step == offer), "{steps:?}");
    assert!(!found.to_string().contains("9731"));
    let by_number = format!("requests/{}", found["number"]);
    let by_number = server.operator("GET", &by_number, &Value::Null);
    assert_eq!(by_number.json()["id"], found["id"]);
    let unknown = server.operator("GET", "requests/nothing", &Value::Null);
    assert_eq!(
        (unknown.status, unknown.code()),
        (404, "REQUEST_NOT_FOUND".to_owned())
    );
}

#[test]
fn a_session_is_journaled_and_equal_heartbeats_are_not() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let player = fixture.play(&fixture.ann, "film", "tv");
    for _ in 0..3 {
        assert_eq!(fixture.beat(&player, &[]).status, 200);
        server.wait(10);
    }
    let foreign = fixture.license(
        &player,
        "clearkey",
        r#"{"kids":["AAAAAAAAAAAAAAAAAAAAAA"]}"#,
    );
    assert_eq!(foreign.code(), "KEY_NOT_ALLOWED");
    // Another device sends the session's headers: the first of a series of equal refusals is kept, and the next
    // success.
    for _ in 0..2 {
        assert_eq!(fixture.beat(&player, &[("DeviceId", "phone")]).status, 403);
    }
    assert_eq!(fixture.beat(&player, &[]).status, 200);
    assert_eq!(fixture.stop(&player).status, 204);
    let gone = fixture.beat(&player, &[]);
    assert_eq!(gone.code(), "SESSION_ENDED");
    let all = requests(server, &format!("session={}", player.session));
    let kept: Vec<String> = all
        .iter()
        .rev()
        .map(|one| format!("{} {}", one["route"].as_str().unwrap(), one["status"]))
        .collect();
    let expected = [
        "preflight 200",
        "heartbeat 200",
        "license_clearkey 403",
        "heartbeat 403",
        "heartbeat 200",
        "end_playback 204",
        "heartbeat 410",
    ];
    assert_eq!(kept, expected);
    let license = steps(&record(server, &foreign));
    assert!(
        license[0].starts_with("true session : alive"),
        "{license:?}"
    );
    assert!(license[1].starts_with("true keys : "), "{license:?}");
    assert_eq!(
        license[2],
        "false license : a key id does not belong to the asset"
    );
    // The journal has a digest of the token instead of the token.
    assert!(all[0]["entitlement"].is_string(), "{}", all[0]);
    assert_eq!(all[0]["entitlement"], all[2]["entitlement"]);
    assert_eq!(all[0]["device"]["type"], "tv");
    assert!(!all[0].to_string().contains(&player.entitlement));
}

#[test]
fn a_stream_limit_names_the_running_sessions() {
    let fixture = PlaybackFixture::with(&[
        ("playback.streams_total", "1"),
        ("playback.streams_per_asset", "1"),
    ]);
    let first = fixture.play(&fixture.ann, "film", "tv");
    let token = fixture.token(&fixture.ann, "clear");
    let second = fixture.preflight(&fixture.ann, "clear", &token, &[("DeviceId", "phone")]);
    assert_eq!(second.code(), "STREAM_LIMIT_REACHED");
    let found = record(&fixture.server, &second);
    assert_eq!(found["details"]["sessions"][0]["sessionId"], first.session);
    let steps = steps(&found);
    assert!(
        steps
            .iter()
            .any(|step| step == "true devices : 1 of 5 devices are registered; this one is new"),
        "{steps:?}"
    );
    let way = format!(
        "true stream {}: takes a slot: film on tv Model since",
        first.session
    );
    assert!(steps.iter().any(|step| step.starts_with(&way)), "{steps:?}");
    assert_eq!(
        steps.last().unwrap(),
        "false streams : the stream limit is reached"
    );
}

#[test]
fn each_refusal_during_a_blackout_names_the_rule_that_decided() {
    let fixture = PlaybackFixture::new();
    fixture.server.wait(7_190);
    let player = fixture.play(&fixture.ann, "news", "tv");
    fixture.server.wait(20);
    let refusals = [
        fixture.entitle(&fixture.ann, "news", ""),
        fixture.beat(&player, &[]),
        fixture.license(
            &player,
            "clearkey",
            r#"{"kids":["EREiIjMzRERVVWZmd3eIiA"]}"#,
        ),
    ];
    let rule = "false rule dark: `dark`: live is off by the override of this broadcast. To allow it, set live on in \
                the override of this broadcast, or remove the override. Also off: ";
    for refused in &refusals {
        assert!(
            refused.code().starts_with("NO_LIVE_RIGHTS"),
            "{}",
            refused.code()
        );
        let steps = steps(&record(&fixture.server, refused));
        assert!(steps.last().unwrap().starts_with(rule), "{steps:?}");
    }
    // A refusal for another reason names no rule.
    let other = fixture.entitle(&fixture.ann, "premium", "");
    let steps = steps(&record(&fixture.server, &other));
    assert!(
        !steps.iter().any(|step| step.contains(" rule ")),
        "{steps:?}"
    );
}

#[test]
fn the_reason_of_a_denial_begins_with_what_decides_and_says_what_would_allow_it() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let denied = |asset: &str, query: &str, expected: &str| {
        let target = format!("users/{}/why/{asset}?{query}", fixture.ann.id);
        let why = server.operator("GET", &target, &Value::Null).json();
        let (code, reason) = (
            why["code"].as_str().unwrap(),
            why["reason"].as_str().unwrap(),
        );
        assert!(format!("{code} {reason}").starts_with(expected), "{why}");
    };
    let change = |method: &str, target: &str, body: &Value| {
        assert_eq!(
            server.operator(method, target, body).status,
            200,
            "{target}"
        );
    };
    change(
        "POST",
        "rules",
        &json!({"title": "noon", "live": false, "catchup": false}),
    );
    change(
        "POST",
        "rules",
        &json!({"title": "noon", "extended_rights": {"pause": true}}),
    );
    denied(
        "news",
        "",
        "NO_LIVE_RIGHTS `noon`: live is off by rule 1 (`title noon, live off, catchup off`). To allow it, set live on \
         in rule 1, in a later rule or for this broadcast. Also off: catchup by rule 1, start_over by ",
    );
    denied("dark", "", "NOT_AVAILABLE `dark`: it begins on ");
    denied(
        "premium",
        "",
        "NOT_ENTITLED the user has no offer that includes the asset. To allow it, grant one of: premium",
    );
    denied(
        "swedish",
        "country=NO",
        "GEO_BLOCKED no offer that the user has and that includes the asset is valid in the viewer's country (NO, by \
         the address). To allow it, add the country to one of: swedish;",
    );
    denied(
        "old",
        "",
        "NOT_AVAILABLE the asset is not available at this time",
    );

    server.wait(2_000);
    change("POST", "rules", &json!({"title": "noon", "live": true}));
    denied(
        "news",
        "offset=-1000",
        "NOT_AVAILABLE `noon`: start_over is off by the livestream's default. To allow it, set start_over or rewind on \
         for the livestream, by a rule or for this broadcast. Also off: catchup by rule 1",
    );
    server.wait(2_000);
    denied(
        "noon",
        "",
        "NOT_AVAILABLE `noon`: catchup is off by rule 1 (`title noon, ",
    );
    change("PUT", "livestreams/news/rights", &json!({"live": false}));
    server.wait(9_000);
    denied(
        "news",
        "",
        "NO_LIVE_RIGHTS the schedule has no program at this position, so the livestream's defaults decide: live is off. \
         To allow it, set live on for the livestream",
    );
    server.wait(8 * 86_400);
    denied("early", "", "NOT_AVAILABLE `early`: its catch-up ended on ");
}

#[test]
fn logins_are_found_by_user_also_those_that_fail_with_their_reason() {
    let server = TestServer::start();
    let log_in = |name: &str, password: &str| {
        let body = json!({"identity": name, "accessKey": password});
        server.partner("POST", "/api/login/v2/auth/email", &body)
    };
    let body = json!({"identity": "eve@example.com", "accessKey": PASSWORD});
    assert_eq!(
        server
            .partner("PUT", "/api/login/v2/auth/email", &body)
            .status,
        200
    );
    assert_eq!(log_in("eve@example.com", PASSWORD).status, 200);
    let wrong = log_in("eve@example.com", "not the password");
    let unknown = log_in("nobody@example.com", PASSWORD);
    let target = "users/eve@example.com";
    assert_eq!(
        server
            .operator("PUT", target, &json!({"disabled": true}))
            .status,
        200
    );
    let disabled = log_in("eve@example.com", PASSWORD);
    let found = requests(&server, "user=eve@example.com");
    let logins: Vec<_> = found
        .iter()
        .map(|one| format!("{} {}", one["route"], one["status"]))
        .collect();
    let login = |status: u16| format!("\"login\" {status}");
    assert_eq!(
        logins,
        [
            login(401),
            login(401),
            login(200),
            "\"sign_up\" 200".to_owned()
        ]
    );
    assert_eq!(found[0]["email"], "eve@example.com");
    let exists = "true account : the account is enabled";
    for (refused, expected) in [
        (
            &wrong,
            &[exists, "false password : the password is wrong"][..],
        ),
        (
            &unknown,
            &["false account : no user of the partner has the address"],
        ),
        (&disabled, &["false account : the account is disabled"]),
    ] {
        assert_eq!(refused.code(), "INVALID_CREDENTIALS");
        assert_eq!(steps(&record(&server, refused)), expected);
    }
    assert!(!record(&server, &unknown).to_string().contains("nobody@"));
}

#[test]
fn a_wrong_path_is_recorded_with_its_partner_and_without_unknown_words() {
    let server = TestServer::start();
    let missed = server.partner("GET", "/api/schedule/v1/secret-canary/x", &Value::Null);
    assert_eq!(missed.status, 404);
    let found = record(&server, &missed);
    assert_eq!(
        (&found["route"], &found["path"]),
        (
            &json!("none"),
            &json!("/api/schedule/v1/{unknown}/{unknown}")
        )
    );
    assert_eq!(found["partner"], "Acme");
    let method = server.partner("PUT", "/api/schedule/v1/broadcasts/live", &Value::Null);
    assert_eq!(method.status, 405, "{}", method.json());
    assert_eq!(record(&server, &method)["partner"], "Acme");
}

#[test]
fn pages_and_filters_select_requests() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    for asset in ["film", "premium", "swedish", "nothing", "old"] {
        fixture.entitle(&fixture.ann, asset, "");
        server.wait(60);
    }
    let assets = |query: &str| -> Vec<String> {
        let found = requests(server, query);
        found
            .iter()
            .map(|one| one["asset"].as_str().unwrap_or("-").to_owned())
            .collect()
    };
    assert_eq!(
        assets("route=entitlement"),
        ["old", "nothing", "swedish", "premium", "film"]
    );
    assert_eq!(
        assets("route=entitlement&status=4xx&limit=2"),
        ["old", "nothing"]
    );
    let page = requests(server, "route=entitlement&limit=2");
    for before in [
        page[1]["id"].as_str().unwrap(),
        &page[1]["number"].to_string(),
    ] {
        assert_eq!(
            assets(&format!("route=entitlement&limit=2&before={before}")),
            ["swedish", "premium"]
        );
    }
    let number = page[1]["number"].to_string();
    assert_eq!(
        assets(&format!("route=entitlement&after={number}")),
        ["old"]
    );
    assert_eq!(assets("code=GEO_BLOCKED"), ["swedish"]);
    assert_eq!(assets("user=ann@example.com&asset=old"), ["old"]);
    assert_eq!(
        assets(&format!(
            "route=entitlement&from={}&to={}",
            NOON.0 + 60,
            NOON.0 + 180
        )),
        ["swedish", "premium"]
    );
    assert_eq!(assets("partner=Acme&route=sign_up"), ["-"]);
    for (query, status) in [
        ("status=6xx", 400),
        ("wait=31", 400),
        ("limit=0", 400),
        ("from=noon", 400),
        ("before=", 400),
        ("partner=nobody", 404),
        ("user=nobody@example.com", 404),
        ("before=unknown", 404),
    ] {
        assert_eq!(
            server
                .operator("GET", &format!("requests?{query}"), &Value::Null)
                .status,
            status,
            "{query}"
        );
    }
}

#[test]
fn a_follower_waits_for_the_next_request() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let last = requests(server, "limit=1")[0]["number"].to_string();
    let began = Instant::now();
    assert_eq!(
        requests(server, &format!("after={last}&wait=1")),
        Vec::<Value>::new()
    );
    assert!(began.elapsed() >= Duration::from_secs(1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let target = format!("requests?after={last}&wait=30");
            server.operator("GET", &target, &Value::Null).json()
        });
        let_the_follower_wait();
        fixture.entitle(&fixture.ann, "premium", "");
        let found = waiting.join().unwrap();
        assert_eq!(found[0]["code"], "NOT_ENTITLED");
    });
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[expect(
    clippy::disallowed_methods,
    reason = "a held request shows nothing to wait for"
)]
fn let_the_follower_wait() {
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn an_archive_has_the_members_of_har() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    fixture.entitle(&fixture.ann, "film", "");
    fixture.ask(
        &fixture.ann,
        "POST",
        "/api/entitlement/v2/asset/news?offset=-99999",
        &[("User-Agent", "tv")],
        "",
    );
    let archive = server
        .operator("GET", "requests.har?route=entitlement", &Value::Null)
        .json();
    assert_eq!(archive["log"]["version"], "1.2");
    let entries = archive["log"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    let refused = &entries[1];
    assert_eq!(refused["startedDateTime"], "2026-01-01T12:00:00.000Z");
    assert_eq!(
        refused["request"]["url"],
        "https://tv.example/api/entitlement/v2/asset/news?offset=-99999"
    );
    assert_eq!(
        refused["request"]["headers"],
        json!([{"name": "User-Agent", "value": "tv"}])
    );
    assert_eq!(refused["response"]["status"], 400);
    let nothing = server
        .operator("GET", "requests.har?route=lab_clock", &Value::Null)
        .json();
    let (log, full) = (&nothing["log"], &archive["log"]);
    assert_eq!(log["entries"], json!([]));
    assert_eq!(
        (&log["version"], &log["creator"]),
        (&full["version"], &full["creator"])
    );
    if let Some(file) = std::env::var_os("PLAYGATE_HAR") {
        std::fs::write(file, archive.to_string()).unwrap();
    }
}

#[test]
fn developers_of_a_lab_partner_read_their_own_requests_and_no_others() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let made = server
        .services
        .partners
        .add("Lab", PartnerKind::Lab, NOON)
        .unwrap()
        .wait()
        .unwrap();
    let token = made.1.reveal().to_owned();
    let lab_get = |target: &str| server.partner_with(&token, "GET", target, &Value::Null);
    // A lab partner's requests are all kept, even if they are neither refusals nor starts.
    assert_eq!(lab_get("/api/catalog/v1/assets").status, 200);
    let body = json!({"identity": "lab@example.com", "accessKey": PASSWORD, "name": "Lab"});
    assert_eq!(
        server
            .partner_with(&token, "PUT", "/api/login/v2/auth/email", &body)
            .status,
        200
    );
    let listed = lab_get("/api/lab/v1/requests");
    assert_eq!(listed.status, 200, "{}", listed.json());
    let listed = listed.json();
    let routes: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["route"].as_str().unwrap())
        .collect();
    assert_eq!(routes, ["sign_up", "assets"]);
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(
        lab_get(&format!("/api/lab/v1/requests/{id}")).json()["body"]["accessKey"],
        "***"
    );
    assert_eq!(
        lab_get("/api/lab/v1/requests?user=lab@example.com").status,
        200
    );
    // Another partner's requests and users are not visible.
    let foreign = requests(server, "partner=Acme&limit=1")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        lab_get(&format!("/api/lab/v1/requests/{foreign}")).status,
        404
    );
    assert_eq!(
        lab_get("/api/lab/v1/requests?user=ann@example.com").code(),
        "USER_NOT_FOUND"
    );
    assert_eq!(
        lab_get(&format!("/api/lab/v1/requests?user={}", fixture.ann.id)).code(),
        "USER_NOT_FOUND"
    );
    assert_eq!(
        lab_get("/api/lab/v1/requests?partner=Acme")
            .json()
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["partner"] == "Acme")
            .count(),
        0
    );
    let standard = server.partner("GET", "/api/lab/v1/requests", &Value::Null);
    assert_eq!(standard.code(), "LAB_NOT_ALLOWED");
}

#[test]
fn secrets_in_wrong_places_are_not_recorded() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let token = fixture.token(&fixture.ann, "film");
    let headers = [
        ("User-Agent", token.as_str()),
        ("Service-Play-Session", token.as_str()),
        ("Service-Play-DeviceModel", fixture.ann.token.as_str()),
        ("X-Secret", "canary-header"),
        ("Cookie", "canary-cookie"),
    ];
    let target = format!("/api/entitlement/v2/asset/premium?offset={token}&canary=canary-query");
    fixture.ask(
        &fixture.ann,
        "POST",
        &target,
        &headers,
        r#"{"pinCode":"canary-pin","country":"pgu_canary","other":"canary-member"}"#,
    );
    let path = format!("/api/{token}/canary-path");
    ask(server.public, request("GET", &path, &[], ""));
    let all = Value::from(requests(server, "")).to_string();
    for secret in [
        "canary",
        token.as_str(),
        fixture.ann.token.as_str(),
        "pgu_",
        "pge_",
    ] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

#[test]
fn refusals_are_counted_by_route_code_and_partner() {
    let fixture = PlaybackFixture::new();
    fixture.entitle(&fixture.ann, "premium", "");
    fixture.entitle(&fixture.ann, "premium", "");
    ask(
        fixture.server.public,
        request("GET", "/api/catalog/v1/assets", &[], ""),
    );
    let metrics = scrape(fixture.server.ops);
    for line in [
        r#"playgate_requests_refused_total{route="entitlement",code="NOT_ENTITLED",partner="Acme"} 2"#,
        r#"playgate_requests_refused_total{route="assets",code="PARTNER_TOKEN_INVALID",partner=""} 1"#,
    ] {
        assert!(metrics.lines().any(|is| is == line), "{line}");
    }
}

#[test]
fn why_explains_a_past_decision_and_the_limits_of_a_start() {
    let fixture = PlaybackFixture::with(&[
        ("playback.streams_total", "1"),
        ("playback.streams_per_asset", "1"),
    ]);
    let server = &fixture.server;
    let refused = fixture.entitle(&fixture.ann, "premium", "");
    server.wait(600);
    let why = |asset: &str, query: &str| {
        let target = format!("users/{}/why/{asset}?{query}", fixture.ann.id);
        server.operator("GET", &target, &Value::Null)
    };
    let past = why("premium", &format!("at={}", NOON.0)).json();
    assert_eq!(past["code"], "NOT_ENTITLED");
    let grant = "the user has no offer that includes the asset. To allow it, grant one of: premium";
    assert_eq!(past["reason"], grant);
    assert_eq!(past["requestId"], refused.header("x-request-id").unwrap());
    assert_eq!(past["at"], NOON.0);
    assert_eq!(steps(&past), steps(&record(server, &refused)));
    assert_eq!(
        why("premium", &format!("at={}", NOON.0 - 1)).code(),
        "REQUEST_NOT_FOUND"
    );

    let player = fixture.play(&fixture.ann, "film", "tv");
    let now = why("clear", "device=phone").json();
    assert_eq!(
        (&now["granted"], &now["playable"]),
        (&json!(true), &json!(false))
    );
    let now_steps = steps(&now);
    for step in [
        "true devices : 1 of 5 devices are registered; this one is not".to_owned(),
        "false streams : 1 of 1 streams run, 0 of 1 of this asset".to_owned(),
    ] {
        assert!(now_steps.contains(&step), "{now_steps:?}");
    }
    let running = format!(
        "true stream {}: `film` runs on tv Model since",
        player.session
    );
    assert!(
        now_steps.iter().any(|step| step.starts_with(&running)),
        "{now_steps:?}"
    );
    // A session on the same device is replaced.
    assert_eq!(why("clear", "device=tv").json()["playable"], true);
}

#[test]
fn an_export_has_the_requests_of_the_user_and_an_erasure_removes_them() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let bob = fixture.viewer("bob");
    fixture.entitle(&fixture.ann, "premium", "");
    fixture.entitle(&bob, "premium", "");
    let export = format!("/api/user/v1/users/{}/export", fixture.ann.id);
    let exported = server
        .user(&fixture.ann.token, "GET", &export, &Value::Null)
        .json();
    let own_requests: Vec<_> = exported["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["route"], one["code"]]))
        .collect();
    assert_eq!(
        own_requests,
        [
            json!(["entitlement", "NOT_ENTITLED"]),
            json!(["sign_up", null])
        ]
    );
    assert_eq!(exported["telemetry"], json!([]));
    let user_path = format!("/api/user/v1/users/{}", fixture.ann.id);
    assert_eq!(
        server
            .user(
                &fixture.ann.token,
                "DELETE",
                &user_path,
                &json!({"password": PASSWORD})
            )
            .status,
        204
    );
    // The erasure job runs every two seconds.
    assert_eq!(server.services.journal.run_erasures().unwrap(), 1);
    let left = Value::from(requests(server, "")).to_string();
    assert!(!left.contains(&fixture.ann.id) && left.contains(&bob.id));
}

#[test]
fn a_kill_and_a_torn_end_cost_what_was_torn_and_nothing_before() {
    let directory = tempfile::tempdir().unwrap();
    let mut appliance = Appliance::start(directory.path());
    let refuse = |appliance: &Appliance, id: &str| {
        let headers = [("X-Request-Id", id)];
        let answer = appliance.ask("GET", "/api/schedule/v1/broadcasts/live", &headers, "");
        assert_eq!(answer.code(), "PARTNER_TOKEN_INVALID");
    };
    let listed = |appliance: &Appliance| -> Vec<String> {
        let listed = appliance.run_json(&["requests", "list", "--json"]);
        let listed = listed[0].as_array().unwrap().iter();
        listed
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    for id in ["one", "two", "three"] {
        refuse(&appliance, id);
    }
    // The journal's thread writes within milliseconds.
    let began = Instant::now();
    while listed(&appliance).len() < 3 && began.elapsed() < Duration::from_secs(20) {}
    appliance.kill();
    let files = std::fs::read_dir(directory.path().join("journal")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let records = files
        .find(|path| path.extension().is_some_and(|is| is == "records"))
        .unwrap();
    let bytes = std::fs::read(&records).unwrap();
    std::fs::write(&records, &bytes[..bytes.len() - 1]).unwrap();
    let mut appliance = Appliance::start(directory.path());
    assert_eq!(listed(&appliance), ["two", "one"]);
    refuse(&appliance, "four");
    let began = Instant::now();
    while listed(&appliance).len() < 3 && began.elapsed() < Duration::from_secs(20) {}
    appliance.end();
    let mut appliance = Appliance::start(directory.path());
    assert_eq!(listed(&appliance), ["four", "two", "one"]);
    appliance.end();
}
