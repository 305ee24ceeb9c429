//! The assembled service: ports, settings and services, put together once. No logic.

use std::sync::Arc;

use crate::config::http::HttpSettings;
use crate::config::limits::Limits;
use crate::domain::accounts::{Accounts, HashMemory};
use crate::domain::mail::Mail;
use crate::domain::operators::Operators;
use crate::domain::partners::Partners;
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

    /// Partners and their access tokens.
    pub partners: Partners,
    /// Operators of the administration interface.
    pub operators: Operators,
    /// Users and their logins.
    pub accounts: Accounts,
    /// The queue of mails.
    pub mail: Mail,

    /// Work that hashes passwords and PINs.
    pub hashing: Lane<HashMemory>,
    /// Cold reads, and short work that waits for a commit.
    pub cold: Lane<()>,
    /// Imports and verifications, one at a time.
    pub bulk: Lane<()>,
}
