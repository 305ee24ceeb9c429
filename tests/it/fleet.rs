//! A fleet under faults: three members and three etcd on loopback, as `playgate fleet try` starts them.
//!
//! Clients sign users up at every member while processes are killed and paused. Every acknowledged sign-up
//! must be there once, and the stores of all members must be equal at the end.
//! `PLAYGATE_FLEET_ROUNDS=100` is the long form.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::appliance::{binary, err};
use crate::support::external_tools::program;
use crate::support::raw_http::request;
use crate::support::server::PASSWORD;

const PATIENCE: Duration = Duration::from_secs(90);
const WRITERS: usize = 3;

/// A process of the fleet. One that is started again is started with the same command line.
struct Part {
    pid: u32,
    command: Vec<String>,
    again: Option<Child>,
}

impl Part {
    fn new(pid: u64) -> Self {
        let pid = u32::try_from(pid).unwrap();
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let words = String::from_utf8(words).unwrap();
        Self {
            pid,
            command: words
                .trim_end_matches('\0')
                .split('\0')
                .map(str::to_owned)
                .collect(),
            again: None,
        }
    }

    fn signal(&self, name: &str) {
        let id = self.pid.to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    fn kill(&mut self) {
        self.signal("KILL");
        if let Some(mut child) = self.again.take() {
            child.wait().unwrap();
        }
    }

    fn start(&mut self) {
        let mut command = binary();
        if self.command[0].ends_with("etcd") {
            command = Command::new(&self.command[0]);
        }
        command
            .args(&self.command[1..])
            .env("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000");
        let started = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.pid = started.id();
        self.again = Some(started);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(child) = &mut self.again {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Member {
    name: String,
    address: SocketAddr,
    config: PathBuf,
    part: Part,
}

struct Fleet {
    /// Before the process that owns the directory of all.
    members: Vec<Member>,
    etcd: Vec<(String, Part)>,
    partner: String,
    _trial: Trial,
}

struct Trial(Child);

impl Drop for Trial {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").arg(id).status();
        let _ = self.0.wait();
    }
}

impl Fleet {
    fn start() -> Option<Self> {
        program("etcd")?;
        let mut trial = binary()
            .args(["fleet", "try", "--json"])
            // All come from one address.
            .env("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = trial.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let list = |name: &str| said[name].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let members = list("members").into_iter().map(|member| Member {
            name: text(&member["name"]),
            address: text(&member["url"])["http://".len()..].parse().unwrap(),
            config: text(&member["config"]).into(),
            part: Part::new(member["pid"].as_u64().unwrap()),
        });
        let etcd = list("etcd")
            .into_iter()
            .map(|part| (text(&part["url"]), Part::new(part["pid"].as_u64().unwrap())));
        Some(Self {
            members: members.collect(),
            etcd: etcd.collect(),
            partner: text(&said["partnerToken"]),
            _trial: Trial(trial),
        })
    }

    /// The lines of `fleet status`: name, role and how far behind.
    fn status(&self) -> Vec<(String, String, u64)> {
        let done = playgate(&self.members[0].config, &["fleet", "status"]);
        let text = done.unwrap_or_default();
        let lines = text.lines().skip(1).map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            (
                words[0].to_owned(),
                words[1].to_owned(),
                words[4].parse().unwrap(),
            )
        });
        lines.collect()
    }

    fn owner(&self) -> usize {
        until("an owner", || {
            let status = self.status();
            let owner = status.iter().find(|(_, role, _)| role == "owner")?;
            self.members
                .iter()
                .position(|member| member.name == owner.0)
        })
    }

    fn etcd_leader(&self) -> usize {
        until("a leader of etcd", || {
            self.etcd.iter().position(|(url, _)| {
                let address = url["http://".len()..].parse().unwrap();
                let asked = post(address, "/v3/maintenance/status", &[], "{}");
                let answer: Option<Value> =
                    asked.and_then(|(_, body)| serde_json::from_str(&body).ok());
                answer.is_some_and(|answer| {
                    let leader = answer["leader"].as_str().map(str::to_owned);
                    leader.is_some() && leader.as_deref() == answer["header"]["member_id"].as_str()
                })
            })
        })
    }

    fn wait_until_equal(&self) {
        until("equal members", || {
            let status = self.status();
            let equal = status.len() == self.members.len()
                && status.iter().all(|(_, _, behind)| *behind == 0);
            equal.then_some(())
        });
    }
}

fn playgate(config: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = binary();
    command.arg("--config").arg(config).args(arguments);
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(err(&output)),
    }
}

fn until<R>(what: &str, mut find: impl FnMut() -> Option<R>) -> R {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
        park_timeout(Duration::from_millis(100));
    }
}

/// Status and body; `None` if the connection broke.
fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    let headers = [headers, &[("Connection", "close")][..]].concat();
    let text = request(method, target, &headers, body);
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}

fn post(
    address: SocketAddr,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    send(address, "POST", target, headers, body)
}

/// What clients were told.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeSet<String>,
    /// Without an answer, or refused: it may have happened.
    unknown: BTreeSet<String>,
    /// When each acknowledgement came.
    times: Vec<Instant>,
}

impl Ledger {
    /// What is wrong with a list of users.
    fn check(&self, users: &[String]) -> Vec<String> {
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
            .collect()
    }

    /// The longest time without an acknowledgement since then.
    fn longest_gap(&self, since: Instant) -> Duration {
        let times = self.times.iter().filter(|time| **time >= since);
        let mut last = since;
        let mut longest = Duration::ZERO;
        for time in times {
            longest = longest.max(time.duration_since(last));
            last = *time;
        }
        longest.max(last.elapsed())
    }
}

