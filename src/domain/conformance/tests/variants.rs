//! Correct clients in situations that a rule could take for a breach. A wrong client that looks much like it still fails.

use super::client::{Recording, change, good, insert, plain, repeat, some_text};
use super::{ClientCall, failed};
use crate::conformance::ClientEvent;

type Change = fn(&mut Recording);

fn is(route: &'static str) -> impl Fn(&ClientCall) -> bool {
    move |call| call.is(route)
}

pub(super) fn of(session: &'static str, route: &'static str) -> impl Fn(&ClientCall) -> bool {
    move |call| call.session.as_deref() == Some(session) && call.is(route)
}

pub(super) fn first(c: &Recording, fits: impl Fn(&ClientCall) -> bool) -> ClientCall {
    c.calls.iter().find(|call| fits(call)).unwrap().clone()
}

/// Falls back from DASH to HLS as soon as the answer says that there is none.
fn fallback(c: &mut Recording, header: &str) {
    let start = first(c, of("film", "preflight"));
    let refused = ClientCall {
        status: 404,
        code: some_text("PROTOCOL_NOT_AVAILABLE"),
        session: None,
        ..start.clone()
    };
    insert(c, -900, refused.clone());
    let mut again = refused;
    again.headers.insert(header.to_owned(), "other".to_owned());
    insert(c, -500, again);
}

/// Three televisions of one model, each with a login of its own.
fn household(c: &mut Recording, with_logins: bool) {
    let sessions = ["live", "ended", "unknown", "film"];
    for (nth, session) in sessions.into_iter().enumerate() {
        let device = format!("tv{nth}");
        change(
            c,
            |call| call.session.as_deref() == Some(session),
            |call| {
                call.device = Some(device.clone());
                call.headers.insert("deviceid".to_owned(), device.clone());
                call.login = with_logins.then(|| format!("login{nth}"));
            },
        );
        let asset = if session == "live" {
            "channel"
        } else {
            session
        };
        let events = c.events.iter_mut();
        for event in events.filter(|event| event.asset.as_deref() == Some(asset)) {
            event.device = Some(device.clone());
        }
    }
}

/// Another device of the user logs in, or out, a moment after a 403 of this one.
fn other_device_logs(c: &mut Recording, route: &str, own_login: &str) {
    let refused = first(c, |call| call.has_code("NOT_ENTITLED"));
    let login = some_text("login");
    change(
        c,
        |call| call.at >= refused.at,
        |call| call.login.clone_from(&login),
    );
    let mut other = plain(&refused, route, 200);
    other.login = some_text(own_login);
    insert(c, 1_000, other);
}

/// The viewer leaves the channel at 552, and comes back.
fn comes_back(c: &mut Recording, zaps: bool) {
    let beat = first(c, |call| call.status == 552);
    let start = first(c, of("live", "preflight"));
    let at = |later: i64| beat.at - start.at + later;
    if zaps {
        let other = ClientCall {
            asset: some_text("other"),
            session: some_text("other"),
            ..start.clone()
        };
        insert(c, at(20_000), other);
        let mut entitled = plain(&beat, "entitlement", 200);
        entitled.asset = some_text("other");
        insert(c, 19_000, entitled);
    }
    insert(c, at(40_000), start);
}

/// A heartbeat at once after a seek.
fn seeks(c: &mut Recording, moved: i64) {
    let beats: Vec<ClientCall> = c
        .calls
        .iter()
        .filter(|call| of("live", "heartbeat")(call))
        .cloned()
        .collect();
    let beat = beats[beats.len() - 3].clone();
    let position: i64 = beat.headers["timestamp"].parse().unwrap();
    for call in c
        .calls
        .iter_mut()
        .filter(|call| call.at > beat.at && of("live", "heartbeat")(call))
    {
        let later: i64 = call.headers["timestamp"].parse().unwrap();
        call.headers
            .insert("timestamp".to_owned(), (later - moved).to_string());
    }
    let mut extra = beat;
    extra
        .headers
        .insert("timestamp".to_owned(), (position + 4 - moved).to_string());
    insert(c, 4_000, extra);
}

