//! The command line as scripts use it: output and exit codes of the built binary, with a running server and without
//! one.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::appliance::real_time;
use crate::support::demo::Demo;
use crate::support::external_tools::program;
use crate::support::metrics::{metric, scrape};
use crate::support::process::{InTime as _, KilledOnDrop, Lines};
use crate::support::raw_http::{ask, request};
use crate::support::until::{until, until_some};

fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playgate"));
    command
        .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
        .env("PLAYGATE_LOG_LEVEL", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct Data {
    folder: TempDir,
}

impl Data {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        binary()
            .args(arguments)
            .arg("--data-dir")
            .arg(self.path())
            .output_in_time()
    }

    /// Runs a command that must succeed. Returns its standard output.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// Runs a command that must fail. Returns its exit code and standard error.
    fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        let code = output.status.code().unwrap();
        assert_ne!(code, 0, "{arguments:?}");
        (code, err(&output))
    }

    fn serve(&self) -> Running {
        let mut command = binary();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.path());
        Running::start(command)
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running server and the first line of its output.
struct Running {
    process: KilledOnDrop,
    first: String,
    out: Lines,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let started = command.stderr(Stdio::inherit()).spawn();
        let mut process = KilledOnDrop(started.unwrap());
        let mut out = Lines::read(process.stdout.take().unwrap());
        let first = out.next().unwrap_or_default();
        Self {
            process,
            first,
            out,
        }
    }

    /// Stops the process. Returns its exit code.
    fn end(mut self) -> i32 {
        self.process.terminate();
        self.process.status_in_time().code().unwrap_or(-1)
    }
}

const CATALOG: &str = include_str!("../../data/demo/catalog.toml");

/// Returns a guide of `open` with hourly broadcasts from tomorrow on.
fn guide(broadcasts: i64) -> String {
    let first = real_time().0 / 3_600 * 3_600 + 86_400;
    let all: Vec<Value> = (0..broadcasts)
        .map(|n| json!({"title": format!("No. {n}"), "start": first + n * 3_600, "stop": first + (n + 1) * 3_600}))
        .collect();
    json!({"open": all}).to_string()
}

