//! What every crash test uses. This file: one server, its data directory and its ledger; a round of work, a fault
//! during it, a restart, and the comparison of the stored state with the responses.
//!
//! | module | owns |
//! | --- | --- |
//! | `appliance`, `client` | the process; the connections to it |
//! | `background_command` | a command that is repeated during a round |
//! | `comparison` | a start after a fault, and what it serves compared with ledgers |
//! | `delay_probe` | measures how long threads wait for a processor and for the disk |
//! | `disk` | file systems that can be cut off, filled up and made read-only |
//! | `durability_model` | the states that a fact may have after a fault, given the responses |
//! | `process`, `raw_http` | of the integration tests: processes with a deadline; HTTP in exact bytes |
//! | `recording`, `replay` | the file operations of a process, from strace, in the order of time |
//! | `rng` | the seed, how many rounds, and how a test is skipped |
//! | `service_manager` | stands in for systemd, and measures the gaps between notifications that feed the watchdog |
//! | `simulated_disk` | what a power cut may keep and lose of recorded changes |
//! | `stop_on_drop` | of the integration tests: ends the threads of a scope, also in a panic |
//! | `summary` | the outcomes of rounds, as a table |
//! | `template` | a data directory with its ledger, copied and damaged by tests |
//! | `tracer` | strace on a running process, to fail or delay its system calls |

pub mod appliance;
pub mod background_command;
pub mod client;
pub mod comparison;
pub mod delay_probe;
pub mod disk;
pub mod durability_model;
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../it/support/process.rs"]
pub mod process;
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../it/support/raw_http.rs"]
pub mod raw_http;
pub mod recording;
pub mod replay;
pub mod rng;
pub mod service_manager;
pub mod simulated_disk;
#[path = "../../it/support/stop_on_drop.rs"]
pub mod stop_on_drop;
pub mod summary;
pub mod template;
pub mod tracer;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::appliance::{Appliance, Launch, Started};
use crate::harness::background_command::BackgroundCommand;
use crate::harness::delay_probe::DelayProbe;
use crate::harness::disk::Disk;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::process::pause;
use crate::harness::rng::Rng;
use crate::harness::summary::Summary;
use crate::workload::{Mix, Workload};

/// After this many rounds the server and its data directory are replaced.
const ROUNDS_PER_SERVER: u32 = 16;

/// What the server does when the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The very first start, on an empty file system.
    FirstStart,
    Load,
    Import,
    /// The start after another fault.
    Start,
    Stop,
    Backup,
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
    Cut,
    Kill,
}

enum Storage {
    Folder(TempDir),
    Disk(Disk),
}

impl Storage {
    fn path(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder.path(),
            Self::Disk(disk) => disk.path(),
        }
    }
}

pub struct Harness {
    name: String,
    rng: Rng,
    on_disk: bool,
    variables: Vec<(String, String)>,
    storage: Storage,
    appliance: Option<Appliance>,
    workload: Option<Workload>,
    /// The newest backup that a command has reported.
    backup: Option<String>,
    age: u32,
    nth: u64,
    /// The duration of the last start, from which the moment of a fault during a start is drawn.
    start_time: Duration,
    pub tally: Summary,
}

impl Harness {
    /// Puts the data directory on a file system that can be cut off.
    pub fn on_disk(name: &str) -> Result<Self, String> {
        Disk::ext4(256).map(|disk| Self::new(name, Storage::Disk(disk)))
    }

    pub fn in_folder(name: &str) -> Self {
        Self::new(name, Storage::Folder(tempfile::tempdir().unwrap()))
    }