/// The entitlement has expired, and the viewer is asked again.
fn asked_again(c: &mut Recording, asked: bool) {
    let unlocked = first(c, |call| call.sends_pin);
    if asked {
        let refused = ClientCall {
            status: 403,
            code: some_text("PIN_CODE_REQUIRED"),
            sends_pin: false,
            ..unlocked.clone()
        };
        insert(c, 3_000, refused);
    }
    insert(c, 5_000, unlocked);
}

/// A session whose end is answered by something else than success.
fn end_is_answered(c: &mut Recording, status: u16) {
    change(c, of("film", "end_playback"), |call| call.status = status);
}

/// Another device asks for the title that is playing, and its viewer does not type the PIN.
fn other_device_asks(c: &mut Recording, login: &str) {
    let playing = some_text("login");
    change(
        c,
        |call| call.session.as_deref() == Some("live"),
        |call| call.login.clone_from(&playing),
    );
    let beat = first(c, of("live", "heartbeat"));
    let mut asks = plain(&beat, "entitlement", 403);
    (asks.asset, asks.code) = (some_text("channel"), some_text("PIN_CODE_REQUIRED"));
    asks.login = some_text(login);
    insert(c, 4_000, asks);
}

/// Three viewers fetch the same once; or one does, and what it asks for has changed each time.
fn fetches(c: &mut Recording, clients: [&str; 3], revalidates: bool) {
    c.calls.retain(|call| !call.is("live"));
    let start = first(c, is("login"));
    for (later, client) in (1..).zip(clients) {
        let mut call = plain(&start, "live", 200);
        (call.user, call.client) = (None, client.to_owned());
        call.query = "livestreams=a,b".to_owned();
        call.revalidates = revalidates && later > 1;
        insert(c, later * 20_000, call);
    }
}

/// A batch was refused, so that its events are missing for ever.
fn drops_a_batch(c: &mut Recording, status: u16) {
    let at = c.events[2].received + 500;
    for event in &mut c.events[3..] {
        event.sequence += 10;
    }
    let next = &mut c.events[3];
    next.received = next.received.max(at);
    let mut upload = plain(&c.calls[0], "telemetry", status);
    upload.events = Some(10);
    let later = at - upload.at;
    insert(c, later, upload);
}

/// An event of a title never arrives, because its batch was answered so.
fn loses_an_event(c: &mut Recording, action: &str, status: u16) {
    let is_lost = |event: &ClientEvent| event.action == action && event.asset == some_text("ended");
    let lost = c.events.iter().position(is_lost).unwrap();
    let lost = c.events.remove(lost);
    let mut upload = plain(&c.calls[0], "telemetry", status);
    upload.events = Some(1);
    let later = lost.received - upload.at;
    insert(c, later, upload);
}

fn reports(c: &mut Recording, name: &str, value: &str) {
    c.events[0].extra.push((name.to_owned(), value.to_owned()));
}

/// A failed request is repeated after the seconds, and fails each time but the last.
fn repeats_after(c: &mut Recording, seconds: &[i64]) {
    let failed = first(c, |call| call.has_code("INTERNAL"));
    c.calls
        .retain(|call| !(call.repeats(&failed) && call.at > failed.at));
    let mut later = 0;
    for (nth, pause) in seconds.iter().enumerate() {
        later += pause * 1_000;
        let mut again = failed.clone();
        if nth + 1 == seconds.len() {
            (again.status, again.code) = (200, None);
        }
        insert(c, later, again);
    }
}

/// A browser sends a heartbeat twice again when its connection was cut.
fn sends_again(c: &mut Recording, cut: bool) {
    let beats: Vec<ClientCall> = c
        .calls
        .iter()
        .filter(|call| of("live", "heartbeat")(call))
        .cloned()
        .collect();
    let beat = beats[beats.len() - 3].clone();
    change(c, |call| call.id == beat.id, |call| call.cut = cut);
    insert(
        c,
        10,
        ClientCall {
            cut,
            ..beat.clone()
        },
    );
    insert(c, 20, beat);
}

/// Heartbeats that are late once, or each second time.
fn is_late(c: &mut Recording, once: bool) {
    let of_live = of("live", "heartbeat");
    let beats = c.calls.iter_mut().filter(|call| of_live(call));
    for (nth, call) in beats.enumerate() {
        let late = if once { nth == 4 } else { nth % 2 == 1 };
        call.at += if late { 2_500 } else { 0 };
    }
}

