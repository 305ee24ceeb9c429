//! What the domain decides about a request, collected while it decides.
//!
//! The trace is an argument of every function that adds to it. It is shared between a request and the write batch that
//! finishes its decision on another thread.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::types::{AssetId, BroadcastId, Email, SessionId, UserId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionStep {
    /// Such as `offer`, `rights`, `streams` or `session`.
    pub check: Cow<'static, str>,
    pub subject: Option<String>,
    pub finding: String,
    pub passed: bool,
}

/// Cheap to clone; all clones collect into one. One that is off collects nothing.
#[derive(Clone, Debug, Default)]
pub struct DecisionTrace(Option<Arc<Mutex<TracedDecision>>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedDecision {
    pub steps: Vec<DecisionStep>,
    pub user: Option<UserId>,
    /// The address that a sign-up or login named. It is not recorded: its user is looked up.
    pub address: Option<Email>,
    pub session: Option<SessionId>,
    pub asset: Option<AssetId>,
    pub refused_by: Option<RightsSource>,
    /// Whether a heartbeat was answered as the one before.
    pub unchanged: bool,
}

/// Where the rights at a position come from. Which rule made them is read from disk, so not while a request waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RightsSource {
    Program(BroadcastId),
    /// The schedule has a gap at the position.
    LivestreamDefaults,
}

impl RightsSource {
    #[must_use]
    pub fn new(program: Option<BroadcastId>) -> Self {
        program.map_or(Self::LivestreamDefaults, Self::Program)
    }
}

impl DecisionTrace {
    #[must_use]
    pub fn on() -> Self {
        Self(Some(Arc::default()))
    }

    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    fn with(&self, change: impl FnOnce(&mut TracedDecision)) {
        if let Some(decision) = &self.0 {
            change(&mut decision.lock());
        }
    }

    /// Adds a step. The finding is written only if somebody collects it.
    pub fn step<F: Into<String>>(
        &self,
        check: &'static str,
        passed: bool,
        finding: impl FnOnce() -> F,
    ) {
        self.with(|decision| {
            decision.steps.push(DecisionStep {
                check: check.into(),
                subject: None,
                finding: finding().into(),
                passed,
            });
        });
    }

    pub fn steps(&self, steps: impl FnOnce() -> Vec<DecisionStep>) {
        self.with(|decision| decision.steps.extend(steps()));
    }

    pub fn user(&self, user: UserId) {
        self.with(|decision| decision.user = Some(user));
    }

    pub fn address(&self, email: &Email) {
        self.with(|decision| decision.address = Some(email.clone()));
    }

    pub fn session(&self, session: SessionId) {
        self.with(|decision| decision.session = Some(session));
    }

    pub fn asset(&self, asset: &AssetId) {
        self.with(|decision| decision.asset = Some(asset.clone()));
    }

    pub fn refused_by(&self, rights: impl FnOnce() -> RightsSource) {
        self.with(|decision| decision.refused_by = Some(rights()));
    }

    pub fn unchanged(&self) {
        self.with(|decision| decision.unchanged = true);
    }

    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|decision| decision.lock().unchanged)
    }

    #[must_use]
    pub fn collected(&self) -> TracedDecision {
        let decision = self.0.as_ref().map(|decision| decision.lock().clone());
        decision.unwrap_or_default()
    }
}
