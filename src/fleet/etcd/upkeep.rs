//! Keeps etcd small and shows which members run: compaction, sizes of entries, leases of processes.

use std::ops::Range;

use serde_json::{Value, json};

use super::gateway::{Repeat, decode, number};
use super::{EtcdLog, created_at, has_value, pairs, parse_digits, put, range, succeeded};
use playgate_store::replication::SharedLogError;

impl EtcdLog {
    /// Removes the history before a revision. etcd keeps every version of every key until then, and would grow to its
    /// quota.
    pub(crate) fn compact(&mut self, revision: u64) -> Result<(), SharedLogError> {
        let body = json!({ "revision": revision.to_string() });
        let compacted = self
            .gateway
            .call("/v3/kv/compaction", &body, Repeat::Safe)
            .map(drop);
        match compacted {
            // Someone else has compacted further.
            Err(SharedLogError::Refused(why)) if why.contains("compacted") => Ok(()),
            other => other,
        }
    }

    /// Returns the numbers and sizes of the entries in a range of numbers.
    pub(crate) fn entry_sizes(
        &mut self,
        numbers: Range<u64>,
    ) -> Result<Vec<(u64, u64)>, SharedLogError> {
        let slots = self.slot(numbers.start)..self.slot(numbers.end);
        let most = usize::try_from(numbers.end - numbers.start).unwrap_or(usize::MAX);
        let answer = self.txn(&[], &[range(&slots, most)], &[], Repeat::Safe)?;
        let sizes = pairs(&answer, 0).filter_map(|pair| {
            let entry = parse_digits(&decode(pair.get("key")))?;
            let value = pair.get("value").and_then(Value::as_str);
            // The value is in base64.
            let bytes = value.map_or(0, str::len) / 4 * 3;
            Some((entry, u64::try_from(bytes).unwrap_or(u64::MAX)))
        });
        Ok(sizes.collect())
    }

    /// Renews a lease, or grants one if it has ended. A renewal is not a change of etcd.
    pub(crate) fn keep_lease(
        &mut self,
        lease: Option<u64>,
        seconds: u64,
    ) -> Result<u64, SharedLogError> {
        if let Some(lease) = lease {
            let body = json!({ "ID": lease.to_string() });
            let answer = self
                .gateway
                .call("/v3/lease/keepalive", &body, Repeat::Safe)?;
            if number(answer.pointer("/result/TTL")) > 0 {
                return Ok(lease);
            }
        }
        let body = json!({ "TTL": seconds.to_string() });
        // If the call is repeated, an unused lease remains until it expires.
        let answer = self.gateway.call("/v3/lease/grant", &body, Repeat::Safe)?;
        let lease = number(answer.get("ID"));
        if lease == 0 {
            // A key without a lease would remain for ever.
            let why = "etcd granted a lease without an id".to_owned();
            return Err(SharedLogError::Unknown(why));
        }
        Ok(lease)
    }

    /// Returns for how many seconds a lease still holds unless it is renewed; `None` after its end.
    pub fn lease_left(&mut self, lease: u64) -> Result<Option<u64>, SharedLogError> {
        let body = json!({ "ID": lease.to_string() });
        let path = "/v3/lease/timetolive";
        let answer = self.gateway.call(path, &body, Repeat::Safe)?;
        // A negative time stands for a lease that has ended, and the gateway omits a zero.
        Ok(Some(number(answer.get("TTL"))).filter(|_| number(answer.get("grantedTTL")) > 0))
    }

    /// Shows that a process runs as this member, as long as its lease is renewed. `replaces` is the process that the key
    /// names now. Returns false if the key has changed meanwhile.
    pub(crate) fn announce(
        &mut self,
        member: &str,
        process: &str,
        replaces: Option<&str>,
        lease: u64,
    ) -> Result<bool, SharedLogError> {
        let key = self.key(&format!("alive/{member}"));
        let expected = match replaces {
            Some(other) => has_value(&key, other),
            None => created_at(&key, 0),
        };
        let puts = [put(&key, process, lease)];
        // If the call is repeated after a lost answer, the caller finds the own process at its next look.
        let answer = self.txn(&[expected], &puts, &[], Repeat::Safe)?;
        Ok(succeeded(&answer))
    }
}
