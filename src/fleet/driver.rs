//! The threads of a member: one keeps the [claim](super::claim), one follows the log and takes the ownership.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::claim::{ClaimLoop, DriverState, TICK};
use super::etcd::{EtcdLog, EtcdSettings, MemberRecord};
use super::fence::Fence;
use super::membership::Membership;
use super::own_lease;
use super::peers::PeerClient;
use super::promises;
use crate::ports::{Clock, Entropy};
use crate::store::replication::{
    Claim, MemberId, ReplicaStatus, Replication, Role, SharedLog, SharedLogError,
};
use crate::store::{Store, StoreError};
use crate::types::VERSION;

/// Between two writes of a member's record.
const RECORD_EVERY: Duration = Duration::from_secs(2);
/// How long a caller waits for an append without an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// For one call. A call that was given up is repeated at another endpoint.
const CALL: Duration = Duration::from_secs(2);
/// Between two attempts to join the log at the start.
const START_AGAIN: Duration = Duration::from_millis(250);
const READ_BYTES: usize = 1024 * 1024;
/// One place in the log is remembered for so many bytes.
const SAMPLE: u64 = 1024 * 1024;
const REMOVED: &str = "this member was removed from its fleet; run `playgate fleet leave`, and join again with an empty data directory";
/// Reads of a damaged entry before the process gives up; each asks another member of etcd.
const DAMAGED_MAX: u32 = 10;

/// What a member is to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Forwards to the owner, whose address is known unless there is none.
    Standby { owner: Option<String> },
    /// Has applied everything, and serves.
    Owner,
    /// Was the owner. What its services have in memory may lack changes of the next one.
    Deposed,
}

impl Standing {
    /// Makes the owner known, if it has changed.
    pub fn follow(standing: &watch::Sender<Self>, owner: Option<String>) {
        let next = Self::Standby { owner };
        standing.send_if_modified(|standing| {
            let differs = *standing != next;
            *standing = next;
            differs
        });
    }
}

pub struct DriverSettings {
    pub etcd: EtcdSettings,
    pub lease: Duration,
    /// Bytes of the shared log that are kept for members that were away.
    pub keep: u64,
    /// Where other members reach this one.
    pub address: String,
    pub client: PeerClient,
    /// That of the [membership](super::membership).
    pub directory: PathBuf,
    /// What this member is.
    pub standing: watch::Sender<Standing>,
}

pub struct FleetDriver {
    /// For questions of this process.
    log: Arc<Mutex<EtcdLog>>,
    fence: Arc<Fence>,
    shared: Arc<DriverState>,
    threads: Vec<JoinHandle<()>>,
}

/// Returns whether this member will not be the owner before the time has passed.
pub type Promise = Arc<dyn Fn(Duration) -> bool + Send + Sync>;

/// Called when the process cannot go on as a member.
pub type OnFleetFailure = Arc<dyn Fn(String) + Send + Sync>;

