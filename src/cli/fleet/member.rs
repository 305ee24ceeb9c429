//! The service as a member of a fleet: its threads and connections to other members, and the wait until it is the owner.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::figures;
use super::pass_on::{FleetLink, pass_on};
use crate::app;
use crate::cli::exit::{Exit, Failure};
use crate::cli::reload::Reload;
use crate::cli::server::ServerExit;
use crate::cli::signals::{SignalAction, Signals};
use crate::cli::startup::Startup;
use crate::cli::{listeners, output};
use crate::config::{Config, FleetConfig, ListenAddress};
use crate::domain;
use crate::fleet::driver::{DriverSettings, FleetDriver, OnFleetFailure};
use crate::fleet::etcd::EtcdSettings;
use crate::fleet::health::FleetExaminer;
use crate::fleet::membership::{Membership, MembershipError};
use crate::fleet::peer_keys::PeerKeys;
use crate::fleet::peer_server::{Erase, PeerServer, ReadFigures, TakeBeats, TakeOver};
use crate::fleet::peers::PeerClient;
use crate::fleet::recovery::PendingRecovery;
use crate::fleet::standing::Standing;
use crate::http::freshness::Freshness;
use crate::http::routing::router::RouteSet;
use crate::http::server::connection_limiter::ConnectionLimits;
use crate::http::server::forwarded::ForwardedConnections;
use crate::http::server::listener::tcp_socket;
use crate::http::server::pass_on::{PassOn, serve};
use crate::http::state::HttpState;
use crate::observe::fleet::FleetReport;
use crate::ports::SystemClock;
use crate::services::Services;
use crate::store::Store;
use crate::types::UserId;

const WARN_EVERY: Duration = Duration::from_secs(1);
const EXAMINE_EVERY: Duration = Duration::from_secs(10);

impl From<MembershipError> for Failure {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::BadWord => Self::usage(error.to_string())
                .hint("copy the whole word that `playgate fleet invite` printed"),
            MembershipError::Damaged(_) => Self::new(Exit::Fatal, error.to_string()).hint(
                "install the newest version of a member; or move the data directory away, run `playgate fleet leave --name NAME` on another member, and join again",
            ),
            MembershipError::File { .. } => Self::new(Exit::Fatal, error.to_string()),
        }
    }
}

/// The membership of a data directory, if it agrees with the configuration.
pub(in crate::cli) fn membership(config: &Config) -> Result<Option<Membership>, Failure> {
    let mut membership = Membership::read(&config.server.data_dir)?;
    if let Some(own) = &membership
        && config.fleet.endpoints.is_empty()
        && PendingRecovery::read(&config.server.data_dir, own.fleet).is_some()
    {
        // `fleet recover` has made the data those of this member alone.
        Membership::remove(&config.server.data_dir)?;
        membership = None;
    }
    match (&membership, config.fleet.endpoints.is_empty()) {
        (None, true) | (Some(_), false) => Ok(membership),
        (Some(_), true) => Err(Failure::usage(
            "the data directory belongs to a fleet, and `fleet.endpoints` is not set",
        )
        .hint("set `fleet.endpoints`, or run `playgate fleet leave`; if etcd is lost, `playgate fleet recover`")),
        (None, false) => Err(Failure::usage(
            "`fleet.endpoints` is set, and the data directory belongs to no fleet",
        )
        .hint("run `playgate fleet init` for the first member, or `playgate fleet join` with an invitation")),
    }
}

pub(super) fn etcd(config: &FleetConfig) -> Result<EtcdSettings, Failure> {
    let login = config.username.clone().zip(
        config
            .password
            .as_ref()
            .map(|password| password.reveal().to_owned()),
    );
    Ok(EtcdSettings {
        endpoints: config.endpoints.clone(),
        tls: app::etcd_tls(config)?,
        login,
        timeout: Duration::from_secs(5),
        errors: Arc::default(),
    })
}

pub(super) fn address(config: &FleetConfig) -> String {
    config
        .advertise
        .clone()
        .unwrap_or_else(|| config.listen.to_string())
}

