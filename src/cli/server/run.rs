//! A running server, for `serve` and `demo`. Starts store, listeners, service and jobs in this order, and
//! stops them in reverse.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::lab_partners::check_lab_partners;
use super::member::{FleetMember, StandbyEnd};
use super::reload::Reload;
use super::server_process::{ServerExit, announce_end};
use super::signals::ServerSignals;
use super::startup::Startup;
use super::{listeners, systemd};
use crate::client::admin_socket;
use crate::output::{self, CommandResult, Exit, Failure};
use crate::process::signals::SignalAction;
use crate::process::verify_subprocess;
use playgate_api::route_table::ROUTERS;
use playgate_app::{App, Parts};
use playgate_config::limits::SHUTDOWN_TIME;
use playgate_http::{HttpState, Listener, RunningServer};
use playgate_jobs::Jobs;
use playgate_services::{Restart, Services};
use playgate_store::Store;

const JOBS_TIME: Duration = Duration::from_secs(5);
/// Time for running requests when the owner of a fleet hands over.
const HANDOVER_TIME: Duration = Duration::from_secs(2);

pub(crate) struct Server {
    pub services: Arc<Services>,
    pub http: Arc<HttpState>,
    pub public: String,
    pub secure: Vec<String>,
    pub ops: Option<SocketAddr>,
    running: RunningServer,
    failures: mpsc::Receiver<String>,
    restarts: mpsc::Receiver<()>,
    reload: Option<Reload>,
    jobs: Jobs,
    signals: ServerSignals,
    member: Option<FleetMember>,
}

impl Server {
    /// Starts the server. The store comes first: its lock shows whether the data directory is free. `again`
    /// holds the inputs for a restart; without it the server never restarts, as with a temporary data
    /// directory.
    pub(crate) async fn start(
        startup: Startup,
        store: Store,
        again: Option<Reload>,
    ) -> Result<Self, Failure> {
        let opened = OpenServer::open(startup, store, again.as_ref(), false).await?;
        opened.begin(again, None)
    }

    /// Runs the server of a fleet member: it serves clients as a standby, and everybody once it is the owner.
    pub(crate) async fn run_member(
        startup: Startup,
        store: Store,
        again: Reload,
        mut member: FleetMember,
    ) -> Result<ServerExit, Failure> {
        let watchdog = tokio::spawn(systemd::feed_watchdog(store.clone()));
        let mut opened = OpenServer::open(startup, store, Some(&again), true).await?;
        let App { services, http } = opened.app.clone();
        member.open(&http).await;
        opened.accept()?;
        let jobs = Jobs::start_as_standby(&services).map_err(Failure::fatal)?;
        systemd::notify_ready("standing by");
        let (signals, failures) = (&mut opened.signals, &mut opened.failures);
        let mut end = member
            .stand_by(&services.config, &again, signals, failures)
            .await?;
        watchdog.abort();
        // A change of the last moment: another member with other settings may serve the data.
        if let (StandbyEnd::Owner, Err(refused)) = (
            &end,
            check_lab_partners(&services.config, &services.partners),
        ) {
            tracing::error!("giving the claim up: {}", refused.message());
            end = StandbyEnd::Exit(ServerExit::Restart);
        }
        if let StandbyEnd::Exit(exit) = end {
            announce_end(exit);
            opened.running.stop(SHUTDOWN_TIME).await;
            let _ = jobs.stop(JOBS_TIME);
            member.stop().await;
            return Ok(exit);
        }
        // Blocking is allowed here: the tasks of the runtime have their own threads.
        if !jobs.stop(JOBS_TIME) {
            tracing::warn!("a job of the standby did not finish in time");
        }
        // Blocks for what the services read from the store.
        let taken = tokio::task::spawn_blocking(move || playgate_app::take_over(&services)).await;
        taken.map_err(Failure::fatal)??;
        opened.begin(Some(again), Some(member))?.run().await
    }

