//! `playgate lab run certification`: the shipped scenarios one after the other, each judged by the rules of conformance, and
//! one report of all.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::check::{self, ReportFiles, has_passed};
use super::runner::{ClientWait, Period, ScenarioRunner};
use super::scenario::Scenario;
use super::step_result;
use crate::client::time_arg::server_time;
use crate::client::{path, with_query};
use crate::output::members::{elements, number, text, texts};
use crate::output::{self, CommandResult, Failure};
use crate::process::signals::Signals;

/// Maximum number of request ids that a rule names as evidence, as in the report of the server.
const EVIDENCE_MAX: usize = 20;

pub(super) struct CertificationOptions {
    pub(super) scenarios: Vec<Scenario>,
    pub(super) waiting: ClientWait,
    /// Waived rules, in the format of the server.
    pub(super) waived: Option<String>,
    pub(super) html: Option<PathBuf>,
    pub(super) junit: Option<PathBuf>,
    pub(super) json: bool,
}

pub(super) async fn run(
    mut runner: ScenarioRunner<'_>,
    options: &CertificationOptions,
) -> CommandResult {
    let mut signals = Signals::listen()?;
    let from = server_time(&mut runner.admin).await?;
    let count = options.scenarios.len();
    let (mut scenarios, mut judged) = (Vec::new(), Vec::new());
    let mut silent = true;
    for (nth, scenario) in options.scenarios.iter().enumerate() {
        output::print_note(&format!(
            "\n{} of {count}: {} ({})\n  {}",
            nth + 1,
            scenario.name,
            scenario.key,
            scenario.text
        ));
        let waiting = &options.waiting;
        let played = runner.run(scenario, waiting, &mut signals).await?;
        // Judged by the period of this scenario: faults of the next one must not count for it.
        let report = judge(&mut runner, &played.period, options).await?;
        let mut result = step_result::report(scenario, &played.steps);
        if let Some(members) = result.as_object_mut() {
            members.insert("id".to_owned(), scenario.key.clone().into());
            members.insert("requests".to_owned(), number(&report, "requests").into());
            members.insert("failedRules".to_owned(), failed_rules(&report).into());
        }
        output::print_note(&format!("  {}", outcome(&result)));
        scenarios.push(result);
        judged.push((scenario.key.as_str(), report));
        silent &= !played.heard;
        if silent {
            // The client sends nothing: every further scenario would wait in vain.
            break;
        }
    }
    let to = server_time(&mut runner.admin).await?;
    let not_run = options.scenarios.iter().skip(scenarios.len());
    let not_run = not_run.map(|scenario| scenario.key.clone()).collect();
    let report = combine(&runner.partner, (from, to), scenarios, not_run, &judged);
    let files = ReportFiles {
        html: options.html.as_deref(),
        junit: options.junit.as_deref(),
    };
    check::write(&report, &files, options.json)?;
    match text(&report, "verdict") {
        "failed" if silent => {
            let why = "no request of the client came; the other scenarios were not run";
            Err(Failure::failed(why).hint(runner.advice()))
        }
        "failed" => Err(Failure::failed(why_failed(&report))),
        _ => Ok(()),
    }
}

async fn judge(
    runner: &mut ScenarioRunner<'_>,
    period: &Period,
    options: &CertificationOptions,
) -> Result<Value, Failure> {
    let number = |value: i64| value.to_string();
    let (after, from, to) = (
        period.after.to_string(),
        number(period.from),
        number(period.to),
    );
    let target = with_query(
        path(&["partners", &runner.partner, "conformance"]),
        &[
            ("after", Some(after.as_str())),
            ("from", Some(from.as_str())),
            ("to", Some(to.as_str())),
            ("waived", options.waived.as_deref()),
        ],
    );
    runner.admin.get(&target).await
}

fn failed_rules(report: &Value) -> Vec<String> {
    let rules = elements(report, "rules").iter();
    let failed = rules.filter(|rule| is(rule, "failed"));
    failed.map(|rule| text(rule, "id").to_owned()).collect()
}

fn is(rule: &Value, result: &str) -> bool {
    text(rule, "result") == result
}

fn outcome(scenario: &Value) -> String {
    let got_through = check::failure(scenario)
        .map_or_else(|| "passed".to_owned(), |why| format!("failed: {why}"));
    let broken: Vec<&str> = texts(scenario, "failedRules").collect();
    match broken[..] {
        [] => got_through,
        _ => format!("{got_through}; broke {}", broken.join(", ")),
    }
}

/// Combines the reports of the scenarios into one, which lists their results as `scenarios`.
fn combine(
    partner: &str,
    (from, to): (i64, i64),
    scenarios: Vec<Value>,
    not_run: Vec<String>,
    judged: &[(&str, Value)],
) -> Value {
    let first = judged.first().map_or(&Value::Null, |(_, report)| report);
    let rules: Vec<Value> = (0..elements(first, "rules").len())
        .map(|nth| {
            let of_each = judged.iter();
            let of_each: Vec<(&str, &Value)> = of_each
                .filter_map(|(key, report)| Some((*key, elements(report, "rules").get(nth)?)))
                .collect();
            combine_rule(&of_each)
        })
        .collect();
    let count = |result| rules.iter().filter(|rule| is(rule, result)).count();
    let sum = |name| -> u64 { judged.iter().map(|(_, report)| number(report, name)).sum() };
    let must = |result| {
        let mut wanted = rules.iter().filter(|rule| text(rule, "level") == "must");
        wanted.any(|rule| is(rule, result))
    };
    let got_through = not_run.is_empty() && scenarios.iter().all(has_passed);
    // A required rule that no scenario has shown leaves the verdict open.
    let verdict = match (got_through && !must("failed"), must("notSeen")) {
        (false, _) => "failed",
        (true, true) => "incomplete",
        (true, false) => "passed",
    };
    json!({
        "partner": partner,
        "from": from,
        "to": to,
        "rulesVersion": number(first, "rulesVersion"),
        "verdict": verdict,
        "requests": sum("requests"),
        "sessions": sum("sessions"),
        "events": sum("events"),
        "passed": count("passed"),
        "failed": count("failed"),
        "notSeen": count("notSeen"),
        "waived": count("waived"),
        "scenarios": scenarios,
        "notRun": not_run,
        "rules": rules,
    })
}

