//! Reads at a member that may no longer be the owner: it never answers with an older state.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::trial::Fleet;
use super::viewer::Viewer;
use super::{send, until};
use crate::support::raw_http::request;
use crate::support::server::PASSWORD;

/// Longer than usual, so that a busy machine does not lose its lease.
const LEASE: Duration = Duration::from_secs(4);

fn fleet() -> Option<Fleet> {
    let lease = format!("{}s", LEASE.as_secs());
    Fleet::with(&[("PLAYGATE_FLEET_LEASE", &lease)])
}

pub struct User {
    pub target: String,
    partner: String,
    bearer: String,
}

impl User {
    pub fn sign_up(fleet: &Fleet, at: SocketAddr, email: &str) -> Self {
        let (status, body) = Self::ask_sign_up(fleet, at, email).unwrap();
        assert_eq!(status, 200, "{body}");
        Self::of(fleet, &body)
    }

    /// Returns `None` unless the sign-up was acknowledged.
    pub fn try_sign_up(fleet: &Fleet, at: SocketAddr, email: &str) -> Option<Self> {
        let (status, body) = Self::ask_sign_up(fleet, at, email)?;
        (status == 200).then(|| Self::of(fleet, &body))
    }

    fn ask_sign_up(fleet: &Fleet, at: SocketAddr, email: &str) -> Option<(u16, String)> {
        let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
        let headers = [("Service-AccessToken", &*fleet.partner)];
        send(at, "PUT", "/api/login/v2/auth/email", &headers, &body)
    }

    fn of(fleet: &Fleet, body: &str) -> Self {
        let body: Value = serde_json::from_str(body).unwrap();
        Self {
            target: format!("/api/user/v1/users/{}", body["userId"].as_str().unwrap()),
            partner: fleet.partner.clone(),
            bearer: format!("Bearer {}", body["token"].as_str().unwrap()),
        }
    }

    pub fn headers(&self) -> [(&str, &str); 2] {
        [
            ("Service-AccessToken", &self.partner),
            ("Authorization", &self.bearer),
        ]
    }

    pub fn rename(&self, at: SocketAddr, name: &str) -> Option<u16> {
        let body = json!({ "name": name }).to_string();
        let (status, _) = send(at, "PUT", &self.target, &self.headers(), &body)?;
        Some(status)
    }

    pub fn read(&self, at: SocketAddr) -> Option<(u16, String)> {
        send(at, "GET", &self.target, &self.headers(), "")
    }

    /// Sends a read on an open connection.
    fn ask(&self, stream: &mut TcpStream) {
        let text = request("GET", &self.target, &self.headers(), "");
        stream.write_all(text.as_bytes()).unwrap();
    }
}

