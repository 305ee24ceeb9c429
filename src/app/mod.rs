//! The assembled service: ports, settings and services, put together once. No logic.

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
use crate::http::auth::Authenticator;
use crate::http::state::HttpState;
use crate::http::worker_pool::WorkerPool;
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
use authenticator::TokenAuthenticator;
pub use key_files::KeyError;
pub use open_store::{StoreOpener, drop_content_keys, has_store, import_store, open_store};
pub use settings::{backups as backup_settings, license_systems, tls};
use wiring::Assembly;

/// What every handler gets.
pub struct App {
    /// The clock. Read once per request, by the service.
    pub clock: Arc<dyn Clock>,
    /// The same clock where an operator may move it.
    pub lab: Option<Arc<LabClock>>,
    /// Whether the clock is believed, and what expiry is judged by.
    pub clock_guard: Arc<ClockGuard>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The configuration.
    pub config: Config,
    /// Settings of the HTTP front.
    pub http: HttpSettings,
    /// Limits that are settings.
    pub limits: Limits,
    /// Who asks.
    pub gate: Arc<dyn Authenticator>,
    /// What the front made of its settings.
    pub front: HttpState,
    /// Metrics.
    pub metrics: Arc<Registry>,
    /// What is in the way of doing our work.
    pub readiness: Arc<Readiness>,

    /// Partners and their access tokens.
    pub partners: Partners,
    /// Operators of the administration interface.
    pub operators: Operators,
    /// What operators have changed.
    pub audit: Audit,
    /// Users and their logins.
    pub accounts: Accounts,
    /// The queue of mails.
    pub mail: Mail,
    /// Livestreams, assets, offers.
    pub catalog: Catalog,
    /// The broadcast schedule.
    pub schedule: Arc<Schedule>,
    /// Sources of guides.
    pub feeds: EpgSources,
    /// The offers that users have.
    pub grants: Grants,
    /// Who may play what.
    pub rights: EntitlementService,
    /// Entitlements, sessions, devices.
    pub playback: Playback,
    /// License servers of others.
    pub licenses: LicenseServers,
    /// In which country an address is, where the operator has a database of that.
    pub places: Option<Arc<GeoIp>>,
    /// The files of the built-in origin.
    pub media: MediaDirectory,
    /// What the partner interface is served over TLS with, where it is.
    pub tls: Option<Arc<Tls>>,
    /// Players' telemetry.
    pub telemetry: Telemetry,
    /// What sends it on, where that is asked for.
    pub forwarder: Option<Arc<Forwarder>>,
    /// The health of the store.
    pub upkeep: StoreAdmin,
    /// Backups of the store.
    pub backups: Backups,
    /// Ends the process once what runs is done, and begins it again; not everywhere is that possible.
    pub restart: Option<Restart>,

    /// Work that hashes passwords and PINs.
    pub hashing: WorkerPool<HashMemory>,
    /// Compression of large responses, and exports of the schedule.
    pub compression: WorkerPool<()>,
    /// Cold reads, and short work that waits for a commit.
    pub cold: WorkerPool<()>,
    /// Imports and verifications, one at a time.
    pub bulk: WorkerPool<()>,

    /// The store, for its own verbs. The last field: services go before what they stand on.
    pub store: Store,
}

/// Asks the process to begin again.
pub type Restart = Box<dyn Fn() + Send + Sync>;

/// Why the service cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A key of the appliance cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The files of telemetry cannot be read or made.
    #[error("telemetry: {0}")]
    Telemetry(TelemetryError),
    /// A thread cannot be started.
    #[error("no thread can be started: {0}")]
    Threads(io::Error),
}

impl AppError {
    fn setting(error: impl std::error::Error) -> Self {
        Self::Setting(error.to_string())
    }
}

/// What is wrong with the files that a configuration names and a server reads at its start: all of
/// them, for who checks a configuration without starting.
#[must_use]
pub fn check(config: &Config) -> Vec<AppError> {
    settings::check(config)
}

/// What a service is put together from.
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// The open store.
    pub store: Store,
    /// The world, as it is or as a test wants it.
    pub ports: Ports,
    /// Where the partner interface is served, if it is.
    pub listener: Option<SocketAddr>,
    /// What the partner interface is served over TLS with, where it is.
    pub tls: Option<Arc<Tls>>,
    /// Whether files are synced; switched off only by the control runs of durability tests.
    pub sync: bool,
    /// Told when a file of the service has failed and the process has to restart.
    pub on_failure: Box<dyn Fn(String) + Send + Sync>,
    /// Reads a backup that is to be verified to its end.
    pub examine: Examine,
    /// Begins the process again, where that is possible.
    pub restart: Option<Restart>,
}

/// The ports of a service.
pub struct Ports {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The same clock where an operator may move it.
    pub lab: Option<Arc<LabClock>>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl Ports {
    /// The machine's, with a clock that can be moved where the configuration allows that.
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
    /// Puts the service together.
    ///
    /// # Errors
    /// [`AppError`].
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
        let ground = Assembly::new(&config, &store, &entropy, guard.expiry());
        let partners = Partners::open(store.clone(), Arc::clone(&entropy))?;
        let operators = Operators::open(store.clone(), Arc::clone(&entropy))?;
        let mail = ground.mail(&http.public_url)?;
        let accounts = ground.accounts(&mail, &partners)?;
        let catalog = ground.catalog()?;
        let schedule = ground.schedule(&catalog)?;
        let feeds = ground.feeds(&schedule, &catalog, Box::<Fetcher>::default())?;
        let grants = Grants::open(store.clone(), catalog.clone(), accounts::exists)?;
        let pins = settings::entitlement(&config)?;
        let rights =
            EntitlementService::new(catalog.clone(), Arc::clone(&schedule), grants.clone(), pins);
        let playback = ground.playback(ServiceContext {
            accounts: accounts.clone(),
            catalog: catalog.clone(),
            schedule: Arc::clone(&schedule),
            rights: rights.clone(),
            pins,
        })?;
        let (telemetry, forwarder) = ground.telemetry(sync, clock.now(), on_failure)?;
        // After the catalogue, which makes the key that backups tell.
        let backups = Backups::new(store.clone(), settings::backups(&config), examine);
        let upkeep = StoreAdmin::new(store.clone());
        let stores = (&upkeep, &backups);
        metrics::register(&metrics, &config, &clock, &telemetry, stores, &mail);
        let guides = (&schedule, &feeds);
        metrics::register_services(&metrics, forwarder.as_ref(), &playback, guides, &clock);
        let clock_guard = Arc::new(guard);
        metrics::register_clock(&metrics, &clock_guard);
        Ok(Self {
            front: ground.front(&http, &metrics)?,
            clock,
            lab: ports.lab,
            clock_guard,
            entropy,
            limits: config.limits.clone(),
            http,
            gate: Arc::new(TokenAuthenticator::new(
                &config, &partners, &operators, &accounts,
            )),
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
