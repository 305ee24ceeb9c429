//! The page that a reset mail links to.

use playgate_store::{Options, Store};
use serde_json::{Value, json};

use crate::support::raw_http::{Answer, Wire, ask, request};
use crate::support::server::{PASSWORD, TestServer};

const SEND: &str = "/api/login/v2/password/send-reset-password";
const NEW: &str = "goats+gruff+and+gruffer";

fn get(server: &TestServer, target: &str, headers: &[(&str, &str)]) -> Answer {
    ask(server.public, request("GET", target, headers, ""))
}

fn post(server: &TestServer, form: &str) -> Answer {
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    ask(server.public, request("POST", "/reset", &headers, form))
}

fn html(answer: &Answer) -> String {
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    String::from_utf8(answer.body.clone()).unwrap()
}

/// Returns the token of a new reset mail.
fn token(server: &TestServer) -> String {
    server.partner("POST", SEND, &json!({"email": "ann@example.com"}));
    server.mailed_token()
}

fn login(server: &TestServer, password: &str) -> u16 {
    let body = json!({"identity": "ann@example.com", "accessKey": password});
    server
        .partner("POST", "/api/login/v2/auth/email", &body)
        .status
}

#[test]
fn the_reset_page_sets_a_new_password() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let token = token(&server);
    // Opening the link does not consume the token, because mail scanners open links.
    for method in ["GET", "HEAD", "GET"] {
        let mut wire = Wire::to(server.public);
        wire.send(request(method, &format!("/reset?token={token}"), &[], ""));
        assert_eq!(wire.answer_to(method).unwrap().status, 200);
    }
    let page = html(&get(&server, &format!("/reset?token={token}"), &[]));
    assert!(page.contains(&format!("value=\"{token}\"")) && page.contains("Choose a new password"));
    // Scanners, and preflights of browsers' extensions.
    for (method, target) in [
        ("OPTIONS", format!("/reset?token={token}")),
        ("HEAD", format!("/reset?token={token}&utm_source=mail")),
    ] {
        let mut wire = Wire::to(server.public);
        wire.send(request(method, &target, &[], ""));
        assert!(wire.answer_to(method).unwrap().status < 500);
    }
    // A password manager stores the new password under the account.
    let username = "autocomplete=\"username\" value=\"ann@example.com\"";
    assert!(
        page.contains(username) && page.contains("minlength=\"8\""),
        "{page}"
    );
    assert_eq!(page.matches("autocomplete=\"new-password\"").count(), 2);
    let done = post(
        &server,
        &format!("token={token}&password={NEW}&again={NEW}"),
    );
    assert_eq!(done.status, 200);
    assert!(html(&done).contains("Your password has been changed"));
    assert!(!html(&done).contains(&token));
    assert_eq!(
        (
            login(&server, PASSWORD),
            login(&server, "goats gruff and gruffer")
        ),
        (401, 200)
    );
    // A form that was sent twice tells that the password is changed.
    let again = post(
        &server,
        &format!("token={token}&password={NEW}&again={NEW}"),
    );
    assert_eq!((again.status, html(&again)), (200, html(&done)));
    let other = post(
        &server,
        &format!("token={token}&password={PASSWORD}&again={PASSWORD}"),
    );
    assert_eq!(other.status, 400);
    assert!(html(&other).contains("no longer valid") && !html(&other).contains("<form"));
    // It says where to get another link, and how long that one lives.
    assert!(
        html(&other).contains("Ask for a new one where you log in")
            && html(&other).contains("for 30 minutes")
    );
    // A used link says so when it is opened, before the viewer thinks of another password.
    let opened = get(&server, &format!("/reset?token={token}"), &[]);
    assert_eq!((opened.status, html(&opened)), (400, html(&other)));
}

