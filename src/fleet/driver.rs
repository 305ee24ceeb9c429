//! Starts the threads of a member: one renews the [claim](super::claim), the other one follows the log and becomes the
//! owner.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::claim::{ClaimLoop, DriverState, TICK};
use super::etcd::{EtcdLog, EtcdSettings, EtcdWatch, MemberRecord};
use super::fence::Fence;
use super::joining::{join_log, revoke_lease_of_previous_process};
use super::last_commit::{self, LastCommit};
use super::membership::Membership;
use super::peers::PeerClient;
use super::promises;
use super::standing::{FollowerState, Standing};
use super::watching::watch as watch_etcd;
use crate::ports::{Clock, Entropy};
use crate::store::replication::{
    Claim, Entry, MemberId, MemberRole, ReplicaStatus, Replication, SharedLog, SharedLogError,
};
use crate::store::{Store, StoreError};
use crate::types::VERSION;

const RECORD_EVERY: Duration = Duration::from_secs(2);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Timeout of one call over all endpoints. After a timeout the call is repeated.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Least time between two reads of the log. Client requests that arrive in between share the next read, because one read
/// takes etcd about 25 times the processor time that a member needs to answer one request.
const READ_EVERY: Duration = Duration::from_millis(10);
const READ_BYTES: usize = 1024 * 1024;
/// Least time between two reads of the log after which entries are applied without a request that needs them. The first
/// change after a pause is applied at once.
const APPLY_EVERY: Duration = Duration::from_millis(100);
/// How often a standby reads the log although its watch has told no change.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// One position in the log is remembered per this many bytes.
const SAMPLE_BYTES: u64 = 1024 * 1024;
const REMOVED: &str = "this member was removed from its fleet; run `playgate fleet leave`, and join again with an empty data directory";
/// Attempts to read a damaged entry before the process ends. Each one asks another member of etcd.
const DAMAGED_MAX: u32 = 10;

pub struct DriverSettings {
    pub etcd: EtcdSettings,
    pub lease: Duration,
    /// Size of the shared log that is kept for members that were away.
    pub keep: u64,
    pub address: String,
    pub client: PeerClient,
    pub directory: PathBuf,
    pub standing: watch::Sender<Standing>,
}

pub struct FleetDriver {
    store: Store,
    log: Arc<Mutex<EtcdLog>>,
    fence: Arc<Fence>,
    shared: Arc<DriverState>,
    threads: Vec<JoinHandle<()>>,
}

/// Asks this member not to become the owner before the time has passed. Returns whether it promises that.
pub type Promise = Arc<dyn Fn(Duration) -> bool + Send + Sync>;

pub type OnFleetFailure = Arc<dyn Fn(String) + Send + Sync>;

