//! The report as JUnit XML, for the test view of a CI system.

use std::fmt::Write as _;

use serde_json::Value;

use super::{evidence, period, summary};
use crate::commands::lab::step_result;
use crate::commands::lab::xml::{XML_HEAD, escaped};
use crate::output::members::{elements, number, text};

/// Renders a suite of the rules and, for a certification, a suite of the steps of each scenario.
pub(super) fn document(report: &Value) -> String {
    let scenarios = elements(report, "scenarios");
    if scenarios.is_empty() {
        return format!("{XML_HEAD}{}", suite(report));
    }
    let runs: String = scenarios.iter().map(step_result::suite).collect();
    let name = escaped(&format!(
        "Playgate certification of {}",
        text(report, "partner")
    ));
    format!(
        "{XML_HEAD}<testsuites name=\"{name}\">\n{runs}{}</testsuites>\n",
        suite(report)
    )
}

fn suite(report: &Value) -> String {
    // A broken `should` does not fail the client, so it must not fail a build.
    let fails = |rule: &&Value| text(rule, "result") == "failed" && text(rule, "level") == "must";
    let rules = elements(report, "rules");
    let count = rules.len();
    let failures = rules.iter().filter(fails).count();
    let passed = rules.iter().filter(|rule| text(rule, "result") == "passed");
    let skipped = count - failures - passed.count();
    let mut out = String::new();
    let name = format!(
        "Playgate conformance, rules version {}",
        number(report, "rulesVersion")
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" tests=\"{count}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"0\">",
        escaped(&name)
    );
    for rule in rules {
        case(rule, &mut out);
    }
    let _ = writeln!(
        out,
        "<system-out>{}\n{}</system-out>\n</testsuite>",
        escaped(&period(report)),
        escaped(&summary(report))
    );
    out
}

fn case(rule: &Value, out: &mut String) {
    let (id, level) = (text(rule, "id"), text(rule, "level"));
    let _ = write!(
        out,
        "<testcase classname=\"playgate.{level}\" name=\"{}\" time=\"0\"",
        escaped(id)
    );
    let finding = escaped(text(rule, "finding"));
    let body = match (text(rule, "result"), level) {
        ("passed", _) => return out.push_str("/>\n"),
        ("failed", "must") => {
            let detail = format!(
                "{} ({})\nInterface {}\nRequests {}",
                text(rule, "title"),
                text(rule, "threshold"),
                text(rule, "interface"),
                evidence(rule)
            );
            format!(
                "<failure message=\"{finding}\" type=\"{level}\">{}</failure>",
                escaped(&detail)
            )
        }
        ("failed", _) => format!("<skipped message=\"should: {finding}\"/>"),
        ("waived", _) => format!(
            "<skipped message=\"waived: {}\"/>",
            escaped(text(rule, "reason"))
        ),
        _ => "<skipped message=\"not seen\"/>".to_owned(),
    };
    let _ = writeln!(out, ">{body}</testcase>");
}
