//! Runs other programs with a time limit: one that hangs, for example on a network file system that is gone,
//! must not hang its caller.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum output that is read, in bytes, of each of the two streams.
const OUTPUT_MAX: u64 = 16 * 1024 * 1024;
/// Time limit of a tool of the system. One that hangs is often the very problem of the machine.
const TOOL_TIME: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the output after the exit of the child. A process that it started may keep the pipes open.
const REST_TIME: Duration = Duration::from_secs(2);

pub(crate) struct ChildOutput {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

/// Starts a program whose output is read by [`run_limited`].
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits until a program ends, and kills it after the time limit. Blocks.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if it did not end in time.
pub(crate) fn run_limited(mut child: Child, limit: Duration) -> io::Result<ChildOutput> {
    let deadline = Instant::now() + limit;
    // A child that fills a pipe nobody reads would never end.
    let out = child.stdout.take().map(read_on_thread).transpose()?;
    let err = child.stderr.take().map(read_on_thread).transpose()?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                // It may have ended by itself by now.
                let _ = child.kill();
                // In uninterruptible sleep a process does not end when it is killed.
                thread::Builder::new()
                    .name("reap".to_owned())
                    .spawn(move || child.wait())?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => thread::park_timeout(POLL_INTERVAL),
        }
    };
    let text = |reader: Option<Receiver<String>>| {
        reader
            .and_then(|reader| reader.recv_timeout(REST_TIME).ok())
            .unwrap_or_default()
    };
    Ok(ChildOutput {
        status,
        out: text(out),
        err: text(err),
    })
}

fn read_on_thread(from: impl Read + Send + 'static) -> io::Result<Receiver<String>> {
    let (sender, text) = channel();
    thread::Builder::new()
        .name("child-output".to_owned())
        .spawn(move || {
            let mut bytes = Vec::new();
            // An incomplete output is judged by the caller.
            let _ = from.take(OUTPUT_MAX).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        })?;
    Ok(text)
}

/// Returns what a tool of the system prints, if it can be started and ends in time.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let child = start(Command::new(program).args(arguments)).ok()?;
    Some(run_limited(child, TOOL_TIME).ok()?.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, limit: Duration) -> io::Result<ChildOutput> {
        run_limited(
            start(Command::new("sh").args(["-c", script])).unwrap(),
            limit,
        )
    }

    #[test]
    fn both_outputs_are_read_however_long_they_are() {
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; exit 3";
        let output = shell(script, LONG).unwrap();
        assert_eq!((output.out.len(), output.err.len()), (300_000, 300_000));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let error = shell("exec sleep 600", Duration::ZERO).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
