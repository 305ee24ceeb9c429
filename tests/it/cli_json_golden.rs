//! The JSON output of every command equals a golden file, which has the kind of each value instead of the value.
//! `PLAYGATE_RENEW=1 cargo test --test it cli_json_golden` rewrites it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use chrono::DateTime;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::appliance::real_time;
use crate::support::appliance::{Appliance, binary, err, playgate};
use crate::support::audience::{Scene, Viewer};
use crate::support::process::{InTime as _, first_json_line};
use crate::support::server::PASSWORD;
use crate::support::until::until;

/// The golden files of `--help` (input: which commands take `--json`) and of JSON output.
const HELP: &str = include_str!("golden/help.txt");
const FORMS: &str = "tests/it/golden/json.txt";

const ANN: &str = "ann@example.org";

/// The recorded output forms, each below its command.
struct Recorder {
    folder: TempDir,
    text: String,
    commands: BTreeSet<String>,
}

impl Recorder {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command that must end with this exit code, and records its output.
    fn record_exit(&mut self, code: i32, command: &str, arguments: &[&str]) -> Value {
        let words = command.split(' ');
        let mut run = playgate(&self.data());
        run.current_dir(self.folder.path());
        run.args(words).args(arguments).arg("--json");
        let Output {
            status,
            stdout,
            stderr,
        } = run.output_in_time();
        let stderr_text = String::from_utf8_lossy(&stderr);
        assert_eq!(
            status.code(),
            Some(code),
            "{command} {arguments:?}: {stderr_text}"
        );
        let output: Value = serde_json::from_slice(&stdout).expect(command);
        self.add(command, &output);
        output
    }

    fn record(&mut self, command: &str, arguments: &[&str]) -> Value {
        self.record_exit(0, command, arguments)
    }

    fn add(&mut self, command: &str, output: &Value) {
        if self.commands.insert(command.to_owned()) {
            let form = serde_json::to_string_pretty(&form(output)).unwrap();
            writeln!(self.text, "==== playgate {command} --json\n{form}\n").unwrap();
        }
    }
}

/// Replaces each value by its kind, and lists each kind of array element once.
fn form(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("true or false"),
        Value::Number(number) if number.is_f64() => json!("number"),
        Value::Number(_) => json!("integer"),
        Value::String(text) => json!(kind(text)),
        Value::Array(all) => {
            let mut forms: Vec<Value> = all.iter().map(form).collect();
            forms.sort_by_key(Value::to_string);
            forms.dedup();
            Value::Array(forms)
        }
        Value::Object(members) => {
            let formed = |(name, value): (&String, &Value)| match name.as_str() {
                "tables" if value.is_object() => (name.clone(), form_of_tables(value)),
                _ => (name.clone(), form(value)),
            };
            Value::Object(members.iter().map(formed).collect())
        }
    }
}

/// Lists each kind of value once, because the background jobs decide which tables have records, such as pending erasures.
fn form_of_tables(tables: &Value) -> Value {
    let values = tables.as_object().unwrap().values().cloned();
    json!({"name of a table": form(&values.collect())})
}

fn kind(text: &str) -> &'static str {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_hexdigit() { 'x' } else { c })
        .collect();
    if shape == "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" {
        "uuid"
    } else if DateTime::parse_from_rfc3339(text).is_ok() {
        "time"
    } else {
        "text"
    }
}

/// Returns every command that takes `--json`, except those that need an etcd (the tests of `fleet` read their output)
/// or an upgraded package.
fn commands() -> BTreeSet<String> {
    let helps = HELP.split("==== playgate ").skip(1);
    helps
        .filter(|help| help.contains("\n      --json\n") && !help.starts_with("fleet "))
        .filter(|help| !help.starts_with("upgrade rollback "))
        .map(|help| help.split(" --help").next().unwrap().to_owned())
        .collect()
}

