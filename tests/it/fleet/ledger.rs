//! Clients of a fleet and the ledger of their responses: sign-ups, which may not be lost or doubled, and registers,
//! whose reads must be linearizable.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::machines::MACHINES;
use super::purchases::Purchase;
use super::send;
use crate::support::server::PASSWORD;

pub const REST: Duration = Duration::from_millis(20);

/// The responses to clients.
#[derive(Default)]
pub struct Ledger {
    pub acknowledged: BTreeSet<String>,
    /// Requests without a response or with a refusal, which may have been applied.
    pub unknown: BTreeSet<String>,
    /// Users who began to watch.
    pub purchases: Vec<Purchase>,
    /// Acknowledged requests and answered reads.
    pub operations: usize,
    /// The times of acknowledgements.
    times: Vec<Instant>,
    pub reads: Reads,
    /// Reads that contradict every order of the operations.
    pub impossible: Vec<String>,
}

/// The outcomes of reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub answered: usize,
    /// Attempts that a member refused, by its message.
    pub refused: BTreeMap<String, usize>,
    /// Attempts whose connection failed or was cut off.
    pub broken: usize,
    /// Reads that no member answered, by the highest number of machines without power meanwhile.
    pub unanswered: [usize; MACHINES + 1],
}

/// The number of machines that have no power, or do not listen yet after it is back.
#[derive(Clone, Default)]
pub struct PowerlessMachines(Arc<AtomicUsize>);

