//! The data that requests refer to: a server that permits nearly everything, and for each batch its own users, players
//! and objects, so that a batch cannot damage the next.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{fs, thread};

use playgate_store::{Options, Store};
use playgate_types::{PartnerKind, Role};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gate_only::NOON;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::{PASSWORD, TestServer, Viewer, token_in, viewer};

pub const CATALOGUE: &str = r#"
[[livestream]]
id = "news"
catchup_days = 7
playlist = { dash = "origin:film/manifest.mpd", hls = "https://cdn.example/{asset}.m3u8?s={session}" }

[[livestream]]
id = "open"
catchup_days = 7
encrypted = false
playlist = { dash = "loop:film/manifest.mpd", hls = "https://cdn.example/open.m3u8" }

[[asset]]
id = "film"
pg_age = 0
playlist = { dash = "origin:film/manifest.mpd", hls = "https://cdn.example/film.m3u8" }
keys = [{ kid = "00112233445566778899aabbccddeeff", key = "0f0e0d0c0b0a09080706050403020100" }]

[[offer]]
id = "basic"
type = "default"
pack = { livestreams = ["news", "open"], assets = ["film"] }

[[offer]]
id = "premium"
type = "subscription"
pack = { assets = ["film"] }

[[offer]]
id = "extra"
type = "subscription"
pack = { assets = ["film"] }

[[rule]]
livestream = "news"
title = "Rated*"
start_over = true
"#;

/// A guide of `news` and `open` around noon, as JSON.
fn guide() -> String {
    let programs = |names: [&str; 3]| {
        let rows = names.iter().zip([-3_600, 0, 3_600]).map(|(id, at)| {
            json!({"id": id, "title": id, "start": NOON.0 + at, "stop": NOON.0 + at + 3_600, "pgAge": 0})
        });
        rows.collect::<Vec<_>>()
    };
    json!({"news": programs(["morning", "noon", "rated"]), "open": programs(["a", "b", "c"])})
        .to_string()
}

/// The guide of `news` as XMLTV.
const XMLTV: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<tv><channel id="news"><display-name>News</display-name></channel>
<programme start="20260101110000 +0000" stop="20260101120000 +0000" channel="news"><title lang="en">Morning</title>
<desc>Text &amp; more</desc><category>News</category><rating system="VCHIP"><value>TV-14</value></rating></programme>
<programme start="20260101120000 +0000" stop="20260101130000 +0000" channel="news"><title>Noon</title>
<episode-num system="xmltv_ns">0.1.0/1</episode-num><icon src="https://images.example/1.jpg"/></programme>
</tv>
"#;

/// A server with the data for every route, and limits that few requests reach.
pub struct ServerFixture {
    pub server: TestServer,
    _folder: TempDir,
}

impl ServerFixture {
    pub fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for (name, content) in [
            ("media/film/manifest.mpd", "<MPD>film</MPD>"),
            ("guide.json", guide().as_str()),
            ("fairplay.cer", "certificate"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let licenses = license_server();
        let file = format!(
            "
            origin.media_dir = '{media}'
            playback.clearkey = true
            playback.streams_total = 1000
            playback.streams_per_asset = 1000
            playback.devices = 1000
            license.widevine.url = '{licenses}'
            license.playready.url = '{licenses}'
            license.fairplay.url = '{licenses}'
            license.fairplay.certificate = '{certificate}'
            limits.login_wrong_per_account = 1000
            limits.login_wrong_per_address = 1000000
            limits.sign_up_per_address = 1000000
            limits.reset_mails_per_account = 1000
            limits.reset_mails_per_address = 1000000
            limits.resets_per_address = 1000000
            limits.pin_wrong = 100
            limits.heartbeats_per_second = 1000
            limits.heartbeat_burst = 1000
            epg.sources = [{{ name = 'main', url = '{guide}' }}]
            ",
            media = place("media"),
            certificate = place("fairplay.cer"),
            guide = place("guide.json"),
        );
        let path = folder.path().join("playgate.toml");
        fs::write(&path, file).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let data = folder.path().join("store");
        fs::create_dir(&data).unwrap();
        let store = |_: &Path| {
            // Power cuts are not part of this test.
            let options = Options {
                sync: false,
                ..Options::default()
            };
            Store::open(&data, playgate_records::schema(), options).unwrap()
        };
        let server = TestServer::build(Some(path), store, &[]);
        Self {
            server,
            _folder: folder,
        }
    }
}

/// Starts a license server that answers every request with the same license. Returns its address.
fn license_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/l", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let mut buffer = [0; 16_384];
                while !is_whole(&bytes) {
                    match stream.read(&mut buffer) {
                        Ok(length) if length > 0 => bytes.extend_from_slice(&buffer[..length]),
                        _ => return,
                    }
                }
                let license =
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nlicense";
                let _ = stream.write_all(license.as_bytes());
            });
        }
    });
    url
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
    bytes.len() >= end + 4 + length
}

