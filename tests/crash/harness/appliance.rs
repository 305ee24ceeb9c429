//! The process under test: starts it, waits until it is ready or ends, stops and kills it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::client::{Address, Connection};
use crate::harness::process::InTime as _;
use crate::harness::tail;

/// A start is ready within this time, whatever came before it; so says the promise.
pub const READY_WITHIN: Duration = Duration::from_secs(10);

/// More than the kernel takes to end a process whose disk is slow.
const KILLED_WITHIN: Duration = Duration::from_secs(60);

/// How often a start is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What limits and costs would otherwise keep the tests from their work.
const SETTINGS: &[(&str, &str)] = &[
    ("PLAYGATE_ACCOUNTS_ARGON2_ITERATIONS", "1"),
    ("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192"),
    ("PLAYGATE_LIMITS_LOGIN_WRONG_PER_ACCOUNT", "1000"),
    ("PLAYGATE_LIMITS_LOGIN_WRONG_PER_ADDRESS", "1000000"),
    ("PLAYGATE_LIMITS_PIN_WRONG", "100"),
    ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000"),
    ("PLAYGATE_LOG_FORMAT", "text"),
    ("PLAYGATE_PLAYBACK_CLEARKEY", "true"),
];

/// How an appliance is started.
#[derive(Clone)]
pub struct Launch {
    pub data_dir: PathBuf,
    /// Further variables.
    pub variables: Vec<(String, String)>,
    /// A command that runs it.
    pub under: Vec<String>,
    pub patience: Duration,
}

/// How a start went.
pub enum Started {
    Ready(Appliance),
    /// It serves nothing but its reason, and waits for a person. It has been ended.
    Waiting(String),
    /// It ended by itself: the exit code, if it was no signal, and what it said.
    Ended(Option<i32>, String),
    /// It neither became ready nor ended in time; it has been killed. What it said.
    Hung(String),
}

pub struct Appliance {
    pub address: Address,
    pub ready_in: Duration,
    pub process: Child,
    side: TempDir,
}

impl Launch {
    pub fn of(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            variables: Vec::new(),
            under: Vec::new(),
            patience: READY_WITHIN,
        }
    }

    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    pub fn under(mut self, command: &[String]) -> Self {
        self.under = command.to_vec();
        self
    }

    fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_playgate");
        let mut command = match self.under.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PLAYGATE_") {
                command.env_remove(name);
            }
        }
        command.envs(SETTINGS.iter().copied());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("PLAYGATE_DATA_DIR", &self.data_dir);
        command.stdin(Stdio::null());
        command
    }

    /// Starts it, and gives the process before it is ready.
    pub fn spawn(&self) -> Starting {
        let side = tempfile::tempdir().unwrap();
        let ops = side.path().join("ops.sock");
        let log = File::create(side.path().join("log")).unwrap();
        let process = self
            .command()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("PLAYGATE_OPS_LISTEN", format!("unix:{}", ops.display()))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        Starting {
            process,
            side,
            ops,
            since: Instant::now(),
            patience: self.patience,
        }
    }

    pub fn start(&self) -> Started {
        self.spawn().ready()
    }

    /// Starts it. The test fails if it does not become ready.
    pub fn ready(&self) -> Appliance {
        match self.start() {
            Started::Ready(appliance) => appliance,
            Started::Ended(code, log) => panic!("it ends with {code:?}: {}", tail(&log)),
            Started::Waiting(log) | Started::Hung(log) => panic!("it is not ready: {}", tail(&log)),
        }
    }

    /// A command on the data directory, to be given its arguments.
    pub fn order(&self) -> Command {
        let mut command = self.command();
        command
            .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
            .env("PLAYGATE_LOG_LEVEL", "warn");
        command
    }

    /// Runs a command on the data directory.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.order().args(arguments).output_in_time()
    }
}

/// A process that may become ready.
pub struct Starting {
    pub process: Child,
    side: TempDir,
    ops: PathBuf,
    since: Instant,
    patience: Duration,
}

