//! The shared log in etcd, accessed by its JSON gateway. It requires version 3.4 or later, except 3.5.0 to 3.5.2, which
//! can lose data in a crash.
//!
//! Keys under `playgate/FLEET/`:
//!
//! - `head`: the last number
//! - `log/NUMBER`: the entries
//! - `owner`: the member that holds the claim; the key is bound to the lease of the member
//! - `members/`, `names/`: the records and names of the members
//! - `owner-process`: the process that holds the claim, with the same lease
//! - `alive/`: the processes of the members that run, each bound to a lease of its own
//! - `dissolved`: the member that continues alone
//! - `recovered`: the fleet that continues this one after etcd's data were lost
//!
//! The epoch of a claim is the revision that created `owner`. etcd never reuses a revision.

mod attempt;
mod exchange;
mod gateway;
mod login;
mod probe;
mod registry;
mod succession;
mod upkeep;
mod watch;
mod watermark;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tokio::runtime::Handle;

pub use self::gateway::EtcdSettings;
use self::gateway::{Gateway, Repeat, decode, encode, number};
pub use self::login::Login;
pub use self::probe::probe;
pub use self::registry::{Dissolution, MemberRecord, OwnerClaim, Roster, down_since};
pub use self::succession::{Recovery, Succession};
pub use self::watch::{EtcdWatch, WatchEvent};
pub use self::watermark::Watermark;
use playgate_store::replication::{
    Appended, Claim, Entry, FleetId, MemberId, SharedLog, SharedLogError,
};

const TXN: &str = "/v3/kv/txn";

/// Expected size of an entry. It converts bytes to a number of entries, since etcd limits a read by number only.
const ENTRY_BYTES: usize = 64 * 1024;
/// A read of this many entries of the maximum size is below the limit of one response.
const ENTRIES_MAX: usize = 16;

pub struct EtcdLog {
    gateway: Gateway,
    prefix: String,
    lease_time: u64,
    lease: Option<u64>,
    /// The process that claims the log, in hexadecimal; empty for a command.
    process: String,
    /// Without it a restored etcd is not noticed, as in commands that examine one.
    seen: Option<Arc<Watermark>>,
}

impl EtcdLog {
    /// Does not connect. Every call blocks, so it must not run on a runtime thread.
    pub fn new(
        settings: &EtcdSettings,
        fleet: FleetId,
        lease_time: Duration,
        runtime: Handle,
    ) -> Result<Self, SharedLogError> {
        Ok(Self {
            gateway: Gateway::new(settings, runtime)?,
            prefix: prefix(&fleet),
            // The minimum of etcd follows from its election time, and is two seconds by default. The fence never uses more
            // than the requested time.
            lease_time: lease_time.as_secs().max(1),
            lease: None,
            process: String::new(),
            seen: None,
        })
    }

    /// Lets every call fail once etcd is older than the watermark.
    pub(crate) fn guarded(mut self, seen: Arc<Watermark>) -> Self {
        self.seen = Some(seen);
        self
    }

    pub(crate) fn for_process(mut self, process: &str) -> Self {
        process.clone_into(&mut self.process);
        self
    }

