//! Starts the threads of a member: one renews the [claim](super::claim), the other one follows the log and becomes the
//! owner.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::candidacy::Candidacy;
use super::claim::{ClaimLoop, DriverState, TICK, is_other};
use super::etcd::{EtcdLog, EtcdSettings, EtcdWatch, MemberRecord, Watermark};
use super::etcd_watch::watch as watch_etcd;
use super::fence::Fence;
use super::first_contact::FirstContact;
use super::joining::{first_record, join_log, revoke_lease_of_previous_process};
use super::last_commit::{self, LastCommit};
use super::local_state::FleetState;
use super::log_access::LogAccess;
use super::log_upkeep::LogUpkeep;
use super::membership::{Membership, directory};
use super::peer_server::{Promise, Yield};
use super::peers::PeerClient;
use super::process::ProcessId;
use super::promise_given::PromiseGiven;
use super::promises;
use super::record_keeper::RecordKeeper;
use super::recovery::PendingRecovery;
use super::standing::{FollowerState, Standing};
use super::stuck_append::StuckAppend;
use playgate_ports::{Clock, Entropy};
use playgate_store::replication::{
    Claim, Entry, MemberRole, ReplicaStatus, Replication, ReplicationError, SharedLogError,
};
use playgate_store::{Store, StoreError};

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
/// Attempts to read a damaged entry before the process ends. Each one asks another member of etcd.
const DAMAGED_MAX: u32 = 10;

pub struct DriverSettings {
    pub etcd: EtcdSettings,
    pub lease: Duration,
    /// Size of the shared log that is kept for members that were away.
    pub keep: u64,
    pub address: String,
    pub client: PeerClient,
    pub data_dir: PathBuf,
    /// `fleet.may_own`
    pub may_own: bool,
    pub standing: watch::Sender<Standing>,
}

pub struct FleetDriver {
    store: Store,
    log: Arc<Mutex<EtcdLog>>,
    fence: Arc<Fence>,
    shared: Arc<DriverState>,
    threads: Vec<JoinHandle<()>>,
}

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
        let directory = directory(&settings.data_dir);
        let process = ProcessId::new(&directory, entropy.array());
        let state = FleetState::read(&settings.data_dir, &HEXLOWER.encode(&membership.fleet));
        let seen = state.as_ref();
        let seen = seen.map(|state| Watermark::new(state.cluster, state.revision));
        let access = LogAccess {
            etcd: settings.etcd,
            fleet: membership.fleet,
            lease: settings.lease,
            process: process.id.clone(),
            seen: Arc::new(seen.unwrap_or_default()),
            runtime: runtime.clone(),
        };
        let fence = Arc::new(Fence::new(Arc::clone(&clock), settings.lease));
        let candidacy = Candidacy::new(settings.may_own, settings.lease);
        let (member, lease) = (membership.clone(), settings.lease);
        let shared = DriverState::new(member, process, Arc::clone(&fence), candidacy, lease);
        let shared = Arc::new(shared);
        let (address, now) = (settings.address, clock.now().0);
        let record = first_record(membership, address, &store, settings.may_own, now);
        let mut first_contact = FirstContact {
            store: &store,
            log: access.unguarded(membership.fleet, CALL_TIMEOUT)?,
            before: before(&settings.data_dir, &access)?,
            record: record.clone(),
            state,
            seen: &access.seen,
            directory: &directory,
        };
        let status = join_log(&store, || {
            first_contact.run()?;
            let entropy = Arc::clone(&entropy);
            Ok(Replication {
                fleet: membership.fleet,
                member: membership.member,
                log: Box::new(access.open(CALL_TIMEOUT)?),
                nonce: Box::new(move || entropy.array()),
                max_wait: MAX_WAIT,
                published: Arc::clone(&shared.published),
            })
        })?;
        start_tasks(&shared, &access, settings.client, &settings.standing)?;
        let mut asking = access.open(CALL_TIMEOUT)?;
        // The old lease is revoked early, so that no other member has to wait for its expiry before it takes over.
        revoke_lease_of_previous_process(&directory, &mut asking);
        let mut claims = ClaimLoop {
            // Early enough for another attempt within the lease, and late enough for a slow etcd: attempts add to its load.
            log: access.open(CALL_TIMEOUT.min(settings.lease * 2 / 3))?,
            shared: Arc::clone(&shared),
            directory: directory.clone(),
            noted: None,
        };
        let mut follow = FollowLoop {
            log: access.open(CALL_TIMEOUT)?,
            store: store.clone(),
            shared: Arc::clone(&shared),
            standing: settings.standing,
            status,
            passed: None,
            at_takeover: None,
            keeper: RecordKeeper::new(&shared, record, clock, &access, &directory),
            upkeep: LogUpkeep::new(settings.keep, &status),
            stuck: StuckAppend::default(),
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
        let (log, member_id) = (Arc::clone(&self.log), self.shared.membership.member_hex());
        move || {
            let mut members = log.lock().members()?;
            members.retain(|member| member.id != member_id);
            Ok(members)
        }
    }

    /// Returns a handle that tells whether a follower is up to date.
    pub fn follower(&self) -> FollowerState {
        FollowerState::new(Arc::clone(&self.shared))
    }

    pub fn candidacy(&self) -> Arc<Candidacy> {
        Arc::clone(&self.shared.candidacy)
    }

    /// Returns a function that leaves the claim to another member for a time.
    pub fn yields(&self) -> Yield {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |time| {
            shared.candidacy.yield_claim(shared.fence.now(), time);
        })
    }

    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    pub fn promise(&self) -> Promise {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |time| {
            let process = &shared.process;
            shared.promise(time).then(|| PromiseGiven {
                process: process.id.clone(),
                ended: process.ended.clone(),
            })
        })
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