#[test]
fn operators_may_resend_the_reset_link_without_limit() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let target = format!("users/{}/reset-mail", ann.id);
    let mail = || server.operator("POST", &target, &Value::Null);
    let mut before = token(&server);
    for _ in 0..5 {
        assert_eq!(mail().status, 200);
        let newer = server.mailed_token();
        let form = |token: &str| format!("token={token}&password=short&again=short");
        let page = html(&post(&server, &form(&before)));
        assert!(page.contains("no longer valid"), "the older one is void");
        before = newer;
    }
    let done = post(
        &server,
        &format!("token={before}&password={NEW}&again={NEW}"),
    );
    assert_eq!(done.status, 200);
    let off = json!({"disabled": true});
    let user = format!("users/{}", ann.id);
    assert_eq!(server.operator("PUT", &user, &off).status, 200);
    let refused = mail();
    assert_eq!((refused.status, refused.field()), (400, "user".to_owned()));
    let nobody = server.operator("POST", "users/bob@example.com/reset-mail", &Value::Null);
    assert_eq!(nobody.code(), "USER_NOT_FOUND");
}

#[test]
fn correctable_mistakes_show_the_form_again() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let token = token(&server);
    let long = "x".repeat(257);
    for (password, again, words) in [
        (NEW, "another", "The two passwords differ."),
        ("short", "short", "Please choose a longer password."),
        ("password", "password", "too easy to guess"),
        (&long, &long, "Please choose a shorter password."),
        ("", "", "Please choose a longer password."),
    ] {
        let answer = post(
            &server,
            &format!("token={token}&password={password}&again={again}"),
        );
        let page = html(&answer);
        assert_eq!(answer.status, 400, "{page}");
        assert!(
            page.contains(words) && page.contains(&format!("value=\"{token}\"")),
            "{page}"
        );
        // The typed passwords are not echoed.
        assert!(password.is_empty() || password == "password" || !page.contains(password));
    }
    let done = post(
        &server,
        &format!("token={token}&password={NEW}&again={NEW}"),
    );
    assert_eq!(done.status, 200);
}

#[test]
fn a_link_with_an_invalid_token_shows_no_form() {
    let server = TestServer::start();
    let ann = server.sign_up("ann@example.com");
    let script = "pgr_%22%3E%3Cscript%3Ealert(1)%3C/script%3EAAAAAAAAAAAAAA";
    for target in [
        "/reset",
        "/reset?token=",
        "/reset?token=pgr_x",
        "/reset?token=a&token=b",
        "/reset?token=%ff",
        &format!("/reset?token={}", ann.token),
        &format!("/reset?token={}", "x".repeat(4_000)),
    ] {
        let answer = get(&server, target, &[]);
        assert_eq!(answer.status, 400, "{target}");
        assert!(!html(&answer).contains("<form"), "{target}");
    }
    let odd = html(&get(&server, &format!("/reset?token={script}"), &[]));
    assert!(!odd.contains("<script"), "{odd}");
    for form in ["", "token=pgr_x", "{}", "token=%ff&password=a", "\u{1f600}"] {
        assert_eq!(post(&server, form).status, 400, "{form}");
    }
    let unknown = format!("pgr_{}", "A".repeat(43));
    let opened = get(&server, &format!("/reset?token={unknown}"), &[]);
    assert_eq!(opened.status, 400);
    assert!(!html(&opened).contains("<form"));
    let answer = post(
        &server,
        &format!("token={unknown}&password={NEW}&again={NEW}"),
    );
    assert_eq!(answer.status, 400);
    let large = post(&server, &"x".repeat(17_000));
    assert_eq!(large.status, 413);
    html(&large);
}

#[test]
fn the_reset_page_does_not_leak_its_token() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let target = format!("/reset?token={}", token(&server));
    let page = get(&server, &target, &[("Origin", "https://elsewhere.example")]);
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("x-robots-tag", "noindex"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    // Scripts of other origins cannot read the page, unlike the API.
    assert_eq!(page.header("access-control-allow-origin"), None);
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("script"));
    // The policy allows exactly the style that the page contains.
    let text = html(&page);
    let (_, rest) = text.split_once("<style>").unwrap();
    let (style, _) = rest.split_once("</style>").unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, style.as_bytes());
    let hash = data_encoding::BASE64.encode(hash.as_ref());
    assert!(
        policy.contains(&format!("style-src 'sha256-{hash}'")),
        "{policy}"
    );
    assert!(text.contains("action=\"reset\""));
}

