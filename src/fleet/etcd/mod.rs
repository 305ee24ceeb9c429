//! The shared log in etcd, by its JSON gateway. Version 3.4 or later; never 3.5.0 to 3.5.2, which can lose
//! data in a crash.
//!
//! Under `playgate/FLEET/` are `head`, the last number; `log/NUMBER`, the entries; and `owner`, the member
//! that holds the claim, bound to its lease; `members/` and `names/`, who the members are; `dissolved`, which
//! member continues alone. The epoch of a claim is the revision that created the key:
//! etcd never gives a revision twice.

mod gateway;
mod probe;
mod registry;

use std::ops::Range;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tokio::runtime::Handle;

pub use self::gateway::EtcdSettings;
use self::gateway::{Gateway, Repeat, decode, encode, number};
pub use self::probe::probe;
pub use self::registry::{Dissolution, MemberRecord};
use crate::store::replication::{
    Appended, Claim, Entry, FleetId, MemberId, SharedLog, SharedLogError,
};

const TXN: &str = "/v3/kv/txn";

/// An expected size of an entry, to turn bytes into a number of entries: etcd limits by number only.
const ENTRY_BYTES: usize = 64 * 1024;
/// With entries of the largest size it is what one response may have.
const ENTRIES_MAX: usize = 16;

pub struct EtcdLog {
    gateway: Gateway,
    prefix: String,
    /// Seconds.
    lease_time: u64,
    lease: Option<u64>,
}

impl EtcdLog {
    /// Does not connect. Every call blocks, so none may be made on a thread of the runtime.
    pub fn new(
        settings: &EtcdSettings,
        fleet: FleetId,
        lease_time: Duration,
        runtime: Handle,
    ) -> Result<Self, SharedLogError> {
        Ok(Self {
            gateway: Gateway::new(settings, runtime)?,
            prefix: format!("playgate/{}/", HEXLOWER.encode(&fleet)),
            // etcd's own minimum follows from its election time, two seconds by default. The fence uses no more than
            // what was asked for.
            lease_time: lease_time.as_secs().max(1),
            lease: None,
        })
    }

