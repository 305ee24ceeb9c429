//! A running server, for `serve` and `demo`: store, listeners, service, jobs, in this order; and its
//! end in the reverse one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::lookup_host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

use super::exit::{Exit, Failure, Outcome};
use super::{output, socket};
use crate::app::{App, AppError, Parts, Ports, open_store};
use crate::config::limits::SHUTDOWN_TIME;
use crate::config::{Address, Config, Loaded, LogFormat, LogLevel};
use crate::http::listen::{Listener, Running, serve};
use crate::http::matcher::Table;
use crate::jobs::Jobs;
use crate::observe::log;
use crate::store::{Options, StoreError};

/// How long tasks that run may take once the server is asked to stop.
const JOBS_TIME: Duration = Duration::from_secs(5);

/// A server that serves.
pub struct Server {
    /// The service.
    pub app: Arc<App>,
    /// Where the partner interface is served, as text that a person can use.
    pub public: String,
    /// Where operations and administration are served.
    pub ops: Option<SocketAddr>,
    running: Running,
    failures: mpsc::Receiver<String>,
    jobs: Jobs,
    signals: Signals,
}

/// Starts the log of a server.
pub fn start_log(loaded: &Loaded) -> Outcome {
    let format = match (loaded.config.log.format, loaded.terminal) {
        (Some(LogFormat::Text), _) | (None, true) => log::Format::Text,
        (Some(LogFormat::Json), _) | (None, false) => log::Format::Json,
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
    ///
    /// # Errors
    /// What cannot be had, with the exit code that goes with it.
    pub async fn start(loaded: Loaded) -> Result<Self, Failure> {
        let Loaded {
            config,
            unsafe_no_sync,
            ..
        } = loaded;
        let sync = !unsafe_no_sync;
        let (failed, failures) = mpsc::channel(1);
        let fail = move |error: String| {
            tracing::error!(error, "the store has failed");
            // One is enough to end the process.
            let _ = failed.try_send(error);
        };
        let of_store = fail.clone();
        let options = Options {
            sync,
            on_failure: Arc::new(move |error: &StoreError| of_store(error.to_string())),
            ..Options::default()
        };
        let store = open_store(&config, options)?;
        let public = bind_all(&config.server.listen, Table::Public, "listen").await?;
        let ops = bind(&config.ops.listen, Table::Ops, "ops.listen").await?;
        let admin = bind_admin(&config)?;
        let address = public.first().and_then(Listener::address);
        let ops_address = ops.address();
        let shown = shown(&config, address);
        let app = Arc::new(App::open(Parts {
            ports: Ports::of_machine(&config),
            config,
            store,
            listener: address,
            sync,
            on_failure: Box::new(fail),
        })?);
        let jobs =
            Jobs::start(&app).map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?;
        app.playback.refresh(app.clock.now());
        // Before anybody is told that the server is ready: who knows may end it at once.
        let signals = Signals::listen()?;
        let mut listeners = public;
        listeners.extend([ops, admin]);
        Ok(Self {
            running: serve(Arc::clone(&app), listeners),
            app,
            public: shown,
            ops: ops_address,
            failures,
            jobs,
            signals,
        })
    }

    /// Serves until a signal or a failure of the store ends it.
    ///
    /// # Errors
    /// That the store has failed: the process has to be started again.
    pub async fn run(mut self) -> Outcome {
        let status = format!("serving on {}", self.public);
        notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
        tracing::info!(
            public = self.public,
            ops = self.ops.map(|ops| ops.to_string()),
            "ready"
        );
        let watchdog = tokio::spawn(feed_watchdog(Arc::clone(&self.app)));
        let failure = tokio::select! {
            name = self.signals.next() => {
                tracing::info!(signal = name, "stopping");
                None
            }
            failure = self.failures.recv() => failure,
        };
        watchdog.abort();
        notify(&[NotifyState::Stopping]);
        self.app.readiness.not_ready("server", "stopping");
        if let Some(error) = failure {
            // Nothing more can be promised to anybody: no request is finished, and what stands on
            // the store is not closed, since closing could wait for ever.
            std::mem::forget(self);
            return Err(Failure::new(Exit::Fatal, error));
        }
        if !self.running.stop(SHUTDOWN_TIME).await {
            tracing::warn!("some requests did not finish in time");
        }
        // The runtime has nothing else to do any more, so it may wait here.
        if !self.jobs.stop(JOBS_TIME) {
            tracing::warn!("a task did not finish in time");
        }
        if let Ok(place) = socket::Place::of(&self.app.config.server.data_dir) {
            // Left behind it would do no harm: nobody answers on it.
            let _ = std::fs::remove_file(place.path());
        }
        Ok(())
    }
}

/// The address to show: what was chosen where the system chose.
fn shown(config: &Config, address: Option<SocketAddr>) -> String {
    match (address, config.server.listen.first()) {
        (Some(address), _) => format!("http://{address}"),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    }
}

async fn bind_all(
    addresses: &[Address],
    table: Table,
    key: &str,
) -> Result<Vec<Listener>, Failure> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        listeners.push(bind(address, table, key).await?);
    }
    Ok(listeners)
}