fn combine_rule(of_each: &[(&str, &Value)]) -> Value {
    let find = |result: &str| of_each.iter().find(|(_, rule)| is(rule, result));
    // One breach in any scenario fails the rule; one scenario that shows it passes it.
    let order = ["waived", "failed", "passed", "notSeen"];
    let Some((key, rule)) = order.into_iter().find_map(find) else {
        return Value::Null;
    };
    let mut combined: Map<String, Value> = rule.as_object().cloned().unwrap_or_default();
    let sum = |name| -> u64 { of_each.iter().map(|(_, rule)| number(rule, name)).sum() };
    combined.insert("checked".to_owned(), sum("checked").into());
    combined.insert("breaches".to_owned(), sum("breaches").into());
    if is(rule, "failed") {
        let finding = format!("{key}: {}", text(rule, "finding"));
        combined.insert("finding".to_owned(), finding.into());
        let broken = of_each.iter().filter(|(_, rule)| is(rule, "failed"));
        let keys: Vec<&str> = broken.clone().map(|(key, _)| *key).collect();
        combined.insert("scenarios".to_owned(), keys.into());
        let evidence = broken.flat_map(|(_, rule)| texts(rule, "evidence"));
        let evidence: Vec<&str> = evidence.take(EVIDENCE_MAX).collect();
        combined.insert("evidence".to_owned(), evidence.into());
    }
    combined.into()
}

fn why_failed(report: &Value) -> String {
    let failed = elements(report, "scenarios").iter();
    let failed: Vec<&str> = failed
        .filter(|scenario| !has_passed(scenario))
        .map(|scenario| text(scenario, "id"))
        .collect();
    let broken = elements(report, "rules").iter();
    let broken = broken.filter(|rule| is(rule, "failed") && text(rule, "level") == "must");
    let broken: Vec<&str> = broken.map(|rule| text(rule, "id")).collect();
    let parts = [
        ("the client failed ", failed),
        ("the client broke ", broken),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts
        .map(|(what, names)| format!("{what}{}", names.join(", ")))
        .collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(results: [&str; 2]) -> Value {
        let rule = |id: &str, result: &str| {
            json!({"id": id, "level": "must", "result": result, "checked": 1, "breaches": 1,
                "finding": "did", "evidence": [id]})
        };
        let [one, two] = results;
        json!({"requests": 2, "rules": [rule("a", one), rule("b", two)]})
    }

    fn combined(results: [[&str; 2]; 2], passed: bool) -> Value {
        let [first, second] = results.map(report);
        let scenarios = vec![json!({"id": "x", "passed": passed})];
        combine(
            "P",
            (1, 2),
            scenarios,
            Vec::new(),
            &[("x", first), ("y", second)],
        )
    }

    #[test]
    fn a_rule_fails_in_all_if_it_fails_in_one_and_is_seen_if_one_saw_it() {
        for (results, rules, verdict) in [
            (
                [["passed", "notSeen"], ["notSeen", "notSeen"]],
                ["passed", "notSeen"],
                "incomplete",
            ),
            (
                [["passed", "notSeen"], ["notSeen", "passed"]],
                ["passed", "passed"],
                "passed",
            ),
            (
                [["passed", "passed"], ["passed", "failed"]],
                ["passed", "failed"],
                "failed",
            ),
            (
                [["waived", "passed"], ["waived", "passed"]],
                ["waived", "passed"],
                "passed",
            ),
        ] {
            let report = combined(results, true);
            let found: Vec<_> = elements(&report, "rules")
                .iter()
                .map(|rule| text(rule, "result"))
                .collect();
            assert_eq!(
                (found, text(&report, "verdict")),
                (rules.to_vec(), verdict),
                "{results:?}"
            );
            assert_eq!(number(&report, "requests"), 4);
        }
        let report = combined([["failed", "passed"], ["failed", "passed"]], true);
        let rule = &report["rules"][0];
        assert_eq!(rule["finding"], "x: did");
        assert_eq!(rule["scenarios"], json!(["x", "y"]));
        assert_eq!(rule["evidence"], json!(["a", "a"]));
        assert_eq!((number(rule, "checked"), number(rule, "breaches")), (2, 2));
    }

    #[test]
    fn a_scenario_that_failed_or_was_not_run_fails_all() {
        let good = [["passed", "passed"], ["passed", "passed"]];
        let report = combined(good, false);
        assert_eq!(text(&report, "verdict"), "failed");
        assert_eq!(why_failed(&report), "the client failed x");
        let judged = [("x", super::tests::report(["passed", "passed"]))];
        let report = combine("P", (1, 2), Vec::new(), vec!["z".to_owned()], &judged);
        assert_eq!(text(&report, "verdict"), "failed");
    }
}