    /// Serves until a signal, a restored backup or a failure of the store ends it.
    ///
    /// # Errors
    /// The store has failed: the process must be restarted.
    pub(crate) async fn run(mut self) -> Result<ServerExit, Failure> {
        self.notify_ready("");
        tracing::info!(
            public = self.public,
            secure = (!self.secure.is_empty()).then(|| self.secure.join(", ")),
            ops = self.ops.map(|ops| ops.to_string()),
            "ready"
        );
        let watchdog = tokio::spawn(systemd::feed_watchdog(self.services.store.clone()));
        let end = self.end().await;
        // The shutdown has its own time limit.
        watchdog.abort();
        if end.is_err() {
            systemd::notify_stopping();
        }
        // Load balancers read `/readyz` and stop sending while running requests still finish.
        self.services.readiness.stopping();
        if let Err(error) = end {
            // No write can be acknowledged any more: drop all requests. Nothing that uses the store is
            // closed, since closing could block forever.
            std::mem::forget(self);
            return Err(Failure::new(Exit::Fatal, error));
        }
        if let Ok(exit) = end {
            announce_end(exit);
        }
        if let Some(member) = &self.member {
            member.end();
        }
        let is_handing_over = self
            .member
            .as_ref()
            .is_some_and(FleetMember::is_handing_over);
        // No member can make changes until this one has ended.
        let within = if is_handing_over {
            HANDOVER_TIME
        } else {
            SHUTDOWN_TIME
        };
        if !self.running.stop(within).await {
            tracing::warn!("shutdown: some requests did not finish in time");
        }
        // Blocking is allowed here: the runtime has nothing else to do.
        if !self.jobs.stop(JOBS_TIME) {
            tracing::warn!("shutdown: a job did not finish in time");
        }
        if let Some(member) = self.member {
            // The sync thread of telemetry would save it at its end, when the store rejects commits.
            if let Err(error) = self.services.telemetry.save_usage() {
                tracing::warn!(%error, "failed to save the usage of the telemetry budgets");
            }
            // After the last commit, so that the next owner does not wait for one.
            member.stop().await;
        }
        if end == Ok(ServerExit::Stopped)
            && let Ok(place) =
                admin_socket::SocketPath::for_data_dir(&self.services.config.server.data_dir)
        {
            // A socket file left behind is harmless: no process listens on it.
            let _ = std::fs::remove_file(place.path());
        }
        tracing::info!("stopped");
        end.map_err(Failure::failed)
    }

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
                    tracing::warn!("restarting with a restored backup");
                    return Ok(ServerExit::Restart);
                }
                Some(failure) = self.failures.recv() => return Err(failure),
                () = deposed(&mut self.member) => {
                    // The tables in memory may lack changes that the next owner has made.
                    tracing::warn!("restarting to stand by");
                    return Ok(ServerExit::Restart);
                }
            }
        }
    }

    /// Returns whether the process can restart with the current configuration; logs the reason if not.
    async fn can_reload(&self) -> bool {
        let Some(reload) = &self.reload else {
            tracing::info!("SIGHUP ignored: the demo server cannot be reloaded");
            return false;
        };
        systemd::notify_reloading();
        match reload
            .examine(&self.services.config, Some(&self.services.partners))
            .await
        {
            Ok(()) => {
                tracing::info!("SIGHUP: restarting with the new configuration");
                true
            }
            Err(failure) => {
                tracing::error!(
                    "SIGHUP: reload rejected, keeping the active configuration: {}",
                    failure.message()
                );
                let warning = "a reload was rejected, and the next start would fail; run `playgate config check`";
                self.services
                    .readiness
                    .warn("configuration", Some(warning.to_owned()));
                // systemd waits for the end of the reload, whatever its result.
                self.notify_ready("; a reload was rejected, see the log");
                false
            }
        }
    }

    fn notify_ready(&self, remark: &str) {
        systemd::notify_ready(&format!("serving on {}{remark}", self.public));
    }
}

