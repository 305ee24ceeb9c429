//! Start-up: opens the store; until that succeeds, every listener answers 503 with the reason (maintenance
//! mode). A member of a fleet passes the connections of viewers on to the owner instead.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::inherited_sockets::{self, ADMIN};
use super::pass_on::pass_on_without_store;
use super::reexec::reexec;
use super::reload::Reload;
use super::signals::ServerSignals;
use super::{held_lock, listeners, systemd};
use crate::client::admin_socket::SocketPath;
use crate::output::Failure;
use crate::process::signals::SignalAction;
use crate::process::{descriptors, verify_subprocess};
use playgate_app::{AppError, Ports, StoreOpener, drop_content_keys, import_store, open_store};
use playgate_config::{Config, Effective, Loaded};
use playgate_fleet::membership::Membership;
use playgate_http::server::connection_limiter::ConnectionLimits;
use playgate_http::server::listener;
use playgate_http::server::maintenance::{self, Notice};
use playgate_http::server::pass_on;
use playgate_http::{Listener, RouteSet};
use playgate_ports::Tls;
use playgate_store::{FleetAccess, FormatUpgrade, Imported, Store, StoreError, StoreLock};

/// Interval between attempts to open the store; the watchdog is notified as often.
const TRY_AGAIN: Duration = Duration::from_secs(4);
/// How long a start waits for a command that has the store open. Exports and rebuilds of large stores take minutes.
const LOCK_MAX_WAIT: Duration = Duration::from_secs(10 * 60);
const LOCK_INTERVAL: Duration = Duration::from_millis(100);
/// What the service manager shows meanwhile.
const OPENING: &str = "opening the store";
const WAITING: &str = "waiting: another process uses the data directory";

pub(crate) struct Startup {
    pub config: Config,
    pub effective: Vec<Effective>,
    pub ports: Ports,
    pub tls: Option<Arc<Tls>>,
    pub sync: bool,
    /// Whether permanently lost commits are accepted when the store is opened.
    pub accept_loss: bool,
    /// Reports a failure of the store or of another file.
    pub fail: Arc<dyn Fn(String) + Send + Sync>,
    pub failures: mpsc::Receiver<String>,
    /// Those of a server; commands have none.
    pub signals: Option<ServerSignals>,
    /// Set if the data directory belongs to a fleet.
    pub membership: Option<Membership>,
}

impl Startup {
    pub(crate) fn new(mut loaded: Loaded) -> Self {
        // Before any file is opened: the limit decides how many connections leave descriptors for the store.
        let is_member = !loaded.config.fleet.endpoints.is_empty();
        descriptors::provide(&mut loaded.config.limits.connections, is_member);
        let (failed, failures) = mpsc::channel(1);
        Self {
            ports: Ports::for_machine(&loaded.config),
            config: loaded.config,
            effective: loaded.effective,
            tls: None,
            sync: !loaded.unsafe_no_sync,
            accept_loss: false,
            fail: Arc::new(move |error: String| {
                tracing::error!(error, "store failed");
                // One failure is enough to end the process.
                let _ = failed.try_send(error);
            }),
            failures,
            signals: None,
            membership: None,
        }
    }

    pub(crate) fn with_tls(mut self) -> Result<Self, Failure> {
        self.tls = playgate_app::tls(&self.config)?;
        let now = self.ports.clock.now();
        if let Some(warning) = self.tls.as_ref().and_then(|tls| tls.warning(now)) {
            tracing::warn!("{warning}");
        }
        Ok(self)
    }

    /// Takes the signals of the server, for as long as the caller handles them.
    pub(crate) fn listen_for_signals(&mut self) -> Result<ServerSignals, Failure> {
        self.signals.take().map_or_else(ServerSignals::listen, Ok)
    }

    pub(crate) fn open(&self) -> Result<Store, StoreError> {
        self.opening(None)()
    }

    /// Opens the store on another thread, so that signals are handled meanwhile.
    fn opening(
        &self,
        lock: Option<StoreLock>,
    ) -> impl FnOnce() -> Result<Store, StoreError> + Send + 'static {
        let (config, ports) = (self.config.clone(), self.ports.clone());
        let opener = StoreOpener {
            lock,
            ..self.opener()
        };
        move || {
            if !playgate_app::has_store(&config) {
                let place = config.server.data_dir.display();
                tracing::info!(%place, "no store found; creating an empty one");
            }
            open_store(&config, &ports, opener)
        }
    }

    /// Imports an export into an empty store. `bytes` is its length, if known.
    pub(crate) fn import(
        &self,
        input: &mut dyn BufRead,
        bytes: Option<u64>,
    ) -> Result<Imported, StoreError> {
        import_store(&self.config, &self.ports, self.opener(), input, bytes)
    }

    pub(crate) fn drop_content_keys(&self) -> Result<usize, AppError> {
        drop_content_keys(&self.config, &self.ports, self.opener())
    }

    fn opener(&self) -> StoreOpener {
        let (fleet, upgrade) = match self.membership {
            // An upgrade of one member would make it differ from the others.
            Some(_) => (FleetAccess::Member, FormatUpgrade::Refuse),
            None => (FleetAccess::Refuse, FormatUpgrade::Run),
        };
        let fail = Arc::clone(&self.fail);
        StoreOpener {
            lock: None,
            sync: self.sync,
            accept_loss: self.accept_loss,
            upgrade,
            fleet,
            examine: verify_subprocess::verify_in_subprocess(),
            on_failure: Arc::new(move |error: &StoreError| fail(error.to_string())),
        }
    }
}

