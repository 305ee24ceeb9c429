//! The assembled service: ports, settings and services, put together once. No logic.

use std::sync::Arc;

use crate::config::http::HttpSettings;
use crate::config::limits::Limits;
use crate::domain::telemetry::Telemetry;
use crate::domain::upkeep::Upkeep;
use crate::http::auth::Gate;
use crate::http::front::Front;
use crate::http::lanes::Lane;
use crate::observe::metrics::Registry;
use crate::observe::readiness::Readiness;
use crate::ports::{Clock, Entropy, LabClock};

/// What every handler gets.
pub struct App {
    /// The clock. Read once per request, by the service.
    pub clock: Arc<dyn Clock>,
    /// The same clock where an operator may move it.
    pub lab: Option<Arc<LabClock>>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Settings of the HTTP front.
    pub http: HttpSettings,
    /// Limits that are settings.
    pub limits: Limits,
    /// Who asks.
    pub gate: Arc<dyn Gate>,
    /// What the front made of its settings.
    pub front: Front,
    /// Metrics.
    pub metrics: Arc<Registry>,
    /// What is in the way of doing our work.
    pub readiness: Arc<Readiness>,
    /// Where cold reads and writes to files are waited for.
    pub cold: Lane<()>,
    /// Imports, verifications and reports, one at a time.
    pub bulk: Lane<()>,
    /// Players' telemetry.
    pub telemetry: Telemetry,
    /// The health of the store.
    pub upkeep: Upkeep,
}
