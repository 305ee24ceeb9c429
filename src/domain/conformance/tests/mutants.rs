//! One mutant for each rule, in the order of the table.

use super::client::{Recording, change, insert, plain, repeat};
use crate::conformance::ClientCall;

pub type Mutant = (&'static str, fn(&mut Recording));

pub const ALL: &[Mutant] = &[
    ("token-reused", token_reused),
    ("login-after-401", login_after_401),
    ("one-login-per-401", one_login_per_401),
    ("no-logout-on-403", no_logout_on_403),
    ("pin-once", pin_once),
    ("headers-unchanged", headers_unchanged),
    ("stable-device-id", stable_device_id),
    ("heartbeat-interval", heartbeat_interval),
    ("first-heartbeat", first_heartbeat),
    ("heartbeat-complete", heartbeat_complete),
    ("position-unit", position_unit),
    ("stop-on-552", stop_on_552),
    ("stay-on-552", stay_on_552),
    ("stop-on-410", stop_on_410),
    ("preflight-on-404", preflight_on_404),
    ("renew-entitlement", renew_entitlement),
    ("pin-on-heartbeat", pin_on_heartbeat),
    ("end-session", end_session),
    ("show-409", show_409),
    ("retry-after", retry_after),
    ("no-retry-4xx", no_retry_4xx),
    ("back-off-5xx", back_off_5xx),
    ("one-license", one_license),
    ("entitlement-at-border", entitlement_at_border),
    ("entitlement-in-session", entitlement_in_session),
    ("offset-in-bounds", offset_in_bounds),
    ("preflight-after-entitlement", preflight_after_entitlement),
    ("etag", etag),
    ("deprecated-routes", deprecated_routes),
    ("ids-batched", ids_batched),
    ("telemetry-sequence", telemetry_sequence),
    ("telemetry-clock", telemetry_clock),
    ("telemetry-pairs", telemetry_pairs),
    ("telemetry-batches", telemetry_batches),
    ("telemetry-secrets", telemetry_secrets),
    ("telemetry-drop", telemetry_drop),
];

fn is_in<'a>(session: &'a str, route: &'a str) -> impl Fn(&ClientCall) -> bool + 'a {
    move |call| {
        call.session
            .as_deref()
            .is_some_and(|id| id.ends_with(session))
            && call.is(route)
    }
}

fn has_code(code: &str) -> impl Fn(&ClientCall) -> bool + '_ {
    move |call| call.has_code(code)
}

fn first(c: &Recording, fits: impl Fn(&ClientCall) -> bool) -> ClientCall {
    c.calls.iter().find(|call| fits(call)).unwrap().clone()
}

fn token_reused(c: &mut Recording) {
    let start = first(c, is_in("film", "preflight"));
    insert(c, -30_000, plain(&start, "login", 200));
}

fn login_after_401(c: &mut Recording) {
    // It logs in, but sends a heartbeat with the old token before.
    let refused = first(c, has_code("USER_TOKEN_INVALID"));
    change(
        c,
        |call| call.is_login() && call.at > refused.at,
        |call| call.at += 20_000,
    );
    change(
        c,
        |call| {
            call.is("heartbeat")
                && call.status == 200
                && call.at > refused.at
                && call.at < refused.at + 1_000
        },
        |call| call.at += 20_050,
    );
    change(
        c,
        |call| call.is("end_playback") && call.at > refused.at && call.at < refused.at + 1_000,
        |call| {
            call.at += 20_100;
        },
    );
    repeat(c, 10_000, has_code("USER_TOKEN_INVALID"));
}

fn one_login_per_401(c: &mut Recording) {
    let refused = first(c, has_code("USER_TOKEN_INVALID"));
    repeat(c, 20, |call| call.is_login() && call.at > refused.at);
}

fn no_logout_on_403(c: &mut Recording) {
    let refused = first(c, has_code("NOT_ENTITLED"));
    insert(c, 1_000, plain(&refused, "logout", 200));
}

fn pin_once(c: &mut Recording) {
    repeat(c, 5_000, |call| call.sends_pin);
}

fn headers_unchanged(c: &mut Recording) {
    change(c, is_in("film", "heartbeat"), |call| {
        call.headers.insert("drm".to_owned(), "other".to_owned());
    });
}

