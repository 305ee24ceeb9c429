//! A fleet that continues another one, whose data in etcd are lost: `playgate fleet recover`.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::gateway::{Repeat, decode};
use super::registry::text;
use super::{EtcdLog, MemberRecord, created_at, digits, get, has_value, pairs, put, succeeded};
use playgate_store::replication::{FleetId, SharedLogError};

/// The fleet that continues another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Succession {
    /// The id of the new fleet, in hexadecimal.
    pub fleet: String,
    /// The member whose data it continues.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    Done,
    /// The previous fleet has an owner, whose claim may still end.
    Owned,
    /// etcd has the log of the previous fleet, with commits up to this number that the member lacks.
    Behind(u64),
    /// Another member has continued the previous fleet.
    Other(Succession),
}

impl EtcdLog {
    /// Why etcd has no log of this fleet.
    pub(super) fn why_absent(&mut self) -> Result<SharedLogError, SharedLogError> {
        if let Some(into) = self.dissolved()? {
            return Ok(SharedLogError::Dissolved { into: into.name });
        }
        Ok(match self.successor()? {
            Some(next) => SharedLogError::Recovered { by: next.name },
            // The endpoints lead to another etcd or to one that was emptied.
            None => SharedLogError::Foreign,
        })
    }

    /// Why an etcd is not the one that this member knows; `what` says how it differs.
    pub(super) fn why_older(&mut self, what: String) -> SharedLogError {
        // The further reads would find the same difference.
        let seen = self.seen.take();
        let absent = match self.roster() {
            Ok(roster) if roster.head.is_none() => self.why_absent().ok(),
            Ok(_) | Err(_) => None,
        };
        self.seen = seen;
        absent.unwrap_or(SharedLogError::Restored { what })
    }

    /// The fleet that continues this one.
    pub fn successor(&mut self) -> Result<Option<Succession>, SharedLogError> {
        let answer = self.txn(&[], &[get(&self.key("recovered"))], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).next();
        let unreadable = |_| SharedLogError::Refused("the key `recovered` is damaged".to_owned());
        let parse = |value: Vec<u8>| serde_json::from_slice(&value).map_err(unreadable);
        found
            .map(|pair| parse(decode(pair.get("value"))))
            .transpose()
    }

    /// Shows the others that a member has more commits than the log, so that none of them claims it. The record is written
    /// only for that, and to an etcd that is older than the watermark as well.
    pub(crate) fn show_ahead(&mut self, record: &MemberRecord) {
        let seen = self.seen.take();
        let shown = self.roster().and_then(|roster| {
            let is_ahead = roster.head.is_some_and(|head| head < record.applied);
            match is_ahead && roster.member(&record.id).is_some() {
                true => self.update(record),
                false => Ok(false),
            }
        });
        self.seen = seen;
        if let Err(error) = shown {
            tracing::debug!(%error, "failed to show the other members that this one is ahead of the log");
        }
    }

    /// Begins this fleet at `head` with one member. What etcd still has of the fleet `before` is removed.
    pub(crate) fn continue_fleet(
        &mut self,
        fleet: FleetId,
        before: &mut Self,
        member: &MemberRecord,
        head: u64,
    ) -> Result<Recovery, SharedLogError> {
        let next = Succession {
            fleet: HEXLOWER.encode(&fleet),
            name: member.name.clone(),
        };
        match before.successor()? {
            // An earlier attempt had no answer.
            Some(done) if done.fleet == next.fleet => return Ok(Recovery::Done),
            Some(other) => return Ok(Recovery::Other(other)),
            None => {}
        }
        let old = before.roster()?;
        if let Some(more) = old.head.filter(|old| *old > head) {
            return Ok(Recovery::Behind(more));
        }
        let (last, owner) = (before.key("head"), before.key("owner"));
        let unchanged = match old.head {
            Some(number) => has_value(&last, &digits(number)),
            None => created_at(&last, 0),
        };
        let compare = [
            unchanged,
            // Nobody appends without a claim.
            created_at(&owner, 0),
            created_at(&self.key("head"), 0),
        ];
        let mut success = before.removal();
        let (name, record) = self.keys_of(member);
        success.extend([
            put(&before.key("recovered"), &json!(next).to_string(), 0),
            put(&self.key("head"), &digits(head), 0),
            put(&name, &member.id, 0),
            put(&record, &text(member), 0),
        ]);
        let answer = self.txn(&compare, &success, &[], Repeat::Safe)?;
        match succeeded(&answer) {
            true => Ok(Recovery::Done),
            // An owner, or a change since the read: the caller tries again.
            false => Ok(Recovery::Owned),
        }
    }
}