/// Signs users up, at one member after the other, until it is stopped.
fn write(
    partner: &str,
    addresses: &[SocketAddr],
    ledger: &Mutex<Ledger>,
    next: &AtomicUsize,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let email = format!("w{number}@example.com");
        let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
        let headers = [("Service-AccessToken", partner)];
        let address = addresses[number % addresses.len()];
        let answer = send(address, "PUT", "/api/login/v2/auth/email", &headers, &body);
        let mut ledger = ledger.lock().unwrap();
        match answer {
            Some((200, _)) => {
                ledger.times.push(Instant::now());
                ledger.acknowledged.insert(email);
            }
            Some((503, _)) | None => {
                ledger.unknown.insert(email);
            }
            Some((status, body)) => panic!("{status}: {body}"),
        }
        drop(ledger);
        park_timeout(Duration::from_millis(20));
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillOwner,
    KillEtcdLeader,
    PauseOwner,
    KillStandby,
    KillOwnerAndEtcdLeader,
}

const FAULTS: [Fault; 5] = [
    Fault::KillOwner,
    Fault::KillEtcdLeader,
    Fault::PauseOwner,
    Fault::KillOwnerAndEtcdLeader,
    Fault::KillStandby,
];

fn inject(fleet: &mut Fleet, fault: Fault) {
    let settle = || park_timeout(Duration::from_secs(5));
    match fault {
        Fault::KillOwner | Fault::KillStandby => {
            let owner = fleet.owner();
            let at = match fault {
                Fault::KillStandby => (owner + 1) % fleet.members.len(),
                _ => owner,
            };
            fleet.members[at].part.kill();
            settle();
            fleet.members[at].part.start();
        }
        Fault::KillEtcdLeader => {
            let leader = fleet.etcd_leader();
            fleet.etcd[leader].1.kill();
            settle();
            fleet.etcd[leader].1.start();
        }
        Fault::PauseOwner => {
            let owner = fleet.owner();
            fleet.members[owner].part.signal("STOP");
            settle();
            fleet.members[owner].part.signal("CONT");
        }
        Fault::KillOwnerAndEtcdLeader => {
            let (owner, leader) = (fleet.owner(), fleet.etcd_leader());
            fleet.members[owner].part.kill();
            fleet.etcd[leader].1.kill();
            settle();
            fleet.etcd[leader].1.start();
            fleet.members[owner].part.start();
        }
    }
}

fn users(config: &Path) -> Vec<String> {
    let text = until("a list of users", || {
        playgate(config, &["user", "list", "--json"]).ok()
    });
    let users: Value = serde_json::from_str(&text).unwrap();
    let users = users.as_array().unwrap().iter();
    users
        .map(|user| user["email"].as_str().unwrap().to_owned())
        .collect()
}

/// Stops every member, takes it out of the fleet, and returns what its store has.
fn exports(fleet: &mut Fleet) -> Vec<Vec<String>> {
    for member in &fleet.members {
        member.part.signal("TERM");
    }
    let mut exports = Vec::new();
    for member in &fleet.members {
        // Once the process has ended.
        until("the end of a member", || {
            playgate(&member.config, &["fleet", "leave"]).ok()
        });
        let alone = member.config.with_extension("alone.toml");
        let config = fs::read_to_string(&member.config).unwrap();
        let (config, _) = config.split_once("[fleet]").unwrap();
        fs::write(&alone, config).unwrap();
        playgate(&alone, &["store", "verify"]).unwrap();
        let export = playgate(&alone, &["store", "export", "-"]).unwrap();
        // The first line names the store.
        exports.push(export.lines().skip(1).map(str::to_owned).collect());
    }
    exports
}

#[test]
fn fleet_keeps_every_acknowledged_write_once_under_faults() {
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    let rounds = std::env::var_os("PLAYGATE_FLEET_ROUNDS");
    let rounds = rounds.map_or(3, |rounds| rounds.to_str().unwrap().parse().unwrap());
    let addresses: Vec<_> = fleet.members.iter().map(|member| member.address).collect();
    let ledger = Mutex::new(Ledger::default());
    let next = AtomicUsize::new(0);
    for round in 0..rounds {
        let fault = FAULTS[round % FAULTS.len()];
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let partner = fleet.partner.clone();
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| write(&partner, &addresses, &ledger, &next, &stop));
            }
            park_timeout(Duration::from_secs(2));
            inject(&mut fleet, fault);
            park_timeout(Duration::from_secs(3));
            stop.store(true, Ordering::Relaxed);
        });
        let ledger = ledger.lock().unwrap();
        println!(
            "round {round} {fault:?}: {} acknowledged, {} unknown, longest gap {:?}",
            ledger.acknowledged.len(),
            ledger.unknown.len(),
            ledger.longest_gap(began)
        );
    }
    fleet.wait_until_equal();
    let ledger = ledger.into_inner().unwrap();
    let users = users(&fleet.members[0].config);
    assert_eq!(ledger.check(&users), Vec::<String>::new());
    assert!(ledger.acknowledged.len() > 10 * rounds);
    // The control: a check that finds nothing finds nothing wrong.
    let mut wrong = users.clone();
    let first = ledger.acknowledged.first().unwrap();
    wrong.retain(|user| user != first);
    wrong.push(ledger.acknowledged.last().unwrap().clone());
    assert_eq!(ledger.check(&wrong).len(), 2);
    let exports = exports(&mut fleet);
    assert!(exports[0].len() > ledger.acknowledged.len());
    assert!(
        exports[0] == exports[1] && exports[0] == exports[2],
        "the stores differ"
    );
}
