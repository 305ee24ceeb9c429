//! Faults while clients write and read: no acknowledged write is lost or doubled, reads are linearizable, and all
//! members are equal afterwards.
//!
//! Each change runs a few rounds. `PLAYGATE_FLEET_ROUNDS=300` runs the long form and the control without syncs, and
//! prints the figures of `docs/fleet-measurements.md`. `PLAYGATE_FLEET_FAULT=PowerOfTwo,Strangers` chooses faults,
//! `PLAYGATE_FLEET_LEASE=1s` sets `fleet.lease`, `PLAYGATE_BIN` is the binary, by default that of the tests. The test needs
//! root, but no network.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::json;

use super::disk::Disk;
use super::faults::{FAULTS, Fault, inject};
use super::joiner::Joiner;
use super::ledger::{Clients, Ledger, Reads, Register, email};
use super::machines::{MACHINES, Machines};
use super::operations::users;
use super::purchases;
use super::viewer::{Beats, watch};
use super::{playgate, single_node_config, until};
use crate::support::external_tools::skip;
use crate::support::stop_on_drop::StopOnDrop;

/// What the fleet does when the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Load,
    Backup,
    Import,
    /// A member takes a new copy, as a joining one does.
    Reseed,
    /// Members are restarted one after another, the owner last, as in a rolling upgrade.
    Upgrade,
    /// A fourth member joins with an invitation, and leaves after the round.
    Join,
}

const PHASES: [Phase; 6] = [
    Phase::Load,
    Phase::Backup,
    Phase::Import,
    Phase::Reseed,
    Phase::Upgrade,
    Phase::Join,
];

/// The durations before and after a fault.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(2);

/// Rounds for every change.
const SHORT: usize = 4;

pub fn long_form() -> Option<usize> {
    let rounds = std::env::var_os("PLAYGATE_FLEET_ROUNDS")?;
    Some(rounds.to_str().unwrap().parse().unwrap())
}

/// Returns `None` where the machines cannot be set up; in CI that is a failure.
pub fn machines() -> Option<Machines> {
    match Machines::start()? {
        Ok(machines) => Some(machines),
        Err(why) => {
            skip(&format!("the campaign cannot run here: {why}"));
            None
        }
    }
}

/// The pause between two commands of the operator.
const PAUSE: Duration = Duration::from_secs(2);
/// Users of one import: more than one commit can hold.
const IMPORTED: usize = 510;

/// An operator whose commands run during the fault.
struct Operator<'a> {
    configs: Vec<PathBuf>,
    ledger: &'a Mutex<Ledger>,
    next: &'a AtomicUsize,
    stop: &'a AtomicBool,
}

impl Operator<'_> {
    /// Repeats the command of the phase until the end of the round. Returns how often it completed. A command that has
    /// started is repeated until it succeeds, even after the fault.
    fn work(&self, phase: Phase, joiner: &mut Joiner) -> usize {
        let mut done = 0;
        while !self.stop.load(Ordering::Relaxed) {
            match phase {
                Phase::Backup => drop(self.repeat(&["backup", "create"])),
                Phase::Import => self.import(),
                Phase::Join => {
                    joiner.join(&self.configs);
                    return 1;
                }
                Phase::Load | Phase::Reseed | Phase::Upgrade => return done,
            }
            done += 1;
            park_timeout(PAUSE);
        }
        done
    }

    /// Repeats a command until a member accepts it.
    fn repeat(&self, arguments: &[&str]) -> String {
        until(&format!("{arguments:?}"), || {
            let mut members = self.configs.iter();
            members.find_map(|config| playgate(config, arguments).ok())
        })
    }

    /// Imports users, and then a catalogue with a unique title.
    fn import(&self) {
        let first = self.next.fetch_add(IMPORTED, Ordering::Relaxed);
        let users: Vec<_> = (first..first + IMPORTED).map(email).collect();
        let lines = users
            .iter()
            .map(|user| json!({ "email": user }).to_string() + "\n");
        let file = self.configs[0].with_extension("import");
        fs::write(&file, lines.collect::<String>()).unwrap();
        self.ledger
            .lock()
            .unwrap()
            .unknown
            .extend(users.iter().cloned());
        self.repeat(&["user", "import", file.to_str().unwrap()]);
        self.ledger.lock().unwrap().acknowledged.extend(users);

        let exported = self.repeat(&["catalog", "export"]);
        let (before, rest) = exported.split_once("\ntitle = ").unwrap();
        let (_, after) = rest.split_once('\n').unwrap();
        let title = format!("Title {first}");
        fs::write(&file, format!("{before}\ntitle = \"{title}\"\n{after}")).unwrap();
        self.repeat(&["catalog", "import", file.to_str().unwrap()]);
        let exported = self.repeat(&["catalog", "export"]);
        assert!(exported.contains(&title), "the catalogue lacks {title}");
    }
}