fn stable_device_id(c: &mut Recording) {
    // Telemetry has the same ids, so that no other rule loses the device.
    for (nth, session) in ["live", "ended", "unknown", "film"].iter().enumerate() {
        change(
            c,
            |call| call.session.as_deref() == Some(*session),
            |call| {
                call.device = Some(format!("tv{nth}"));
                call.headers
                    .insert("deviceid".to_owned(), format!("tv{nth}"));
            },
        );
        let asset = if *session == "live" {
            "channel"
        } else {
            session
        };
        for event in c
            .events
            .iter_mut()
            .filter(|event| event.asset.as_deref() == Some(asset))
        {
            event.device = Some(format!("tv{nth}"));
        }
    }
    for nth in 0..4 {
        let device = format!("tv{nth}");
        let of_device = c
            .events
            .iter_mut()
            .filter(|event| event.device.as_deref() == Some(&device));
        for (number, event) in of_device.enumerate() {
            event.sequence = number as u64 + 1;
        }
    }
    change(
        c,
        |call| call.status == 409,
        |call| call.device = Some("tv9".to_owned()),
    );
}

pub fn heartbeat_interval(c: &mut Recording) {
    // The fourth and later beats before the log-in come every 5 seconds.
    let refused = first(c, has_code("NO_LIVE_RIGHTS"));
    let mut nth = 0;
    for call in c
        .calls
        .iter_mut()
        .filter(|call| call.at > refused.at && call.is("heartbeat") && call.status == 200)
    {
        if nth < 4 {
            nth += 1;
            call.at -= nth * 5_000;
        }
    }
}

fn first_heartbeat(c: &mut Recording) {
    change(c, is_in("film", "heartbeat"), |call| call.at += 15_000);
    change(c, is_in("film", "end_playback"), |call| call.at += 16_000);
}

fn heartbeat_complete(c: &mut Recording) {
    change(c, is_in("film", "heartbeat"), |call| call.status = 400);
}

fn position_unit(c: &mut Recording) {
    let mut position = 0;
    for call in c
        .calls
        .iter_mut()
        .filter(|call| is_in("live", "heartbeat")(call))
        .take(2)
    {
        position += 10;
        call.headers
            .insert("timestamp".to_owned(), position.to_string());
    }
}

fn stop_on_552(c: &mut Recording) {
    for event in c
        .events
        .iter_mut()
        .filter(|event| event.action == "playback_paused")
    {
        event.action = "playback_buffering".to_owned();
    }
}

fn stay_on_552(c: &mut Recording) {
    // It ends the session properly and starts again a minute earlier than it may.
    let blackout = first(c, has_code("NO_LIVE_RIGHTS"));
    c.calls
        .retain(|call| call.session != blackout.session || call.at <= blackout.at);
    c.calls
        .retain(|call| !(call.is_login() && call.at > blackout.at));
    let mut end = blackout.clone();
    (end.route, end.status, end.code) = ("end_playback".to_owned(), 204, None);
    insert(c, 1_000, end);
    let mut entitlement = plain(&blackout, "entitlement", 200);
    entitlement.asset.clone_from(&blackout.asset);
    insert(c, 20_000, entitlement);
    for (later, route, status) in [
        (20_100, "preflight", 200),
        (20_200, "heartbeat", 200),
        (21_200, "end_playback", 204),
    ] {
        let mut again = blackout.clone();
        (again.route, again.status, again.code) = (route.to_owned(), status, None);
        again.session = Some("again".to_owned());
        insert(c, later, again);
    }
    // Its other session meets the 401 in its place.
    let mut refused = first(c, is_in("film", "heartbeat"));
    (refused.status, refused.code) = (401, Some("USER_TOKEN_INVALID".to_owned()));
    insert(c, -60, refused.clone());
    insert(c, -30, plain(&refused, "login", 200));
    // And its heartbeats were long enough before.
    let early = first(c, is_in("live", "heartbeat"));
    for nth in 1..=3 {
        let mut beat = early.clone();
        beat.headers.insert(
            "timestamp".to_owned(),
            (early.at / 1_000 - nth * 10).to_string(),
        );
        insert(c, -nth * 10_000, beat);
    }
    let live = |call: &ClientCall| {
        let start = is_in("live", "preflight")(call) || is_in("live", "license_clearkey")(call);
        start
            || (call.is("entitlement")
                && call.session.is_none()
                && call.asset.as_deref() == Some("channel"))
    };
    change(
        c,
        |call| live(call) && call.at < early.at,
        |call| call.at -= 31_000,
    );
}

fn stop_on_410(c: &mut Recording) {
    repeat(c, 10_000, has_code("SESSION_ENDED"));
}

fn preflight_on_404(c: &mut Recording) {
    repeat(c, 10_000, has_code("SESSION_NOT_FOUND"));
}

/// Removes the entitlement that follows a refused heartbeat.
fn without_entitlement(c: &mut Recording, code: &str) {
    let refused = first(c, |call| call.has_code(code) && call.is("heartbeat"));
    let follows = |call: &ClientCall| {
        call.is("entitlement") && call.at > refused.at && call.at <= refused.at + 1_000
    };
    c.calls.retain(|call| !follows(call));
}