/// A server whose services are open.
struct OpenServer {
    app: App,
    running: RunningServer,
    /// `None` once they accept connections.
    listeners: Option<Vec<Listener>>,
    public: String,
    secure: Vec<String>,
    ops: Option<SocketAddr>,
    failures: mpsc::Receiver<String>,
    restarts: mpsc::Receiver<()>,
    signals: ServerSignals,
}

impl OpenServer {
    async fn open(
        startup: Startup,
        store: Store,
        again: Option<&Reload>,
        is_standby: bool,
    ) -> Result<Self, Failure> {
        let Startup {
            config,
            ports,
            tls,
            sync,
            fail,
            failures,
            signals,
            // Applied when the store was opened, or the member started.
            accept_loss: _,
            effective: _,
            membership: _,
        } = startup;
        let (restarted, restarts) = mpsc::channel(1);
        let restart: Restart = Arc::new(move || {
            // A second request is dropped: one restart is enough.
            let _ = restarted.try_send(());
        });
        let bound = listeners::all(&config, tls.as_ref()).await?;
        let app = App::open(Parts {
            ports,
            config,
            store,
            // Without `public_url` the address of the first listener is the public one.
            listener: bound.listeners.first().and_then(Listener::address),
            tls,
            sync,
            on_failure: Box::new(move |error| fail(error)),
            examine: verify_subprocess::verify_in_subprocess(),
            restart: again.is_some().then_some(restart),
            is_standby,
        })?;
        let signals = signals.map_or_else(ServerSignals::listen, Ok)?;
        let mut shown = bound.shown.into_iter();
        Ok(Self {
            running: RunningServer::new(Arc::clone(&app.http), &ROUTERS),
            app,
            listeners: Some(bound.listeners),
            public: shown.next().unwrap_or_default(),
            secure: shown.collect(),
            ops: bound.ops,
            failures,
            restarts,
            signals,
        })
    }

    /// Accepts all connections.
    fn accept(&mut self) -> CommandResult {
        let Some(listeners) = self.listeners.take() else {
            return Ok(());
        };
        let data_dir = &self.app.services.config.server.data_dir;
        let admin = listeners::admin(data_dir)?;
        // A full or read-only disk must not prevent the start: viewers need no administration socket.
        let late = listeners::admin_later(admin.is_none(), data_dir.clone());
        self.running.accept(listeners.into_iter().chain(admin));
        self.running.accept_late(late);
        Ok(())
    }

    /// Starts what changes the store, and accepts all connections unless they are accepted already.
    fn begin(
        mut self,
        reload: Option<Reload>,
        member: Option<FleetMember>,
    ) -> Result<Server, Failure> {
        let App { services, http } = self.app.clone();
        check_lab_partners(&services.config, &services.partners)?;
        let jobs = Jobs::start(&services).map_err(Failure::fatal)?;
        // Running sessions get a full 35 seconds from now on: their last heartbeats were kept in memory only.
        services.playback.refresh(services.clock.now());
        self.accept()?;
        // Other members may forward connections only now, because this process accepts them from here on.
        if let Some(member) = &member {
            member.begin(&http, self.running.forwarded());
        }
        Ok(Server {
            running: self.running,
            member,
            services,
            http,
            public: self.public,
            secure: self.secure,
            ops: self.ops,
            failures: self.failures,
            restarts: self.restarts,
            reload,
            jobs,
            signals: self.signals,
        })
    }
}

async fn deposed(member: &mut Option<FleetMember>) {
    match member {
        Some(member) => member.deposed().await,
        None => std::future::pending().await,
    }
}

/// Prints the addresses: the one line that scripts wait for, and one per TLS address.
pub(crate) fn announce(server: &Server) {
    for address in [&server.public].into_iter().chain(&server.secure) {
        if let Err(failure) = output::line(&format!("listening on {address}")) {
            // The reader may be gone: a closed terminal also sends SIGHUP, which reloads the server.
            tracing::warn!("{failure}");
        }
    }
}
