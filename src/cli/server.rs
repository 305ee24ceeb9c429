//! A running server, for `serve` and `demo`: store, listeners, service, jobs, in this order; and its
//! end in the reverse one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::exit::{Exit, Failure, Outcome};
use super::reexec::{reexec, remember_process_name};
use super::reload::Reload;
use super::signals::{SignalAction, Signals};
use super::startup::Startup;
use super::{admin_socket, inherited_sockets, listeners, output, systemd, verify_subprocess};
use crate::app::{App, AppError, Parts, Restart};
use crate::config::limits::SHUTDOWN_TIME;
use crate::config::{Loaded, LogFormat, LogLevel};
use crate::http::listener::{Listener, Running, serve_with_late};
use crate::jobs::Jobs;
use crate::observe::log;
use crate::store::Store;

/// How long tasks that run may take once the server is asked to stop.
const JOBS_TIME: Duration = Duration::from_secs(5);

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerExit {
    /// A signal asked for it.
    Stopped,
    /// The process begins again, with a backup to be put into place or another configuration.
    Restart,
}

/// A server that serves.
pub struct Server {
    /// The service.
    pub app: Arc<App>,
    /// Where the partner interface is served, as text that a person can use.
    pub public: String,
    /// Where it is served over TLS beside that.
    pub secure: Vec<String>,
    /// Where operations and administration are served.
    pub ops: Option<SocketAddr>,
    running: Running,
    failures: mpsc::Receiver<String>,
    restarts: mpsc::Receiver<()>,
    reload: Option<Reload>,
    jobs: Jobs,
    signals: Signals,
}

