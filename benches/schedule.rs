//! The rows of the schedule in `docs/performance.md`: S6 of one livestream at the live point and at random offsets, S6
//! and a day (S5) of a hundred livestreams, plain and gzip, broadcasts by id (S3, S4). Each is compared with a bare
//! server that sends as many bytes. If nginx is in the search path or named by `PLAYGATE_NGINX`, the first row also has
//! it with a file of the same bytes.
//!
//! `cargo bench --bench schedule`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]
#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods
)]

mod yardstick;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use yardstick::client::{request, send};
use yardstick::nginx::Nginx;
use yardstick::server::Server;
use yardstick::{Contestant, compare};

const LIVESTREAMS: usize = 100;
/// The length of a programme in seconds.
const SLOT: u64 = 2_400;
const IDS: usize = 10;

fn main() {
    yardstick::pin_or_serve_bare();
    let playgate = Server::demo(&[]);
    let bench = Bench {
        token: playgate.greeting_member("partnerToken"),
        playgate,
    };
    let today = bench.import_a_hundred();
    bench.one_livestream();
    let hundred: Vec<String> = (0..LIVESTREAMS).map(|n| format!("channel-{n}")).collect();
    let hundred = hundred.join(",");
    let live = format!("/broadcasts/live?livestreams={hundred}");
    let day = format!("/broadcasts/day/{today}?livestreams={hundred}");
    for gzip in [false, true] {
        let goal = if gzip { 1.15 } else { 1.05 };
        bench.same_bytes("S6, 100 livestreams", &[&live], gzip, goal);
        bench.same_bytes("S5, a day of 100 livestreams", &[&day], gzip, goal);
    }
    let ids: Vec<String> = (0..4_096).map(|n| id(n % LIVESTREAMS, n % 36)).collect();
    let by_id: Vec<_> = ids.iter().map(|id| format!("/broadcasts/{id}")).collect();
    let by_ids: Vec<_> = ids
        .chunks(IDS)
        .map(|ids| format!("/broadcasts?broadcasts={}", ids.join(",")))
        .collect();
    bench.other_texts(&live, &hundred, "S6, 100 livestreams");
    bench.other_texts(&day, &hundred, "S5, a day of 100 livestreams");
    bench.same_bytes("XMLTV", &["/xmltv"], false, 1.15);
    bench.same_bytes("XMLTV", &["/xmltv"], true, 1.15);
    bench.same_bytes("S3", &by_id, false, 1.3);
    bench.same_bytes(&format!("S4, {IDS} broadcasts"), &by_ids, false, 1.3);
}

/// The id of a broadcast of the hundred livestreams.
fn id(livestream: usize, slot: usize) -> String {
    format!("b-{livestream:03}-{slot:03}")
}

/// Makes a text of 30 words that compresses about as well as a real one.
fn description(seed: usize) -> String {
    let mut state = seed as u64;
    let mut random = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut text = String::new();
    for _ in 0..30 {
        // From a vocabulary of 500 words, where the first ones are more frequent.
        let mut word = (random(500) * random(500)) / 500;
        for _ in 0..2 + random(3) {
            text.push_str(["an", "ter", "is", "o", "den", "ha", "mu", "re"][(word % 8) as usize]);
            word /= 3;
        }
        text.push(' ');
    }
    text
}

struct Bench {
    playgate: Server,
    token: String,
}

impl Bench {
    fn read(&self, path: &str, gzip: bool) -> Vec<u8> {
        let mut headers = vec![("service-accesstoken", self.token.as_str())];
        headers.extend(gzip.then_some(("accept-encoding", "gzip")));
        request("GET", &format!("/api/schedule/v1{path}"), &headers, "")
    }

