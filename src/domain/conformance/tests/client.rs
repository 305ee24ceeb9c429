//! A simulated client that follows every rule, with its own clock.

use std::collections::BTreeMap;

use crate::conformance::{ClientCall, ClientEvent, Conversation, CoveredProgram};

const BEGIN: i64 = 1_767_268_800_000;

/// The requests and events of a client. Mutants change them.
#[derive(Clone, Default)]
pub struct Recording {
    pub calls: Vec<ClientCall>,
    pub events: Vec<ClientEvent>,
    now: i64,
}

pub(super) fn some_text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

impl Recording {
    pub fn conversation(self) -> Conversation {
        Conversation::new(self.calls, self.events)
    }

    pub fn merge(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.events.extend(other.events);
    }

    /// The same client, as another user on another device, half a heartbeat later.
    pub fn of_other_user(mut self, name: &str) -> Self {
        let rename = |text: &mut Option<String>| {
            if let Some(text) = text {
                *text = format!("{name}-{text}");
            }
        };
        for call in &mut self.calls {
            call.id = format!("{name}-{}", call.id);
            call.at += 5_000;
            rename(&mut call.user);
            rename(&mut call.session);
            rename(&mut call.device);
            if let Some(id) = call.headers.get_mut("deviceid") {
                *id = format!("{name}-{id}");
            }
        }
        for event in &mut self.events {
            event.timestamp += 5_000;
            event.received += 5_000;
            rename(&mut event.user);
            rename(&mut event.device);
        }
        self
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now += seconds * 1_000;
    }

    /// Records a request of the user at the current time.
    pub fn call(&mut self, route: &str, status: u16) -> &mut ClientCall {
        self.now += 100;
        let id = format!("r{}", self.calls.len());
        let call = ClientCall {
            id,
            at: BEGIN + self.now,
            route: route.to_owned(),
            status,
            user: some_text("ann"),
            ..ClientCall::default()
        };
        self.calls.push(call);
        self.calls.last_mut().unwrap()
    }

    pub fn refuse(&mut self, route: &str, status: u16, code: &str) -> &mut ClientCall {
        let call = self.call(route, status);
        call.code = some_text(code);
        call
    }

    fn entitle(&mut self, asset: &str, session: Option<&str>) -> &mut ClientCall {
        let call = self.call("entitlement", 200);
        call.asset = some_text(asset);
        call.session = session.map(str::to_owned);
        call
    }

    fn play(
        &mut self,
        route: &str,
        status: u16,
        (session, asset): (&str, &str),
    ) -> &mut ClientCall {
        let call = self.call(route, status);
        call.session = some_text(session);
        call.asset = some_text(asset);
        call.device = some_text("tv");
        call.model = some_text("linux/tv/Telly 5");
        let headers = [
            "drm",
            "protocol",
            "deviceplatform",
            "devicetype",
            "devicemodel",
        ];
        call.headers = headers
            .iter()
            .map(|name| ((*name).to_owned(), "x".to_owned()))
            .collect();
        call.headers.insert("deviceid".to_owned(), "tv".to_owned());
        call
    }

    fn beat(&mut self, status: u16, of: (&str, &str), position: i64) -> &mut ClientCall {
        let call = self.play("heartbeat", status, of);
        call.headers
            .insert("timestamp".to_owned(), position.to_string());
        call
    }

    fn refuse_beat(&mut self, status: u16, code: &str, of: (&str, &str), position: i64) {
        self.beat(status, of, position).code = some_text(code);
    }

    pub fn live(&self) -> i64 {
        (BEGIN + self.now) / 1_000
    }

    fn event(&mut self, action: &str, asset: &str) {
        let timestamp = BEGIN + self.now;
        self.events.push(ClientEvent {
            received: timestamp + 900,
            timestamp,
            user: some_text("ann"),
            device: some_text("tv"),
            asset: some_text(asset),
            action: action.to_owned(),
            sequence: self.events.len() as u64 + 1,
            extra: vec![("player_version".to_owned(), "5.1".to_owned())],
            state: None,
        });
    }

    fn start(&mut self, of: (&str, &str), program: Option<CoveredProgram>) {
        self.entitle(of.1, None).program = program;
        self.play("preflight", 200, of);
        self.play("license_clearkey", 200, of).keys = some_text(of.1);
        self.event("playback_started", of.1);
    }

    fn stop(&mut self, of: (&str, &str)) {
        self.event("playback_stopped", of.1);
        self.play("end_playback", 204, of);
        self.call("telemetry", 202).events = Some(2);
    }
}

fn program(id: &str, stop: i64) -> Option<CoveredProgram> {
    Some(CoveredProgram {
        id: id.to_owned(),
        stop,
    })
}

