//! Viewers that act like a player, each from its own address, and collect response times and errors while the server is
//! under test.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::appliance::Appliance;
use crate::support::appliance::real_time;
use crate::support::playback_fixture::full;
use crate::support::raw_http::{Answer, Wire, request};
use crate::support::server::PASSWORD;
use crate::support::stop_on_drop::StopOnDrop;

const CATALOG: &str = r#"
[[livestream]]
id = "news"
encrypted = false
playlist = { dash = "https://cdn.example/news.mpd" }

[[offer]]
id = "all"
type = "default"
pack = "all"
"#;

/// Heartbeats of a visit.
const BEATS: usize = 3;

/// The pause between two visits.
const PAUSE: Duration = Duration::from_millis(250);

/// The partner whose livestream the viewers watch.
pub struct Scene {
    pub partner: String,
}

impl Scene {
    /// Adds a partner, a livestream and a guide around the present to a server.
    pub fn install(server: &Appliance) -> Self {
        let partner = server.run_json(&["partner", "add", "test", "--json"]);
        let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
        let hour = |n: i64| real_time().0 + n * 3_600;
        let programs: Vec<Value> = (-3..9)
            .map(|n| json!({"id": format!("p{n}"), "title": "A programme", "pgAge": 0, "start": hour(n), "stop": hour(n + 1)}))
            .collect();
        let guide = json!({"news": programs}).to_string();
        for (what, body) in [("catalog", CATALOG), ("epg", &guide)] {
            let target = format!("/admin/v1/{what}/import");
            let (status, body) = server.operator("POST", &target, body);
            assert_eq!(status, 200, "{body}");
        }
        Self { partner }
    }

