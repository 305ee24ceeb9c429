//! A step of a decision as JSON, in explanations, in the request journal and in HTTP archives.

use std::borrow::Cow;

use serde::Serialize;

use crate::domain::decision::DecisionStep;

#[derive(Serialize)]
pub(crate) struct StepLine {
    pub(crate) check: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    pub(crate) finding: String,
    pub(crate) passed: bool,
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
