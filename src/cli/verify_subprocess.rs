//! Verifies backups in a child process, so that a damaged file cannot crash the server.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;

use super::reexec::THIS_PROGRAM;
use crate::domain::backups::{BackupContents, BackupError, Examine, examine};
use crate::http::wire::backups::ContentsBody;

/// Time limit for a child, in addition to the time for reading the file.
const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum reading speed, on a slow disk of a busy server.
const BYTES_PER_SECOND: u64 = 2 * 1024 * 1024;
const SAID: u64 = 1024 * 1024;

pub(super) fn verify_in_subprocess() -> Examine {
    Arc::new(|path| match start(path) {
        Ok(child) => wait(child, path),
        Err(error) => {
            tracing::warn!(%error, "failed to start a process to verify a backup; verifying in this one");
            examine(path)
        }
    })
}

fn start(path: &Path) -> std::io::Result<Child> {
    Command::new(THIS_PROGRAM)
        // The running program, not the installed file: another version may read the format differently.
        .args(["backup", "verify", "--json", "--"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn wait(mut child: Child, path: &Path) -> Result<BackupContents, BackupError> {
    let damaged = |what: String| BackupError::Damaged {
        place: path.display().to_string(),
        what,
    };
    let size = fs::metadata(path).map_or(0, |file| file.len());
    // A file read on a failing disk may take forever. Only a process can be ended from outside, not a thread.
    let patience = PATIENCE + Duration::from_secs(size / BYTES_PER_SECOND);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (sender, said) = channel();
    // Ends with the child, whether it exits or is killed.
    let reader = std::thread::Builder::new()
        .name("backup-verify".to_owned())
        .spawn(move || {
            let mut texts = [String::new(), String::new()];
            let [out, err] = &mut texts;
            // An incomplete output fails to parse below.
            let _ = stdout.map(|from| from.take(SAID).read_to_string(out));
            let _ = stderr.map(|from| from.take(SAID).read_to_string(err));
            let _ = sender.send(texts);
        });
    let said = reader.ok().and_then(|_| said.recv_timeout(patience).ok());
    if said.is_none() {
        // It may have ended by itself by now.
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| damaged(format!("could not be verified: {error}")))?;
    let Some([out, err]) = said else {
        return Err(damaged(format!(
            "could not be verified within {} seconds",
            patience.as_secs()
        )));
    };
    let report: Value = serde_json::from_str(&out).unwrap_or_default();
    match report.get("problem").and_then(Value::as_str) {
        Some(problem) => Err(damaged(problem.to_owned())),
        None => serde_json::from_value(report)
            .map(|body: ContentsBody| body.into())
            .map_err(|_| damaged(format!("could not be verified ({status}): {}", err.trim()))),
    }
}
