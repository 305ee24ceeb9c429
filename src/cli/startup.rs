//! The time before a server: its store is opened, and while that cannot be done, whoever asks is
//! told why.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::exit::{Exit, Failure};
use super::reexec::reexec;
use super::reload::Reload;
use super::signals::{SignalAction, Signals};
use super::{descriptors, listeners, systemd, verify_subprocess};
use crate::app::{self, AppError, Ports, StoreOpener, drop_content_keys, import_store, open_store};
use crate::config::{Config, Loaded};
use crate::http::maintenance::{self, Notice};
use crate::ports::tls::Tls;
use crate::store::{Imported, Store, StoreError};

/// How often a store that could not be brought back is tried again; the watchdog is fed as often.
const TRY_AGAIN: Duration = Duration::from_secs(4);

/// A server before its store is open.
pub struct Startup {
    /// The configuration.
    pub config: Config,
    /// The world.
    pub ports: Ports,
    /// What the partner interface is served over TLS with, where it is.
    pub tls: Option<Arc<Tls>>,
    /// Whether files are synced.
    pub sync: bool,
    /// Whether commits that are lost beyond repair are given up when the store is opened.
    pub accept_loss: bool,
    /// Told when the store or another file has failed.
    pub fail: Arc<dyn Fn(String) + Send + Sync>,
    /// What was told.
    pub failures: mpsc::Receiver<String>,
}

impl Startup {
    /// What is known before anything is opened.
    pub fn new(mut loaded: Loaded) -> Self {
        descriptors::provide(&mut loaded.config.limits.connections);
        let (failed, failures) = mpsc::channel(1);
        Self {
            ports: Ports::for_machine(&loaded.config),
            config: loaded.config,
            tls: None,
            sync: !loaded.unsafe_no_sync,
            accept_loss: false,
            fail: Arc::new(move |error: String| {
                tracing::error!(error, "the store has failed");
                // One is enough to end the process.
                let _ = failed.try_send(error);
            }),
            failures,
        }
    }

    /// The same with what is served over TLS with.
    ///
    /// # Errors
    /// A certificate or a key that nothing can be served with.
    pub fn with_tls(mut self) -> Result<Self, Failure> {
        self.tls = app::tls(&self.config)?;
        let now = self.ports.clock.now();
        if let Some(trouble) = self.tls.as_ref().and_then(|tls| tls.trouble(now)) {
            tracing::warn!("{trouble}");
        }
        Ok(self)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(&self) -> Result<Store, StoreError> {
        if !app::has_store(&self.config) {
            let place = self.config.server.data_dir.display();
            tracing::info!(%place, "there is no store: a new, empty one is made");
        }
        open_store(&self.config, &self.ports, self.opening())
    }

    /// Makes an export the store; `bytes` is its length, where that is known.
    ///
    /// # Errors
    /// As [`import_store`].
    pub fn import(
        &self,
        input: &mut dyn BufRead,
        bytes: Option<u64>,
    ) -> Result<Imported, StoreError> {
        import_store(&self.config, &self.ports, self.opening(), input, bytes)
    }

    /// Removes the content keys that the key file does not open; returns how many.
    ///
    /// # Errors
    /// As [`drop_content_keys`].
    pub fn drop_content_keys(&self) -> Result<usize, AppError> {
        drop_content_keys(&self.config, &self.ports, self.opening())
    }

    fn opening(&self) -> StoreOpener {
        let fail = Arc::clone(&self.fail);
        StoreOpener {
            sync: self.sync,
            accept_loss: self.accept_loss,
            examine: verify_subprocess::verify_in_subprocess(),
            on_failure: Arc::new(move |error: &StoreError| fail(error.to_string())),
        }
    }
}

/// Opens the store; but while it is there and cannot be brought back, every listener says so, and it
/// is tried again now and then: the disk, or a backup, may come back. `None` if a signal came first.
///
/// # Errors
/// What neither time nor an operator mends while the process waits.
pub async fn open_or_wait(
    beginning: &mut Startup,
    reload: &Reload,
) -> Result<Option<Store>, Failure> {
    systemd::notify_opening();
    let patience = tokio::spawn(systemd::extend_timeout());
    let opened = beginning.open();
    patience.abort();
    match opened {
        Ok(store) => Ok(Some(store)),
        // The thread that hangs holds the file and cannot be ended; a new image has none.
        Err(StoreError::Hung) => Err(reexec()),
        Err(error) if is_maintainable(&error) => maintain(beginning, reload, error).await,
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
    beginning: &Startup,
    reload: &Reload,
    error: StoreError,
) -> Result<Option<Store>, Failure> {
    let mut signals = Signals::listen()?;
    let config = &beginning.config;
    let bound = listeners::all(config, beginning.tls.as_ref()).await?;
    let listeners: Vec<_> = bound.listeners.into_iter().map(Arc::new).collect();
    let mut reason = error.to_string();
    let said = Failure::from(error);
    tracing::error!(reason = %said, "in maintenance");
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
                // Another configuration may know another backup, or another disk.
                SignalAction::Reload => match reload.examine(config).await {
                    Ok(()) => return Err(reexec()),
                    Err(failure) => tracing::error!("SIGHUP: refused: {}", failure.message()),
                }
            },
            () = sleep(TRY_AGAIN) => {}
        }
        // It lets go of the addresses, which are bound again by the service.
        answering.shutdown().await;
        match beginning.open() {
            Ok(store) => return Ok(Some(store)),
            // Whoever restores a backup holds it for a moment.
            Err(StoreError::InUse) => {}
            Err(StoreError::Hung) => return Err(reexec()),
            Err(error) if is_maintainable(&error) => reason = error.to_string(),
            Err(error) => return Err(error.into()),
        }
    }
}
