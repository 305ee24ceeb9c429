//! The viewers: what each sends, and how often.

#![allow(dead_code, reason = "`growth` sends heartbeats only")]

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;

use crate::yardstick::client;
use crate::yardstick::client::{Answer, request};
use crate::yardstick::load::{Wire, connect, exchange};
use crate::yardstick::secure::Secure;
use crate::yardstick::server::Server;

/// The seconds between two actions of one viewer: a heartbeat every 10 s as the interface demands, the current
/// broadcast once a minute, a batch of events a minute, another programme every 20 minutes, a login a day (tokens last
/// 30 days).
pub const MIX: [(Route, f64); 5] = [
    (Route::Heartbeat, 10.0),
    (Route::Schedule, 60.0),
    (Route::Telemetry, 60.0),
    (Route::Start, 1_200.0),
    (Route::LogIn, 86_400.0),
];
const EVENTS: u64 = 4;
/// Concurrent sign-ups in [`Audience::gather`].
const AT_ONCE: usize = 8;
const LICENSE: &str = r#"{"kids":["WtHA3gAAQACAAAAAAAAAAQ"],"type":"temporary"}"#;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Heartbeat,
    Schedule,
    Telemetry,
    /// Entitlement, preflight and license.
    Start,
    LogIn,
}

impl Route {
    pub fn name(self) -> &'static str {
        match self {
            Self::Heartbeat => "heartbeat",
            Self::Schedule => "schedule",
            Self::Telemetry => "telemetry",
            Self::Start => "start",
            Self::LogIn => "log-in",
        }
    }

    pub fn requests(self) -> u64 {
        if self == Self::Start { 3 } else { 1 }
    }
}

pub struct Audience {
    pub viewers: Vec<Viewer>,
}

impl Audience {
    /// Starts `sessions` sessions, each on its own device, of users with `devices` devices each.
    pub fn gather(server: &Server, sessions: usize, devices: usize) -> Self {
        let partner = server.greeting_member("partnerToken");
        let address = client::address_of(server);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let viewers = runtime.block_on(async {
            let mut running = JoinSet::new();
            for first in 0..AT_ONCE {
                let (partner, address) = (partner.clone(), address.clone());
                running.spawn(async move {
                    let mut wire = connect(&address).await;
                    let mut viewers = Vec::new();
                    for user in (first..sessions.div_ceil(devices)).step_by(AT_ONCE) {
                        let mut bearer = String::new();
                        for number in (user * devices..sessions).take(devices) {
                            let mut viewer = Viewer::new(&partner, user, number, bearer);
                            viewer.begin(&mut wire).await;
                            bearer = viewer.bearer.clone();
                            viewers.push(viewer);
                        }
                    }
                    viewers
                });
            }
            running.join_all().await
        });
        Self {
            viewers: viewers.into_iter().flatten().collect(),
        }
    }
}

pub struct Viewer {
    user: usize,
    number: usize,
    partner: String,
    bearer: String,
    entitlement: String,
    session: String,
    /// The `seqId` of the next event.
    sequence: u64,
    buffer: Vec<u8>,
}

impl Viewer {
    fn new(partner: &str, user: usize, number: usize, bearer: String) -> Self {
        Self {
            user,
            number,
            partner: partner.to_owned(),
            bearer,
            entitlement: String::new(),
            session: String::new(),
            sequence: 0,
            buffer: Vec::new(),
        }
    }

    /// Signs the user up, unless another device of the same user has, and starts the session.
    async fn begin(&mut self, wire: &mut impl Wire) {
        if self.bearer.is_empty() {
            let path = "/api/login/v2/auth/email";
            let signed_up = self.ask(wire, "PUT", path, &self.secret()).await;
            self.bearer = format!("Bearer {}", signed_up.member("token"));
        }
        self.start(wire).await;
    }

    pub async fn connect(address: &str, secure: Option<&Secure>) -> Box<dyn Wire> {
        match secure {
            Some(secure) => Box::new(secure.connect().await),
            None => Box::new(connect(address).await),
        }
    }

    /// Does one action. Fails unless it succeeds: a refused request is cheap and would flatter the result.
    pub async fn act(&mut self, wire: &mut impl Wire, route: Route) {
        match route {
            Route::Heartbeat => {
                let beat = self.beat();
                expect(&exchange(wire, &beat, &mut self.buffer).await, 200);
            }
            Route::Schedule => {
                let path = "/api/schedule/v1/broadcasts/live?livestreams=open";
                expect(&self.ask(wire, "GET", path, "").await, 200);
            }
            Route::Telemetry => {
                let body = self.events();
                let path = "/api/tracker/v1/telemetry-events";
                expect(&self.ask(wire, "POST", path, &body).await, 202);
            }
            Route::Start => self.start(wire).await,
            Route::LogIn => {
                let path = "/api/login/v2/auth/email";
                let answer = self.ask(wire, "POST", path, &self.secret()).await;
                self.bearer = format!("Bearer {}", answer.member("token"));
            }
        }
    }

    async fn start(&mut self, wire: &mut impl Wire) {
        let answer = self
            .ask(wire, "POST", "/api/entitlement/v2/asset/open", "")
            .await;
        self.entitlement = answer.member("token");
        let path = "/api/playback/v2/preflight/asset/open";
        let answer = self.ask(wire, "POST", path, "").await;
        self.session = answer.member("Service-Play-Session");
        let path = "/api/playback/v1/clearkey/license";
        expect(&self.ask(wire, "POST", path, LICENSE).await, 200);
    }

    fn secret(&self) -> String {
        let user = self.user;
        format!(
            r#"{{"identity":"viewer{user}@bench.example","accessKey":"a long enough secret {user}"}}"#
        )
    }

    fn events(&mut self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("after 1970").as_millis();
        let events: Vec<_> = (0..EVENTS)
            .map(|nth| {
                format!(
                    r#"{{"timestamp":{now},"action":"playback_bitrate_changed","seqId":{},"source":"PLAYER","context":{{"asset_id":"open","device_id":"device-{}","session_id":"{}","playback_bitrate":2500000}}}}"#,
                    self.sequence + nth,
                    self.number,
                    self.session
                )
            })
            .collect();
        self.sequence += EVENTS;
        format!("[{}]", events.join(","))
    }

    pub fn beat(&self) -> Vec<u8> {
        self.request("POST", "/api/playback/v1/heartbeat", "")
    }

    async fn ask(&mut self, wire: &mut impl Wire, method: &str, path: &str, body: &str) -> Answer {
        let ask = self.request(method, path, body);
        exchange(wire, &ask, &mut self.buffer).await
    }

    /// A request with all headers that a player sends, except those whose value is not known yet.
    fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let device = format!("device-{}", self.number);
        let headers = [
            ("Service-AccessToken", self.partner.as_str()),
            ("Authorization", &self.bearer),
            ("Service-Play-EntitlementId", &self.entitlement),
            ("Service-Play-Session", &self.session),
            ("Service-Play-DRM", "clearkey"),
            ("Service-Play-Protocol", "dash"),
            ("Service-Play-DevicePlatform", "linux"),
            ("Service-Play-DeviceType", "desktop"),
            ("Service-Play-DeviceModel", "bench"),
            ("Service-Play-DeviceId", &device),
            ("Service-Play-Timestamp", "0"),
            ("Service-Play-Bitrate", "2500000"),
            ("Service-Play-ResolutionWidth", "1280"),
            ("Service-Play-ResolutionHeight", "720"),
        ];
        let known: Vec<_> = headers
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .collect();
        request(method, path, &known, body)
    }
}

fn expect(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.text());
}
