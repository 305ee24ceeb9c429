//! Verifies backups in a child process, so that a damaged file cannot crash the server.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use serde_json::Value;

use super::THIS_PROGRAM;
use super::run_limited::{self, run_limited};
use playgate_api::operators::backups::BackupContentsBody;
use playgate_domain::backups::{BackupContents, BackupError, Examine, examine};
use playgate_store::StoreError;

/// Time limit for a child, in addition to the time for reading the file.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum reading speed, on a slow disk of a busy server.
const BYTES_PER_SECOND: u64 = 2 * 1024 * 1024;

/// Signals of a program that fails on what it reads: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE and SIGSEGV.
const CRASHES: [i32; 6] = [4, 5, 6, 7, 8, 11];

pub(crate) fn verify_in_subprocess() -> Examine {
    Arc::new(|path| {
        for _ in 0..2 {
            match start(path) {
                Ok(child) => match wait(child, path)? {
                    Some(contents) => return Ok(contents),
                    // Somebody ended the child, which says nothing about the file.
                    None => continue,
                },
                Err(error) => {
                    tracing::warn!(%error, "failed to start a process to verify a backup; verifying in this one");
                    return examine(path, &playgate_records::schema());
                }
            }
        }
        Err(BackupError::Store(StoreError::Io(format!(
            "{}: not verified, since the process that read it was ended by a signal; repeat it",
            path.display()
        ))))
    })
}

fn start(path: &Path) -> io::Result<Child> {
    // The running program, not the installed file: another version may read the format differently.
    let mut command = Command::new(THIS_PROGRAM);
    command.args(["backup", "verify", "--json", "--"]).arg(path);
    run_limited::start(&mut command)
}

/// Returns `None` if a signal from outside ended the child.
fn wait(child: Child, path: &Path) -> Result<Option<BackupContents>, BackupError> {
    let damaged = |what: String| BackupError::Damaged {
        place: path.display().to_string(),
        what,
    };
    let size = fs::metadata(path).map_or(0, |file| file.len());
    // A file read on a failing disk may take forever. Only a process can be ended from outside, not a thread.
    let limit = TIMEOUT + Duration::from_secs(size / BYTES_PER_SECOND);
    let ended = run_limited(child, limit).map_err(|error| {
        damaged(match error.kind() {
            io::ErrorKind::TimedOut => {
                format!("could not be verified within {} seconds", limit.as_secs())
            }
            _ => format!("could not be verified: {error}"),
        })
    })?;
    let signal = ended.status.signal();
    if signal.is_some_and(|signal| !CRASHES.contains(&signal)) {
        tracing::warn!(place = %path.display(), status = %ended.status, "the process that verified a backup was ended");
        return Ok(None);
    }
    let report: Value = serde_json::from_str(&ended.out).unwrap_or_default();
    match report.get("problem").and_then(Value::as_str) {
        Some(problem) => Err(damaged(problem.to_owned())),
        None => serde_json::from_value(report)
            .map(|body: BackupContentsBody| Some(body.into()))
            .map_err(|_| {
                let (status, why) = (ended.status, ended.err.trim());
                damaged(format!("could not be verified ({status}): {why}"))
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_by(script: &str) -> Result<Option<BackupContents>, BackupError> {
        let child = run_limited::start(Command::new("sh").args(["-c", script])).unwrap();
        wait(child, Path::new("x.snapshot"))
    }

    #[test]
    fn a_signal_from_outside_is_no_damage_of_the_file() {
        // Not SIGHUP: a shell that `nohup` started ignores it.
        for signal in ["USR1", "TERM", "KILL"] {
            assert_eq!(ended_by(&format!("kill -{signal} $$")), Ok(None));
        }
        let crashed = ended_by("kill -SEGV $$");
        assert!(matches!(crashed, Err(BackupError::Damaged { .. })));
    }
}