impl FleetDriver {
    /// Joins the log with a store that was opened with `FleetAccess::Member`, and starts the threads. Blocks.
    pub fn start(
        store: Store,
        membership: &Membership,
        settings: DriverSettings,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        on_failure: OnFleetFailure,
        runtime: &Handle,
    ) -> Result<Self, StoreError> {
        let log = |timeout: Duration| {
            let etcd = EtcdSettings {
                timeout,
                ..settings.etcd.clone()
            };
            let lease = settings.lease;
            EtcdLog::new(&etcd, membership.fleet, lease, runtime.clone())
        };
        let fence = Arc::new(Fence::new(Arc::clone(&clock), settings.lease));
        let shared = DriverState::new(membership.clone(), Arc::clone(&fence), settings.lease);
        let shared = Arc::new(shared);
        let status = join_log(&store, || {
            let entropy = Arc::clone(&entropy);
            Ok(Replication {
                fleet: membership.fleet,
                member: membership.member,
                log: Box::new(log(CALL_TIMEOUT)?),
                nonce: Box::new(move || entropy.array()),
                max_wait: MAX_WAIT,
                published: Arc::clone(&shared.published),
            })
        })?;
        let (owner, client) = (Arc::clone(&shared), settings.client.clone());
        runtime.spawn(promises::ask(owner, client, settings.lease));
        let (standby, owners) = (Arc::clone(&shared), settings.standing.subscribe());
        runtime.spawn(last_commit::ask(standby, settings.client, owners));
        let watch = EtcdWatch::new(&settings.etcd, membership.fleet)?;
        runtime.spawn(watch_etcd(Arc::clone(&shared), watch));
        let mut asking = log(CALL_TIMEOUT)?;
        // The old lease is revoked early, so that no other member has to wait for its expiry before it takes over.
        revoke_lease_of_previous_process(&settings.directory, &mut asking);
        let mut claims = ClaimLoop {
            // A call must fail early enough for another attempt within the lease.
            log: log(settings.lease / 3)?,
            shared: Arc::clone(&shared),
            directory: settings.directory,
            noted: None,
        };
        let mut follow = FollowLoop {
            log: log(CALL_TIMEOUT)?,
            store: store.clone(),
            shared: Arc::clone(&shared),
            standing: settings.standing,
            status,
            passed: None,
            at_takeover: None,
            record: MemberRecord {
                id: membership.member_hex(),
                name: membership.name.clone(),
                address: settings.address,
                version: VERSION.to_owned(),
                applied: 0,
                seen: 0,
                knows: Vec::new(),
                answered: 0,
                forwarded: 0,
            },
            recorded: None,
            owner: None,
            is_owner_record_old: false,
            clock,
            samples: VecDeque::new(),
            keep: settings.keep,
            damaged: 0,
            is_poll: false,
            has_read: false,
            on_failure,
        };
        let threads = [
            spawn("fleet-claim", move || claims.run())?,
            spawn("fleet-follow", move || follow.run())?,
        ];
        Ok(Self {
            store,
            log: Arc::new(Mutex::new(asking)),
            fence,
            shared,
            threads: threads.into(),
        })
    }

    /// Returns a function that asks etcd for the other members. The function blocks.
    pub fn others(&self) -> impl Fn() -> Result<Vec<MemberRecord>, SharedLogError> + use<> {
        let (log, own) = (Arc::clone(&self.log), self.shared.membership.member_hex());
        move || {
            let mut members = log.lock().members()?;
            members.retain(|member| member.id != own);
            Ok(members)
        }
    }

    /// Returns a handle that tells whether a follower is up to date.
    #[must_use]
    pub fn follower(&self) -> FollowerState {
        FollowerState::new(Arc::clone(&self.shared))
    }

    #[must_use]
    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    pub fn promise(&self) -> Promise {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |time| shared.promise(time))
    }

    /// Returns a function that reads the number of the last commit, for the standbys that ask for it.
    pub fn last_commit(&self) -> LastCommit {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.last_commit())
    }

    /// Releases the claim, so that another member can take it immediately. Blocks.
    pub fn stop(self) {
        self.shared.stop();
        for thread in self.threads {
            let _ = thread.join();
        }
        // A failed store rejects commits anyway.
        let _ = self.store.leave_log();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    Ok(Builder::new().name(name.to_owned()).spawn(work)?)
}

struct FollowLoop {
    log: EtcdLog,
    store: Store,
    shared: Arc<DriverState>,
    standing: watch::Sender<Standing>,
    status: ReplicaStatus,
    /// The claim that was last passed to the writer.
    passed: Option<Claim>,
    /// `ReplicaStatus::followed` at the time when this member became the owner.
    at_takeover: Option<u64>,
    record: MemberRecord,
    recorded: Option<Instant>,
    owner: Option<MemberRecord>,
    is_owner_record_old: bool,
    clock: Arc<dyn Clock>,
    /// Commit numbers, and the bytes that were applied up to each of them.
    samples: VecDeque<(u64, u64)>,
    keep: u64,
    damaged: u32,
    /// Whether the last wait has ended without news.
    is_poll: bool,
    /// Whether the last read has found entries.
    has_read: bool,
    on_failure: OnFleetFailure,
}

enum Ended {
    Fatal(String),
    Deposed,
}