    /// Creates the log of a new fleet, which continues a store with commits up to `head`. Returns false if the log exists.
    pub fn create(&mut self, head: u64) -> Result<bool, SharedLogError> {
        let answer = self.txn(
            &[created_at(&self.key("head"), 0)],
            &[put(&self.key("head"), &digits(head), 0)],
            &[],
            Repeat::Never,
        )?;
        Ok(succeeded(&answer))
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn slot(&self, number: u64) -> String {
        self.key(&format!("log/{}", digits(number)))
    }

    fn txn(
        &mut self,
        compare: &[Value],
        success: &[Value],
        failure: &[Value],
        repeat: Repeat,
    ) -> Result<Value, SharedLogError> {
        let body = json!({ "compare": compare, "success": success, "failure": failure });
        let before = self.seen.as_ref().map_or(0, |seen| seen.revision());
        let answer = self.gateway.call(TXN, &body, repeat)?;
        let checked = self.seen.as_ref().map(|seen| seen.check(before, &answer));
        match checked {
            Some(Err(what)) => Err(self.why_older(what)),
            Some(Ok(())) | None => Ok(answer),
        }
    }

    /// Returns the entries from a number on and the head, in one atomic read.
    fn look(&mut self, from: u64, most: usize) -> Result<(Vec<Entry>, u64), SharedLogError> {
        let slots = self.slot(from)..self.slot(u64::MAX);
        let reads = [range(&slots, most), get(&self.key("head"))];
        // Both reads are in one transaction, so that entries and head belong to the same revision.
        let answer = self.txn(&[], &reads, &[], Repeat::Safe)?;
        let head = pairs(&answer, 1).next();
        let head = head.and_then(|pair| parse_digits(&decode(pair.get("value"))));
        let Some(head) = head else {
            return Err(self.why_absent()?);
        };
        let mut entries = Vec::new();
        for (pair, at) in pairs(&answer, 0).zip(from..) {
            let damaged = |why| SharedLogError::Damaged { number: at, why };
            if decode(pair.get("key")) != self.slot(at).as_bytes() {
                if entries.is_empty() {
                    break;
                }
                return Err(SharedLogError::Refused(format!("entry {at} is missing")));
            }
            let entry = Entry::decode(&decode(pair.get("value"))).map_err(damaged);
            if entry.is_err() {
                // Each member of etcd has its own copy, and another copy may be intact.
                self.gateway.give_up_endpoint();
            }
            entries.push(entry?);
        }
        if entries.is_empty() && from <= head {
            let first = pairs(&answer, 0).next();
            let first = first.and_then(|pair| parse_digits(&decode(pair.get("key"))));
            let first = first.unwrap_or(head + 1);
            return Err(SharedLogError::Truncated { first });
        }
        Ok((entries, head))
    }

    /// Returns entries from a number on, as [`SharedLog::read`] does, and the last number in the log at the same time.
    pub(super) fn read_with_head(
        &mut self,
        from: u64,
        bytes: usize,
    ) -> Result<(Vec<Entry>, u64), SharedLogError> {
        self.look(from, entries_of(bytes))
    }

    pub(super) const fn lease(&self) -> Option<u64> {
        self.lease
    }

    pub(super) fn revoke(&mut self, lease: u64) -> Result<(), SharedLogError> {
        let body = json!({ "ID": lease.to_string() });
        let revoked = self.gateway.call("/v3/lease/revoke", &body, Repeat::Safe);
        revoked.map(drop)
    }

    fn renew(&mut self) -> Result<u64, SharedLogError> {
        // A lease that has expired has taken its claim with it. A new claim needs a new lease.
        let lease = self.keep_lease(self.lease, self.lease_time)?;
        self.lease = Some(lease);
        Ok(lease)
    }
}

impl SharedLog for EtcdLog {
    fn append(&mut self, entry: &Entry) -> Result<Appended, SharedLogError> {
        let encoded = entry
            .encode()
            .map_err(|why| SharedLogError::Refused(why.to_string()))?;
        let (head, owner) = (self.key("head"), self.key("owner"));
        // The head is compared and not the slot: after a truncation the slot of an old number is free again.
        let compare = [
            has_value(&head, &digits(entry.number.saturating_sub(1))),
            // This fails once the claim has ended, even if the same member has a new one.
            created_at(&owner, entry.epoch),
        ];
        let puts = [
            put(&head, &digits(entry.number), 0),
            put_bytes(&self.slot(entry.number), &encoded, 0),
        ];
        // A request that is sent again, while or after the first one was carried out, fails the comparison. It then finds
        // the same bytes, which have a random nonce, so the outcome is known at once and without another call.
        let present = [get(&self.slot(entry.number))];
        let answer = self.txn(&compare, &puts, &present, Repeat::Safe)?;
        if succeeded(&answer) {
            return Ok(Appended::Done);
        }
        let found = pairs(&answer, 0).next();
        let is_same_entry = found.is_some_and(|pair| decode(pair.get("value")) == encoded);
        Ok(match is_same_entry {
            true => Appended::Done,
            false => Appended::Refused,
        })
    }

    fn read(&mut self, from: u64, bytes: usize) -> Result<Vec<Entry>, SharedLogError> {
        Ok(self.look(from, entries_of(bytes))?.0)
    }

    fn head(&mut self) -> Result<u64, SharedLogError> {
        Ok(self.look(u64::MAX, 1)?.1)
    }

