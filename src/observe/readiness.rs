//! Whether the service can do its work, and if not, why; and what else somebody should look after.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Parts of the service, each with what is the matter with it.
type Parts = BTreeMap<&'static str, String>;

/// The parts of the service that are not ready, and those that want looking after.
#[derive(Default)]
pub struct Readiness {
    reasons: Mutex<Parts>,
    warnings: Mutex<Parts>,
}

impl Readiness {
    /// `part` cannot do its work because of `reason`.
    pub fn not_ready(&self, part: &'static str, reason: impl Into<String>) {
        let reason = reason.into();
        tracing::warn!(part, reason, "not ready");
        self.reasons.lock().insert(part, reason);
    }

    /// The service comes to its end, as somebody asked.
    pub fn stopping(&self) {
        self.reasons.lock().insert("server", "stopping".to_owned());
    }

    /// `part` can do its work.
    pub fn ready(&self, part: &'static str) {
        if self.reasons.lock().remove(part).is_some() {
            tracing::info!(part, "ready again");
        }
    }

    /// What is in the way; empty when the service is ready.
    #[must_use]
    pub fn reasons(&self) -> Parts {
        self.reasons.lock().clone()
    }

    /// Something is the matter with `part`, or nothing is any more. The service does its work all
    /// the same.
    pub fn warn(&self, part: &'static str, warning: Option<String>) {
        let mut warnings = self.warnings.lock();
        match warning {
            Some(warning) => warnings.insert(part, warning),
            None => warnings.remove(part),
        };
    }

    /// What wants looking after.
    #[must_use]
    pub fn warnings(&self) -> Parts {
        self.warnings.lock().clone()
    }
}
