//! Replaces the process by the same program, with its arguments, environment and sockets.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::thread::set_name;

use super::exit::{Exit, Failure};
use super::inherited_sockets;

/// The running program, even if another version was installed over its file.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Restores the process name: a program started from `/proc/self/exe` is named `exe`, and tools that look
/// for `playgate` would not find it.
pub(super) fn remember_process_name() {
    // Not essential: ignore errors.
    let _ = set_name(c"playgate");
}

/// Executes the program again; returns only on failure.
pub(super) fn reexec() -> Failure {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(THIS_PROGRAM);
    if let Some(name) = arguments.next() {
        // The service manager and `ps` show the name that the process was started with.
        command.arg0(name);
    }
    command.args(arguments);
    let error = match inherited_sockets::export(&mut command) {
        Ok(()) => command.exec(),
        Err(error) => error,
    };
    Failure::new(
        Exit::Fatal,
        format!("failed to restart the process: {error}"),
    )
}