/// Listens on an address that `key` of the configuration gives.
async fn bind(address: &Address, table: Table, key: &str) -> Result<Listener, Failure> {
    let bound = match address {
        Address::Tcp { host, port } => bind_tcp(host, *port, table).await,
        Address::Unix(path) => Listener::unix(path, table, false),
        Address::Passed(_) => {
            return Err(Failure::usage(format!(
                "`{key}`: {address}: this version takes no passed sockets"
            )));
        }
    };
    bound.map_err(|error| {
        let failure = Failure::failed(format!("`{key}`: {address}: {error}"));
        if error.kind() == io::ErrorKind::AddrInUse {
            let variable = key.to_uppercase().replace('.', "_");
            failure.hint(format!(
                "another process listens there; choose another address with `{key}` or PLAYGATE_{variable}"
            ))
        } else {
            failure
        }
    })
}

async fn bind_tcp(host: &str, port: u16, table: Table) -> io::Result<Listener> {
    let address = lookup_host((host, port))
        .await?
        .next()
        .ok_or_else(|| io::Error::other("the name has no address"))?;
    Listener::tcp(address, table)
}

fn bind_admin(config: &Config) -> Result<Listener, Failure> {
    let directory = &config.server.data_dir;
    socket::Place::of(directory)
        .and_then(|place| Listener::unix(place.path(), Table::Ops, true))
        .map_err(|error| {
            Failure::failed(format!(
                "the administration socket in {}: {error}",
                directory.display()
            ))
        })
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Store(error) => error.into(),
            AppError::Setting(_) => Self::usage(error.to_string()),
            AppError::File { .. } => Self::usage(error.to_string()),
            AppError::Key(_) | AppError::Telemetry(_) | AppError::Threads(_) => {
                Self::new(Exit::Fatal, error.to_string())
            }
        }
    }
}

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(Exit::Fatal, error.to_string());
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            hang_up: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// Waits for a signal to stop. A terminal that goes away, or a reload, ends nothing.
    async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hang_up.recv() => tracing::info!("SIGHUP: nothing to reload"),
            }
        }
    }
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager there is nobody to tell.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager was not told");
    }
}

/// Feeds the watchdog while the runtime and the writer thread answer, whatever they answer: only a
/// hang starves it.
async fn feed_watchdog(app: Arc<App>) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut tick = interval((limit / 3).max(Duration::from_millis(100)));
    loop {
        tick.tick().await;
        if timeout(limit, app.store.probe()).await.is_ok() {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Runs a server's future on a runtime with a thread for each core.
pub fn on_runtime(future: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?;
    let outcome = runtime.block_on(future);
    if outcome.is_err() {
        // A store that has failed may hang whoever touches it; nothing of this process is needed.
        runtime.shutdown_background();
    }
    outcome
}

/// Says where the server listens: the one line that scripts wait for.
pub fn announce(server: &Server) -> Outcome {
    output::line(&format!("listening on {}", server.public))
}