    fn claim(&mut self, member: MemberId) -> Result<Claim, SharedLogError> {
        let before = self.lease;
        let lease = self.renew()?;
        let owner = self.key("owner");
        // A new lease has no claim yet. A renewal writes nothing, so that it succeeds while the quota of etcd is full.
        if before == Some(lease) {
            let answer = self.txn(&[], &[get(&owner)], &[], Repeat::Safe)?;
            if let Some(claim) = held(&answer, lease)? {
                return Ok(claim);
            }
        }
        let success = [
            put_bytes(&owner, &member, lease),
            put(&self.key("owner-process"), &self.process, lease),
        ];
        // If the call is repeated after a lost answer, the second operation finds the own claim.
        let answer = self.txn(
            &[created_at(&owner, 0)],
            &success,
            &[get(&owner)],
            Repeat::Safe,
        )?;
        if succeeded(&answer) {
            // A member that has more than the log shows it before it ends. Under the claim nobody else appends, so this
            // is the last moment at which it can be seen.
            if let Err(error) = self.roster().and_then(|roster| roster.check_ahead()) {
                let _ = self.resign(member);
                return Err(error);
            }
            return Ok(Claim::Held {
                epoch: number(answer.pointer("/header/revision")),
            });
        }
        held(&answer, lease)?.ok_or(SharedLogError::Foreign)
    }

    fn resign(&mut self, _: MemberId) -> Result<(), SharedLogError> {
        // Revoking the lease removes the key of the claim.
        if let Some(lease) = self.lease.take()
            && let Err(error) = self.revoke(lease)
        {
            tracing::debug!(%error, "failed to revoke the lease of a claim; it expires");
        }
        Ok(())
    }

