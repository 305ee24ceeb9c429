//! The operators' console: its files as a browser gets them, and the admin routes that only the console uses.
//! `tests/browser` tests it in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use playgate_types::Role;
use serde_json::{Value, json};

use crate::support::gate_only::{GateOnly, NOON};
use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::schedule_fixture::{at, guide, post};
use crate::support::server::TestServer;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Returns the files of the console in the repository.
fn files() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/console");
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    });
    entries.collect()
}

fn scripts() -> impl Iterator<Item = (String, String)> {
    files()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".js"))
}

/// Returns the texts between each occurrence of `before` and the next `quote`.
fn quoted<'a>(text: &'a str, before: &'a str, quote: char) -> impl Iterator<Item = &'a str> {
    text.split(before)
        .skip(1)
        .filter_map(move |rest| rest.split(quote).next())
}

fn get(server: &GateOnly, target: &str) -> Answer {
    ask(server.ops, request("GET", target, &[], ""))
}

#[test]
fn console_files_are_public_with_a_strict_csp() {
    let server = GateOnly::start();
    let origin = [("Origin", "https://elsewhere.example")];
    let mut asked: Vec<_> = files().into_iter().collect();
    let (_, page) = asked.iter().find(|(name, _)| name == "index.html").unwrap();
    asked.push((String::new(), page.clone()));
    for (name, text) in asked {
        let target = format!("/console/{name}");
        let answer = ask(server.ops, request("GET", &target, &origin, ""));
        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(answer.body, text.as_bytes(), "{name}");
        let media = match name.rsplit_once('.') {
            None | Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            Some(_) => panic!("{name}: what is it?"),
        };
        for (header, value) in [
            ("content-type", Some(media)),
            ("content-security-policy", Some(POLICY)),
            ("x-content-type-options", Some("nosniff")),
            ("referrer-policy", Some("no-referrer")),
            ("x-frame-options", Some("DENY")),
            ("cache-control", Some("private, max-age=0")),
            ("access-control-allow-origin", None),
            ("set-cookie", None),
        ] {
            assert_eq!(answer.header(header), value, "{name}: {header}");
        }
    }
}

#[test]
fn cached_console_files_are_revalidated_with_304() {
    let server = GateOnly::start();
    let mut tags = Vec::new();
    for target in ["/console/", "/console/console.js", "/console/console.css"] {
        let whole = get(&server, target);
        let tag = whole.header("etag").unwrap().to_owned();
        let held = [("If-None-Match", tag.as_str())];
        let again = ask(server.ops, request("GET", target, &held, ""));
        assert_eq!((again.status, again.body.len()), (304, 0), "{target}");
        assert_eq!(again.header("content-security-policy"), Some(POLICY));
        let packs = [("Accept-Encoding", "gzip")];
        let packed = ask(server.ops, request("GET", target, &packs, ""));
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        let mut wire = Wire::to(server.ops);
        wire.send(request("HEAD", target, &[], ""));
        let head = wire.answer_to("HEAD").unwrap();
        assert_eq!(head.header("etag"), Some(tag.as_str()));
        tags.push(tag);
    }
    tags.dedup();
    assert_eq!(tags.len(), 3);
}

#[test]
fn the_ops_root_redirects_to_the_console() {
    let server = GateOnly::start();
    for target in ["/", "/console"] {
        let answer = get(&server, target);
        // Relative, because a proxy may have added a path prefix.
        assert_eq!(
            (answer.status, answer.header("location")),
            (302, Some("console/")),
            "{target}"
        );
    }
    for target in ["/console/x.js", "/console/console.js/x", "/Console/"] {
        let answer = get(&server, target);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "PATH_NOT_FOUND")
        );
    }
    assert_eq!(get(&server, "/console/%2e%2e").status, 400);
    let posted = ask(server.ops, request("POST", "/console/", &[], "{}"));
    assert_eq!(posted.status, 405);
}

#[test]
fn the_console_is_not_on_the_public_listener() {
    let server = GateOnly::start();
    for target in ["/", "/console", "/console/", "/console/console.js"] {
        let answer = ask(server.public, request("GET", target, &[], ""));
        assert_eq!(answer.status, 404, "{target}");
    }
}