impl PowerlessMachines {
    pub fn set(&self, machines: usize) {
        self.0.store(machines, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Reads {
    pub fn all_refused(&self) -> usize {
        self.refused.values().sum()
    }

    pub fn unanswered_since(&self, before: &Self) -> [usize; MACHINES + 1] {
        std::array::from_fn(|powerless| self.unanswered[powerless] - before.unanswered[powerless])
    }

    /// Describes the outcomes since `before`.
    pub fn since(&self, before: &Self) -> String {
        let refused = self.refused.iter().map(|(why, count)| {
            let old = before.refused.get(why).copied().unwrap_or_default();
            (why, count - old)
        });
        let refused = refused.filter(|(_, count)| *count > 0);
        let refused: Vec<_> = refused
            .map(|(why, count)| format!("{count} {why:?}"))
            .collect();
        let [some, one, two, all] = self.unanswered_since(before);
        format!(
            "{} answered, {} by no member, {two} with two and {all} with all machines without power; attempts: {} broken off, {} refused ({})",
            self.answered - before.answered,
            some + one,
            self.broken - before.broken,
            self.all_refused() - before.all_refused(),
            refused.join(", "),
        )
    }
}

/// Returns the message of a refusal, which is empty if there is no owner.
fn reason(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let message = body.pointer("/error/message").and_then(Value::as_str);
    message.unwrap_or("no owner").to_owned()
}

impl Ledger {
    /// Compares a list of users with the ledger. Returns the differences.
    pub fn check(&self, users: &[String]) -> Vec<String> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for user in users {
            *counts.entry(user).or_default() += 1;
        }
        let lost = self
            .acknowledged
            .iter()
            .filter(|user| !counts.contains_key(user.as_str()));
        let doubled = counts.iter().filter(|(_, count)| **count > 1);
        let invented = users.iter().filter(|user| {
            user.starts_with("w")
                && !self.acknowledged.contains(*user)
                && !self.unknown.contains(*user)
        });
        lost.map(|user| format!("lost {user}"))
            .chain(doubled.map(|(user, count)| format!("{user} is there {count} times")))
            .chain(invented.map(|user| format!("invented {user}")))
            .chain(self.impossible.iter().cloned())
            .collect()
    }

    /// Returns the longest time without an acknowledgement.
    pub fn longest_gap(&self, since: Instant, until: Instant) -> Duration {
        let mut last = since;
        let mut longest = Duration::ZERO;
        for time in self.times.iter().filter(|time| **time >= since) {
            longest = longest.max(time.duration_since(last));
            last = *time;
        }
        longest.max(until.saturating_duration_since(last))
    }

    /// Returns the longest time between two acknowledgements.
    pub fn longest_gap_between(&self) -> Duration {
        let pairs = self.times.windows(2);
        let gaps = pairs.map(|pair| pair[1].duration_since(pair[0]));
        gaps.max().unwrap_or_default()
    }

    pub fn clear_times(&mut self) {
        self.times.clear();
    }
}

/// A user's name, which one client sets to growing numbers and others read.
pub struct Register {
    id: String,
    bearer: String,
    attempted: u64,
    acknowledged: u64,
    /// The largest number that a completed read has returned.
    seen: u64,
}

impl Register {
    fn sign_up(clients: &Clients<'_>, address: SocketAddr) -> Option<Self> {
        let (email, answer) = clients.sign_up(address)?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        let mut ledger = clients.ledger.lock().unwrap();
        ledger.acknowledged.insert(email);
        Some(Self {
            id: answer["userId"].as_str()?.to_owned(),
            bearer: format!("Bearer {}", answer["token"].as_str()?),
            attempted: 0,
            acknowledged: 0,
            seen: 0,
        })
    }

    /// The smallest number that a read may return that begins now.
    fn floor(&self) -> u64 {
        self.acknowledged.max(self.seen)
    }

    /// Records a read that began with this floor. Returns a message if it is not linearizable.
    fn record(&mut self, floor: u64, value: u64) -> Option<String> {
        let possible = (floor..=self.attempted).contains(&value);
        self.seen = self.seen.max(value);
        let (id, attempted) = (&self.id, self.attempted);
        (!possible).then(|| format!("user {id}: read {value}, expected {floor} to {attempted}"))
    }
}

pub fn email(number: usize) -> String {
    format!("w{number}@example.com")
}

#[derive(Clone, Copy)]
pub struct Clients<'a> {
    pub partner: &'a str,
    pub ledger: &'a Mutex<Ledger>,
    pub next: &'a AtomicUsize,
    pub stop: &'a AtomicBool,
    /// One for each address.
    pub registers: &'a [Mutex<Option<Register>>],
    pub powerless: &'a PowerlessMachines,
}

impl Clients<'_> {
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns e-mail address and response if the sign-up was acknowledged.
    pub fn sign_up(&self, address: SocketAddr) -> Option<(String, String)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let email = email(number);
        let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
        let headers = [("Service-AccessToken", self.partner)];
        match send(address, "PUT", "/api/login/v2/auth/email", &headers, &body) {
            Some((200, body)) => Some((email, body)),
            Some((503, _)) | None => {
                self.ledger.lock().unwrap().unknown.insert(email);
                None
            }
            Some((status, body)) => panic!("{status}: {body}"),
        }
    }

    pub fn write(&self, address: SocketAddr) {
        while !self.is_stopping() {
            if let Some((email, _)) = self.sign_up(address) {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.times.push(Instant::now());
                ledger.operations += 1;
                ledger.acknowledged.insert(email);
            }
            park_timeout(REST);
        }
    }

    /// Sets a register to growing numbers.
    pub fn count(&self, at: usize, address: SocketAddr) {
        let register = &self.registers[at];
        while !self.is_stopping() {
            park_timeout(2 * REST);
            let mut current = register.lock().unwrap();
            if current.is_none() {
                drop(current);
                let new = Register::sign_up(self, address);
                *register.lock().unwrap() = new;
                continue;
            }
            let Some(register_now) = current.as_mut() else {
                continue;
            };
            register_now.attempted += 1;
            let number = register_now.attempted;
            let (id, bearer) = (register_now.id.clone(), register_now.bearer.clone());
            drop(current);
            let body = json!({"name": number.to_string()}).to_string();
            let target = format!("/api/user/v1/users/{id}");
            let answer = self.as_user(address, "PUT", &target, &bearer, &body);
            let mut current = register.lock().unwrap();
            match (answer, current.as_mut()) {
                (Some((200 | 204, _)), Some(register)) => {
                    register.acknowledged = number;
                    self.ledger.lock().unwrap().operations += 1;
                }
                // The write may still be applied after the next one, so reads of this user prove nothing any more.
                (Some((503, _)) | None, _) => *current = None,
                (Some((status, body)), _) => panic!("{status}: {body}"),
            }
        }
    }

    /// Reads at a machine that is a member at times, or has a copy of one.
    pub fn read_where_there_may_be_none(&self, at: SocketAddr, members: &[SocketAddr]) {
        let all = [&[at], members].concat();
        while !self.is_stopping() {
            park_timeout(10 * REST);
            if TcpStream::connect_timeout(&at, REST).is_ok() {
                self.read_while(&all, || TcpStream::connect_timeout(&at, REST).is_ok());
            }
        }
    }

    /// Reads all registers. A read that a member refuses or cuts off is retried at the next one, as the documented
    /// proxy does.
    pub fn read(&self, members: &[SocketAddr]) {
        self.read_while(members, || true);
    }

    fn read_while(&self, members: &[SocketAddr], goes_on: impl Fn() -> bool) {
        let mut at = 0;
        while !self.is_stopping() && goes_on() {
            park_timeout(REST);
            at = (at + 1) % self.registers.len();
            let before = self.registers[at].lock().unwrap();
            let Some((id, bearer, floor)) = before.as_ref().map(|register| {
                (
                    register.id.clone(),
                    register.bearer.clone(),
                    register.floor(),
                )
            }) else {
                continue;
            };
            drop(before);
            let target = format!("/api/user/v1/users/{id}");
            let mut powerless = self.powerless.get();
            let answer = self.read_once(members, &target, &bearer, &mut powerless);
            let mut register = self.registers[at].lock().unwrap();
            let mut ledger = self.ledger.lock().unwrap();
            match answer {
                Some((200, body)) => {
                    ledger.reads.answered += 1;
                    ledger.operations += 1;
                    let body: Value = serde_json::from_str(&body).unwrap();
                    let value = body["name"].as_str().unwrap_or("0").parse().unwrap();
                    let same = register.as_mut().filter(|register| register.id == id);
                    let wrong = same.and_then(|register| register.record(floor, value));
                    ledger.impossible.extend(wrong);
                }
                None => ledger.reads.unanswered[powerless] += 1,
                Some((status, body)) => {
                    // A user who was acknowledged must exist, so any other status is a lost write.
                    ledger
                        .impossible
                        .push(format!("user {id}: {status}: {body}"));
                }
            }
        }
    }

    /// Tries each member once, until one does not refuse. `dark` becomes the highest number of machines without power
    /// meanwhile.
    fn read_once(
        &self,
        members: &[SocketAddr],
        target: &str,
        bearer: &str,
        powerless: &mut usize,
    ) -> Option<(u16, String)> {
        members.iter().find_map(|member| {
            let answer = self.as_user(*member, "GET", target, bearer, "");
            *powerless = self.powerless.get().max(*powerless);
            let reads = &mut self.ledger.lock().unwrap().reads;
            match answer {
                Some((503, body)) => *reads.refused.entry(reason(&body)).or_default() += 1,
                Some((200, body)) if serde_json::from_str::<Value>(&body).is_err() => {
                    reads.broken += 1;
                }
                None => reads.broken += 1,
                answered => return answered,
            }
            None
        })
    }

    fn as_user(
        &self,
        address: SocketAddr,
        method: &str,
        target: &str,
        bearer: &str,
        body: &str,
    ) -> Option<(u16, String)> {
        let headers = [
            ("Service-AccessToken", self.partner),
            ("Authorization", bearer),
        ];
        send(address, method, target, &headers, body)
    }
}