    fn new(name: &str, storage: Storage) -> Self {
        Self {
            name: name.to_owned(),
            rng: Rng::for_test(name),
            on_disk: matches!(storage, Storage::Disk(_)),
            variables: Vec::new(),
            storage,
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

    /// Picks a phase at random. The first round of every data directory is its first start.
    pub fn pick(&mut self, phases: &[Phase]) -> Phase {
        if self.workload.is_none() {
            return Phase::FirstStart;
        }
        phases[self.rng.index(phases.len())]
    }

    pub fn log_contains(&self, text: &str) -> bool {
        let appliance = self.appliance.as_ref();
        appliance.is_some_and(|appliance| appliance.log().contains(text))
    }

    fn launch(&self) -> Launch {
        let mut launch = Launch::new(&self.storage.path().join("data"));
        // The first start uses the defaults, so that there is durable data to lose.
        if self.workload.is_some() {
            launch.variables.clone_from(&self.variables);
        }
        launch
    }

    /// Runs a round: work, fault, start, comparison. After a problem, and after `ROUNDS_PER_SERVER` rounds, the next round has a new
    /// data directory.
    pub fn round(&mut self, phase: Phase, fault: Fault) {
        self.nth += 1;
        let mut rng = self.rng.split(self.nth);
        let mut problems = Vec::new();
        let mut slowest = Duration::ZERO;
        let mut steps = vec![(phase, fault)];
        if phase == Phase::AfterKill {
            steps = vec![(Phase::Load, Fault::Kill), (Phase::AfterKill, fault)];
        }
        for (phase, fault) in steps {
            let allowed_loss = self.inject_fault(phase, fault, &mut rng);
            problems = self.recover(&allowed_loss, &rng);
            if let Some(appliance) = &self.appliance {
                slowest = slowest.max(appliance.ready_in);
            }
            if !problems.is_empty() {
                break;
            }
        }
        self.record(phase, slowest, &problems);
        self.age += 1;
        if !problems.is_empty() || self.age >= ROUNDS_PER_SERVER {
            self.renew(&problems);
        }
    }

    fn record(&mut self, phase: Phase, slowest: Duration, problems: &[String]) {
        let answered = self
            .workload
            .as_mut()
            .map_or(0, |workload| workload.counts().0);
        for problem in problems {
            println!("{} round {} {phase:?}: {problem}", self.name, self.nth);
        }
        self.tally.record(phase, answered, slowest, problems);
        if self.nth.is_multiple_of(100) {
            self.tally.print(&format!("{}: so far", self.name));
        }
    }

    /// Runs the actors until the fault. Returns what the fault may have lost.
    fn inject_fault(&mut self, phase: Phase, fault: Fault, rng: &mut Rng) -> AllowedLoss {
        let moment = match phase {
            Phase::FirstStart | Phase::Start => {
                let most = u64::try_from(self.start_time.as_micros()).unwrap() * 5 / 4;
                Duration::from_micros(rng.below(most))
            }
            Phase::AfterKill => Duration::from_millis(rng.below(300)),
            // A shutdown lets clients finish for 300 ms first.
            Phase::Stop => Duration::from_millis(rng.below(700)),
            // Long enough that some commands complete.
            Phase::Backup | Phase::Compact => Duration::from_millis(50 + rng.below(2_500)),
            // Longer than the half second after which everything has to be synced.
            _ => Duration::from_millis(20 + rng.below(1_000)),
        };
        if phase == Phase::FirstStart {
            let starting = self.launch().spawn();
            thread::park_timeout(moment);
            self.apply_fault(fault, starting.pid(), || starting.kill());
            return AllowedLoss::NONE;
        }
        let mut appliance = self.appliance.take().expect("a running appliance");
        let mut workload = self.workload.take().expect("a ledger");
        let mut allowed_loss = AllowedLoss::NONE;
        let address = appliance.address.clone();
        let first = if matches!(phase, Phase::Start | Phase::Stop) {
            Duration::from_millis(20 + rng.below(300))
        } else {
            moment
        };
        let launch = self.launch();
        let mix = match phase {
            Phase::Import => Mix::Importing,
            _ if rng.once_in(3) => Mix::Logged,
            _ => Mix::Usual,
        };
        workload.work(&address, mix, rng, || {
            // A kill loses nothing that was written, so only a power cut allows for delays.
            let probe = (fault == Fault::Cut).then(|| DelayProbe::start(self.storage.path()));
            let mut background = phase
                .command()
                .map(|command| BackgroundCommand::new(&launch, command));
            match &mut background {
                Some(background) => background.repeat(first),
                None => thread::park_timeout(first),
            }
            if phase == Phase::Stop {
                appliance.ask_to_end();
                thread::park_timeout(moment);
            }
            if let Some(probe) = probe {
                let delay = probe.stop();
                allowed_loss = AllowedLoss::of_power_cut(Instant::now(), delay);
            }
            self.apply_fault(fault, appliance.process.id(), || appliance.kill());
            if let Some(background) = &mut background {
                background.finish();
                self.backup = background.last_path.take().or(self.backup.take());
                self.tally.add_commands(phase, background.done);
            }
        });
        self.workload = Some(workload);
        if phase == Phase::Start {
            let starting = self.launch().spawn();
            thread::park_timeout(moment);
            self.apply_fault(fault, starting.pid(), || starting.kill());
        }
        allowed_loss
    }

    fn apply_fault(&mut self, fault: Fault, pid: u32, kill: impl FnOnce()) {
        match (&mut self.storage, fault) {
            (Storage::Disk(disk), Fault::Cut) => {
                // A stopped process answers no client, so no client is promised something that the disk never got.
                // It may also have ended already.
                let _ = pause(pid);
                disk.cut();
                kill();
                disk.unmount();
                disk.mount().unwrap();
            }
            (_, Fault::Kill) => kill(),
            (Storage::Folder(_), Fault::Cut) => panic!("a folder cannot be cut off"),
        }
    }

    /// Starts the server and compares. Returns the problems.
    fn recover(&mut self, allowed_loss: &AllowedLoss, rng: &Rng) -> Vec<String> {
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
                problems.extend(workload.check(&appliance.address, allowed_loss, rng));
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

    /// Discards the server and its data directory. The image of the first failure is kept in cargo's directory for
    /// temporary files.
    fn renew(&mut self, problems: &[String]) {
        self.appliance = None;
        self.workload = None;
        self.backup = None;
        self.age = 0;
        if self.on_disk {
            // The control is expected to lose data.
            let kept = !problems.is_empty() && self.variables.is_empty();
            if let (Storage::Disk(disk), true) =
                (&self.storage, kept && self.tally.bad_rounds() == 1)
            {
                let name = format!("{}-round-{}.img", self.name, self.nth);
                disk.keep(&PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
            }
            self.storage = Storage::Disk(Disk::ext4(256).unwrap());
        } else {
            self.storage = Storage::Folder(tempfile::tempdir().unwrap());
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // The process must end before its directory is removed.
        self.appliance = None;
    }
}

pub fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(24)..].join("\n")
}
