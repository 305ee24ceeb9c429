//! Assembles the service from ports, settings and services. Contains no logic.

mod authenticator;
mod key_files;
mod metrics;
mod open_store;
mod settings;
mod wiring;
mod worker_pools;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::Config;
use crate::config::http::HttpSettings;
use crate::config::limits::Limits;
use crate::domain::accounts::{self, Accounts, HashMemory};
use crate::domain::audit::Audit;
use crate::domain::backups::{Backups, Examine};
use crate::domain::catalog::Catalog;
use crate::domain::clock_guard::ClockGuard;
use crate::domain::entitlement::{EntitlementService, Grants};
use crate::domain::epg_sources::EpgSources;
use crate::domain::mail::Mail;
use crate::domain::operators::Operators;
use crate::domain::partners::Partners;
use crate::domain::playback::Playback;
use crate::domain::playback_context::ServiceContext;
use crate::domain::schedule::Schedule;
use crate::domain::store_admin::StoreAdmin;
use crate::domain::telemetry::{Forwarder, Telemetry, TelemetryError};
use crate::http::access::auth::Authenticator;
use crate::http::state::HttpState;
use crate::observe::metrics::Registry;
use crate::observe::readiness::Readiness;
use crate::ports::clock::boot_id;
use crate::ports::fetch::Fetcher;
use crate::ports::geoip::GeoIp;
use crate::ports::license_server::LicenseServers;
use crate::ports::media::MediaDirectory;
use crate::ports::tls::Tls;
use crate::ports::{Clock, Entropy, LabClock, SystemClock, SystemEntropy};
use crate::store::{Store, StoreError};
use crate::worker_pool::pool::WorkerPool;
use authenticator::TokenAuthenticator;
pub use key_files::KeyError;
pub use open_store::{StoreOpener, drop_content_keys, has_store, import_store, open_store};
pub use settings::{backups as backup_settings, license_systems, tls};
use wiring::Assembly;

/// State shared by all handlers.
pub struct App {
    /// The clock. The service reads it once per request.
    pub clock: Arc<dyn Clock>,
    /// The same clock, if operators may move it.
    pub lab: Option<Arc<LabClock>>,
    /// Detects clock jumps; expiry is judged by its time.
    pub clock_guard: Arc<ClockGuard>,
    pub entropy: Arc<dyn Entropy>,
    pub config: Config,
    /// Settings of the HTTP server.
    pub http: HttpSettings,
    /// Configurable limits.
    pub limits: Limits,
    /// Authenticates requests.
    pub gate: Arc<dyn Authenticator>,
    /// State of the HTTP server.
    pub front: HttpState,
    pub metrics: Arc<Registry>,
    /// Reasons why the service is not ready.
    pub readiness: Arc<Readiness>,

    pub partners: Partners,
    pub operators: Operators,
    /// The audit log of operators' changes.
    pub audit: Audit,
    pub accounts: Accounts,
    pub mail: Mail,
    pub catalog: Catalog,
    pub schedule: Arc<Schedule>,
    /// EPG sources.
    pub feeds: EpgSources,
    /// Offers granted to users.
    pub grants: Grants,
    /// Decides who may play what.
    pub rights: EntitlementService,
    pub playback: Playback,
    /// External license servers.
    pub licenses: LicenseServers,
    /// Finds the country of an address, if a database is configured.
    pub places: Option<Arc<GeoIp>>,
    /// Files of the built-in origin.
    pub media: MediaDirectory,
    /// TLS of the partner interface, if configured.
    pub tls: Option<Arc<Tls>>,
    pub telemetry: Telemetry,
    /// Forwards telemetry, if configured.
    pub forwarder: Option<Arc<Forwarder>>,
    /// Verification and maintenance of the store.
    pub upkeep: StoreAdmin,
    pub backups: Backups,
    /// Restarts the process after running work; absent where that is not possible.
    pub restart: Option<Restart>,

    /// Hashes passwords and PINs.
    pub hashing: WorkerPool<HashMemory>,
    /// Compresses large responses and exports the schedule.
    pub compression: WorkerPool<()>,
    /// Runs cold reads, and short work that waits for a commit.
    pub cold: WorkerPool<()>,
    /// Runs imports and verifications, one at a time.
    pub bulk: WorkerPool<()>,

    /// The store. The last field, so that it is dropped after the services that use it.
    pub store: Store,
}

/// Asks the process to restart.
pub type Restart = Box<dyn Fn() + Send + Sync>;

