//! The row "S6, one livestream": what is on now on one livestream, at the live point and at random
//! offsets, against a bare server that sends as many bytes.
//!
//! `cargo bench --bench schedule`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(clippy::cast_possible_truncation, clippy::disallowed_methods)]

mod yardstick;

use yardstick::client::{member, request, send};
use yardstick::server::Server;
use yardstick::{Contestant, compare};

fn main() {
    yardstick::enter();
    let playgate = Server::start(
        env!("CARGO_BIN_EXE_playgate"),
        &["demo", "--json", "--listen", "127.0.0.1:0"],
        &[("PLAYGATE_LOG_LEVEL", "warn")],
    );
    let token = member(&playgate.greeting, "partnerToken").expect("the demo prints it");
    let livestreams: serde_json::Value = serde_json::from_str(&playgate.greeting).expect("JSON");
    let livestream = livestreams["livestreams"]["open"]
        .as_str()
        .expect("the demo has one")
        .to_owned();
    let read = |offset: i32| {
        let path =
            format!("/api/schedule/v1/broadcasts/live?livestreams={livestream}&offset={offset}");
        request("GET", &path, &[("service-accesstoken", &token)], "")
    };
    let length = send(&playgate, &read(0)).body.len();
    println!("S6, one livestream, a body of {length} bytes");
    let bare = Server::bare(length);
    // A fixed sequence that looks random, within the part of the guide that the demo has.
    let offsets = (0..4_096_i64).map(|n| -i32::try_from(n * 7_919 % 10_800).unwrap_or(0));
    let contestants = [
        Contestant {
            name: "bare hyper, same bytes".to_owned(),
            server: &bare,
            requests: [request("GET", "/x", &[], "")].into(),
            status: 200,
            goal: None,
        },
        Contestant {
            name: "S6, offset 0".to_owned(),
            server: &playgate,
            requests: [read(0)].into(),
            status: 200,
            goal: Some(1.4),
        },
        Contestant {
            name: "S6, random offsets".to_owned(),
            server: &playgate,
            requests: offsets.map(read).collect(),
            status: 200,
            goal: Some(1.7),
        },
    ];
    compare(&contestants);
}
