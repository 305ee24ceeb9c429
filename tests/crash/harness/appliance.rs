//! The server process under test: starts it, waits until it is ready or has ended, stops and kills it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::client::{Address, Connection};
use crate::harness::disk::Disk;
use crate::harness::process::{InTime as _, pause, signal};
use crate::harness::tail;

/// The limit for every start, whatever happened before it.
pub const READY_WITHIN: Duration = Duration::from_secs(10);

/// More time than the kernel needs to end a process whose disk is slow.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The binary under test: `PLAYGATE_BIN`, or the one that was compiled with the tests.
fn binary() -> OsString {
    let given = std::env::var_os("PLAYGATE_BIN");
    given.unwrap_or_else(|| env!("CARGO_BIN_EXE_playgate").into())
}

/// Cheap password hashing, and limits that do not stop the tests.
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

/// How to start the server.
#[derive(Clone)]
pub struct Launch {
    pub data_dir: PathBuf,
    pub variables: Vec<(String, String)>,
    /// A command that runs the server, such as strace.
    pub under: Vec<String>,
    pub timeout: Duration,
}

/// The outcome of a start.
pub enum Started {
    Ready(Appliance),
    /// It is in maintenance mode and serves only the reason, which this has. It has been ended.
    Waiting(String),
    /// It ended by itself: its exit code, unless a signal ended it, and its log.
    Ended(Option<i32>, String),
    /// It neither became ready nor ended in time, and has been killed. Its log.
    Hung(String),
}

pub struct Appliance {
    pub address: Address,
    pub ready_in: Duration,
    pub process: Child,
    run_dir: TempDir,
}

impl Launch {
    pub fn new(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            variables: Vec::new(),
            under: Vec::new(),
            timeout: READY_WITHIN,
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
        let binary = binary();
        let mut command = match self.under.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&binary);
                command
            }
            None => Command::new(&binary),
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

    /// Starts the process without waiting until it is ready.
    pub fn spawn(&self) -> Starting {
        let run_dir = tempfile::tempdir().unwrap();
        let ops = run_dir.path().join("ops.sock");
        let log = File::create(run_dir.path().join("log")).unwrap();
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
            run_dir,
            ops,
            since: Instant::now(),
            timeout: self.timeout,
        }
    }

    pub fn start(&self) -> Started {
        self.spawn().ready()
    }

    /// Starts the server. Fails the test if it does not become ready.
    pub fn ready(&self) -> Appliance {
        match self.start() {
            Started::Ready(appliance) => appliance,
            Started::Ended(code, log) => panic!("the server ended with {code:?}: {}", tail(&log)),
            Started::Waiting(log) | Started::Hung(log) => {
                panic!("the server did not start: {}", tail(&log))
            }
        }
    }

    /// Returns an administrative command for the data directory, without arguments.
    pub fn admin_command(&self) -> Command {
        let mut command = self.command();
        command
            .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
            .env("PLAYGATE_LOG_LEVEL", "warn");
        command
    }

    /// Runs an administrative command on the data directory.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.admin_command().args(arguments).output_in_time()
    }
}

pub struct Starting {
    pub process: Child,
    run_dir: TempDir,
    ops: PathBuf,
    since: Instant,
    timeout: Duration,
}

impl Starting {
    pub fn ready(mut self) -> Started {
        let output = BufReader::new(self.process.stdout.take().unwrap());
        let (sender, line) = channel();
        thread::spawn(move || {
            let mut first = String::new();
            let mut output = output;
            let _ = output.read_line(&mut first);
            let _ = sender.send(first);
        });
        let line = loop {
            match line.recv_timeout(POLL_INTERVAL) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => break String::new(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // A server on a full disk is not ready either, but serves: only the log tells maintenance mode from that.
            let waits = read_log(&self.run_dir).contains("maintenance mode");
            if let Some(reason) = maintenance(&self.ops).filter(|_| waits) {
                return Started::Waiting(format!("{reason}\n{}", self.kill_and_read_log()));
            }
            if self.since.elapsed() >= self.timeout {
                let threads = threads(self.process.id());
                return Started::Hung(format!("{}\n{threads}", self.kill_and_read_log()));
            }
        };
        let Some((_, address)) = line.trim().rsplit_once("http://") else {
            // Its standard output is closed, so it is about to end.
            return match wait(&mut self.process, self.timeout) {
                Some(code) => Started::Ended(code, read_log(&self.run_dir)),
                None => Started::Hung(self.kill_and_read_log()),
            };
        };
        Started::Ready(Appliance {
            address: Address {
                public: address.parse().unwrap(),
                ops: self.ops,
            },
            ready_in: self.since.elapsed(),
            process: self.process,
            run_dir: self.run_dir,
        })
    }

    pub fn kill(mut self) {
        self.kill_and_read_log();
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    fn kill_and_read_log(&mut self) -> String {
        kill(&mut self.process);
        read_log(&self.run_dir)
    }
}

impl Appliance {
    pub fn line(&self) -> Connection {
        Connection::to(&self.address)
    }

    pub fn kill(&mut self) {
        kill(&mut self.process);
    }

    /// Cuts the power of the disk under the process, which is killed, and mounts the disk again.
    pub fn cut_power(&mut self, disk: &mut Disk) {
        // A stopped process answers no client, so no client is promised something that the disk never got.
        // It may also have ended already.
        let _ = pause(self.process.id());
        disk.cut();
        self.kill();
        disk.unmount();
        disk.mount().unwrap();
    }

    pub fn ask_to_end(&self) {
        // It may have ended already.
        let _ = signal(self.process.id(), Signal::TERM);
    }

    /// Stops the process. Returns its exit code, or `None` if it had to be killed.
    pub fn end(&mut self) -> Option<i32> {
        self.ask_to_end();
        let ended = wait(&mut self.process, Duration::from_secs(30));
        self.kill();
        ended.flatten()
    }

    /// Waits until the process ends by itself. Returns its exit code, which is `None` for a signal.
    pub fn wait(&mut self, timeout: Duration) -> Option<Option<i32>> {
        wait(&mut self.process, timeout)
    }

    /// Returns the state of its threads, to explain a hang.
    pub fn threads(&self) -> String {
        threads(self.process.id())
    }

    pub fn log(&self) -> String {
        read_log(&self.run_dir)
    }

    /// Returns status and body of `/readyz`.
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

/// Returns the reason if the server is in maintenance mode.
fn maintenance(ops: &Path) -> Option<String> {
    let answer = Connection::probe(ops)?;
    let reason = answer.json()["reasons"]["store"]
        .as_str()
        .map(str::to_owned);
    reason.filter(|_| answer.status == 503)
}

/// Returns the state of the threads of a process, as the kernel reports it.
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

/// Kills a process. The wait is bounded: a traced process ends only when the tracer lets it go.
fn kill(process: &mut Child) {
    let _ = process.kill();
    if wait(process, KILL_TIMEOUT).is_none() {
        let threads = threads(process.id());
        println!("killed, and not ended within {KILL_TIMEOUT:?}:\n{threads}");
    }
}

/// Returns `None` if the process still runs; otherwise its exit code, if it has one.
pub fn wait(process: &mut Child, timeout: Duration) -> Option<Option<i32>> {
    let until = Instant::now() + timeout;
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

fn read_log(run_dir: &TempDir) -> String {
    let bytes = fs::read(run_dir.path().join("log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
