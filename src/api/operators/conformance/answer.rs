//! The conformance report of a partner's client.

use serde::Serialize;

use playgate_domain::conformance::{ConformanceReport, RULES_VERSION, RuleOutcome, RuleResult};
use playgate_types::UnixSeconds;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConformanceBody {
    partner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    from: i64,
    to: i64,
    rules_version: u32,
    verdict: &'static str,
    requests: usize,
    sessions: usize,
    events: usize,
    passed: usize,
    failed: usize,
    not_seen: usize,
    waived: usize,
    rules: Vec<RuleResultLine>,
}

#[derive(Serialize)]
struct RuleResultLine {
    id: &'static str,
    level: &'static str,
    title: &'static str,
    threshold: &'static str,
    interface: &'static str,
    result: &'static str,
    checked: usize,
    breaches: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    evidence: Vec<String>,
}

const fn result(outcome: &RuleOutcome) -> &'static str {
    match outcome {
        RuleOutcome::Passed => "passed",
        RuleOutcome::Failed => "failed",
        RuleOutcome::NotSeen => "notSeen",
        RuleOutcome::Waived(_) => "waived",
    }
}

impl RuleResultLine {
    fn new(judged: RuleResult) -> Self {
        let rule = judged.rule;
        Self {
            id: rule.id,
            level: rule.level.as_str(),
            title: rule.title,
            threshold: rule.threshold,
            interface: rule.interface,
            result: result(&judged.outcome),
            checked: judged.checked,
            breaches: judged.breaches,
            finding: judged.what,
            reason: match judged.outcome {
                RuleOutcome::Waived(reason) => Some(reason),
                RuleOutcome::Passed | RuleOutcome::Failed | RuleOutcome::NotSeen => None,
            },
            evidence: judged.evidence,
        }
    }
}

impl ConformanceBody {
    pub(crate) fn new(
        partner: String,
        session: Option<String>,
        (from, to): (UnixSeconds, UnixSeconds),
        report: ConformanceReport,
    ) -> Self {
        let verdict = report.verdict().as_str();
        let (requests, sessions, events) = (report.calls, report.sessions, report.events);
        let rules: Vec<_> = report
            .results
            .into_iter()
            .map(RuleResultLine::new)
            .collect();
        let count = |result| rules.iter().filter(|rule| rule.result == result).count();
        Self {
            partner,
            session,
            from: from.0,
            to: to.0,
            rules_version: RULES_VERSION,
            verdict,
            requests,
            sessions,
            events,
            passed: count("passed"),
            failed: count("failed"),
            not_seen: count("notSeen"),
            waived: count("waived"),
            rules,
        }
    }
}
