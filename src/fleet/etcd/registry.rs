//! Who the members of a fleet are: a record for each under `members/ID`, and its name under `names/NAME`.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::gateway::{Repeat, decode, encode, number};
use super::{EtcdLog, created_at, get, pairs, put, succeeded};
use crate::store::replication::{MemberId, SharedLogError};

/// Far above any fleet; more would be a mistake.
const MEMBERS_MAX: u32 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// In hexadecimal.
    pub id: String,
    pub name: String,
    /// Where other members reach it: `host:port`.
    pub address: String,
    pub version: String,
    /// The last commit that it has applied.
    pub applied: u64,
    /// When it wrote this record, by its own clock, in Unix seconds.
    pub seen: i64,
}

impl EtcdLog {
    /// Adds a member. Returns false if the name belongs to another one.
    pub fn register(&mut self, member: &MemberRecord) -> Result<bool, SharedLogError> {
        // The head shows that this is the fleet's log.
        self.look(u64::MAX, 1)?;
        let (name, record) = self.keys_of(member);
        let puts = [put(&name, &member.id, 0), put(&record, &text(member), 0)];
        let answer = self.txn(&[created_at(&name, 0)], &puts, &[get(&name)], Repeat::Safe)?;
        let found = pairs(&answer, 0)
            .next()
            .map(|pair| decode(pair.get("value")));
        // Repeated after a lost answer it finds its own name.
        Ok(succeeded(&answer) || found.is_some_and(|id| id == member.id.as_bytes()))
    }

    /// Replaces the record of a member. Returns false if it was removed from the fleet.
    pub fn update(&mut self, member: &MemberRecord) -> Result<bool, SharedLogError> {
        let (_, record) = self.keys_of(member);
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
        let range = json!({ "request_range": {
            "key": encode(self.key("members/").as_bytes()),
            "range_end": encode(self.key("members0").as_bytes()),
            "limit": MEMBERS_MAX.to_string(),
        } });
        let answer = self.txn(&[], &[range], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).map(|pair| decode(pair.get("value")));
        found
            .map(|value| {
                serde_json::from_slice(&value).map_err(|_| {
                    SharedLogError::Refused("a record of a member cannot be read".to_owned())
                })
            })
            .collect()
    }

    /// The member that holds the claim.
    pub fn owner(&mut self) -> Result<Option<MemberId>, SharedLogError> {
        let owner = self.key("owner");
        let answer = self.txn(&[], &[get(&owner)], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).next();
        Ok(found.and_then(|pair| MemberId::try_from(decode(pair.get("value"))).ok()))
    }

    /// Removes everything of the fleet.
    pub fn dissolve(&mut self) -> Result<(), SharedLogError> {
        let start = self.key("");
        let end = format!("{}0", start.trim_end_matches('/'));
        let body = json!({
            "key": encode(start.as_bytes()),
            "range_end": encode(end.as_bytes()),
        });
        let path = "/v3/kv/deleterange";
        self.gateway.call(path, &body, Repeat::Safe).map(drop)
    }

    /// The version of the etcd that answers.
    pub fn engine_version(&mut self) -> Result<String, SharedLogError> {
        let answer = self
            .gateway
            .call("/v3/maintenance/status", &json!({}), Repeat::Safe)?;
        let version = answer.get("version").and_then(Value::as_str);
        Ok(version.unwrap_or_default().to_owned())
    }

    /// Bytes that etcd uses, of all its content.
    pub fn engine_bytes(&mut self) -> Result<u64, SharedLogError> {
        let answer = self
            .gateway
            .call("/v3/maintenance/status", &json!({}), Repeat::Safe)?;
        Ok(number(answer.get("dbSizeInUse")))
    }

    fn keys_of(&self, member: &MemberRecord) -> (String, String) {
        // The name in hexadecimal, so that no name reaches into other keys.
        let name = HEXLOWER.encode(member.name.as_bytes());
        let id = &member.id;
        (
            self.key(&format!("names/{name}")),
            self.key(&format!("members/{id}")),
        )
    }
}

fn text(member: &MemberRecord) -> String {
    json!(member).to_string()
}
