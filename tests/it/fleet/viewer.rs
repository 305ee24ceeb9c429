//! A viewer whose player sends heartbeats.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{send, send_within};
use crate::support::server::PASSWORD;

/// After this time a player tries another member.
const TIMEOUT: Duration = Duration::from_secs(3);

pub struct Viewer {
    partner: String,
    user: String,
    bearer: String,
    session: String,
    entitlement: String,
}

pub const DEVICE: [(&str, &str); 6] = [
    ("Service-Play-DRM", "none"),
    ("Service-Play-Protocol", "dash"),
    ("Service-Play-DevicePlatform", "web"),
    ("Service-Play-DeviceType", "browser"),
    ("Service-Play-DeviceModel", "test"),
    ("Service-Play-DeviceId", "test-device"),
];

impl Viewer {
    /// Signs up a viewer and starts a film of the demo. Returns `None` if the fleet does not answer.
    pub fn start(partner: &str, at: SocketAddr) -> Option<Self> {
        let post = |method, target: &str, headers: &[(&str, &str)], body: &str| {
            let headers = [&[("Service-AccessToken", partner)][..], headers].concat();
            let (status, body) = send(at, method, target, &headers, body)?;
            (status == 200).then(|| serde_json::from_str::<Value>(&body).ok())?
        };
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let unique = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let email = format!("viewer.{unique}@example.com");
        let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
        let user = post("PUT", "/api/login/v2/auth/email", &[], &body)?;
        let bearer = format!("Bearer {}", user["token"].as_str()?);
        let authorization = ("Authorization", &*bearer);
        let right = post(
            "POST",
            "/api/entitlement/v2/asset/film-clear",
            &[authorization],
            "",
        )?;
        let entitlement = text(&right["token"])?;
        let entitled = [authorization, ("Service-Play-EntitlementId", &*entitlement)];
        let headers = [&entitled[..], &DEVICE].concat();
        let preflight = "/api/playback/v2/preflight/asset/film-clear";
        let began = post("POST", preflight, &headers, "")?;
        let session = text(&began["headers"]["Service-Play-Session"])?;
        Some(Self {
            partner: partner.to_owned(),
            user: text(&user["userId"])?,
            bearer,
            session,
            entitlement,
        })
    }

    /// Returns the status of a heartbeat, or `None` if there is no response in time.
    pub fn beat(&self, at: SocketAddr) -> Option<u16> {
        self.beat_with(at, "1200000")
    }

    pub fn beat_with(&self, at: SocketAddr, bitrate: &str) -> Option<u16> {
        let of_session = [
            ("Service-AccessToken", &*self.partner),
            ("Authorization", &*self.bearer),
            ("Service-Play-Session", &*self.session),
            ("Service-Play-EntitlementId", &*self.entitlement),
            ("Service-Play-Timestamp", "3"),
            ("Service-Play-Bitrate", bitrate),
            ("Service-Play-ResolutionWidth", "640"),
            ("Service-Play-ResolutionHeight", "360"),
        ];
        let headers = [&of_session[..], &DEVICE].concat();
        let target = "/api/playback/v1/heartbeat";
        let (status, _) = send_within(TIMEOUT, at, "POST", target, &headers, "")?;
        Some(status)
    }

    /// Sends events with these sequence numbers.
    pub fn report(&self, at: SocketAddr, numbers: Range<u64>) -> Option<u16> {
        let headers = [
            ("Service-AccessToken", &*self.partner),
            ("Authorization", &*self.bearer),
        ];
        let event = |number| {
            json!({
                "timestamp": 1_767_268_800, "action": "start", "seqId": number,
                "context": {"device_id": "test-device"},
            })
        };
        let body = numbers.map(event).collect::<Value>().to_string();
        let target = "/api/tracker/v1/telemetry-events";
        let (status, _) = send(at, "POST", target, &headers, &body)?;
        Some(status)
    }

    /// Ends the session, as a player does.
    pub fn stop(&self, at: SocketAddr) -> Option<u16> {
        let headers = [
            ("Service-AccessToken", &*self.partner),
            ("Authorization", &*self.bearer),
            ("Service-Play-Session", &*self.session),
        ];
        let (status, _) = send(at, "DELETE", "/api/playback/v1/heartbeat", &headers, "")?;
        Some(status)
    }

    /// Returns the playback session as the owner knows it.
    pub fn session(&self, at: SocketAddr) -> Option<Value> {
        let headers = [
            ("Service-AccessToken", &*self.partner),
            ("Authorization", &*self.bearer),
        ];
        let target = format!("/api/user/v1/users/{}/sessions", self.user);
        let (_, body) = send(at, "GET", &target, &headers, "")?;
        let all: Value = serde_json::from_str(&body).ok()?;
        let mut all = all.as_array()?.iter();
        all.find(|one| one["sessionId"] == self.session).cloned()
    }
}

/// The pause between two heartbeats; players wait ten times as long.
const INTERVAL: Duration = Duration::from_secs(1);
/// A session may send ten heartbeats in five seconds.
const AGAIN: Duration = Duration::from_millis(600);
/// When the next heartbeat of a player is due.
const GIVEN_UP: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Beats {
    pub taken: usize,
    pub refused: usize,
    pub slowest: Duration,
}

/// Plays until it is stopped. Each heartbeat is retried at the next member until one accepts it, as behind a load
/// balancer.
pub fn watch(partner: &str, members: &[SocketAddr], beats: &Mutex<Beats>, stop: &AtomicBool) {
    let is_stopping = || stop.load(Ordering::Relaxed);
    let mut all = members.iter().cycle();
    let mut next = || *all.next().unwrap();
    let viewer = loop {
        match Viewer::start(partner, next()) {
            Some(viewer) => break viewer,
            None if is_stopping() => return,
            None => park_timeout(INTERVAL),
        }
    };
    while !is_stopping() {
        let began = Instant::now();
        let status = loop {
            match viewer.beat(next()) {
                Some(503) | None if began.elapsed() < GIVEN_UP => park_timeout(AGAIN),
                other => break other,
            }
        };
        let mut beats = beats.lock().unwrap();
        match status {
            Some(200) => beats.taken += 1,
            Some(503) | None => beats.refused += 1,
            // Any other status loses the session.
            Some(other) => panic!("a heartbeat was answered {other}"),
        }
        beats.slowest = beats.slowest.max(began.elapsed());
        drop(beats);
        park_timeout(INTERVAL);
    }
}