/// Records a client that meets the situation of every rule and follows the rule.
pub fn good() -> Recording {
    let mut c = Recording::default();
    c.call("login", 200);
    browse(&mut c);
    live(&mut c);
    situations(&mut c);
    refusals(&mut c);
    c.wait(120);
    c.call("assets", 304).user = None;
    c
}

fn browse(c: &mut Recording) {
    for status in [200, 304, 304] {
        let call = c.call("live", status);
        (call.user, call.query) = (None, "livestreams=a,b&offset=-60".to_owned());
        c.wait(60);
    }
}

/// A livestream over a border of programs, with the PIN, an expired entitlement, a blackout and a token that ends.
fn live(c: &mut Recording) {
    let of = ("live", "channel");
    let stop = c.live() + 25;
    c.start(of, program("one", stop));
    for _ in 0..3 {
        let position = c.live();
        c.beat(200, of, position);
        c.wait(10);
    }
    let refused = c.entitle(of.1, Some("live"));
    (refused.status, refused.code) = (403, some_text("PIN_CODE_REQUIRED"));
    let unlocked = c.entitle(of.1, Some("live"));
    (unlocked.sends_pin, unlocked.program) = (true, program("two", stop + 3_600));
    for code in ["PIN_CODE_REQUIRED", "ENTITLEMENT_EXPIRED"] {
        let position = c.live();
        c.refuse_beat(403, code, of, position);
        c.entitle(of.1, Some("live")).program = program("two", stop + 3_600);
        c.wait(10);
    }
    let position = c.live();
    c.refuse_beat(552, "NO_LIVE_RIGHTS", of, position);
    c.event("playback_paused", of.1);
    for _ in 0..4 {
        c.wait(10);
        let position = c.live();
        c.beat(200, of, position);
    }
    c.wait(10);
    let position = c.live();
    c.beat(401, of, position);
    let refused = c.calls.last_mut().unwrap();
    (refused.code, refused.user) = (some_text("USER_TOKEN_INVALID"), None);
    c.call("login", 200);
    c.beat(200, of, position);
    c.stop(of);
}

/// Sessions that the server ends or does not know.
fn situations(c: &mut Recording) {
    for (session, status, code) in [
        ("ended", 410, "SESSION_ENDED"),
        ("unknown", 404, "SESSION_NOT_FOUND"),
    ] {
        c.wait(90);
        let of = (session, session);
        c.start(of, None);
        c.beat(200, of, 1);
        c.wait(10);
        c.refuse_beat(status, code, of, 11);
        c.event("playback_stopped", session);
    }
    c.wait(90);
    let of = ("film", "film");
    c.start(of, None);
    c.beat(200, of, 1);
    c.stop(of);
}

/// Requests that are refused or fail, each repeated as it should be, or not at all.
fn refusals(c: &mut Recording) {
    c.wait(90);
    c.entitle("full", None);
    let full = c.play("preflight", 409, ("", "full"));
    (full.session, full.code) = (None, some_text("STREAM_LIMIT_REACHED"));
    c.wait(20);
    c.refuse("devices", 429, "RATE_LIMITED").retry_after = Some(30);
    c.wait(31);
    c.call("devices", 200);
    c.refuse("offers", 500, "INTERNAL");
    c.wait(2);
    c.call("offers", 200);
    c.refuse("entitlement", 403, "NOT_ENTITLED").asset = some_text("premium");
    c.wait(20);
    c.refuse("telemetry", 400, "INVALID_REQUEST").events = Some(1);
    c.wait(70);
    c.call("telemetry", 202).events = Some(1);
}

/// Changes the calls that fit.
pub fn change(
    c: &mut Recording,
    fits: impl Fn(&ClientCall) -> bool,
    change: impl Fn(&mut ClientCall),
) {
    let mut changed = 0;
    for call in c.calls.iter_mut().filter(|call| fits(call)) {
        change(call);
        changed += 1;
    }
    assert!(changed > 0, "the mutant changes nothing");
}

/// Adds a copy of the first call that fits, some milliseconds later.
pub fn repeat(c: &mut Recording, later: i64, fits: impl Fn(&ClientCall) -> bool) {
    let found = c.calls.iter().find(|call| fits(call)).unwrap().clone();
    insert(c, later, found);
}

/// Adds a call some milliseconds after its time.
pub fn insert(c: &mut Recording, later: i64, mut call: ClientCall) {
    call.id = format!("x{}", c.calls.len());
    call.at += later;
    c.calls.push(call);
}

/// Builds a bare call of the user at the time of another one.
pub fn plain(like: &ClientCall, route: &str, status: u16) -> ClientCall {
    ClientCall {
        route: route.to_owned(),
        status,
        at: like.at,
        user: some_text("ann"),
        headers: BTreeMap::new(),
        ..ClientCall::default()
    }
}
