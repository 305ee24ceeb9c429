//! What is wrong with the fleet, for `fleet status`: also what only the members know, such as settings that differ.

use serde_json::{Value, json};

use super::Fleet;
use crate::client::fleet;
use crate::output::Failure;
use playgate_fleet::membership::Membership;
use playgate_observe::fleet::FleetProblem;

impl Fleet {
    /// Asks all members. Blocks for some seconds if one does not answer.
    pub(super) fn problems(&self, membership: &Membership) -> Result<Vec<FleetProblem>, Failure> {
        let _runtime = self.runtime.enter();
        let reporter = fleet::reporter(self.config(), membership.clone())?;
        Ok(reporter.report_members().problems())
    }
}

pub(super) fn as_json(problems: &[FleetProblem]) -> Vec<Value> {
    let each = problems.iter().map(
        |problem| json!({"severe": problem.is_severe, "problem": problem.text, "fix": problem.fix}),
    );
    each.collect()
}
