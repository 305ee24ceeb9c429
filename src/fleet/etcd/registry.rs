//! The members of a fleet: each has a record under `members/ID` and its name under `names/NAME`.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::gateway::{Repeat, decode, encode, number};
use super::{
    EtcdLog, created_at, delete, digits, get, has_value, pairs, parse_digits, put, range, succeeded,
};
use playgate_store::replication::{MemberId, SharedLogError};

/// Far more than any fleet has.
const MEMBERS_MAX: usize = 64;
/// Seconds for which a member of a version without a lease counts as running after it wrote its record.
const SILENT_MAX: i64 = 15;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    pub id: String,
    pub name: String,
    /// `host:port` for other members.
    pub address: String,
    pub version: String,
    /// Its last commit when it wrote the record.
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
    /// Random id of the process that wrote the record; empty in records of commands and of earlier versions.
    #[serde(default)]
    pub process: String,
    /// Ids of the processes that the owner knows, in the order of `knows`.
    #[serde(default)]
    pub processes: Vec<String>,
    /// Epoch of the owner that the member is or follows.
    #[serde(default)]
    pub epoch: u64,
    /// Its disk has no space for changes.
    #[serde(default)]
    pub full: bool,
    /// `fleet.may_own`
    #[serde(default = "may_own")]
    pub may_own: bool,
    /// Why its settings refuse the data of the fleet.
    #[serde(default)]
    pub unfit: Option<String>,
    /// When the leases of members that do not run have ended, by id in Unix seconds, as the owner noticed it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub down: BTreeMap<String, i64>,
    /// How many tables its version knows. A version with fewer tables cannot read what one with more may write, so it must not
    /// be a standby of such an owner. `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<u32>,
    /// The process that runs as this member, from its key in etcd.
    #[serde(skip)]
    pub alive: Option<String>,
    /// The lease of that key.
    #[serde(skip)]
    pub lease: u64,
}

impl MemberRecord {
    pub fn is_alive(&self, now: i64) -> bool {
        // A member of an earlier version has no lease, and writes its record every two seconds.
        let is_fresh = self.process.is_empty() && (now - self.seen).abs() <= SILENT_MAX;
        self.alive.is_some() || is_fresh
    }

    /// Returns for how many seconds nothing was heard of the member; 0 while its lease holds.
    pub fn silent(&self, now: i64) -> i64 {
        match self.alive.is_some() {
            true => 0,
            false => now - self.seen,
        }
    }
}

/// The claim of the owner, as etcd has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerClaim {
    pub member: MemberId,
    pub epoch: u64,
    /// Empty for an owner of an earlier version.
    pub process: String,
}

/// Members, claim and log, all at one revision.
#[derive(Clone, Debug)]
pub struct Roster {
    pub members: Vec<MemberRecord>,
    /// `None`: etcd has no log of the fleet.
    pub head: Option<u64>,
    pub owner: Option<OwnerClaim>,
    pub revision: u64,
}

impl Roster {
    pub fn member(&self, id: &str) -> Option<&MemberRecord> {
        self.members.iter().find(|member| member.id == id)
    }

    pub fn owner_record(&self) -> Option<&MemberRecord> {
        self.member(&HEXLOWER.encode(&self.owner.as_ref()?.member))
    }

    /// When the lease of a member ended; `None` if it runs, or no owner was there to notice it.
    pub fn down_since(&self, member: &MemberRecord) -> Option<i64> {
        down_since(&self.members, self.owner_record(), member)
    }

    /// Whether a member of a version with fewer tables than `this_member` runs and may take over. `last_owner` does not
    /// count: while nobody has the claim it does not run, whatever its record says.
    pub fn has_older(
        &self,
        this_member: &MemberRecord,
        last_owner: Option<&str>,
        now: i64,
    ) -> bool {
        let mut others = self.members.iter();
        others.any(|member| {
            let can_own = member.may_own && member.unfit.is_none() && !member.full;
            member.tables < this_member.tables
                && can_own
                && member.is_alive(now)
                && Some(&*member.id) != last_owner
        })
    }

    /// Fails if a registered member has more commits than the log, which then lost some.
    pub fn check_ahead(&self) -> Result<(), SharedLogError> {
        let Some(head) = self.head else { return Ok(()) };
        let ahead = self.members.iter().find(|member| member.applied > head);
        ahead.map_or(Ok(()), |member| {
            Err(SharedLogError::MemberAhead {
                member: member.name.clone(),
                applied: member.applied,
                head,
            })
        })
    }
}

