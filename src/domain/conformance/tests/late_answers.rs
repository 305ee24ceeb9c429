//! Answers that a lab holds back or cuts: a client need not know them before they come.

use super::client::{Recording, change, insert, plain, some_text};
use super::variants::{compare, first, of};

/// The first heartbeat comes twelve seconds after the license was asked for.
fn starts_slowly(c: &mut Recording, took: i64) {
    change(c, of("film", "license_clearkey"), |call| call.took = took);
    change(c, of("film", "heartbeat"), |call| call.at += 12_000);
    change(c, of("film", "end_playback"), |call| call.at += 13_000);
}

/// A start has no heartbeat, and another title is started on the device some seconds later.
fn zaps(c: &mut Recording, seconds: i64) {
    for route in ["preflight", "heartbeat"] {
        let mut next = first(c, of("film", route));
        (next.asset, next.session) = (some_text("next"), some_text("next"));
        insert(c, seconds * 1_000, next);
    }
    c.calls
        .retain(|call| !of("film", "heartbeat")(call) && !of("film", "end_playback")(call));
}

/// A start that has no heartbeat, whose answer may have been lost.
fn loses_the_start(c: &mut Recording, cut: bool) {
    c.calls
        .retain(|call| call.session.as_deref() != Some("film") || call.is_preflight());
    change(c, of("film", "preflight"), |call| call.cut = cut);
}

/// Telemetry is sent while the answer to the session's last heartbeat is held back.
fn sends_meanwhile(c: &mut Recording, took: i64) {
    let refused = first(c, |call| call.has_code("USER_TOKEN_INVALID"));
    change(c, |call| call.id == refused.id, |call| call.took = took);
    change(
        c,
        |call| call.is_login() && call.at > refused.at,
        |call| call.at += 4_000,
    );
    change(
        c,
        |call| call.session.as_deref() == Some("live") && call.at > refused.at,
        |call| call.at += 4_000,
    );
    let mut upload = plain(&refused, "telemetry", 401);
    upload.code.clone_from(&refused.code);
    insert(c, 3_000, upload);
}

/// A license is asked for while the answer that ends the session is held back.
fn asks_meanwhile(c: &mut Recording, took: i64) {
    let refused = first(c, |call| call.status == 410);
    change(c, |call| call.id == refused.id, |call| call.took = took);
    let mut license = refused;
    license.route = "license_clearkey".to_owned();
    insert(c, 3_000, license);
}

#[test]
fn a_client_need_not_know_an_answer_before_it_comes() {
    compare(&[
        (
            "first-heartbeat",
            |c| starts_slowly(c, 4_000),
            |c| starts_slowly(c, 100),
        ),
        ("first-heartbeat", |c| zaps(c, 5), |c| zaps(c, 15)),
        (
            "first-heartbeat",
            |c| loses_the_start(c, true),
            |c| loses_the_start(c, false),
        ),
        (
            "login-after-401",
            |c| sends_meanwhile(c, 4_000),
            |c| sends_meanwhile(c, 100),
        ),
        (
            "stop-on-410",
            |c| asks_meanwhile(c, 4_000),
            |c| asks_meanwhile(c, 100),
        ),
    ]);
}
