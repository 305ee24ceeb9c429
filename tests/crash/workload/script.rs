//! A fixed course of a server's life, one request after another. So it is known at each moment which changes have been answered.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Workload;
use crate::harness::appliance::{Appliance, Launch, Started};
use crate::harness::client::{Connection, NoResponse};
use crate::harness::rng::Rng;

/// Returns the command under which the nth process of the course runs.
pub type Under<'a> = &'a mut dyn FnMut(usize) -> Vec<String>;

/// The actors, as [`Workload::step`] numbers them. Ann and Bob change accounts.
const PLAYER: usize = 0;
const REPORTER: usize = 1;
const ANN: usize = 2;
const BOB: usize = 3;
const OPERATOR: usize = 4;
const GUIDE: usize = 5;

/// How long a process that answers no more may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How long a start under strace may take.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// The server's process was killed.
#[derive(Debug)]
pub struct Killed;

/// Which course a server's life takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// First start, changes of all kinds, a backup, a compaction, a stop, a restore, a second start.
    Store,
    /// Telemetry of an hour, the end of that hour, and a second start.
    Telemetry,
}

pub struct Script {
    pub launch: Launch,
    course: Course,
    rng: Rng,
    steps: u64,
    /// The ledger as it is now; with open changes if the process was killed.
    workload: Option<Workload>,
    /// A restore that was begun gives the state this ledger.
    restored: Option<Workload>,
    /// The ledger after each step.
    history: Vec<(Instant, Workload)>,
}

impl Script {
    pub fn new(course: Course, data_dir: &Path, rng: &Rng) -> Self {
        Self {
            launch: Launch::new(data_dir)
                .with("PLAYGATE_LAB_CLOCK", "true")
                .with("PLAYGATE_ENVIRONMENT", "staging"),
            course,
            rng: rng.clone(),
            steps: 0,
            workload: None,
            restored: None,
            history: Vec::new(),
        }
    }

    pub fn run(&mut self, under: Under<'_>) -> Result<(), Killed> {
        let mut appliance = self.start(under(0))?;
        let begun = Workload::new(&self.launch, &appliance);
        self.workload = Some(begun.or_else(|why| died(&mut appliance, &why))?);
        self.record();
        match self.course {
            Course::Store => self.store(appliance, under),
            Course::Telemetry => self.telemetry(appliance, under),
        }
    }

    fn store(&mut self, mut appliance: Appliance, under: Under<'_>) -> Result<(), Killed> {
        self.steps(
            &mut appliance,
            &[
                ANN, BOB, OPERATOR, ANN, PLAYER, REPORTER, ANN, REPORTER, PLAYER, GUIDE, OPERATOR,
            ],
        )?;
        let backup = self.command(&["backup", "create", "--json"])?;
        let before = self.workload.clone().unwrap();
        // Telemetry is not restored, and a session is none of what a restore promises, so neither changes until then.
        self.steps(&mut appliance, &[ANN, OPERATOR, BOB])?;
        self.command(&["store", "compact"])?;
        self.steps(&mut appliance, &[ANN, BOB, OPERATOR])?;
        end(appliance)?;
        let backup = backup["path"].as_str().unwrap().to_owned();
        self.restored = Some(before);
        let launch = self.launch.clone().under(&under(1));
        let output = launch.run(&["backup", "restore", &backup, "--yes"]);
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), None, "a restore failed: {why}");
            return Err(Killed);
        }
        self.workload = self.restored.take();
        self.record();
        let mut appliance = self.start(under(2))?;
        self.steps(
            &mut appliance,
            &[PLAYER, ANN, REPORTER, BOB, OPERATOR, REPORTER, PLAYER, ANN],
        )?;
        end(appliance)
    }

    fn telemetry(&mut self, mut appliance: Appliance, under: Under<'_>) -> Result<(), Killed> {
        self.steps(&mut appliance, &[REPORTER, REPORTER])?;
        // When this is answered the jobs that became due have run, so that the hour is closed.
        let body = json!({"offset": 2 * 3_600});
        let token = self.workload.as_ref().unwrap().keys.operator.clone();
        let moved =
            Connection::to(&appliance.address).operate(&token, "PUT", "/admin/v1/clock", &body);
        match moved {
            Ok(answer) => assert_eq!(answer.status, 200),
            Err(why) => return died(&mut appliance, &format!("{why:?}")),
        }
        self.steps(&mut appliance, &[REPORTER, REPORTER])?;
        end(appliance)?;
        let mut appliance = self.start(under(1))?;
        self.steps(&mut appliance, &[REPORTER])?;
        end(appliance)
    }

    fn start(&self, under: Vec<String>) -> Result<Appliance, Killed> {
        let mut launch = self.launch.clone().under(&under);
        // strace stops it at every call.
        launch.timeout = STARTS_WITHIN;
        match launch.start() {
            Started::Ready(appliance) => Ok(appliance),
            Started::Ended(None, _) => Err(Killed),
            Started::Ended(Some(code), log) => panic!("the server ended with {code}: {log}"),
            Started::Waiting(log) | Started::Hung(log) => panic!("no start: {log}"),
        }
    }

    /// Runs a command beside the server. It fails only if the server is killed.
    fn command(&self, arguments: &[&str]) -> Result<Value, Killed> {
        let output = self.launch.run(arguments);
        if !output.status.success() {
            return Err(Killed);
        }
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// Lets these actors act, one after another.
    fn steps(&mut self, appliance: &mut Appliance, actors: &[usize]) -> Result<(), Killed> {
        let mut line = Connection::to(&appliance.address);
        for actor in actors {
            self.steps += 1;
            let mut rng = self.rng.split(self.steps);
            let workload = self.workload.as_mut().unwrap();
            match workload.step(&mut line, *actor, &mut rng) {
                Ok(()) => self.record(),
                Err(NoResponse::Hung) => panic!("a request got no answer"),
                Err(why) => return died(appliance, &format!("{why:?}")),
            }
        }
        Ok(())
    }

    fn record(&mut self) {
        let workload = self.workload.clone().unwrap();
        self.history.push((Instant::now(), workload));
    }

    /// Returns the ledgers of which the state after a kill must fit one.
    pub fn possible(&self) -> Vec<Workload> {
        self.workload
            .iter()
            .chain(&self.restored)
            .cloned()
            .collect()
    }

    /// Returns the ledgers of which the state at a moment must fit one: the last one, and the one of the step that may have
    /// begun. None if the server was not set up yet.
    pub fn possible_at(&self, moment: Instant) -> Vec<Workload> {
        let next = self.history.partition_point(|(at, _)| *at <= moment);
        let Some(last) = next.checked_sub(1) else {
            return Vec::new();
        };
        let both = self
            .history
            .get(last..=next)
            .unwrap_or(&self.history[last..]);
        both.iter()
            .rev()
            .map(|(_, workload)| workload.clone())
            .collect()
    }
}

fn end(mut appliance: Appliance) -> Result<(), Killed> {
    match appliance.end() {
        Some(0) => Ok(()),
        None => Err(Killed),
        Some(code) => panic!("a stop ended with {code}: {}", appliance.log()),
    }
}

/// The process must have been killed if it does not answer.
fn died<T>(appliance: &mut Appliance, why: &str) -> Result<T, Killed> {
    let ended = appliance.wait(ENDS_WITHIN);
    assert_eq!(ended, Some(None), "{why}: {}", appliance.log());
    Err(Killed)
}
