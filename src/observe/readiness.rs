//! Whether the service can do its work, and if not, why.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The parts of the service that are not ready, each with its reason.
#[derive(Default)]
pub struct Readiness(Mutex<BTreeMap<&'static str, String>>);

impl Readiness {
    /// `part` cannot do its work because of `reason`.
    pub fn not_ready(&self, part: &'static str, reason: impl Into<String>) {
        let reason = reason.into();
        tracing::warn!(part, reason, "not ready");
        self.0.lock().insert(part, reason);
    }

    /// `part` can do its work.
    pub fn ready(&self, part: &'static str) {
        if self.0.lock().remove(part).is_some() {
            tracing::info!(part, "ready again");
        }
    }

    /// What is in the way; empty when the service is ready.
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<&'static str, String> {
        self.0.lock().clone()
    }
}
