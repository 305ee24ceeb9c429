//! The report as a self-contained HTML page, without scripts and other files.

use std::fmt::Write as _;

use serde_json::Value;

use super::{failure, name_of, period, result_of, summary};
use crate::output::members::{elements, number, text, texts};
use playgate_types::html_escape::escaped;

const SKELETON: &str = include_str!("../../../../../data/pages/conformance.html");
const STYLE: &str = include_str!("../../../../../data/pages/conformance.css");

pub(super) fn page(report: &Value) -> String {
    let mut rows = String::new();
    // Failed rules come first, since readers look for them.
    for wanted in ["failed", "notSeen", "waived", "passed"] {
        let rules = elements(report, "rules").iter();
        for rule in rules.filter(|rule| text(rule, "result") == wanted) {
            row(rule, wanted, &mut rows);
        }
    }
    let verdict = text(report, "verdict");
    SKELETON
        .replace("{style}", STYLE)
        .replace("{verdict}", verdict)
        .replace("{version}", &number(report, "rulesVersion").to_string())
        .replace("{partner}", &escaped(text(report, "partner")))
        .replace("{period}", &escaped(&period(report)))
        .replace("{summary}", &escaped(&summary(report)))
        .replace("{scenarios}", &of_scenarios(report))
        // Last: texts of rules may contain the name of another placeholder.
        .replace("{rows}", &rows)
}

fn of_scenarios(report: &Value) -> String {
    let scenarios = elements(report, "scenarios");
    if scenarios.is_empty() {
        return String::new();
    }
    let mut out = "<ol class=\"scenarios\">\n".to_owned();
    for scenario in scenarios {
        let result = result_of(scenario);
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "<li class=\"{result}\"><p><b class=\"badge\">{result}</b> {} <code>{}</code></p>",
            escaped(text(scenario, "scenario")),
            escaped(text(scenario, "id")),
        );
        if let Some(why) = failure(scenario) {
            let _ = write!(out, "<p class=\"finding\">{}</p>", escaped(why));
        }
        out.push_str("</li>\n");
    }
    for id in texts(report, "notRun") {
        let id = escaped(id);
        let _ = writeln!(
            out,
            "<li><p><b class=\"badge\">not run</b> <code>{id}</code></p></li>"
        );
    }
    out.push_str("</ol>\n");
    out
}

fn row(rule: &Value, result: &str, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<li class=\"{result}\"><p><b class=\"badge\">{}</b> <span>{}</span> <code>{}</code></p><h2>{}</h2><p>{}</p>",
        name_of(result),
        text(rule, "level"),
        escaped(text(rule, "id")),
        escaped(text(rule, "title")),
        escaped(text(rule, "threshold")),
    );
    let _ = write!(
        out,
        "<p class=\"quiet\">Interface {}</p>",
        escaped(text(rule, "interface"))
    );
    if let Some(finding) = rule.get("finding").and_then(Value::as_str) {
        let times = number(rule, "breaches");
        let _ = write!(
            out,
            "<p class=\"finding\">{} ({times} of {} cases)</p>",
            escaped(finding),
            number(rule, "checked")
        );
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str) {
        let _ = write!(out, "<p>Waived: {}</p>", escaped(reason));
    }
    let ids: Vec<&str> = texts(rule, "evidence").collect();
    if !ids.is_empty() {
        let _ = write!(
            out,
            "<details><summary>{} requests</summary><ul>",
            ids.len()
        );
        for id in ids {
            let _ = write!(out, "<li><code>{}</code></li>", escaped(id));
        }
        out.push_str("</ul></details>");
    }
    out.push_str("</li>\n");
}
