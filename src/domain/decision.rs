//! Collects the steps by which the domain decides about a request.
//!
//! The trace is an argument of every function that adds to it. A request shares it with the write batch that completes
//! the decision on another thread.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use playgate_types::{AssetId, BroadcastId, Email, PartnerId, SessionId, UnixSeconds, UserId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionStep {
    /// For example `offer`, `rights`, `streams` or `session`.
    pub check: Cow<'static, str>,
    pub subject: Option<String>,
    pub finding: Cow<'static, str>,
    pub passed: bool,
}

/// A collector of steps. It is cheap to clone, and all clones share one decision. A trace that is off collects nothing.
#[derive(Clone, Debug, Default)]
pub struct DecisionTrace(Option<Arc<Mutex<TracedDecision>>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedDecision {
    pub steps: Vec<DecisionStep>,
    /// The partner of a session that a signed address names. Other requests carry the token of their partner.
    pub partner: Option<PartnerId>,
    pub user: Option<UserId>,
    /// The address of a sign-up or login. The journal looks up its user and does not store the address.
    pub address: Option<Email>,
    pub session: Option<SessionId>,
    pub asset: Option<AssetId>,
    pub refused_by: Option<RightsRefusal>,
    /// Whether a heartbeat got the same answer as the previous one.
    pub unchanged: bool,
}

/// The source of the rights at a position. It does not name the rule: a request must not wait for the disk read that
/// finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RightsSource {
    Program(BroadcastId),
    /// Used if the schedule has a gap at the position.
    LivestreamDefaults,
}

/// A refusal because a right is missing: the source of the rights, and which right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightsRefusal {
    pub source: RightsSource,
    /// Whether it is the live right; otherwise start-over or catch-up.
    pub live: bool,
    pub at: UnixSeconds,
}

impl RightsRefusal {
    pub fn new(program: Option<BroadcastId>, live: bool, at: UnixSeconds) -> Self {
        let source = program.map_or(RightsSource::LivestreamDefaults, RightsSource::Program);
        Self { source, live, at }
    }
}

impl DecisionTrace {
    pub fn on() -> Self {
        let decision = TracedDecision {
            // More than most decisions take, so that the list does not grow.
            steps: Vec::with_capacity(8),
            ..TracedDecision::default()
        };
        Self(Some(Arc::new(Mutex::new(decision))))
    }

    pub const fn off() -> Self {
        Self(None)
    }

    fn with(&self, change: impl FnOnce(&mut TracedDecision)) {
        if let Some(decision) = &self.0 {
            change(&mut decision.lock());
        }
    }

    /// Adds a step. `finding` is called only if the trace is on.
    pub fn step<F: Into<Cow<'static, str>>>(
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

    pub fn partner(&self, partner: PartnerId) {
        self.with(|decision| decision.partner = Some(partner));
    }

    /// Whom a signed address names: its partner and user.
    pub fn named(&self) -> (Option<PartnerId>, Option<UserId>) {
        self.0.as_ref().map_or((None, None), |decision| {
            let decision = decision.lock();
            (decision.partner, decision.user)
        })
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

    pub fn refused_by(&self, rights: impl FnOnce() -> RightsRefusal) {
        self.with(|decision| decision.refused_by = Some(rights()));
    }

    pub fn unchanged(&self) {
        self.with(|decision| decision.unchanged = true);
    }

    pub fn is_unchanged(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|decision| decision.lock().unchanged)
    }

    /// Takes what was collected. A write batch may still hold the trace: what it adds now is lost.
    pub fn take(&self) -> TracedDecision {
        let decision = self.0.as_ref();
        decision.map_or_else(TracedDecision::default, |decision| {
            std::mem::take(&mut *decision.lock())
        })
    }
}
