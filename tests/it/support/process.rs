//! Waits for processes with a deadline, so that a hanging process fails its test, with its output, instead of blocking
//! the whole run. The crash tests use this module too.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far above the duration of any process in a test, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Waits for a process. At the deadline it is killed and the test fails.
pub trait InTime {
    /// Captures both outputs. A command gets an empty standard input. Of a running process, only outputs that are pipes
    /// are captured.
    fn output_in_time(&mut self) -> Output;

    fn status_in_time(&mut self) -> ExitStatus;
}

impl InTime for Command {
    fn output_in_time(&mut self) -> Output {
        self.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.spawn().unwrap().output_in_time()
    }

    fn status_in_time(&mut self) -> ExitStatus {
        self.spawn().unwrap().status_in_time()
    }
}

impl InTime for Child {
    fn output_in_time(&mut self) -> Output {
        output_within(self, LIMIT)
    }

    fn status_in_time(&mut self) -> ExitStatus {
        end_within(self, LIMIT, &[])
    }
}

fn output_within(child: &mut Child, limit: Duration) -> Output {
    // Closes standard input, so that a process that reads it ends.
    drop(child.stdin.take());
    let printed = [
        Printed::read(child.stdout.take()),
        Printed::read(child.stderr.take()),
    ];
    let status = end_within(child, limit, &printed);
    let [stdout, stderr] = printed.map(|printed| printed.bytes.lock().unwrap().clone());
    Output {
        status,
        stdout,
        stderr,
    }
}

fn end_within(child: &mut Child, limit: Duration, printed: &[Printed]) -> ExitStatus {
    let began = Instant::now();
    let mut command = Vec::new();
    loop {
        // Empty until the program is loaded and after it has ended.
        if command.is_empty() {
            command = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
        }
        let status = child.try_wait().unwrap();
        let is_read = printed.iter().all(|printed| printed.reader.is_finished());
        match status {
            Some(status) if is_read => return status,
            _ if began.elapsed() < limit => thread::park_timeout(Duration::from_millis(2)),
            _ => {
                // Does not wait: a process that hangs in the kernel ignores this too.
                let _ = child.kill();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                let printed: String = printed.iter().map(Printed::text).collect();
                let state = match status {
                    // The pipe closes only when every process has closed its end.
                    Some(_) => "ended and left a process that holds its output",
                    None => "did not end and was killed",
                };
                let took = began.elapsed();
                panic!(
                    "after {took:.1?}, `{}` {state}; it printed: {printed}",
                    command.trim()
                );
            }
        }
    }
}

/// The output of a process so far. A thread reads it, so that a full pipe does not block the process, and its output
/// can be reported when it hangs.
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Printed {
    fn read(output: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let Some(mut output) = output else { return };
            let mut chunk = [0; 16 * 1024];
            loop {
                match output.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(length) => read.lock().unwrap().extend_from_slice(&chunk[..length]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => panic!("an output of a process: {error}"),
                }
            }
        });
        Self { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// The lines that a process prints. A line that does not come in time fails the test.
pub struct Lines(Receiver<String>);

impl Lines {
    pub fn read(output: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Goes on without a receiver, because a process that prints must not fail on a closed pipe.
                let _ = sender.send(line);
            }
        });
        Self(lines)
    }
}

impl Iterator for Lines {
    type Item = String;

    /// `None` at the end of the output.
    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no further line within {LIMIT:?}"),
        }
    }
}

/// Starts a command that keeps running, and returns the JSON in its first line.
pub fn first_json_line(command: &mut Command) -> (KilledOnDrop, Value) {
    let mut process = KilledOnDrop(command.stdout(Stdio::piped()).spawn().unwrap());
    let line = Lines::read(process.stdout.take().unwrap()).next();
    let line = line.expect("a line before its end");
    (process, serde_json::from_str(&line).expect(&line))
}

pub struct KilledOnDrop(pub Child);

impl KilledOnDrop {
    pub fn terminate(&self) {
        assert!(signal(self.0.id(), Signal::TERM), "no such process");
    }
}

impl Deref for KilledOnDrop {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for KilledOnDrop {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal. Returns false if there is no such process.
#[must_use]
pub fn signal(pid: u32, signal: Signal) -> bool {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    match kill_process(pid, signal) {
        Ok(()) => true,
        Err(Errno::SRCH) => false,
        Err(error) => panic!("{signal:?} to the process {pid:?}: {error}"),
    }
}

/// Sends SIGSTOP and waits until every thread of the process is stopped. Returns false if there is no such process.
///
/// The kernel delivers the signal to one thread. Until that thread is scheduled, the other threads run on and can answer
/// requests.
#[must_use]
pub fn pause(pid: u32) -> bool {
    if !signal(pid, Signal::STOP) {
        return false;
    }
    let began = Instant::now();
    while can_run(pid) {
        assert!(began.elapsed() < LIMIT, "the process {pid} does not stop");
        thread::park_timeout(Duration::from_millis(1));
    }
    true
}

/// Sends SIGCONT. Returns false if there is no such process.
#[must_use]
pub fn resume(pid: u32) -> bool {
    signal(pid, Signal::CONT)
}

/// Returns whether a thread of the process is running, or sleeps and can wake up.
fn can_run(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name of the thread, which is in parentheses and can contain parentheses. A thread in
        // state D waits for a disk, and stops before it returns from the kernel.
        let (_, state) = stat.rsplit_once(") ").unwrap_or_default();
        state.starts_with(['R', 'S'])
    })
}

/// Runs `work` in its own thread, with a deadline.
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    thread::spawn(move || done.send(work()));
    match result.recv_timeout(LIMIT) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => panic!("{what} failed"),
        Err(RecvTimeoutError::Timeout) => panic!("{what} takes more than {LIMIT:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    #[should_panic(expected = "done` did not end and was killed; it printed: begun")]
    fn a_process_that_hangs_fails_the_test_with_what_it_printed() {
        output_within(
            &mut shell("echo begun; while :; do sleep 1; done"),
            Duration::from_secs(3),
        );
    }

    #[test]
    #[should_panic(expected = "left a process that holds its output; it printed: begun")]
    fn an_output_that_another_process_holds_fails_the_test() {
        output_within(
            &mut shell("echo begun; sleep 20 & exit 0"),
            Duration::from_secs(3),
        );
    }

    #[test]
    fn a_paused_process_does_nothing_until_it_is_resumed() {
        let mut child = shell("while :; do echo; done");
        let mut output = child.stdout.take().unwrap();
        let child = KilledOnDrop(child);
        output.read_exact(&mut [0; 1024]).unwrap();
        assert!(pause(child.id()));
        assert!(!can_run(child.id()));
        assert!(resume(child.id()));
        // More bytes than the pipe can buffer, so the process writes some of them after the pause.
        let mut rest = vec![0; 1024 * 1024];
        output.read_exact(&mut rest).unwrap();
    }

    #[test]
    fn a_process_that_ends_yields_its_output() {
        let output = shell("head -c 300000 /dev/zero; echo why >&2; exit 3").output_in_time();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (output.stdout.len(), &*output.stderr),
            (300_000, &b"why\n"[..])
        );
    }
}
