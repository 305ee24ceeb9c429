//! A measured process on core 0, with all that it starts: its processor time, and its end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to end after its signal.
const TO_END: Duration = Duration::from_secs(5);
/// The kernel counts the time of ended children in these.
const TICK: Duration = Duration::from_millis(10);

pub struct Process {
    pub child: Child,
    signal: &'static str,
}

impl Process {
    /// Starts a program as `user` or as the user of this process. `signal` ends it without waiting for anything.
    pub fn start(command: &[&str], user: Option<&str>, signal: &'static str) -> Self {
        let child = command_as(command, user)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("taskset and setpriv of util-linux are installed");
        Self { child, signal }
    }

    /// Returns the processor time so far, user and system, of the process and of every process that came of it.
    pub fn cpu(&self) -> Duration {
        tree(self.child.id())
    }

    /// Returns the processor time so far of the threads of the process, by name; threads of a pool together.
    pub fn cpu_by_thread(&self) -> BTreeMap<String, Duration> {
        let folder = format!("/proc/{}/task", self.child.id());
        let mut spent = BTreeMap::new();
        for task in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let name = name
                .trim_end()
                .trim_end_matches(|c: char| c == '-' || c.is_numeric());
            *spent.entry(name.to_owned()).or_default() += thread(&task.path());
        }
        spent
    }

    /// Waits until `is_ready` returns true.
    pub fn wait_until(&mut self, is_ready: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_ready() {
            let ended = self.child.try_wait().expect("a child of this process");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "a server is not ready"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args([self.signal, &pid]).status();
        let began = Instant::now();
        while began.elapsed() < TO_END {
            if let Ok(Some(_)) | Err(_) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command on core 0, under another user if one is named.
pub fn command_as(command: &[&str], user: Option<&str>) -> Command {
    let mut on_core = Command::new("taskset");
    // It ends with this process, whatever ends that.
    on_core.args(["-c", "0", "setpriv", "--pdeathsig=KILL"]);
    if let Some(user) = user {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        on_core.args([&user, &group, "--clear-groups"]);
    }
    on_core.args(command);
    on_core
}

/// Finds a program in the search path, or in the folders where Debian has servers.
pub fn find(name: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let mut versions: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    let files = folders.iter().map(|folder| folder.join(name));
    let mut found = files.filter(|file| file.is_file());
    Some(found.next()?.to_string_lossy().into_owned())
}

/// Returns the first line of what a program prints for `--version`.
pub fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().next().unwrap_or("version unknown").to_owned()
}

fn tree(pid: u32) -> Duration {
    let folder = Path::new("/proc").join(pid.to_string());
    let mut spent = ended_children(&folder);
    for task in fs::read_dir(folder.join("task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        // A process that ends meanwhile is counted by the next call, as a child that has ended.
        spent += thread(&task.path());
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().flat_map(str::parse);
        spent += children.map(tree).sum::<Duration>();
    }
    spent
}

fn thread(task: &Path) -> Duration {
    let times = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let nanoseconds = times.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn ended_children(process: &Path) -> Duration {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    // The name in parentheses may contain spaces.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<u32>().ok());
    // `cutime` and `cstime` are the 16th and 17th field; two are before `rest`.
    TICK * (ticks(13).unwrap_or(0) + ticks(14).unwrap_or(0))
}