impl FleetDriver {
    /// Joins the log with a store that was opened as one of a member, and starts the threads. Blocks.
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
        let status = join_log(&store, || {
            let entropy = Arc::clone(&entropy);
            Ok(Replication {
                fleet: membership.fleet,
                member: membership.member,
                log: Box::new(log(CALL)?),
                nonce: Box::new(move || entropy.array()),
                patience: PATIENCE,
            })
        })?;
        let fence = Arc::new(Fence::new(Arc::clone(&clock), settings.lease));
        let shared = DriverState::new(membership.clone(), Arc::clone(&fence), settings.lease);
        let shared = Arc::new(shared);
        runtime.spawn(promises::ask(
            Arc::clone(&shared),
            settings.client,
            settings.lease,
        ));
        let mut asking = log(CALL)?;
        revoke_lease_of_previous_process(&settings.directory, &mut asking);
        let mut claims = ClaimLoop {
            log: log(settings.lease / 3)?,
            shared: Arc::clone(&shared),
            directory: settings.directory,
            noted: None,
        };
        let mut follow = FollowLoop {
            log: log(CALL)?,
            store,
            shared: Arc::clone(&shared),
            standing: settings.standing,
            status,
            told: None,
            at_takeover: None,
            record: MemberRecord {
                id: membership.member_hex(),
                name: membership.name.clone(),
                address: settings.address,
                version: VERSION.to_owned(),
                applied: 0,
                seen: 0,
                knows: Vec::new(),
            },
            recorded: None,
            owner: None,
            clock,
            samples: VecDeque::new(),
            keep: settings.keep,
            damaged: 0,
            on_failure,
        };
        let threads = [
            spawn("fleet-claim", move || claims.run())?,
            spawn("fleet-follow", move || follow.run())?,
        ];
        Ok(Self {
            log: Arc::new(Mutex::new(asking)),
            fence,
            shared,
            threads: threads.into(),
        })
    }

    /// Returns a question for the other members. It blocks.
    pub fn others(&self) -> impl Fn() -> Result<Vec<MemberRecord>, SharedLogError> + use<> {
        let (log, own) = (Arc::clone(&self.log), self.shared.membership.member_hex());
        move || {
            let mut members = log.lock().members()?;
            members.retain(|member| member.id != own);
            Ok(members)
        }
    }

    #[must_use]
    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    /// Answers an owner that asks this member to leave it the claim.
    pub fn promise(&self) -> Promise {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |time| shared.promise(time))
    }

    /// Gives the claim up, so that another member can take it at once. Blocks.
    pub fn stop(self) {
        self.shared.stop();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn join_log(
    store: &Store,
    replication: impl Fn() -> Result<Replication, StoreError>,
) -> Result<ReplicaStatus, StoreError> {
    loop {
        match store.replicate(replication()?) {
            // After a power cut, etcd may start later than this process.
            Err(StoreError::SharedLog(error)) => {
                tracing::warn!(%error, "waiting for etcd");
                std::thread::park_timeout(START_AGAIN);
            }
            other => return other,
        }
    }
}

fn revoke_lease_of_previous_process(directory: &Path, log: &mut EtcdLog) {
    let Some(lease) = own_lease::read(directory) else {
        return;
    };
    match log.revoke(lease) {
        Ok(()) => own_lease::remove(directory),
        // Also if it has expired.
        Err(error) => tracing::debug!(%error, "failed to revoke the lease of the previous process"),
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
    /// The claim that the writer knows.
    told: Option<Claim>,
    /// What had been followed when this member became the owner.
    at_takeover: Option<u64>,
    record: MemberRecord,
    recorded: Option<Instant>,
    /// The record of the owner, whose address may have changed.
    owner: Option<MemberRecord>,
    clock: Arc<dyn Clock>,
    /// Numbers, and the bytes that had been applied up to them.
    samples: VecDeque<(u64, u64)>,
    keep: u64,
    damaged: u32,
    on_failure: OnFleetFailure,
}

enum Ended {
    Fatal(String),
    Deposed,
}

impl FollowLoop {
    fn run(&mut self) {
        while !self.shared.is_stopping() {
            match self.tick() {
                // More may wait.
                Ok(true) => {}
                Ok(false) => self.shared.wait(self.told, TICK),
                Err(Ended::Deposed) => {
                    tracing::warn!("another member has become the owner");
                    self.standing.send_replace(Standing::Deposed);
                    return;
                }
                Err(Ended::Fatal(why)) => return (self.on_failure)(why),
            }
        }
    }

    /// Returns whether entries were read.
    fn tick(&mut self) -> Result<bool, Ended> {
        let claim = self.shared.claim();
        let entries = match self.status.role {
            Role::Owner { .. } => Vec::new(),
            Role::Follower => self.read()?,
        };
        let read = !entries.is_empty();
        match self
            .store
            .advance(claim.filter(|_| claim != self.told), entries)
        {
            Ok(status) => {
                self.status = status;
                self.told = claim;
            }
            // An append without an answer, or etcd is away.
            Err(error @ (StoreError::Unsettled | StoreError::SharedLog(_) | StoreError::Moved)) => {
                tracing::debug!(%error, "the shared log does not answer");
                return Ok(false);
            }
            // Reported by the store, or the end of it.
            Err(error) => return Err(Ended::Fatal(error.to_string())),
        }
        self.stand(claim)?;
        self.keep_record()?;
        self.truncate();
        Ok(read)
    }

    fn read(&mut self) -> Result<Vec<crate::store::replication::Entry>, Ended> {
        let from = self.status.position.number + 1;
        match self.log.read(from, READ_BYTES, Duration::ZERO) {
            Ok(entries) => {
                self.damaged = 0;
                Ok(entries)
            }
            Err(SharedLogError::Unknown(_) | SharedLogError::Refused(_)) => Ok(Vec::new()),
            Err(error @ SharedLogError::Damaged { .. }) if self.damaged < DAMAGED_MAX => {
                self.damaged += 1;
                tracing::error!(%error, "reading it again from another member of etcd");
                Ok(Vec::new())
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
            (Role::Owner { epoch }, None) => {
                self.at_takeover = Some(self.status.followed);
                self.shared.fence.take(epoch);
                tracing::info!(
                    epoch,
                    number = self.status.position.number,
                    "became the owner"
                );
                self.standing.send_replace(Standing::Owner);
            }
            // With a new claim after nobody else had one.
            (Role::Owner { epoch }, Some(before)) if self.status.followed == before => {
                self.shared.fence.take(epoch);
            }
            (_, Some(_)) => return Err(Ended::Deposed),
            (Role::Follower, None) => {
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
        if self.owner.as_ref().is_none_or(|owner| owner.id != id) {
            let members = self.log.members().unwrap_or_default();
            self.owner = members.into_iter().find(|record| record.id == id);
        }
        self.owner.clone()
    }

    fn keep_record(&mut self) -> Result<(), Ended> {
        if self.recorded.is_some_and(|at| at.elapsed() < RECORD_EVERY) {
            return Ok(());
        }
        self.recorded = Some(Instant::now());
        self.owner = None;
        self.record.applied = self.status.position.number;
        self.record.seen = self.clock.now().0;
        if let Err(error) = self.know_others() {
            tracing::debug!(%error, "failed to read the members");
            return Ok(());
        }
        match self.log.update(&self.record) {
            Ok(true) => Ok(()),
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

    /// The owner counts on the promises of all others, so a new member waits until the record of the owner names it.
    fn know_others(&mut self) -> Result<(), SharedLogError> {
        let Role::Owner { .. } = self.status.role else {
            return Ok(());
        };
        let mut members = self.log.members()?;
        self.record.knows = members.iter().map(|member| member.id.clone()).collect();
        members.retain(|member| member.id != self.record.id);
        self.shared.set_others(members);
        Ok(())
    }

    /// Every member remembers places in the log, so that a new owner knows them; the owner truncates.
    fn truncate(&mut self) {
        let (number, bytes) = (self.status.position.number, self.status.bytes);
        let last = self.samples.back().map_or(0, |(_, bytes)| *bytes);
        if self.samples.is_empty() || bytes >= last + SAMPLE {
            self.samples.push_back((number, bytes));
        }
        let mut below = None;
        while let Some((number, before)) = self.samples.front().copied()
            && bytes.saturating_sub(before) > self.keep
        {
            self.samples.pop_front();
            below = Some(number);
        }
        let (Some(below), Role::Owner { .. }) = (below, self.status.role) else {
            return;
        };
        match self.log.truncate(below) {
            Ok(()) => tracing::debug!(below, "truncated the shared log"),
            Err(error) => tracing::warn!(%error, "failed to truncate the shared log"),
        }
    }
}
