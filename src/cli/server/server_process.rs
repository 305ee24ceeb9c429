//! The process of a server: its log, its runtime and its end.

use tracing::level_filters::LevelFilter;

use super::reexec::reexec;
use super::{inherited_sockets, signals, systemd};
use crate::output::{CommandResult, Failure};
use crate::process::{descriptors, remember_process_name};
use playgate_config::{Loaded, LogFormat, LogLevel};
use playgate_observe::log;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerExit {
    Stopped,
    /// A signal ended the start. A thread may still open the store, which is as safe to end as by a kill.
    StoppedEarly,
    /// The process restarts, with a restored backup or a new configuration.
    Restart,
}

pub(crate) fn start_log(loaded: &Loaded) -> CommandResult {
    let format = match (loaded.config.log.format, loaded.terminal) {
        // A server started by hand with the packaged configuration logs to the terminal.
        (Some(LogFormat::Text), _) | (None | Some(LogFormat::Journal), true) => log::Format::Text,
        (Some(LogFormat::Json), _) | (None, false) => log::Format::Json,
        (Some(LogFormat::Journal), false) => log::Format::Journal,
    };
    let level = match loaded.config.log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    log::init(format, level).map_err(|error| Failure::usage(error.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

pub(super) fn announce_end(exit: ServerExit) {
    match exit {
        ServerExit::Restart => systemd::notify_restarting(),
        ServerExit::Stopped | ServerExit::StoppedEarly => {
            systemd::notify_stopping();
            // A restart keeps the sockets open, so that connections wait in their queues; a stop must refuse them.
            inherited_sockets::close_all();
        }
    }
}

/// Runs a server on a runtime with one thread per core, and restarts the process if the server asks for it.
pub(crate) fn on_runtime(
    future: impl Future<Output = Result<ServerExit, Failure>>,
) -> CommandResult {
    descriptors::check()?;
    signals::block()?;
    // Changes the environment, so before the runtime starts its threads.
    inherited_sockets::adopt()?;
    remember_process_name();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::fatal)?;
    let outcome = runtime.block_on(future);
    if matches!(outcome, Err(_) | Ok(ServerExit::StoppedEarly)) {
        // A failed store may block any thread that uses it, and one that is being opened takes long; do not wait for them.
        runtime.shutdown_background();
        return outcome.map(drop);
    }
    // Drops the last handles on the store.
    drop(runtime);
    match outcome? {
        ServerExit::Stopped | ServerExit::StoppedEarly => Ok(()),
        ServerExit::Restart => Err(reexec()),
    }
}
