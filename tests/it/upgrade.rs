//! `playgate upgrade` and `playgate healthcheck`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, binary, err, playgate, sign_up};
use crate::support::external_tools::program;
use crate::support::process::InTime as _;
use crate::support::raw_http::{ask, request};
use crate::support::server::PASSWORD;

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a check and returns whether it succeeded, and its report.
fn checked(command: &mut Command) -> (bool, Value) {
    let output = command.output_in_time();
    let report = serde_json::from_slice(&output.stdout);
    let report: Value = report.unwrap_or_else(|_| panic!("{}", err(&output)));
    assert_eq!(output.status.success(), report["ok"] == true, "{report}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{report}");
    (output.status.success(), report)
}

fn check(data: &Path, arguments: &[&str]) -> (bool, Value) {
    let mut command = playgate(data);
    checked(command.args(["upgrade", "check", "--json"]).args(arguments))
}

/// Returns the paths and contents of all files.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn a_check_opens_a_copy_with_and_without_a_server_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::start(&data);
    sign_up(&appliance);
    let (ok, running) = check(&data, &[]);
    assert!(ok, "{running}");
    assert_eq!(running["problems"], json!([]));
    for member in ["records", "memoryBytes", "diskBytes"] {
        assert!(running[member].as_u64().unwrap() > 0, "{running}");
    }
    appliance.end();

    let before = contents(&data.join("store"));
    let (ok, stopped) = check(&data, &[]);
    assert!(ok, "{stopped}");
    // The server keeps recording the time, and an unpacked snapshot contains a record of its origin.
    let records = |report: &Value| report["records"].as_u64().unwrap();
    assert!(records(&stopped).abs_diff(records(&running)) <= 2);
    assert_eq!(contents(&data.join("store")), before);
    assert!(!data.join("upgrade-check").exists());
}

#[test]
fn a_check_lists_every_mistake_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = playgate(&folder.path().join("data"));
    command.envs([("PLAYGATE_LISTNE", "x"), ("PLAYGATE_ENVIRONMENT", "home")]);
    let (ok, report) = checked(command.args(["upgrade", "check", "--json"]));
    assert!(!ok);
    assert_eq!(report["problems"].as_array().unwrap().len(), 2, "{report}");
}

#[test]
fn a_check_refuses_a_store_of_a_newer_format() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Appliance::start(&data).end();
    for copy in ["identity", "identity.copy"] {
        let path = data.join("store").join(copy);
        let text = fs::read_to_string(&path).unwrap();
        let (body, _) = text.split_once("sum = ").unwrap();
        let body = body.replace("format = 1\n", "format = 99\n");
        let sum = crc32fast::hash(body.as_bytes());
        fs::write(&path, format!("{body}sum = {sum:08x}\n")).unwrap();
    }
    let (ok, report) = check(&data, &[]);
    assert!(!ok);
    let problem = report["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("has format 99, and this version reads up to 1"),
        "{problem}"
    );
}

#[test]
fn a_candidate_checks_itself_and_one_that_does_not_start_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Appliance::start(&data).end();
    let (ok, report) = check(&data, &["--binary", env!("CARGO_BIN_EXE_playgate")]);
    assert!(ok, "{report}");
    assert!(report["records"].as_u64().unwrap() > 0, "{report}");

    let [broken, old] = ["broken", "old"].map(|name| folder.path().join(name));
    fs::write(&broken, b"\x7fELF truncated").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    script(
        &old,
        "#!/bin/sh\necho 'unrecognized subcommand' >&2\nexit 2\n",
    );
    for (binary, problem) in [
        (&broken, "does not start"),
        (&old, "unrecognized subcommand"),
    ] {
        let (ok, report) = check(&data, &["--binary", binary.to_str().unwrap()]);
        assert!(!ok);
        let found = report["problems"][0].as_str().unwrap();
        assert!(found.contains(problem), "{found}");
    }
}

