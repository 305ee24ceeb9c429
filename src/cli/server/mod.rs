//! The process that serves: sockets, start-up, reload, stop, and membership in a fleet.

mod held_lock;
mod inherited_sockets;
mod lab_partners;
mod listeners;
mod member;
mod pass_on;
mod reexec;
mod reload;
mod run;
mod serve;
mod server_process;
mod signals;
mod startup;
mod systemd;

pub(crate) use reload::Reload;
pub(crate) use run::Server;
pub(crate) use serve::{Addresses, Serve};
pub(crate) use server_process::{on_runtime, start_log};
pub(crate) use signals::{block_file_size, unblock_end};
pub(crate) use startup::Startup;
