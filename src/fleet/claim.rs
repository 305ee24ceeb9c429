//! The claim of a member: the thread that renews it, and the promise of a standby not to claim the log.
//!
//! The claim has its own thread, so that neither a long transaction nor an append without an answer can cost a member
//! its claim.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::candidacy::Candidacy;
use super::catch_up::CatchUp;
use super::etcd::{EtcdLog, MemberRecord};
use super::fence::{Fence, millis};
use super::lease_file;
use super::membership::Membership;
use super::process::ProcessId;
use super::watching::Watching;
use playgate_store::replication::{Claim, MemberId, SharedLog as _, SharedLogError};

pub(super) const TICK: Duration = Duration::from_millis(100);
/// Least time between two reads of the claim by a standby whose watch tells no change.
const POLL_EVERY: Duration = Duration::from_secs(1);

pub(super) struct DriverState {
    pub(super) membership: Membership,
    pub(super) process: ProcessId,
    pub(super) fence: Arc<Fence>,
    pub(super) candidacy: Arc<Candidacy>,
    lease: Duration,
    /// Why this member must not go on, found by the thread that renews the claim.
    failed: Mutex<Option<String>>,
    stopping: AtomicBool,
    claim: Mutex<Option<Claim>>,
    changed: Condvar,
    pub(super) catch_up: CatchUp,
    /// Number of the last entry that readers of the store see.
    pub(super) published: Arc<AtomicU64>,
    /// Uptime in milliseconds when the store last had everything of the log.
    followed: AtomicI64,
    pub(super) answered_here: AtomicU64,
    pub(super) forwarded: AtomicU64,
    /// Notified where the log has to be read; `changed` would also wake the thread that renews the claim.
    asked: Condvar,
    pub(super) watching: Watching,
    /// Uptime in milliseconds when the oldest call was sent to which etcd has not answered yet; the maximum for none.
    unanswered: AtomicI64,
    /// Uptime in milliseconds until which this member must not become the owner.
    promised: AtomicI64,
    /// The other members; `None` until this member is the owner.
    others: Mutex<Option<Vec<MemberRecord>>>,
}

impl DriverState {
    pub(super) fn new(
        membership: Membership,
        process: ProcessId,
        fence: Arc<Fence>,
        candidacy: Candidacy,
        lease: Duration,
    ) -> Self {
        // The previous process may have given a promise, which still counts. Its lease may have been longer.
        let honoured = lease.max(process.may_have_promised);
        let promised = fence.now().saturating_add(millis(honoured));
        Self {
            membership,
            process,
            candidacy: Arc::new(candidacy),
            lease,
            failed: Mutex::default(),
            stopping: AtomicBool::new(false),
            claim: Mutex::new(None),
            changed: Condvar::new(),
            catch_up: CatchUp::default(),
            published: Arc::default(),
            followed: AtomicI64::new(i64::MIN),
            answered_here: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            asked: Condvar::new(),
            watching: Watching::default(),
            unanswered: AtomicI64::new(i64::MAX),
            promised: AtomicI64::new(promised),
            others: Mutex::new(None),
            fence,
        }
    }

    pub(super) const fn lease(&self) -> Duration {
        self.lease
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.watching.end();
        self.notify();
    }

    fn fail(&self, why: String) {
        // Nothing of this member may be answered any more.
        self.fence.end();
        self.failed.lock().get_or_insert(why);
        self.notify();
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().clone()
    }

    fn notify(&self) {
        self.changed.notify_all();
        self.asked.notify_all();
    }

    pub(super) fn claim(&self) -> Option<Claim> {
        *self.claim.lock()
    }

    /// Waits until the claim has changed, requests after number `asked` need a read of the log, or another number than `heads`
    /// of changes of the log were told. Returns whether the time has passed without any of these.
    pub(super) fn wait(
        &self,
        seen: Option<Claim>,
        asked: u64,
        heads: Option<u64>,
        wait: Duration,
    ) -> bool {
        let mut claim = self.claim.lock();
        let has_no_news = |claim: &mut Option<Claim>| {
            *claim == seen
                && !self.catch_up.needs_log_after(asked)
                && heads.is_none_or(|heads| self.watching.heads() == heads)
                && !self.is_stopping()
        };
        let waited = self.asked.wait_while_for(&mut claim, has_no_news, wait);
        waited.timed_out()
    }

    /// Lets the log be read, since a watch has told that it has changed.
    pub(super) fn tell_head(&self) {
        self.watching.tell_head();
        self.wake_log_reader();
    }

    /// Lets the claim be read, since a watch has told that it has changed.
    pub(super) fn tell_claim(&self) {
        self.watching.tell_claim();
        // With the lock, so that the thread does not miss it between its check and its wait.
        drop(self.claim.lock());
        self.changed.notify_all();
    }

    /// Answers the requests up to a number, as [`CatchUp::reach`] does.
    pub(super) fn reach(&self, asked: u64) {
        self.followed.store(self.fence.now(), Ordering::Release);
        self.catch_up.reach(asked);
    }

