//! A server with playable assets: a catalogue, a guide around noon, media files and a viewer.

use std::fs;

use playgate_types::TokenKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gate_only::NOON;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{TestServer, Viewer};

const CATALOG: &str = r#"
[[livestream]]
id = "news"
catchup_days = 7
playlist = { dash = "origin:loop/news.mpd", hls = "https://cdn.example/{asset}.m3u8?s={session}" }
keys = [{ kid = "11112222333344445555666677778888", key = "00000000000000000000000000000001" }]

[[asset]]
id = "film"
pg_age = 0
playlist = { dash = "origin:film/manifest.mpd" }
keys = [
  { kid = "00112233445566778899aabbccddeeff", key = "0f0e0d0c0b0a09080706050403020100" },
  { kid = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", key = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" },
]

[[asset]]
id = "adult"
pg_age = 18
playlist = { dash = "origin:film/manifest.mpd" }
keys = [{ kid = "00112233445566778899aabbccddeeff" }]

[[asset]]
id = "clear"
pg_age = 0
encrypted = false
playlist = { dash = "origin:film/manifest.mpd", hls = "https://cdn.example/clear.m3u8" }

[[asset]]
id = "premium"
pg_age = 0
playlist = { dash = "origin:film/manifest.mpd" }

[[asset]]
id = "swedish"
pg_age = 0
playlist = { dash = "origin:film/manifest.mpd" }

[[asset]]
id = "bare"
pg_age = 0

[[asset]]
id = "old"
pg_age = 0
available = { to = 2025-01-01T00:00:00Z }

[[offer]]
id = "basic"
type = "default"
pack = { livestreams = ["news"], assets = ["film", "adult", "clear", "bare", "old"] }

[[offer]]
id = "premium"
type = "subscription"
pack = { assets = ["premium"] }

[[offer]]
id = "swedish"
type = "default"
pack = { assets = ["swedish"] }
countries = ["SE"]

[[broadcast]]
id = "dark"
live = false
"#;

/// The programs of `news`: id, start and stop in seconds from noon, and rating.
const GUIDE: [(&str, i64, i64, u8); 5] = [
    ("early", -7_200, -3_600, 0),
    ("morning", -3_600, 0, 0),
    ("noon", 0, 3_600, 0),
    ("rated", 3_600, 7_200, 18),
    ("dark", 7_200, 10_800, 0),
];

/// A key of `film`: key id and key, as Clear Key writes them.
pub const FILM_KEY: (&str, &str) = ("ABEiM0RVZneImaq7zN3u_w", "Dw4NDAsKCQgHBgUEAwIBAA");

pub struct PlaybackFixture {
    pub server: TestServer,
    pub ann: Viewer,
    media: TempDir,
}

#[derive(Clone)]
pub struct Player {
    pub viewer: Viewer,
    pub session: String,
    pub entitlement: String,
    pub device: String,
    pub playlist: String,
}

impl PlaybackFixture {
    pub fn new() -> Self {
        Self::with(&[])
    }

