//! The service as a member of a fleet: its threads and connections to other members, and the wait until it is the owner.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use super::early_listeners::EarlyListeners;
use super::handover::{Handover, Stepping};
use super::link::FleetLink;
use super::{figures, local_state, owner_report};
use crate::client::fleet::{address, reporter};
use crate::output::{Exit, Failure};
use crate::process::signals::SignalAction;
use crate::server::pass_on::pass_on;
use crate::server::reload::Reload;
use crate::server::server_process::ServerExit;
use crate::server::signals::ServerSignals;
use crate::server::startup::Startup;
use crate::server::systemd;
use playgate_config::{Config, ListenAddress};
use playgate_fleet::candidacy::Candidacy;
use playgate_fleet::driver::{DriverSettings, FleetDriver, OnFleetFailure};
use playgate_fleet::health::FleetReporter;
use playgate_fleet::membership::Membership;
use playgate_fleet::peer_server::{Erase, PeerServer, ReadFigures, TakeBeats, TakeOver};
use playgate_fleet::peers::PeerClient;
use playgate_fleet::standing::Standing;
use playgate_http::HttpState;
use playgate_http::freshness::Freshness;
use playgate_http::server::forwarded::ForwardedConnections;
use playgate_http::server::listener::tcp_socket;
use playgate_store::Store;
use playgate_types::UserId;

pub(crate) struct FleetMember {
    driver: FleetDriver,
    reporter: Arc<FleetReporter>,
    standing: watch::Receiver<Standing>,
    take_over: Arc<Mutex<Option<TakeOver>>>,
    take_beats: Arc<Mutex<Option<TakeBeats>>>,
    erase: Arc<Mutex<Option<Erase>>>,
    figures: Arc<OnceLock<ReadFigures>>,
    client: PeerClient,
    link: Arc<FleetLink>,
    early: EarlyListeners,
    candidacy: Arc<Candidacy>,
    lease: Duration,
    name: String,
    stepping: Stepping,
}

pub(crate) enum StandbyEnd {
    Owner,
    Exit(ServerExit),
}

impl FleetMember {
    /// Opens the listeners and joins the log. Connections that arrive before etcd answers wait, as they do for a new
    /// owner.
    pub(crate) async fn start(
        startup: &Startup,
        membership: Membership,
        store: &Store,
    ) -> Result<Self, Failure> {
        let config = &startup.config;
        let reporter = reporter(config, membership.clone())?;
        let client = reporter.client.clone();
        let (sender, standing) = watch::channel(Standing::Standby { owner: None });
        let own_address = address(&config.fleet);
        let listener = listen(&config.fleet.listen).await?;
        let pass_on = pass_on(client.clone(), standing.clone(), own_address.clone());
        let early = EarlyListeners::open(startup, &pass_on).await?;
        // etcd may be away for longer than the unit's start time-out.
        let extending = systemd::extend_timeout("reading the log of the fleet");
        let driver = start_driver(startup, &membership, store, &reporter, sender).await;
        extending.abort();
        let driver = driver?;
        let candidacy = driver.candidacy();
        let disk_watch = local_state::watch_disk(store.clone(), Arc::clone(&candidacy));
        tokio::spawn(disk_watch);
        // As many as clients: each needs one at most.
        let places = usize::try_from(config.limits.connections).unwrap_or(Semaphore::MAX_PERMITS);
        let link = Arc::new(FleetLink {
            client: client.clone(),
            standing: standing.clone(),
            address: own_address,
            follower: driver.follower(),
            is_owner: AtomicBool::new(false),
            beats: Mutex::default(),
            is_relay_failing: AtomicBool::new(false),
            places: Arc::new(Semaphore::new(places)),
            places_max: places,
            etcd_errors: Arc::clone(&reporter.etcd.errors),
        });
        let others = driver.others();
        let own_address = link.address.clone();
        let (take_over, take_beats, erase) = (Arc::default(), Arc::default(), Arc::default());
        let figures = Arc::default();
        let server = PeerServer {
            membership: membership.clone(),
            keys: client.keys(),
            data_dir: config.server.data_dir.clone(),
            store: store.clone(),
            format: playgate_records::schema().format(),
            clock: Arc::clone(&startup.ports.clock),
            promise: driver.promise(),
            last_commit: driver.last_commit(),
            take_over: Arc::clone(&take_over),
            erase: Arc::clone(&erase),
            take_beats: Arc::clone(&take_beats),
            figures: Arc::clone(&figures),
            // This member too: as a client of itself it passes on connections that came before it was the owner.
            addresses: Arc::new(move || {
                let others = others().unwrap_or_default().into_iter();
                let others = others.map(|other| other.address);
                others.chain([own_address.clone()]).collect()
            }),
            state: local_state::for_members(
                &link,
                &candidacy,
                startup.effective.clone(),
                client.keys(),
            ),
            yields: driver.yields(),
            copying: Mutex::default(),
        };
        tokio::spawn(Arc::new(server).run(listener));
        Ok(Self {
            link,
            early,
            reporter: Arc::new(reporter),
            client,
            erase,
            driver,
            standing,
            take_over,
            take_beats,
            figures,
            candidacy,
            lease: config.fleet.lease,
            name: membership.name,
            stepping: Stepping::default(),
        })
    }

