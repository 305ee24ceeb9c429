//! A model of three members over one log. It explores every interleaving of their steps and of faults within a
//! bound, and checks the invariants after each step. Each planted defect must break an invariant.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher as _};

use super::memory::MemoryLog;
use super::*;
use crate::StoreError;
use crate::history::History;

const FLEET: FleetId = [9; 16];
const MEMBERS: usize = 3;

fn id(member: usize) -> MemberId {
    [u8::try_from(member + 1).unwrap(); 16]
}

fn begin() -> Position {
    Position {
        number: 0,
        history: History::begin([7; 16], 0),
    }
}

/// The fate of an append on its way to the log and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Works,
    RequestLost,
    AnswerLost,
    /// The caller times out, and the request arrives at any later time.
    Delayed,
    /// The request is sent twice. The first one is answered, and the second one arrives at any later time.
    SentTwice,
    /// The request is sent twice. Both arrive, and only the answer of the second one does.
    SecondAnswers,
}

const NETWORKS: [Network; 6] = [
    Network::Works,
    Network::RequestLost,
    Network::AnswerLost,
    Network::Delayed,
    Network::SentTwice,
    Network::SecondAnswers,
];

/// A planted defect of the log or of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// The log appends at any number.
    NoHeadCheck,
    /// The log checks only that the slot is empty, which it also is after a truncation.
    SlotCheck,
    /// The log appends under an ended claim.
    NoEpochCheck,
    /// An append without an answer counts as committed.
    UnknownIsCommitted,
    /// An append without an answer counts as failed.
    UnknownIsFailed,
    /// A change is published before it is in the log.
    PublishedFirst,
    /// The log is truncated below entries that are applied but not synced.
    TruncatedUnsynced,
    /// A refused request counts as failed, although an earlier one with the same entry was carried out.
    RefusedIsFailed,
    /// A plan reads the state while an append has no answer, and is appended once that is settled.
    PlannedBeforeSettled,
    /// An owner whose claim has ended goes on with its next claim, although others have made changes in between.
    GoesOnWithOldServices,
}

/// How often each event may happen in one history.
#[derive(Clone, Copy, Hash)]
struct Bound {
    plans: u8,
    faults: u8,
    expiries: u8,
    crashes: u8,
    truncations: u8,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Claim(usize),
    Resign(usize),
    Plan(usize, Network),
    Settle(usize, Network),
    /// Reads the state for the next plan ahead of time.
    Read(usize),
    Follow(usize),
    Sync(usize),
    Crash(usize),
    /// A member that was away too long copies the state of another one.
    Join(usize, usize),
    Arrive(usize),
    Expire,
    Truncate,
}

#[derive(Clone, Hash)]
struct Node {
    member: Member,
    /// The changes that this member has applied, and how many of them survive a crash.
    applied: Vec<u8>,
    synced: usize,
    /// The unsettled change, whose client waits.
    waiting: Option<u8>,
    /// How many changes the next plan has read, if it has read them ahead of time.
    read: Option<usize>,
    /// How many changes the services have in memory; `None` until this process is the owner. They get own changes as these are
    /// committed, and no others.
    services: Option<usize>,
}

#[derive(Clone, Hash)]
struct World {
    log: MemoryLog,
    /// Every entry that ever was in the log. The members must agree with it.
    appended: Vec<Entry>,
    delayed: Vec<Entry>,
    nodes: [Node; MEMBERS],
    next: u8,
    /// How many changes each plan has read.
    reads: BTreeMap<u8, usize>,
    committed: BTreeSet<u8>,
    failed: BTreeSet<u8>,
    left: Bound,
}

/// The connection of one member to the log.
struct Connection<'a> {
    log: &'a mut MemoryLog,
    delayed: &'a mut Vec<Entry>,
    network: Network,
    defect: Defect,
}

impl Connection<'_> {
    fn arrive(&mut self, entry: &Entry) -> Result<Appended, SharedLogError> {
        let follows = self.log.head + 1 == entry.number;
        let is_free = entry.number < self.log.first() || entry.number > self.log.head;
        let holds = self.log.holds(entry.epoch);
        let accepts = match self.defect {
            Defect::NoHeadCheck => holds,
            Defect::NoEpochCheck => follows,
            Defect::SlotCheck => is_free,
            _ => return self.log.append(entry),
        };
        if accepts {
            self.log.push(entry);
        }
        Ok(match accepts {
            true => Appended::Done,
            false => Appended::Refused,
        })
    }
}

