//! Why the service cannot work, and what does not stop it but somebody should look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Services;
use playgate_domain::catalog::Catalog;
use playgate_domain::clock_guard::ClockGuard;
use playgate_domain::schedule::Schedule;
use playgate_domain::store_admin::StoreAdmin;
use playgate_observe::readiness::Readiness;

/// Reads what the services know of themselves, for probes and metrics.
#[derive(Clone)]
pub struct Health {
    readiness: Arc<Readiness>,
    store_admin: StoreAdmin,
    clock_guard: Arc<ClockGuard>,
    catalog: Catalog,
    schedule: Arc<Schedule>,
}

/// Sentences by the part of the service that they are about.
type HealthParts = BTreeMap<&'static str, String>;

impl Health {
    pub fn new(services: &Services) -> Self {
        Self {
            readiness: Arc::clone(&services.readiness),
            store_admin: services.store_admin.clone(),
            clock_guard: Arc::clone(&services.clock_guard),
            catalog: services.catalog.clone(),
            schedule: Arc::clone(&services.schedule),
        }
    }

    /// Returns why the service is not ready. It is ready without a reason.
    pub fn reasons(&self) -> HealthParts {
        let mut reasons = self.readiness.reasons();
        if !self.store_admin.is_writable() {
            let why = "the disk is full or read-only: reads are served, writes are rejected";
            // A reason that the store itself reported is more specific.
            reasons.entry("store").or_insert_with(|| why.to_owned());
        }
        reasons
    }

    pub fn warnings(&self) -> HealthParts {
        let mut warnings = self.readiness.warnings();
        // Only a warning: with a nearly full disk, running playback continues and logged-in users can
        // still read.
        if let Some(need) = self.store_admin.refuses() {
            warnings.insert("store", format!("low disk space: {}", need.refusal()));
        }
        if let Some(jump) = self.clock_guard.untrusted_jump() {
            warnings.insert("clock", jump.to_string());
        }
        let rules = self.catalog.snapshot();
        if let Some((number, rule)) = (1..)
            .zip(rules.rules())
            .find(|(_, rule)| rule.takes_from_all())
        {
            let why = format!(
                "rule {number} (`{rule}`) has no condition and takes rights from every broadcast; \
                 `playgate rule remove {number}` ends that"
            );
            warnings.insert("rules", why);
        }
        let lost = self.schedule.lost_overrides();
        if let Some((id, first)) = lost.first() {
            warnings.insert(
                "overrides",
                format!(
                    "{} of the rights set for single broadcasts apply to nothing, since an import removed the broadcast: `{id}` \
                     was “{}” on {}, {}. Set the rights of the broadcast that replaced it, then run \
                     `playgate rights remove {id}`",
                    lost.len(),
                    first.title,
                    first.livestream,
                    first.start.in_utc()
                ),
            );
        }
        warnings
    }
}