    /// Imports two days of programmes for a hundred livestreams. Returns the date of the first day, which is complete.
    fn import_a_hundred(&self) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let midnight = now.as_secs() / 86_400 * 86_400;
        let mut guide = Map::new();
        for livestream in 0..LIVESTREAMS {
            let broadcasts: Vec<_> = (0..72)
                .map(|slot| {
                    let start = midnight + slot as u64 * SLOT;
                    json!({
                        "id": id(livestream, slot), "start": start, "stop": start + SLOT, "pgAge": 12,
                        "title": format!("Programme {slot} of {livestream}"),
                        "description": description(livestream * 1_000 + slot),
                        "images": [{
                            "type": "sixteen-nine", "default": true, "embeddedText": false,
                            "filename": format!("https://images.example.test/{livestream}/{slot}/wide.jpg"),
                        }],
                    })
                })
                .collect();
            guide.insert(format!("channel-{livestream}"), broadcasts.into());
        }
        self.playgate.operate(
            "epg/import?createLivestreams=true&accept=true",
            &Value::Object(guide).to_string(),
        );
        let day = chrono::DateTime::from_timestamp(midnight.cast_signed(), 0).expect("in range");
        day.format("%Y-%m-%d").to_string()
    }

    fn row(&self, name: &str, requests: impl Into<Arc<[Vec<u8>]>>) -> Contestant<'_> {
        Contestant::new(name, &self.playgate, requests)
    }

    fn one_livestream(&self) {
        let greeting: Value = serde_json::from_str(&self.playgate.greeting).expect("JSON");
        let livestream = greeting["livestreams"]["open"]
            .as_str()
            .expect("the demo has one");
        let read = |offset: i32| {
            let path = format!("/broadcasts/live?livestreams={livestream}&offset={offset}");
            self.read(&path, false)
        };
        let body = send(&self.playgate, &read(0)).body;
        println!("\nS6, one livestream, a body of {} bytes", body.len());
        let bare = Server::bare(body.len());
        let nginx = Nginx::start(&body);
        // A fixed sequence that looks random, within the guide of the demo.
        let offsets = (0..4_096_i64).map(|n| -i32::try_from(n * 7_919 % 10_800).unwrap_or(0));
        let mut contestants = vec![
            bare_hyper(&bare),
            self.row("S6, offset 0", [read(0)]).with_goal(1.25),
            self.row("S6, random offsets", offsets.map(read).collect::<Vec<_>>())
                .with_goal(1.3),
        ];
        contestants.extend(
            nginx
                .as_ref()
                .map(|nginx| Contestant::bare("nginx, a file of the same bytes", nginx.server())),
        );
        compare(&contestants);
    }

    /// The same request with unknown parameters and with its ids in other orders, compared with itself.
    fn other_texts(&self, path: &str, ids: &str, name: &str) {
        let junk: Vec<_> = (0..4_096)
            .map(|n| self.read(&format!("{path}&x={n}"), true))
            .collect();
        let mut ids: Vec<_> = ids.split(',').collect();
        let before = ids.join(",");
        let permuted: Vec<_> = (0..4_096)
            .map(|n| {
                let last = ids.len() - 1;
                ids.swap(n % last, last);
                ids.rotate_left(7);
                self.read(&path.replace(&before, &ids.join(",")), true)
            })
            .collect();
        let plain = self.read(path, true);
        send(&self.playgate, &plain);
        println!("\n{name}, gzip, by the text of the request");
        compare(&[
            self.row("as every client sends it", [plain]),
            self.row("an unknown parameter", junk).with_goal(1.2),
            self.row("ids in another order", permuted).with_goal(1.2),
        ]);
    }

    fn same_bytes<P: AsRef<str>>(&self, name: &str, paths: &[P], gzip: bool, goal: f64) {
        let requests: Vec<_> = paths
            .iter()
            .map(|path| self.read(path.as_ref(), gzip))
            .collect();
        // The first request fills the response cache.
        send(&self.playgate, &requests[0]);
        let length = send(&self.playgate, &requests[0]).body.len();
        let coding = if gzip { ", gzip" } else { "" };
        println!("\n{name}{coding}, a body of {length} bytes");
        let bare = Server::bare(length);
        compare(&[
            bare_hyper(&bare),
            self.row(&format!("{name}{coding}"), requests)
                .with_goal(goal),
        ]);
    }
}

fn bare_hyper(bare: &Server) -> Contestant<'_> {
    Contestant::bare("bare hyper, same bytes", bare)
}
