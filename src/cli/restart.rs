//! This program once more, in its own place: the same process, arguments and environment.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The program that runs, even when another version was installed over its file.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// Begins again; returns only if that cannot be done.
pub fn begin_again() -> io::Error {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(THIS_PROGRAM);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).exec()
}
