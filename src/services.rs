//! The services of this process: what a request, a job or a command may use. Knows nothing of HTTP.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Serialize;

use crate::config::Config;
use crate::config::limits::LimitsConfig;
use crate::domain::accounts::{Accounts, HashMemory};
use crate::domain::audit::Audit;
use crate::domain::backups::Backups;
use crate::domain::catalog::Catalog;
use crate::domain::clock_guard::ClockGuard;
use crate::domain::entitlement::{EntitlementService, Grants};
use crate::domain::epg_sources::{DemoGuide, EpgSources};
use crate::domain::lab::Lab;
use crate::domain::mail::Mail;
use crate::domain::operators::Operators;
use crate::domain::partners::Partners;
use crate::domain::playback::Playback;
use crate::domain::schedule::Schedule;
use crate::domain::store_admin::StoreAdmin;
use crate::observe::activity::Activity;
use crate::observe::fleet::FleetView;
use crate::observe::metrics::Registry;
use crate::observe::readiness::Readiness;
use crate::ports::geoip::GeoIp;
use crate::ports::license_server::LicenseServers;
use crate::ports::media::MediaDirectory;
use crate::ports::tls::Tls;
use crate::ports::zoneinfo::ZoneWatch;
use crate::ports::{Clock, Entropy, LabClock};
use crate::process::worker_pool::export_slots::ExportSlots;
use crate::process::worker_pool::license_slots::LicenseSlots;
use crate::process::worker_pool::pool::WorkerPool;
use crate::process::worker_pool::recent_failures::RecentFailures;
use crate::records::journal::RequestJournal;
use crate::records::quality::Quality;
use crate::records::telemetry::{Forwarder, Telemetry};
use crate::store::Store;

/// Opened once by [`app`](crate::app) and shared by all requests and jobs.
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
    #[must_use]
    pub fn run(&self, max_wait: Duration) -> Vec<&'static str> {
        self.0.get().map(|run| run(max_wait)).unwrap_or_default()
    }
}

impl Services {
    /// Whether this installation may have lab partners.
    #[must_use]
    pub fn allows_lab(&self) -> bool {
        self.config.allows_lab()
    }
}

pub type Restart = Arc<dyn Fn() + Send + Sync>;