/// Makes a standby that the fault does not affect take a new copy.
fn reseed(fleet: &mut Machines) {
    let at = (fleet.owner() + 2) % MACHINES;
    fleet.stop_member(at);
    take_copy(fleet, at);
    fleet.start_member(at, None);
}

pub fn take_copy(fleet: &Machines, at: usize) {
    let mut refused = String::new();
    // The fault may have stopped the owner.
    until("a copy", || {
        let copied = playgate(fleet.config(at), &["fleet", "reseed"]);
        copied
            .inspect_err(|error| {
                if *error != refused {
                    println!("member {at} gets no copy: {error}");
                    refused.clone_from(error);
                }
            })
            .ok()
    });
}

fn upgrade(fleet: &mut Machines) {
    let owner = fleet.owner();
    for at in [(owner + 1) % MACHINES, (owner + 2) % MACHINES, owner] {
        fleet.stop_member(at);
        fleet.start_member(at, None);
        fleet.wait_until_following(at);
    }
}

/// Acts as an operator or systemd would: a member with a damaged log takes a new copy, and one that has ended is
/// restarted. Returns the number of such members.
pub fn repair(fleet: &mut Machines) -> usize {
    let mut repaired = 0;
    for at in 0..MACHINES {
        let log = fleet.log(at);
        // A member that had no space follows again by itself.
        let is_full = log.contains("the disk is full or read-only: serving from memory");
        let is_damaged =
            (log.contains("maintenance mode") && !is_full) || log.contains("fleet reseed");
        if !is_damaged && !fleet.has_ended(at) {
            continue;
        }
        println!("member {at} (damaged: {is_damaged}) is started again; it said:\n{log}");
        fleet.kill_member(at);
        if is_damaged {
            take_copy(fleet, at);
        }
        fleet.start_member(at, None);
        repaired += 1;
    }
    repaired
}

/// Stops every member, removes it from the fleet, and returns the export of its store.
pub fn exports(fleet: &mut Machines) -> Vec<Vec<String>> {
    for at in 0..MACHINES {
        fleet.stop_member(at);
    }
    let configs = fleet.machines.iter().map(|machine| machine.config.clone());
    let exports = configs.map(|config| {
        playgate(&config, &["fleet", "leave"]).unwrap();
        let single_node = single_node_config(&config);
        playgate(&single_node, &["store", "verify"]).unwrap();
        let export = playgate(&single_node, &["store", "export", "-"]).unwrap();
        // The first line contains the id of the store.
        export.lines().skip(1).map(str::to_owned).collect()
    });
    exports.collect()
}

#[derive(Default)]
struct Figures {
    gaps: Vec<Duration>,
    operations: usize,
    refused: usize,
    broken: usize,
    unanswered: [usize; MACHINES + 1],
}

pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(last * percent / 100)
        .copied()
        .unwrap_or_default()
}

pub struct Campaign {
    /// Declared first, because its process must end before the network and folder are removed.
    joiner: Joiner,
    pub fleet: Machines,
    pub ledger: Mutex<Ledger>,
    next: AtomicUsize,
    registers: Vec<Mutex<Option<Register>>>,
    beats: Mutex<Beats>,
    figures: BTreeMap<Fault, Figures>,
    repaired: usize,
}

impl Campaign {
    pub fn new(fleet: Machines) -> Self {
        Self {
            joiner: Joiner::new(&fleet),
            fleet,
            ledger: Mutex::default(),
            next: AtomicUsize::default(),
            registers: (0..MACHINES).map(|_| Mutex::default()).collect(),
            beats: Mutex::default(),
            figures: BTreeMap::new(),
            repaired: 0,
        }
    }

