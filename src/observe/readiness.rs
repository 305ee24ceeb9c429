//! Readiness of the service: reasons why it cannot work, and warnings that do not stop it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

type ReadinessParts = BTreeMap<&'static str, String>;

#[derive(Default)]
pub struct Readiness {
    reasons: Mutex<ReadinessParts>,
    warnings: Mutex<ReadinessParts>,
}

impl Readiness {
    pub fn not_ready(&self, part: &'static str, reason: impl Into<String>) {
        let reason = reason.into();
        tracing::warn!(part, reason, "not ready");
        self.reasons.lock().insert(part, reason);
    }

    pub fn stopping(&self) {
        self.reasons.lock().insert("server", "stopping".to_owned());
    }

    pub fn ready(&self, part: &'static str) {
        if self.reasons.lock().remove(part).is_some() {
            tracing::info!(part, "ready again");
        }
    }

    pub fn reasons(&self) -> ReadinessParts {
        self.reasons.lock().clone()
    }

    /// Sets or clears the warning of `part`. A warning does not affect readiness.
    pub fn warn(&self, part: &'static str, warning: Option<String>) {
        // Kept apart from the reasons: a load balancer must not take a server out of service for a warning.
        let mut warnings = self.warnings.lock();
        match warning {
            Some(warning) => warnings.insert(part, warning),
            None => warnings.remove(part),
        };
    }

    pub fn warnings(&self) -> ReadinessParts {
        self.warnings.lock().clone()
    }
}