/// Runs each administrative command once. Its output must not depend on whether a server runs.
fn administer(data: &Data) {
    let acme = data.json(&["partner", "add", "Acme", "--json"]);
    assert_eq!(acme["accessToken"].as_str().unwrap().len(), 36);
    let partners = data.json(&["partner", "list", "--json"]);
    assert_eq!(partners[0]["partnerId"], acme["partnerId"]);
    let unit_of =
        || data.json(&["partner", "show", "Acme", "--json"])["telemetryDurationUnit"].clone();
    assert_eq!(unit_of(), "default");
    let set = ["partner", "set", "Acme", "--telemetry-duration-unit"];
    for unit in ["s", "ms", "default"] {
        data.ok(&[&set[..], &[unit]].concat());
        assert_eq!(unit_of(), unit);
    }
    assert_eq!(data.fails(&[&set[..], &["h"]].concat()).0, 2);
    assert_eq!(data.fails(&["partner", "show", "nobody"]).0, 3);
    let add = [
        "partner",
        "token",
        "add",
        "Acme",
        "--label",
        "television",
        "--json",
    ];
    let second = data.json(&add);
    let listed = listed_token(data, &second["tokenId"]);
    assert_eq!(
        (&listed["label"], listed.get("lastUsedTimestamp")),
        (&json!("television"), None)
    );
    assert_ne!(second["accessToken"], acme["accessToken"]);
    let token = second["tokenId"].as_str().unwrap();
    data.ok(&["partner", "token", "revoke", "Acme", token]);
    let tokens = data.json(&["partner", "token", "list", "Acme", "--json"]);
    assert_eq!(tokens.as_array().unwrap().len(), 1);
    let (code, why) = data.fails(&["partner", "add", "Acme"]);
    assert_eq!(code, 1, "{why}");

    let olga = data.json(&["operator", "add", "olga", "--role", "content", "--json"]);
    assert!(olga["token"].as_str().unwrap().starts_with("pgo_"));
    assert_eq!(
        data.json(&["operator", "list", "--json"])[0]["role"],
        "content"
    );
    data.ok(&["operator", "revoke", "olga"]);
    assert_eq!(data.fails(&["operator", "revoke", "olga"]).0, 3);

    let catalog = data.file("catalog.toml", CATALOG);
    let dry = data.json(&["catalog", "import", &catalog, "--dry-run", "--json"]);
    assert_eq!(dry["added"], 12);
    assert_eq!(
        data.json(&["catalog", "import", &catalog, "--json"])["added"],
        12
    );
    let again = data.json(&["catalog", "import", &catalog, "--json"]);
    assert_eq!(
        (&again["added"], &again["changed"], &again["removed"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let exported = data.file("exported.toml", &data.ok(&["catalog", "export"]));
    let same = data.json(&["catalog", "import", &exported, "--json"]);
    assert_eq!(
        (&same["added"], &same["changed"], &same["removed"]),
        (&json!(0), &json!(0), &json!(0))
    );

    import_guides(data);
    work_on_user(data);
    assert_eq!(data.json(&["store", "verify", "--json"])["sound"], true);
    assert_eq!(data.json(&["store", "rebuild", "--json"])["sound"], true);
    let backup = data.json(&["backup", "create", "--json"]);
    let listed = data.json(&["backup", "list", "--json"]);
    assert_eq!(listed[0]["path"], backup["path"]);
    for file in [&backup["path"], &listed[0]["name"]] {
        let verified = data.json(&["backup", "verify", "--json", file.as_str().unwrap()]);
        assert_eq!(verified["records"], backup["records"]);
    }
    assert_eq!(data.fails(&["backup", "verify", "none"]).0, 3);
    data.ok(&["telemetry", "export"]);
    assert!(data.json(&["telemetry", "report", "--json"])["rows"].is_array());
    data.ok(&["partner", "remove", "Acme", "--yes"]);
    assert_eq!(data.json(&["user", "list", "--json"]), json!([]));
    assert_eq!(data.fails(&["partner", "remove", "Acme", "--yes"]).0, 3);
}

#[test]
fn times_in_the_wrong_order_are_refused() {
    let data = Data::new();
    data.ok(&["partner", "add", "Acme"]);
    for reversed in [
        &["telemetry", "report", "--from", "5", "--to", "1"][..],
        &[
            "telemetry",
            "export",
            "--from",
            "9999-01-01T00:00:00Z",
            "--to",
            "-1h",
        ],
        &["requests", "list", "--from", "5", "--to", "1"],
    ] {
        let (code, stderr) = data.fails(reversed);
        assert!(
            code == 2 && stderr.contains("must not be after `to`"),
            "{stderr}"
        );
    }
    // In order, with relative times.
    data.ok(&["telemetry", "export", "--from", "-2h", "--to", "-1h"]);
}

#[test]
fn errors_are_json_with_json() {
    let data = Data::new();
    data.ok(&["partner", "add", "Acme"]);
    let error = |arguments: &[&str]| -> Value {
        let output = data.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.stdout, b"", "{arguments:?}");
        let stderr = err(&output);
        let error: Value = serde_json::from_str(stderr.lines().last().unwrap()).expect(&stderr);
        assert_eq!(
            error["error"]["exit"].as_i64(),
            output.status.code().map(i64::from)
        );
        error["error"].clone()
    };
    let unknown = error(&["user", "disable", "none@example.org"]);
    assert_eq!(unknown["code"], "USER_NOT_FOUND");
    assert!(unknown["message"].is_string(), "{unknown}");
    let unasked = error(&["partner", "remove", "Acme"]);
    assert_eq!(
        (&unasked["exit"], &unasked["hint"]),
        (&json!(2), &json!("add `--yes` to confirm"))
    );
    // clap finds this mistake.
    let mistake = error(&["user", "disable"]);
    assert!(
        mistake["message"].as_str().unwrap().contains("<USER>"),
        "{mistake}"
    );
    assert_eq!(mistake["exit"], 2);
    // Without `--json` errors are text; `--help` prints the help in both cases.
    let (code, text) = data.fails(&["partner", "remove", "Acme"]);
    assert!(code == 2 && text.contains("hint: add `--yes`"), "{text}");
    let (code, text) = data.fails(&["user", "disable"]);
    assert!(code == 2 && text.starts_with("error: "), "{text}");
    assert!(
        data.ok(&["user", "list", "--json", "--help"])
            .contains("Usage")
    );
}

fn listed_token(data: &Data, id: &Value) -> Value {
    let tokens = data.json(&["partner", "token", "list", "Acme", "--json"]);
    let mut tokens = tokens.as_array().unwrap().iter();
    tokens
        .find(|token| token["tokenId"] == *id)
        .unwrap()
        .clone()
}

fn import_guides(data: &Data) {
    let long = data.file("long.json", &guide(48));
    let figures = |report: &Value| {
        ["programmes", "added", "changed", "removed", "unchanged"]
            .map(|name| report[name].as_i64().unwrap())
    };
    let dry = data.json(&["epg", "import", &long, "--dry-run", "--json"]);
    assert_eq!(figures(&dry), [48, 48, 0, 0, 0]);
    let first = data.json(&["epg", "import", &long, "--json"]);
    assert_eq!(figures(&first), [48, 48, 0, 0, 0]);
    assert!(first["skipped"].is_object() && first["channels"].is_i64());
    let second = data.json(&["epg", "import", &long, "--json"]);
    assert_eq!(figures(&second), [48, 0, 0, 0, 48]);

    // Far fewer broadcasts than before: held, and imported when accepted.
    let short = data.file("short.json", &guide(4));
    let output = data.run(&["epg", "import", &short, "--json"]);
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    assert!(err(&output).contains("--accept"), "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["programmes"], 4);
    data.ok(&["epg", "import", &short, "--accept"]);

    // The reason of an early refusal is shown, although the upload is cut off.
    let large = data.file("large.xml", &format!("<tv>{}</tv>", " ".repeat(20 << 20)));
    let label = "s".repeat(129);
    let (code, why) = data.fails(&["epg", "import", &large, "--source", &label]);
    assert!(code == 2 && why.contains("source"), "{why}");

    // A source that is not configured is a plain label.
    let again = data.json(&["epg", "import", &long, "--source", "house", "--json"]);
    assert_eq!(figures(&again), [48, 0, 0, 0, 48]);

    let broken = data.file("broken.json", &guide(48)[..500]);
    let (code, message) = data.fails(&["epg", "import", &broken]);
    assert_eq!(code, 1);
    let reason = "the guide is incomplete: it breaks off at line ";
    assert_eq!(message.matches(reason).count(), 1, "{message}");
    assert_eq!(data.fails(&["epg", "import", "no-such-file.xml"]).0, 3);
}

fn work_on_user(data: &Data) {
    let password = data.file("password", "a long pass phrase\n");
    let ann = data.json(&[
        "user",
        "add",
        "Ann@Example.com",
        "--password-file",
        &password,
        "--name",
        "Ann",
        "--json",
    ]);
    let id = ann["userId"].as_str().unwrap();
    let user = "ann@example.com";
    assert_eq!(
        data.json(&["user", "show", user, "--json"])["userId"],
        ann["userId"]
    );
    assert_eq!(
        data.json(&["user", "show", user, "--partner", "Acme", "--json"])["name"],
        "Ann"
    );
    let changed = data.json(&["user", "change", id, "--tags", "vip, press", "--json"]);
    assert_eq!(changed["tags"], json!(["press", "vip"]));
    assert_eq!(data.json(&["user", "list", "--json"])[0]["email"], user);

    let why = || data.json(&["user", "why", user, "film-premium", "--json"])["granted"].clone();
    assert_eq!(why(), false);
    data.ok(&["user", "grant", user, "premium"]);
    assert_eq!(why(), true);
    // The demo's catalogue, but without the demo's Clear Key.
    let text = data.ok(&["user", "why", user, "film-premium"]);
    assert!(
        text.ends_with(
            "would be granted, but cannot play: dash: no license server for widevine, playready\n"
        ),
        "{text}"
    );
    assert!(
        text.starts_with(
            "entitlement of The Test Card, Director's Cut (film-premium), as it would be answered at "
        ),
        "{text}"
    );
    data.ok(&["user", "revoke", user, "premium"]);
    assert_eq!(why(), false);
    let (code, said) = data.fails(&["user", "grant", user, "premum"]);
    assert_eq!(code, 3);
    assert!(
        said.contains("no offer `premum`; did you mean `premium`?"),
        "{said}"
    );
    let (_, said) = data.fails(&["user", "show", &user.replace('@', "@x.")]);
    assert!(said.contains(&format!("did you mean `{user}`?")), "{said}");

    data.ok(&["user", "sessions", user, "--json"]);
    data.ok(&["user", "logout", user]);
    data.ok(&["user", "pin", user]);
    let disabled = || data.json(&["user", "show", user, "--json"])["disabled"].clone();
    data.ok(&["user", "disable", user]);
    assert_eq!(disabled(), true);
    data.ok(&["user", "enable", id]);
    assert_eq!(disabled(), false);
    read_mails(data, user);
    filter_lists(data, user);

    assert_eq!(data.fails(&["user", "show", "nobody@example.com"]).0, 3);
    assert_eq!(data.fails(&["user", "add", "no address"]).0, 2);
    let unasked = data.fails(&["user", "remove", user]);
    assert_eq!(unasked.0, 2);
    assert!(unasked.1.contains("--yes"), "{}", unasked.1);
    data.ok(&["user", "show", user]);
    data.ok(&["user", "remove", user, "--yes"]);
    assert_eq!(data.fails(&["user", "show", id]).0, 3);
}

fn read_mails(data: &Data, user: &str) {
    let mails = data.json(&["mail", "list", "--json"]);
    let newest = &mails[0];
    assert_eq!(
        (&newest["to"], &newest["kind"]),
        (&json!(user), &json!("pin"))
    );
    for member in ["id", "subject", "status", "createdAt"] {
        assert!(!newest[member].is_null(), "{member} in {newest}");
    }
    let mail = data.json(&["mail", "show", newest["id"].as_str().unwrap(), "--json"]);
    assert!(mail["text"].is_string() && mail["html"].is_string());

    let preview = data.json(&["mail", "preview", "reset", "--locale", "sv", "--json"]);
    assert!(
        preview["text"].as_str().unwrap().contains("token="),
        "{preview}"
    );
    let html = data.ok(&["mail", "preview", "reset", "--locale", "sv", "--html"]);
    assert_eq!(
        html.trim_end(),
        preview["html"].as_str().unwrap().trim_end()
    );

    let test = data.json(&["mail", "test", "ops@example.com", "--json"]);
    assert!(test["status"].is_string(), "{test}");
}

fn filter_lists(data: &Data, user: &str) {
    let listed = |filter: &[&str]| {
        let mails = data.json(&[&["mail", "list", "--json"], filter].concat());
        mails.as_array().unwrap().len()
    };
    assert_eq!(listed(&["--to", user, "--kind", "pin", "--limit", "1"]), 1);
    assert_eq!(
        listed(&["--to", "nobody"]) + listed(&["--status", "sent"]),
        0
    );
    let changes = |filter: &[&str]| data.json(&[&["audit", "list", "--json"], filter].concat());
    let grants = changes(&["--action", "GRANT", "--from", "-1h", "--limit", "2"]);
    assert!(!grants.as_array().unwrap().is_empty(), "{grants}");
    for entry in grants.as_array().unwrap() {
        assert!(
            entry["action"].as_str().unwrap().contains("grant"),
            "{entry}"
        );
    }
    assert_eq!(changes(&["--by", "nobody"]), json!([]));
    assert_eq!(changes(&["--to", "-1h"]), json!([]));
    for (filter, found) in [
        (["--search", "ann"], 1),
        (["--state", "disabled"], 0),
        (["--limit", "0"], 0),
    ] {
        let users = data.json(&[&["user", "list", "--json"], &filter[..]].concat());
        assert_eq!(users.as_array().unwrap().len(), found, "{filter:?}");
    }
}

#[test]
fn commands_work_without_a_server() {
    administer(&Data::new());
}

#[test]
fn commands_work_with_a_server() {
    let data = Data::new();
    let server = data.serve();
    administer(&data);
    // Only one process may have the store open, so the commands have gone through the server.
    assert_eq!(server.end(), 0);
}

#[test]
fn a_server_starts_without_configuration_and_stops_on_sigterm() {
    let data = Data::new();
    let mut command = binary();
    command
        .arg("serve")
        .env("PLAYGATE_LISTEN", "127.0.0.1:0")
        .current_dir(data.folder.path());
    let server = Running::start(command);
    let address = server
        .first
        .trim()
        .strip_prefix("listening on http://")
        .unwrap();
    let get = request("GET", "/api/catalog/v1/assets", &[], "");
    assert_eq!(ask(address.parse().unwrap(), get).status, 401);
    let store = data.folder.path().join("playgate-data");
    assert!(store.join("admin.sock").exists());
    assert_eq!(server.end(), 0);
    assert!(!store.join("admin.sock").exists());
}

/// The messages of a service, which are read all the time, as systemd does: the service waits while its queue is full.
fn messages(manager: UnixDatagram) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut message = [0; 1_000];
        while let Ok(length) = manager.recv(&mut message) {
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    receiver
}

#[test]
fn systemd_gets_ready_status_and_stopping() {
    let data = Data::new();
    let path = data.folder.path().join("notify");
    let messages = messages(UnixDatagram::bind(&path).unwrap());
    let mut command = binary();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data.path())
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "900000");
    let server = Running::start(command);
    let next_message = || messages.recv_timeout(Duration::from_secs(30)).unwrap();
    let address = server.first.trim().rsplit(' ').next().unwrap();
    // An opening store may take long, so the start time-out is extended.
    let opening = next_message();
    assert!(
        opening.contains("EXTEND_TIMEOUT_USEC=") && opening.contains("STATUS=opening"),
        "{opening}"
    );
    let ready = next_message();
    assert!(
        ready.contains("READY=1") && ready.contains(address),
        "{ready}"
    );
    for _ in 0..3 {
        assert_eq!(next_message().trim(), "WATCHDOG=1");
    }
    // A restore re-executes the process, which systemd must not take for the end of the service.
    let backup = data.json(&["backup", "create", "--json"]);
    data.ok(&["backup", "restore", backup["path"].as_str().unwrap()]);
    let wait_for = |words: &str| {
        until_some(words, || {
            Some(next_message()).filter(|message| message.contains(words))
        })
    };
    let reloading = wait_for("RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    let ready = until_some("READY=1", || {
        let message = next_message();
        assert!(!message.contains("STOPPING=1"), "{message}");
        Some(message).filter(|message| message.contains("READY=1"))
    });
    assert!(ready.contains("WATCHDOG_USEC=900000"), "{ready}");
    assert_eq!(server.end(), 0);
    wait_for("STOPPING=1");
}

