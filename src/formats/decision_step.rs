//! A step of a decision as JSON, in explanations, in the request journal and in HTTP archives.

use std::borrow::Cow;

use serde::Serialize;

use playgate_domain::decision::DecisionStep;
use playgate_types::Described;

#[derive(Described, Serialize)]
pub struct StepBody {
    /// The check, such as `offer`, `country`, `rights`, `pin`, `devices`, `stream`, `session` or `licenseServer`.
    pub check: Cow<'static, str>,
    /// Id of the offer or session that the step is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the check found, in words.
    pub finding: Cow<'static, str>,
    /// Whether the check was passed.
    pub passed: bool,
}

impl From<DecisionStep> for StepBody {
    fn from(step: DecisionStep) -> Self {
        Self {
            check: step.check,
            subject: step.subject,
            finding: step.finding,
            passed: step.passed,
        }
    }
}
