//! The row "TLS": what records of TLS 1.3 cost beside the same without, on connections that stay.
//!
//! `cargo bench --bench tls`

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

use yardstick::client::{member, request};
use yardstick::secure::Secure;
use yardstick::server::Server;
use yardstick::{Contestant, compare};

/// So many that none of them beats faster than the highest rate that can be configured.
const SESSIONS: usize = 256;

fn main() {
    yardstick::enter();
    let secure = Secure::new();
    let file = |name: &str| secure.file(name).display().to_string();
    let playgate = Server::start(
        env!("CARGO_BIN_EXE_playgate"),
        &["demo", "--json", "--listen", "127.0.0.1:0"],
        &[
            ("PLAYGATE_LOG_LEVEL", "warn"),
            ("PLAYGATE_TLS_LISTEN", &secure.address),
            ("PLAYGATE_TLS_CERT", &file("cert.pem")),
            ("PLAYGATE_TLS_KEY", &file("key.pem")),
            ("PLAYGATE_LIMITS_HEARTBEATS_PER_SECOND", "1000"),
            ("PLAYGATE_LIMITS_HEARTBEAT_BURST", "1000"),
            ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000"),
            ("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192"),
        ],
    );
    let token = member(&playgate.greeting, "partnerToken").expect("the demo prints it");
    let viewers = (0..SESSIONS).map(|number| scene::viewer(&playgate, &token, "open", number).beat);
    let beats: Vec<_> = viewers.collect();
    let partner = [("Service-AccessToken", token.as_str())];
    let live = request(
        "GET",
        "/api/schedule/v1/broadcasts/live?livestreams=open",
        &partner,
        "",
    );
    for (name, requests) in [("now, next and previous", vec![live]), ("heartbeat", beats)] {
        let contestant = |name: String, over, goal| Contestant {
            name,
            server: &playgate,
            over,
            requests: requests.clone().into(),
            status: 200,
            goal,
        };
        compare(&[
            contestant(name.to_owned(), None, None),
            contestant(format!("{name}, over TLS"), Some(&secure), Some(1.35)),
        ]);
    }
}
