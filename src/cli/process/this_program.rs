//! The running program and its name.

use rustix::thread::set_name;

/// The running program, even if another version was installed over its file.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Restores the process name: a program started from `/proc/self/exe` is named `exe`, and tools that look
/// for `playgate` would not find it.
pub(crate) fn remember_process_name() {
    // Not essential: ignore errors.
    let _ = set_name(c"playgate");
}