impl FollowLoop {
    fn run(&mut self) {
        while !self.shared.is_stopping() {
            // Before the tick: a request that comes during it needs the next one.
            let (asked, heads) = (self.shared.catch_up.asked(), self.shared.watching.heads());
            let began = Instant::now();
            match self.tick(asked) {
                Ok(true) => self.is_poll = false,
                Ok(false) => {
                    // Changes that follow soon share the next read, unless a request needs them.
                    let rest = APPLY_EVERY.saturating_sub(began.elapsed());
                    let has_rested =
                        !self.has_read || self.shared.wait(self.passed, asked, None, rest);
                    self.is_poll = has_rested
                        && self
                            .shared
                            .wait(self.passed, asked, Some(heads), self.rest());
                    std::thread::park_timeout(READ_EVERY.saturating_sub(began.elapsed()));
                }
                Err(Ended::Deposed) => {
                    tracing::warn!("another member has become the owner");
                    self.standing.send_replace(Standing::Deposed);
                    return;
                }
                Err(Ended::Fatal(why)) => return (self.on_failure)(why),
            }
        }
    }

    fn rest(&self) -> Duration {
        match self.status.role {
            MemberRole::Follower if self.shared.watching.is_live() => POLL_EVERY,
            MemberRole::Follower | MemberRole::Owner { .. } => TICK,
        }
    }

    /// Returns whether more entries are waiting. `asked`: the requests that this tick can answer.
    fn tick(&mut self, asked: u64) -> Result<bool, Ended> {
        let claim = self.shared.claim();
        let (entries, head) = match self.status.role {
            // Only the owner appends, so it has nothing to read.
            MemberRole::Owner { .. } => (Vec::new(), None),
            MemberRole::Follower => self.read()?,
        };
        let read = !entries.is_empty();
        self.has_read = read;
        if read && self.is_poll && self.shared.watching.is_live() {
            self.shared.watching.end();
        }
        // A claim is passed on once. The writer then applies the log to its end before it becomes the owner.
        match self
            .store
            .advance(claim.filter(|_| claim != self.passed), entries)
        {
            Ok(status) => {
                self.status = status;
                self.passed = claim;
                if head.is_some_and(|head| self.status.position.number >= head) {
                    self.shared.reach(asked);
                }
            }
            // An append has no answer, or etcd does not answer. The next tick tries again.
            Err(error @ (StoreError::Unsettled | StoreError::SharedLog(_) | StoreError::Moved)) => {
                tracing::debug!(%error, "the shared log does not answer");
                return Ok(false);
            }
            // The store has failed or is closing.
            Err(error) => return Err(Ended::Fatal(error.to_string())),
        }
        self.stand(claim)?;
        self.keep_record()?;
        self.truncate();
        // Without a watch, another read shows whether there are more.
        let is_watched = self.shared.watching.is_live();
        Ok(read && !is_watched || head.is_some_and(|head| self.status.position.number < head))
    }

