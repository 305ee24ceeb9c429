//! Start-up: opens the store; until that succeeds, every listener answers 503 with the reason (maintenance
//! mode). A member of a fleet passes the connections of viewers on to the owner instead.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::exit::{Exit, Failure};
use super::reexec::reexec;
use super::reload::Reload;
use super::signals::{SignalAction, Signals};
use super::{descriptors, fleet, listeners, systemd, verify_subprocess};
use crate::app::{self, AppError, Ports, StoreOpener, drop_content_keys, import_store, open_store};
use crate::config::{Config, Effective, Loaded};
use crate::fleet::membership::Membership;
use crate::http::routing::router::RouteSet;
use crate::http::server::connection_limiter::ConnectionLimits;
use crate::http::server::listener::Listener;
use crate::http::server::maintenance::{self, Notice};
use crate::http::server::pass_on;
use crate::ports::tls::Tls;
use crate::store::{FleetAccess, FormatUpgrade, Imported, Store, StoreError};

/// Interval between attempts to open the store; the watchdog is notified as often.
const TRY_AGAIN: Duration = Duration::from_secs(4);

pub(super) struct Startup {
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
    /// Kept from maintenance mode or standby for the service: a signal that arrives while nothing listens for it
    /// would be lost.
    pub signals: Option<Signals>,
    /// Set if the data directory belongs to a fleet.
    pub membership: Option<Membership>,
}

impl Startup {
    pub(super) fn new(mut loaded: Loaded) -> Self {
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

    pub(super) fn with_tls(mut self) -> Result<Self, Failure> {
        self.tls = app::tls(&self.config)?;
        let now = self.ports.clock.now();
        if let Some(warning) = self.tls.as_ref().and_then(|tls| tls.warning(now)) {
            tracing::warn!("{warning}");
        }
        Ok(self)
    }

    pub(super) fn open(&self) -> Result<Store, StoreError> {
        if !app::has_store(&self.config) {
            let place = self.config.server.data_dir.display();
            tracing::info!(%place, "no store found; creating an empty one");
        }
        open_store(&self.config, &self.ports, self.opener())
    }

    /// Imports an export into an empty store. `bytes` is its length, if known.
    pub(super) fn import(
        &self,
        input: &mut dyn BufRead,
        bytes: Option<u64>,
    ) -> Result<Imported, StoreError> {
        import_store(&self.config, &self.ports, self.opener(), input, bytes)
    }

    pub(super) fn drop_content_keys(&self) -> Result<usize, AppError> {
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
pub(super) async fn open_or_wait(
    startup: &mut Startup,
    reload: &Reload,
) -> Result<Option<Store>, Failure> {
    systemd::notify_opening();
    // A large store is replayed for longer than the unit's start time-out.
    let extending = tokio::spawn(systemd::extend_timeout());
    let opened = startup.open();
    extending.abort();
    match opened {
        Ok(store) => Ok(Some(store)),
        // The blocked thread holds the file and cannot be ended; a re-exec removes it.
        Err(StoreError::Hung) => Err(reexec()),
        Err(error) if is_maintainable(&error) => maintain(startup, reload, error).await,
        Err(error) => Err(error.into()),
    }
}

const fn is_maintainable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Lost(_) | StoreError::Damaged { .. } | StoreError::Full
    )
}

async fn maintain(
    startup: &mut Startup,
    reload: &Reload,
    error: StoreError,
) -> Result<Option<Store>, Failure> {
    let mut signals = Signals::listen()?;
    let config = &startup.config;
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
            let to_owner = fleet::pass_on_without_store(config, membership)?;
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
            .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?;
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