    fn truncate(&mut self, below: u64) -> Result<(), SharedLogError> {
        let body = json!({
            "key": encode(self.slot(0).as_bytes()),
            "range_end": encode(self.slot(below).as_bytes()),
        });
        let path = "/v3/kv/deleterange";
        let deleted = self.gateway.call(path, &body, Repeat::Safe)?;
        let revision = number(deleted.pointer("/header/revision"));
        if let Err(error) = self.compact(revision) {
            tracing::debug!(%error, "failed to compact etcd");
        }
        Ok(())
    }
}

fn prefix(fleet: &FleetId) -> String {
    format!("playgate/{}/", HEXLOWER.encode(fleet))
}

fn entries_of(bytes: usize) -> usize {
    (bytes / ENTRY_BYTES).clamp(1, ENTRIES_MAX)
}

fn held(answer: &Value, lease: u64) -> Result<Option<Claim>, SharedLogError> {
    let Some(found) = pairs(answer, 0).next() else {
        return Ok(None);
    };
    // The lease is compared and not the member: two processes of one member must not share a claim.
    if number(found.get("lease")) == lease {
        let epoch = number(found.get("create_revision"));
        return Ok(Some(Claim::Held { epoch }));
    }
    let holder = MemberId::try_from(decode(found.get("value")));
    let member = holder.map_err(|_| SharedLogError::Foreign)?;
    Ok(Some(Claim::Other { member }))
}

fn digits(number: u64) -> String {
    // Leading zeros let keys sort like their numbers.
    format!("{number:020}")
}

fn parse_digits(text: &[u8]) -> Option<u64> {
    let digits = text.get(text.len().checked_sub(20)?..)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn created_at(key: &str, revision: u64) -> Value {
    let key = encode(key.as_bytes());
    // 0 stands for a key that does not exist.
    json!({ "target": "CREATE", "key": key, "create_revision": revision.to_string() })
}

fn has_value(key: &str, value: &str) -> Value {
    let (key, value) = (encode(key.as_bytes()), encode(value.as_bytes()));
    json!({ "target": "VALUE", "key": key, "value": value })
}

fn put(key: &str, value: &str, lease: u64) -> Value {
    put_bytes(key, value.as_bytes(), lease)
}

fn put_bytes(key: &str, value: &[u8], lease: u64) -> Value {
    let (key, value) = (encode(key.as_bytes()), encode(value));
    json!({ "request_put": { "key": key, "value": value, "lease": lease.to_string() } })
}

fn delete(start: &str, end: &str) -> Value {
    let (start, end) = (encode(start.as_bytes()), encode(end.as_bytes()));
    json!({ "request_delete_range": { "key": start, "range_end": end } })
}

fn get(key: &str) -> Value {
    json!({ "request_range": { "key": encode(key.as_bytes()) } })
}

fn range(keys: &Range<String>, most: usize) -> Value {
    json!({ "request_range": {
        "key": encode(keys.start.as_bytes()),
        "range_end": encode(keys.end.as_bytes()),
        "limit": most.to_string(),
    } })
}

fn succeeded(answer: &Value) -> bool {
    answer.get("succeeded").and_then(Value::as_bool) == Some(true)
}

fn pairs(answer: &Value, read: usize) -> impl Iterator<Item = &Value> {
    let found = answer.pointer(&format!("/responses/{read}/response_range/kvs"));
    found.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Starts a server that gives every request the same answer. Returns its address and the number of requests.
    fn etcd(status: &'static str, answer: &'static str) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut lines = BufReader::new(&stream);
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    lines.read_line(&mut line).unwrap();
                    let line = line.trim().to_lowercase();
                    if let Some(value) = line.strip_prefix("content-length: ") {
                        length = value.parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                lines.read_exact(&mut vec![0; length]).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let size = answer.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
                );
                (&stream).write_all((head + answer).as_bytes()).unwrap();
            }
        });
        (url, asked)
    }

    fn settings(endpoints: Vec<String>) -> EtcdSettings {
        EtcdSettings {
            endpoints,
            tls: None,
            login: None,
            timeout: Duration::from_secs(30),
            errors: Arc::default(),
        }
    }

    fn log(endpoints: Vec<String>, runtime: &tokio::runtime::Runtime) -> EtcdLog {
        let settings = settings(endpoints);
        let lease = Duration::from_secs(2);
        EtcdLog::new(&settings, [1; 16], lease, runtime.handle().clone()).unwrap()
    }

    #[test]
    fn an_expired_lease_is_refused_by_the_first_endpoint() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let answer = r#"{"error":"etcdserver: requested lease not found","code":5}"#;
        let [first, second] = [(); 2].map(|()| etcd("404 Not Found", answer));
        let mut log = log(vec![first.0, second.0], &runtime);
        let revoked = log.revoke(7);
        assert!(matches!(revoked, Err(SharedLogError::Refused(_))));
        let asked = [first.1, second.1].map(|asked| asked.load(Ordering::SeqCst));
        assert_eq!(asked, [1, 0]);
    }

    /// Starts a server that answers its first connections, as many as given, and stays silent on all others.
    fn answers_first(connections: usize, answer: &'static str) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let (mut stream, count) = (stream.unwrap(), Arc::clone(&count));
                std::thread::spawn(move || {
                    let mut part = [0; 64 * 1024];
                    while stream.read(&mut part).is_ok_and(|read| read > 0) {
                        count.fetch_add(1, Ordering::SeqCst);
                        let size = answer.len();
                        let whole =
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n{answer}");
                        if at < connections {
                            stream.write_all(whole.as_bytes()).unwrap();
                        }
                    }
                });
            }
        });
        (url, asked)
    }

    const HEAD_7: &str = r#"{"responses":[{"response_range":{}},{"response_range":{"kvs":[{"value":"MDAwMDAwMDAwMDAwMDAwMDAwMDc="}]}}]}"#;

    #[test]
    fn a_late_answer_is_got_elsewhere_and_only_by_the_caller_that_waits_for_it() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (first, asked) = answers_first(1, HEAD_7);
        let (second, _) = answers_first(usize::MAX, HEAD_7);
        let endpoints = vec![first, second];
        let (mut good, mut other) = (log(endpoints.clone(), &runtime), log(endpoints, &runtime));
        assert_eq!(good.head(), Ok(7));
        // The first endpoint is silent here. The time limit of a call is 30 seconds, and the call would fail after it.
        assert_eq!(other.head(), Ok(7));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        // From now on this one asks the second endpoint, and the first one still serves whom it answers.
        assert_eq!(other.head(), Ok(7));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(good.head(), Ok(7));
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    fn some_entry() -> Entry {
        Entry {
            fleet: [1; 16],
            number: 8,
            epoch: 5,
            member: [2; 16],
            nonce: [3; 16],
            format: 1,
            before: playgate_store::History {
                timeline: [4; 16],
                chain: [5; 16],
            },
            batch: b"x".to_vec(),
        }
    }

    #[test]
    fn an_append_whose_answer_is_late_is_settled_by_the_same_call_elsewhere() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let entry = some_entry();
        let slot = |value: &str| {
            let answer = format!(
                r#"{{"responses":[{{"response_range":{{"kvs":[{{"value":"{value}"}}]}}}}]}}"#
            );
            &*answer.leak()
        };
        // Whether the first request was carried out is not known there, and the second one finds what it has left.
        let same_entry = slot(&encode(&entry.encode().unwrap()));
        let other = Entry {
            nonce: [9; 16],
            ..entry.clone()
        };
        let other = slot(&encode(&other.encode().unwrap()));
        let cases = [
            (r#"{"succeeded":true}"#, Appended::Done),
            (same_entry, Appended::Done),
            (other, Appended::Refused),
            ("{}", Appended::Refused),
        ];
        for (answer, expected) in cases {
            let endpoints = [answers_first(0, ""), answers_first(usize::MAX, answer)];
            let mut log = log(endpoints.map(|(url, _)| url).into(), &runtime);
            assert_eq!(log.append(&entry), Ok(expected), "{answer}");
        }
    }

    #[test]
    fn a_call_that_must_not_be_repeated_is_sent_once() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let [silent, other] = [0, usize::MAX].map(|count| answers_first(count, "{}"));
        let mut settings = settings(vec![silent.0, other.0]);
        settings.timeout = Duration::from_millis(700);
        let lease = Duration::from_secs(2);
        let mut log = EtcdLog::new(&settings, [1; 16], lease, runtime.handle().clone()).unwrap();
        assert!(matches!(log.create(7), Err(SharedLogError::Unknown(_))));
        assert_eq!(other.1.load(Ordering::SeqCst), 0);
    }

    /// Starts an etcd that answers log-ins once `is_done`, and takes the token of the last one.
    fn with_login(is_done: &Arc<AtomicBool>) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, is_done) = (Arc::new(AtomicUsize::new(0)), Arc::clone(is_done));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, count) = (stream.unwrap(), Arc::clone(&count));
                let is_done = Arc::clone(&is_done);
                std::thread::spawn(move || {
                    let mut part = [0; 64 * 1024];
                    while let Ok(read @ 1..) = stream.read(&mut part) {
                        let request = String::from_utf8_lossy(&part[..read]).to_lowercase();
                        let (status, answer) = if request.contains("/v3/auth/authenticate") {
                            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                            while !is_done.load(Ordering::SeqCst) {
                                std::thread::park_timeout(Duration::from_millis(1));
                            }
                            ("200 OK", format!(r#"{{"token":"t{number}"}}"#))
                        } else if request.contains(&format!(
                            "authorization: t{}\r",
                            count.load(Ordering::SeqCst)
                        )) {
                            ("200 OK", HEAD_7.to_owned())
                        } else {
                            ("401 Unauthorized", r#"{"code":16}"#.to_owned())
                        };
                        let size = answer.len();
                        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {size}\r\n\r\n");
                        let _ = stream.write_all((head + &answer).as_bytes());
                    }
                });
            }
        });
        (url, asked)
    }

    #[test]
    fn a_log_in_that_outlasts_a_call_goes_on_and_serves_all_connections() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let is_done = Arc::new(AtomicBool::new(false));
        let (url, asked) = with_login(&is_done);
        let login = Login::new("name".to_owned(), "password".to_owned(), 1);
        let settings = EtcdSettings {
            login: Some(Arc::new(login)),
            timeout: Duration::from_millis(300),
            ..settings(vec![url])
        };
        let open = || {
            let lease = Duration::from_secs(2);
            EtcdLog::new(&settings, [1; 16], lease, runtime.handle().clone()).unwrap()
        };
        let (mut first, mut second) = (open(), open());
        for log in [&mut first, &mut second] {
            assert!(matches!(log.head(), Err(SharedLogError::Unknown(_))));
        }
        is_done.store(true, Ordering::SeqCst);
        while first.head().is_err() {}
        while second.head().is_err() {}
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // The token is refused from now on, and the next call logs in again.
        asked.fetch_add(1, Ordering::SeqCst);
        while first.head().is_err() {}
        while second.head().is_err() {}
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_lease_without_an_id_gives_no_claim() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (url, _) = etcd("200 OK", r#"{"succeeded":true,"header":{"revision":"5"}}"#);
        let mut log = log(vec![url], &runtime);
        let claimed = log.claim([3; 16]);
        assert!(matches!(claimed, Err(SharedLogError::Unknown(_))));
        assert_eq!(log.lease(), None);
    }
}
