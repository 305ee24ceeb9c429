//! What TLS 1.3 adds to the cost of a request on keep-alive connections.
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

use scene::SESSIONS;
use yardstick::client::request;
use yardstick::secure::Secure;
use yardstick::{Contestant, compare};

fn main() {
    yardstick::pin_or_serve_bare();
    let secure = Secure::new();
    let file = |name: &str| secure.file(name).display().to_string();
    let (playgate, token) = scene::demo(&[
        ("PLAYGATE_TLS_LISTEN", &secure.address),
        ("PLAYGATE_TLS_CERT", &file("cert.pem")),
        ("PLAYGATE_TLS_KEY", &file("key.pem")),
    ]);
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
        let row = |name: String| Contestant::new(name, &playgate, requests.clone());
        compare(&[
            row(name.to_owned()),
            Contestant {
                over: Some(&secure),
                goal: Some(1.35),
                ..row(format!("{name}, over TLS"))
            },
        ]);
    }
}