impl Starting {
    pub fn ready(mut self) -> Started {
        let output = BufReader::new(self.process.stdout.take().unwrap());
        let (told, line) = channel();
        thread::spawn(move || {
            let mut first = String::new();
            let mut output = output;
            let _ = output.read_line(&mut first);
            let _ = told.send(first);
        });
        let line = loop {
            match line.recv_timeout(LOOK_EVERY) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => break String::new(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // A disk that is full has a reason not to be ready too, and serves all the same.
            let waits = read_log(&self.side).contains("maintenance mode");
            if let Some(reason) = maintenance(&self.ops).filter(|_| waits) {
                return Started::Waiting(format!("{reason}\n{}", self.give_up()));
            }
            if self.since.elapsed() >= self.patience {
                let threads = threads(self.process.id());
                return Started::Hung(format!("{}\n{threads}", self.give_up()));
            }
        };
        let Some((_, address)) = line.trim().rsplit_once("http://") else {
            // Its output has ended, so it is about to.
            return match wait(&mut self.process, self.patience) {
                Some(code) => Started::Ended(code, read_log(&self.side)),
                None => Started::Hung(self.give_up()),
            };
        };
        Started::Ready(Appliance {
            address: Address {
                public: address.parse().unwrap(),
                ops: self.ops,
            },
            ready_in: self.since.elapsed(),
            process: self.process,
            side: self.side,
        })
    }

    pub fn kill(mut self) {
        self.give_up();
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    fn give_up(&mut self) -> String {
        kill(&mut self.process);
        read_log(&self.side)
    }
}

impl Appliance {
    pub fn line(&self) -> Connection {
        Connection::to(&self.address)
    }

    pub fn kill(&mut self) {
        kill(&mut self.process);
    }

    pub fn ask_to_end(&self) {
        signal("TERM", self.process.id());
    }

    /// Asks it to end; its exit code, or none if it took too long and was killed.
    pub fn end(&mut self) -> Option<i32> {
        self.ask_to_end();
        let ended = wait(&mut self.process, Duration::from_secs(30));
        self.kill();
        ended.flatten()
    }

    /// Its exit code, once it has ended by itself; none for a signal.
    pub fn wait(&mut self, patience: Duration) -> Option<Option<i32>> {
        wait(&mut self.process, patience)
    }

    /// What its threads are doing: for one that does not answer.
    pub fn threads(&self) -> String {
        threads(self.process.id())
    }

    pub fn log(&self) -> String {
        read_log(&self.side)
    }

    /// Status and reasons of `/readyz`.
    pub fn readiness(&self) -> Option<(u16, Value)> {
        let answer = self.line().operate("", "GET", "/readyz", &Value::Null);
        answer.ok().map(|answer| (answer.status, answer.json()))
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Why a server that is in maintenance is.
fn maintenance(ops: &Path) -> Option<String> {
    let answer = Connection::probe(ops)?;
    let reason = answer.json()["reasons"]["store"]
        .as_str()
        .map(str::to_owned);
    reason.filter(|_| answer.status == 503)
}

/// What the threads of a process are doing, as far as the kernel knows.
pub fn threads(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let of = |task: &Path, name: &str| {
        let text = fs::read_to_string(task.join(name)).unwrap_or_default();
        text.trim().to_owned()
    };
    let line = |task: PathBuf| {
        let status = of(&task, "status");
        let state = status.lines().find(|line| line.starts_with("State"));
        let state = state.unwrap_or_default().to_owned();
        format!("{} {state} {}", of(&task, "comm"), of(&task, "wchan"))
    };
    let tasks = tasks.into_iter().flatten().flatten();
    let lines: Vec<String> = tasks.map(|task| line(task.path())).collect();
    lines.join("\n")
}

/// Stops every thread of a process where it is.
pub fn freeze(pid: u32) {
    signal("STOP", pid);
}

/// Lets them go on.
pub fn thaw(pid: u32) {
    signal("CONT", pid);
}

/// Kills a process. One that a tracer holds ends only when the tracer lets it, so that is not waited for without end.
fn kill(process: &mut Child) {
    let _ = process.kill();
    if wait(process, KILLED_WITHIN).is_none() {
        let threads = threads(process.id());
        println!("killed, and not ended within {KILLED_WITHIN:?}:\n{threads}");
    }
}

pub fn signal(name: &str, pid: u32) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .stderr(Stdio::null())
        .status();
    // One that has ended already is as good.
    status.unwrap();
}

/// `None` if it still runs; otherwise its exit code, if it has one.
pub fn wait(process: &mut Child, patience: Duration) -> Option<Option<i32>> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status.code());
        }
        if Instant::now() >= until {
            return None;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn read_log(side: &TempDir) -> String {
    let bytes = fs::read(side.path().join("log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
