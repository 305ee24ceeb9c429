//! Who claims the log, and what becomes of an owner whose claim has ended.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread::park_timeout;
use std::time::Duration;

use data_encoding::BASE64;
use rustix::process::Signal;
use serde_json::json;

use super::etcd_data::{ask, encode};
use super::operations::ops;
use super::stale_reads::User;
use super::trial::Fleet;
use super::{send, until};
use crate::support::process::signal;
use crate::support::raw_http::request;

/// The claim of the log, as etcd has it.
#[derive(Debug, PartialEq, Eq)]
struct OwnerKey {
    process: String,
    lease: String,
}

fn owner_key(fleet: &Fleet) -> Option<OwnerKey> {
    let range = json!({ "key": encode("playgate/"), "range_end": encode("playgate0") });
    let found = ask(&fleet.etcd[0], "/v3/kv/range", &range);
    let text = |value: &serde_json::Value| {
        let bytes = BASE64.decode(value.as_str().unwrap().as_bytes()).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut keys = found["kvs"].as_array().unwrap().iter();
    let key = keys.find(|pair| text(&pair["key"]).ends_with("/owner-process"))?;
    Some(OwnerKey {
        process: text(&key["value"]),
        lease: key["lease"].as_str().unwrap().to_owned(),
    })
}

/// Ends the claim of the owner and makes a change, until the change comes before the owner has noticed the end.
fn end_claim_under_a_change(fleet: &Fleet, user: &User, owner: usize) -> OwnerKey {
    until("a change without a claim", || {
        let before = owner_key(fleet)?;
        let revoked = json!({ "ID": before.lease });
        ask(&fleet.etcd[0], "/v3/lease/revoke", &revoked);
        let status = user.rename(fleet.members[owner].address, "refused");
        (status == Some(503)).then_some(before)
    })
}

/// As after a cut of all members from etcd: the owner need not load its services again.
#[test]
fn an_owner_whose_claim_has_ended_goes_on_unless_another_member_has_claimed_the_log() {
    /// Renewals are rare, so that a change comes between the end of the claim and the next renewal.
    const LEASE: Duration = Duration::from_secs(8);
    let Some(fleet) = Fleet::with(&[("PLAYGATE_FLEET_LEASE", "8s")]) else {
        return;
    };
    let owner = fleet.owner();
    let at = fleet.members[owner].address;
    let user = User::sign_up(&fleet, at, "claims@example.com");
    // A member that has just started claims nothing.
    park_timeout(LEASE);
    let others = [1, 2].map(|next| &fleet.members[(owner + next) % 3]);
    others.iter().for_each(|other| other.process.pause());
    let before = end_claim_under_a_change(&fleet, &user, owner);
    until("a change", || {
        (user.rename(at, "goes on") == Some(200)).then_some(())
    });
    let after = owner_key(&fleet).unwrap();
    assert_eq!(after.process, before.process);
    assert_ne!(after.lease, before.lease);

    // Control: another member is faster.
    others.iter().for_each(|other| other.process.resume());
    let next = until("another owner", || {
        end_claim_under_a_change(&fleet, &user, owner);
        Some(fleet.owner()).filter(|next| *next != owner)
    });
    let next = fleet.members[next].address;
    until("a change at the next owner", || {
        (user.rename(next, "after") == Some(200)).then_some(())
    });
    until("a read at the previous owner", || {
        let (status, body) = user.read(at)?;
        assert!(!body.contains("goes on"), "{body}");
        (status == 200 && body.contains("after")).then_some(())
    });
}

/// It would end as the owner a moment later, and the fleet would wait once more.
#[test]
fn a_standby_that_ends_does_not_become_the_owner() {
    let Some(fleet) = Fleet::start() else { return };
    let owner = fleet.owner();
    let [ending, third] = [1, 2].map(|next| &fleet.members[(owner + next) % 3]);
    fleet.wait_until_equal();
    // The end waits for this request, which the owner has, and whose body does not come.
    let mut stream = TcpStream::connect(ending.address).unwrap();
    let token = ("Service-AccessToken", &*fleet.partner);
    let whole = request("PUT", "/api/login/v2/auth/email", &[token], "{}");
    let part = whole.strip_suffix("{}").unwrap();
    stream.write_all(part.as_bytes()).unwrap();
    let ops = ops(&ending.config);
    until("a connection to the owner", || {
        let metrics = send(ops, "GET", "/metrics", &[], "")?.1;
        metrics
            .contains("\nplaygate_fleet_owner_connections 1\n")
            .then_some(())
    });
    let ended = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", ending.process.id()));
        state.is_err() || state.is_ok_and(|state| state.contains(") Z"))
    };
    let before = owner_key(&fleet).unwrap();
    third.process.pause();
    fleet.members[owner].process.pause();
    assert!(signal(ending.process.id(), Signal::TERM));
    let mut was_free = false;
    until("the end of the standby", || {
        let claim = owner_key(&fleet);
        was_free |= claim.is_none();
        assert!(claim.is_none_or(|claim| claim == before));
        ended().then_some(())
    });
    // It had the time.
    assert!(was_free);
    third.process.resume();
    until("the third member", || {
        (fleet.members[fleet.owner()].name == third.name).then_some(())
    });
    fleet.members[owner].process.resume();
}