/// Why the service cannot be started.
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
    #[error("failed to start a thread: {0}")]
    Threads(io::Error),
}

impl AppError {
    fn setting(error: impl std::error::Error) -> Self {
        Self::Setting(error.to_string())
    }
}

/// Checks all files that a configuration names and that a server reads at its start.
#[must_use]
pub fn check(config: &Config) -> Vec<AppError> {
    settings::check(config)
}

/// Inputs of [`App::open`].
pub struct Parts {
    pub config: Config,
    pub store: Store,
    pub ports: Ports,
    /// Address of the partner interface, if it has one.
    pub listener: Option<SocketAddr>,
    /// TLS of the partner interface, if configured.
    pub tls: Option<Arc<Tls>>,
    /// Whether files are synced; disabled only in control runs of durability tests.
    pub sync: bool,
    /// Called when a file of the service has failed and the process must restart.
    pub on_failure: Box<dyn Fn(String) + Send + Sync>,
    /// Verifies a backup completely.
    pub examine: Examine,
    /// Restarts the process, if possible.
    pub restart: Option<Restart>,
}

pub struct Ports {
    pub clock: Arc<dyn Clock>,
    /// The same clock, if operators may move it.
    pub lab: Option<Arc<LabClock>>,
    pub entropy: Arc<dyn Entropy>,
}

impl Ports {
    /// Ports of this machine; the clock is movable if the configuration allows it.
    #[must_use]
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
        } = parts;
        let (clock, entropy) = (ports.clock, ports.entropy);
        let http = settings::http(&config, listener);
        let metrics = Arc::new(Registry::default());
        let guard = ClockGuard::open(store.clone(), Arc::clone(&clock), boot_id())?;
        let clock_guard = Arc::new(guard);
        let partners = Partners::open(store.clone(), Arc::clone(&entropy))?;
        // A store without a partner has served nobody: this is its first start.
        let in_use = !partners.list().is_empty();
        let assembly = Assembly::new(&config, &store, &entropy, clock_guard.expiry(), in_use);
        let operators = Operators::open(store.clone(), Arc::clone(&entropy))?;
        let mail = assembly.mail(&http.public_url)?;
        let accounts = assembly.accounts(&mail, &partners)?;
        let catalog = assembly.catalog()?;
        let schedule = assembly.schedule(&catalog)?;
        let feeds = assembly.feeds(&schedule, &catalog, Box::<Fetcher>::default())?;
        let grants = Grants::open(store.clone(), catalog.clone(), accounts::exists)?;
        let pins = settings::entitlement(&config)?;
        let rights =
            EntitlementService::new(catalog.clone(), Arc::clone(&schedule), grants.clone(), pins);
        let context = ServiceContext::new(&accounts, &catalog, &schedule, &rights, pins);
        let playback = assembly.playback(context)?;
        let (telemetry, forwarder) = assembly.telemetry(sync, clock.now(), on_failure)?;
        // After the catalogue, which creates the key whose fingerprint backups record.
        let backups = Backups::new(store.clone(), settings::backups(&config), examine);
        let upkeep = StoreAdmin::new(store.clone());
        let stores = (&upkeep, &backups);
        metrics::register(&metrics, &config, &clock, &telemetry, stores, &mail);
        let guides = (&schedule, &feeds);
        metrics::register_services(&metrics, forwarder.as_ref(), &playback, guides, &clock);
        metrics::register_clock(&metrics, &clock_guard);
        let authenticator = TokenAuthenticator::new(&config, &partners, &operators, &accounts);
        Ok(Self {
            front: assembly.front(&http, &metrics)?,
            clock,
            lab: ports.lab,
            clock_guard,
            entropy,
            limits: config.limits.clone(),
            http,
            gate: Arc::new(authenticator),
            hashing: worker_pools::hashing(&metrics)?,
            compression: worker_pools::compression(&metrics)?,
            cold: worker_pools::cold(&metrics)?,
            bulk: worker_pools::bulk(&metrics)?,
            metrics,
            readiness: Arc::new(Readiness::default()),
            partners,
            operators,
            audit: Audit::open(store.clone()),
            accounts,
            mail,
            catalog,
            schedule,
            feeds,
            grants,
            rights,
            playback,
            licenses: settings::licenses(&config)?,
            places: settings::places(&config)?,
            media: MediaDirectory::new(&config.origin.media_dir),
            tls,
            telemetry,
            forwarder,
            upkeep,
            backups,
            restart,
            store,
            config,
        })
    }
}
