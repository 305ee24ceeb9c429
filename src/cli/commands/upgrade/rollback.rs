//! Returns to the previous version on request. The package does the same by itself if a new version is not ready in
//! time; both use the script below.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::candidate::check_binary_as_owner;
use crate::global::Global;
use crate::output::{self, CommandResult, Exit, Failure};

/// The binary that the last upgrade of the package replaced.
const PREVIOUS: &str = "/usr/lib/playgate/previous/playgate";
/// Installs binary and unit of the previous version and restarts.
const SCRIPT: &str = "/usr/lib/playgate/rollback";
const QUESTION: &str = "The server restarts with the version before. Data are kept. Go back?";
const QUESTION_WITH_BACKUP: &str = "The server restarts with the version before and the backup that the upgrade made: no client has changed \
    anything since. Go back?";

/// Returns whether the previous version can serve with the backup that the upgrade made.
fn is_reversible() -> bool {
    let status = Command::new(SCRIPT).arg("reversible").status();
    status.is_ok_and(|status| status.success())
}

pub(super) async fn run(yes: bool, json: bool, global: &Global) -> CommandResult {
    let previous = Path::new(PREVIOUS);
    if !previous.exists() {
        return Err(Failure::new(
            Exit::NotFound,
            "no version to go back to: the package has not been upgraded since it was installed",
        )
        .hint("`apt list -a playgate` shows earlier versions, `apt install playgate=VERSION` installs one"));
    }
    // Before the question and the restart: a refusal leaves the service running.
    let report = check_binary_as_owner(previous, global).await;
    let restores = !report.ok && is_reversible();
    if !report.ok && !restores {
        return Err(Failure::failed(format!(
            "the version before cannot serve here, so nothing was changed\n  {}",
            report.problems.join("\n  ")
        ))
        .hint("`playgate backup list` names the backup made before the format of the store was upgraded"));
    }
    let question = if restores {
        QUESTION_WITH_BACKUP
    } else {
        QUESTION
    };
    if !yes && !output::confirmed(question) {
        return Err(Failure::failed("cancelled: nothing was changed"));
    }
    let status = Command::new(SCRIPT)
        .arg("restart")
        .status()
        .map_err(|error| Failure::file(Path::new(SCRIPT), &error))?;
    if !status.success() {
        return Err(Failure::failed(format!("{SCRIPT} failed ({status})"))
            .hint("see `systemctl status playgate`; run this as root"));
    }
    let version = &report.version;
    let done = json!({"result": "restarted", "version": version});
    output::done(&format!("version {version} serves"), &done, json)
}
