//! A step of a decision as JSON, in explanations, in the request journal and in HTTP archives.

use std::borrow::Cow;

use serde::Serialize;

use playgate_domain::decision::DecisionStep;

#[derive(Serialize)]
pub struct StepLine {
    pub check: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub finding: String,
    pub passed: bool,
}

impl From<DecisionStep> for StepLine {
    fn from(step: DecisionStep) -> Self {
        Self {
            check: step.check,
            subject: step.subject,
            finding: step.finding,
            passed: step.passed,
        }
    }
}