/// Builds the examiner of etcd and the members. It uses the system clock: a lab clock that was moved says nothing about
/// the clock of the machine.
pub(in crate::cli) fn examiner(
    config: &Config,
    membership: Membership,
) -> Result<FleetExaminer, Failure> {
    Ok(FleetExaminer {
        etcd: etcd(&config.fleet)?,
        client: peer_client(config, &membership)?,
        membership,
        clock: Arc::new(SystemClock),
        runtime: Handle::current(),
    })
}

pub(super) fn peer_client(config: &Config, membership: &Membership) -> Result<PeerClient, Failure> {
    let keys = PeerKeys::open(membership, &config.server.data_dir)?;
    client_with(Arc::new(keys))
}

pub(super) fn client_with(keys: Arc<PeerKeys>) -> Result<PeerClient, Failure> {
    PeerClient::new(keys).map_err(|error| Failure::new(Exit::Fatal, error.to_string()))
}

pub(in crate::cli) struct FleetMember {
    driver: FleetDriver,
    examiner: Arc<FleetExaminer>,
    standing: watch::Receiver<Standing>,
    take_over: Arc<Mutex<Option<TakeOver>>>,
    take_beats: Arc<Mutex<Option<TakeBeats>>>,
    erase: Arc<Mutex<Option<Erase>>>,
    figures: Arc<OnceLock<ReadFigures>>,
    client: PeerClient,
    link: Arc<FleetLink>,
    accepting: Accepting,
}

pub(in crate::cli) enum StandbyEnd {
    Owner,
    Exit(ServerExit),
}

/// The tasks that accept connections and pass them on unread.
struct Accepting {
    /// Until the services are open.
    clients: JoinSet<()>,
    /// Until this member is the owner.
    operators: JoinSet<()>,
}

