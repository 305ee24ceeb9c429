//! What every crash test uses. This file: one server, its data directory and its ledger; a round of
//! work, a fault in the middle of it, a restart, and the comparison of the stored state with the
//! responses.
//!
//! | module | owns |
//! | --- | --- |
//! | `appliance`, `client` | the process; the connections to it |
//! | `background_command` | a command that is repeated during a round |
//! | `disk` | file systems that can be cut off, filled up and made read-only |
//! | `durability_model` | the states that a fact may have after a fault, given the responses |
//! | `process`, `raw_http` | of the integration tests: processes with a deadline; HTTP in exact bytes |
//! | `rng` | the seed, how many rounds, and how a test is skipped |
//! | `service_manager` | stands in for systemd, and measures the gaps between notifications that feed the watchdog |
//! | `summary` | the outcomes of rounds, as a table |
//! | `template` | a data directory with its ledger, copied and damaged by tests |
//! | `tracer` | strace on a running process, to fail or delay its system calls |

pub mod appliance;
pub mod background_command;
pub mod client;
pub mod disk;
pub mod durability_model;
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../it/support/process.rs"]
pub mod process;
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../it/support/raw_http.rs"]
pub mod raw_http;
pub mod rng;
pub mod service_manager;
pub mod summary;
pub mod template;
pub mod tracer;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::appliance::{Appliance, Launch, Started, freeze};
use crate::harness::background_command::BackgroundCommand;
use crate::harness::disk::Disk;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::Rng;
use crate::harness::summary::Summary;
use crate::workload::{Who, Workload};

/// After so many rounds a new appliance takes the place of the old one.
const LIFE: u32 = 16;

/// What the appliance is doing when the blow comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Its very first start, on an empty file system.
    FirstStart,
    /// Serving.
    Load,
    /// Serving, while a guide is imported.
    Import,
    /// Starting after another blow.
    Start,
    /// Stopping.
    Stop,
    /// Serving, while a backup is made.
    Backup,
    /// Serving, while the store is compacted.
    Compact,
    /// Serving, shortly after a start that followed a kill.
    AfterKill,
}

impl Phase {
    /// The command that is repeated during the phase.
    pub fn command(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Backup => Some(&["backup", "create", "--json"]),
            Self::Compact => Some(&["store", "compact"]),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power is cut.
    Cut,
    /// The process is killed.
    Kill,
}

enum Place {
    Folder(TempDir),
    Disk(Disk),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder.path(),
            Self::Disk(disk) => disk.path(),
        }
    }
}

pub struct Harness {
    name: String,
    dice: Rng,
    on_disk: bool,
    variables: Vec<(String, String)>,
    place: Place,
    appliance: Option<Appliance>,
    workload: Option<Workload>,
    /// The newest backup that a command told of.
    backup: Option<String>,
    age: u32,
    nth: u64,
    /// How long a start takes about.
    start_time: Duration,
    pub tally: Summary,
}

impl Harness {
    /// Appliances on a file system that can be cut off.
    pub fn on_disk(name: &str) -> Result<Self, String> {
        Disk::ext4(256).map(|disk| Self::of(name, Place::Disk(disk)))
    }

    /// Appliances in a folder.
    pub fn in_folder(name: &str) -> Self {
        Self::of(name, Place::Folder(tempfile::tempdir().unwrap()))
    }

