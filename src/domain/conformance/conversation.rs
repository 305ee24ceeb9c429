//! The input of the rules: the requests of clients with their answers, and the telemetry of their players.

use std::collections::BTreeMap;

use crate::playback::session::ALIVE_SECONDS;

/// The longest time between an entitlement and the preflight that uses it.
pub(super) const START_MAX_MILLIS: i64 = 60_000;
pub(super) const SESSION_ALIVE_MILLIS: i64 = 1_000 * ALIVE_SECONDS;

/// The programme that an entitlement of a livestream covered.
#[derive(Clone, Debug)]
pub struct CoveredProgram {
    pub id: String,
    /// Unix seconds.
    pub stop: i64,
}

/// A request and its answer. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct ClientCall {
    /// The request id, which reports name as evidence.
    pub id: String,
    pub at: i64,
    /// Until the answer was ready, which a lab may hold back.
    pub took: i64,
    pub route: String,
    pub status: u16,
    /// Whether a lab cut the connection, so that the client got no answer. Browsers then send a request again by themselves.
    pub cut: bool,
    pub code: Option<String>,
    pub user: Option<String>,
    pub session: Option<String>,
    /// A hash of the device id.
    pub device: Option<String>,
    pub model: Option<String>,
    pub asset: Option<String>,
    pub query: String,
    /// `Service-Play-*` headers, in lower case without `service-play-`.
    pub headers: BTreeMap<String, String>,
    /// Seconds.
    pub retry_after: Option<i64>,
    pub sends_pin: bool,
    /// Identifies the login session.
    pub login: Option<String>,
    /// Network and program, which tell clients apart whose requests name no user.
    pub client: String,
    /// Whether it has `If-None-Match`.
    pub revalidates: bool,
    /// The path, with the values of harmless parameters.
    pub path: String,
    /// The keys that a license request asked for, or what identifies its challenge. `None` for a request of another
    /// kind, such as that for Widevine's service certificate.
    pub keys: Option<String>,
    pub program: Option<CoveredProgram>,
    /// Telemetry events in the body, if they were counted.
    pub events: Option<u32>,
}

/// An event of telemetry. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct ClientEvent {
    pub received: i64,
    pub timestamp: i64,
    pub user: Option<String>,
    pub device: Option<String>,
    pub asset: Option<String>,
    pub action: String,
    pub sequence: u64,
    /// Names and values below `extra`.
    pub extra: Vec<(String, String)>,
    /// The state of the player, if a CMCD report has it.
    pub state: Option<String>,
}

impl ClientCall {
    pub fn is(&self, route: &str) -> bool {
        self.route == route
    }

    /// The time before which the client cannot know the answer.
    pub const fn answered(&self) -> i64 {
        self.at.saturating_add(self.took)
    }

    pub fn is_preflight(&self) -> bool {
        self.is("preflight") || self.is("preflight_v1")
    }

    pub fn is_license(&self) -> bool {
        self.route.starts_with("license_")
    }

    pub fn is_login(&self) -> bool {
        self.is("login") || self.is("sign_up")
    }

    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        // Not percent-decoded: the values that rules read are never encoded.
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The reported position: Unix seconds for live and catch-up.
    pub fn position(&self) -> Option<f64> {
        let number: f64 = self.headers.get("timestamp")?.parse().ok()?;
        // The interface recognises milliseconds by their size.
        Some(if number > 1e11 {
            number / 1_000.0
        } else {
            number
        })
    }

    /// Whether both calls ask for the same.
    pub fn repeats(&self, other: &Self) -> bool {
        self.route == other.route
            && self.path == other.path
            // A fallback to another DRM system or protocol is another request.
            && ["drm", "protocol"]
                .iter()
                .all(|name| self.headers.get(*name) == other.headers.get(*name))
            // A player asks for the keys of sound and picture separately.
            && self.keys == other.keys
            && self.asset == other.asset
            && self.query == other.query
            && self.user == other.user
            && self.device == other.device
            && self.session == other.session
    }
}

/// The calls and events of a period, ordered by time.
#[derive(Debug, Default)]
pub struct Conversation {
    pub calls: Vec<ClientCall>,
    pub events: Vec<ClientEvent>,
}

impl Conversation {
    pub fn new(mut calls: Vec<ClientCall>, mut events: Vec<ClientEvent>) -> Self {
        calls.sort_by_key(|call| call.at);
        // By the client's clock, which shows the order of events: uploads come in batches.
        events.sort_by_key(|event| (event.timestamp, event.sequence));
        let mut conversation = Self { calls, events };
        // Calls with a refused token have no user in the journal, but the rules about tokens need it.
        conversation.attribute_users();
        conversation
    }

    /// Finds the user of each request whose user token was refused, by its session or device.
    fn attribute_users(&mut self) {
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for call in &self.calls {
            let Some(user) = &call.user else { continue };
            for key in call.session.iter().chain(&call.device) {
                // The last user counts: a device may be handed over.
                owners.insert(key.clone(), user.clone());
            }
        }
        for call in &mut self.calls {
            if call.user.is_none() {
                let mut keys = call.session.iter().chain(&call.device);
                call.user = keys.find_map(|key| owners.get(key).cloned());
            }
        }
    }