/// Control: each kind of violation is detected.
#[test]
fn a_lost_doubled_or_invented_user_and_an_impossible_read_are_found() {
    let mut ledger = Ledger::default();
    ledger.acknowledged.extend(["w1", "w2"].map(str::to_owned));
    ledger.unknown.insert("w3".to_owned());
    let users = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let none = Vec::<String>::new();
    assert_eq!(ledger.check(&users(&["ann", "w1", "w2"])), none);
    assert_eq!(ledger.check(&users(&["w1", "w2", "w3"])), none);
    assert_eq!(ledger.check(&users(&["w1"])), ["lost w2"]);
    let doubled = ledger.check(&users(&["w1", "w2", "w2"]));
    assert_eq!(doubled, ["w2 is there 2 times"]);
    assert_eq!(ledger.check(&users(&["w1", "w2", "w4"])), ["invented w4"]);

    let mut register = Register {
        id: "1".to_owned(),
        bearer: String::new(),
        attempted: 7,
        acknowledged: 6,
        seen: 0,
    };
    let floor = register.floor();
    // The write of 7 is unacknowledged, so both values are possible.
    assert_eq!(register.record(floor, 6), None);
    assert_eq!(register.record(floor, 7), None);
    // A read that began before the last one ended may be older; one that began later may not.
    assert_eq!(register.record(floor, 6), None);
    let floor = register.floor();
    assert!(register.record(floor, 6).is_some());
    assert!(register.record(6, 5).is_some());
    assert!(register.record(6, 8).is_some());
}
