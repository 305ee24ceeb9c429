//! Key files that are lost, replaced or damaged.

use std::fs;

use crate::support::appliance::{Appliance, playgate};
use crate::support::process::InTime as _;
use crate::support::until::until;

/// The master key seals the content keys, so no start may silently create another one.
#[test]
fn a_lost_or_replaced_master_key_prevents_the_start_until_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let catalogue = folder.path().join("catalogue.toml");
    let key = "00112233445566778899aabbccddeeff";
    fs::write(
        &catalogue,
        format!("[[asset]]\nid = \"film\"\nencrypted = true\nkeys = [{{ kid = \"{key}\", key = \"{key}\" }}]\n"),
    )
    .unwrap();
    let run = |arguments: &[&str]| {
        let output = playgate(&data).args(arguments).output_in_time();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), text)
    };
    let import = ["catalog", "import", catalogue.to_str().unwrap()];
    assert_eq!(run(&import).0, 0);
    let file = data.join("keys/content.key");
    let master = fs::read(&file).unwrap();
    let refused = |what: &str| {
        for command in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["partner", "list"],
            &["doctor"],
        ] {
            let mut process = playgate(&data);
            let output = process
                .args(command)
                .env("PLAYGATE_OPS_LISTEN", "127.0.0.1:0")
                .output_in_time();
            assert!(!output.status.success(), "{command:?}");
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            for part in ["keys/content.key", what, "drop-keys"] {
                assert!(text.contains(part), "{command:?}: {text}");
            }
        }
    };
    fs::remove_file(&file).unwrap();
    refused("missing, but");
    assert!(!file.exists());
    fs::write(&file, "ab".repeat(32)).unwrap();
    refused("wrong key");
    fs::write(&file, &master).unwrap();
    assert_eq!(run(&["partner", "list"]).0, 0);
    // With the right key no content key is dropped.
    let (code, text) = run(&["catalog", "drop-keys", "--yes"]);
    assert!(code == 0 && text.contains("0 content keys"), "{text}");

    fs::remove_file(&file).unwrap();
    let (code, text) = run(&["catalog", "drop-keys"]);
    assert!(code == 2 && text.contains("--yes"), "{text}");
    let (code, text) = run(&["catalog", "drop-keys", "--yes"]);
    assert!(code == 0 && text.contains("1 content keys"), "{text}");
    assert_eq!(run(&["partner", "list"]).0, 0);
    assert!(fs::read(&file).unwrap() != master);
    assert_eq!(run(&import).0, 0);
    assert_eq!(run(&["partner", "list"]).0, 0);
}

/// What keys other than the master key protect is made again, so a damaged one costs less than a service that stands still.
#[test]
fn a_damaged_key_file_is_set_aside_unless_content_keys_need_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Appliance::start(&data).end();
    let content = data.join("keys/content.key");
    let sealing = fs::read(&content).unwrap();
    for name in ["accounts", "content", "mail", "origin"] {
        let file = data.join(format!("keys/{name}.key"));
        fs::write(&file, "torn").unwrap();
        let mut appliance = Appliance::start(&data);
        let kept = format!("keys/{name}.key.damaged");
        assert_eq!(fs::read_to_string(data.join(&kept)).unwrap(), "torn");
        assert_eq!(fs::read_to_string(&file).unwrap().trim().len(), 64);
        until("a warning", || {
            let (status, readiness) = appliance.operator("GET", "/readyz", "");
            status == 200 && readiness.contains(&kept)
        });
        let found = appliance.command(&["doctor"]).output_in_time();
        let found = String::from_utf8(found.stdout).unwrap();
        assert!(found.contains(&kept), "{found}");
        appliance.end();
    }
    // The same file once content keys are sealed with it.
    fs::write(&content, &sealing).unwrap();
    let catalogue = folder.path().join("catalogue.toml");
    let key = "00112233445566778899aabbccddeeff";
    let text = format!(
        "[[asset]]\nid = \"film\"\nencrypted = true\nkeys = [{{ kid = \"{key}\", key = \"{key}\" }}]\n"
    );
    fs::write(&catalogue, text).unwrap();
    let run = |arguments: &[&str]| {
        let output = playgate(&data).args(arguments).output_in_time();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text)
    };
    assert!(run(&["catalog", "import", catalogue.to_str().unwrap()]).0);
    fs::write(&content, "torn").unwrap();
    let (served, text) = run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(!served);
    for part in [
        "keys/content.key",
        "copy kept with the backups",
        "drop-keys",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(fs::read(&content).unwrap(), b"torn");
    // The way that the message names.
    fs::remove_file(&content).unwrap();
    assert!(run(&["catalog", "drop-keys", "--yes"]).0);
    assert!(run(&["partner", "list"]).0);
}

/// The loss of another key file does not prevent a start, but is logged.
#[test]
fn every_lost_key_file_is_logged_and_a_first_start_logs_none() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let logged = || {
        let log = folder.path().join("log");
        let settings = [("PLAYGATE_LOG_LEVEL", "warn")];
        let file = fs::File::create(&log).unwrap();
        Appliance::with_log(&data, &settings, file.into()).end();
        let log = fs::read_to_string(&log).unwrap();
        log.matches("key file missing").count()
    };
    assert_eq!(logged(), 0);
    let added = playgate(&data)
        .args(["partner", "add", "Acme"])
        .status_in_time();
    assert!(added.success());
    assert_eq!(logged(), 0);
    for name in ["accounts", "content", "mail", "origin"] {
        fs::remove_file(data.join(format!("keys/{name}.key"))).unwrap();
        assert_eq!((name, logged()), (name, 1));
    }
    fs::remove_dir_all(data.join("keys")).unwrap();
    assert_eq!(logged(), 4);
}