    /// Keeps the calls of one session, those of its user that name no other session, and the events of its device.
    pub fn of_session(&self, session: &str) -> Self {
        let is_of_session = |call: &&ClientCall| call.session.as_deref() == Some(session);
        let (mut users, mut devices) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (i64::MAX, i64::MIN);
        for call in self.calls.iter().filter(is_of_session) {
            users.extend(call.user.as_deref());
            devices.extend(call.device.as_deref());
            from = from.min(call.at.saturating_sub(START_MAX_MILLIS));
            to = to.max(call.at.saturating_add(START_MAX_MILLIS));
        }
        // Log-in and entitlement have no session yet. They belong to it by user, device and time.
        let belongs = |call: &&ClientCall| match call.session.as_deref() {
            Some(other) => other == session,
            None => {
                let user = call
                    .user
                    .as_deref()
                    .is_none_or(|user| users.contains(&user));
                let device = call
                    .device
                    .as_deref()
                    .is_none_or(|one| devices.contains(&one));
                user && device && (from..=to).contains(&call.at)
            }
        };
        let reported = |event: &&ClientEvent| {
            let device = event.device.as_deref();
            device.is_some_and(|one| devices.contains(&one))
                && (from..=to).contains(&event.timestamp)
        };
        Self {
            calls: self.calls.iter().filter(belongs).cloned().collect(),
            events: self.events.iter().filter(reported).cloned().collect(),
        }
    }

    /// Returns the time of the last call.
    pub fn end(&self) -> i64 {
        self.calls.last().map_or(0, |call| call.at)
    }

    pub fn users(&self) -> BTreeMap<&str, Vec<&ClientCall>> {
        group(&self.calls, |call| call.user.as_deref())
    }

    pub fn sessions(&self) -> BTreeMap<&str, SessionCalls<'_>> {
        let calls = group(&self.calls, |call| call.session.as_deref());
        let sessions = calls
            .into_iter()
            .map(|(id, calls)| (id, SessionCalls { calls }));
        sessions.collect()
    }

    pub fn devices(&self) -> BTreeMap<&str, Vec<&ClientEvent>> {
        group(&self.events, |event| event.device.as_deref())
    }

    /// Returns whether a user logged in within a span of milliseconds. An application that was started again does so, and
    /// owes nothing to the session of its previous run.
    pub fn logged_in(&self, user: Option<&str>, from: i64, to: i64) -> bool {
        self.calls.iter().any(|call| {
            call.is_login()
                && call.is_ok()
                && call.user.as_deref() == user
                && (from..=to).contains(&call.at)
        })
    }

    /// Whether the next start of the title, which an entitlement without a session is for, opened another session: that
    /// of another device of the user.
    fn starts_other_session(&self, entitlement: &ClientCall, session: &SessionCalls<'_>) -> bool {
        let mut later = self.calls.iter().filter(|call| {
            call.at >= entitlement.at && call.at <= entitlement.at + START_MAX_MILLIS
        });
        let start = later.find(|call| {
            call.is_preflight()
                && call.is_ok()
                && call.user == entitlement.user
                && call.asset == entitlement.asset
        });
        start.is_some_and(|start| {
            let session_id = session
                .calls
                .first()
                .and_then(|call| call.session.as_deref());
            start.session.as_deref() != session_id && start.device.as_deref() != session.device()
        })
    }

    /// Returns the entitlements that a session rests on: those that name it, and those of its user and asset that name
    /// none, from its start on.
    pub fn entitlements<'a>(&'a self, session: &SessionCalls<'a>) -> Vec<&'a ClientCall> {
        let Some(first) = session.calls.first() else {
            return Vec::new();
        };
        let is_of_session = |call: &&ClientCall| {
            let named = call.session.is_some() && call.session == first.session;
            // The first entitlement comes before the preflight that opens the session.
            let unnamed = call.session.is_none()
                && call.user == first.user
                && session.asset().is_some()
                && call.asset.as_deref() == session.asset()
                && call.at >= first.at.saturating_sub(START_MAX_MILLIS)
                && call.at <= session.last()
                && !self.starts_other_session(call, session)
                && !self.logged_in(first.user.as_deref(), call.at, first.at);
            call.is("entitlement") && (named || unnamed)
        };
        self.calls.iter().filter(is_of_session).collect()
    }
}

fn group<'a, T>(
    all: &'a [T],
    key: impl Fn(&'a T) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a T>> {
    let mut groups: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for one in all {
        if let Some(key) = key(one) {
            groups.entry(key).or_default().push(one);
        }
    }
    groups
}

/// The calls of one playback session.
#[derive(Debug)]
pub struct SessionCalls<'a> {
    pub calls: Vec<&'a ClientCall>,
}

impl<'a> SessionCalls<'a> {
    pub fn preflight(&self) -> Option<&'a ClientCall> {
        let mut calls = self.calls.iter();
        calls
            .find(|call| call.is_preflight() && call.is_ok())
            .copied()
    }

    pub fn beats(&self) -> impl DoubleEndedIterator<Item = &'a ClientCall> {
        self.calls
            .iter()
            .copied()
            .filter(|call| call.is("heartbeat"))
    }

    pub fn end(&self) -> Option<&'a ClientCall> {
        let mut calls = self.calls.iter();
        calls
            .find(|call| call.is("end_playback") && call.is_ok())
            .copied()
    }

    pub fn asset(&self) -> Option<&'a str> {
        self.calls.iter().find_map(|call| call.asset.as_deref())
    }

    pub fn device(&self) -> Option<&'a str> {
        self.calls.iter().find_map(|call| call.device.as_deref())
    }

    pub fn last(&self) -> i64 {
        self.calls.last().map_or(0, |call| call.at)
    }
}
