//! This process and the programs that it starts: descriptors, signals, caller, time limits.

pub(crate) mod caller;
pub(crate) mod descriptors;
pub(crate) mod run_limited;
mod runtime;
pub(crate) mod signals;
pub(crate) mod system_log;
pub(crate) mod temp_dir;
mod this_program;
pub(crate) mod verify_subprocess;

pub(crate) use runtime::wait;
pub(crate) use this_program::{THIS_PROGRAM, remember_process_name};