#[test]
fn confirmed_changes_survive_a_kill() {
    let data = Data::new();
    let mut server = data.serve();
    let made = data.json(&["partner", "add", "Acme", "--json"]);
    server.process.kill().unwrap();
    server.process.status_in_time();
    // The socket file that the killed server left behind must not mislead the command.
    assert_eq!(
        data.json(&["partner", "list", "--json"])[0]["partnerId"],
        made["partnerId"]
    );
    let server = data.serve();
    assert_eq!(
        data.json(&["partner", "list", "--json"])[0]["partnerId"],
        made["partnerId"]
    );
    assert_eq!(server.end(), 0);
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let data = Data::new();
    let server = data.serve();
    let second = data.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(5));
    assert!(
        err(&second).contains("another process uses this data directory"),
        "{}",
        err(&second)
    );
    assert!(second.stdout.is_empty());
    assert_eq!(server.end(), 0);
}

#[test]
fn a_busy_port_error_names_the_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = Data::new();
    let (code, why) = data.fails(&["serve", "--listen", "127.0.0.1:0", "--ops-listen", &address]);
    assert_eq!(code, 1);
    assert!(
        why.contains(&address) && why.contains("PLAYGATE_OPS_LISTEN"),
        "{why}"
    );
}

#[test]
fn usage_and_configuration_errors_exit_with_2() {
    let data = Data::new();
    assert_eq!(data.fails(&["no-such-command"]).0, 2);
    assert_eq!(
        data.fails(&["operator", "add", "olga", "--role", "king"]).0,
        2
    );
    let file = data.file("bad.toml", "listn = \"x\"\n[playback]\ndevices = -1\n");
    for command in [
        &["serve"][..],
        &["config", "check"],
        &["config", "show"],
        &["partner", "list"],
    ] {
        let (code, why) = data.fails(&[command, &["--config", &file]].concat());
        assert_eq!(code, 2, "{command:?}");
        // Both mistakes are reported together, with the key that was probably meant.
        assert!(why.contains("listn") && why.contains("`listen`"), "{why}");
        assert!(why.contains("playback.devices"), "{why}");
    }
    let shown = data.json(&["config", "show", "--json"]);
    let known = data.json(&["config", "keys", "--json"]);
    let names = |rows: &Value| {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["key"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&known), names(&shown));
    assert_eq!(known[0]["variable"], "PLAYGATE_LISTEN");
    assert!(data.ok(&["config", "keys"]).contains("argon2"));
    let row = |key: &str| {
        let rows = shown.as_array().unwrap();
        rows.iter().find(|row| row["key"] == key).unwrap().clone()
    };
    assert_eq!(row("data_dir")["origin"], "flag --data-dir");
    assert_eq!(row("ops.listen")["origin"], "variable PLAYGATE_OPS_LISTEN");
    assert_eq!(row("listen")["origin"], "default");
    data.ok(&["config", "check"]);
}

