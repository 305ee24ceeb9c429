//! The lab's player page and the front page as HTTP clients get them. `tests/browser` tests the player in a browser.

use std::fs;
use std::path::Path;

use playgate_config::Environment;
use serde_json::json;

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, ask, request};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      media-src blob:; worker-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn start(environment: Environment) -> GateOnly {
    GateOnly::with(|settings, _| settings.environment = environment)
}

fn get(server: &GateOnly, target: &str, headers: &[(&str, &str)]) -> Answer {
    ask(server.public, request("GET", target, headers, ""))
}

/// Returns the files of the lab's page, and of the demo's, in the repository.
fn files() -> Vec<(String, String)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let entries = ["lab", "demo"].map(|folder| fs::read_dir(data.join(folder)).unwrap());
    let files = entries.into_iter().flatten().filter_map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // The demo has a catalogue, a clip and calls, too.
        let is_served = !entry.path().starts_with(data.join("demo")) || name.starts_with("watch.");
        is_served.then(|| (name, fs::read_to_string(entry.path()).unwrap()))
    });
    files.collect()
}

#[test]
fn player_files_are_served_with_a_strict_csp_and_to_no_other_origin() {
    let server = start(Environment::Staging);
    let files = files();
    assert!(files.len() > 8);
    let (_, page) = files.iter().find(|(name, _)| name == "index.html").unwrap();
    let page = [(String::new(), page.clone())];
    for (name, text) in files.iter().chain(&page) {
        let origin = [("Origin", "https://elsewhere.example")];
        let answer = get(&server, &format!("/lab/{name}"), &origin);
        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(answer.body, text.as_bytes(), "{name}");
        assert_eq!(answer.header("content-security-policy"), Some(POLICY));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("access-control-allow-origin"), None, "{name}");
    }
    assert_eq!(get(&server, "/lab/icon.svg", &[]).status, 200);
    let entry = get(&server, "/lab", &[]);
    assert_eq!(
        (entry.status, entry.header("location")),
        (302, Some("lab/"))
    );
    let missing = get(&server, "/lab/x.js", &[]);
    assert_eq!(
        (missing.status, missing.code().as_str()),
        (404, "PATH_NOT_FOUND")
    );
}

#[test]
fn player_files_name_no_other_host_and_build_no_markup_from_text() {
    // A picture names its format by an address.
    for (name, text) in files()
        .into_iter()
        .filter(|(name, _)| !name.ends_with(".svg"))
    {
        for word in [
            "http:",
            "https:",
            "import(",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "srcdoc",
            "document.cookie",
            "<style",
            " style=",
            "javascript:",
            " onclick=",
        ] {
            assert!(!text.contains(word), "{name}: {word}");
        }
        assert!(text.lines().count() <= 330, "{name}");
    }
}

#[test]
fn settings_outside_the_demo_have_no_token() {
    let server = start(Environment::Staging);
    let answer = get(&server, "/lab/settings.json", &[]);
    let settings = json!({
        "environment": "staging",
        "headerPrefix": "Service-",
        "publicUrl": server.http.settings.public_url,
    });
    assert_eq!(answer.json(), settings);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn production_refuses_the_player_with_a_reason() {
    let server = start(Environment::Production);
    for target in [
        "/lab",
        "/lab/",
        "/lab/settings.json",
        "/lab/lab.js",
        "/lab/x",
    ] {
        let answer = get(&server, target, &[("Accept", BROWSER)]);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "PATH_NOT_FOUND"),
            "{target}"
        );
        let message = answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            message.contains("`environment` is `production`"),
            "{target}: {message}"
        );
    }
}

#[test]
fn front_page_answers_browsers_and_nobody_else() {
    for (environment, player) in [
        (Environment::Staging, true),
        (Environment::Production, false),
    ] {
        let server = start(environment);
        let answer = get(&server, "/", &[("Accept", BROWSER)]);
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert!(
            answer
                .header("content-security-policy")
                .unwrap()
                .starts_with("default-src 'none'; style-src")
        );
        let page = String::from_utf8(answer.body.clone()).unwrap();
        assert!(
            page.contains("href=\"docs\"") && page.contains("ops.listen"),
            "{page}"
        );
        assert_eq!(page.contains("href=\"lab/\""), player, "{page}");
        for accept in [
            None,
            Some("*/*"),
            Some("application/json"),
            Some("text/html;q=0, */*"),
            Some("text/htmlx"),
        ] {
            let headers: Vec<_> = accept
                .map(|accept| ("Accept", accept))
                .into_iter()
                .collect();
            let answer = get(&server, "/", &headers);
            let message = &answer.json()["error"]["message"];
            assert_eq!(answer.status, 404, "{accept:?}");
            assert_eq!(message, "no route matches GET /; see /docs", "{accept:?}");
        }
    }
}