    /// Creates the log of a new fleet, which continues a store with commits up to `head`. Returns false if
    /// there is one.
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
        self.gateway.call(TXN, &body, repeat)
    }

    /// Returns the entries from a number on, the head and the revision of both, in one atomic read.
    fn look(&mut self, from: u64, most: usize) -> Result<(Vec<Entry>, u64, u64), SharedLogError> {
        let slots = self.slot(from)..self.slot(u64::MAX);
        let reads = [range(&slots, most), get(&self.key("head"))];
        let answer = self.txn(&[], &reads, &[], Repeat::Safe)?;
        let head = pairs(&answer, 1).next();
        let head = head.and_then(|pair| parse_digits(&decode(pair.get("value"))));
        let Some(head) = head else {
            // The endpoints lead to another etcd, or it was emptied, unless the fleet has ended.
            return Err(match self.dissolved()? {
                Some(into) => SharedLogError::Dissolved { into: into.name },
                None => SharedLogError::Foreign,
            });
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
                // Each member of etcd has its own copy, and another one may be sound.
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
        let revision = number(answer.pointer("/header/revision"));
        Ok((entries, head, revision))
    }

    pub(super) const fn lease(&self) -> Option<u64> {
        self.lease
    }

    /// Ends a lease. The key of its claim goes with it.
    pub(super) fn revoke(&mut self, lease: u64) -> Result<(), SharedLogError> {
        let body = json!({ "ID": lease.to_string() });
        let revoked = self.gateway.call("/v3/lease/revoke", &body, Repeat::Safe);
        revoked.map(drop)
    }

    /// Keeps the lease alive, or gets another one. A lost lease has lost its claim as well.
    fn renew(&mut self) -> Result<u64, SharedLogError> {
        if let Some(lease) = self.lease {
            let body = json!({ "ID": lease.to_string() });
            let answer = self
                .gateway
                .call("/v3/lease/keepalive", &body, Repeat::Safe)?;
            if number(answer.pointer("/result/TTL")) > 0 {
                return Ok(lease);
            }
        }
        let body = json!({ "TTL": self.lease_time.to_string() });
        // Repeated, it leaves a lease without a key, which expires.
        let answer = self.gateway.call("/v3/lease/grant", &body, Repeat::Safe)?;
        let lease = number(answer.get("ID"));
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
        // The head and not the slot: after a truncation the slot of an old number is free again.
        let compare = [
            has_value(&head, &digits(entry.number.saturating_sub(1))),
            created_at(&owner, entry.epoch),
        ];
        let puts = [
            put(&head, &digits(entry.number), 0),
            put_bytes(&self.slot(entry.number), &encoded, 0),
        ];
        // Never repeated here: the second one would find the head of the first and report a conflict.
        let answer = self.txn(&compare, &puts, &[], Repeat::Never)?;
        Ok(match succeeded(&answer) {
            true => Appended::Done,
            false => Appended::Refused,
        })
    }

    fn read(
        &mut self,
        from: u64,
        bytes: usize,
        wait: Duration,
    ) -> Result<Vec<Entry>, SharedLogError> {
        let most = (bytes / ENTRY_BYTES).clamp(1, ENTRIES_MAX);
        let (entries, _, revision) = self.look(from, most)?;
        if !entries.is_empty() || wait.is_zero() {
            return Ok(entries);
        }
        // From the revision after the read, so that no append falls in between.
        let key = encode(self.key("head").as_bytes());
        let watch = json!({ "create_request": { "key": key, "start_revision": (revision + 1).to_string() } });
        self.gateway.wait_for("/v3/watch", &watch, wait, |part| {
            part.contains("\"events\"")
        });
        Ok(self.look(from, most)?.0)
    }

    fn head(&mut self) -> Result<u64, SharedLogError> {
        Ok(self.look(u64::MAX, 1)?.1)
    }

    fn claim(&mut self, member: MemberId) -> Result<Claim, SharedLogError> {
        let lease = self.renew()?;
        let owner = self.key("owner");
        // A renewal writes nothing: it succeeds also while the quota of etcd is full.
        let answer = self.txn(&[], &[get(&owner)], &[], Repeat::Safe)?;
        if let Some(claim) = held(&answer, lease)? {
            return Ok(claim);
        }
        // Repeated after a lost answer it finds its own claim in the second part.
        let answer = self.txn(
            &[created_at(&owner, 0)],
            &[put_bytes(&owner, &member, lease)],
            &[get(&owner)],
            Repeat::Safe,
        )?;
        if succeeded(&answer) {
            return Ok(Claim::Held {
                epoch: number(answer.pointer("/header/revision")),
            });
        }
        held(&answer, lease)?.ok_or(SharedLogError::Foreign)
    }

    fn resign(&mut self, _: MemberId) -> Result<(), SharedLogError> {
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
        // etcd keeps every revision until it is compacted, and would grow to its quota.
        let revision = number(deleted.pointer("/header/revision"));
        let body = json!({ "revision": revision.to_string() });
        let path = "/v3/kv/compaction";
        if let Err(error) = self.gateway.call(path, &body, Repeat::Safe) {
            tracing::debug!(%error, "failed to compact etcd");
        }
        Ok(())
    }
}

/// Who has the claim, by a read of its key.
fn held(answer: &Value, lease: u64) -> Result<Option<Claim>, SharedLogError> {
    let Some(found) = pairs(answer, 0).next() else {
        return Ok(None);
    };
    // By the lease and not the name: two processes with one name must not share a claim.
    if number(found.get("lease")) == lease {
        let epoch = number(found.get("create_revision"));
        return Ok(Some(Claim::Held { epoch }));
    }
    let holder = MemberId::try_from(decode(found.get("value")));
    let member = holder.map_err(|_| SharedLogError::Foreign)?;
    Ok(Some(Claim::Other { member }))
}

/// With leading zeros, so that keys sort as their numbers do.
fn digits(number: u64) -> String {
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

/// The pairs that the read at a place of a transaction has found.
fn pairs(answer: &Value, read: usize) -> impl Iterator<Item = &Value> {
    let found = answer.pointer(&format!("/responses/{read}/response_range/kvs"));
    found.and_then(Value::as_array).into_iter().flatten()
}
