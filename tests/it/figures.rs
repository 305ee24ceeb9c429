//! The metrics as others read them: what is served is as Prometheus wants it, and the board and the
//! alert rules of the package name nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::appliance::Appliance;

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(name)
}

/// Every expression of the board.
fn board() -> Vec<String> {
    let text = fs::read_to_string(packaged("playgate-dashboard.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// The rules as text; what they say to people names no metric.
fn rules() -> String {
    fs::read_to_string(packaged("playgate-alerts.yml")).unwrap()
}

fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("playgate_"))
        .collect()
}

/// The labels that an expression compares, with each value that it names; not those that a reader of
/// the board chooses.
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

/// Runs promtool, which must be there where CI=true.
fn promtool(arguments: &[&str], input: &str) {
    let started = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut process) = started else {
        let must = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!must, "promtool is absent");
        eprintln!("skipped: promtool is absent");
        return;
    };
    let mut stdin = process.stdin.take().unwrap();
    // Of a file that is named it reads nothing.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}: {said}{told}");
    assert!(told.is_empty(), "{arguments:?}: {told}");
}

#[test]
fn board_and_alerts_name_what_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("playgate.toml");
    let source = "telemetry.forward.url = \"http://127.0.0.1:1/\"\n\
                  [[epg.sources]]\nname = \"main\"\nurl = \"/nowhere\"\n";
    fs::write(&config, source).unwrap();
    let data = folder.path().join("data");
    let appliance = Appliance::start_with(&data, &["--config", config.to_str().unwrap()]);
    let served = appliance.metrics();
    promtool(&["check", "metrics"], &served);

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
    for (file, text) in [("board", board().join("\n")), ("rules", rules())] {
        let named = names(&text);
        assert!(named.len() > 10, "{file}: {named:?}");
        for name in named {
            assert!(known.contains(name), "the {file} names {name}");
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
fn rules_and_board_are_what_prometheus_reads() {
    let path = packaged("playgate-alerts.yml");
    promtool(&["check", "rules", path.to_str().unwrap()], "");
    // The board has variables that Grafana fills in; with something in their place its expressions
    // are rules like others.
    let as_rules: String = board()
        .iter()
        .map(|expression| {
            let filled = expression
                .replace("$__rate_interval", "5m")
                .replace("$instance", ".*");
            format!("      - record: a\n        expr: '{filled}'\n")
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.yml");
    let text = format!("groups:\n  - name: board\n    rules:\n{as_rules}");
    fs::write(&path, text).unwrap();
    // The same name for all of them is a remark that promtool makes, and no mistake here.
    promtool(
        &["check", "rules", "--lint=none", path.to_str().unwrap()],
        "",
    );
}