pub struct BatchData {
    /// Values of parameters and members, by `label/name` for one route or by name for all routes.
    values: BTreeMap<String, String>,
    /// Bodies that are not JSON objects, by route.
    bodies: BTreeMap<&'static str, Vec<Vec<u8>>>,
    /// One token of each kind, which mutators send in the place of another kind.
    pub tokens: Vec<String>,
    pub partner: String,
    pub admin: String,
    pub user: String,
}

fn text(answer: &Answer, name: &str) -> String {
    let json = answer.json();
    let value = json[name].as_str();
    value
        .unwrap_or_else(|| panic!("{}: {json}", answer.status))
        .to_owned()
}

impl BatchData {
    /// Returns the value of a parameter or member in requests of a route.
    pub fn value(&self, label: &str, name: &str) -> Option<&str> {
        let of_route = self.values.get(&format!("{label}/{name}"));
        of_route
            .or_else(|| self.values.get(name))
            .map(String::as_str)
    }

    pub fn has_for_route(&self, label: &str, name: &str) -> bool {
        self.values.contains_key(&format!("{label}/{name}"))
    }

    pub fn bodies(&self, label: &str) -> Option<&[Vec<u8>]> {
        self.bodies.get(label).map(Vec::as_slice)
    }

    /// Restores the catalogue and the clock, and creates operator, partner and users of a batch. This also checks that
    /// the server still works after the previous batches.
    pub fn create(fixture: &ServerFixture, batch: u64) -> Self {
        let server = &fixture.server;
        if let Some(lab) = &server.services.lab_clock {
            lab.set_offset(0);
        }
        let operator = server
            .services
            .operators
            .add(&format!("Eva{batch}"), Role::Admin, NOON)
            .unwrap()
            .wait();
        let partner = server
            .services
            .partners
            // The journal keeps all requests of lab partners.
            .add(&format!("Acme{batch}"), PartnerKind::Lab, NOON)
            .unwrap()
            .wait();
        let (admin, partner) = (operator.unwrap().1, partner.unwrap().1);
        let setup = Setup {
            server,
            batch,
            admin: admin.reveal(),
            partner: partner.reveal(),
        };
        setup.operator("POST", "catalog/import?accept=true", CATALOGUE);
        setup.operator("POST", "epg/import?accept", &guide());

        let email = setup.email("ann");
        let body = json!({"identity": email, "accessKey": PASSWORD, "name": "Ann"});
        let sign_up = "/api/login/v2/auth/email";
        let signed_up = server.partner_with(setup.partner, "PUT", sign_up, &body);
        let ann = viewer(&signed_up);
        let mut data = Self {
            values: BTreeMap::new(),
            bodies: BTreeMap::new(),
            tokens: vec![
                partner.reveal().into(),
                admin.reveal().into(),
                ann.token.clone(),
            ],
            partner: partner.reveal().to_owned(),
            admin: admin.reveal().to_owned(),
            user: ann.token.clone(),
        };
        for (place, value) in COMMON_VALUES {
            data.set(place, value);
        }
        data.set("request", signed_up.header("x-request-id").unwrap());
        data.users(&setup, &ann, &email);
        data.spares(&setup);
        data.players(&setup);
        data.mails(&setup, &email);
        data.set("admin_conformance/partner", format!("Acme{batch}"));
        let backups = setup.operator_ok("GET", "backups", &Value::Null).json();
        if let Some(name) = backups[0]["name"].as_str() {
            data.set("backup", name);
        }
        data
    }

    fn set(&mut self, place: &str, value: impl Into<String>) {
        self.values.insert(place.to_owned(), value.into());
    }

    /// Ann sends the requests of users; operators change Bob.
    fn users(&mut self, setup: &Setup<'_>, ann: &Viewer, email: &str) {
        let partner = format!("Acme{}", setup.batch);
        let pin = format!("users/{}/pin?partner={partner}", ann.id);
        setup.operator_ok("PUT", &pin, &json!({"pinCode": "1234"}));
        let bob = json!({"email": setup.email("bob")});
        let bob = text(
            &setup.operator_ok("POST", &format!("users?partner={partner}"), &bob),
            "userId",
        );
        let grant = format!("users/{bob}/grants/extra?partner={partner}");
        setup.operator_ok("PUT", &grant, &Value::Null);
        for place in [
            "userId",
            "admin_export_telemetry/user",
            "admin_remove_device/user",
            "after",
        ] {
            self.set(place, &ann.id);
        }
        for place in ["identity", "email"] {
            self.set(place, email);
        }
        self.set("user", bob);
        self.set("sign_up/identity", setup.email("new"));
        self.set("admin_add_user/email", setup.email("made"));
        for label in USERS_OF_PARTNER {
            self.set(&format!("{label}/partner"), &partner);
        }
    }