    /// Runs the clients while `disturb` runs. Returns when they stopped, and how often the operator's command
    /// completed.
    pub fn work(&mut self, phase: Phase, disturb: impl FnOnce(&mut Machines)) -> (Instant, usize) {
        let stop = AtomicBool::new(false);
        let partner = self.fleet.partner.clone();
        let addresses = self.fleet.addresses();
        let configs = self.fleet.machines.iter();
        let operator = Operator {
            configs: configs.map(|machine| machine.config.clone()).collect(),
            ledger: &self.ledger,
            next: &self.next,
            stop: &stop,
        };
        let clients = Clients {
            partner: &partner,
            ledger: &self.ledger,
            next: &self.next,
            stop: &stop,
            registers: &self.registers,
            powerless: &self.fleet.powerless.clone(),
        };
        let beats = &self.beats;
        let fourth = self.fleet.fourth();
        let (fleet, joiner) = (&mut self.fleet, &mut self.joiner);
        std::thread::scope(|scope| {
            for (at, address) in addresses.iter().copied().enumerate() {
                scope.spawn(move || clients.write(address));
                scope.spawn(move || clients.count(at, address));
                let members = [&addresses[at..], &addresses[..at]].concat();
                let others = members.clone();
                scope.spawn(move || clients.read(&members));
                scope.spawn(move || clients.purchase(&others));
            }
            scope.spawn(|| clients.read_where_there_may_be_none(fourth, &addresses));
            scope.spawn(|| watch(&partner, &addresses, beats, &stop));
            let operator_thread = scope.spawn(move || operator.work(phase, joiner));
            // Stops the other threads even if this one panics.
            let ended = StopOnDrop(&stop);
            park_timeout(BEFORE);
            disturb(fleet);
            park_timeout(AFTER);
            drop(ended);
            (Instant::now(), operator_thread.join().unwrap())
        })
    }

    fn round(&mut self, round: usize, fault: Fault, phase: Phase) {
        let began = Instant::now();
        let before = {
            let ledger = self.ledger.lock().unwrap();
            (ledger.operations, ledger.reads.clone())
        };
        let (ended, commands) = self.work(phase, |fleet| match phase {
            Phase::Reseed => {
                reseed(fleet);
                inject(fleet, fault);
            }
            Phase::Upgrade => {
                upgrade(fleet);
                inject(fleet, fault);
            }
            _ => inject(fleet, fault),
        });
        self.repaired += repair(&mut self.fleet);
        let mut ledger = self.ledger.lock().unwrap();
        let gap = ledger.longest_gap(began, ended);
        let figures = self.figures.entry(fault).or_default();
        figures.gaps.push(gap);
        figures.operations += ledger.operations - before.0;
        let (reads, old) = (&ledger.reads, &before.1);
        figures.refused += reads.all_refused() - old.all_refused();
        figures.broken += reads.broken - old.broken;
        for (sum, new) in figures
            .unanswered
            .iter_mut()
            .zip(reads.unanswered_since(old))
        {
            *sum += new;
        }
        println!(
            "round {round} {fault:?} during {phase:?}, load {}: {} operations, {} users watch, longest gap {} ms, {commands} commands of the operator; reads: {}",
            load(),
            ledger.operations - before.0,
            ledger.purchases.len(),
            gap.as_millis(),
            reads.since(old),
        );
        ledger.clear_times();
        drop(ledger);
        if let Phase::Join = phase {
            let users = self.joiner.leave(&self.fleet);
            let found = self.ledger.lock().unwrap().check(&users);
            assert_eq!(found, Vec::<String>::new(), "at the member that joined");
        }
    }

    /// Compares the ledger with the fleet, which must have no fault at the moment.
    pub fn check(&self) -> Vec<String> {
        self.fleet.wait_until_equal();
        let users = users(self.fleet.config(0));
        let mut ledger = self.ledger.lock().unwrap();
        // Later they have watched to the end, or their entitlements have expired.
        let watching = std::mem::take(&mut ledger.purchases);
        let mut found = ledger.check(&users);
        drop(ledger);
        let addresses = self.fleet.addresses();
        found.extend(purchases::check(&watching, &self.fleet.partner, &addresses));
        found
    }