/// Starts the log of a server.
pub fn start_log(loaded: &Loaded) -> Outcome {
    let format = match (loaded.config.log.format, loaded.terminal) {
        // Whoever starts what the package configures by hand looks at the terminal.
        (Some(LogFormat::Text), _) | (None | Some(LogFormat::Journal), true) => log::Format::Text,
        (Some(LogFormat::Json), _) | (None, false) => log::Format::Json,
        (Some(LogFormat::Journal), false) => log::Format::Journal,
    };
    let level = match loaded.config.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    log::init(format, level).map_err(|error| Failure::usage(error.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

impl Server {
    /// Starts everything. The store comes first: its lock says whether the data directory is free.
    /// `again` is what the process begins again with; without it, as where the data directory goes with
    /// the process, it never does.
    ///
    /// # Errors
    /// What cannot be had, with the exit code that goes with it.
    pub async fn start(
        beginning: Startup,
        store: Store,
        again: Option<Reload>,
    ) -> Result<Self, Failure> {
        let Startup {
            config,
            ports,
            tls,
            sync,
            fail,
            failures,
            accept_loss: _,
        } = beginning;
        let (restarted, restarts) = mpsc::channel(1);
        let restart: Restart = Box::new(move || {
            // Asked twice it begins again once.
            let _ = restarted.try_send(());
        });
        let bound = listeners::all(&config, tls.as_ref()).await?;
        let admin = listeners::admin(&config.server.data_dir)?;
        let late = listeners::admin_later(admin.is_none(), config.server.data_dir.clone());
        let app = Arc::new(App::open(Parts {
            ports,
            config,
            store,
            listener: bound.listeners.first().and_then(Listener::address),
            tls,
            sync,
            on_failure: Box::new(move |error| fail(error)),
            examine: verify_subprocess::verify_in_subprocess(),
            restart: again.is_some().then_some(restart),
        })?);
        let jobs =
            Jobs::start(&app).map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?;
        app.playback.refresh(app.clock.now());
        // Before anybody is told that the server is ready: who knows may end it at once.
        let signals = Signals::listen()?;
        let mut listeners = bound.listeners;
        listeners.extend(admin);
        let mut shown = bound.shown.into_iter();
        Ok(Self {
            running: serve_with_late(Arc::clone(&app), listeners, late),
            app,
            public: shown.next().unwrap_or_default(),
            secure: shown.collect(),
            ops: bound.ops,
            failures,
            restarts,
            reload: again,
            jobs,
            signals,
        })
    }

    /// Serves until a signal, a restored backup or a failure of the store ends it.
    ///
    /// # Errors
    /// That the store has failed: the process has to be started again.
    pub async fn run(mut self) -> Result<ServerExit, Failure> {
        self.tell_ready("");
        tracing::info!(
            public = self.public,
            secure = (!self.secure.is_empty()).then(|| self.secure.join(", ")),
            ops = self.ops.map(|ops| ops.to_string()),
            "ready"
        );
        let watchdog = tokio::spawn(systemd::feed_watchdog(self.app.store.clone()));
        let end = self.end().await;
        watchdog.abort();
        match end {
            Ok(ServerExit::Restart) => systemd::notify_restarting(),
            Ok(ServerExit::Stopped) | Err(_) => systemd::notify_stopping(),
        }
        self.app.readiness.stopping();
        if let Err(error) = end {
            // Nothing more can be promised to anybody: no request is finished, and what stands on
            // the store is not closed, since closing could wait for ever.
            std::mem::forget(self);
            return Err(Failure::new(Exit::Fatal, error));
        }
        if end == Ok(ServerExit::Stopped) {
            inherited_sockets::close_all();
        }
        if !self.running.stop(SHUTDOWN_TIME).await {
            tracing::warn!("some requests did not finish in time");
        }
        // The runtime has nothing else to do any more, so it may wait here.
        if !self.jobs.stop(JOBS_TIME) {
            tracing::warn!("a task did not finish in time");
        }
        if let Ok(place) = admin_socket::SocketPath::for_data_dir(&self.app.config.server.data_dir)
        {
            // Left behind it would do no harm: nobody answers on it.
            let _ = std::fs::remove_file(place.path());
        }
        tracing::info!("stopped");
        end.map_err(Failure::failed)
    }

    /// Waits for what ends it, or for what has failed.
    async fn end(&mut self) -> Result<ServerExit, String> {
        loop {
            tokio::select! {
                asked = self.signals.next() => match asked {
                    SignalAction::End(signal) => {
                        tracing::info!(signal, "stopping");
                        return Ok(ServerExit::Stopped);
                    }
                    SignalAction::Reload => if self.can_reload().await {
                        return Ok(ServerExit::Restart);
                    }
                },
                Some(()) = self.restarts.recv() => {
                    tracing::warn!("beginning again with a restored backup");
                    return Ok(ServerExit::Restart);
                }
                Some(failure) = self.failures.recv() => return Err(failure),
            }
        }
    }

    /// Whether the process can begin again with what is configured now. If not, it is told why.
    async fn can_reload(&self) -> bool {
        let Some(reload) = &self.reload else {
            tracing::info!("SIGHUP: what is temporary keeps its configuration");
            return false;
        };
        systemd::notify_reloading();
        match reload.examine(&self.app.config).await {
            Ok(()) => {
                tracing::info!("SIGHUP: beginning again with the configuration as it is now");
                true
            }
            Err(failure) => {
                tracing::error!(
                    "SIGHUP: the configuration in force stays: {}",
                    failure.message()
                );
                let warning =
                    "a reload was refused: the next start would be, too; `playgate config check`";
                self.app
                    .readiness
                    .warn("configuration", Some(warning.to_owned()));
                self.tell_ready("; a reload was refused, the log says why");
                false
            }
        }
    }

    fn tell_ready(&self, remark: &str) {
        systemd::notify_ready(&format!("serving on {}{remark}", self.public));
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Store(error) => error.into(),
            AppError::Setting(_) => Self::usage(error.to_string()),
            AppError::File { .. } => Self::usage(error.to_string()),
            AppError::Key(error) => {
                let failure = Self::new(Exit::Fatal, error.to_string());
                match error.advice() {
                    Some(advice) => failure.hint(advice),
                    None => failure,
                }
            }
            AppError::Telemetry(_) | AppError::Threads(_) => {
                Self::new(Exit::Fatal, error.to_string())
            }
        }
    }
}

/// Runs a server's future on a runtime with a thread for each core.
///
/// # Errors
/// As the future, and that there is no runtime; and if the process is to begin again, that it cannot.
pub fn on_runtime(future: impl Future<Output = Result<ServerExit, Failure>>) -> Outcome {
    inherited_sockets::adopt()?;
    remember_process_name();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?;
    let outcome = runtime.block_on(future);
    if outcome.is_err() {
        // A store that has failed may hang whoever touches it; nothing of this process is needed.
        runtime.shutdown_background();
        return outcome.map(drop);
    }
    // Every handle on the store goes with what still runs.
    drop(runtime);
    match outcome? {
        ServerExit::Stopped => Ok(()),
        ServerExit::Restart => Err(reexec()),
    }
}

/// Says where the server listens: the one line that scripts wait for, and one for each address of TLS.
pub fn announce(server: &Server) {
    for address in [&server.public].into_iter().chain(&server.secure) {
        if let Err(failure) = output::line(&format!("listening on {address}")) {
            // Nobody who reads it is left, as after a terminal was closed, which also reloads.
            tracing::warn!("{failure}");
        }
    }
}
