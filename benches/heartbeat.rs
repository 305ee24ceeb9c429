//! The rows "heartbeat" (partner, user, entitlement, session, device and live rights are checked, and all headers of a
//! player are sent), "entitlement" and "preflight" (whose goals exclude the commit) of `docs/performance.md`, compared
//! with a bare server that answers a GET; and telemetry events, compared with a bare server that writes the same bytes
//! to a file.
//!
//! `cargo bench --bench heartbeat`; `-- telemetry` for the events only.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::cast_possible_truncation, clippy::disallowed_methods)]

#[path = "yardstick/scene.rs"]
mod scene;
mod yardstick;

use std::sync::Arc;

use scene::{EVENTS, SESSIONS};
use yardstick::server::Server;
use yardstick::{Contestant, compare};

fn main() {
    yardstick::pin_or_serve_bare();
    let (playgate, token) = scene::demo(&[]);
    let viewers = (0..SESSIONS).map(|number| scene::viewer(&playgate, &token, "open", number));
    let viewers: Vec<_> = viewers.collect();
    let all = |of: fn(&scene::Requests) -> &Vec<u8>| viewers.iter().map(of).cloned().collect();
    println!("play of a livestream, {SESSIONS} viewers");
    let bare = Server::bare(1_500);
    if std::env::args().any(|argument| argument == "telemetry") {
        telemetry(&playgate, &bare, &viewers);
        return;
    }
    let yardstick = || Contestant::bare("bare hyper, GET of 1500 bytes", &bare);
    let row = |name: &str, requests: Arc<[Vec<u8>]>, goal| {
        Contestant::new(name, &playgate, requests).with_goal(goal)
    };
    let before = (playgate.cpu(), playgate.cpu_of_quality());
    compare(&[
        yardstick(),
        row("heartbeat", all(|viewer| &viewer.beat), 1.5),
    ]);
    let spent = (
        playgate.cpu() - before.0,
        playgate.cpu_of_quality() - before.1,
    );
    let share = spent.1.as_secs_f64() / (spent.0 - spent.1).as_secs_f64();
    println!("quality figures add {:.1} % (goal <= 3)", share * 100.0);
    // The order matters: a preflight ends the session that the viewer has on the device, and many entitlements push out
    // the oldest ones, including those of the sessions.
    let preflights = all(|viewer| &viewer.preflight);
    compare(&[
        yardstick(),
        row("preflight (goal: commits apart)", preflights, 5.0),
    ]);
    telemetry(&playgate, &bare, &viewers);
    let entitlements = all(|viewer| &viewer.entitlement);
    compare(&[
        yardstick(),
        row("entitlement (goal: commits apart)", entitlements, 3.5),
    ]);
}

fn telemetry(playgate: &Server, bare: &Server, viewers: &[scene::Requests]) {
    for (index, count) in EVENTS.into_iter().enumerate() {
        let events = viewers.iter().map(|viewer| viewer.events[index].clone());
        let events: Arc<[Vec<u8>]> = events.collect();
        let stored = format!("telemetry, {count} events a request");
        compare(&[
            Contestant::new(
                "bare hyper, writing the same bytes",
                bare,
                Arc::clone(&events),
            ),
            Contestant {
                status: 202,
                ..Contestant::new(&stored, playgate, events).with_goal(3.0)
            },
        ]);
    }
}