    pub fn with(settings: &[(&'static str, &str)]) -> Self {
        let media = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("loop/news.mpd", "<MPD/>"),
            ("film/manifest.mpd", "<MPD>film</MPD>"),
            ("film/video/1.m4s", "0123456789"),
            ("other/secret.mp4", "secret"),
        ] {
            let path = media.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let media_dir = media.path().to_str().unwrap().to_owned();
        let own_settings = [
            ("origin.media_dir", media_dir.as_str()),
            ("playback.clearkey", "true"),
        ];
        let settings: Vec<_> = own_settings
            .into_iter()
            .chain(settings.iter().copied())
            .collect();
        let fixture = Self::with_catalogue(TestServer::with(&settings), media, CATALOG);
        let programs = GUIDE.map(|(id, start, stop, age)| {
            json!({
                "id": id, "title": id, "pgAge": age,
                "start": NOON.0 + start, "stop": NOON.0 + stop,
            })
        });
        let guide = json!({"news": programs}).to_string();
        fixture.import("epg", &guide);
        fixture
    }

    /// Imports a catalogue into a server and signs up a viewer.
    pub fn with_catalogue(server: TestServer, media: TempDir, catalog: &str) -> Self {
        let ann = server.sign_up("ann@example.com");
        let fixture = Self { server, ann, media };
        fixture.import("catalog", catalog);
        fixture
    }

    /// Imports a catalogue or a guide, even if it removes much.
    pub fn import(&self, what: &str, body: &str) {
        let bearer = format!("Bearer {}", self.server.admin);
        let headers = [("Authorization", bearer.as_str())];
        let target = format!("/admin/v1/{what}/import?accept=true");
        let answer = ask(self.server.ops, request("POST", &target, &headers, body));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 200, "{text}");
    }

    pub fn viewer(&self, name: &str) -> Viewer {
        self.server.sign_up(&format!("{name}@example.com"))
    }

    /// Changes a user as an operator.
    pub fn change(&self, viewer: &Viewer, body: &Value) {
        let target = format!("users/{}", viewer.id);
        assert_eq!(self.server.operator("PUT", &target, body).status, 200);
    }

    /// Enables parental control, with the PIN 2468.
    pub fn protect(&self, viewer: &Viewer) {
        let control = json!({"parentalControl": {"enabled": true, "limit": 15}});
        self.change(viewer, &control);
        let target = format!("users/{}/pin", viewer.id);
        let set = self
            .server
            .operator("PUT", &target, &json!({"pinCode": "2468"}));
        assert!(set.status < 300, "{}", set.status);
    }

    /// Sends a request of a viewer with further headers.
    pub fn ask(
        &self,
        viewer: &Viewer,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let bearer = format!("Bearer {}", viewer.token);
        let mut all = vec![
            ("Service-AccessToken", self.server.partner.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        all.extend_from_slice(headers);
        ask(self.server.public, request(method, target, &all, body))
    }

    pub fn entitle(&self, viewer: &Viewer, asset: &str, body: &str) -> Answer {
        let target = format!("/api/entitlement/v2/asset/{asset}");
        self.ask(viewer, "POST", &target, &[], body)
    }

    /// Returns the token of a new entitlement.
    pub fn token(&self, viewer: &Viewer, asset: &str) -> String {
        let answer = self.entitle(viewer, asset, "");
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["token"].as_str().unwrap().to_owned()
    }

    /// Sends a preflight. `changed` headers replace the usual ones, and empty ones are left out.
    pub fn preflight(
        &self,
        viewer: &Viewer,
        asset: &str,
        token: &str,
        changed: &[(&str, &str)],
    ) -> Answer {
        let target = format!("/api/playback/v2/preflight/asset/{asset}");
        let headers = with(&preflight_headers(token, "tv"), changed);
        self.ask(viewer, "POST", &target, &headers, "")
    }

    /// Starts a session of an asset that needs no PIN.
    pub fn play(&self, viewer: &Viewer, asset: &str, device: &str) -> Player {
        let token = self.token(viewer, asset);
        let started = self.preflight(viewer, asset, &token, &[("DeviceId", device)]);
        assert_eq!(started.status, 200, "{}", started.json());
        player(viewer, device, &started)
    }

    pub fn beat(&self, player: &Player, changed: &[(&str, &str)]) -> Answer {
        let now = self.server.services.clock.now().0.to_string();
        let mut usual = preflight_headers(&player.entitlement, &player.device);
        usual.extend([
            ("Session", player.session.as_str()),
            ("Timestamp", now.as_str()),
            ("Bitrate", "2500000"),
            ("ResolutionWidth", "1280"),
            ("ResolutionHeight", "720"),
        ]);
        let headers = with(&usual, changed);
        let target = "/api/playback/v1/heartbeat";
        self.ask(&player.viewer, "POST", target, &headers, "")
    }

    pub fn stop(&self, player: &Player) -> Answer {
        let headers = [("Service-Play-Session", player.session.as_str())];
        let target = "/api/playback/v1/heartbeat";
        self.ask(&player.viewer, "DELETE", target, &headers, "")
    }

    pub fn license(&self, player: &Player, system: &str, body: &str) -> Answer {
        let target = format!("/api/playback/v1/{system}/license");
        let headers = [
            ("Service-Play-Session", player.session.as_str()),
            ("Service-Play-EntitlementId", player.entitlement.as_str()),
        ];
        self.ask(&player.viewer, "POST", &target, &headers, body)
    }

    /// Requests a file of the origin by its address from a preflight.
    pub fn fetch(&self, address: &str, headers: &[(&str, &str)]) -> Answer {
        let target = address.strip_prefix("https://tv.example").unwrap();
        ask(self.server.public, request("GET", target, headers, ""))
    }

    pub fn media(&self) -> &std::path::Path {
        self.media.path()
    }
}

/// Returns the session that a preflight started.
pub fn player(viewer: &Viewer, device: &str, started: &Answer) -> Player {
    let json = started.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Player {
        viewer: viewer.clone(),
        session: text(&json["headers"]["Service-Play-Session"]),
        entitlement: text(&json["headers"]["Service-Play-EntitlementId"]),
        device: device.to_owned(),
        playlist: text(&json["playlist"]),
    }
}

fn preflight_headers<'a>(token: &'a str, device: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("DRM", "clearkey"),
        ("Protocol", "dash"),
        ("EntitlementId", token),
        ("DevicePlatform", "linux"),
        ("DeviceType", "tv"),
        ("DeviceModel", "Model"),
        ("DeviceId", device),
    ]
}

/// Expands the names of the usual headers. `changed` values replace theirs, and empty ones are left out.
fn with<'a>(
    usual: &[(&str, &'a str)],
    changed: &[(&str, &'a str)],
) -> Vec<(&'static str, &'a str)> {
    let value = |name: &str, usual: &'a str| {
        let found = changed.iter().find(|(known, _)| *known == name);
        found.map_or(usual, |(_, value)| *value)
    };
    usual
        .iter()
        .map(|(name, usual)| (full(name), value(name, usual)))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// The headers that players send.
pub const PLAY_HEADERS: [&str; 12] = [
    "Service-Play-DRM",
    "Service-Play-Protocol",
    "Service-Play-EntitlementId",
    "Service-Play-DevicePlatform",
    "Service-Play-DeviceType",
    "Service-Play-DeviceModel",
    "Service-Play-DeviceId",
    "Service-Play-Session",
    "Service-Play-Timestamp",
    "Service-Play-Bitrate",
    "Service-Play-ResolutionWidth",
    "Service-Play-ResolutionHeight",
];

/// Expands a name such as `DRM` to its header.
pub fn full(name: &str) -> &'static str {
    let is = |full: &&&str| full.strip_prefix("Service-Play-") == Some(name);
    PLAY_HEADERS.iter().find(is).unwrap()
}

pub fn never_issued() -> String {
    let token = playgate_types::Token::new(TokenKind::Entitlement, [7; 32]);
    token.reveal().to_owned()
}
