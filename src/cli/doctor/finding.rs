//! A finding of `playgate doctor`.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckState {
    Ok,
    Warning,
    Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct DoctorFinding {
    pub(super) part: &'static str,
    pub(super) state: CheckState,
    pub(super) finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl DoctorFinding {
    pub(super) fn ok(part: &'static str, finding: impl Into<String>) -> Self {
        Self {
            part,
            state: CheckState::Ok,
            finding: finding.into(),
            fix: None,
        }
    }

    pub(super) fn warning(
        part: &'static str,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            state: CheckState::Warning,
            fix: Some(fix.into()),
            ..Self::ok(part, finding)
        }
    }

    pub(super) fn problem(
        part: &'static str,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            state: CheckState::Problem,
            ..Self::warning(part, finding, fix)
        }
    }
}
