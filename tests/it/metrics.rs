//! The metrics as monitoring uses them: promtool accepts them, and the packaged dashboard and alert rules refer to
//! nothing else.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use playgate_ports::{Clock as _, SystemClock};
use serde_json::Value;

use crate::support::appliance::Appliance;
use crate::support::certificates::certificates;
use crate::support::external_tools::{packaged, program};
use crate::support::process::InTime as _;

/// Returns every expression of the dashboard.
fn dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&packaged("playgate-dashboard.json", &[])).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The rules contain no metric name in their texts for people.
fn rules() -> String {
    packaged("playgate-alerts.yml", &[])
}

/// Returns the value of a metric without labels.
fn value(served: &str, name: &str) -> i64 {
    let line = served.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().parse().unwrap()
}

fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("playgate_"))
        .collect()
}

/// Returns the labels that an expression compares with their values, except those that a reader of the dashboard
/// chooses.
fn labels(text: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let parts: Vec<&str> = text.split('"').collect();
    for pair in parts.windows(2) {
        let Some(label) = pair[0]
            .strip_suffix("=~")
            .or_else(|| pair[0].strip_suffix('='))
        else {
            continue;
        };
        let label = label.rsplit(['{', ',', ' ']).next().unwrap();
        let values = pair[1].split('|').filter(|value| !value.starts_with('$'));
        found.extend(values.map(|value| (label.to_owned(), value.to_owned())));
    }
    found
}

/// Returns the complaints of promtool in a folder with these files. The first file is also its standard input.
fn complaints(promtool: &Path, arguments: &[&str], files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let output = Command::new(promtool)
        .args(arguments)
        .current_dir(folder.path())
        .stdin(File::open(folder.path().join(files[0].0)).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .output_in_time();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && stderr.is_empty() {
        return String::new();
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    format!("{arguments:?}: {stdout}{stderr}")
}

#[test]
fn dashboard_and_alerts_name_existing_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("playgate.toml");
    let certificates = certificates();
    let (cert, key) = ["here.pem", "here.key"]
        .map(|name| certificates.path().join(name))
        .into();
    let source = format!(
        "telemetry.forward.url = \"http://127.0.0.1:1/\"\n\
         tls.listen = [\"127.0.0.1:0\"]\ntls.cert = {cert:?}\ntls.key = {key:?}\n\
         [[epg.sources]]\nname = \"main\"\nurl = \"/nowhere\"\n"
    );
    fs::write(&config, source).unwrap();
    let data = folder.path().join("data");
    let appliance = Appliance::start_with(&data, &["--config", config.to_str().unwrap()]);
    // Refusals are counted from the first one on.
    let refused = appliance.ask("GET", "/api/catalog/v1/livestreams", &[], "");
    assert_eq!(refused.status, 401);
    let served = appliance.metrics();
    if let Some(promtool) = program("promtool") {
        let files = [("metrics", served.as_str())];
        assert_eq!(complaints(&promtool, &["check", "metrics"], &files), "");
    }
    let ends = value(&served, "playgate_tls_certificate_end_timestamp_seconds");
    let days = (ends - SystemClock.now().0) / 86_400;
    assert!((3_649..=3_650).contains(&days), "{days}");
    assert_eq!(value(&served, "playgate_ready"), 1);
    // Prometheus sets these labels and would rename ours.
    for label in ["job", "instance"] {
        let ours = [format!("{{{label}=\""), format!(",{label}=\"")];
        assert!(!ours.iter().any(|ours| served.contains(ours)), "{label}");
    }

    let mut known = BTreeSet::new();
    for line in served.lines() {
        let Some(family) = line.strip_prefix("# TYPE ") else {
            continue;
        };
        match family.split_once(' ').unwrap() {
            (name, "histogram") => {
                known.extend(["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}")));
            }
            (name, _) => drop(known.insert(name.to_owned())),
        }
    }
    for (file, text) in [("board", dashboard().join("\n")), ("rules", rules())] {
        let named = names(&text);
        assert!(named.len() > 10, "{file}: {named:?}");
        for name in named {
            // A single node has none of these; the fleet tests check them.
            let of_fleet = name.starts_with("playgate_fleet_");
            assert!(of_fleet || known.contains(name), "the {file} names {name}");
        }
        let compared = labels(&text);
        assert!(compared.len() > 3, "{file}: {compared:?}");
        for (label, value) in compared {
            let pair = format!("{label}=\"{value}\"");
            assert!(served.contains(&pair), "the {file} looks for {pair}");
        }
    }
}

#[test]
fn prometheus_accepts_rules_and_dashboard_queries() {
    let Some(promtool) = program("promtool") else {
        return;
    };
    let check = ["check", "rules", "alerts"];
    let alerts = complaints(&promtool, &check, &[("alerts", &rules())]);
    assert_eq!(alerts, "");
    // Grafana fills in the variables of the dashboard; with values in their place its expressions are checked as rules.
    let as_rules: String = dashboard()
        .iter()
        .map(|expression| {
            let filled = expression
                .replace("$__rate_interval", "5m")
                .replace("$instance", ".*");
            format!("      - record: a\n        expr: '{filled}'\n")
        })
        .collect();
    let text = format!("groups:\n  - name: board\n    rules:\n{as_rules}");
    // promtool's lint warns that all have the same name, which is no mistake here.
    let check = ["check", "rules", "--lint=none", "board"];
    assert_eq!(complaints(&promtool, &check, &[("board", &text)]), "");
}

/// `alerts.yml` has series that make each alert fire and series that just do not. Whether each alert has both is
/// checked with rules that never fire, that always fire, and that do not wait.
#[test]
fn alerts_fire_under_their_conditions() {
    let Some(promtool) = program("promtool") else {
        return;
    };
    let test = |rules: &str| {
        let path = "../../packaging/playgate-alerts.yml";
        let tests = include_str!("alerts.yml").replace(path, "rules");
        let files = [("tests", tests.as_str()), ("rules", rules)];
        complaints(&promtool, &["test", "rules", "tests"], &files)
    };
    let rules = rules();
    assert_eq!(test(&rules), "");

    let begins = "      - alert: ";
    let (head, alerts) = rules.split_once(begins).unwrap();
    let alerts: Vec<(&str, &str)> = alerts
        .split(begins)
        .map(|alert| alert.split_once('\n').unwrap())
        .collect();
    let every = |expression: &str| {
        let part =
            |(name, _): &(&str, &str)| format!("{begins}{name}\n        expr: {expression}\n");
        test(&(head.to_owned() + &alerts.iter().map(part).collect::<String>()))
    };
    let (never, always) = (every("vector(1) < 0"), every("vector(1)"));
    let waits = |line: &str| line.trim_start().starts_with("for: ");
    let at_once: Vec<&str> = rules.lines().filter(|line| !waits(line)).collect();
    let at_once = test(&at_once.join("\n"));
    for (name, rule) in alerts {
        let label_text = format!("alertname=\\\"{name}\\\"");
        let complained = |complaints: &str, part: &str| {
            let mut each = complaints.split("expr: ");
            each.any(|one| one.contains(&label_text) && one.contains(part))
        };
        let has_to_wait = complained(&at_once, "exp: nil");
        assert!(complained(&never, "got: nil"), "{name} fires in no test");
        assert!(complained(&always, "exp: nil"), "no test has {name} quiet");
        assert!(
            has_to_wait || !rule.lines().any(waits),
            "{name} need not wait"
        );
    }
}