    pub(super) fn has_followed_within(&self, time: Duration) -> bool {
        let followed = self.followed.load(Ordering::Acquire);
        self.fence.now() <= followed.saturating_add(millis(time))
    }

    /// Waits until the state has every change that was acknowledged before this call. Returns false if the time passes.
    pub(super) async fn caught_up(&self, within: Duration) -> bool {
        let (number, needs_log) = self.catch_up.ask();
        if needs_log {
            self.wake_log_reader();
        }
        self.catch_up.reached(number, within).await
    }

    /// Lets the log be read for the requests up to a number.
    pub(super) fn require_log(&self, number: u64) {
        self.catch_up.require_log(number);
        self.wake_log_reader();
    }

    /// Lets the log be read for all requests from now on.
    pub(super) fn stop_asking_owner(&self) {
        self.catch_up.stop_asking_owner();
        self.wake_log_reader();
    }

    fn wake_log_reader(&self) {
        // With the lock, so that the thread does not miss it between its check and its wait.
        drop(self.claim.lock());
        self.asked.notify_all();
    }

    /// Number of the last commit. Every change that any member acknowledged before this call is in this commit or an earlier
    /// one. `None` if another member may be the owner.
    pub(super) fn last_commit(&self) -> Option<u64> {
        let number = self.published.load(Ordering::Acquire);
        // Checked afterwards: no other member can have changed anything before the number was read.
        self.fence.holds().then_some(number)
    }

    pub(super) fn others(&self) -> Option<Vec<MemberRecord>> {
        self.others.lock().clone()
    }

    pub(super) fn set_others(&self, others: Vec<MemberRecord>) {
        *self.others.lock() = Some(others);
    }

    /// Promises not to become the owner for this time. Returns false if this member gives no promise.
    ///
    /// An owner accepts the promise of the process that it knows, or of a later one after that has ended.
    pub(super) fn promise(&self, time: Duration) -> bool {
        // The next process honours a promise of this lease.
        if time > self.lease {
            return false;
        }
        // The lock is held, so that `keep` accepts no claim in between.
        let claim = self.claim.lock();
        let now = self.fence.now();
        let unanswered = self.unanswered.load(Ordering::Acquire);
        if unanswered == i64::MAX {
            // etcd has answered every call, but the last one may be some time ago. The next request knows.
            self.watching.tell_claim();
            self.changed.notify_all();
        }
        // A member that etcd answers could take over at any time, so it must not promise.
        let is_away = now > unanswered.saturating_add(millis(self.lease / 4));
        if !is_away || is_held(*claim) {
            return false;
        }
        let until = now.saturating_add(millis(time));
        self.promised.fetch_max(until, Ordering::AcqRel);
        true
    }

    fn has_promised(&self) -> bool {
        self.fence.now() < self.promised.load(Ordering::Acquire)
    }

    /// Records that a call is sent.
    fn sends(&self) {
        let now = self.fence.now();
        self.unanswered.fetch_min(now, Ordering::AcqRel);
    }

    fn answered(&self) {
        self.unanswered.store(i64::MAX, Ordering::Release);
    }

    /// Processes the outcome of a call that was sent after `before`.
    fn keep(&self, next: Claim, before: i64) {
        let mut current = self.claim.lock();
        match next {
            // A promise was given during the call. The log is claimed again once the promise has ended.
            Claim::Held { .. } if self.has_promised() && !is_held(*current) => return,
            Claim::Held { epoch } => self.fence.renew(epoch, before),
            Claim::Other { .. } => self.fence.end(),
        }
        if current.replace(next) != Some(next) {
            self.notify();
        }
    }
}

fn is_held(claim: Option<Claim>) -> bool {
    matches!(claim, Some(Claim::Held { .. }))
}

pub(super) fn is_other(claim: Option<Claim>) -> bool {
    matches!(claim, Some(Claim::Other { .. }))
}

pub(super) struct ClaimLoop {
    pub(super) log: EtcdLog,
    pub(super) shared: Arc<DriverState>,
    pub(super) directory: PathBuf,
    pub(super) noted: Option<u64>,
}

