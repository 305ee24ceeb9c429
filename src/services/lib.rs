//! The services of this process: what a request, a job or a command may use. Knows nothing of HTTP.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod health;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Serialize;

use playgate_config::Config;
use playgate_config::limits::LimitsConfig;
use playgate_domain::accounts::{Accounts, HashMemory};
use playgate_domain::audit::Audit;
use playgate_domain::backups::Backups;
use playgate_domain::catalog::Catalog;
use playgate_domain::clock_guard::ClockGuard;
use playgate_domain::entitlement::{EntitlementService, Grants};
use playgate_domain::epg_sources::{DemoGuide, EpgSources};
use playgate_domain::lab::Lab;
use playgate_domain::mail::Mail;
use playgate_domain::operators::Operators;
use playgate_domain::partners::Partners;
use playgate_domain::playback::Playback;
use playgate_domain::schedule::Schedule;
use playgate_domain::store_admin::StoreAdmin;
use playgate_observe::Registry;
use playgate_observe::activity::Activity;
use playgate_observe::fleet::FleetView;
use playgate_observe::readiness::Readiness;
use playgate_ports::geoip::GeoIp;
use playgate_ports::license_server::LicenseServers;
use playgate_ports::zoneinfo::ZoneWatch;
use playgate_ports::{Clock, Entropy, LabClock, MediaDirectory, Tls};
use playgate_process::WorkerPool;
use playgate_process::worker_pool::export_slots::ExportSlots;
use playgate_process::worker_pool::license_slots::LicenseSlots;
use playgate_process::worker_pool::recent_failures::RecentFailures;
use playgate_records::journal::RequestJournal;
use playgate_records::quality::Quality;
use playgate_records::telemetry::{Forwarder, Telemetry};
use playgate_store::Store;

/// Opened once by `app` and shared by all requests and jobs.
pub struct Services {
    /// A request reads the clock once, so that all its decisions agree.
    pub clock: Arc<dyn Clock>,
    pub lab_clock: Option<Arc<LabClock>>,
    /// Detects clock jumps. Expiry is checked against its time.
    pub clock_guard: Arc<ClockGuard>,
    pub entropy: Arc<dyn Entropy>,
    pub config: Config,
    pub limits: LimitsConfig,
    pub metrics: Arc<Registry>,
    pub readiness: Arc<Readiness>,
    /// Requests, refusals, logins and streams of the last hour and day, for the console.
    pub activity: Arc<Activity>,
    /// Filled while this process is the owner of a fleet.
    pub fleet: Arc<FleetView>,

    pub partners: Partners,
    pub lab: Arc<Lab>,
    /// Runs the background jobs that are due, after the clock was moved.
    pub due_jobs: Arc<DueJobs>,
    pub demo: Arc<Demo>,
    pub operators: Operators,
    pub audit: Audit,
    pub accounts: Accounts,
    pub mail: Mail,
    pub catalog: Catalog,
    pub schedule: Arc<Schedule>,
    pub epg_sources: EpgSources,
    pub grants: Grants,
    pub entitlement: EntitlementService,
    pub playback: Playback,
    pub licenses: LicenseServers,
    pub geoip: Option<Arc<GeoIp>>,
    pub zones: Arc<ZoneWatch>,
    pub media: MediaDirectory,
    pub tls: Option<Arc<Tls>>,
    pub telemetry: Telemetry,
    pub quality: Quality,
    pub journal: RequestJournal,
    pub forwarder: Option<Arc<Forwarder>>,
    pub store_admin: StoreAdmin,
    pub backups: Backups,
    /// Restarts the process after running work; absent where that is not possible.
    pub restart: Option<Restart>,

    pub hashing: WorkerPool<HashMemory>,
    /// Networks that guess passwords; their jobs in `hashing` wait behind those of others.
    pub recent_failures: RecentFailures,
    pub turns: AdminTurns,
    /// Compresses large responses and exports the schedule.
    pub compression: WorkerPool<()>,
    /// Runs cold reads, and short work that waits for a commit.
    pub cold: WorkerPool<()>,
    pub bulk: WorkerPool<()>,
    pub slots: RequestSlots,

    /// The store. The last field, so that it is dropped after the services that use it.
    pub store: Store,
}

/// What only the demo sets.
#[derive(Default)]
pub struct Demo {
    /// So that a moved clock still finds programs.
    pub guide: OnceLock<DemoGuide>,
    /// Set once the sample data is complete.
    pub access: OnceLock<DemoAccess>,
}

/// Credentials that the demo prints at its start. They protect nothing but its sample data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoAccess {
    pub partner_token: String,
    pub identity: &'static str,
    pub access_key: &'static str,
    pub pin_code: &'static str,
    /// Base address of the operations listener, for the front page.
    #[serde(skip)]
    pub ops_url: String,
}

/// Slots of requests that wait for something slow.
pub struct RequestSlots {
    pub exports: ExportSlots,
    pub licenses: LicenseSlots,
}

/// Operations of which one runs at a time.
#[derive(Default)]
pub struct AdminTurns {
    /// Resets of lab partners run one after the other: each takes the thread of `bulk`, then hashes passwords.
    pub resets: tokio::sync::Mutex<()>,
    /// Imports of users read one after the other: each blocks a thread of `cold` while the store lags behind.
    pub import_reads: tokio::sync::Mutex<()>,
}

/// Runs all background jobs once, and returns the names of those that did not end within the time.
type RunJobs = Box<dyn Fn(Duration) -> Vec<&'static str> + Send + Sync>;

/// Access to the background jobs, which are started after the services.
#[derive(Default)]
pub struct DueJobs(OnceLock<RunJobs>);

impl DueJobs {
    pub fn set(&self, run: RunJobs) {
        // Jobs are started once per process; a second call keeps the first value.
        let _ = self.0.set(run);
    }

    /// Blocks for at most `max_wait`. Commands without a server have no jobs, so nothing is due.
    pub fn run(&self, max_wait: Duration) -> Vec<&'static str> {
        self.0.get().map(|run| run(max_wait)).unwrap_or_default()
    }
}

impl Services {
    /// Whether this installation may have lab partners.
    pub fn allows_lab(&self) -> bool {
        self.config.allows_lab()
    }
}

pub type Restart = Arc<dyn Fn() + Send + Sync>;
