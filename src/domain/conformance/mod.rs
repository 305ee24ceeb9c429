//! Judges how a client uses the interface, from its requests and its telemetry.
//!
//! The rules are a table ([`rules`](rules::rules)); each is a pure function of a [`Conversation`]. A rule without an
//! occasion is "not seen", which does not count as passed. A [`Profile`] waives rules for a client, each with a reason.

mod conversation;
mod profile;
mod rules;
#[cfg(test)]
mod tests;

pub use conversation::{ClientCall, ClientEvent, Conversation, CoveredProgram};
pub use profile::{Profile, ProfileError};
pub use rules::{ConformanceRule, Level, find, rules};

/// Increased with each change of a rule, a threshold or a meaning.
pub const RULES_VERSION: u32 = 4;

/// Maximum request ids that a result names as evidence.
const EVIDENCE_MAX: usize = 20;

/// The result of a rule: how many cases it could judge, and the breaches.
#[derive(Debug, Default)]
pub struct Finding {
    pub checked: usize,
    pub breaches: Vec<Breach>,
}

#[derive(Debug)]
pub struct Breach {
    pub what: String,
    pub evidence: Vec<String>,
}

impl Finding {
    fn check(&mut self) {
        self.checked += 1;
    }

    fn breach<'a>(
        &mut self,
        what: impl Into<String>,
        calls: impl IntoIterator<Item = &'a ClientCall>,
    ) {
        self.breaches.push(Breach {
            what: what.into(),
            evidence: calls.into_iter().map(|call| call.id.clone()).collect(),
        });
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    Passed,
    Failed,
    NotSeen,
    /// Has the reason from the profile.
    Waived(String),
}

#[derive(Debug)]
pub struct RuleResult {
    pub rule: &'static ConformanceRule,
    pub outcome: RuleOutcome,
    pub checked: usize,
    pub breaches: usize,
    /// Describes the first breach.
    pub what: Option<String>,
    pub evidence: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every rule of the level `must` was seen or waived, and none failed.
    Passed,
    /// None failed, but a rule of the level `must` was not seen.
    Incomplete,
    Failed,
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug)]
pub struct ConformanceReport {
    pub results: Vec<RuleResult>,
    pub calls: usize,
    pub sessions: usize,
    pub events: usize,
}

impl ConformanceReport {
    pub fn verdict(&self) -> Verdict {
        let must = |result: &&RuleResult| result.rule.level == Level::Must;
        let has = |outcome| {
            self.results
                .iter()
                .filter(must)
                .any(|one| one.outcome == outcome)
        };
        match (has(RuleOutcome::Failed), has(RuleOutcome::NotSeen)) {
            (true, _) => Verdict::Failed,
            (false, true) => Verdict::Incomplete,
            (false, false) => Verdict::Passed,
        }
    }
}

pub fn judge(conversation: &Conversation, profile: &Profile) -> ConformanceReport {
    let results = rules().iter().map(|rule| {
        let finding = (rule.judge)(conversation);
        // A waived rule is judged all the same: the report shows what was waived.
        let outcome = match profile.reason(rule.id) {
            Some(reason) => RuleOutcome::Waived(reason.to_owned()),
            None if !finding.breaches.is_empty() => RuleOutcome::Failed,
            // A rule without an occasion proves nothing, and must not count as passed.
            None if finding.checked == 0 => RuleOutcome::NotSeen,
            None => RuleOutcome::Passed,
        };
        let evidence = finding
            .breaches
            .iter()
            .flat_map(|breach| breach.evidence.iter());
        RuleResult {
            rule,
            outcome,
            checked: finding.checked,
            breaches: finding.breaches.len(),
            evidence: evidence.take(EVIDENCE_MAX).cloned().collect(),
            what: finding
                .breaches
                .into_iter()
                .next()
                .map(|breach| breach.what),
        }
    });
    ConformanceReport {
        results: results.collect(),
        calls: conversation.calls.len(),
        sessions: conversation.sessions().len(),
        events: conversation.events.len(),
    }
}
