//! The report of a scenario run.

/// Progress of a scenario run. The command runs the scenario; the server keeps the last report for the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioReport {
    pub scenario: String,
    pub state: ScenarioState,
    /// Descriptions of all steps.
    pub steps: Vec<String>,
    pub done: usize,
    /// Why the step after `done` failed.
    pub failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioState {
    Running,
    Passed,
    Failed,
}

impl ScenarioState {
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Passed, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Passed => "passed",
            Self::Failed => "failed",
        }
    }
}
