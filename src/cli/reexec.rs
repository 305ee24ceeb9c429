//! This program once more, in its own place: the same process, arguments, environment and sockets.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::thread::set_name;

use super::exit::{Exit, Failure};
use super::inherited_sockets;

/// The program that runs, even when another version was installed over its file.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// Gives the process its name back: a program that is begun from that file is called `exe`, and whoever
/// looks for `playgate` would not find it.
pub fn remember_process_name() {
    // A name is a convenience.
    let _ = set_name(c"playgate");
}

/// Begins again, as from the shell or the service manager that started it; returns only if that
/// cannot be done.
pub fn reexec() -> Failure {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(THIS_PROGRAM);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    let error = match inherited_sockets::export(&mut command) {
        Ok(()) => command.exec(),
        Err(error) => error,
    };
    Failure::new(
        Exit::Fatal,
        format!("the process could not begin again: {error}"),
    )
}
