//! Explains an entitlement decision to an operator.

use super::evaluate::EntitlementService;
use super::model::{Decision, Denied};
use crate::accounts::User;
use crate::decision::{DecisionStep, DecisionTrace, RightsRefusal};
use playgate_types::{AssetId, Country, LiveOffset, LivestreamId, UnixSeconds};

pub struct EntitlementExplanation {
    /// The steps continue after a denial if there is more to show.
    pub steps: Vec<DecisionStep>,
    pub denied: Option<Denied>,
    /// The rights that deny it.
    pub refused_by: Option<RightsRefusal>,
    /// `None` if the viewer is denied.
    pub pin_needed: Option<bool>,
    /// The livestream that the viewer would watch live, whose streams then count.
    pub plays_live: Option<LivestreamId>,
}

impl EntitlementService {
    /// Like [`EntitlementService::decide`], with its steps.
    pub fn explain(
        &self,
        user: &User,
        asset: &AssetId,
        offset: LiveOffset,
        address: Option<Country>,
        now: UnixSeconds,
    ) -> EntitlementExplanation {
        let trace = DecisionTrace::on();
        let decided = self.decide(user, asset, offset, address, &trace, now);
        let collected = trace.take();
        EntitlementExplanation {
            steps: collected.steps,
            refused_by: collected.refused_by,
            pin_needed: decided.as_ref().ok().map(|decision| decision.pin_needed),
            plays_live: decided.as_ref().ok().and_then(Decision::plays_live),
            denied: decided.err(),
        }
    }
}