/// Returns the response to [`User::ask`], or nothing if the connection ended.
fn answer(stream: &mut TcpStream) -> String {
    let mut buffer = [0; 16 * 1024];
    let length = stream.read(&mut buffer).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn an_owner_that_was_paused_does_not_answer_from_its_old_state() {
    let Some(fleet) = fleet() else { return };
    let owner = fleet.owner();
    let (old, process) = (fleet.members[owner].address, &fleet.members[owner].process);
    let user = User::sign_up(&fleet, old, "paused@example.com");
    assert_eq!(user.rename(old, "before"), Some(200));

    // The process accepts the connection before it is paused.
    let mut stream = TcpStream::connect(old).unwrap();
    stream.set_read_timeout(Some(LEASE * 5)).unwrap();
    user.ask(&mut stream);
    assert!(answer(&mut stream).contains("before"));

    // Control: after a pause without a takeover, a waiting request is answered from memory.
    process.pause();
    user.ask(&mut stream);
    park_timeout(LEASE / 8);
    process.resume();
    let answered = answer(&mut stream);
    let is_right = answered.starts_with("HTTP/1.1 200") && answered.contains("before");
    assert!(is_right, "{answered}");

    process.pause();
    user.ask(&mut stream);
    let next = fleet.members[(owner + 1) % 3].address;
    until("a change at the next owner", || {
        (user.rename(next, "after") == Some(200)).then_some(())
    });
    process.resume();
    let answered = answer(&mut stream);
    assert!(!answered.contains("before"), "{answered}");
    let is_refused = answered.is_empty() || answered.starts_with("HTTP/1.1 503");
    assert!(is_refused || answered.contains("after"), "{answered}");
    // Later reads are right too, at any member.
    until("an answer of the member that was paused", || {
        let (status, body) = user.read(old)?;
        assert!(!body.contains("before"), "{body}");
        (status == 200 && body.contains("after")).then_some(())
    });
}

/// Without etcd a member can become the owner only if etcd answers it, and all members promise that it does not.
#[test]
fn reads_go_on_without_etcd_while_every_member_promises_not_to_take_over() {
    let Some(fleet) = fleet() else { return };
    let owner = fleet.owner();
    let (at, standby) = (
        fleet.members[owner].address,
        &fleet.members[(owner + 1) % 3],
    );
    let user = User::sign_up(&fleet, at, "away@example.com");
    assert_eq!(user.rename(at, "before"), Some(200));
    let viewer = Viewer::start(&fleet.partner, at).unwrap();
    // The owner knows its members by now.
    fleet.wait_until_equal();
    park_timeout(Duration::from_secs(4));

    fleet.pause_etcd_majority();
    let end = Instant::now() + 4 * LEASE;
    while Instant::now() < end {
        let (status, body) = user.read(at).unwrap();
        assert!(status == 200 && body.contains("before"), "{status}: {body}");
        assert_eq!(viewer.beat(at), Some(200));
        // A session may send ten heartbeats in five seconds.
        park_timeout(Duration::from_millis(700));
    }
    assert_eq!(user.rename(at, "refused"), Some(503));

    // A member that does not respond might have become the owner.
    standby.process.pause();
    until("the end of reads", || {
        let (status, body) = user.read(at)?;
        assert!(status == 503 || body.contains("before"), "{status}: {body}");
        (status == 503).then_some(())
    });
    assert_eq!(
        viewer.beat(at),
        Some(200),
        "a heartbeat waits for none of this"
    );
    standby.process.resume();
    fleet.resume_etcd_majority();
    until("a change", || {
        (user.rename(at, "after") == Some(200)).then_some(())
    });
    until("a read", || {
        let (status, body) = user.read(at)?;
        assert!(status == 503 || body.contains("after"), "{status}: {body}");
        (status == 200).then_some(())
    });
}

/// A refused connection makes a client give up, whereas one that waits needs no other member.
#[test]
fn connections_wait_at_a_member_that_starts_while_etcd_is_away() {
    let Some(mut fleet) = fleet() else { return };
    let owner = fleet.owner();
    let user = User::sign_up(&fleet, fleet.members[owner].address, "waits@example.com");
    fleet.wait_until_equal();
    let standby = &mut fleet.members[(owner + 1) % 3];
    standby.process.stop();
    fleet.pause_etcd_majority();
    let standby = &mut fleet.members[(owner + 1) % 3];
    let lease = format!("{}s", LEASE.as_secs());
    let lease = [("PLAYGATE_FLEET_LEASE", &*lease)];
    standby.process.start(&standby.config, &lease);
    let at = standby.address;
    until("a listener", || TcpStream::connect(at).ok());
    // No member can know whether there is an owner, so every response is a refusal.
    let (status, body) = until("a response", || user.read(at));
    assert_eq!(status, 503, "{body}");

    fleet.resume_etcd_majority();
    until("a read", || {
        let (status, body) = user.read(at)?;
        assert!(matches!(status, 200 | 503), "{status}: {body}");
        (status == 200).then_some(())
    });
}

/// Without etcd nobody replaces an owner that hangs, so only a time limit ends a request that was forwarded to it.
#[test]
fn a_request_at_a_standby_is_refused_while_the_owner_hangs_and_etcd_is_away() {
    /// The deadline of the route and 5 seconds, and more on a busy machine.
    const REFUSED_WITHIN: Duration = Duration::from_secs(60);
    let Some(fleet) = fleet() else { return };
    let owner = fleet.owner();
    let standby = fleet.members[(owner + 1) % 3].address;
    fleet.wait_until_equal();
    let mut stream = TcpStream::connect(standby).unwrap();
    stream.set_read_timeout(Some(REFUSED_WITHIN)).unwrap();
    let mut ask = || {
        // A standby forwards what it would refuse. Responses to a lab partner have no time limit.
        let text = request("GET", "/api/user/v1/users/nobody", &[], "");
        stream.write_all(text.as_bytes()).unwrap();
        answer(&mut stream)
    };
    // It keeps its connection to the owner, so the next request need not open one.
    let answered = ask();
    assert!(answered.starts_with("HTTP/1.1 401"), "{answered}");

    fleet.pause_etcd_majority();
    fleet.members[owner].process.pause();
    let answered = ask();
    assert!(answered.starts_with("HTTP/1.1 503"), "{answered}");
    assert!(
        answered.contains("the owner does not respond"),
        "{answered}"
    );
    fleet.members[owner].process.resume();
    fleet.resume_etcd_majority();
}