impl SharedLog for Connection<'_> {
    fn append(&mut self, entry: &Entry) -> Result<Appended, SharedLogError> {
        let lost = Err(SharedLogError::Unknown("time-out".to_owned()));
        match self.network {
            Network::Works => self.arrive(entry),
            Network::RequestLost => lost,
            Network::AnswerLost => self.arrive(entry).and(lost),
            Network::Delayed => {
                self.delayed.push(entry.clone());
                lost
            }
            Network::SentTwice => {
                self.delayed.push(entry.clone());
                self.arrive(entry)
            }
            Network::SecondAnswers => self.arrive(entry).and(self.arrive(entry)),
        }
    }

    fn read(&mut self, from: u64, _: usize) -> Result<Vec<Entry>, SharedLogError> {
        if self.network == Network::SecondAnswers && self.defect == Defect::RefusedIsFailed {
            return Ok(Vec::new());
        }
        // One entry is read at a time, so that other steps can come between any two entries.
        self.log.read(from, 1)
    }

    fn head(&mut self) -> Result<u64, SharedLogError> {
        self.log.head()
    }

    fn claim(&mut self, member: MemberId) -> Result<Claim, SharedLogError> {
        self.log.claim(member)
    }

    fn resign(&mut self, member: MemberId) -> Result<(), SharedLogError> {
        self.log.resign(member)
    }

    fn truncate(&mut self, below: u64) -> Result<(), SharedLogError> {
        self.log.truncate(below)
    }
}

impl World {
    fn new(bound: Bound) -> Self {
        let node = |member| Node {
            member: Member::new(FLEET, id(member), 1, begin()),
            applied: Vec::new(),
            synced: 0,
            waiting: None,
            read: None,
            services: None,
        };
        Self {
            log: MemoryLog::new(0),
            appended: Vec::new(),
            delayed: Vec::new(),
            nodes: std::array::from_fn(node),
            next: 1,
            reads: BTreeMap::new(),
            committed: BTreeSet::new(),
            failed: BTreeSet::new(),
            left: bound,
        }
    }

    fn steps(&self, defect: Defect) -> Vec<Step> {
        let mut steps = Vec::new();
        let networks = &NETWORKS[..if self.left.faults > 0 {
            NETWORKS.len()
        } else {
            1
        }];
        for (at, node) in self.nodes.iter().enumerate() {
            let is_owner = matches!(node.member.role(), MemberRole::Owner { .. });
            let (settled, number) = (node.member.is_settled(), node.member.position().number);
            if !settled {
                steps.extend(networks.iter().map(|network| Step::Settle(at, *network)));
                if defect == Defect::PlannedBeforeSettled && node.read.is_none() {
                    steps.push(Step::Read(at));
                }
            } else if is_owner {
                if self.left.expiries > 0 {
                    steps.push(Step::Resign(at));
                }
                if self.left.plans > 0 {
                    steps.extend(networks.iter().map(|network| Step::Plan(at, *network)));
                }
            } else if self.left.plans > 0 && self.log.owner.is_none_or(|(m, _)| m == id(at)) {
                steps.push(Step::Claim(at));
            }
            if settled && number < self.log.head {
                steps.push(Step::Follow(at));
            }
            if number + 1 < self.log.first() {
                let peers = (0..MEMBERS).filter(|peer| *peer != at);
                steps.extend(peers.map(|peer| Step::Join(at, peer)));
            }
            if node.synced < node.applied.len() && self.left.crashes > 0 {
                steps.push(Step::Sync(at));
            }
            if self.left.crashes > 0 {
                steps.push(Step::Crash(at));
            }
        }
        steps.extend((0..self.delayed.len()).map(Step::Arrive));
        if self.left.expiries > 0 && self.log.owner.is_some() {
            steps.push(Step::Expire);
        }
        if self.left.truncations > 0 && self.log.head >= self.log.first() {
            steps.push(Step::Truncate);
        }
        steps
    }