/// Runs the commands of an operator with a server and then without one.
#[test]
fn json_output_of_commands_equals_the_golden_file() {
    let folder = tempfile::tempdir().unwrap();
    let guide = folder.path().join("guide.xml");
    let source = format!(
        "[[epg.sources]]\nname = \"main\"\nurl = \"{}\"\n",
        guide.display()
    );
    let config = folder.path().join("playgate.toml");
    fs::write(&config, source).unwrap();
    fs::write(&guide, "<tv><channel id=\"news\"/></tv>").unwrap();
    let mut recorder = Recorder {
        folder,
        text: String::new(),
        commands: BTreeSet::new(),
    };
    let settings = ["--config", config.to_str().unwrap()];
    let server = Appliance::start_with(&recorder.data(), &settings);
    record_partners_and_operators(&mut recorder);
    record_content(&mut recorder, &server);
    record_users(&mut recorder, &server);
    record_mail_and_telemetry(&mut recorder);
    record_requests(&mut recorder);
    record_maintenance(&mut recorder, server);
    record_configuration_and_doctor(&mut recorder);
    record_demo(&mut recorder);

    assert_eq!(recorder.commands, commands());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FORMS);
    if std::env::var_os("PLAYGATE_RENEW").is_some() {
        fs::write(&path, &recorder.text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    for (was, is) in golden.split("==== ").zip(recorder.text.split("==== ")) {
        assert_eq!(was, is);
    }
    assert_eq!(golden.len(), recorder.text.len());
}

fn record_partners_and_operators(recorder: &mut Recorder) {
    recorder.record("partner add", &["house"]);
    recorder.record("partner token add", &["house"]);
    recorder.record("partner token list", &["house"]);
    recorder.record("partner list", &[]);
    recorder.record("partner show", &["house"]);
    let id = |added: &Value| added["tokenId"].as_str().unwrap().to_owned();
    let added = recorder.record("partner token add", &["house"]);
    recorder.record("partner token remove", &["house", &id(&added)]);
    recorder.record(
        "partner change",
        &["house", "--telemetry-duration-unit", "s"],
    );
    recorder.record("partner disable", &["house"]);
    recorder.record("partner enable", &["house"]);
    recorder.record("operator add", &["olga", "--role", "content"]);
    let added = recorder.record("operator token add", &["olga"]);
    recorder.record("operator token remove", &["olga", &id(&added)]);
    recorder.record("operator token list", &["olga"]);
    recorder.record("operator list", &[]);
    recorder.record("operator remove", &["olga"]);
}

fn record_content(recorder: &mut Recorder, server: &Appliance) {
    recorder.record("partner remove", &["house", "--yes"]);
    // The server fetches the source by itself, seconds after the start. That must not happen between the next commands.
    until("the first fetch", || {
        let (_, sources) = server.operator("GET", "/admin/v1/epg/sources", "");
        sources.contains("\"lastAttempt\":")
    });
    recorder.record("epg refresh", &["main", "--accept"]);
    recorder.record("epg sources", &[]);
    Scene::install(server);
    recorder.record("rights change", &["p0", "--live", "off"]);
    recorder.record("rights remove", &["p0"]);
    recorder.record("rule add", &["--title", "*Football*", "--live", "off"]);
    recorder.record("rule list", &[]);
    recorder.record("rule remove", &["1"]);
    recorder.record("epg why", &["p0"]);
    let catalog = recorder.file(
        "catalog.toml",
        "[[asset]]\nid = \"film\"\n[[offer]]\nid = \"pass\"\ntype = \"pass\"\npack = \"all\"\n",
    );
    recorder.record("catalog import", &[&catalog, "--merge"]);
    recorder.record("catalog export", &[]);
    recorder.record("catalog history", &[]);
    recorder.record("catalog undo", &["--yes"]);
    server.run_ok(&["catalog", "import", &catalog, "--merge"]);
    let guide = recorder.file("guide.json", "{\"news\": []}");
    recorder.record("epg import", &[&guide, "--dry-run"]);
}

fn record_users(recorder: &mut Recorder, server: &Appliance) {
    let password = recorder.file("password", PASSWORD);
    recorder.record(
        "user add",
        &[ANN, "--partner", "test", "--password-file", &password],
    );
    let users = recorder.file(
        "users",
        "{\"email\": \"eve@example.org\"}\n{\"email\": \"no address\"}\n",
    );
    recorder.record_exit(1, "user import", &[&users, "--partner", "test"]);
    recorder.record("user change", &[ANN, "--tags", "vip"]);
    recorder.record("user list", &[]);
    recorder.record("user show", &[ANN]);
    recorder.record("user grant", &[ANN, "pass"]);
    recorder.record("user offers", &[ANN]);
    recorder.record("user revoke", &[ANN, "pass"]);
    server.run_ok(&["user", "grant", ANN, "pass"]);
    recorder.record("user disable", &[ANN]);
    recorder.record("user enable", &[ANN]);
    recorder.record("user pin", &[ANN]);
    recorder.record("user reset", &[ANN]);
    recorder.record("user add", &["bob@example.org", "--partner", "test"]);
    recorder.record("user remove", &["bob@example.org", "--yes"]);
    recorder.record("user why", &[ANN, "news"]);
    let partner = recorder.record("partner token add", &["test"]);
    let viewer = Viewer {
        partner: partner["accessToken"].as_str().unwrap().to_owned(),
        email: ANN.to_owned(),
        from: server.address.ip(),
        to: server.address,
    };
    let mut visit = viewer.start().unwrap();
    recorder.record("user sessions", &[ANN]);
    recorder.record("user devices", &[ANN]);
    recorder.record("user streams", &[ANN]);
    recorder.record("user watching", &[]);
    let event = json!([{
        "timestamp": real_time().0,
        "source": "APP_ACTION",
        "component": "player",
        "action": "playback_buffering",
        "seqId": 1,
        "context": {"playback_buffering_type": "initial", "duration": 640, "asset_id": "news"},
    }]);
    let target = "/api/tracker/v1/telemetry-events";
    let taken = visit.ask("POST", target, &event.to_string()).unwrap();
    assert_eq!(taken.status, 202, "{}", taken.json());
    recorder.record("user logout", &[ANN]);
}

fn record_mail_and_telemetry(recorder: &mut Recorder) {
    recorder.record("clock accept", &[]);
    recorder.record("mail test", &[ANN]);
    let mails = recorder.record("mail list", &[]);
    let newest = mails[0]["id"].as_str().unwrap();
    recorder.record("mail show", &[newest]);
    recorder.record("mail preview", &["reset"]);
    recorder.record("mail retry", &[]);
    recorder.record("telemetry report", &[]);
}

/// `tail` runs until it is stopped, so only its first line is read.
fn record_requests(recorder: &mut Recorder) {
    let kept = recorder.record("requests list", &["--user", ANN]);
    let mut kept = kept.as_array().unwrap().iter();
    let entitlement = kept.find(|one| one["route"] == "entitlement").unwrap();
    recorder.record("requests show", &[entitlement["id"].as_str().unwrap()]);
    let mut tail = playgate(&recorder.data());
    tail.args(["requests", "tail", "--route", "entitlement", "--json"]);
    let (_running, first) = first_json_line(&mut tail);
    recorder.add("requests tail", &first);
    recorder.record("lab check", &["--partner", "test"]);
}

fn record_maintenance(recorder: &mut Recorder, mut server: Appliance) {
    let backup = recorder.record("backup create", &[]);
    let backup = backup["path"].as_str().unwrap();
    recorder.record("backup list", &[]);
    recorder.record("backup verify", &[backup]);
    recorder.record("audit list", &[]);
    recorder.record("store verify", &[]);
    recorder.record("store rebuild", &[]);
    server.end();
    recorder.record("store compact", &[]);
    recorder.record("store recover", &[]);
    recorder.record("catalog drop-keys", &["--yes"]);
    let text = recorder.folder.path().join("store.txt");
    let export = playgate(&recorder.data())
        .args(["store", "export"])
        .arg(&text)
        .output_in_time();
    assert!(export.status.success(), "{}", err(&export));
    recorder.record("backup restore", &[backup]);
    recorder.record(
        "store import",
        &[text.to_str().unwrap(), "--data-dir", "other"],
    );
}

fn record_configuration_and_doctor(recorder: &mut Recorder) {
    recorder.record("config show", &[]);
    recorder.record("config keys", &[]);
    let mistakes = recorder.file(
        "mistakes.toml",
        "listn = []\nenvironment = \"staging\"\n[epg]\nratings = \"/nowhere\"\n",
    );
    recorder.record_exit(2, "config check", &["--config", &mistakes]);
    recorder.record_exit(1, "doctor", &[]);
    recorder.record("upgrade check", &[]);
    recorder.record_exit(1, "healthcheck", &[]);
}

/// Records commands that only work with a running demo.
fn record_lab(recorder: &mut Recorder) {
    let record_on_demo = |recorder: &mut Recorder, command: &str, arguments: &[&str]| {
        let place = ["--data-dir", "demo"];
        recorder.record(command, &[arguments, &place].concat())
    };
    record_on_demo(recorder, "clock show", &[]);
    record_on_demo(recorder, "clock advance", &["15m"]);
    record_on_demo(recorder, "clock freeze", &[]);
    record_on_demo(recorder, "clock scale", &["60"]);
    record_on_demo(recorder, "clock set", &["-15m"]);
    record_on_demo(recorder, "clock reset", &["--partner", "demo"]);
    let fault = r#"{"route": "live", "times": 1, "until": "1m", "do": {"delay": "1s"}}"#;
    record_on_demo(recorder, "lab fault add", &[fault]);
    record_on_demo(recorder, "lab fault list", &[]);
    record_on_demo(recorder, "lab fault remove", &[]);
    record_on_demo(recorder, "lab reset", &["demo", "--fixture", "demo"]);
    record_on_demo(recorder, "lab run", &[]);
}

fn record_demo(recorder: &mut Recorder) {
    let mut demo = binary();
    demo.current_dir(recorder.folder.path());
    demo.args(["demo", "--listen", "127.0.0.1:0", "--json"]);
    demo.args(["--data-dir", "demo"]);
    let (_running, first) = first_json_line(&mut demo);
    record_lab(recorder);
    recorder.add("demo", &first);
}