/// Builds a package around a binary. `None` without dpkg-deb.
pub fn package(folder: &Path, architecture: &str, binary: &str) -> Option<PathBuf> {
    let mut dpkg = Command::new(program("dpkg-deb")?);
    let root = folder.join("package");
    fs::create_dir_all(root.join("DEBIAN")).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    let control = format!(
        "Package: playgate\nVersion: 9\nArchitecture: {architecture}\nMaintainer: A <a@example.org>\nDescription: test\n"
    );
    fs::write(root.join("DEBIAN/control"), control).unwrap();
    script(&root.join("usr/bin/playgate"), binary);
    let deb = folder.join(format!("{architecture}.deb"));
    let args = ["--root-owner-group", "-Znone", "--build"];
    let made = dpkg.args(args).arg(&root).arg(&deb).output_in_time();
    assert!(made.status.success(), "{}", err(&made));
    Some(deb)
}

#[test]
fn a_package_is_checked_and_a_foreign_or_truncated_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let serves = "#!/bin/sh\necho '{\"ok\":true,\"version\":\"9\"}'\n";
    let Some(dpkg) = program("dpkg") else {
        return;
    };
    let architecture = Command::new(dpkg)
        .arg("--print-architecture")
        .output_in_time();
    let architecture = String::from_utf8(architecture.stdout).unwrap();
    let Some(deb) = package(folder.path(), architecture.trim(), serves) else {
        return;
    };
    let deb_check = |deb: &Path| check(&data, &["--deb", deb.to_str().unwrap()]);
    let (ok, report) = deb_check(&deb);
    assert!(ok, "{report}");
    assert_eq!(report["version"], "9");

    let foreign = package(folder.path(), "s390x", serves).unwrap();
    let (ok, report) = deb_check(&foreign);
    let problem = report["problems"][0].as_str().unwrap();
    assert!(!ok && problem.contains("it is for s390x"), "{problem}");

    let cut = folder.path().join("cut.deb");
    let whole = fs::read(&deb).unwrap();
    fs::write(&cut, &whole[..whole.len() - 700]).unwrap();
    let (ok, report) = deb_check(&cut);
    assert!(!ok, "{report}");
}

#[test]
fn the_first_change_of_a_client_makes_a_format_upgrade_final() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::start(&data);
    let (partner, _) = sign_up(&appliance);
    appliance.end();
    // A format upgrade leaves this file.
    let named = data.join("store/upgrade-backup");
    fs::write(&named, "/backups/1.snapshot").unwrap();
    let appliance = Appliance::start(&data);
    let send = |method, path, body: Value| {
        let headers = [("Service-AccessToken", partner.as_str())];
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        ask(appliance.address, request(method, path, &headers, &body)).status
    };
    assert_eq!(send("GET", "/api/catalog/v1/assets", Value::Null), 200);
    appliance.run_json(&["partner", "list", "--json"]);
    // Control: reading changes nothing.
    assert!(named.exists());
    let user = json!({"identity": "eve@example.com", "accessKey": PASSWORD});
    assert_eq!(send("PUT", "/api/login/v2/auth/email", user), 200);
    assert!(!named.exists());
}

#[test]
fn a_rollback_without_a_previous_version_changes_nothing() {
    let output = binary()
        .args(["upgrade", "rollback", "--yes"])
        .output_in_time();
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
}

#[test]
fn a_health_check_fails_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let health = |data: &Path| {
        let output = playgate(data)
            .args(["healthcheck", "--json"])
            .output_in_time();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), report)
    };
    let none = json!({"ready": false, "reasons": ["no server is running"]});
    assert_eq!(health(&data), (1, none.clone()));
    let mut appliance = Appliance::start(&data);
    assert_eq!(health(&data), (0, json!({"ready": true, "reasons": []})));
    appliance.kill();
    assert_eq!(health(&data), (1, none));
}
