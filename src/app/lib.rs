//! Assembles the service at start: opens the [services](playgate_services) and prepares the HTTP server on them.
//! Contains no logic.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod authenticator;
pub mod etcd_tls;
mod fleet_metrics;
mod key_files;
mod metrics;
pub mod open_store;
mod quality_metrics;
mod settings;
mod wiring;
mod worker_pools;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use authenticator::TokenAuthenticator;
pub use etcd_tls::etcd_tls;
pub use key_files::KeyError;
pub use open_store::{StoreOpener, drop_content_keys, has_store, import_store, open_store};
use playgate_api::route_table::http_state;
use playgate_config::{Config, HttpSettings};
use playgate_domain::accounts;
use playgate_domain::audit::Audit;
use playgate_domain::backups::{Backups, Examine};
use playgate_domain::clock_guard::ClockGuard;
use playgate_domain::entitlement::{EntitlementService, Grants};
use playgate_domain::operators::Operators;
use playgate_domain::partners::Partners;
use playgate_domain::playback_context::ServiceContext;
use playgate_domain::store_admin::StoreAdmin;
use playgate_http::HttpState;
use playgate_observe::Registry;
use playgate_observe::readiness::Readiness;
use playgate_ports::clock::boot_id;
use playgate_ports::fetch::Fetcher;
use playgate_ports::zoneinfo::ZoneWatch;
use playgate_ports::{Clock, Entropy, LabClock, MediaDirectory, SystemClock, SystemEntropy, Tls};
use playgate_process::worker_pool::recent_failures::RecentFailures;
use playgate_records::quality::{OpenedSession, QualityError};
use playgate_records::telemetry::TelemetryError;
use playgate_services::{AdminTurns, Restart, Services};
use playgate_store::{Store, StoreError};
pub use settings::{backups as backup_settings, license_systems, tls};
use wiring::Assembly;

const NO_BOOT_ID: &str = "the kernel's boot id cannot be read (/proc/sys/kernel/random/boot_id): after a kill, a loss of the last changes \
    would not be noticed, and the clock and a fleet's lease are checked less strictly; remove `ProcSubset=pid` from the unit, or mount \
    all of /proc";

#[derive(Clone)]
pub struct App {
    pub services: Arc<Services>,
    pub http: Arc<HttpState>,
}

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Setting(String),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("telemetry: {0}")]
    Telemetry(TelemetryError),
    #[error(transparent)]
    Quality(#[from] QualityError),
    #[error("failed to start a thread: {0}")]
    Threads(io::Error),
}

impl AppError {
    fn setting(error: impl std::error::Error) -> Self {
        Self::Setting(error.to_string())
    }
}

/// Checks all files that a configuration names and that a server reads at its start.
pub fn check(config: &Config) -> Vec<AppError> {
    settings::check(config)
}

pub struct Parts {
    pub config: Config,
    pub store: Store,
    pub ports: Ports,
    pub listener: Option<SocketAddr>,
    pub tls: Option<Arc<Tls>>,
    /// Whether files are synced; disabled only in control runs of durability tests.
    pub sync: bool,
    /// Called when a file of the service has failed and the process must restart.
    pub on_failure: Box<dyn Fn(String) + Send + Sync>,
    pub examine: Examine,
    pub restart: Option<Restart>,
    /// Whether the store follows the owner of a fleet: the services change nothing before [`take_over`].
    pub is_standby: bool,
}

#[derive(Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    /// The same clock, if operators may move it.
    pub lab: Option<Arc<LabClock>>,
    pub entropy: Arc<dyn Entropy>,
}

impl Ports {
    pub fn for_machine(config: &Config) -> Self {
        let lab = config
            .lab
            .clock
            .then(|| Arc::new(LabClock::new(Arc::new(SystemClock))));
        Self {
            clock: match &lab {
                Some(lab) => Arc::clone(lab) as Arc<dyn Clock>,
                None => Arc::new(SystemClock),
            },
            lab,
            entropy: Arc::new(SystemEntropy::default()),
        }
    }
}

impl App {
    pub fn open(parts: Parts) -> Result<Self, AppError> {
        let (services, settings) = open_services(parts)?;
        let services = Arc::new(services);
        let authenticator = Arc::new(TokenAuthenticator::new(&services));
        let messages = settings::messages(&services.config)?;
        let http = http_state(Arc::clone(&services), settings, authenticator, messages)
            .map_err(AppError::setting)?;
        Ok(Self {
            services,
            http: Arc::new(http),
        })
    }
}

pub fn open_services(parts: Parts) -> Result<(Services, HttpSettings), AppError> {
    let is_standby = parts.is_standby;
    let (services, http) = assemble(parts)?;
    metrics::register(&services);
    if boot_id().is_none() {
        services
            .readiness
            .warn("boot id", Some(NO_BOOT_ID.to_owned()));
    }
    if !is_standby {
        begin(&services)?;
    }
    Ok((services, http))
}