fn renew_entitlement(c: &mut Recording) {
    without_entitlement(c, "ENTITLEMENT_EXPIRED");
}

fn pin_on_heartbeat(c: &mut Recording) {
    let refused = first(c, |call| {
        call.has_code("PIN_CODE_REQUIRED") && call.is("heartbeat")
    });
    without_entitlement(c, "PIN_CODE_REQUIRED");
    // The next entitlement is far enough away.
    change(c, |call| call.at > refused.at, |call| call.at += 60_000);
    for event in c
        .events
        .iter_mut()
        .filter(|event| event.timestamp > refused.at)
    {
        event.timestamp += 60_000;
        event.received += 60_000;
    }
}

pub fn end_session(c: &mut Recording) {
    c.calls.retain(|call| !is_in("film", "end_playback")(call));
}

fn show_409(c: &mut Recording) {
    repeat(c, 2_000, |call| call.status == 409);
}

fn retry_after(c: &mut Recording) {
    repeat(c, 5_000, |call| call.retry_after.is_some());
    let call = c.calls.last_mut().unwrap();
    (call.status, call.code, call.retry_after) = (200, None, None);
}

fn no_retry_4xx(c: &mut Recording) {
    repeat(c, 1_000, has_code("NOT_ENTITLED"));
}

fn back_off_5xx(c: &mut Recording) {
    repeat(c, 100, |call| call.is("offers") && call.status == 200);
    let failed = first(c, has_code("INTERNAL"));
    c.calls.last_mut().unwrap().at = failed.at + 100;
}

fn one_license(c: &mut Recording) {
    repeat(c, 50, is_in("film", "license_clearkey"));
}

fn entitlement_at_border(c: &mut Recording) {
    // The second program ends during playback, and the client requests no further entitlement.
    let last = c
        .calls
        .iter()
        .rev()
        .find(|call| is_in("live", "heartbeat")(call))
        .unwrap()
        .clone();
    let renewed: Vec<_> = c
        .calls
        .iter()
        .filter(|call| is_in("live", "entitlement")(call))
        .map(|call| call.at)
        .collect();
    let latest = *renewed.iter().max().unwrap();
    change(
        c,
        |call| call.is("entitlement") && call.at == latest,
        |call| {
            call.program.as_mut().unwrap().stop = last.at / 1_000 - 30;
        },
    );
}

fn entitlement_in_session(c: &mut Recording) {
    let refused = first(c, has_code("ENTITLEMENT_EXPIRED"));
    change(
        c,
        |call| is_in("live", "entitlement")(call) && call.at > refused.at,
        |call| call.session = None,
    );
}

fn offset_in_bounds(c: &mut Recording) {
    change(
        c,
        |call| call.query.contains("offset"),
        |call| call.query = call.query.replace("-60", "-90000"),
    );
}

fn preflight_after_entitlement(c: &mut Recording) {
    c.calls
        .retain(|call| !(call.is("entitlement") && call.asset.as_deref() == Some("film")));
}

pub fn etag(c: &mut Recording) {
    change(c, |call| call.is("live"), |call| call.status = 200);
}

fn deprecated_routes(c: &mut Recording) {
    let like = first(c, |call| call.is("live"));
    insert(c, 30_000, plain(&like, "live_one", 200));
}

fn ids_batched(c: &mut Recording) {
    let like = first(c, |call| call.is("live"));
    for (id, at) in [("a", 0), ("b", 100), ("c", 200)] {
        let mut call = plain(&like, "day", 200);
        call.query = format!("livestreams={id}");
        insert(c, 30_000 + at, call);
    }
}

fn telemetry_sequence(c: &mut Recording) {
    for event in c.events.iter_mut().skip(3) {
        event.sequence += 7;
    }
}

fn telemetry_clock(c: &mut Recording) {
    for event in &mut c.events {
        event.received += 90_000;
    }
}

fn telemetry_pairs(c: &mut Recording) {
    for event in c
        .events
        .iter_mut()
        .filter(|event| event.action == "playback_stopped")
    {
        if event.asset.as_deref() == Some("ended") {
            event.action = "playback_paused".to_owned();
        }
    }
}

fn telemetry_batches(c: &mut Recording) {
    let mut most = 501;
    for call in c
        .calls
        .iter_mut()
        .filter(|call| call.is("telemetry"))
        .take(1)
    {
        call.events = Some(std::mem::take(&mut most));
    }
}

fn telemetry_secrets(c: &mut Recording) {
    let event = c.events.first_mut().unwrap();
    event
        .extra
        .push(("user".to_owned(), "pgu_nFAyjl96SoVyVODhyKO".to_owned()));
}

fn telemetry_drop(c: &mut Recording) {
    repeat(c, 15_000, |call| call.is("telemetry") && call.status == 400);
}
