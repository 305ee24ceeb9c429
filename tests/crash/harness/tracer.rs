//! Attaches strace to a running process, to make some of its system calls fail or take longer.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::appliance::{threads, wait};
use crate::harness::disk::run;
use crate::harness::process::{KilledOnDrop, signal};
use crate::harness::tail;

/// How long strace may take to attach to every thread of a process, and to detach.
const WITHIN: Duration = Duration::from_secs(10);

pub struct Tracer {
    strace: KilledOnDrop,
    pid: u32,
    folder: TempDir,
}

impl Tracer {
    /// Returns why no process can be traced here.
    pub fn check_available() -> Result<(), String> {
        run(Command::new("strace").arg("-V"))
    }

    /// `inject` is an injection of strace, such as `fdatasync:error=ENOSPC`; it applies to all paths if `paths` is
    /// empty.
    pub fn attach(pid: u32, inject: &str, paths: &[PathBuf]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let calls = inject.split(':').next().unwrap();
        let mut command = Command::new("strace");
        command
            .args(["-f", "-y", "-o"])
            .arg(folder.path().join("trace"));
        command.args(["-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={inject}")]);
        for path in paths {
            command.arg("-P").arg(path);
        }
        command.args(["-p", &pid.to_string()]);
        let log = File::create(folder.path().join("log")).unwrap();
        let tracer = Self {
            strace: KilledOnDrop(command.stderr(log).spawn().unwrap()),
            pid,
            folder,
        };
        let began = Instant::now();
        while !is_traced(pid) {
            if began.elapsed() > WITHIN {
                panic!("strace does not attach: {}", tracer.kill_both());
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        tracer
    }

    /// Returns the calls that failed or were delayed so far.
    pub fn injected(&self) -> Vec<String> {
        let trace = self.read("trace");
        let injected = trace
            .lines()
            .filter(|line| line.contains("INJECTED") || line.contains("DELAYED"));
        injected.map(str::to_owned).collect()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Kills strace and the process, whose threads strace may have stopped. Returns what explains the hang.
    fn kill_both(&self) -> String {
        let seen = format!(
            "the process:\n{}\nstrace:\n{}\n{}\n{}",
            threads(self.pid),
            threads(self.strace.id()),
            self.read("log"),
            tail(&self.read("trace")),
        );
        for pid in [self.strace.id(), self.pid] {
            // It may have ended already.
            let _ = signal(pid, Signal::KILL);
        }
        seen
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // SIGTERM makes strace detach and leaves the process running.
        self.strace.terminate();
        if wait(&mut self.strace, WITHIN).is_some() {
            return;
        }
        let why = format!("strace does not let the process go: {}", self.kill_both());
        // A panic during a panic would abort the test run.
        if thread::panicking() {
            println!("{why}");
        } else {
            panic!("{why}");
        }
    }
}

/// Returns whether every thread is traced.
fn is_traced(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut statuses = tasks.map(|task| fs::read_to_string(task.path().join("status")));
    statuses.all(|status| {
        let status = status.unwrap_or_default();
        // A thread that has just ended has no status.
        status.is_empty() || !status.contains("TracerPid:\t0\n")
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::harness::process::pause;
    use crate::harness::rng::skip;

    #[test]
    fn a_tracer_that_hangs_is_killed_with_its_process() {
        if let Err(why) = Tracer::check_available() {
            return skip("a tracer that hangs", &why);
        }
        let mut traced = KilledOnDrop(Command::new("sleep").arg("60").spawn().unwrap());
        let tracer = Tracer::attach(traced.id(), "fdatasync:error=EIO", &[]);
        assert!(pause(tracer.strace.id()));
        let ended = catch_unwind(AssertUnwindSafe(|| drop(tracer)));
        let why = *ended.unwrap_err().downcast::<String>().unwrap();
        assert!(why.contains("strace does not let the process go"), "{why}");
        assert!(why.contains("strace State:\tT (stopped)"), "{why}");
        assert_eq!(wait(&mut traced, WITHIN), Some(None));
    }
}
