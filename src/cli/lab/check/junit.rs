//! The report as JUnit XML, for the test view of a CI system.

use std::fmt::Write as _;

use serde_json::Value;

use super::{evidence, number, rules, summary, text};
use crate::types::html_escape::escape;

/// A `should` that is broken does not fail the client, so it must not fail a build.
pub(super) fn suite(report: &Value) -> String {
    let fails = |rule: &&Value| text(rule, "result") == "failed" && text(rule, "level") == "must";
    let all = rules(report).count();
    let failures = rules(report).filter(fails).count();
    let skipped = all
        - failures
        - rules(report)
            .filter(|rule| text(rule, "result") == "passed")
            .count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let name = format!(
        "Playgate conformance, rules version {}",
        number(report, "rulesVersion")
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" tests=\"{all}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"0\">",
        escaped(&name)
    );
    for rule in rules(report) {
        case(rule, &mut out);
    }
    let _ = writeln!(
        out,
        "<system-out>{}</system-out>\n</testsuite>",
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
                evidence(rule).join(" ")
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

/// XML has the same five characters as HTML, and no control characters at all.
fn escaped(text: &str) -> String {
    let text: String = text
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let mut out = String::new();
    escape(&text, &mut out);
    out
}
