//! The members of a fleet: each has a record under `members/ID` and its name under `names/NAME`.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::gateway::{Repeat, decode, encode, number};
use super::{EtcdLog, created_at, delete, digits, get, has_value, pairs, put, range, succeeded};
use crate::store::replication::{MemberId, SharedLogError};

/// Far more than any fleet has.
const MEMBERS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    pub id: String,
    pub name: String,
    /// `host:port` for other members.
    pub address: String,
    pub version: String,
    pub applied: u64,
    /// Unix seconds of the member's clock when it wrote the record.
    pub seen: i64,
    /// Ids of the members whose promises the owner requires. Empty before the member was the owner.
    #[serde(default)]
    pub knows: Vec<String>,
    /// Requests of clients since its start that the member answered as a standby.
    #[serde(default)]
    pub answered: u64,
    /// Those that it forwarded to the owner.
    #[serde(default)]
    pub forwarded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dissolution {
    Done,
    /// The member with this id is the owner.
    Owned(MemberId),
    /// The log has new entries, or the fleet was already dissolved.
    Moved,
}

impl EtcdLog {
    /// Adds a member. Returns false if the name belongs to another one.
    pub fn register(&mut self, member: &MemberRecord) -> Result<bool, SharedLogError> {
        // This read fails unless etcd has the log of the fleet.
        self.look(u64::MAX, 1)?;
        let (name, record) = self.keys_of(member);
        // Name and record are written in one transaction, so that a name never belongs to two members.
        let puts = [put(&name, &member.id, 0), put(&record, &text(member), 0)];
        let answer = self.txn(&[created_at(&name, 0)], &puts, &[get(&name)], Repeat::Safe)?;
        let found = pairs(&answer, 0)
            .next()
            .map(|pair| decode(pair.get("value")));
        // If the call is repeated after a lost answer, it finds the own name.
        Ok(succeeded(&answer) || found.is_some_and(|id| id == member.id.as_bytes()))
    }

    /// Replaces the record of a member. Returns false if it was removed from the fleet.
    pub fn update(&mut self, member: &MemberRecord) -> Result<bool, SharedLogError> {
        let (_, record) = self.keys_of(member);
        // A member that was removed must not add itself again.
        let exists = json!({
            "target": "CREATE", "result": "GREATER",
            "key": encode(record.as_bytes()), "create_revision": "0",
        });
        let puts = [put(&record, &text(member), 0)];
        let answer = self.txn(&[exists], &puts, &[], Repeat::Safe)?;
        Ok(succeeded(&answer))
    }

    pub fn unregister(&mut self, member: &MemberRecord) -> Result<(), SharedLogError> {
        let (name, record) = self.keys_of(member);
        let gone = [&name, &record]
            .map(|key| json!({ "request_delete_range": { "key": encode(key.as_bytes()) } }));
        self.txn(&[], &gone, &[], Repeat::Safe).map(drop)
    }

    pub fn members(&mut self) -> Result<Vec<MemberRecord>, SharedLogError> {
        let keys = self.key("members/")..self.key("members0");
        let answer = self.txn(&[], &[range(&keys, MEMBERS_MAX)], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).map(|pair| decode(pair.get("value")));
        found.map(|value| parse(&value)).collect()
    }

    pub fn owner(&mut self) -> Result<Option<MemberId>, SharedLogError> {
        let owner = self.key("owner");
        let answer = self.txn(&[], &[get(&owner)], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).next();
        Ok(found.and_then(|pair| MemberId::try_from(decode(pair.get("value"))).ok()))
    }

    pub fn owner_record(&mut self) -> Result<Option<MemberRecord>, SharedLogError> {
        let Some(owner) = self.owner()? else {
            return Ok(None);
        };
        let owner = HEXLOWER.encode(&owner);
        let members = self.members()?;
        Ok(members.into_iter().find(|member| member.id == owner))
    }

    /// Dissolves the fleet: removes its log and its members, and records the member that continues alone. This member must
    /// have all commits up to `head`.
    pub fn dissolve(
        &mut self,
        into: &MemberRecord,
        head: u64,
    ) -> Result<Dissolution, SharedLogError> {
        let (last, owner) = (self.key("head"), self.key("owner"));
        // Without an owner nothing can be appended, so `head` is the last commit.
        let compare = [has_value(&last, &digits(head)), created_at(&owner, 0)];
        let ranges = ["log", "members", "names"].map(|name| {
            delete(
                &self.key(&format!("{name}/")),
                &self.key(&format!("{name}0")),
            )
        });
        let ended = [
            // The range contains exactly this key.
            delete(&last, &format!("{last}\0")),
            put(&self.key("dissolved"), &text(into), 0),
        ];
        let success = [&ranges[..], &ended[..]].concat();
        let answer = self.txn(&compare, &success, &[get(&owner)], Repeat::Safe)?;
        if succeeded(&answer) {
            return Ok(Dissolution::Done);
        }
        let found = pairs(&answer, 0).next();
        let holder = found.and_then(|pair| MemberId::try_from(decode(pair.get("value"))).ok());
        Ok(holder.map_or(Dissolution::Moved, Dissolution::Owned))
    }

    pub fn dissolved(&mut self) -> Result<Option<MemberRecord>, SharedLogError> {
        let key = self.key("dissolved");
        let answer = self.txn(&[], &[get(&key)], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).next();
        found
            .map(|pair| parse(&decode(pair.get("value"))))
            .transpose()
    }

    pub fn engine_version(&mut self) -> Result<String, SharedLogError> {
        let answer = self
            .gateway
            .call("/v3/maintenance/status", &json!({}), Repeat::Safe)?;
        let version = answer.get("version").and_then(Value::as_str);
        Ok(version.unwrap_or_default().to_owned())
    }

    pub fn engine_bytes(&mut self) -> Result<u64, SharedLogError> {
        let answer = self
            .gateway
            .call("/v3/maintenance/status", &json!({}), Repeat::Safe)?;
        Ok(number(answer.get("dbSizeInUse")))
    }

    fn keys_of(&self, member: &MemberRecord) -> (String, String) {
        // The name is in hexadecimal, so that no name can address other keys.
        let name = HEXLOWER.encode(member.name.as_bytes());
        let id = &member.id;
        (
            self.key(&format!("names/{name}")),
            self.key(&format!("members/{id}")),
        )
    }
}

fn parse(record: &[u8]) -> Result<MemberRecord, SharedLogError> {
    let unreadable = |_| SharedLogError::Refused("a record of a member cannot be read".to_owned());
    serde_json::from_slice(record).map_err(unreadable)
}

fn text(member: &MemberRecord) -> String {
    json!(member).to_string()
}
