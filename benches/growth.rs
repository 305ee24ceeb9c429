//! How the cost of a request grows with the size of the installation: the live view of one of 10 to 10,000 livestreams
//! and a heartbeat of one of 256 to 1,000,000 sessions, each compared with a bare server, and the memory of a session.
//! `scale` measures the same for users, `store` for writers.
//!
//! `cargo bench --bench growth`, or `cargo bench --bench growth -- 1000000` for other numbers of sessions. A million
//! sessions must start within five minutes, because a session without heartbeats ends after that.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::disallowed_methods
)]

#[path = "capacity/audience.rs"]
mod audience;
#[path = "yardstick/scene.rs"]
mod scene;
mod yardstick;

use std::time::{SystemTime, UNIX_EPOCH};

use audience::Audience;
use serde_json::{Map, Value, json};
use yardstick::client::{request, send};
use yardstick::server::Server;
use yardstick::{Contestant, compare};

const LIVESTREAMS: [usize; 4] = [10, 100, 1_000, 10_000];
/// With fewer than 256, a session would exceed the highest heartbeat rate that can be configured.
const SESSIONS: [usize; 3] = [256, 10_000, 100_000];
/// Devices of one user, each with a session. With one user for each session the password hashes would take hours.
const DEVICES: usize = 100;
/// Many different requests, so that a small cache does not flatter the result.
const READS: usize = 4_096;
const BEATS: usize = 65_536;

fn main() {
    yardstick::pin_or_serve_bare();
    let named = yardstick::numbers();
    if named.is_empty() {
        livestreams();
        sessions(&SESSIONS);
    } else {
        sessions(&named);
    }
}

fn livestreams() {
    let servers = LIVESTREAMS.map(|count| {
        let (server, token) = scene::demo(&[]);
        import(&server, count);
        let read = |livestream: usize| {
            let path = format!("/api/schedule/v1/broadcasts/live?livestreams=channel-{livestream}");
            request("GET", &path, &[("service-accesstoken", token.as_str())], "")
        };
        let reads: Vec<_> = (0..READS).map(|nth| read(nth * 7_919 % count)).collect();
        (count, server, reads)
    });
    let length = send(&servers[0].1, &servers[0].2[0]).body.len();
    let bare = Server::bare(length);
    println!("\nS6 of one livestream of many, a body of {length} bytes");
    let mut all = vec![Contestant::bare("bare hyper, same bytes", &bare)];
    all.extend(servers.iter().map(|(count, server, reads)| {
        Contestant::new(format!("{count} livestreams"), server, reads.clone())
    }));
    compare(&all);
}

/// Imports three broadcasts for each livestream: the previous, the current and the next one.
fn import(server: &Server, livestreams: usize) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = now.expect("after 1970").as_secs() / 3_600 * 3_600 - 3_600;
    let mut guide = Map::new();
    for livestream in 0..livestreams {
        let broadcasts: Vec<_> = (0..3)
            .map(|slot| {
                let start = first + slot * 3_600;
                json!({"title": format!("Programme {slot} of {livestream}"), "start": start, "stop": start + 3_600})
            })
            .collect();
        guide.insert(format!("channel-{livestream}"), broadcasts.into());
    }
    server.operate(
        "epg/import?createLivestreams=true&accept=true",
        &Value::Object(guide).to_string(),
    );
}

fn sessions(counts: &[usize]) {
    let servers = counts.iter().map(|&count| {
        let (server, _) = scene::demo(&[
            ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000"),
            ("PLAYGATE_PLAYBACK_DEVICES", "1000"),
            ("PLAYGATE_PLAYBACK_STREAMS_TOTAL", "1000"),
            ("PLAYGATE_PLAYBACK_STREAMS_PER_ASSET", "1000"),
        ]);
        let before = server.resident();
        let viewers = Audience::gather(&server, count, DEVICES).viewers;
        let each = (server.resident() - before) / count as f64;
        println!(
            "{count} sessions with an entitlement and a device each: {each:.0} bytes of memory each"
        );
        // A sample that is spread evenly over all sessions.
        let beats = viewers.iter().step_by(count.div_ceil(BEATS));
        let beats: Vec<_> = beats.map(|viewer| viewer.beat()).collect();
        (count, server, beats)
    });
    let servers: Vec<_> = servers.collect();
    let bare = Server::bare(1_500);
    println!("\nA heartbeat of one of many sessions");
    let mut all = vec![Contestant::bare("bare hyper, GET of 1500 bytes", &bare)];
    all.extend(servers.iter().map(|(count, server, beats)| {
        Contestant::new(format!("{count} sessions"), server, beats.clone())
    }));
    compare(&all);
}