/// The service runs as the owner of the data directory, so files of root would break its next start.
#[test]
fn commands_run_by_root_create_files_of_the_data_owner() {
    const OWNER: u32 = 65534;
    let data = Data::new();
    data.ok(&["partner", "add", "before"]);
    if fs::metadata(data.path()).unwrap().uid() != 0 {
        eprintln!("skipped: it needs root");
        return;
    }
    let path = data.path();
    let everything = || {
        let mut found = vec![path.clone()];
        let mut at = 0;
        while let Some(next) = found.get(at).cloned() {
            at += 1;
            if next.is_dir() {
                found.extend(
                    fs::read_dir(next)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
        found
    };
    for file in everything() {
        chown(file, Some(OWNER), Some(OWNER)).unwrap();
    }
    // A path that only root can read still works.
    let secret = data.folder.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(secret.join("catalog.toml"), CATALOG).unwrap();
    let catalog = secret.join("catalog.toml");
    data.ok(&["catalog", "import", catalog.to_str().unwrap()]);
    data.ok(&["backup", "create"]);
    let server = data.serve();
    data.ok(&["store", "compact"]);
    assert_eq!(server.end(), 0);
    for file in everything() {
        let owner = fs::symlink_metadata(&file).unwrap().uid();
        assert_eq!(owner, OWNER, "{}", file.display());
    }
}

#[test]
fn templates_and_certificates_are_checked_before_the_start() {
    let data = Data::new();
    let templates = tempfile::tempdir().unwrap();
    fs::create_dir(templates.path().join("en")).unwrap();
    fs::write(templates.path().join("en/reset.txt"), "Subject: a\n\nb").unwrap();
    let ca = data.file("ca.pem", "no certificate");
    let text = format!(
        "mail = {{ templates = '{}', from = 'tv@example.org' }}\n\
         smtp = {{ host = 'mail.example', ca = '{ca}' }}\n",
        templates.path().display()
    );
    let file = data.file("mail.toml", &text);
    let (code, why) = data.fails(&["config", "check", "--config", &file]);
    assert_eq!(code, 2);
    let template = "`mail.templates`: en/reset.txt: has no `{link}`";
    assert!(why.contains(template) && why.contains("`smtp.ca`"), "{why}");
    let (code, why) = data.fails(&["serve", "--config", &file]);
    assert_eq!(code, 2);
    assert!(why.contains("`smtp.ca`"), "{why}");
}

/// Mistakes of syntax, value, environment variable, and named file.
#[test]
fn all_configuration_mistakes_are_reported_together() {
    let data = Data::new();
    let ca = data.file("ca.pem", "no certificate");
    let text = format!(
        "listn = []\n\
         mail.from = 'tv@example.org'\n\
         smtp = {{ host = 'mail.example', ca = '{ca}', timeout = 'soon' }}\n\
         epg.ratings = '/nowhere/ratings.toml'\n"
    );
    let file = data.file("mistakes.toml", &text);
    let check = || {
        let mut command = binary();
        command.args(["config", "check", "--config", &file]);
        command.env("PLAYGATE_LAB_CLOCK", "true");
        command
    };
    let expected = [
        "mistakes.toml:1: unknown key `listn`",
        "mistakes.toml:3: `smtp.timeout`",
        "variable PLAYGATE_LAB_CLOCK: `lab.clock`",
        "`smtp.ca`",
        "/nowhere/ratings.toml",
    ];
    let output = check().output_in_time();
    assert_eq!(output.status.code(), Some(2));
    for one in expected {
        assert!(err(&output).contains(one), "{one} in {}", err(&output));
    }
    let output = check().arg("--json").output_in_time();
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = found["problems"].as_array().unwrap();
    assert_eq!(problems.len(), expected.len(), "{found}");
    let origin = problems[0]["origin"].as_str().unwrap();
    assert!(origin.ends_with("mistakes.toml:1"), "{found}");
}

#[test]
fn read_only_commands_create_no_store() {
    let data = Data::new();
    for command in [
        &["user", "list"][..],
        &["store", "verify"],
        &["epg", "sources"],
    ] {
        let (code, why) = data.fails(command);
        assert!(
            code == 3 && why.contains("no store in"),
            "{command:?}: {why}"
        );
    }
    assert!(!data.path().exists());
    let made = data.run(&["partner", "add", "house"]);
    assert!(made.status.success() && err(&made).contains("creating a new one"));
    assert_eq!(err(&data.run(&["partner", "add", "home"])), "");
}

#[test]
fn an_unreadable_store_exits_with_5() {
    let data = Data::new();
    data.ok(&["partner", "add", "house"]);
    let identity = format!("format = 99\nreached = 99\ninstance = {:032x}\n", 7);
    let sum = crc32fast::hash(identity.as_bytes());
    fs::write(
        data.path().join("store/identity"),
        format!("{identity}sum = {sum:08x}\n"),
    )
    .unwrap();
    for command in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["partner", "list"],
    ] {
        let (code, why) = data.fails(command);
        assert_eq!(code, 5);
        assert!(why.contains("format 99"), "{why}");
    }
}

#[test]
fn a_bad_catalogue_is_reported_completely_and_changes_nothing() {
    let data = Data::new();
    let bad = data.file(
        "bad.toml",
        "[[livestream]]\nid = \"a\"\nname = \"A\"\nzone = \"Mars/Olympus\"\n\n[[asset]]\nid = \"a\"\n",
    );
    let (code, why) = data.fails(&["catalog", "import", &bad]);
    assert_eq!(code, 1);
    assert!(why.contains("line 4") && why.contains("zone"), "{why}");
    assert!(why.contains("line 6") || why.contains("line 7"), "{why}");
    assert_eq!(data.ok(&["catalog", "export"]).trim(), "livestream = []");

    let keyless = CATALOG.replacen(
        "key = \"9f2b6c1e84d3057a6be1f4c8d20a3755\"",
        "key_file = \"k\"",
        1,
    );
    let file = data.file("catalog.toml", &keyless);
    let (code, why) = data.fails(&["catalog", "import", &file]);
    assert!(code == 1 && why.contains("key file `k`"), "{why}");
    data.file("k", "9f2b6c1e84d3057a6be1f4c8d20a3755\n");
    data.ok(&["catalog", "import", &file]);
}

#[test]
fn an_emptying_import_exits_with_4_and_can_be_undone_if_accepted() {
    let data = Data::new();
    data.ok(&["catalog", "import", &data.file("catalog.toml", CATALOG)]);
    let before = data.ok(&["catalog", "export"]);
    let empty = data.file("empty.toml", "livestream = []\n");
    let dry = data.json(&["catalog", "import", &empty, "--dry-run", "--json"]);
    assert!(!dry["doubts"].as_array().unwrap().is_empty(), "{dry}");
    let (code, why) = data.fails(&["catalog", "import", &empty]);
    assert!(code == 4 && why.contains("--accept"), "{code}: {why}");
    assert_eq!(data.ok(&["catalog", "export"]), before);
    data.ok(&["catalog", "import", &empty, "--accept"]);
    assert_eq!(data.ok(&["catalog", "export"]).trim(), "livestream = []");
    let versions = data.json(&["catalog", "history", "--json"]);
    assert_eq!(versions[0]["version"], 2);
    data.ok(&["catalog", "undo", "--dry-run"]);
    let undone = data.json(&["catalog", "undo", "--json"]);
    assert_eq!(undone["version"], 2);
    assert_eq!(data.ok(&["catalog", "export"]), before);
    assert_eq!(data.fails(&["catalog", "undo", "99"]).0, 3);
    assert!(data.ok(&["catalog", "history"]).contains("undo"));
}

#[test]
fn an_undo_that_removes_entries_lists_them_and_has_to_be_confirmed() {
    let data = Data::new();
    data.ok(&["catalog", "import", &data.file("catalog.toml", CATALOG)]);
    let before = data.ok(&["catalog", "export"]);
    for json in [None, Some("--json")] {
        let undo: Vec<&str> = ["catalog", "undo"].into_iter().chain(json).collect();
        let output = data.run(&undo);
        let why = err(&output);
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(output.stdout.is_empty(), "nothing was done");
        for part in [
            "- livestream open\n",
            "warning: it removes 4 of 4 livestreams\n",
            "this removes 4 livestreams, 4 assets, 2 offers, 1 rule, ",
            "--yes",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(data.ok(&["catalog", "export"]), before);
    }
    // A dry run asks nothing.
    let dry = data.json(&["catalog", "undo", "--dry-run", "--json"]);
    assert_eq!(dry["dryRun"], true);
    assert!(!dry["doubts"].as_array().unwrap().is_empty(), "{dry}");
    assert_eq!(data.ok(&["catalog", "export"]), before);
    let undone = data.json(&["catalog", "undo", "--yes", "--json"]);
    assert_eq!(undone["removed"], dry["removed"]);
    assert_eq!(data.ok(&["catalog", "export"]).trim(), "livestream = []");
    // This one only adds.
    data.ok(&["catalog", "undo"]);
    assert_eq!(data.ok(&["catalog", "export"]), before);
}

#[test]
fn an_undo_at_a_terminal_asks_and_obeys_the_answer() {
    let Some(script) = program("script") else {
        return;
    };
    let data = Data::new();
    data.ok(&["catalog", "import", &data.file("catalog.toml", CATALOG)]);
    let before = data.ok(&["catalog", "export"]);
    let undo = |answer: &str| {
        let command = format!(
            "echo {answer} | {} --quiet --return --command '{} --data-dir {} catalog undo' /dev/null",
            script.display(),
            env!("CARGO_BIN_EXE_playgate"),
            data.path().display()
        );
        let output = Command::new("sh").args(["-c", &command]).output_in_time();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let screen = undo("n");
    for part in ["- offer premium", "Continue?", "cancelled"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    assert_eq!(data.ok(&["catalog", "export"]), before);
    let screen = undo("y");
    assert!(screen.contains("restored version 1"), "{screen}");
    assert_eq!(data.ok(&["catalog", "export"]).trim(), "livestream = []");
}

#[test]
fn a_long_difference_is_shortened_by_kind_unless_all_is_asked_for() {
    let data = Data::new();
    let livestreams = |ids: std::ops::Range<u32>| -> String {
        ids.map(|n| format!("[[livestream]]\nid = \"tv{n:02}\"\n"))
            .collect()
    };
    data.ok(&[
        "catalog",
        "import",
        &data.file("a.toml", &livestreams(0..30)),
    ]);
    let file = data.file("b.toml", &livestreams(20..60));
    let lines = |more: &[&str]| {
        let dry = ["catalog", "import", &file, "--dry-run"];
        let shown = data.ok(&[&dry[..], more].concat());
        shown.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let short = lines(&[]);
    assert_eq!(short.len(), 2 * 13, "{short:?}");
    assert_eq!(short[0], "+ livestream tv30");
    assert_eq!(short[12], "and 18 more (--all): added");
    assert_eq!(short[25], "and 8 more (--all): removed");
    assert_eq!(lines(&["--all"]).len(), 30 + 20);
}

#[test]
#[expect(clippy::too_many_lines, reason = "the steps depend on each other")]
#[expect(
    clippy::disallowed_methods,
    reason = "the process that is tested has the real clock"
)]
fn rights_are_changed_and_explained_on_one_screen() {
    let data = Data::new();
    let catalog = data.file(
        "catalog.toml",
        "[[livestream]]\nid = \"tv\"\nzone = \"Africa/Lagos\"\ncatchup_days = 7\n",
    );
    data.ok(&["catalog", "import", &catalog]);
    // Noon UTC tomorrow; Lagos is one hour ahead all year.
    let today = chrono::DateTime::from(std::time::SystemTime::now()).timestamp() / 86_400;
    let start = (today + 1) * 86_400 + 43_200;
    let clock = |at: i64| {
        let shown = chrono::DateTime::from_timestamp(at + 3_600, 0).unwrap();
        shown.format("%Y-%m-%d %H:%M:%S +01:00").to_string()
    };
    let guide = json!({"tv": [
        {"id": "b1", "title": "Match\u{1b}[31m", "start": start, "stop": start + 3_600, "pgAge": 7},
    ]});
    let guide = data.file("guide.json", &guide.to_string());
    data.ok(&["epg", "import", &guide, "--accept"]);
    let rule = [
        "rule",
        "add",
        "--livestream",
        "tv",
        "--title",
        "Match*",
        "--live",
        "off",
    ];
    let added = data.ok(&rule);
    assert_eq!(added, "+ rule livestream tv, title Match*, live off\n");
    data.ok(&[
        "rule", "add", "--from", "00:00", "--to", "00:01", "--rewind", "on",
    ]);
    data.ok(&["rights", "set", "--livestream", "tv", "--catchup-days", "2"]);
    data.ok(&["rights", "set", "b1", "--pause", "on"]);
    let screen = data.ok(&["epg", "why", "b1"]);
    let (from, to, until) = (clock(start), clock(start + 3_600), clock(start + 176_400));
    assert_eq!(
        screen,
        format!(
            "Match [31m (b1) on tv\n\
         {from} to {to} (Africa/Lagos)\n\
         rated 7, categories: \n\
         \n\
         livestream  catchup on, catchup_days 2, fastForward off, pause off, rewind off, \
         live on, start_over off\n\
         rule 1      livestream tv, title Match*, live off\n\
         broadcast   pause on\n\
         no match    rule 2 (window)\n\
         \n\
         RIGHT         VALUE  BY\n\
         live          off    rule 1\n\
         catchup       on     livestream\n\
         catchup_days  2      livestream\n\
         start_over    off    livestream\n\
         pause         on     broadcast\n\
         rewind        off    livestream\n\
         fastForward   off    livestream\n\
         \n\
         live viewing not allowed; catch-up from {to} to {until}\n"
        )
    );
    let why = data.json(&["epg", "why", "b1", "--json"]);
    assert_eq!(
        why["rights"][0],
        json!({"right": "live", "value": false, "by": "rule 1"})
    );
    assert!(
        data.ok(&["rule", "list"])
            .starts_with("NUMBER  RULE\n1       livestream tv, title")
    );
    data.ok(&["rule", "remove", "1"]);
    data.ok(&["rights", "clear", "b1"]);
    let why = data.json(&["epg", "why", "b1", "--json"]);
    assert_eq!(why["layers"].as_array().unwrap().len(), 2);
    assert_eq!(data.fails(&["epg", "why", "nothing"]).0, 3);
    assert_eq!(data.fails(&["rule", "remove", "9"]).0, 3);
    assert_eq!(data.fails(&["rights", "set", "--live", "on"]).0, 2);
    assert_eq!(
        data.fails(&["rights", "set", "--broadcast", "b1", "--live", "maybe"])
            .0,
        2
    );
}

#[test]
fn users_are_imported_line_by_line() {
    let data = Data::new();
    data.ok(&["partner", "add", "Acme"]);
    let lines = data.file(
        "users.ndjson",
        "{\"email\":\"ann@example.com\",\"password\":\"a long pass phrase\",\"name\":\"Ann\"}\n\n\
         {\"email\":\"no address\"}\nnot json\n{\"email\":\"ben@example.com\",\"partner\":\"Acme\"}\n",
    );
    let output = data.run(&["user", "import", &lines, "--partner", "Acme", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["added"], &report["existing"]),
        (&json!(2), &json!(0))
    );
    let failed: Vec<_> = report["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["line"].clone())
        .collect();
    assert_eq!(failed, [3, 4]);
    let again = data.file("ann.ndjson", "{\"email\":\"ann@example.com\"}");
    let report = data.json(&["user", "import", &again, "--json"]);
    assert_eq!(
        (&report["added"], &report["existing"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        data.json(&["user", "list", "--json"])
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn guides_are_imported_from_a_url_or_stdin() {
    let data = Data::new();
    data.ok(&["catalog", "import", &data.file("catalog.toml", CATALOG)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = guide(30);
    let sent = body.clone();
    let web = thread::spawn(move || {
        for (line, answer) in [
            (
                "GET /old?x HTTP/1.1",
                "HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n".to_owned(),
            ),
            (
                "GET /new HTTP/1.1",
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{sent}",
                    sent.len()
                ),
            ),
        ] {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines();
            assert_eq!(lines.next().unwrap().unwrap(), line);
            while !lines.next().unwrap().unwrap().is_empty() {}
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
    });
    let report = data.json(&[
        "epg",
        "import",
        &format!("http://{address}/old?x"),
        "--json",
    ]);
    assert_eq!(report["added"], 30);
    web.join().unwrap();
    let with_user = "https://ann:secret@localhost/x";
    assert_eq!(data.fails(&["epg", "import", with_user]).0, 2);
    let nobody = "https://localhost:1/x";
    assert_eq!(data.fails(&["epg", "import", nobody]).0, 1);

    let mut piped = binary()
        .args(["epg", "import", "-", "--json", "--data-dir"])
        .arg(data.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    piped
        .stdin
        .take()
        .unwrap()
        .write_all(body.as_bytes())
        .unwrap();
    let output = piped.output_in_time();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["unchanged"], 30);
}

fn demo(arguments: &[&str], temp_dir: &Path) -> Running {
    let mut command = binary();
    command
        .args(["demo", "--listen", "127.0.0.1:0"])
        .args(arguments)
        // The temporary store is created there.
        .env("TMPDIR", temp_dir);
    Running::start(command)
}

#[test]
fn a_lab_partner_needs_an_installation_that_is_not_production() {
    let data = Data::new();
    let staging = |arguments: &[&str]| {
        let mut command = binary();
        command
            .env("PLAYGATE_ENVIRONMENT", "staging")
            .args(arguments);
        command.arg("--data-dir").arg(data.path());
        command
    };
    let (code, why) = data.fails(&["partner", "add", "Lab", "--lab"]);
    assert!(
        code == 1 && why.contains("not allowed in production"),
        "{why}"
    );
    let add = staging(&["partner", "add", "Lab", "--lab"]).output_in_time();
    assert!(add.status.success(), "{}", err(&add));
    data.ok(&["partner", "add", "Acme"]);
    let kinds = |partners: &Value| {
        let all = partners.as_array().unwrap().iter();
        all.map(|one| one["kind"].clone()).collect::<Vec<_>>()
    };
    // Production without a server may still list and remove a lab partner.
    let partners = data.json(&["partner", "list", "--json"]);
    assert_eq!(kinds(&partners), ["standard", "lab"]);

    let refused = data.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    assert!(
        err(&refused).contains("partner Lab is a lab partner"),
        "{}",
        err(&refused)
    );
    let mut allowed = binary();
    allowed.env("PLAYGATE_LAB_ALLOW_IN_PRODUCTION", "true");
    allowed.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    let running = Running::start({
        allowed.arg(data.path());
        allowed
    });
    let findings: Value = serde_json::from_slice(&data.run(&["doctor", "--json"]).stdout).unwrap();
    let warned = findings.as_array().unwrap().iter().any(|finding| {
        let words = finding["finding"].as_str().unwrap();
        finding["state"] == "warning" && words.contains("lab partners exist, for tests only: Lab")
    });
    assert!(warned, "{findings}");
    assert_eq!(running.end(), 0);
    data.ok(&["partner", "remove", "Lab", "--yes"]);
    assert_eq!(data.serve().end(), 0);
}

#[test]
fn the_demo_prints_one_line_of_json() {
    let temp_dir = tempfile::tempdir().unwrap();
    let demo = demo(&["--json"], temp_dir.path());
    let greeting: Value = serde_json::from_str(&demo.first).unwrap();
    for member in [
        "baseUrl",
        "labUrl",
        "watchUrl",
        "opsUrl",
        "operatorToken",
        "partnerToken",
        "identity",
        "accessKey",
        "pinCode",
        "catchup",
        "dataDir",
    ] {
        assert!(greeting[member].is_string(), "{member} in {greeting}");
    }
    for member in ["open", "blackout"] {
        assert!(
            greeting["livestreams"][member].is_string(),
            "{member} in {greeting}"
        );
    }
    for member in ["open", "adult", "premium", "clear"] {
        assert!(
            greeting["vod"][member].is_string(),
            "{member} in {greeting}"
        );
    }
    assert!(greeting["offsetOpen"].as_i64().unwrap() < 0);
    assert_eq!(demo.end(), 0);
    // The temporary store was deleted.
    assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 0);
}

#[test]
fn a_demo_can_be_restarted_on_its_data() {
    let data = Data::new();
    let path = data.path();
    let options = ["--json", "--data-dir", path.to_str().unwrap()];
    for _ in 0..2 {
        let demo = demo(&options, data.folder.path());
        assert!(demo.first.contains("partnerToken"), "{}", demo.first);
        // Commands find the demo like any other server.
        assert_eq!(
            data.json(&["user", "list", "--json"])[0]["email"],
            "demo@example.com"
        );
        assert_eq!(demo.end(), 0);
    }
}

/// Returns how many times the demo has checked whether its guide needs an extension.
fn guide_checks(demo: &Demo) -> u64 {
    let metrics = scrape(demo.address("opsUrl"));
    metric(&metrics, "playgate_job_runs_total{task=\"demo-guide\"}")
}

#[test]
fn the_demo_does_not_overwrite_a_guide_that_is_imported_after_its_start() {
    let demo = Demo::start();
    let now = real_time().0;
    let program =
        json!({"id": "own", "title": "Own", "start": now - 60, "stop": now + 3_600, "pgAge": 0});
    let file = demo.file("guide.json");
    fs::write(&file, json!({"blackout": [program]}).to_string()).unwrap();
    let before = guide_checks(&demo);
    demo.ok(&[
        "epg",
        "import",
        file.to_str().unwrap(),
        "--accept",
        "--json",
    ]);
    until("two checks of the guide", || {
        guide_checks(&demo) >= before + 2
    });
    let live = "/api/schedule/v1/broadcasts/live?livestreams=blackout";
    let token = [("Service-AccessToken", demo.text("partnerToken"))];
    let answer = ask(demo.address("baseUrl"), request("GET", live, &token, ""));
    assert_eq!(answer.json()["blackout"]["current"]["id"], "own");
}

/// Sends a request as the demo's user with curl.
fn curl(method: &str, greeting: &Value, path: &str, token: &str, body: &Value) -> Value {
    let text = |member: &str| greeting[member].as_str().unwrap().to_owned();
    let output = Command::new("curl")
        .args(["-sS", "-X", method, "-d", &body.to_string()])
        .args([
            "-H",
            &format!("Service-AccessToken: {}", text("partnerToken")),
        ])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .arg(format!("{}{path}", text("baseUrl")))
        .output_in_time();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_restarted_demo_keeps_the_pin_lock() {
    let data = Data::new();
    let path = data.path();
    let options = ["--json", "--data-dir", path.to_str().unwrap()];
    let mut token = String::new();
    for attempt in ["PIN_CODE_WRONG", "PIN_CODE_LOCKED"] {
        let demo = demo(&options, data.folder.path());
        let greeting: Value = serde_json::from_str(&demo.first).unwrap();
        if token.is_empty() {
            let login =
                json!({"identity": greeting["identity"], "accessKey": greeting["accessKey"]});
            let answer = curl("POST", &greeting, "/api/login/v2/auth/email", "", &login);
            token = answer["token"].as_str().unwrap().to_owned();
        }
        let adult = format!(
            "/api/entitlement/v2/asset/{}",
            greeting["vod"]["adult"].as_str().unwrap()
        );
        let enter = |pin: &Value| curl("POST", &greeting, &adult, &token, &json!({"pinCode": pin}));
        for _ in 0..5 {
            assert_eq!(enter(&json!("0000"))["error"]["code"], attempt);
        }
        assert_eq!(
            enter(&greeting["pinCode"])["error"]["code"],
            "PIN_CODE_LOCKED"
        );
        assert_eq!(demo.end(), 0);
    }
}

/// Pastes the lines that the demo prints into a shell. Each call must be answered with the status that its line
/// announces.
#[test]
fn the_printed_demo_commands_all_work() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut demo = demo(&[], temp_dir.path());
    let mut script = format!("{}\n", demo.first);
    while !script.ends_with("== That was all.\"\n") {
        script += &demo.out.next().expect("more lines");
        script.push('\n');
    }
    // zsh takes comments for commands, so there must be none.
    assert!(
        !script.contains(" # ") && !script.contains("\n#"),
        "{script}"
    );
    let mut shell = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let output = shell.output_in_time();
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected: Vec<&str> = script
        .lines()
        .filter_map(|line| line.split_once("(expected ")?.1.get(..3))
        .collect();
    let got: Vec<&str> = printed
        .split(" -> ")
        .skip(1)
        .filter_map(|rest| rest.get(..3))
        .collect();
    assert_eq!(
        got,
        expected,
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(expected.len() > 40 && expected.contains(&"552"));
    for code in [
        "PIN_CODE_REQUIRED",
        "NOT_ENTITLED",
        "NO_LIVE_RIGHTS",
        "SESSION_ENDED",
        "USER_TOKEN_INVALID",
    ] {
        assert!(printed.contains(code), "{code} in {printed}");
    }
    assert_eq!(demo.end(), 0);
}

#[test]
fn the_manual_comes_from_the_definitions_of_the_commands() {
    assert!(Data::new().ok(&["man"]).contains(".TH playgate"));
}

/// A store moves to another machine as text, and a salvage export reads what is left of a lost one.
#[test]
fn a_store_is_exported_and_imported_as_text() {
    let data = Data::new();
    administer(&data);
    let server = data.serve();
    let text = data.path().join("all.txt");
    let text = text.to_str().unwrap();
    data.ok(&["store", "export", text]);
    let (code, why) = data.fails(&["store", "export", text]);
    assert!(code == 1 && why.contains("exists"), "{code} {why}");
    let sizes = data.json(&["store", "compact", "--json"]);
    assert!(sizes["after"].as_u64().unwrap() > 0);
    assert_eq!(data.json(&["store", "verify", "--json"])["sound"], true);
    let backup = data.json(&["backup", "create", "--json"]);
    let of_backup = data.ok(&[
        "store",
        "export",
        "-",
        "--from",
        backup["path"].as_str().unwrap(),
    ]);
    assert!(of_backup.starts_with("playgate-store\t1\t1\t"));
    assert_eq!(server.end(), 0);
    let (code, why) = data.fails(&["store", "import", text]);
    assert!(code == 5 && why.contains("not empty"), "{code} {why}");

    let other = Data::new();
    let report = other.json(&["store", "import", text, "--json"]);
    assert_eq!(report["skipped"], 0);
    assert_eq!(
        report["records"],
        fs::read_to_string(text).unwrap().lines().count() - 2
    );
    // The export contains the sealed content keys, but not the key that seals them.
    let (code, why) = other.fails(&["partner", "list", "--json"]);
    assert!(why.contains("content.key: missing"), "{code} {why}");
    let key = "keys/content.key";
    fs::create_dir_all(other.path().join("keys")).unwrap();
    fs::copy(data.path().join(key), other.path().join(key)).unwrap();
    for list in [
        ["partner", "list", "--json"],
        ["operator", "list", "--json"],
    ] {
        assert_eq!(other.ok(&list), data.ok(&list));
    }

    let saved = other.path().join("saved.txt");
    let saved = saved.to_str().unwrap();
    data.ok(&["store", "export", "--salvage", saved]);
    assert!(fs::read_to_string(saved).unwrap().lines().count() > 3);
}
