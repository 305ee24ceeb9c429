//! What commands print as JSON, for scripts: every form is in a golden file, with the kind of a value in
//! place of the value. `PLAYGATE_RENEW=1 cargo test --test it cli_json_golden` rewrites it.

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

/// Of the golden files: what commands take, and what they print.
const HELP: &str = include_str!("golden/help.txt");
const FORMS: &str = "tests/it/golden/json.txt";

const ANN: &str = "ann@example.org";

/// The forms that were seen, each below its command.
struct Seen {
    folder: TempDir,
    text: String,
    commands: BTreeSet<String>,
}

impl Seen {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command that ends with this code, and takes down what it prints.
    fn ends(&mut self, code: i32, command: &str, arguments: &[&str]) -> Value {
        let words = command.split(' ');
        let mut run = playgate(&self.data());
        run.current_dir(self.folder.path());
        run.args(words).args(arguments).arg("--json");
        let Output {
            status,
            stdout,
            stderr,
        } = run.output_in_time();
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(code), "{command} {arguments:?}: {said}");
        let told: Value = serde_json::from_slice(&stdout).expect(command);
        self.takes_down(command, &told);
        told
    }

    fn tells(&mut self, command: &str, arguments: &[&str]) -> Value {
        self.ends(0, command, arguments)
    }

    fn takes_down(&mut self, command: &str, told: &Value) {
        if self.commands.insert(command.to_owned()) {
            let form = serde_json::to_string_pretty(&form(told)).unwrap();
            writeln!(self.text, "==== playgate {command} --json\n{form}\n").unwrap();
        }
    }
}

/// A value with the kinds of its leaves, and each kind of element of an array once.
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
            let formed = |(name, value): (&String, &Value)| (name.clone(), form(value));
            Value::Object(members.iter().map(formed).collect())
        }
    }
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

/// Every command that takes `--json`, but those of a fleet, which need an etcd: the tests of `fleet` read what they print.
/// A rollback needs an upgraded package.
fn commands() -> BTreeSet<String> {
    let helps = HELP.split("==== playgate ").skip(1);
    helps
        .filter(|help| help.contains("\n      --json\n") && !help.starts_with("fleet "))
        .filter(|help| !help.starts_with("upgrade rollback "))
        .map(|help| help.split(" --help").next().unwrap().to_owned())
        .collect()
}