    fn of(name: &str, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            dice: Rng::of_test(name),
            on_disk: matches!(place, Place::Disk(_)),
            variables: Vec::new(),
            place,
            appliance: None,
            workload: None,
            backup: None,
            age: 0,
            nth: 0,
            start_time: Duration::from_millis(300),
            tally: Summary::default(),
        }
    }

    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// One of the phases, at random; the first start comes with every new appliance.
    pub fn pick(&mut self, phases: &[Phase]) -> Phase {
        if self.workload.is_none() {
            return Phase::FirstStart;
        }
        phases[self.dice.index(phases.len())]
    }

    /// Whether the log of the running server has this text.
    pub fn has_said(&self, text: &str) -> bool {
        let appliance = self.appliance.as_ref();
        appliance.is_some_and(|appliance| appliance.log().contains(text))
    }

    fn launch(&self) -> Launch {
        let mut launch = Launch::of(&self.place.path().join("data"));
        // An appliance is set up as usual, so that there is something to lose.
        if self.workload.is_some() {
            launch.variables.clone_from(&self.variables);
        }
        launch
    }

    /// A round: work, blow, start, comparison. After anything wrong, and now and then, the next one
    /// has a new appliance.
    pub fn round(&mut self, phase: Phase, blow: Fault) {
        self.nth += 1;
        let mut dice = self.dice.split(self.nth);
        let mut problems = Vec::new();
        let mut slowest = Duration::ZERO;
        let mut steps = vec![(phase, blow)];
        if phase == Phase::AfterKill {
            steps = vec![(Phase::Load, Fault::Kill), (Phase::AfterKill, blow)];
        }
        for (phase, blow) in steps {
            let survival = self.strike(phase, blow, &mut dice);
            problems = self.recover(&survival, &dice);
            if let Some(appliance) = &self.appliance {
                slowest = slowest.max(appliance.ready_in);
            }
            if !problems.is_empty() {
                break;
            }
        }
        self.enter(phase, slowest, &problems);
        self.age += 1;
        if !problems.is_empty() || self.age >= LIFE {
            self.renew(&problems);
        }
    }

    fn enter(&mut self, phase: Phase, slowest: Duration, problems: &[String]) {
        let answered = self
            .workload
            .as_mut()
            .map_or(0, |workload| workload.counts().0);
        for problem in problems {
            println!("{} round {} {phase:?}: {problem}", self.name, self.nth);
        }
        self.tally.enter(phase, answered, slowest, problems);
        if self.nth.is_multiple_of(100) {
            self.tally.print(&format!("{}: so far", self.name));
        }
    }

    /// Works up to the blow. What may have been lost by it.
    fn strike(&mut self, phase: Phase, blow: Fault, dice: &mut Rng) -> AllowedLoss {
        let moment = match phase {
            Phase::FirstStart | Phase::Start => {
                let most = u64::try_from(self.start_time.as_micros()).unwrap() * 5 / 4;
                Duration::from_micros(dice.below(most))
            }
            Phase::AfterKill => Duration::from_millis(dice.below(300)),
            // It parts from its clients first, for 300 ms.
            Phase::Stop => Duration::from_millis(dice.below(700)),
            // Long enough for a command to be done now and then.
            Phase::Backup | Phase::Compact => Duration::from_millis(50 + dice.below(2_500)),
            // Beyond the half second after which everything has to be synced.
            _ => Duration::from_millis(20 + dice.below(1_000)),
        };
        if phase == Phase::FirstStart {
            let starting = self.launch().spawn();
            thread::park_timeout(moment);
            self.hit(blow, starting.pid(), || starting.kill());
            return AllowedLoss::WHOLE;
        }
        let mut appliance = self.appliance.take().expect("a running appliance");
        let mut workload = self.workload.take().expect("a ledger");
        let mut struck = Instant::now();
        let address = appliance.address.clone();
        let first = if matches!(phase, Phase::Start | Phase::Stop) {
            Duration::from_millis(20 + dice.below(300))
        } else {
            moment
        };
        let launch = self.launch();
        let who = match phase {
            Phase::Import => Who::Importing,
            _ if dice.once_in(3) => Who::Logged,
            _ => Who::Usual,
        };
        workload.work(&address, who, dice, || {
            let mut orders = phase
                .command()
                .map(|command| BackgroundCommand::give(&launch, command));
            match &mut orders {
                Some(orders) => orders.repeat(first),
                None => thread::park_timeout(first),
            }
            if phase == Phase::Stop {
                appliance.ask_to_end();
                thread::park_timeout(moment);
            }
            struck = Instant::now();
            self.hit(blow, appliance.process.id(), || appliance.kill());
            if let Some(orders) = &mut orders {
                orders.finish();
                self.backup = orders.told.take().or(self.backup.take());
                self.tally.ordered(phase, orders.done);
            }
        });
        self.workload = Some(workload);
        if phase == Phase::Start {
            let starting = self.launch().spawn();
            thread::park_timeout(moment);
            self.hit(blow, starting.pid(), || starting.kill());
        }
        match blow {
            Fault::Cut => AllowedLoss::of_cut(struck),
            Fault::Kill => AllowedLoss::WHOLE,
        }
    }

    fn hit(&mut self, blow: Fault, pid: u32, kill: impl FnOnce()) {
        match (&mut self.place, blow) {
            (Place::Disk(disk), Fault::Cut) => {
                // From here on it answers nobody, so that nobody is told what the disk never had.
                freeze(pid);
                disk.cut();
                kill();
                disk.unmount();
                disk.mount().unwrap();
            }
            (_, Fault::Kill) => kill(),
            (Place::Folder(_), Fault::Cut) => panic!("a folder cannot be cut off"),
        }
    }

    /// Starts, and compares. What is wrong.
    fn recover(&mut self, survival: &AllowedLoss, dice: &Rng) -> Vec<String> {
        let launch = self.launch();
        let mut appliance = match launch.start() {
            Started::Ready(appliance) => appliance,
            Started::Ended(code, log) => {
                return vec![format!("failed start: exit code {code:?}\n{}", tail(&log))];
            }
            Started::Waiting(log) => {
                return vec![format!("failed start: in maintenance\n{}", tail(&log))];
            }
            Started::Hung(log) => {
                return vec![format!("failed start: not in time\n{}", tail(&log))];
            }
        };
        self.start_time = appliance.ready_in;
        let mut problems = Vec::new();
        match appliance.readiness() {
            Some((200, _)) => {}
            other => problems.push(format!("failed start: not ready: {other:?}")),
        }
        match &mut self.workload {
            Some(workload) => {
                let found = workload.problems();
                problems.extend(found);
                problems.extend(workload.check(&appliance.address, survival, dice));
            }
            None => match Workload::new(&launch, &appliance) {
                Ok(workload) => self.workload = Some(workload),
                Err(why) => problems.push(format!("wrong: set-up: {why}")),
            },
        }
        if problems
            .iter()
            .any(|text| text.to_lowercase().contains("hung"))
        {
            problems.push(format!("threads:\n{}", appliance.threads()));
        }
        if let Some(code) = appliance.wait(Duration::ZERO) {
            problems.push(format!("wrong: it ended by itself: {code:?}"));
        }
        if let Some(backup) = self.backup.take() {
            let output = launch.run(&["backup", "verify", &backup]);
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                problems.push(format!("lost: the backup {backup}: {why}"));
            }
        }
        if !problems.is_empty() {
            problems.push(format!("log:\n{}", tail(&appliance.log())));
        }
        self.appliance = Some(appliance);
        problems
    }

    /// Throws the appliance away. The place of the first failure is kept, beside what cargo builds.
    fn renew(&mut self, problems: &[String]) {
        self.appliance = None;
        self.workload = None;
        self.backup = None;
        self.age = 0;
        if self.on_disk {
            // Of the control a loss is expected.
            let kept = !problems.is_empty() && self.variables.is_empty();
            if let (Place::Disk(disk), true) = (&self.place, kept && self.tally.bad_rounds() == 1) {
                let name = format!("{}-round-{}.img", self.name, self.nth);
                disk.keep(&PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
            }
            self.place = Place::Disk(Disk::ext4(256).unwrap());
        } else {
            self.place = Place::Folder(tempfile::tempdir().unwrap());
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // Before its place.
        self.appliance = None;
    }
}

/// The end of a log.
pub fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(24)..].join("\n")
}