pub(super) fn compare(pairs: &[(&str, Change, Change)]) {
    for (rule, correct, wrong) in pairs {
        let mut client = good();
        correct(&mut client);
        assert!(
            !failed(client).contains(rule),
            "the correct client of {rule}"
        );
        let mut client = good();
        wrong(&mut client);
        assert!(failed(client).contains(rule), "the wrong client of {rule}");
    }
}

#[test]
fn repetitions_as_documented_and_single_delays_are_no_breach() {
    compare(&[
        (
            "back-off-5xx",
            |c| repeats_after(c, &[1, 2, 4, 8]),
            |c| repeats_after(c, &[2, 2, 2, 2, 2]),
        ),
        (
            "heartbeat-interval",
            |c| sends_again(c, true),
            |c| sends_again(c, false),
        ),
        (
            "heartbeat-interval",
            |c| is_late(c, true),
            |c| is_late(c, false),
        ),
    ]);
}

#[test]
fn correct_clients_pass_where_wrong_ones_fail() {
    let pairs: [(&str, Change, Change); 14] = [
        (
            "no-retry-4xx",
            |c| fallback(c, "protocol"),
            |c| fallback(c, "x"),
        ),
        ("no-retry-4xx", |c| fallback(c, "drm"), |c| fallback(c, "x")),
        (
            "stable-device-id",
            |c| household(c, true),
            |c| household(c, false),
        ),
        (
            "no-logout-on-403",
            |c| other_device_logs(c, "login", "other"),
            |c| {
                other_device_logs(c, "logout", "login");
            },
        ),
        (
            "no-logout-on-403",
            |c| other_device_logs(c, "logout", "other"),
            |c| other_device_logs(c, "logout", "login"),
        ),
        (
            "stay-on-552",
            |c| comes_back(c, true),
            |c| comes_back(c, false),
        ),
        ("heartbeat-interval", |c| seeks(c, 600), |c| seeks(c, 0)),
        (
            "pin-once",
            |c| asked_again(c, true),
            |c| asked_again(c, false),
        ),
        (
            "entitlement-in-session",
            |c| other_device_asks(c, "other"),
            |c| other_device_asks(c, "login"),
        ),
        (
            "etag",
            |c| fetches(c, ["a", "b", "c"], false),
            |c| fetches(c, ["a", "a", "a"], false),
        ),
        (
            "telemetry-sequence",
            |c| drops_a_batch(c, 400),
            |c| drops_a_batch(c, 202),
        ),
        (
            "telemetry-pairs",
            |c| loses_an_event(c, "playback_started", 400),
            |c| loses_an_event(c, "playback_started", 202),
        ),
        (
            "telemetry-pairs",
            |c| loses_an_event(c, "playback_stopped", 400),
            |c| loses_an_event(c, "playback_stopped", 202),
        ),
        (
            "telemetry-secrets",
            |c| reports(c, "pin", "true"),
            |c| reports(c, "pin", "2468"),
        ),
    ];
    compare(&pairs);
}

#[test]
fn what_has_changed_since_may_be_fetched_whole() {
    let mut client = good();
    fetches(&mut client, ["a", "a", "a"], true);
    assert!(!failed(client).contains(&"etag"));
}

#[test]
fn a_session_that_could_not_be_ended_was_not_left() {
    for (status, passes) in [
        (410, true),
        (404, true),
        (401, true),
        (400, false),
        (503, false),
    ] {
        let mut client = good();
        end_is_answered(&mut client, status);
        assert_eq!(!failed(client).contains(&"end-session"), passes, "{status}");
    }
    // The login ended elsewhere: the client can end nothing.
    let mut client = good();
    client
        .calls
        .retain(|call| !of("film", "end_playback")(call));
    repeat(&mut client, 10_000, of("film", "heartbeat"));
    let last = client.calls.last_mut().unwrap();
    (last.status, last.code) = (401, some_text("USER_TOKEN_INVALID"));
    assert!(!failed(client).contains(&"end-session"));
}