/// An operator's work, with a server and then without one.
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
    let mut seen = Seen {
        folder,
        text: String::new(),
        commands: BTreeSet::new(),
    };
    let settings = ["--config", config.to_str().unwrap()];
    let server = Appliance::start_with(&seen.data(), &settings);
    of_partners_and_operators(&mut seen);
    of_content(&mut seen, &server);
    of_users(&mut seen, &server);
    of_mail_and_telemetry(&mut seen);
    of_requests(&mut seen);
    of_upkeep(&mut seen, server);
    of_the_machine(&mut seen);
    of_the_demo(&mut seen);

    assert_eq!(seen.commands, commands());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FORMS);
    if std::env::var_os("PLAYGATE_RENEW").is_some() {
        fs::write(&path, &seen.text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    for (was, is) in golden.split("==== ").zip(seen.text.split("==== ")) {
        assert_eq!(was, is);
    }
    assert_eq!(golden.len(), seen.text.len());
}

fn of_partners_and_operators(seen: &mut Seen) {
    seen.tells("partner add", &["house"]);
    seen.tells("partner token add", &["house"]);
    seen.tells("partner token list", &["house"]);
    seen.tells("partner list", &[]);
    seen.tells("partner show", &["house"]);
    let id = |added: &Value| added["tokenId"].as_str().unwrap().to_owned();
    let added = seen.tells("partner token add", &["house"]);
    seen.tells("partner token revoke", &["house", &id(&added)]);
    seen.tells("partner set", &["house", "--telemetry-duration-unit", "s"]);
    seen.tells("partner disable", &["house"]);
    seen.tells("partner enable", &["house"]);
    seen.tells("operator add", &["olga", "--role", "content"]);
    let added = seen.tells("operator token add", &["olga"]);
    seen.tells("operator token revoke", &["olga", &id(&added)]);
    seen.tells("operator token list", &["olga"]);
    seen.tells("operator list", &[]);
    seen.tells("operator revoke", &["olga"]);
}

fn of_content(seen: &mut Seen, server: &Appliance) {
    seen.tells("partner remove", &["house", "--yes"]);
    // Before the server fetches it by itself.
    seen.tells("epg refresh", &["main", "--accept"]);
    seen.tells("epg sources", &[]);
    Scene::set(server);
    seen.tells("rights set", &["--broadcast", "p0", "--live", "off"]);
    seen.tells("rights clear", &["p0"]);
    seen.tells("rule add", &["--title", "*Football*", "--live", "off"]);
    seen.tells("rule list", &[]);
    seen.tells("rule remove", &["1"]);
    seen.tells("epg why", &["p0"]);
    let catalog = seen.file(
        "catalog.toml",
        "[[asset]]\nid = \"film\"\n[[offer]]\nid = \"pass\"\ntype = \"pass\"\npack = \"all\"\n",
    );
    seen.tells("catalog import", &[&catalog, "--merge"]);
    seen.tells("catalog export", &[]);
    seen.tells("catalog history", &[]);
    seen.tells("catalog undo", &[]);
    server.does(&["catalog", "import", &catalog, "--merge"]);
    let guide = seen.file("guide.json", "{\"news\": []}");
    seen.tells("epg import", &[&guide, "--dry-run"]);
}

fn of_users(seen: &mut Seen, server: &Appliance) {
    let password = seen.file("password", PASSWORD);
    seen.tells(
        "user add",
        &[ANN, "--partner", "test", "--password-file", &password],
    );
    let users = seen.file(
        "users",
        "{\"email\": \"eve@example.org\"}\n{\"email\": \"no address\"}\n",
    );
    seen.ends(1, "user import", &[&users, "--partner", "test"]);
    seen.tells("user change", &[ANN, "--tags", "vip"]);
    seen.tells("user list", &[]);
    seen.tells("user show", &[ANN]);
    seen.tells("user grant", &[ANN, "pass"]);
    seen.tells("user offers", &[ANN]);
    seen.tells("user revoke", &[ANN, "pass"]);
    server.does(&["user", "grant", ANN, "pass"]);
    seen.tells("user disable", &[ANN]);
    seen.tells("user enable", &[ANN]);
    seen.tells("user pin", &[ANN]);
    seen.tells("user reset", &[ANN]);
    seen.tells("user add", &["bob@example.org", "--partner", "test"]);
    seen.tells("user remove", &["bob@example.org", "--yes"]);
    seen.tells("user why", &[ANN, "news"]);
    let partner = seen.tells("partner token add", &["test"]);
    let viewer = Viewer {
        partner: partner["accessToken"].as_str().unwrap().to_owned(),
        email: ANN.to_owned(),
        from: server.address.ip(),
        to: server.address,
    };
    let mut visit = viewer.starts().unwrap();
    seen.tells("user sessions", &[ANN]);
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
    seen.tells("user logout", &[ANN]);
}

fn of_mail_and_telemetry(seen: &mut Seen) {
    seen.tells("clock accept", &[]);
    seen.tells("mail test", &[ANN]);
    let mails = seen.tells("mail list", &[]);
    let newest = mails[0]["id"].as_str().unwrap();
    seen.tells("mail show", &[newest]);
    seen.tells("mail preview", &["reset"]);
    seen.tells("telemetry report", &[]);
}

/// `tail` runs until it is ended, so its first line is read.
fn of_requests(seen: &mut Seen) {
    let kept = seen.tells("requests list", &["--user", ANN]);
    let mut kept = kept.as_array().unwrap().iter();
    let entitlement = kept.find(|one| one["route"] == "entitlement").unwrap();
    seen.tells("requests show", &[entitlement["id"].as_str().unwrap()]);
    let mut tail = playgate(&seen.data());
    tail.args(["requests", "tail", "--route", "entitlement", "--json"]);
    let (_running, first) = first_json_line(&mut tail);
    seen.takes_down("requests tail", &first);
    seen.tells("lab check", &["--partner", "test"]);
}

fn of_upkeep(seen: &mut Seen, mut server: Appliance) {
    let backup = seen.tells("backup create", &[]);
    let backup = backup["path"].as_str().unwrap();
    seen.tells("backup list", &[]);
    seen.tells("backup verify", &[backup]);
    seen.tells("audit list", &[]);
    seen.tells("store verify", &[]);
    seen.tells("store rebuild", &[]);
    server.end();
    seen.tells("store compact", &[]);
    seen.tells("store recover", &[]);
    seen.tells("catalog drop-keys", &["--yes"]);
    let text = seen.folder.path().join("store.txt");
    let export = playgate(&seen.data())
        .args(["store", "export"])
        .arg(&text)
        .output_in_time();
    assert!(export.status.success(), "{}", err(&export));
    seen.tells("backup restore", &[backup]);
    seen.tells(
        "store import",
        &[text.to_str().unwrap(), "--data-dir", "other"],
    );
}

fn of_the_machine(seen: &mut Seen) {
    seen.tells("config show", &[]);
    seen.tells("config keys", &[]);
    let mistakes = seen.file(
        "mistakes.toml",
        "listn = []\nenvironment = \"staging\"\n[epg]\nratings = \"/nowhere\"\n",
    );
    seen.ends(2, "config check", &["--config", &mistakes]);
    seen.ends(1, "doctor", &[]);
    seen.tells("upgrade check", &[]);
    seen.ends(1, "healthcheck", &[]);
}

/// What only a running demo does.
fn of_the_lab(seen: &mut Seen) {
    let of_demo = |seen: &mut Seen, command: &str, arguments: &[&str]| {
        let place = ["--data-dir", "demo"];
        seen.tells(command, &[arguments, &place].concat())
    };
    of_demo(seen, "clock show", &[]);
    of_demo(seen, "clock advance", &["15m"]);
    of_demo(seen, "clock freeze", &[]);
    of_demo(seen, "clock scale", &["60"]);
    of_demo(seen, "clock set", &["-15m"]);
    of_demo(seen, "clock reset", &["--partner", "demo"]);
    let fault = r#"{"route": "live", "times": 1, "until": "1m", "do": {"delay": "1s"}}"#;
    of_demo(seen, "lab fault add", &[fault]);
    of_demo(seen, "lab fault list", &[]);
    of_demo(seen, "lab fault clear", &[]);
    of_demo(seen, "lab reset", &["demo", "--fixture", "demo"]);
    of_demo(seen, "lab run", &[]);
}

fn of_the_demo(seen: &mut Seen) {
    let mut demo = binary();
    demo.current_dir(seen.folder.path());
    demo.args(["demo", "--listen", "127.0.0.1:0", "--json"]);
    demo.args(["--data-dir", "demo"]);
    let (_running, first) = first_json_line(&mut demo);
    of_the_lab(seen);
    seen.takes_down("demo", &first);
}