#[test]
fn console_pages_load_existing_files_and_have_no_inline_code() {
    let files = files();
    let page = &files["index.html"];
    for address in quoted(page, "href=\"", '"').chain(quoted(page, "src=\"", '"')) {
        let elsewhere = address.starts_with('#') || address == "../docs";
        assert!(elsewhere || files.contains_key(address), "{address}");
    }
    for word in [
        "<style",
        " style=",
        "javascript:",
        "http:",
        "https:",
        " onclick=",
        " onload=",
        " onerror=",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    for (name, text) in scripts() {
        for import in quoted(&text, " from './", '\'') {
            assert!(files.contains_key(import), "{name}: {import}");
        }
        // The texts of a language are one long list, so they may have more lines.
        let is_script = !name.starts_with("words_");
        assert!(!is_script || text.lines().count() <= 300, "{name}");
    }
}

/// Scripts set text and attributes by name, so that no shown text is parsed as markup but that of a mail, and only one file
/// touches the stored token.
#[test]
fn console_scripts_never_build_markup_from_text() {
    for (name, text) in scripts() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "createContextualFragment",
            "setHTMLUnsafe",
            "eval(",
            "Function(",
            "localStorage",
            "document.cookie",
            "postMessage",
        ] {
            assert!(!text.contains(word), "{name}: {word}");
        }
        assert_eq!(text.contains("sessionStorage"), name == "api.js", "{name}");
        // A mail is markup. It is shown in a frame without scripts.
        for word in ["DOMParser", "srcdoc", "sandbox: 'allow-same-origin'"] {
            assert_eq!(text.contains(word), name == "mail.js", "{name}: {word}");
        }
    }
}

/// Sends an operator's GET request to the admin interface.
fn as_operator(server: &TestServer, token: &str, target: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str())];
    let target = format!("/admin/v1/{target}");
    ask(server.ops, request("GET", &target, &headers, ""))
}

fn operator(server: &TestServer, role: Role) -> String {
    let body = json!({"name": format!("the {}", role.as_str()), "role": role.as_str()});
    let made = server.operator("POST", "operators", &body).json();
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn the_console_shows_the_version_and_the_operator() {
    let server = TestServer::start();
    for role in Role::ALL {
        let token = operator(&server, role);
        let about = as_operator(&server, &token, "about").json();
        assert_eq!(
            about,
            json!({
                "version": playgate_types::VERSION,
                "environment": "staging",
                "publicUrl": "https://tv.example",
                "role": role.as_str(),
                "name": format!("the {}", role.as_str()),
            })
        );
    }
    let unknown = as_operator(&server, "pgo_x", "about");
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (401, "OPERATOR_TOKEN_INVALID")
    );
    let bare = ask(server.ops, request("GET", "/admin/v1/about", &[], ""));
    assert_eq!(bare.status, 401);
}

/// The console is only a client: the server refuses what the role may not do.
#[test]
fn the_console_adds_no_permission_to_a_role() {
    let server = TestServer::start();
    let [content, agent] = [Role::Content, Role::Agent].map(|role| operator(&server, role));
    for (token, refused, allowed) in [
        (
            &agent,
            [
                "catalog",
                "rules",
                "epg/sources",
                "telemetry/report",
                "backups",
                "audit",
                "operators",
            ]
            .as_slice(),
            [
                "users",
                "mail",
                "sessions",
                "partners",
                "clock",
                "schedule/live",
            ]
            .as_slice(),
        ),
        (
            &content,
            &["users", "mail", "sessions", "backups", "audit", "operators"],
            &[
                "catalog",
                "rules",
                "epg/sources",
                "telemetry/report",
                "schedule/live",
            ],
        ),
    ] {
        for target in refused {
            let answer = as_operator(&server, token, target);
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (403, "ROLE_NOT_ALLOWED"),
                "{target}"
            );
        }
        for target in allowed {
            assert_eq!(as_operator(&server, token, target).status, 200, "{target}");
        }
    }
}

const CATALOG: &str = r#"
[[livestream]]
id = "news"
live_rights = true

[[livestream]]
id = "sport"
live_rights = false
"#;

const ROWS: [(&str, &str, &str, i64, i64); 3] = [
    ("news", "news-1", "Morning", -60, 60),
    ("news", "news-2", "Noon", 60, 120),
    ("sport", "sport-1", "<img src=x onerror=alert(1)>", -60, 60),
];

fn schedule(server: &GateOnly, target: &str) -> Answer {
    let (_, value) = server.admin();
    let target = format!("/admin/v1/schedule/{target}");
    ask(
        server.ops,
        request("GET", &target, &[("Authorization", &value)], ""),
    )
}