impl FleetMember {
    /// Opens the listeners and joins the log. Connections that arrive before etcd answers wait, as they do for a new
    /// owner.
    pub(in crate::cli) async fn start(
        startup: &Startup,
        membership: Membership,
        store: &Store,
    ) -> Result<Self, Failure> {
        let config = &startup.config;
        let examiner = examiner(config, membership.clone())?;
        let client = examiner.client.clone();
        let (sender, standing) = watch::channel(Standing::Standby { owner: None });
        let settings = DriverSettings {
            etcd: examiner.etcd.clone(),
            lease: config.fleet.lease,
            keep: config.fleet.log_keep.0,
            address: address(&config.fleet),
            client: client.clone(),
            data_dir: config.server.data_dir.clone(),
            standing: sender,
        };
        let own = settings.address.clone();
        let listener = listen(&config.fleet.listen).await?;
        let pass_on = pass_on(client.clone(), standing.clone(), own.clone());
        let accepting = accept(startup, &pass_on).await?;
        let (take_over, take_beats, erase) = (Arc::default(), Arc::default(), Arc::default());
        let figures = Arc::default();
        let fail = Arc::clone(&startup.fail);
        let on_failure: OnFleetFailure = Arc::new(move |why| fail(why));
        let (joining, runtime) = (store.clone(), Handle::current());
        let own_membership = membership.clone();
        let (entropy, clock) = (
            Arc::clone(&startup.ports.entropy),
            Arc::clone(&startup.ports.clock),
        );
        // Calls of etcd block.
        let started = tokio::task::spawn_blocking(move || {
            FleetDriver::start(
                joining,
                &own_membership,
                settings,
                entropy,
                clock,
                on_failure,
                &runtime,
            )
        });
        let driver = started
            .await
            .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))??;
        let server = PeerServer {
            membership,
            keys: client.keys(),
            data_dir: config.server.data_dir.clone(),
            store: store.clone(),
            format: domain::schema().format(),
            clock: Arc::clone(&startup.ports.clock),
            promise: driver.promise(),
            last_commit: driver.last_commit(),
            take_over: Arc::clone(&take_over),
            erase: Arc::clone(&erase),
            take_beats: Arc::clone(&take_beats),
            figures: Arc::clone(&figures),
            copying: Mutex::default(),
        };
        tokio::spawn(Arc::new(server).run(listener));
        let link = FleetLink {
            client: client.clone(),
            standing: standing.clone(),
            own,
            follower: driver.follower(),
            is_owner: AtomicBool::new(false),
            beats: Mutex::default(),
            is_relay_failing: AtomicBool::new(false),
        };
        Ok(Self {
            link: Arc::new(link),
            accepting,
            examiner: Arc::new(examiner),
            client,
            erase,
            driver,
            standing,
            take_over,
            take_beats,
            figures,
        })
    }

    /// Lets the services of this member serve clients as those of a standby. From then on the listeners of clients belong to
    /// the caller.
    pub(in crate::cli) async fn open(&mut self, http: &HttpState) {
        let telemetry = http.services.telemetry.clone();
        *self.erase.lock() = Some(Arc::new(move |user| {
            let erased = telemetry.erase_as_standby(&UserId::from_bytes(user));
            erased.map_err(|error| error.to_string())
        }));
        let _ = http.fleet.set(Arc::clone(&self.link) as _);
        let (link, services) = (Arc::clone(&self.link), Arc::clone(&http.services));
        tokio::spawn(link.relay_beats(services));
        let quality = http.services.quality.clone();
        let _ = self.figures.set(Arc::new(move |since| {
            quality
                .files_since(since)
                .map_err(|error| error.to_string())
        }));
        let (services, client) = (Arc::clone(&http.services), self.client.clone());
        let others = Arc::new(self.driver.others());
        tokio::spawn(figures::copy(Arc::clone(&services), client, others));
        tokio::spawn(figures::hand_over(services, self.standing.clone()));
        self.accepting.clients.shutdown().await;
    }

    /// Waits until this member is the owner, or a signal ends the process.
    ///
    /// # Errors
    /// The store has failed, or the member cannot follow its fleet.
    pub(in crate::cli) async fn stand_by(
        &mut self,
        config: &Config,
        reload: &Reload,
        signals: &mut Signals,
        failures: &mut mpsc::Receiver<String>,
    ) -> Result<StandbyEnd, Failure> {
        tracing::info!("standing by: following the shared log");
        let end = loop {
            if *self.standing.borrow_and_update() == Standing::Owner {
                break StandbyEnd::Owner;
            }
            tokio::select! {
                asked = signals.next() => match asked {
                    SignalAction::End(signal) => {
                        tracing::info!(signal, "stopping");
                        break StandbyEnd::Exit(ServerExit::Stopped);
                    }
                    SignalAction::Reload => match reload.examine(config, None).await {
                        Ok(()) => break StandbyEnd::Exit(ServerExit::Restart),
                        Err(failure) => tracing::error!("SIGHUP: reload rejected: {}", failure.message()),
                    }
                },
                Some(failure) = failures.recv() => {
                    return Err(Failure::new(Exit::Fatal, failure));
                }
                _ = self.standing.changed() => {}
            }
        };
        // From here on the telemetry files belong to the owner.
        self.erase.lock().take();
        // The sockets stay open in this process, and the listeners of the service take them over.
        self.accepting.operators.shutdown().await;
        Ok(end)
    }

    /// Starts to serve as the owner: the connections that other members forward, and the own clients.
    pub(in crate::cli) fn begin(&self, http: &HttpState, forwarded: ForwardedConnections) {
        let (others, client) = (self.driver.others(), self.client.clone());
        let runtime = Handle::current();
        http.services
            .telemetry
            .erase_elsewhere(Arc::new(move |user| {
                for member in others().map_err(|error| error.to_string())? {
                    // Jobs call this on their own threads, where blocking is allowed.
                    runtime
                        .block_on(client.erase(&member.address, user.as_bytes()))
                        .map_err(|error| {
                            format!("member {} has not erased it: {error}", member.name)
                        })?;
                }
                Ok(())
            }));
        self.report(&http.services);
        let fence = self.driver.fence();
        let _ = http
            .freshness_check
            .set(Arc::new(move || match fence.holds() {
                true => Freshness::Last,
                false if fence.is_lost() => Freshness::Lost,
                false => Freshness::Unknown,
            }));
        let services = Arc::clone(&http.services);
        *self.take_beats.lock() = Some(Arc::new(move |beats| {
            services.playback.take_relayed(beats, services.clock.now())
        }));
        *self.take_over.lock() = Some(Arc::new(move |stream, origin| {
            forwarded.serve(stream, origin);
        }));
        // Last, so that no client of this member is answered without the check of freshness.
        self.link.is_owner.store(true, Ordering::Release);
    }

    /// Starts the tasks that refresh the fleet report and the warning in `/readyz`.
    fn report(&self, services: &Services) {
        let (fence, readiness) = (self.driver.fence(), Arc::clone(&services.readiness));
        let view = Arc::clone(&services.fleet);
        tokio::spawn(async move {
            loop {
                let warning = match fence.is_leased() {
                    true => view.get().and_then(|report| severe(&report)),
                    false => Some(
                        "etcd does not answer, and changes are refused; run `playgate doctor`"
                            .to_owned(),
                    ),
                };
                readiness.warn("fleet", warning);
                tokio::time::sleep(WARN_EVERY).await;
            }
        });
        let (view, examiner) = (Arc::clone(&services.fleet), Arc::clone(&self.examiner));
        let since = examiner.clock.now();
        tokio::spawn(async move {
            loop {
                let examiner = Arc::clone(&examiner);
                // Calls of etcd block.
                let examined = tokio::task::spawn_blocking(move || examiner.examine()).await;
                if let Ok(report) = examined {
                    view.set(FleetReport {
                        owner_since: Some(since),
                        ..report
                    });
                }
                tokio::time::sleep(EXAMINE_EVERY).await;
            }
        });
    }

    /// Returns when another member has become the owner.
    pub(in crate::cli) async fn deposed(&mut self) {
        // The sender is dropped only if the threads of the driver end with a failure, which is reported elsewhere.
        let deposed = |standing: &Standing| *standing == Standing::Deposed;
        if self.standing.wait_for(deposed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops accepting connections from other members.
    pub(in crate::cli) fn end(&self) {
        self.take_over.lock().take();
    }

    pub(in crate::cli) async fn stop(self) {
        let driver = self.driver;
        // Calls of etcd block.
        let _ = tokio::task::spawn_blocking(move || driver.stop()).await;
    }
}

/// Returns the severe problems, for `/readyz`; `playgate doctor` lists all.
fn severe(report: &FleetReport) -> Option<String> {
    let problems = report.problems().into_iter();
    let texts = problems
        .filter(|problem| problem.is_severe)
        .map(|problem| problem.text);
    Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// Opens all listeners and passes their connections on.
async fn accept(startup: &Startup, pass_on: &PassOn) -> Result<Accepting, Failure> {
    let config = &startup.config;
    let bound = listeners::all(config, startup.tls.as_ref()).await?;
    for address in &bound.shown {
        if let Err(failure) = output::line(&format!("listening on {address}")) {
            tracing::warn!("{failure}");
        }
    }
    let admin = listeners::admin(&config.server.data_dir)?;
    let all = bound.listeners.into_iter().chain(admin).map(Arc::new);
    let (clients, operators): (Vec<_>, Vec<_>) =
        all.partition(|listener| listener.options.routes == RouteSet::Public);
    let limits = || ConnectionLimits::from(config);
    Ok(Accepting {
        clients: serve(&clients, limits(), pass_on),
        operators: serve(&operators, limits(), pass_on),
    })
}

async fn listen(address: &ListenAddress) -> Result<TcpListener, Failure> {
    let bound = async {
        let ListenAddress::Tcp { host, port } = address else {
            return Err(std::io::Error::other("must be host:port"));
        };
        let mut found = lookup_host((host.as_str(), *port)).await?;
        let address: SocketAddr = found
            .next()
            .ok_or_else(|| std::io::Error::other("the host name has no address"))?;
        let socket = tcp_socket(address)?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket)
    };
    bound
        .await
        .map_err(|error| Failure::failed(format!("`fleet.listen`: {address}: {error}")))
}
