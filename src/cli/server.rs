//! A running server, for `serve` and `demo`: store, listeners, service, jobs, in this order; and its
//! end in the reverse one.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::lookup_host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};

use super::begin::Beginning;
use super::exit::{Exit, Failure, Outcome};
use super::restart::begin_again;
use super::{examiner, output, socket};
use crate::app::{App, AppError, Parts, Restart};
use crate::config::limits::SHUTDOWN_TIME;
use crate::config::{Address, Config, Loaded, LogFormat, LogLevel};
use crate::http::listen::{Listener, Running, serve_with_late};
use crate::http::matcher::Table;
use crate::jobs::Jobs;
use crate::observe::log;
use crate::ports::tls::Tls;
use crate::store::{Store, StoreError};

/// How long tasks that run may take once the server is asked to stop.
const JOBS_TIME: Duration = Duration::from_secs(5);

/// How long the process may take to begin again; the watchdog is not fed meanwhile.
const RESTART_TIME: Duration = Duration::from_secs(15 * 60);

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal asked for it.
    Stopped,
    /// A backup is to be put into place: the process begins again.
    Again,
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
    /// `lasting` says whether the data directory outlives the process, which can then begin again.
    ///
    /// # Errors
    /// What cannot be had, with the exit code that goes with it.
    pub async fn start(beginning: Beginning, store: Store, lasting: bool) -> Result<Self, Failure> {
        let Beginning {
            config,
            ports,
            tls,
            sync,
            fail,
            failures,
        } = beginning;
        let (again, restarts) = mpsc::channel(1);
        let restart: Restart = Box::new(move || {
            // Asked twice it begins again once.
            let _ = again.try_send(());
        });
        let (public, shown) = bind_public(&config, tls.as_ref()).await?;
        let ops = bind(&config.ops.listen, Table::Ops, "ops.listen").await?;
        let admin = bind_admin(&config.server.data_dir)?;
        let late = admin_later(admin.is_none(), config.server.data_dir.clone());
        let address = public.first().and_then(Listener::address);
        let ops_address = ops.address();
        let mut shown = shown.into_iter();
        let app = Arc::new(App::open(Parts {
            ports,
            config,
            store,
            listener: address,
            tls,
            sync,
            on_failure: Box::new(move |error| fail(error)),
            examine: examiner::in_child(),
            restart: lasting.then_some(restart),
        })?);
        let jobs =
            Jobs::start(&app).map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?;
        app.playback.refresh(app.clock.now());
        // Before anybody is told that the server is ready: who knows may end it at once.
        let signals = Signals::listen()?;
        let mut listeners = public;
        listeners.push(ops);
        listeners.extend(admin);
        Ok(Self {
            running: serve_with_late(Arc::clone(&app), listeners, late),
            app,
            public: shown.next().unwrap_or_default(),
            secure: shown.collect(),
            ops: ops_address,
            failures,
            restarts,
            jobs,
            signals,
        })
    }

    /// Serves until a signal, a restored backup or a failure of the store ends it.
    ///
    /// # Errors
    /// That the store has failed: the process has to be started again.
    pub async fn run(mut self) -> Result<End, Failure> {
        let status = format!("serving on {}", self.public);
        let mut states = vec![NotifyState::Ready, NotifyState::Status(&status)];
        // It was let off if the process has begun again.
        states.extend(sd_notify::watchdog_enabled().map(watchdog_every));
        notify(&states);
        tracing::info!(
            public = self.public,
            secure = self.secure.join(", "),
            ops = self.ops.map(|ops| ops.to_string()),
            "ready"
        );
        let watchdog = tokio::spawn(feed_watchdog(Arc::clone(&self.app)));
        let end = tokio::select! {
            name = self.signals.next() => {
                tracing::info!(signal = name, "stopping");
                Ok(End::Stopped)
            }
            Some(()) = self.restarts.recv() => {
                tracing::warn!("beginning again with a restored backup");
                Ok(End::Again)
            }
            Some(failure) = self.failures.recv() => Err(failure),
        };
        watchdog.abort();
        tell_of(end.as_ref().copied().unwrap_or(End::Stopped));
        self.app.readiness.not_ready("server", "stopping");
        if let Err(error) = end {
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
        end.map_err(Failure::failed)
    }
}