#[test]
fn operators_see_the_partners_schedule_uncached() {
    let server = GateOnly::start();
    assert_eq!(schedule(&server, "live").json(), json!({}));
    assert_eq!(schedule(&server, "day/2026-01-01").json(), json!({}));
    let catalog = post(&server, "/admin/v1/catalog/import", CATALOG.as_bytes());
    assert_eq!(catalog.status, 200, "{}", catalog.json());
    post(&server, "/admin/v1/epg/import", guide(&ROWS).as_bytes());
    assert_eq!(at(0), NOON.0);

    let live = schedule(&server, "live");
    assert_eq!(live.header("cache-control"), Some("no-store"));
    let live = live.json();
    assert_eq!(live["news"]["current"]["id"], "news-1");
    assert_eq!(live["news"]["next"]["title"], "Noon");
    // JSON needs no HTML escaping: the title is sent as it is, and the console shows it as text.
    assert_eq!(live["sport"]["current"]["title"], ROWS[2].2);
    let back = schedule(&server, "live?livestreams=news&offset=-7200").json();
    assert_eq!(back, json!({}));

    let ids = |day: &Value, livestream: &str| -> Vec<String> {
        let list = day[livestream].as_array().unwrap();
        let id = |one: &Value| one["id"].as_str().unwrap().to_owned();
        list.iter().map(id).collect()
    };
    let day = schedule(&server, "day/2026-01-01").json();
    assert_eq!(ids(&day, "news"), ["news-1", "news-2"]);
    assert_eq!(ids(&day, "sport"), ["sport-1"]);
    let one = schedule(&server, "day/2026-01-01?livestreams=sport").json();
    assert_eq!(one.as_object().unwrap().len(), 1);
    // A change of rights is visible immediately.
    assert_eq!(one["sport"][0]["liveAvailable"], false);
    let (name, value) = server.admin();
    let target = "/admin/v1/broadcasts/sport-1/rights";
    let set = ask(
        server.ops,
        request("PUT", target, &[(name, &value)], r#"{"live":true}"#),
    );
    assert_eq!(set.status, 200);
    let one = schedule(&server, "day/2026-01-01?livestreams=sport").json();
    assert_eq!(one["sport"][0]["liveAvailable"], true);

    for (target, status, code) in [
        ("live?livestreams=nobody", 404, "LIVESTREAM_NOT_FOUND"),
        ("live?livestreams=", 400, "INVALID_REQUEST"),
        ("live?offset=1", 400, "INVALID_REQUEST"),
        ("day/2026-13-01", 400, "INVALID_REQUEST"),
    ] {
        let answer = schedule(&server, target);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{target}"
        );
    }
}

/// Returns the texts that a script marks for translation: the template of each t`…`, with {0} for the first value.
fn marked(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("t`") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let (mut key, mut depth, mut values) = (String::new(), 0, 0);
        let mut rest = text[at + 2..].chars().peekable();
        while let Some(c) = rest.next() {
            match (c, depth) {
                ('`', 0) => break,
                ('$', 0) if rest.peek() == Some(&'{') => {
                    rest.next();
                    key.push_str(&format!("{{{values}}}"));
                    (depth, values) = (1, values + 1);
                }
                ('{', 1..) => depth += 1,
                ('}', 1..) => depth -= 1,
                (_, 0) => key.push(c),
                _ => {}
            }
        }
        found.push(key);
    }
    found
}

#[test]
fn console_texts_are_translated_into_each_language() {
    let files = files();
    let texts: Vec<String> = scripts().flat_map(|(_, text)| marked(&text)).collect();
    assert!(texts.len() > 300, "{}", texts.len());
    assert!(texts.contains(&"Revoked “{0}”.".to_owned()), "a control");
    for name in ["words_sv.js", "words_de.js"] {
        let json = files[name]
            .trim_start_matches(|c| c != '{')
            .trim_end()
            .trim_end_matches(';');
        let words: BTreeMap<String, String> = serde_json::from_str(json).unwrap();
        let missing: Vec<_> = texts.iter().filter(|t| !words.contains_key(*t)).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}");
        let stale: Vec<_> = words.keys().filter(|key| !texts.contains(key)).collect();
        assert!(stale.is_empty(), "{name} has no use for {stale:?}");
        for (key, word) in &words {
            let values = |text: &str| {
                (0..9)
                    .filter(|i| text.contains(&format!("{{{i}}}")))
                    .count()
            };
            assert_eq!(values(key), values(word), "{name}: {key}");
        }
    }
}