    /// Returns the next entries, and the last number in the log, if etcd has answered.
    fn read(&mut self) -> Result<(Vec<Entry>, Option<u64>), Ended> {
        let from = self.status.position.number + 1;
        match self.log.read_with_head(from, READ_BYTES) {
            Ok((entries, head)) => {
                self.damaged = 0;
                Ok((entries, Some(head)))
            }
            Err(SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => Ok((Vec::new(), None)),
            Err(error @ SharedLogError::Damaged { .. }) if self.damaged < DAMAGED_MAX => {
                self.damaged += 1;
                tracing::error!(%error, "damaged entry in the shared log; reading it from another etcd member");
                Ok((Vec::new(), None))
            }
            Err(
                error @ (SharedLogError::Damaged { .. }
                | SharedLogError::Truncated { .. }
                | SharedLogError::Foreign
                | SharedLogError::Dissolved { .. }),
            ) => Err(Ended::Fatal(error.to_string())),
        }
    }

    fn stand(&mut self, claim: Option<Claim>) -> Result<(), Ended> {
        match (self.status.role, self.at_takeover) {
            (MemberRole::Owner { epoch }, None) => {
                self.at_takeover = Some(self.status.followed);
                self.shared.fence.take(epoch);
                tracing::info!(
                    epoch,
                    number = self.status.position.number,
                    "became the owner"
                );
                self.standing.send_replace(Standing::Owner);
            }
            // This member has a new claim, and no other member has appended in between: its state in memory is current.
            (MemberRole::Owner { epoch }, Some(before)) if self.status.followed == before => {
                self.shared.fence.take(epoch);
            }
            // The states of the services in memory may be outdated, so the process must restart.
            (_, Some(_)) => return Err(Ended::Deposed),
            (MemberRole::Follower, None) => {
                let owner = match claim {
                    Some(Claim::Other { member }) => self.record_of(member),
                    Some(Claim::Held { .. }) | None => None,
                };
                Standing::follow(&self.standing, owner.map(|known| known.address));
            }
        }
        Ok(())
    }

    fn record_of(&mut self, member: MemberId) -> Option<MemberRecord> {
        let id = data_encoding::HEXLOWER.encode(&member);
        let is_known = |owner: &MemberRecord| owner.id == id;
        if self.is_owner_record_old || !self.owner.as_ref().is_some_and(is_known) {
            // While etcd is away the owner keeps its address, and answers reads.
            self.owner = match self.log.members() {
                Ok(members) => members.into_iter().find(is_known),
                Err(_) => self.owner.take().filter(is_known),
            };
            self.is_owner_record_old = false;
        }
        self.owner.clone()
    }

    fn keep_record(&mut self) -> Result<(), Ended> {
        if self.recorded.is_some_and(|at| at.elapsed() < RECORD_EVERY) {
            return Ok(());
        }
        self.recorded = Some(Instant::now());
        // The address of the owner may have changed.
        self.is_owner_record_old = true;
        self.record.applied = self.status.position.number;
        self.record.seen = self.clock.now().0;
        self.record.answered = self.shared.answered_here.load(Ordering::Relaxed);
        self.record.forwarded = self.shared.forwarded.load(Ordering::Relaxed);
        if let Err(error) = self.know_others() {
            tracing::debug!(%error, "failed to read the members");
            return Ok(());
        }
        match self.log.update(&self.record) {
            Ok(true) => Ok(()),
            // The record does not exist: the member was removed, or the fleet was dissolved.
            Ok(false) => Err(Ended::Fatal(match self.log.head() {
                Err(error @ SharedLogError::Dissolved { .. }) => error.to_string(),
                _ => REMOVED.to_owned(),
            })),
            Err(error) => {
                tracing::debug!(%error, "failed to write the record of this member");
                Ok(())
            }
        }
    }

    fn know_others(&mut self) -> Result<(), SharedLogError> {
        let MemberRole::Owner { .. } = self.status.role else {
            return Ok(());
        };
        // The owner relies on the promises of all other members, so a new member waits until the record of the owner
        // names it. The list is therefore in use before the record is written.
        let mut members = self.log.members()?;
        self.record.knows = members.iter().map(|member| member.id.clone()).collect();
        members.retain(|member| member.id != self.record.id);
        self.shared.set_others(members);
        Ok(())
    }

    fn truncate(&mut self) {
        // Every member remembers positions in the log, so that a new owner knows them. Only the owner truncates.
        let (number, bytes) = (self.status.position.number, self.status.bytes);
        let last = self.samples.back().map_or(0, |(_, bytes)| *bytes);
        if self.samples.is_empty() || bytes >= last + SAMPLE_BYTES {
            self.samples.push_back((number, bytes));
        }
        let mut below = None;
        // The newest `keep` bytes stay.
        while let Some((number, before)) = self.samples.front().copied()
            && bytes.saturating_sub(before) > self.keep
        {
            self.samples.pop_front();
            below = Some(number);
        }
        let (Some(below), MemberRole::Owner { .. }) = (below, self.status.role) else {
            return;
        };
        match self.log.truncate(below) {
            Ok(()) => tracing::debug!(below, "truncated the shared log"),
            Err(error) => tracing::warn!(%error, "failed to truncate the shared log"),
        }
    }
}