    /// Prints the longest time without an acknowledged sign-up since the last report.
    pub fn report(&self, what: &str) {
        let mut ledger = self.ledger.lock().unwrap();
        let (gap, operations) = (ledger.longest_gap_between(), ledger.operations);
        println!("{what}: {operations} operations so far, longest gap {gap:.1?}");
        ledger.clear_times();
    }

    fn print(&mut self) {
        println!(
            "| fault | rounds | operations | without an accepted write, median / longest | reads that no member answered, with at most one, two, all machines without power | attempts refused | broken off |"
        );
        for (fault, figures) in &mut self.figures {
            figures.gaps.sort_unstable();
            let [some, one, two, all] = figures.unanswered;
            let (median, most) = (
                percentile(&figures.gaps, 50),
                percentile(&figures.gaps, 100),
            );
            println!(
                "| {fault:?} | {} | {} | {:.1} / {:.1} s | {}, {two}, {all} | {} | {} |",
                figures.gaps.len(),
                figures.operations,
                median.as_secs_f64(),
                most.as_secs_f64(),
                some + one,
                figures.refused,
                figures.broken,
            );
        }
        let reads = self.ledger.lock().unwrap().reads.since(&Reads::default());
        println!("reads: {reads}");
        let beats = self.beats.lock().unwrap();
        println!(
            "{} heartbeats: {} were not taken by any member within 10 s; the slowest took {:.1} s",
            beats.taken,
            beats.refused,
            beats.slowest.as_secs_f64(),
        );
        println!(
            "{} members were started again or took a copy",
            self.repaired
        );
    }
}

/// Returns the load of the machine in the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').next().unwrap().to_owned()
}

/// Returns all faults, or those that the environment names.
fn chosen() -> Vec<Fault> {
    let Some(names) = std::env::var_os("PLAYGATE_FLEET_FAULT") else {
        return FAULTS.to_vec();
    };
    let names = names.into_string().unwrap();
    let named = names.split(',').map(|name| {
        let mut faults = FAULTS.into_iter();
        let named = faults.find(|fault| format!("{fault:?}") == name);
        named.unwrap_or_else(|| panic!("{name} is none of {FAULTS:?}"))
    });
    named.collect()
}

#[test]
fn fleet_keeps_every_acknowledged_write_once_under_faults() {
    let Some(fleet) = machines() else {
        return;
    };
    let mut campaign = Campaign::new(fleet);
    let rounds = long_form().unwrap_or(SHORT);
    let faults = chosen();
    for round in 0..rounds {
        // In each pass a fault meets another phase, and in the end all of them.
        let (number, pass) = (round % faults.len(), round / faults.len());
        let fault = faults[number];
        let phase = fault.meets(PHASES[(number + pass) % PHASES.len()]);
        campaign.round(round, fault, phase);
        let found = campaign.check();
        assert_eq!(found, Vec::<String>::new(), "after round {round}");
    }
    campaign.print();
    assert_eq!(campaign.check(), Vec::<String>::new());
    let acknowledged = campaign.ledger.lock().unwrap().acknowledged.len();
    assert!(acknowledged > 2 * rounds);
    let exports = exports(&mut campaign.fleet);
    assert!(exports[0].len() > acknowledged);
    assert!(
        exports[0] == exports[1] && exports[0] == exports[2],
        "the stores differ"
    );
}

/// Control: disks that lose synced writes. The same check finds the loss.
#[test]
fn disks_that_lose_synced_writes_are_detected() {
    if long_form().is_none() {
        return;
    }
    let Some(fleet) = machines() else {
        return;
    };
    let mut campaign = Campaign::new(fleet);
    campaign.work(Phase::Load, |_| {});
    let all = [0, 1, 2];
    campaign.fleet.cut_power(&all);
    campaign.fleet.with_images(Disk::keep);
    for at in all {
        campaign.fleet.start_etcd(at);
        campaign.fleet.start_member(at, None);
    }
    assert_eq!(campaign.check(), Vec::<String>::new());
    campaign.work(Phase::Load, |_| {});
    campaign.fleet.cut_power(&all);
    campaign.fleet.with_images(Disk::put_back);
    for at in all {
        campaign.fleet.start_etcd(at);
        campaign.fleet.start_member(at, None);
    }
    let found = campaign.check();
    assert!(
        found.iter().any(|what| what.starts_with("lost ")),
        "{found:?}"
    );
}