/// Starts the tasks that ask etcd and the other members.
fn start_tasks(
    shared: &Arc<DriverState>,
    access: &LogAccess,
    client: PeerClient,
    standing: &watch::Sender<Standing>,
) -> Result<(), StoreError> {
    let share = || Arc::clone(shared);
    let watch = EtcdWatch::new(&access.etcd, access.fleet)?;
    let asking = promises::ask(share(), client.clone(), access.lease);
    access.runtime.spawn(asking);
    let asking = last_commit::ask(share(), client, standing.subscribe());
    access.runtime.spawn(asking);
    access.runtime.spawn(watch_etcd(share(), watch));
    Ok(())
}

/// The fleet that this member continues, if `fleet recover` has prepared that.
fn before(
    data_dir: &Path,
    access: &LogAccess,
) -> Result<Option<(PendingRecovery, EtcdLog)>, StoreError> {
    let pending = PendingRecovery::read(data_dir, access.fleet);
    let before = pending.map(|pending| {
        let log = access.unguarded(pending.from, CALL_TIMEOUT)?;
        Ok((pending, log))
    });
    before.transpose()
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
    keeper: RecordKeeper,
    upkeep: LogUpkeep,
    stuck: StuckAppend,
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
        self.follow();
        self.keeper.end(&mut self.log);
    }

    fn follow(&mut self) {
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
        if let Some(why) = self.shared.failure() {
            // Before the process ends: the others must not take over without the commits of this member.
            self.keeper.show_ahead(&mut self.log, &self.status);
            return Err(Ended::Fatal(why));
        }
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
                self.stuck.settled(&self.shared.candidacy);
                self.status = status;
                self.passed = claim;
                if head.is_some_and(|head| self.status.position.number >= head) {
                    self.shared.reach(asked);
                }
            }
            // An append has no answer, or etcd does not answer. The next tick tries again.
            Err(error @ (StoreError::Unsettled | StoreError::SharedLog(_) | StoreError::Moved)) => {
                tracing::debug!(%error, "the shared log does not answer");
                if matches!(self.status.role, MemberRole::Owner { .. }) {
                    let (log, keeper) = (&mut self.log, &self.keeper);
                    // A full etcd takes no change of any member, and none could claim the log.
                    let other_changes = || keeper.write_again(log);
                    self.stuck.waits(&self.shared, other_changes);
                }
                return Ok(false);
            }
            // The store has failed or is closing.
            Err(error) => return Err(Ended::Fatal(error.to_string())),
        }
        self.keep_record()?;
        self.stand(claim)?;
        self.keep_log();
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
                // Such a member must answer nothing, since others may have changed what it has.
                let applied = self.status.position.number;
                if applied > head {
                    self.keeper.show_ahead(&mut self.log, &self.status);
                    let behind = ReplicationError::LogIsBehind { head, applied };
                    return Err(Ended::Fatal(behind.to_string()));
                }
                Ok((entries, Some(head)))
            }
            Err(SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => Ok((Vec::new(), None)),
            Err(error @ SharedLogError::Damaged { .. }) if self.damaged < DAMAGED_MAX => {
                self.damaged += 1;
                tracing::error!(%error, "damaged entry in the shared log; reading it from another etcd member");
                Ok((Vec::new(), None))
            }
            Err(error) => {
                self.keeper.show_ahead(&mut self.log, &self.status);
                Err(Ended::Fatal(error.to_string()))
            }
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
            // The claim has ended. The next one shows whether the state is current; until then no append succeeds.
            (MemberRole::Follower, Some(before))
                if self.status.followed == before && !is_other(claim) => {}
            // The states of the services in memory may be outdated, so the process must restart.
            (_, Some(_)) => return Err(Ended::Deposed),
            (MemberRole::Follower, None) => {
                let owner = match claim {
                    Some(Claim::Other { member }) => self.keeper.address_of(member),
                    Some(Claim::Held { .. }) | None => None,
                };
                Standing::follow(&self.standing, owner);
            }
        }
        Ok(())
    }

    fn keep_record(&mut self) -> Result<(), Ended> {
        let kept = self.keeper.keep(&mut self.log, &self.status);
        kept.map_err(Ended::Fatal)
    }

    fn keep_log(&mut self) {
        self.upkeep.count(&self.status);
        if let MemberRole::Owner { .. } = self.status.role {
            let roster = self.keeper.roster();
            let revision = roster.map_or(0, |roster| roster.revision);
            self.upkeep.run(&mut self.log, revision);
        }
    }
}
