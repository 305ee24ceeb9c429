//! The content and form of responses: all problems in one response, messages that name what to change, and compression
//! and ETags as HTTP defines them.

use serde_json::{Value, json};

use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer};

const SIGN_UP: &str = "/api/login/v2/auth/email";
const LIVE: &str = "/api/schedule/v1/broadcasts/live";

fn message(answer: &Answer) -> String {
    let json = answer.json();
    json["error"]["message"].as_str().unwrap().to_owned()
}

fn fields(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let problems = json["error"]["details"]["problems"].as_array();
    problems
        .into_iter()
        .flatten()
        .map(|problem| {
            assert!(problem["message"].is_string(), "{problem}");
            problem["field"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn with_partner(
    server: &TestServer,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut all = vec![("Service-AccessToken", server.partner.as_str())];
    all.extend_from_slice(headers);
    ask(server.public, request(method, target, &all, body))
}

#[test]
fn list_parameters_accept_all_spellings() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let live = |query: &str| with_partner(server, "GET", &format!("{LIVE}?{query}"), &[], "");
    let plain = live("livestreams=news,other");
    assert_eq!(plain.status, 200);
    let many: String = (0..450)
        .map(|n| format!("&livestreams=x{}", n % 199))
        .collect();
    for same in [
        "livestreams=news&livestreams=other",
        "livestreams=other&livestreams=news",
        "livestreams=news,other&livestreams=news",
        "livestreams=news%2Cother",
        "livestreams=news,other&offset=-0",
        &format!("livestreams=news{many}"),
    ] {
        let answer = live(same);
        assert_eq!(
            (answer.status, &answer.body),
            (200, &plain.body),
            "{same:.60}"
        );
    }
    for bad in [
        "livestreams=news&livestreams=",
        "livestreams=news&livestreams",
        "livestreams=news,&livestreams=other",
        &format!("livestreams=news{many}&livestreams=one-more"),
    ] {
        let answer = live(bad);
        assert_eq!(
            (answer.status, answer.field()),
            (400, "livestreams".to_owned()),
            "{bad:.60}"
        );
    }
    let twice = live("livestreams=news&offset=0&offset=0");
    assert_eq!((twice.status, twice.field()), (400, "offset".to_owned()));
    let broadcasts = "/api/schedule/v1/broadcasts?broadcasts=noon&broadcasts=morning";
    let answer = with_partner(server, "GET", broadcasts, &[], "").json();
    assert_eq!(answer.as_object().unwrap().len(), 2);
    let (name, value) = ("Authorization", format!("Bearer {}", server.admin));
    let target = "/admin/v1/schedule/live?livestreams=news&livestreams=news";
    let ops = ask(server.ops, request("GET", target, &[(name, &value)], ""));
    assert_eq!(ops.status, 200);
}

#[test]
fn repeated_list_headers_are_joined() {
    let fixture = PlaybackFixture::new();
    let target = format!("{LIVE}?livestreams=news");
    let get = |headers: &[(&str, &str)]| with_partner(&fixture.server, "GET", &target, headers, "");
    let etag = get(&[]).header("etag").unwrap().to_owned();
    let weak = format!("W/{etag}");
    for known in [
        &[("If-None-Match", "\"x\""), ("If-None-Match", etag.as_str())][..],
        &[("If-None-Match", weak.as_str())],
        &[("If-None-Match", "\"a,b\""), ("If-None-Match", "*")],
    ] {
        assert_eq!(get(known).status, 304, "{known:?}");
    }
    let gzip = |lines: &[&str]| {
        let headers: Vec<_> = lines
            .iter()
            .map(|line| ("Accept-Encoding", *line))
            .collect();
        let answer = get(&headers);
        assert_eq!(answer.status, 200);
        answer.header("content-encoding") == Some("gzip")
    };
    // The response is small, so it is compressed only if the client refuses the identity encoding.
    for packed in [
        &["identity;q=0, gzip"][..],
        &["gzip", "identity;q=0"],
        &["*;q=0", "gzip;q=0.5"],
    ] {
        assert!(gzip(packed), "{packed:?}");
    }
    for plain in [
        &["gzip"][..],
        &["identity;q=1, gzip;q=0.5"],
        &["*;q=0"],
        &["gzip;q=0", "*"],
    ] {
        assert!(!gzip(plain), "{plain:?}");
    }
}

#[test]
fn repeated_accept_language_headers_are_joined() {
    let fixture = PlaybackFixture::new();
    let words = |lines: &[&str]| {
        let headers: Vec<_> = lines
            .iter()
            .map(|line| ("Accept-Language", *line))
            .collect();
        let answer = with_partner(&fixture.server, "GET", LIVE, &headers, "");
        let page = ask(
            fixture.server.public,
            request("GET", "/reset?token=x", &headers, ""),
        );
        assert_eq!((answer.status, page.status), (400, 400));
        let words = answer.json()["error"]["user_message"].clone();
        (words, String::from_utf8(page.body).unwrap())
    };
    let [english, swedish, german] = ["en", "sv", "de"].map(|language| words(&[language]));
    assert!(english != swedish && swedish != german && german != english);
    for (lines, expected) in [
        (&["fr", "de"][..], &german),
        (&["sv;q=0.5", "de"], &german),
        (&["de;q=0.3", "fr, sv;q=0.4"], &swedish),
        (&["de;q=0", "sv"], &swedish),
        // A language's weight is the one on its own line.
        (&["en;q=0.1, sv;q=0.2", "de;q=0.3"], &german),
        (&["\u{e4}", "de"], &german),
        (&["fr", "no"], &english),
    ] {
        assert_eq!(words(lines), *expected, "{lines:?}");
    }
}

#[test]
fn all_problems_of_a_request_are_reported_together() {
    let fixture = PlaybackFixture::new();
    let (server, ann) = (&fixture.server, &fixture.ann);
    let none: [(&str, &str); 0] = [];
    let form = json!({"identity": "no address", "accessKey": "short", "birthDate": "2024-02-30"});
    let answer = with_partner(server, "PUT", SIGN_UP, &none, &form.to_string());
    assert_eq!(
        (answer.status, answer.code()),
        (400, "INVALID_REQUEST".to_owned())
    );
    assert_eq!(fields(&answer), ["identity", "accessKey", "birthDate"]);
    assert_eq!(answer.field(), "identity");
    assert!(
        message(&answer).starts_with("identity: "),
        "{}",
        message(&answer)
    );
    let short = json!({"identity": "bo@example.com", "accessKey": "short"});
    let answer = with_partner(server, "PUT", SIGN_UP, &none, &short.to_string());
    assert_eq!(answer.code(), "PASSWORD_TOO_SHORT");
    assert_eq!(fields(&answer), ["accessKey"]);

    let bearer = format!("Bearer {}", ann.token);
    let user = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        with_partner(server, method, target, &all, body)
    };
    let preflight = user("POST", "/api/playback/v2/preflight/asset/film", &[], "");
    assert_eq!(
        fields(&preflight),
        [
            "Service-Play-DRM",
            "Service-Play-Protocol",
            "Service-Play-EntitlementId",
            "Service-Play-DevicePlatform",
            "Service-Play-DeviceType",
            "Service-Play-DeviceModel",
            "Service-Play-DeviceId",
        ]
    );
    // Headers, query and body are checked together. An unknown session is ignored while anything else is wrong.
    let sessions = [("Service-Play-Session", "a"), ("Service-Play-Session", "b")];
    let target = "/api/entitlement/v2/asset/film?offset=5";
    let mixed = user("POST", target, &sessions, "{\"pinCode\": 1234}");
    assert_eq!(
        fields(&mixed),
        ["Service-Play-Session", "offset", "pinCode"]
    );
    let broken = user("POST", target, &[], "{\"pinCode\": ");
    assert_eq!(fields(&broken), ["offset", "body"]);
    let beat = [
        ("Service-Play-Session", "nonsense"),
        ("Service-Play-Bitrate", "1,9"),
    ];
    let beat = user("POST", "/api/playback/v1/heartbeat", &beat, "");
    assert_eq!(beat.status, 400);
    assert_eq!(fields(&beat).len(), 11, "{:?}", fields(&beat));
    assert!(fields(&beat).contains(&"Service-Play-Bitrate".to_owned()));
    let live = with_partner(server, "GET", &format!("{LIVE}?offset=x"), &[], "");
    assert_eq!(fields(&live), ["livestreams", "offset"]);
    let audit = server.operator("GET", "audit?before=x&limit=0", &Value::Null);
    assert_eq!(fields(&audit), ["before", "limit"]);
    let events = user(
        "POST",
        "/api/tracker/v1/telemetry-events",
        &[],
        "[{\"a\":1}, ",
    );
    assert_eq!(
        message(&events),
        "body: is not valid JSON: line 1, column 11, member [1]: expected a JSON value"
    );
}

#[test]
fn all_problems_of_flags_and_key_ids_are_reported_together() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let bearer = format!("Bearer {}", fixture.ann.token);
    let flags = ["merge", "dryRun", "accept", "createLivestreams"];
    for (target, wrong) in [
        ("catalog/import", &flags[..3]),
        ("catalog/undo", &["version", "dryRun"]),
        (
            "epg/import",
            &["source", "dryRun", "accept", "createLivestreams"],
        ),
        ("epg/sources/a/refresh", &flags[1..]),
        ("users/import", &["partner", "dryRun"]),
    ] {
        let query = wrong
            .iter()
            .map(|name| format!("{name}=%ff"))
            .collect::<Vec<_>>();
        let target = format!("{target}?{}", query.join("&"));
        let refused = server.operator("POST", &target, &Value::Null);
        assert_eq!(fields(&refused), wrong, "{target}");
    }
    // Parameter errors precede not-found errors.
    let preview = server.operator("GET", "mail/preview/none?locale=%ff", &Value::Null);
    assert_eq!(fields(&preview), ["locale"]);
    let kids = json!({"kids": ["A", "EREiIjMzRERVVWZmd3eIiA", "EREiIjMzRERVVWZmd3eIiA=="]});
    let license = "/api/playback/v1/clearkey/license";
    let headers = [("Authorization", bearer.as_str())];
    let license = with_partner(server, "POST", license, &headers, &kids.to_string());
    assert_eq!(
        fields(&license),
        [
            "Service-Play-EntitlementId",
            "Service-Play-Session",
            "kids[0]",
            "kids[2]"
        ]
    );
}

#[test]
fn broken_json_errors_hide_parser_internals() {
    let server = TestServer::start();
    for (body, expected) in [
        (
            "{\"identity\": ",
            "line 1, column 14, member identity: expected a JSON value",
        ),
        (
            "{\"identity\":\n tru}",
            "line 2, column 2, member identity: expected a JSON value",
        ),
        (
            "{\"identity\" 1}",
            "line 1, column 13, member identity: expected a colon",
        ),
        (
            "{\"a\":1,\"a\":1}",
            "line 1, column 8, member a: expected each member once",
        ),
        ("{} {}", "line 1, column 4: expected the end of the input"),
    ] {
        let answer = with_partner(&server, "POST", SIGN_UP, &[], body);
        assert_eq!(
            (answer.status, answer.field()),
            (400, "body".to_owned()),
            "{body}"
        );
        assert_eq!(
            message(&answer),
            format!("body: is not valid JSON: {expected}")
        );
    }
    let bearer = format!("Bearer {}", server.admin);
    let headers = [("Authorization", bearer.as_str())];
    let target = "/admin/v1/catalog/import";
    let import = ask(
        server.ops,
        request("POST", target, &headers, "{\"livestream\": ["),
    );
    assert_eq!(import.status, 400);
    let text = String::from_utf8(import.body).unwrap();
    assert!(
        text.contains("expected a JSON value") && !text.contains("EOF"),
        "{text}"
    );
}

#[test]
fn input_errors_carry_a_message_for_viewers() {
    let server = TestServer::start();
    let viewer = server.sign_up("ann@example.com");
    let text = |answer: &Answer| {
        answer.json()["error"]["user_message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let sign_up = |language: &str, body: Value| {
        let headers = [("Accept-Language", language)];
        with_partner(&server, "PUT", SIGN_UP, &headers, &body.to_string())
    };
    for (language, word) in [("en", "e-mail"), ("sv", "e-postadress"), ("de", "E-Mail")] {
        let answer = sign_up(language, json!({"identity": "ann@", "accessKey": PASSWORD}));
        assert!(text(&answer).contains(word), "{}", text(&answer));
    }
    for (body, word) in [
        (json!({"identity": "bo@example.com"}), "enter a password"),
        (
            json!({"identity": "bo@example.com", "accessKey": "short"}),
            "longer password",
        ),
        (
            json!({"identity": "bo@example.com", "accessKey": PASSWORD, "name": "a\u{202e}"}),
            "name",
        ),
        (
            json!({"identity": "bo@example.com", "accessKey": PASSWORD, "birthDate": "x"}),
            "birth",
        ),
    ] {
        let answer = sign_up("en", body);
        assert_eq!(answer.status, 400);
        assert!(text(&answer).contains(word), "{}", text(&answer));
    }
    let target = format!("/api/user/v1/users/{}/pin", viewer.id);
    let pin = json!({"password": PASSWORD, "newPinCode": "123"});
    let answer = server.user(&viewer.token, "PUT", &target, &pin);
    assert!(
        text(&answer).contains("four to six digits"),
        "{}",
        text(&answer)
    );
}

#[test]
fn token_errors_name_the_header() {
    let server = TestServer::with(&[("http.header_prefix", "X-Acme-")]);
    let unknown = "11111111-2222-3333-4444-555555555555";
    let target = "/api/catalog/v1/assets";
    let get = |headers: &[(&str, &str)], target: &str| {
        ask(server.public, request("GET", target, headers, ""))
    };
    let refused = |answer: Answer, code: &str, words: &[&str]| {
        assert_eq!((answer.status, answer.code()), (401, code.to_owned()));
        for word in words {
            assert!(message(&answer).contains(word), "{}", message(&answer));
        }
    };
    let partner = "PARTNER_TOKEN_INVALID";
    refused(
        get(&[], target),
        partner,
        &["X-Acme-AccessToken is missing"],
    );
    refused(
        get(&[("X-Acme-AccessToken", unknown)], target),
        partner,
        &["X-Acme-AccessToken", "unknown or revoked"],
    );
    refused(
        get(&[], &format!("/api/schedule/v1/m3u?accessToken={unknown}")),
        partner,
        &["accessToken", "unknown or revoked"],
    );
    let ours = ("X-Acme-AccessToken", server.partner.as_str());
    let user_path = "/api/user/v1/users/AAAAAAAAAAAAAAAAAAAAAA";
    let user = "USER_TOKEN_INVALID";
    refused(get(&[ours], user_path), user, &["Authorization is missing"]);
    refused(
        get(&[ours, ("Authorization", "Basic x")], user_path),
        user,
        &["Authorization", "Bearer"],
    );
    refused(
        get(&[ours, ("Authorization", "Bearer pgu_x")], user_path),
        user,
        &["Authorization", "unknown, expired or revoked"],
    );
    let twice = get(&[ours, ours], target);
    assert_eq!(
        (twice.status, twice.field()),
        (400, "X-Acme-AccessToken".to_owned())
    );
}

#[test]
fn spaces_after_the_authorization_scheme_are_ignored() {
    let server = TestServer::start();
    let viewer = server.sign_up("ann@example.com");
    let target = format!("/api/user/v1/users/{}", viewer.id);
    for (scheme, status) in [
        ("Bearer ", 200),
        ("bearer   ", 200),
        ("BEARER  ", 200),
        ("Bearer\t", 401),
        ("Bearer", 401),
        ("Bearer x ", 401),
    ] {
        let value = format!("{scheme}{}", viewer.token);
        let answer = with_partner(&server, "GET", &target, &[("Authorization", &value)], "");
        assert_eq!(answer.status, status, "{scheme:?}");
    }
}

#[test]
fn unknown_path_and_wrong_method_errors_name_alternatives() {
    let server = TestServer::start();
    let get = |method: &str, target: &str| {
        let answer = ask(server.public, request(method, target, &[], ""));
        (answer.status, message(&answer))
    };
    let (status, root) = get("GET", "/");
    assert_eq!(
        (status, root.as_str()),
        (404, "no route matches GET /; see /docs")
    );
    let (status, unknown) = get("DELETE", "/api/nothing");
    assert_eq!(
        (status, unknown.as_str()),
        (404, "no route matches DELETE /api/nothing; see /docs")
    );
    let (status, slash) = get("GET", "/api/catalog/v1/assets/");
    assert_eq!(status, 404);
    assert!(
        slash.ends_with("the path without the trailing slash is /api/catalog/v1/assets"),
        "{slash}"
    );
    let (status, method) = get("PATCH", "/api/catalog/v1/assets");
    assert_eq!(
        (status, method.as_str()),
        (405, "PATCH is not allowed here; use GET, HEAD or OPTIONS")
    );
    let (status, long) = get("GET", &format!("/{}", "x".repeat(5_000)));
    assert_eq!(status, 404);
    assert_eq!(long, "no route matches GET /…; see /docs");
    let (_, many) = get("GET", &"/x".repeat(1_000));
    assert!(many.len() < 200, "{many}");
}

#[test]
fn catalogue_lists_have_etags_compression_and_pages() {
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    let get = |query: &str, headers: &[(&str, &str)]| {
        with_partner(
            server,
            "GET",
            &format!("/api/catalog/v1/assets{query}"),
            headers,
            "",
        )
    };
    let ids = |answer: &Answer| -> Vec<String> {
        let json = answer.json();
        let ids = json.as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = get("", &[]);
    let etag = all.header("etag").unwrap().to_owned();
    assert_eq!(get("", &[("If-None-Match", &etag)]).status, 304);
    assert!(
        all.header("cache-control")
            .unwrap()
            .starts_with("private, max-age=")
    );
    let packed = get("", &[("Accept-Encoding", "identity;q=0, gzip")]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_ne!(packed.header("etag"), Some(etag.as_str()));

    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = get(&query, &[]);
        assert!(ids(&page).len() <= 2);
        seen.extend(ids(&page));
        let Some(link) = page.header("link") else {
            break;
        };
        let next = link.strip_prefix("</api/catalog/v1/assets").unwrap();
        query = next.split_once('>').unwrap().0.to_owned();
    }
    assert_eq!(seen, ids(&all));
    assert_eq!(
        ids(&get("?after=film", &[])),
        seen[seen.iter().position(|id| id == "film").unwrap() + 1..]
    );
    assert_eq!(ids(&get("?after=fi", &[]))[0], "film");
    assert!(ids(&get("?after=zzz&limit=500", &[])).is_empty());
    for bad in [
        "limit=0",
        "limit=501",
        "limit=",
        "limit=x",
        "limit=-1",
        "limit=%2B1",
        "limit=1&limit=1",
    ] {
        assert_eq!(get(&format!("?{bad}"), &[]).field(), "limit", "{bad}");
    }
    assert_eq!(fields(&get("?limit=0&after=a,b", &[])), ["limit", "after"]);
    let livestreams = with_partner(
        server,
        "GET",
        "/api/catalog/v1/livestreams?limit=1",
        &[],
        "",
    );
    assert_eq!(ids(&livestreams), ["news"]);
}

#[test]
fn names_with_invisible_or_bidi_characters_are_rejected() {
    let server = TestServer::start();
    let viewer = server.sign_up("ann@example.com");
    let target = format!("/api/user/v1/users/{}", viewer.id);
    for c in [
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{2066}',
        '\u{200b}',
        '\u{feff}',
        '\u{ad}',
        '\u{e0041}',
    ] {
        let name = json!({"name": format!("Ann{c}a")});
        let answer = server.user(&viewer.token, "PUT", &target, &name);
        assert_eq!(
            (answer.status, answer.field()),
            (400, "name".to_owned()),
            "{c:?}"
        );
        for collection in ["partners", "operators"] {
            let body = json!({"name": format!("x{c}y"), "role": "agent"});
            let answer = server.operator("POST", collection, &body);
            assert_eq!(
                (answer.status, answer.field()),
                (400, "name".to_owned()),
                "{collection} {c:?}"
            );
        }
        let tags = json!({"tags": [format!("x{c}")]});
        assert_eq!(
            server
                .operator("PUT", &format!("users/{}", viewer.id), &tags)
                .status,
            400
        );
    }
    for good in ["नि\u{200d}म", "نام\u{200c}ها", "👩\u{200d}👧", "Zoë"] {
        let answer = server.user(&viewer.token, "PUT", &target, &json!({"name": good}));
        assert_eq!((answer.status, &answer.json()["name"]), (200, &json!(good)));
    }
    let bearer = format!("Bearer {}", viewer.token);
    let model = "TV\u{202e}VT";
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Service-Play-DeviceId", model),
    ];
    let answer = with_partner(
        &server,
        "POST",
        "/api/playback/v2/preflight/asset/x",
        &headers,
        "",
    );
    let problems = answer.json()["error"]["details"]["problems"].clone();
    let of_id = problems
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["field"] == "Service-Play-DeviceId");
    assert!(
        of_id.unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("invisible"),
        "{problems}"
    );
}

#[test]
fn a_missing_user_name_stays_absent_in_responses() {
    let server = TestServer::start();
    for (email, name) in [
        ("a@example.com", json!(null)),
        ("b@example.com", json!("")),
        ("c@example.com", json!("  ")),
    ] {
        let form = json!({"identity": email, "accessKey": PASSWORD, "name": name});
        let made = with_partner(&server, "PUT", SIGN_UP, &[], &form.to_string());
        assert_eq!(
            (made.status, made.json().get("name")),
            (200, None),
            "{name}"
        );
        let form = json!({"identity": email, "accessKey": PASSWORD});
        let login = with_partner(&server, "POST", SIGN_UP, &[], &form.to_string());
        assert_eq!(
            (login.status, login.json().get("name")),
            (200, None),
            "{name}"
        );
    }
}

#[test]
fn limits_precede_the_body_unless_they_depend_on_its_account() {
    let server = TestServer::with(&[
        ("limits.login_wrong_per_address", "3"),
        ("limits.reset_mails_per_address", "1"),
    ]);
    let login = |body: &str| with_partner(&server, "POST", SIGN_UP, &[], body);
    let wrong = |email: &str| json!({"identity": email, "accessKey": "wrong password"}).to_string();
    for n in 0..3 {
        assert_eq!(login(&wrong(&format!("u{n}@example.com"))).status, 401);
    }
    // An account that has logged in from the address before is not limited by the guesses at others.
    for (body, status) in [
        ("no json", 400),
        ("{}", 400),
        (wrong("other@example.com").as_str(), 429),
    ] {
        assert_eq!(login(body).status, status, "{body:.20}");
    }
    let reset = "/api/login/v2/password/send-reset-password";
    let ask_for = |body: &str| with_partner(&server, "POST", reset, &[], body).status;
    assert_eq!(ask_for("{\"email\": \"a@example.com\"}"), 200);
    assert_eq!(ask_for("{\"email\": \"no address\"}"), 429);

    let server = TestServer::with(&[("limits.login_wrong_per_account", "1")]);
    let login = |body: &str| with_partner(&server, "POST", SIGN_UP, &[], body).status;
    assert_eq!(login(&wrong("ann@example.com")), 401);
    assert_eq!(login(&wrong("ann@example.com")), 429);
    assert_eq!(login("{\"identity\": \"ann@example.com\"}"), 400);

    let server = TestServer::with(&[("limits.partner_requests_per_second", "2")]);
    let send = || with_partner(&server, "POST", SIGN_UP, &[], "no json");
    assert_eq!((send().status, send().status), (400, 400));
    let over = send();
    assert_eq!((over.status, over.code()), (429, "RATE_LIMITED".to_owned()));
    assert_eq!(over.header("retry-after"), Some("1"));
}