fn assemble(parts: Parts) -> Result<(Services, HttpSettings), AppError> {
    let Parts {
        config,
        store,
        ports,
        listener,
        tls,
        sync,
        on_failure,
        examine,
        restart,
        is_standby: _,
    } = parts;
    let (clock, entropy) = (ports.clock, ports.entropy);
    let http = settings::http(&config, listener);
    let metrics = Arc::new(Registry::default());
    // Opened before every service whose records expire: it decides which clock readings are believed.
    let guard = ClockGuard::open(store.clone(), Arc::clone(&clock), boot_id())?;
    let partners = Partners::open(store.clone(), Arc::clone(&entropy))?;
    // A store without a partner has served nobody: this is its first start.
    let in_use = !partners.list().is_empty();
    let assembly = Assembly::new(&config, &store, &entropy, guard.expiry(), in_use);
    let mail = assembly.mail(&http.public_url)?;
    let accounts = assembly.accounts(&mail, &partners)?;
    let catalog = assembly.catalog()?;
    let schedule = assembly.schedule(&catalog)?;
    let epg_sources = assembly.epg_sources(&schedule, &catalog, Box::<Fetcher>::default())?;
    let grants = Grants::open(store.clone(), catalog.clone(), accounts::exists)?;
    let pins = settings::entitlement(&config)?;
    let entitlement =
        EntitlementService::new(catalog.clone(), Arc::clone(&schedule), grants.clone(), pins);
    let context = ServiceContext::new(&accounts, &catalog, &schedule, &entitlement, pins);
    let playback = assembly.playback(context)?;
    let (telemetry, forwarder) = assembly.telemetry(sync, on_failure)?;
    let quality = assembly.quality(sync, &partners)?;
    let journal = assembly.journal(sync)?;
    let services = Services {
        lab_clock: ports.lab,
        lab: Arc::default(),
        due_jobs: Arc::default(),
        demo: Arc::default(),
        limits: config.limits.clone(),
        hashing: worker_pools::hashing(&metrics)?,
        recent_failures: RecentFailures::default(),
        turns: AdminTurns::default(),
        compression: worker_pools::compression(&metrics)?,
        cold: worker_pools::cold(&metrics)?,
        bulk: worker_pools::bulk(&metrics)?,
        slots: worker_pools::slots(&metrics)?,
        metrics,
        readiness: Arc::new(Readiness::default()),
        activity: Arc::default(),
        fleet: Arc::default(),
        partners,
        operators: Operators::open(store.clone(), Arc::clone(&entropy))?,
        audit: Audit::open(store.clone()),
        accounts,
        mail,
        catalog,
        schedule,
        epg_sources,
        grants,
        entitlement,
        playback,
        licenses: settings::licenses(&config)?,
        geoip: settings::geoip(&config)?,
        zones: Arc::new(ZoneWatch::new(config.schedule.zoneinfo.as_deref())),
        media: MediaDirectory::new(&config.origin.media_dir),
        tls,
        telemetry,
        quality,
        journal,
        forwarder,
        store_admin: StoreAdmin::new(store.clone()),
        // After the catalogue, which creates the key whose fingerprint backups record.
        backups: backups(&store, &config, examine),
        restart,
        clock,
        clock_guard: Arc::new(guard),
        entropy,
        store,
        config,
    };
    Ok((services, http))
}

fn backups(store: &Store, config: &Config, examine: Examine) -> Backups {
    let settings = settings::backups(config);
    Backups::new(store.clone(), settings, examine, playgate_records::schema)
}

/// Lets the services of a standby change the store, once this member is the owner of its fleet. Blocks.
pub fn take_over(services: &Services) -> Result<(), AppError> {
    // What the next changes are based on.
    services.catalog.catch_up()?;
    services.schedule.catch_up().map_err(AppError::setting)?;
    services.clock_guard.take_over()?;
    begin(services)
}

fn begin(services: &Services) -> Result<(), AppError> {
    let Services {
        playback,
        quality,
        telemetry,
        ..
    } = services;
    services.schedule.begin();
    let now = services.clock.now();
    telemetry.begin(now).map_err(AppError::Telemetry)?;
    // Adds sessions whose start was lost in a power cut. A session that is already known changes nothing.
    playback.for_each_session(|session| quality.opened(OpenedSession::new(session, None)));
    // Such a session may have ended before the next start, which then could not add it again.
    quality.sync();
    playback.observe(Arc::new(quality.clone()));
    telemetry.observe(Arc::new(quality.clone()));
    Ok(())
}