    /// Lets the services of this member serve clients as those of a standby. From then on the listeners belong to the caller.
    pub(crate) async fn open(&mut self, http: &HttpState) {
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
        local_state::for_metrics(&self.link, &http.services);
        tokio::spawn(local_state::watch_standby(
            Arc::clone(&http.services),
            Arc::clone(&self.link),
            Arc::clone(&self.candidacy),
            self.standing.clone(),
        ));
        self.early.close().await;
    }

    /// Waits until this member is the owner, or a signal ends the process.
    ///
    /// # Errors
    /// The store has failed, or the member cannot follow its fleet.
    pub(crate) async fn stand_by(
        &mut self,
        config: &Config,
        reload: &Reload,
        signals: &mut ServerSignals,
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
        if let StandbyEnd::Exit(_) = end {
            // Otherwise it could become the owner just before it ends.
            (self.driver.yields())(Duration::MAX);
        }
        // From here on the telemetry files belong to the owner.
        self.erase.lock().take();
        Ok(end)
    }

    /// Starts to serve as the owner: the connections that other members forward, and the own clients.
    pub(crate) fn begin(&self, http: &HttpState, forwarded: ForwardedConnections) {
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
        owner_report::start(
            self.driver.fence(),
            Arc::clone(&self.reporter),
            &http.services,
        );
        let handover = self.handover();
        let candidacy = Arc::clone(&self.candidacy);
        tokio::spawn(handover.clone().when_stuck(candidacy, self.lease));
        http.services.fleet.set_hand_over(handover.on_request());
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
        let forwarded = Arc::new(forwarded);
        *self.take_over.lock() = Some(Arc::new(move |origin| {
            let permit = forwarded.admit(&origin)?;
            let forwarded = Arc::clone(&forwarded);
            Some(Box::new(move |stream| {
                forwarded.serve(stream, origin, permit);
            }))
        }));
        // Last, so that no client of this member is answered without the check of freshness.
        self.link.is_owner.store(true, Ordering::Release);
    }

    fn handover(&self) -> Handover {
        Handover {
            name: self.name.clone(),
            tables: playgate_records::schema().count(),
            others: Arc::new(self.driver.others()),
            client: self.client.clone(),
            runtime: Handle::current(),
            stepping: self.stepping.clone(),
        }
    }

    /// Returns when another member has become the owner, or is to become it.
    pub(crate) async fn deposed(&mut self) {
        // The sender is dropped only if the threads of the driver end with a failure, which is reported elsewhere.
        let deposed = |standing: &Standing| *standing == Standing::Deposed;
        tokio::select! {
            deposed = self.standing.wait_for(deposed) => if deposed.is_err() {
                std::future::pending::<()>().await;
            },
            () = self.stepping.down() => {}
        }
    }

    /// Whether another member waits until this one has ended.
    pub(crate) fn is_handing_over(&self) -> bool {
        self.stepping.is_down()
    }

    /// Stops accepting connections from other members.
    pub(crate) fn end(&self) {
        self.take_over.lock().take();
    }

    pub(crate) async fn stop(self) {
        let driver = self.driver;
        // Calls of etcd block.
        let _ = tokio::task::spawn_blocking(move || driver.stop()).await;
    }
}

async fn start_driver(
    startup: &Startup,
    membership: &Membership,
    store: &Store,
    reporter: &FleetReporter,
    standing: watch::Sender<Standing>,
) -> Result<FleetDriver, Failure> {
    let config = &startup.config;
    let settings = DriverSettings {
        etcd: reporter.etcd.clone(),
        lease: config.fleet.lease,
        keep: config.fleet.log_keep.0,
        address: address(&config.fleet),
        client: reporter.client.clone(),
        data_dir: config.server.data_dir.clone(),
        may_own: config.fleet.may_own,
        standing,
    };
    let fail = Arc::clone(&startup.fail);
    let on_failure: OnFleetFailure = Arc::new(move |why| fail(why));
    let (store, membership, runtime) = (store.clone(), membership.clone(), Handle::current());
    let (entropy, clock) = (
        Arc::clone(&startup.ports.entropy),
        Arc::clone(&startup.ports.clock),
    );
    // Calls of etcd block.
    let started = tokio::task::spawn_blocking(move || {
        FleetDriver::start(
            store,
            &membership,
            settings,
            entropy,
            clock,
            on_failure,
            &runtime,
        )
    });
    let started = started.await;
    Ok(started.map_err(Failure::fatal)??)
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
