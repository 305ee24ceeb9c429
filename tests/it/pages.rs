//! The pages of the public listener for browsers: what is on now, an address without a page, guides for partners.

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::schedule_fixture::stocked;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn open(server: &GateOnly, target: &str, language: &str) -> (Answer, String) {
    let headers = [("Accept", BROWSER), ("Accept-Language", language)];
    let answer = ask(server.public, request("GET", target, &headers, ""));
    let page = String::from_utf8(answer.body.clone()).unwrap();
    (answer, page)
}

#[test]
fn the_front_page_shows_what_is_on_now() {
    let server = stocked();
    let (answer, page) = open(&server, "/", "sv-SE");
    assert_eq!(answer.status, 200);
    // A title of the guide is text. Half of the programme is over.
    assert!(
        page.contains("<span dir=\"auto\">B &lt;b&gt;</span>"),
        "{page}"
    );
    assert!(
        page.contains("value=\"50\"") && page.contains("50 % av programmet"),
        "{page}"
    );
    assert!(
        page.contains("11:30–12:30") && page.contains("12:00 UTC"),
        "{page}"
    );
    assert!(page.contains("<html lang=\"sv\">") && page.contains("Ingen programinformation"));
    assert!(!page.contains("<script") && !page.contains("style="));
}

#[test]
fn a_wrong_address_is_a_page_for_browsers_only() {
    let server = stocked();
    let (answer, page) = open(&server, "/watch/now", "de");
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(
        page.contains("Seite nicht gefunden") && !page.contains("watch"),
        "{page}"
    );
    assert!(answer.header("content-security-policy").is_some());
    for (target, accept) in [
        ("/watch/now", "*/*"),
        ("/watch/now", "application/json, text/html;q=0"),
        // A developer needs the message.
        ("/api/schedule/v1/broadcast/live", BROWSER),
    ] {
        let answer = ask(
            server.public,
            request("GET", target, &[("Accept", accept)], ""),
        );
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "PATH_NOT_FOUND"),
            "{target}"
        );
    }
}

#[test]
fn guides_are_pages_of_the_listener_of_their_readers() {
    let server = stocked();
    let (answer, page) = open(&server, "/docs/clients/", "en");
    assert_eq!(answer.status, 200);
    assert!(
        page.contains("<h2 id=\"recipes\">") && page.contains("href=\"../lab/\""),
        "{page}"
    );
    let policy = answer.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("script")
    );
    // What operators do is not told to the public.
    let (answer, _) = open(&server, "/docs/operating/", "en");
    assert_eq!(answer.status, 404);
    let alerts = ask(server.ops, request("GET", "/docs/alerts/", &[], ""));
    assert_eq!(alerts.status, 200);
}