    /// Creates objects that requests may remove.
    fn spares(&mut self, setup: &Setup<'_>) {
        let (partner, operator) = (
            format!("Spare{}", setup.batch),
            format!("Helper{}", setup.batch),
        );
        setup.operator_ok("POST", "partners", &json!({"name": partner, "kind": "lab"}));
        let fault = json!({"route": "live", "do": {"cut": "head"}});
        let fault = setup.operator_ok("POST", &format!("partners/{partner}/faults"), &fault);
        self.set("fault", text(&fault, "faultId"));
        let al = json!({"name": operator, "role": "agent"});
        let al = setup.operator_ok("POST", "operators", &al);
        self.tokens.push(text(&al, "token"));
        for (path, place) in [
            (
                format!("partners/{partner}/tokens"),
                "admin_revoke_partner_token/token",
            ),
            (
                format!("operators/{operator}/tokens"),
                "admin_revoke_operator_token/token",
            ),
        ] {
            let made = setup.operator_ok("POST", &path, &Value::Null);
            self.set(place, text(&made, "tokenId"));
        }
        self.set("partner", partner);
        self.set("operator", operator);
        for place in ["admin_add_partner/name", "admin_add_operator/name"] {
            self.set(place, format!("New{}", setup.batch));
        }
    }

    /// Starts a session for each DRM system, and one that requests may end.
    fn players(&mut self, setup: &Setup<'_>) {
        for (label, drm, protocol) in PLAYERS {
            let started = setup.start_playback(&self.user, label, drm, protocol);
            for (name, value) in started["headers"].as_object().unwrap() {
                let value = value.as_str().unwrap();
                let place = if label.is_empty() {
                    name.clone()
                } else {
                    format!("{label}/{name}")
                };
                self.set(&place, value);
                self.tokens.push(value.to_owned());
            }
            let reports = started["cmcd"]["url"].as_str().unwrap();
            if label.is_empty() {
                self.set("cmcd/token", reports.rsplit('/').next().unwrap());
                let licenses = started["licenseSigned"].as_str().unwrap();
                self.set("license_signed/token", licenses.rsplit('/').next().unwrap());
            }
            let playlist = started["playlist"].as_str().unwrap();
            if let Some((_, signed)) = playlist.split_once("/origin/v1/") {
                let signed = signed.split('/').next().unwrap();
                self.set("origin/token", signed);
                self.tokens.push(signed.to_owned());
            }
        }
        let of = |label| {
            self.value(label, "Service-Play-Session")
                .unwrap()
                .to_owned()
        };
        let (playing, spare) = (of(""), of("end_playback"));
        self.set("session", playing);
        self.set("sessionId", spare);
    }

