//! Replaces the process by the same program, with its arguments, environment and sockets.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::inherited_sockets;
use crate::output::{Exit, Failure};
use crate::process::THIS_PROGRAM;

/// Executes the program again; returns only on failure.
pub(crate) fn reexec() -> Failure {
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