/// Like [`Roster::down_since`], from the records of the members and that of the owner.
pub fn down_since(
    members: &[MemberRecord],
    owner: Option<&MemberRecord>,
    member: &MemberRecord,
) -> Option<i64> {
    if member.alive.is_some() {
        return None;
    }
    let noticed = owner.and_then(|owner| owner.down.get(&member.id));
    let earlier = members.iter().filter_map(|one| one.down.get(&member.id));
    // After an earlier owner has noticed it, the member may have run again, and ended without an owner.
    let earlier = earlier.max().filter(|since| **since >= member.seen);
    noticed.or(earlier).copied()
}

/// Members of earlier versions may all become the owner.
const fn may_own() -> bool {
    true
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
        Ok(self.roster()?.members)
    }

    /// Reads members, claim and head in one step.
    pub fn roster(&mut self) -> Result<Roster, SharedLogError> {
        let members = self.key("members/")..self.key("members0");
        let alive = self.key("alive/")..self.key("alive0");
        let reads = [
            range(&members, MEMBERS_MAX),
            range(&alive, MEMBERS_MAX),
            get(&self.key("head")),
            // One read for both: they have the same lease, and no other key is between them.
            range(&(self.key("owner")..self.key("owner-process0")), 2),
        ];
        let answer = self.txn(&[], &reads, &[], Repeat::Safe)?;
        let text = |pair: &Value| String::from_utf8_lossy(&decode(pair.get("value"))).into_owned();
        let alive = pairs(&answer, 1).filter_map(|pair| {
            let key = String::from_utf8(decode(pair.get("key"))).ok()?;
            let member = key.rsplit('/').next()?.to_owned();
            Some((member, (text(pair), number(pair.get("lease")))))
        });
        let mut alive: BTreeMap<_, _> = alive.collect();
        let records = pairs(&answer, 0).map(|pair| {
            let record = parse(&decode(pair.get("value")))?;
            let (alive, lease) = alive.remove(&record.id).unzip();
            Ok(MemberRecord {
                alive,
                lease: lease.unwrap_or_default(),
                ..record
            })
        });
        let members = records.collect::<Result<_, SharedLogError>>()?;
        let head = pairs(&answer, 2).next();
        let owner = pairs(&answer, 3).next().and_then(|pair| {
            Some(OwnerClaim {
                member: MemberId::try_from(decode(pair.get("value"))).ok()?,
                epoch: number(pair.get("create_revision")),
                process: pairs(&answer, 3).nth(1).map(text).unwrap_or_default(),
            })
        });
        Ok(Roster {
            members,
            head: head.and_then(|pair| parse_digits(&decode(pair.get("value")))),
            owner,
            revision: number(answer.pointer("/header/revision")),
        })
    }

    pub fn owner(&mut self) -> Result<Option<MemberId>, SharedLogError> {
        let owner = self.key("owner");
        let answer = self.txn(&[], &[get(&owner)], &[], Repeat::Safe)?;
        let found = pairs(&answer, 0).next();
        Ok(found.and_then(|pair| MemberId::try_from(decode(pair.get("value"))).ok()))
    }

    pub fn owner_record(&mut self) -> Result<Option<MemberRecord>, SharedLogError> {
        Ok(self.roster()?.owner_record().cloned())
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
        let mut success = self.removal();
        success.push(put(&self.key("dissolved"), &text(into), 0));
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

    /// Removes everything of the fleet but the claim of its owner.
    pub(super) fn removal(&self) -> Vec<Value> {
        let last = self.key("head");
        let ranges = ["log", "members", "names", "alive"].map(|name| {
            delete(
                &self.key(&format!("{name}/")),
                &self.key(&format!("{name}0")),
            )
        });
        let mut removal = ranges.to_vec();
        // The range contains exactly this key.
        removal.push(delete(&last, &format!("{last}\0")));
        removal
    }

    pub(super) fn keys_of(&self, member: &MemberRecord) -> (String, String) {
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

pub(super) fn text(member: &MemberRecord) -> String {
    json!(member).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a member of the first version with a fleet.
    const FIRST: &str = r#"{"id":"0a","name":"north","address":"10.0.0.1:7080","version":"0.1.0","applied":7,"seen":1000}"#;

    #[test]
    fn records_of_earlier_versions_are_read_and_count_as_alive_while_they_move() {
        let first = parse(FIRST.as_bytes()).unwrap();
        assert!(first.is_alive(1_010) && !first.is_alive(1_060));
        assert_eq!((first.applied, first.silent(1_060)), (7, 60));
        // A member of this version runs as long as its lease holds, however old its record is.
        let record = MemberRecord {
            process: "ab".to_owned(),
            alive: Some("ab".to_owned()),
            ..first
        };
        assert!(record.is_alive(9_999_999));
        assert_eq!(record.silent(9_999_999), 0);
        let ended = MemberRecord {
            alive: None,
            ..record.clone()
        };
        assert!(!ended.is_alive(1_001));
        let golden = r#"{"address":"10.0.0.1:7080","answered":0,"applied":7,"epoch":0,"forwarded":0,"full":false,"id":"0a","knows":[],"may_own":true,"name":"north","process":"ab","processes":[],"seen":1000,"unfit":null,"version":"0.1.0"}"#;
        assert_eq!(text(&record), golden);
    }

    #[test]
    fn the_time_since_a_member_is_down_outlives_the_owner_that_noticed_it() {
        let record = |id: &str, seen, down: &[(&str, i64)]| MemberRecord {
            id: id.to_owned(),
            seen,
            down: down
                .iter()
                .map(|(id, at)| ((*id).to_owned(), *at))
                .collect(),
            ..MemberRecord::default()
        };
        let lost = record("0c", 1_000, &[]);
        let since = |members: &[MemberRecord], owner: usize, lost: &MemberRecord| {
            down_since(members, members.get(owner), lost)
        };
        let noticed = [
            record("0a", 1_300, &[("0c", 1_200)]),
            record("0b", 1_100, &[]),
        ];
        assert_eq!(since(&noticed, 0, &lost), Some(1_200));
        // The next owner has not looked yet.
        assert_eq!(since(&noticed, 1, &lost), Some(1_200));
        assert_eq!(since(&noticed, 2, &lost), Some(1_200));
        // Nobody was there when it ended the second time.
        assert_eq!(since(&noticed, 1, &record("0c", 1_250, &[])), None);
        let runs = MemberRecord {
            alive: Some("ab".to_owned()),
            ..lost
        };
        assert_eq!(since(&noticed, 0, &runs), None);
        let text = text(&noticed[0]);
        assert!(text.contains(r#""down":{"0c":1200}"#), "{text}");
        assert_eq!(parse(text.as_bytes()).unwrap(), noticed[0]);
    }

    #[test]
    fn an_older_member_that_runs_and_can_own_is_found() {
        let older = parse(FIRST.as_bytes()).unwrap();
        let newer = MemberRecord {
            id: "0b".to_owned(),
            tables: Some(1),
            ..older.clone()
        };
        assert!(text(&newer).contains(r#""tables":1"#));
        let has_older = |older: &MemberRecord, last_owner, now| {
            let roster = Roster {
                members: vec![newer.clone(), older.clone()],
                head: None,
                owner: None,
                revision: 1,
            };
            roster.has_older(&newer, last_owner, now)
        };
        assert!(has_older(&older, None, 1_010) && has_older(&older, Some("0b"), 1_010));
        assert!(!has_older(&older, None, 1_060) && !has_older(&older, Some("0a"), 1_010));
        let equal = MemberRecord {
            tables: newer.tables,
            ..older.clone()
        };
        let never = MemberRecord {
            may_own: false,
            ..older
        };
        assert!(!has_older(&equal, None, 1_010) && !has_older(&never, None, 1_010));
    }

    #[test]
    fn a_member_with_more_commits_than_the_log_is_found() {
        let record = parse(FIRST.as_bytes()).unwrap();
        let roster = |head| Roster {
            members: vec![record.clone()],
            head,
            owner: None,
            revision: 1,
        };
        assert_eq!(roster(Some(7)).check_ahead(), Ok(()));
        assert_eq!(roster(None).check_ahead(), Ok(()));
        let ahead = roster(Some(6)).check_ahead().unwrap_err().to_string();
        assert!(
            ahead.contains("north") && ahead.contains("up to 7"),
            "{ahead}"
        );
    }
}