/// Listens wherever the partner interface is served, and says where that is: at the first address of
/// those without TLS, and at each with it.
pub(super) async fn bind_public(
    config: &Config,
    tls: Option<&Arc<Tls>>,
) -> Result<(Vec<Listener>, Vec<String>), Failure> {
    let (mut listeners, mut shown) = (Vec::new(), Vec::new());
    for address in &config.server.listen {
        let listener = bind(address, Table::Public, "listen").await?;
        if listeners.is_empty() {
            shown.push(shown_as("http", address, &listener));
        }
        listeners.push(listener);
    }
    if let Some(tls) = tls {
        for address in &config.tls.listen {
            let listener = bind(address, Table::Public, "tls.listen").await?;
            shown.push(shown_as("https", address, &listener));
            listeners.push(listener.over(Arc::clone(tls)));
        }
    }
    Ok((listeners, shown))
}

/// The address to show: what was chosen where the system chose.
fn shown_as(scheme: &str, given: &Address, listener: &Listener) -> String {
    match listener.address() {
        Some(address) => format!("{scheme}://{address}"),
        None => given.to_string(),
    }
}

/// Listens on an address that `key` of the configuration gives.
pub(super) async fn bind(address: &Address, table: Table, key: &str) -> Result<Listener, Failure> {
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

/// The administration socket; `None` where its file cannot be made now, on a full or read-only disk.
fn bind_admin(directory: &Path) -> Result<Option<Listener>, Failure> {
    let bound = socket::Place::of(directory)
        .and_then(|place| Listener::unix(place.path(), Table::Ops, true));
    match bound {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if StoreError::from(io::Error::from(error.kind())) == StoreError::Full => {
            tracing::warn!(%error, "no administration socket for now");
            Ok(None)
        }
        Err(error) => Err(Failure::failed(format!(
            "the administration socket in {}: {error}",
            directory.display()
        ))),
    }
}

/// The administration socket, once it can be had; never where it is there already.
async fn admin_later(missing: bool, directory: PathBuf) -> Listener {
    /// How often it is tried.
    const AGAIN: Duration = Duration::from_secs(2);
    if !missing {
        std::future::pending::<()>().await;
    }
    loop {
        sleep(AGAIN).await;
        if let Ok(Some(listener)) = bind_admin(&directory) {
            return listener;
        }
    }
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
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(Exit::Fatal, error.to_string());
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            hang_up: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// Waits for a signal to stop. A terminal that goes away, or a reload, ends nothing.
    pub(super) async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hang_up.recv() => tracing::info!("SIGHUP: nothing to reload"),
            }
        }
    }
}

/// Tells the service manager what comes now.
fn tell_of(end: End) {
    match (end, NotifyState::monotonic_usec_now()) {
        (End::Again, Ok(now)) => {
            notify(&[NotifyState::Reloading, now, watchdog_every(RESTART_TIME)]);
        }
        (End::Again | End::Stopped, _) => notify(&[NotifyState::Stopping]),
    }
}

fn watchdog_every(limit: Duration) -> NotifyState<'static> {
    NotifyState::WatchdogUsec(u32::try_from(limit.as_micros()).unwrap_or(u32::MAX))
}

pub(super) fn notify(states: &[NotifyState<'_>]) {
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
///
/// # Errors
/// As the future, and that there is no runtime; and if the process is to begin again, that it cannot.
pub fn on_runtime(future: impl Future<Output = Result<End, Failure>>) -> Outcome {
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
        End::Stopped => Ok(()),
        End::Again => Err(begin_again()),
    }
}

/// Says where the server listens: the one line that scripts wait for, and one for each address of TLS.
pub fn announce(server: &Server) -> Outcome {
    output::line(&format!("listening on {}", server.public))?;
    server
        .secure
        .iter()
        .try_for_each(|address| output::line(&format!("listening on {address}")))
}
