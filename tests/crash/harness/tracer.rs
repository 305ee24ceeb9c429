//! Attaches strace to a running process, to fail or delay some of its system calls.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long strace may take to hold every thread of a process.
const ATTACH_WITHIN: Duration = Duration::from_secs(10);

pub struct Tracer {
    strace: Child,
    folder: TempDir,
}

impl Tracer {
    /// What happens to calls: `fdatasync:error=ENOSPC`, say; on these paths alone, if there are any.
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
        let strace = command.stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while !is_traced(pid) {
            assert!(began.elapsed() < ATTACH_WITHIN, "strace does not attach");
            thread::park_timeout(Duration::from_millis(10));
        }
        Self { strace, folder }
    }

    /// The calls that were met so far.
    pub fn met(&self) -> Vec<String> {
        let trace = fs::read_to_string(self.folder.path().join("trace")).unwrap_or_default();
        let met = trace
            .lines()
            .filter(|line| line.contains("INJECTED") || line.contains("DELAYED"));
        met.map(str::to_owned).collect()
    }

    fn end(&mut self) {
        let pid = self.strace.id().to_string();
        // Asked to end, it leaves the process whole.
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.strace.wait();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether every thread is held.
fn is_traced(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut statuses = tasks.map(|task| fs::read_to_string(task.path().join("status")));
    statuses.all(|status| {
        let status = status.unwrap_or_default();
        // A thread that has just ended has no status.
        status.is_empty() || !status.contains("TracerPid:\t0\n")
    })
}