impl ClaimLoop {
    pub(super) fn run(&mut self) {
        let member = self.shared.membership.member;
        // Whether the last wait has ended without news.
        let mut is_poll = false;
        while !self.shared.is_stopping() {
            // The time is read before the call, since etcd renews the lease at some later time.
            let before = self.shared.fence.now();
            let (known, told) = (self.shared.claim(), self.shared.watching.claims());
            self.shared.sends();
            let rest = match self.claim(member) {
                Ok(claim) => {
                    self.shared.answered();
                    if let Some(claim) = claim {
                        self.shared.keep(claim, before);
                    }
                    if is_poll && self.shared.watching.is_live() && self.shared.claim() != known {
                        self.shared.watching.end();
                    }
                    match claim {
                        Some(Claim::Held { .. }) => {
                            self.note_lease();
                            self.shared.lease / 4
                        }
                        Some(Claim::Other { .. }) if self.shared.watching.is_live() => {
                            POLL_EVERY.max(self.shared.lease / 2)
                        }
                        // A standby polls often, so that it takes over soon after the lease of the owner ends.
                        Some(Claim::Other { .. }) | None => TICK,
                    }
                }
                Err(error @ (SharedLogError::Unknown(_) | SharedLogError::Refused(_))) => {
                    tracing::debug!(%error, "failed to renew the claim");
                    TICK / 2
                }
                // etcd is not the one that this member knows, or has lost changes.
                Err(error) => {
                    self.shared.fail(error.to_string());
                    TICK
                }
            };
            let mut claim = self.shared.claim.lock();
            let has_news = self.shared.watching.claims() != told || self.shared.is_stopping();
            is_poll = !has_news && self.shared.changed.wait_for(&mut claim, rest).timed_out();
        }
        // The fence ends before the claim: another member can take over as soon as the lease is revoked.
        self.shared.fence.end();
        if let Err(error) = self.log.resign(member) {
            tracing::debug!(%error, "failed to release the claim of the owner; it ends with its lease");
        }
    }

    fn note_lease(&mut self) {
        // The lease is saved after the claim is taken, since the claim must not wait for a disk.
        let lease = self.log.lease();
        let Some(new) = lease.filter(|_| lease != self.noted) else {
            return;
        };
        self.noted = lease;
        if let Err(error) = lease_file::write(&self.directory, new) {
            tracing::debug!(%error, "failed to save the id of the lease; after a crash it must expire by itself");
        }
    }

    /// Returns `None` if no member has the claim and this one has promised not to take it, or should not take it yet.
    fn claim(&mut self, member: MemberId) -> Result<Option<Claim>, SharedLogError> {
        if is_held(self.shared.claim()) {
            return self.log.claim(member).map(Some);
        }
        let candidacy = &self.shared.candidacy;
        // A read costs etcd less than the attempt of a standby, which fails while another member has the claim.
        match self.log.owner()? {
            Some(other) if other != member => {
                candidacy.saw_owner();
                Ok(Some(Claim::Other { member: other }))
            }
            // The claim of its previous process, which ends with the lease.
            Some(_) if !candidacy.can_own() => Ok(None),
            None if self.shared.has_promised() => Ok(None),
            None if !candidacy.claims_at(self.shared.fence.now()) => Ok(None),
            Some(_) | None => self.log.claim(member).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::tests::Uptime;
    use playgate_ports::Clock;

    const LEASE: Duration = Duration::from_secs(2);
    const OTHER: Claim = Claim::Other { member: [2; 16] };

    fn standby() -> (Arc<Uptime>, DriverState) {
        let clock = Arc::new(Uptime(AtomicI64::new(1_000)));
        let fence = Fence::new(Arc::clone(&clock) as Arc<dyn Clock>, LEASE);
        let membership = Membership {
            fleet: [1; 16],
            member: [3; 16],
            name: "south".to_owned(),
            key: [4; 32],
        };
        let candidacy = Candidacy::new(true, LEASE);
        let process = ProcessId::default();
        let state = DriverState::new(membership, process, Arc::new(fence), candidacy, LEASE);
        (clock, state)
    }

    #[test]
    fn a_standby_that_promised_does_not_become_the_owner_before() {
        let (clock, state) = standby();
        // A promise of the previous process may still count.
        assert!(state.has_promised());
        clock.0.store(4_500, Ordering::SeqCst);
        assert!(!state.has_promised());
        state.sends();
        state.answered();
        state.keep(OTHER, 4_400);
        clock.0.store(5_000, Ordering::SeqCst);
        let told = state.watching.claims();
        assert!(!state.promise(LEASE), "etcd has answered every call");
        assert_ne!(state.watching.claims(), told, "it is asked again");
        state.sends();
        clock.0.store(5_400, Ordering::SeqCst);
        state.sends();
        assert!(!state.promise(LEASE), "etcd may still answer this member");
        clock.0.store(5_600, Ordering::SeqCst);
        let longer = LEASE + Duration::from_millis(1);
        assert!(!state.promise(longer), "a restart would not honour it");
        assert!(!state.promise(Duration::from_millis(u64::MAX)));
        assert!(!state.has_promised());
        assert!(state.promise(LEASE));
        // The answer to a call that was sent before the promise.
        state.keep(Claim::Held { epoch: 7 }, 5_500);
        assert_eq!(state.claim(), Some(OTHER));
        assert!(state.fence.is_lost());
        clock.0.store(7_600, Ordering::SeqCst);
        state.keep(Claim::Held { epoch: 7 }, 7_500);
        assert_eq!(state.claim(), Some(Claim::Held { epoch: 7 }));
        assert!(!state.fence.is_lost());
        clock.0.store(9_000, Ordering::SeqCst);
        assert!(!state.promise(LEASE), "it is the owner itself");
    }
}