    /// Adds a mail with a reset token, and bodies that are not JSON objects.
    fn mails(&mut self, setup: &Setup<'_>, email: &str) {
        let send = "/api/login/v2/password/send-reset-password";
        let body = json!({"email": email});
        setup
            .server
            .partner_with(setup.partner, "POST", send, &body);
        let mails = setup.operator_ok("GET", "mail", &Value::Null).json();
        let is_ours = |mail: &&Value| mail["kind"] == "reset" && mail["to"] == email;
        let mail = mails.as_array().unwrap().iter().find(is_ours).unwrap();
        let mail = mail["id"].as_str().unwrap();
        let shown = setup.operator_ok("GET", &format!("mail/{mail}"), &Value::Null);
        let shown = text(&shown, "text");
        let reset = token_in(&shown);
        let reset = reset.as_str();
        self.set("mail", mail);
        self.set("reset/token", reset);
        self.set("reset_page/token", reset);
        self.tokens.push(reset.to_owned());
        let form = format!("token={reset}&password=goats+and+a+meadow&again=goats+and+a+meadow");
        let json = br#"{"livestream":[{"id":"news","name":"News"}]}"#;
        self.bodies = BTreeMap::from([
            ("reset_form", vec![form.into_bytes()]),
            ("admin_import_catalog", vec![CATALOGUE.into(), json.into()]),
            (
                "admin_import_guide",
                vec![guide().into_bytes(), XMLTV.into()],
            ),
            ("admin_restore_sent_backup", vec![b"no backup".into()]),
            ("admin_retry_mail", vec![b"{}".into()]),
            (
                "license_widevine",
                vec![b"\x08\x04".into(), b"\x0a\x02\x08\x01\x12\x03abc".into()],
            ),
            ("license_playready", vec![b"<soap:Envelope/>".into()]),
            ("license_fairplay", vec![b"spc=AAAA".into()]),
            (
                "license_signed",
                vec![br#"{"kids":["ABEiM0RVZneImaq7zN3u_w"]}"#.into()],
            ),
            (
                "cmcd",
                vec![b"br=(2400;v 100;a),e=ps,sid=\"x\",sn=1,sta=p,ts=1767268800800,v=2\n".into()],
            ),
        ]);
    }
}

/// DRM system and protocol of the session that a route uses. The first row is for all other routes.
const PLAYERS: [(&str, &str, &str); 5] = [
    ("", "clearkey", "dash"),
    ("end_playback", "clearkey", "dash"),
    ("license_widevine", "widevine", "dash"),
    ("license_playready", "playready", "dash"),
    ("license_fairplay", "fairplay", "hls"),
];

/// Routes whose parameter `partner` is the user's partner.
const USERS_OF_PARTNER: [&str; 18] = [
    "admin_users",
    "admin_add_user",
    "admin_show_user",
    "admin_change_user",
    "admin_remove_user",
    "admin_grants",
    "admin_grant",
    "admin_revoke_grant",
    "admin_set_pin",
    "admin_mail_reset",
    "admin_user_sessions",
    "admin_logout_user",
    "admin_clear_devices",
    "admin_user_devices",
    "admin_remove_device",
    "admin_user_streams",
    "admin_why",
    "admin_export_telemetry",
];

const COMMON_VALUES: [(&str, &str); 35] = [
    ("assetId", "film"),
    ("asset", "film"),
    ("livestreamId", "news"),
    ("livestream", "news"),
    ("watch/livestreamId", "open"),
    // During the program before noon.
    ("watch/utc", "1767267000"),
    ("livestreams", "news,open"),
    ("broadcastId", "noon"),
    ("broadcast", "noon"),
    ("broadcasts", "noon,morning"),
    ("date", "2026-01-01"),
    ("manifest", "index.mpd"),
    ("path", "film/manifest.mpd"),
    ("deviceId", "end_playback"),
    ("device", "end_playback"),
    ("offer", "premium"),
    ("admin_revoke_grant/offer", "extra"),
    ("rule", "1"),
    ("source", "main"),
    ("guide", "clients"),
    ("ops_docs_guide/guide", "alerts"),
    ("file", "console.js"),
    ("lab_file/file", "lab.js"),
    ("client_file/file", "client.js"),
    ("admin_import_guide/source", "by hand"),
    ("kind", "reset"),
    ("Service-Play-DRM", "clearkey"),
    ("Service-Play-Protocol", "dash"),
    ("Service-Play-DevicePlatform", "linux"),
    ("Service-Play-DeviceType", "tv"),
    ("Service-Play-DeviceModel", "Model"),
    ("Service-Play-DeviceId", "tv"),
    ("Service-Play-Timestamp", "1767268800"),
    ("Range", "bytes=0-3"),
    ("If-Range", "\"x\""),
];

/// Sends requests as the operator and the partner of the batch.
struct Setup<'a> {
    server: &'a TestServer,
    batch: u64,
    admin: &'a str,
    partner: &'a str,
}

impl Setup<'_> {
    /// Sends an operator's request that must succeed.
    fn operator_ok(&self, method: &str, target: &str, body: &Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.operator(method, target, &body)
    }

    /// Returns a unique e-mail address.
    fn email(&self, name: &str) -> String {
        format!("{name}{}@example.com", self.batch)
    }

    fn operator(&self, method: &str, target: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.admin);
        let target = format!("/admin/v1/{target}");
        let bytes = request(method, &target, &[("Authorization", &bearer)], body);
        let answer = ask(self.server.ops, bytes);
        let text = String::from_utf8_lossy(&answer.body);
        assert!(
            answer.status < 300,
            "{method} {target}: {} {text}",
            answer.status
        );
        answer
    }

    /// Starts a session of `film`. Returns the response to the preflight.
    fn start_playback(&self, user: &str, label: &str, drm: &str, protocol: &str) -> Value {
        let bearer = format!("Bearer {user}");
        let device = if label.is_empty() { "tv" } else { label };
        let mut headers = vec![
            ("Service-AccessToken", self.partner),
            ("Authorization", &bearer),
        ];
        let post = |target: &str, headers: &[(&str, &str)]| {
            let answer = ask(self.server.public, request("POST", target, headers, ""));
            let text = String::from_utf8_lossy(&answer.body);
            assert_eq!(answer.status, 200, "{target}: {text}");
            answer
        };
        let token = text(&post("/api/entitlement/v2/asset/film", &headers), "token");
        headers.extend([
            ("Service-Play-DRM", drm),
            ("Service-Play-Protocol", protocol),
            ("Service-Play-EntitlementId", &token),
            ("Service-Play-DevicePlatform", "linux"),
            ("Service-Play-DeviceType", "tv"),
            ("Service-Play-DeviceModel", "Model"),
            ("Service-Play-DeviceId", device),
        ]);
        post("/api/playback/v2/preflight/asset/film", &headers).json()
    }
}