    pub fn sign_up(&self, server: &Appliance, email: &str) {
        let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
        let headers = [("Service-AccessToken", &*self.partner)];
        let answer = server.ask("PUT", "/api/login/v2/auth/email", &headers, &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
}

/// A signed-up viewer, its source address, and the server's address.
#[derive(Clone)]
pub struct Viewer {
    pub partner: String,
    pub email: String,
    pub from: IpAddr,
    pub to: SocketAddr,
}

/// A visit: its connection and the time of each response.
pub struct Visit {
    viewer: Viewer,
    wire: Option<Wire>,
    bearer: String,
    /// The headers of the player.
    player: Vec<(&'static str, String)>,
    pub times: Vec<Duration>,
}

impl Viewer {
    /// Logs in, reads the live view, gets an entitlement, starts a session, sends heartbeats and ends it. Returns the
    /// response times, or what went wrong.
    pub fn visit(&self) -> Result<Vec<Duration>, String> {
        let mut visit = self.start()?;
        for _ in 0..BEATS {
            visit.expect(200, "POST", "/api/playback/v1/heartbeat", "")?;
        }
        visit.expect(204, "DELETE", "/api/playback/v1/heartbeat", "")?;
        Ok(visit.times)
    }

    /// A visit up to the running session.
    pub fn start(&self) -> Result<Visit, String> {
        let mut visit = Visit {
            viewer: self.clone(),
            wire: None,
            bearer: String::new(),
            player: Vec::new(),
            times: Vec::new(),
        };
        let body = json!({"identity": self.email, "accessKey": PASSWORD}).to_string();
        let user = visit.expect(200, "POST", "/api/login/v2/auth/email", &body)?;
        visit.bearer = format!("Bearer {}", word(&user, "token"));
        let live = "/api/schedule/v1/broadcasts/live?livestreams=news";
        visit.expect(200, "GET", live, "")?;
        let right = visit.expect(200, "POST", "/api/entitlement/v2/asset/news", "")?;
        visit.player = [
            ("DRM", "none"),
            ("Protocol", "dash"),
            ("EntitlementId", &word(&right, "token")),
            ("DevicePlatform", "linux"),
            ("DeviceType", "tv"),
            ("DeviceModel", "Model"),
            ("DeviceId", "tv"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        let preflight = "/api/playback/v2/preflight/asset/news";
        let started = visit.expect(200, "POST", preflight, "")?;
        let session = started.json()["headers"]["Service-Play-Session"].clone();
        let now = real_time().0.to_string();
        for (name, value) in [
            ("Session", session.as_str().unwrap()),
            ("Timestamp", &now),
            ("Bitrate", "2500000"),
            ("ResolutionWidth", "1280"),
            ("ResolutionHeight", "720"),
        ] {
            visit.player.push((name, value.to_owned()));
        }
        Ok(visit)
    }
}

fn word(answer: &Answer, name: &str) -> String {
    answer.json()[name].as_str().unwrap_or_default().to_owned()
}

impl Visit {
    /// Continues the session at another address.
    pub fn at(mut self, to: SocketAddr) -> Self {
        self.viewer.to = to;
        self.wire = None;
        self
    }

    /// Returns the response, of any status.
    pub fn ask(&mut self, method: &str, target: &str, body: &str) -> Result<Answer, String> {
        let player = self.player.iter();
        let mut headers: Vec<_> = player.map(|(name, value)| (full(name), &**value)).collect();
        headers.push(("Service-AccessToken", &self.viewer.partner));
        headers.push(("Origin", "https://player.example"));
        if !self.bearer.is_empty() {
            headers.push(("Authorization", &self.bearer));
        }
        let failed =
            |what: &str, why: &dyn std::fmt::Display| format!("{method} {target}: {what}: {why}");
        let started_at = Instant::now();
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => Wire::from(self.viewer.from, self.viewer.to)
                .map_err(|error| failed("no connection", &error))?,
        };
        let answered = wire
            .send(request(method, target, &headers, body))
            .try_answer_to(method)
            .map_err(|error| failed("no answer", &error))?;
        let answer = answered.ok_or_else(|| failed("no answer", &"the connection has ended"))?;
        self.times.push(started_at.elapsed());
        if answer.header("connection") != Some("close") {
            self.wire = Some(wire);
        }
        Ok(answer)
    }

    /// Returns a response with this status, and anything else as an error.
    fn expect(
        &mut self,
        status: u16,
        method: &str,
        target: &str,
        body: &str,
    ) -> Result<Answer, String> {
        let answer = self.ask(method, target, body)?;
        if answer.status == status {
            return Ok(answer);
        }
        let body = String::from_utf8_lossy(&answer.body);
        Err(format!("{method} {target}: {} {body}", answer.status))
    }
}

/// The outcome of visits.
#[derive(Default)]
pub struct Tally {
    /// Response times of log-ins, which cost a hash, sorted.
    pub logins: Vec<Duration>,
    /// Response times of all other requests, sorted.
    pub others: Vec<Duration>,
    /// Errors.
    pub wrong: Vec<String>,
}

impl Tally {
    /// All response times, sorted.
    pub fn all(&self) -> Vec<Duration> {
        let mut all = [self.logins.as_slice(), &self.others].concat();
        all.sort_unstable();
        all
    }
}

/// Returns the percentile of sorted times.
pub fn percentile(times: &[Duration], hundredths: usize) -> Duration {
    let at = times.len() * hundredths / 100;
    let last = times.last().copied().unwrap_or_default();
    times.get(at).copied().unwrap_or(last)
}

/// Lets each viewer visit again and again in its own thread while `during` runs.
pub fn watch<T>(viewers: &[Viewer], during: impl FnOnce() -> T) -> (Tally, T) {
    let stop = AtomicBool::new(false);
    let (sender, outcomes) = channel();
    let done = thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for viewer in viewers {
            let (sender, stop) = (sender.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    sender.send(viewer.visit()).unwrap();
                    thread::park_timeout(PAUSE);
                }
            });
        }
        during()
    });
    drop(sender);
    let mut tally = Tally::default();
    for outcome in outcomes {
        match outcome {
            Ok(times) => {
                let (login, others) = times.split_first().unwrap();
                tally.logins.push(*login);
                tally.others.extend(others);
            }
            Err(why) => tally.wrong.push(why),
        }
    }
    tally.logins.sort_unstable();
    tally.others.sort_unstable();
    (tally, done)
}
