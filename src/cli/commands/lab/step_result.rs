//! The results of the steps of a scenario, as a line, as JSON and as a JUnit suite.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::scenario::{Scenario, Step};
use super::xml::escaped;
use crate::output::members::{elements, text};

pub(super) struct StepResult {
    trigger: String,
    action: String,
    seconds: f64,
    pub(super) failure: Option<String>,
}

impl StepResult {
    pub(super) fn new(step: &Step, elapsed: Duration, failure: Option<String>) -> Self {
        Self {
            trigger: step.trigger.describe(),
            action: step.describe_action(),
            seconds: elapsed.as_secs_f64(),
            failure,
        }
    }

    pub(super) fn line(&self) -> String {
        let Self {
            trigger,
            action,
            seconds,
            failure,
        } = self;
        let outcome = failure.as_deref().unwrap_or("done");
        format!("{seconds:7.1}s  {trigger}: {action}: {outcome}")
    }
}

pub(super) fn report(scenario: &Scenario, results: &[StepResult]) -> Value {
    let steps: Vec<Value> = results
        .iter()
        .map(|step| {
            json!({
                "trigger": step.trigger,
                "action": step.action,
                "seconds": step.seconds,
                "passed": step.failure.is_none(),
                "failure": step.failure,
            })
        })
        .collect();
    let passed = results.iter().all(|step| step.failure.is_none());
    json!({"scenario": scenario.name, "passed": passed, "steps": steps})
}

pub(super) fn failure(step: &Value) -> Option<&str> {
    step.get("failure").and_then(Value::as_str)
}

/// A test suite with a case for each step of a [`report`].
pub(super) fn suite(report: &Value) -> String {
    let (steps, name) = (elements(report, "steps"), escaped(text(report, "scenario")));
    let failures = steps.iter().filter(|step| failure(step).is_some()).count();
    let mut out = format!(
        "<testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">\n",
        steps.len()
    );
    let mut last = 0.0;
    for (number, step) in steps.iter().enumerate() {
        let (trigger, action) = (text(step, "trigger"), text(step, "action"));
        let case = escaped(&format!("{}. {trigger}: {action}", number + 1));
        let seconds = step["seconds"].as_f64().unwrap_or_default();
        // The clock of the run restarts when the client begins.
        let time = if seconds < last {
            seconds
        } else {
            seconds - last
        };
        last = seconds;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "  <testcase classname=\"{name}\" name=\"{case}\" time=\"{time:.3}\""
        );
        let _ = match failure(step) {
            None => writeln!(out, "/>"),
            Some(why) => writeln!(out, "><failure message=\"{}\"/></testcase>", escaped(why)),
        };
    }
    out.push_str("</testsuite>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_suite_names_each_step_and_its_failure() {
        let text = "name = 'a <b>'\n[[step]]\nat = '1s'\n[[step]]\non = {route = 'login'}";
        let scenario = Scenario::parse(text).unwrap();
        let results: Vec<_> = [None, Some("\"no\"".to_owned())]
            .into_iter()
            .zip(&scenario.steps)
            .map(|(failure, step)| StepResult::new(step, Duration::from_secs(1), failure))
            .collect();
        let xml = suite(&report(&scenario, &results));
        for part in [
            "<testsuite name=\"a &lt;b&gt;\" tests=\"2\" failures=\"1\">",
            "name=\"1. at 1s: wait\" time=\"1.000\"/>",
            "name=\"2. on login: wait\" time=\"0.000\"><failure message=\"&quot;no&quot;\"/></testcase>",
        ] {
            assert!(xml.contains(part), "{part} is not in\n{xml}");
        }
    }
}
