//! Whether this member may become the owner, or stay it.
//!
//! None of this is needed for safety: a claim is one transaction of etcd, whoever makes it. It decides which member should
//! make it: not one that cannot write, and not one that would end as soon as it served the data of the fleet.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::fence::millis;

/// How long a member leaves the claim to others if it has no disk space, or they could not read what it would write. Another
/// one takes it within a lease and the time of its poll.
const DEFERRED_FOR: Duration = Duration::from_secs(5);
/// A member yields for no longer at a time, whatever another member asks for.
const YIELD_MAX: Duration = Duration::from_secs(60);

/// What a member knows of itself, for other members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberState {
    pub commit: u64,
    pub is_owner: bool,
    /// It follows the log, and nothing keeps it from owning the fleet.
    pub can_own: bool,
    pub is_full: bool,
    /// `fleet.may_own`
    pub may_own: bool,
    /// Why its settings refuse the data of the fleet.
    pub unfit: Option<String>,
    /// The settings that must be equal on all members; of a secret a digest.
    pub settings: BTreeMap<String, String>,
}

pub struct Candidacy {
    lease: Duration,
    /// `fleet.may_own`
    may_own: bool,
    unfit: Mutex<Option<String>>,
    /// Whether no other process of this member, such as that of a copy, can promise an owner that it does not take over.
    is_known: AtomicBool,
    is_full: AtomicBool,
    /// Whether a member of an earlier version could take over, which would end as a standby of this one.
    is_newer: AtomicBool,
    /// The claim is kept, and no change reaches the log.
    cannot_append: AtomicBool,
    /// Uptime in milliseconds until which another member should take the claim.
    yields_until: AtomicI64,
    /// Uptime in milliseconds when the log was first found without an owner.
    ownerless_since: Mutex<Option<i64>>,
}

impl Candidacy {
    pub(super) fn new(may_own: bool, lease: Duration) -> Self {
        Self {
            lease,
            may_own,
            unfit: Mutex::new(None),
            is_known: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            is_newer: AtomicBool::new(false),
            cannot_append: AtomicBool::new(false),
            yields_until: AtomicI64::new(i64::MIN),
            ownerless_since: Mutex::new(None),
        }
    }

    /// Whether to claim a log that has no owner. `now`: uptime in milliseconds.
    pub(super) fn claims_at(&self, now: i64) -> bool {
        let since = *self.ownerless_since.lock().get_or_insert(now);
        if !self.can_own() || now < self.yields_until.load(Ordering::Acquire) {
            return false;
        }
        // If no member has space, one of them must answer reads. An older member may not come.
        let deferred = millis(self.lease.saturating_mul(2).max(DEFERRED_FOR));
        let defers = self.is_full() || self.is_newer.load(Ordering::Acquire);
        !defers || now >= since.saturating_add(deferred)
    }

    pub(super) fn saw_owner(&self) {
        *self.ownerless_since.lock() = None;
    }

    /// Whether this member could serve as the owner, at least reads.
    pub(super) fn can_own(&self) -> bool {
        self.may_own && self.is_known() && self.unfit.lock().is_none()
    }

    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    pub(super) fn set_known(&self) {
        self.is_known.store(true, Ordering::Release);
    }

    pub const fn may_own(&self) -> bool {
        self.may_own
    }

    pub fn unfit(&self) -> Option<String> {
        self.unfit.lock().clone()
    }

    /// Sets why the settings of this member refuse the data of the fleet. Returns whether that is new.
    pub fn set_unfit(&self, why: Option<String>) -> bool {
        let mut unfit = self.unfit.lock();
        let differs = *unfit != why;
        *unfit = why;
        differs
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Release);
    }

    pub(super) fn set_newer(&self, is_newer: bool) {
        self.is_newer.store(is_newer, Ordering::Release);
    }

    pub(super) fn set_cannot_append(&self, cannot: bool) {
        self.cannot_append.store(cannot, Ordering::Release);
    }

    /// Whether an owner refuses changes for a reason that another member may not have.
    pub fn cannot_change(&self) -> bool {
        self.is_full() || self.cannot_append.load(Ordering::Acquire)
    }

    pub(super) fn yield_claim(&self, now: i64, time: Duration) {
        let until = now.saturating_add(millis(time.min(YIELD_MAX)));
        self.yields_until.store(until, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(1);

    fn known(may_own: bool) -> Candidacy {
        let member = Candidacy::new(may_own, LEASE);
        member.set_known();
        member
    }

    #[test]
    fn a_copy_does_not_claim_before_an_owner_knows_it() {
        let copy = Candidacy::new(true, LEASE);
        assert!(!copy.claims_at(i64::MAX));
        copy.set_known();
        assert!(copy.claims_at(0));
    }

    #[test]
    fn a_member_with_a_full_disk_claims_only_if_no_other_one_does() {
        let member = known(true);
        assert!(member.claims_at(0));
        member.set_full(true);
        member.saw_owner();
        assert!(!member.claims_at(1_000));
        assert!(!member.claims_at(5_900));
        // Another member has claimed, and is lost in turn.
        member.saw_owner();
        assert!(!member.claims_at(6_100));
        assert!(!member.claims_at(11_000));
        assert!(member.claims_at(11_100));
        member.set_full(false);
        member.saw_owner();
        assert!(member.claims_at(12_000));
    }

    #[test]
    fn a_member_of_a_newer_version_claims_only_if_no_older_one_does() {
        let member = known(true);
        member.set_newer(true);
        assert!(!member.claims_at(0) && !member.claims_at(4_900));
        assert!(member.claims_at(5_000));
        member.saw_owner();
        assert!(!member.claims_at(6_000));
        // The older one was upgraded.
        member.set_newer(false);
        assert!(member.claims_at(6_100));
    }

    #[test]
    fn a_member_that_must_not_own_never_claims() {
        let never = known(false);
        assert!(!never.claims_at(0) && !never.claims_at(i64::MAX));
        let unfit = known(true);
        assert!(unfit.set_unfit(Some("a lab partner".to_owned())));
        assert!(!unfit.set_unfit(Some("a lab partner".to_owned())));
        assert!(!unfit.claims_at(i64::MAX));
        // The partner was removed.
        assert!(unfit.set_unfit(None));
        assert!(unfit.claims_at(0));
    }

    #[test]
    fn a_member_leaves_the_claim_to_another_for_a_time() {
        let member = known(true);
        member.yield_claim(0, Duration::from_secs(10));
        assert!(!member.claims_at(9_999));
        assert!(member.claims_at(10_000));
        member.yield_claim(0, Duration::MAX);
        assert!(member.claims_at(60_000));
    }

    #[test]
    fn the_state_of_a_member_of_another_version_is_read() {
        let state: MemberState = serde_json::from_str(r#"{"commit":7,"new":1}"#).unwrap();
        assert_eq!(state.commit, 7);
    }
}