#[test]
fn the_reset_page_uses_the_viewers_language() {
    let server = TestServer::start();
    let of = |accept: &str| {
        let page = get(&server, "/reset", &[("Accept-Language", accept)]);
        let text = html(&page);
        let (_, rest) = text.split_once("<html lang=\"").unwrap();
        rest[..2].to_owned() + &text
    };
    assert!(
        of("sv-FI, de;q=0.5").starts_with("sv") && of("sv").contains("Länken gäller inte längre")
    );
    assert!(of("de").contains("Neues Passwort wählen") && of("de").contains("nicht mehr gültig"));
    assert!(of("fr").starts_with("en"));
}

#[test]
fn the_reset_page_has_the_limits_of_the_route() {
    let server = TestServer::with(&[("limits.resets_per_address", "2")]);
    server.sign_up("ann@example.com");
    let token = token(&server);
    let form = format!("token={token}&password=short&again=short");
    let statuses: Vec<u16> = (0..4).map(|_| post(&server, &form).status).collect();
    assert_eq!(statuses, [400, 400, 429, 429]);
    let body = json!({"token": token, "password": "goats gruff and gruffer"});
    let other = server.partner("POST", "/api/login/v2/password/reset", &body);
    assert_eq!(other.status, 429);
    let refused = post(&server, &form);
    assert!(
        refused.header("retry-after").is_some() && html(&refused).contains("Too many attempts")
    );
}

/// Returns whether any file below the directory, except keys, contains the text.
fn any_file_contains(directory: &std::path::Path, text: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            !path.ends_with("keys") && any_file_contains(&path, text)
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            bytes
                .windows(text.len())
                .any(|found| found == text.as_bytes())
        }
    })
}

#[test]
fn reset_tokens_are_not_stored_in_clear() {
    let mut data_dir = std::path::PathBuf::new();
    let server = TestServer::with_store(
        |directory| {
            data_dir = directory.to_owned();
            Store::open(directory, playgate_records::schema(), Options::default()).unwrap()
        },
        &[],
    );
    server.sign_up("ann@example.com");
    let token = token(&server);
    assert!(!any_file_contains(&data_dir, &token));
    // Control: the search finds text that is stored.
    assert!(any_file_contains(&data_dir, "ann@example.com"));
}

#[test]
fn a_token_is_found_in_what_people_paste() {
    let server = TestServer::start();
    server.sign_up("ann@example.com");
    let new = "goats gruff and gruffer";
    let reset = |given: &str| {
        let body = json!({"token": given, "password": new});
        server.partner("POST", "/api/login/v2/password/reset", &body)
    };
    let wrapped = |token: &str| {
        let (head, tail) = token.split_at(20);
        [
            format!(" {token}\n"),
            format!("“{token}”"),
            format!("<{token}>."),
            format!("{head}\r\n{tail}"),
            format!("{head}=\n{tail}"),
            format!("https://tv.example/reset?token={token}&locale=sv"),
        ]
    };
    for n in 0..6 {
        // Three mails an hour.
        server.clock.advance(3_600);
        let given = &wrapped(&token(&server))[n];
        let answer = reset(given);
        assert_eq!(answer.status, 200, "{given:?}");
    }
    server.clock.advance(3_600);
    let token = token(&server);
    for other in [&token[..46], &format!("{token}x"), &token.to_uppercase()] {
        assert_eq!(reset(other).code(), "RESET_TOKEN_INVALID", "{other}");
    }
    let page = get(&server, &format!("/reset?token=%20{token}%0D%0A"), &[]);
    assert!(html(&page).contains(&format!("value=\"{token}\"")));
}