    /// Returns the invariant that the step has broken, if any.
    fn take(&mut self, step: Step, defect: Defect) -> Result<(), String> {
        match step {
            Step::Claim(at) => {
                let claimed = self.with(at, Network::Works, defect, |member, log, apply| {
                    member.claim(log, apply)
                });
                if let Err(error) = claimed
                    && !matches!(
                        error,
                        ReplicationError::Log(SharedLogError::Truncated { .. })
                    )
                {
                    return Err(error.to_string());
                }
                let node = &mut self.nodes[at];
                if matches!(node.member.role(), MemberRole::Owner { .. }) {
                    node.services.get_or_insert(node.applied.len());
                }
            }
            Step::Resign(at) => {
                self.left.expiries -= 1;
                let resigned = self.with(at, Network::Works, defect, |member, log, _| {
                    member.resign(log)
                });
                resigned.map_err(|error| error.to_string())?;
            }
            Step::Plan(at, network) => self.plan(at, network, defect)?,
            Step::Read(at) => self.nodes[at].read = Some(self.nodes[at].applied.len()),
            Step::Settle(at, network) => {
                self.left.faults -= u8::from(network != Network::Works);
                let settled = self.with(at, network, defect, |member, log, apply| {
                    member.settle(log, apply)
                });
                self.answer(at, settled, defect)?;
            }
            Step::Follow(at) => {
                let followed = self.with(at, Network::Works, defect, |member, log, apply| {
                    member.follow(log, apply)
                });
                match followed {
                    Ok(_) | Err(ReplicationError::Log(SharedLogError::Truncated { .. })) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            Step::Sync(at) => self.nodes[at].synced = self.nodes[at].applied.len(),
            Step::Crash(at) => self.crash(at),
            Step::Join(at, peer) => self.join(at, peer),
            Step::Arrive(at) => {
                let entry = self.delayed.remove(at);
                let mut nowhere = Vec::new();
                let mut connection = Connection {
                    log: &mut self.log,
                    delayed: &mut nowhere,
                    network: Network::Works,
                    defect,
                };
                connection.arrive(&entry).unwrap();
            }
            Step::Expire => {
                self.left.expiries -= 1;
                self.log.expire();
            }
            Step::Truncate => self.truncate(defect),
        }
        self.check()?;
        if defect != Defect::GoesOnWithOldServices {
            self.restart_old_services();
        }
        Ok(())
    }

    /// An owner, also a previous one, ends as soon as it has applied a change that its services do not have.
    fn restart_old_services(&mut self) {
        for at in 0..MEMBERS {
            let node = &self.nodes[at];
            let is_old = node.services.is_some_and(|has| has != node.applied.len());
            if is_old && node.member.is_settled() {
                self.restart(at);
            }
        }
    }

    fn with<R>(
        &mut self,
        at: usize,
        network: Network,
        defect: Defect,
        step: impl FnOnce(
            &mut Member,
            &mut dyn SharedLog,
            &mut dyn FnMut(&Entry) -> Result<(), StoreError>,
        ) -> R,
    ) -> R {
        let mut connection = Connection {
            log: &mut self.log,
            delayed: &mut self.delayed,
            network,
            defect,
        };
        let node = &mut self.nodes[at];
        let applied = &mut node.applied;
        step(&mut node.member, &mut connection, &mut |entry| {
            applied.extend(&entry.batch);
            Ok(())
        })
    }

    fn plan(&mut self, at: usize, network: Network, defect: Defect) -> Result<(), String> {
        let plan = self.next;
        self.next += 1;
        self.left.plans -= 1;
        self.left.faults -= u8::from(network != Network::Works);
        let node = &mut self.nodes[at];
        node.waiting = Some(plan);
        if node.services.is_some_and(|has| has != node.applied.len()) {
            return Err("the services lack a change".to_owned());
        }
        let read = node.read.take().unwrap_or(node.applied.len());
        self.reads.insert(plan, read);
        if defect == Defect::PublishedFirst {
            self.nodes[at].applied.push(plan);
        }
        let outcome = self.with(at, network, defect, |member, log, apply| {
            if defect == Defect::PublishedFirst {
                return member.append(log, [plan; 16], vec![plan], &mut |_| Ok(()));
            }
            member.append(log, [plan; 16], vec![plan], apply)
        });
        self.answer(at, outcome.map(Some), defect)
    }

    /// Answers the client of a member according to the outcome.
    fn answer(
        &mut self,
        at: usize,
        outcome: Result<Option<Appending>, ReplicationError>,
        defect: Defect,
    ) -> Result<(), String> {
        let outcome = match outcome {
            // The slot was truncated. The member restarts without an answer to its client, and joins.
            Err(ReplicationError::Log(SharedLogError::Truncated { .. })) => {
                self.restart(at);
                return Ok(());
            }
            other => other.map_err(|error| error.to_string())?,
        };
        if outcome == Some(Appending::Committed) {
            let node = &mut self.nodes[at];
            node.services = node.services.map(|_| node.applied.len());
        }
        let (Some(plan), Some(outcome)) = (self.nodes[at].waiting, outcome) else {
            return Ok(());
        };
        let answers = match (outcome, defect) {
            (Appending::Committed, _) | (_, Defect::UnknownIsCommitted) => &mut self.committed,
            (Appending::Moved, _) | (_, Defect::UnknownIsFailed) => &mut self.failed,
            (Appending::Unsettled, _) => return Ok(()),
        };
        answers.insert(plan);
        self.nodes[at].waiting = None;
        Ok(())
    }

    /// A power cut and restart of a member: changes that were not synced are lost, and so are its clients.
    fn crash(&mut self, at: usize) {
        self.left.crashes -= 1;
        let node = &mut self.nodes[at];
        node.applied.truncate(node.synced);
        self.restart(at);
    }

    fn restart(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.waiting = None;
        node.read = None;
        node.services = None;
        let applied = node.applied.len();
        let history = self.appended.get(..applied).unwrap_or_default().last();
        let position = history.map_or_else(begin, |entry| Position {
            number: entry.number,
            history: entry.history(),
        });
        node.member = Member::new(FLEET, id(at), 1, position);
    }

    fn join(&mut self, at: usize, peer: usize) {
        let peer = self.nodes[peer].clone();
        // A snapshot has a settled state, and is synced before the member serves.
        let node = &mut self.nodes[at];
        if peer.applied.len() > node.applied.len() && node.member.is_settled() {
            node.synced = peer.applied.len();
            node.applied = peer.applied;
            node.member = Member::new(FLEET, id(at), 1, peer.member.position());
        }
    }

    /// Removes the entries that two of three members have synced.
    fn truncate(&mut self, defect: Defect) {
        self.left.truncations -= 1;
        let mut reached: Vec<_> = (self.nodes.iter())
            .map(|node| match defect {
                Defect::TruncatedUnsynced => node.applied.len(),
                _ => node.synced,
            })
            .collect();
        reached.sort_unstable();
        self.log.truncate(reached[1] as u64 + 1).unwrap();
    }

    fn check(&mut self) -> Result<(), String> {
        if self.log.appends != self.appended.len() {
            let last = self.log.entries.back().unwrap();
            let entry = Entry::decode(last).unwrap();
            // A request that is sent twice in one step must not be appended twice.
            let is_next = self.log.appends == self.appended.len() + 1;
            if !is_next || entry.number != self.appended.len() as u64 + 1 {
                return Err(format!("number {} is given twice", entry.number));
            }
            if !self.log.holds(entry.epoch) {
                return Err(format!("epoch {} was not fenced", entry.epoch));
            }
            if entry
                .batch
                .iter()
                .any(|plan| self.reads[plan] != self.appended.len())
            {
                return Err("a plan has not read the change before it".to_owned());
            }
            self.appended.push(entry);
        }
        let in_log: Vec<u8> = self.appended.iter().flat_map(|e| e.batch.clone()).collect();
        let once: BTreeSet<u8> = in_log.iter().copied().collect();
        if once.len() != in_log.len() {
            return Err("a plan is in the log twice".to_owned());
        }
        if !self.committed.is_subset(&once) {
            return Err("an acknowledged plan is lost".to_owned());
        }
        if !self.failed.is_disjoint(&once) {
            return Err("a plan that was answered as failed is in the log".to_owned());
        }
        for node in &self.nodes {
            let position = node.member.position();
            let expected = in_log.get(..node.applied.len());
            if expected != Some(&node.applied) || position.number != node.applied.len() as u64 {
                return Err("a member's state is not a prefix of the log".to_owned());
            }
            let last = self.appended[..node.applied.len()].last();
            if last.map_or(begin().history, Entry::history) != position.history {
                return Err("equal numbers with unequal digests".to_owned());
            }
        }
        let synced = self.nodes.iter().map(|node| node.synced as u64).max();
        if synced < Some(self.log.first() - 1) {
            return Err("an entry is neither in the log nor on any disk".to_owned());
        }
        Ok(())
    }
}

/// Counts of an exploration, so that a model that explores nothing does not pass.
#[derive(Default)]
struct Met {
    states: usize,
    committed: usize,
    settled_as_committed: usize,
    settled_as_moved: usize,
    joined: usize,
    /// Owners whose claim had ended and that have claimed the log again.
    went_on: usize,
}

fn digest(world: &World) -> u64 {
    // Two of a million states have the same hash with a probability below 1 in 10 million.
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Explores every order of steps, depth first, until all states within the bound are known or one is wrong.
fn explore(bound: Bound, defect: Defect) -> Result<Met, String> {
    let first = World::new(bound);
    let mut met = Met::default();
    let mut known = HashSet::from([digest(&first)]);
    let mut waiting = vec![(first, Vec::new())];
    while let Some((world, path)) = waiting.pop() {
        met.states += 1;
        for step in world.steps(defect) {
            let mut next = world.clone();
            let mut path = path.clone();
            path.push(step);
            next.take(step, defect)
                .map_err(|why| format!("{why}: {path:?}"))?;
            met.committed += usize::from(next.committed.len() > world.committed.len());
            if matches!(step, Step::Settle(..)) {
                met.settled_as_committed += usize::from(next.committed != world.committed);
                met.settled_as_moved += usize::from(next.failed != world.failed);
            }
            met.joined += usize::from(matches!(step, Step::Join(..)));
            met.went_on += usize::from(matches!(step, Step::Claim(at)
                if world.nodes[at].services.is_some() && next.nodes[at].services.is_some()));
            if known.insert(digest(&next)) {
                waiting.push((next, path));
            }
        }
    }
    Ok(met)
}

const QUIET: Bound = Bound {
    plans: 2,
    faults: 0,
    expiries: 0,
    crashes: 0,
    truncations: 0,
};

/// Each bound combines faults that interact.
const BOUNDS: [Bound; 3] = [
    Bound {
        faults: 2,
        expiries: 1,
        ..QUIET
    },
    Bound {
        expiries: 1,
        crashes: 1,
        ..QUIET
    },
    Bound {
        faults: 1,
        crashes: 1,
        truncations: 1,
        ..QUIET
    },
];

/// The bound of the long form: all faults in one history.
const LONG: Bound = Bound {
    plans: 3,
    faults: 2,
    expiries: 1,
    crashes: 1,
    truncations: 1,
};

#[test]
fn no_interleaving_loses_doubles_or_reorders_a_plan() {
    let mut total = Met::default();
    let is_long = std::env::var_os("PLAYGATE_REPLICATION_MODEL").is_some_and(|form| form == "long");
    for bound in BOUNDS.into_iter().chain(is_long.then_some(LONG)) {
        let met = explore(bound, Defect::None).unwrap();
        eprintln!("{} states", met.states);
        total.states += met.states;
        total.committed += met.committed;
        total.settled_as_committed += met.settled_as_committed;
        total.settled_as_moved += met.settled_as_moved;
        total.joined += met.joined;
        total.went_on += met.went_on;
    }
    assert!(total.states > 10_000, "{}", total.states);
    for count in [
        total.committed,
        total.settled_as_committed,
        total.settled_as_moved,
        total.joined,
        total.went_on,
    ] {
        assert!(count > 100, "{count}");
    }
}

/// The control: the same exploration finds each planted defect.
#[test]
fn every_planted_defect_is_found() {
    for (defect, found) in [
        (Defect::NoHeadCheck, "given twice"),
        (Defect::NoEpochCheck, "not fenced"),
        (Defect::SlotCheck, "given twice"),
        (Defect::UnknownIsCommitted, "acknowledged plan is lost"),
        (Defect::UnknownIsFailed, "answered as failed is in the log"),
        (Defect::PublishedFirst, "not a prefix"),
        (Defect::TruncatedUnsynced, "nor on any disk"),
        (Defect::RefusedIsFailed, "answered as failed is in the log"),
        (Defect::PlannedBeforeSettled, "not read the change before"),
        (Defect::GoesOnWithOldServices, "services lack a change"),
    ] {
        let why: Vec<_> = (BOUNDS.into_iter())
            .filter_map(|bound| explore(bound, defect).err())
            .collect();
        assert!(
            why.iter().any(|why| why.contains(found)),
            "{defect:?}: {why:?}"
        );
    }
}
