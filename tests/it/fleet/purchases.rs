//! Clients whose every step is at another member than the one before: a sign-up, an entitlement, a start of playback, and
//! the list of what the user plays. Each step needs the acknowledged ones before it.

use std::net::SocketAddr;
use std::thread::park_timeout;

use serde_json::Value;

use super::ledger::{Clients, REST};
use super::send;
use super::viewer::DEVICE;

const ASSET: &str = "film-clear";

/// The answers that a user got.
#[derive(Clone, Debug)]
pub struct Purchase {
    id: String,
    bearer: String,
    entitlement: String,
    session: String,
}

/// Why a client has no answer that it can go on with.
enum Broken {
    /// The connection failed, or the members refused for now. The change may have been made.
    Unknown,
    /// An answer that acknowledged changes rule out.
    Wrong(String),
}

fn text(value: &Value) -> Result<String, Broken> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Broken::Wrong(format!("{value} is no text")))
}

/// Makes a request that must succeed if it is answered.
fn ask(
    partner: &str,
    at: SocketAddr,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
) -> Result<Value, Broken> {
    let headers = [&[("Service-AccessToken", partner)][..], headers].concat();
    match send(at, method, target, &headers, "") {
        Some((200, body)) => serde_json::from_str(&body).map_err(|_| Broken::Unknown),
        None | Some((503, _)) => Err(Broken::Unknown),
        Some((status, body)) => Err(Broken::Wrong(format!(
            "{method} {target}: {status}: {body}"
        ))),
    }
}

impl Purchase {
    fn authorization(&self) -> [(&str, &str); 1] {
        [("Authorization", &self.bearer)]
    }

    /// Uses the entitlement. Returns the new session.
    fn play(&self, partner: &str, at: SocketAddr) -> Result<String, Broken> {
        let entitlement = ("Service-Play-EntitlementId", &*self.entitlement);
        let headers = [&self.authorization()[..], &[entitlement], &DEVICE].concat();
        let target = format!("/api/playback/v2/preflight/asset/{ASSET}");
        let began = ask(partner, at, ("POST", &target), &headers)?;
        text(&began["headers"]["Service-Play-Session"])
    }

    fn sessions(&self, partner: &str, at: SocketAddr) -> Result<Vec<String>, Broken> {
        let target = format!("/api/user/v1/users/{}/sessions", self.id);
        let all = ask(partner, at, ("GET", &target), &self.authorization())?;
        let all = all.as_array().into_iter().flatten();
        let playing = all.filter(|one| one["kind"] == "playback");
        playing.map(|one| text(&one["sessionId"])).collect()
    }

    /// Returns what is wrong with a list of the user's running sessions.
    fn compare(&self, found: &[String]) -> Option<String> {
        match found {
            [one] if *one == self.session => None,
            [] => Some(format!("lost session {} of user {}", self.session, self.id)),
            _ => Some(format!(
                "user {}: sessions {found:?}, expected {}",
                self.id, self.session
            )),
        }
    }

    /// Whether the fleet has exactly one entitlement of the user, and it still counts.
    pub fn check(&self, partner: &str, at: SocketAddr) -> Vec<String> {
        let target = format!("/api/user/v1/users/{}/export", self.id);
        let mut wrong = Vec::new();
        match ask(partner, at, ("GET", &target), &self.authorization()) {
            Ok(export) => {
                let entitlements = export["entitlements"].as_array().map_or(0, Vec::len);
                wrong.extend(count_is_one(&self.id, entitlements));
            }
            Err(Broken::Wrong(why)) if why.contains("TOO_MANY_ATTEMPTS") => {}
            Err(Broken::Wrong(why)) => wrong.push(why),
            Err(Broken::Unknown) => {}
        }
        if let Err(Broken::Wrong(why)) = self.play(partner, at) {
            wrong.push(format!("lost entitlement of user {}: {why}", self.id));
        }
        wrong
    }
}

fn count_is_one(user: &str, entitlements: usize) -> Option<String> {
    match entitlements {
        1 => None,
        0 => Some(format!("lost entitlement of user {user}")),
        count => Some(format!("user {user} has {count} entitlements")),
    }
}

impl Clients<'_> {
    /// Signs up users who begin to watch, until the clients stop.
    pub fn purchase(&self, members: &[SocketAddr]) {
        while !self.is_stopping() {
            park_timeout(5 * REST);
            let done = self.purchase_once(members);
            let mut ledger = self.ledger.lock().unwrap();
            match done {
                Ok(purchase) => ledger.purchases.push(purchase),
                Err(Broken::Unknown) => {}
                Err(Broken::Wrong(why)) => ledger.impossible.push(why),
            }
        }
    }

    fn purchase_once(&self, members: &[SocketAddr]) -> Result<Purchase, Broken> {
        let Some((email, answer)) = self.sign_up(members[0]) else {
            return Err(Broken::Unknown);
        };
        let mut ledger = self.ledger.lock().unwrap();
        ledger.acknowledged.insert(email);
        drop(ledger);
        // An answer that was cut off: the status had arrived.
        let user: Value = serde_json::from_str(&answer).map_err(|_| Broken::Unknown)?;
        let mut purchase = Purchase {
            id: text(&user["userId"])?,
            bearer: format!("Bearer {}", text(&user["token"])?),
            entitlement: String::new(),
            session: String::new(),
        };
        let target = format!("/api/entitlement/v2/asset/{ASSET}");
        let authorization = purchase.authorization();
        let right = ask(self.partner, members[1], ("POST", &target), &authorization)?;
        purchase.entitlement = text(&right["token"])?;
        purchase.session = purchase.play(self.partner, members[2])?;
        let found = purchase.sessions(self.partner, members[0])?;
        let mut ledger = self.ledger.lock().unwrap();
        ledger.operations += 4;
        ledger.impossible.extend(purchase.compare(&found));
        Ok(purchase)
    }
}

/// Checks users who began to watch, each at another member.
pub fn check(purchases: &[Purchase], partner: &str, members: &[SocketAddr]) -> Vec<String> {
    let at = members.iter().cycle();
    let pairs = purchases.iter().zip(at);
    pairs
        .flat_map(|(purchase, at)| purchase.check(partner, *at))
        .collect()
}

/// Control: each kind of violation is found.
#[test]
fn a_lost_or_doubled_session_or_entitlement_is_found() {
    let purchase = Purchase {
        id: "7".to_owned(),
        bearer: String::new(),
        entitlement: "e".to_owned(),
        session: "s".to_owned(),
    };
    let found = |sessions: &[&str]| {
        let sessions: Vec<_> = sessions.iter().map(|id| (*id).to_owned()).collect();
        purchase.compare(&sessions)
    };
    assert_eq!(found(&["s"]), None);
    assert_eq!(found(&[]).unwrap(), "lost session s of user 7");
    assert!(found(&["s", "s"]).is_some() && found(&["t"]).is_some());
    assert_eq!(count_is_one("7", 1), None);
    assert_eq!(count_is_one("7", 0).unwrap(), "lost entitlement of user 7");
    assert!(count_is_one("7", 2).is_some());
}