/// Opens the store. If that fails, serves the reason on all listeners and retries regularly: the disk or a
/// backup may come back. Returns `None` if a signal ends the process.
///
/// # Errors
/// Failures that a retry cannot fix.
pub(crate) async fn open_or_wait(
    startup: &mut Startup,
    reload: &Reload,
) -> Result<Option<Store>, Failure> {
    let mut signals = startup.listen_for_signals()?;
    let opened = tokio::select! {
        signal = signals.end() => {
            tracing::info!(signal, "stopping; the store is not open yet");
            return Ok(None);
        }
        opened = open_when_free(startup) => opened,
    };
    match opened {
        Ok(store) => {
            held_lock::keep(store.lock());
            startup.signals = Some(signals);
            Ok(Some(store))
        }
        // The blocked thread holds the file and cannot be ended; a re-exec removes it.
        Err(StoreError::Hung) => Err(reexec()),
        Err(error) if is_maintainable(&error) => {
            // A command has to be able to repair the store.
            held_lock::release();
            maintain(startup, signals, reload, error).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the store once the data directory is free. A command that has it open ends soon, and a start that failed on it
/// would use up the starts that the service manager allows.
async fn open_when_free(startup: &Startup) -> Result<Store, StoreError> {
    let directory = &startup.config.server.data_dir;
    let lock = match held_lock::inherited(directory) {
        Some(lock) => lock,
        None => wait_for_lock(directory, startup.sync).await?,
    };
    // A large store is replayed for longer than the unit's start time-out.
    let extending = systemd::extend_timeout(OPENING);
    // Also while the store is opened: if the engine hangs, the program is executed again.
    held_lock::keep(Some(lock.clone()));
    let opening = tokio::task::spawn_blocking(startup.opening(Some(lock)));
    let opened = opening.await;
    extending.abort();
    // The thread panics only with a bug of the recovery.
    opened.unwrap_or(Err(StoreError::Closed))
}

async fn wait_for_lock(directory: &Path, sync: bool) -> Result<StoreLock, StoreError> {
    let deadline = Instant::now() + LOCK_MAX_WAIT;
    let mut extending = None;
    let acquired = loop {
        match StoreLock::acquire(directory, sync) {
            // A server does not give it up.
            Err(StoreError::InUse) if Instant::now() < deadline && !is_served(directory) => {}
            other => break other,
        }
        extending.get_or_insert_with(|| {
            let (place, seconds) = (directory.display(), LOCK_MAX_WAIT.as_secs());
            tracing::warn!(%place, seconds, "another process uses this data directory, such as a command; waiting for its end");
            systemd::extend_timeout(WAITING)
        });
        sleep(LOCK_INTERVAL).await;
    };
    extending.inspect(JoinHandle::abort);
    acquired
}

/// Whether a server runs on the data directory.
fn is_served(directory: &Path) -> bool {
    SocketPath::for_data_dir(directory).is_ok_and(|place| listener::is_served(place.path()))
}

const fn is_maintainable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Lost(_) | StoreError::Damaged { .. } | StoreError::Full
    )
}

async fn maintain(
    startup: &mut Startup,
    mut signals: ServerSignals,
    reload: &Reload,
    error: StoreError,
) -> Result<Option<Store>, Failure> {
    let config = &startup.config;
    // Commands must not wait for answers of a server that has no store. They open the store themselves.
    inherited_sockets::close(ADMIN);
    // Clients get 503 with the reason, and health checks see why, instead of refused connections.
    let bound = listeners::all(config, startup.tls.as_ref()).await?;
    let is_passed_on = |listener: &Arc<Listener>| {
        startup.membership.is_some() && listener.options.routes == RouteSet::Public
    };
    let (public, listeners): (Vec<_>, Vec<_>) = bound
        .listeners
        .into_iter()
        .map(Arc::new)
        .partition(is_passed_on);
    // The owner does not use this store, so its clients can still be served.
    let mut passing = match &startup.membership {
        Some(membership) => {
            let to_owner = pass_on_without_store(config, membership)?;
            pass_on::serve(&public, ConnectionLimits::from(config), &to_owner)
        }
        None => JoinSet::new(),
    };
    // The tasks that pass connections on have their own handles.
    drop(public);
    // The notice repeats only the store's own text; the log also has the hint.
    let mut reason = error.to_string();
    let said = Failure::from(error);
    tracing::error!(reason = %said, "maintenance mode: the store cannot be opened");
    loop {
        systemd::notify_maintenance(&reason);
        let hosts = config.ops.hosts.clone();
        let notice = Notice::new(reason.clone(), &config.http.header_prefix, hosts)
            .map_err(Failure::fatal)?;
        let mut answering = maintenance::serve(&listeners, notice);
        tokio::select! {
            asked = signals.next() => match asked {
                SignalAction::End(signal) => {
                    tracing::info!(signal, "stopping");
                    return Ok(None);
                }
                // Another configuration may name another backup directory or disk.
                SignalAction::Reload => match reload.examine(config, None).await {
                    Ok(()) => return Err(reexec()),
                    Err(failure) => tracing::error!("SIGHUP: reload rejected: {}", failure.message()),
                }
            },
            () = sleep(TRY_AGAIN) => {}
        }
        // Frees the addresses for the service.
        answering.shutdown().await;
        match startup.open() {
            Ok(store) => {
                held_lock::keep(store.lock());
                passing.shutdown().await;
                startup.signals = Some(signals);
                return Ok(Some(store));
            }
            // A backup is being restored.
            Err(StoreError::InUse) => {}
            Err(StoreError::Hung) => return Err(reexec()),
            Err(error) if is_maintainable(&error) => reason = error.to_string(),
            Err(error) => return Err(error.into()),
        }
    }
}
