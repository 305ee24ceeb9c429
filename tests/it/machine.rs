//! The machine around a server: files that other programs delete, limits of the process, what a unit shows of `/proc`, and mount
//! points.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::appliance::{Appliance, err, playgate, sign_up};
use crate::support::external_tools::{packaged, skip};
use crate::support::process::InTime as _;
use crate::support::raw_http::{ask, request};
use crate::support::until::until;

/// Runs a command after `script` in a mount namespace of its own. `None` without root.
fn in_namespace(script: &str, command: &Command) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        skip("a mount namespace needs root");
        return None;
    }
    Some(after(&["unshare", "--mount", "bash"], script, command))
}

/// Runs a command after `script` in a shell.
fn after(shell: &[&str], script: &str, command: &Command) -> Command {
    let mut wrapped = Command::new(shell[0]);
    wrapped
        .args(&shell[1..])
        .args(["-e", "-c"])
        .arg(format!("{script}; exec \"$0\" \"$@\""))
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

fn serve(data: &Path) -> Command {
    let mut command = playgate(data);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command
}

fn sign_up_as(appliance: &Appliance, partner: &str, who: &str) {
    let body = format!(r#"{{"identity":"{who}@example.com","accessKey":"twelve marks"}}"#);
    let headers = [("Service-AccessToken", partner)];
    let put = request("PUT", "/api/login/v2/auth/email", &headers, &body);
    assert_eq!(ask(appliance.address, put).status, 200);
}

/// Cleaners delete old files below `/var` by their names or dates.
#[test]
fn a_cleaner_of_log_files_costs_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let start = || Appliance::with(&data, &[("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "100000")]);
    let mut appliance = start();
    let (partner, _) = sign_up(&appliance);
    let log = data.join("store/log");
    let names = || {
        let entries = fs::read_dir(&log).unwrap().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    assert!(
        names()
            .iter()
            .all(|path| path.extension() != Some("log".as_ref()))
    );
    for round in 0..2 {
        sign_up_as(&appliance, &partner, &format!("before{round}"));
        names().iter().for_each(|path| drop(fs::remove_file(path)));
        sign_up_as(&appliance, &partner, &format!("after{round}"));
        until("a new segment", || !names().is_empty());
        // The snapshot is complete before the old segments leave the list.
        until("a snapshot", || {
            let found = fs::read_dir(data.join("store/base"));
            found.is_ok_and(|mut entries| {
                entries.any(|entry| {
                    let path = entry.unwrap().path();
                    path.extension() == Some("snapshot".as_ref())
                })
            })
        });
        appliance.run_ok(&["backup", "create"]);
        sign_up_as(&appliance, &partner, &format!("later{round}"));
        appliance.kill();
        appliance = start();
        for who in ["before", "after", "later"] {
            appliance.run_ok(&["user", "show", &format!("{who}{round}@example.com")]);
        }
        appliance.run_ok(&["store", "verify"]);
    }
}

#[test]
fn a_boot_id_that_the_unit_hides_is_reported() {
    let unit = packaged("playgate.service", &[]);
    assert!(!unit.lines().any(|line| line.starts_with("ProcSubset=")));
    for (options, is_hidden) in [
        ("hidepid=invisible", false),
        ("hidepid=invisible,subset=pid", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let script = format!("mount -t proc -o {options} proc /proc");
        let Some(command) = in_namespace(&script, &serve(&data)) else {
            return;
        };
        let mut appliance = Appliance::run(&data, command);
        let (status, readiness) = appliance.operator("GET", "/readyz", "");
        assert_eq!(status, 200);
        assert_eq!(readiness.contains("boot id"), is_hidden, "{readiness}");
        let found = appliance.command(&["doctor"]).output_in_time();
        let found = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.contains("ProcSubset=pid"), is_hidden, "{found}");
        appliance.end();
    }
}

#[test]
fn a_restore_onto_a_mount_point_is_refused_and_the_store_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::start(&data);
    let (partner, _) = sign_up(&appliance);
    appliance.run_ok(&["backup", "create"]);
    sign_up_as(&appliance, &partner, "later");
    let backup = appliance.run_json(&["backup", "list", "--json"]);
    let name = backup[0][0]["name"].as_str().unwrap().to_owned();
    appliance.end();
    let store = data.join("store");
    let script = format!("mount --bind {0} {0}", store.display());
    // Without a server, and through one that has the mount point.
    let restore = ["backup", "restore", &name];
    let Some(mut offline) = in_namespace(&script, playgate(&data).args(restore)) else {
        return;
    };
    let refused = offline.output_in_time();
    assert!(!refused.status.success());
    assert!(err(&refused).contains("mount point"), "{}", err(&refused));
    let command = in_namespace(&script, &serve(&data)).unwrap();
    let mut appliance = Appliance::run(&data, command);
    let refused = appliance.command(&restore).output_in_time();
    assert!(!refused.status.success());
    assert!(err(&refused).contains("mount point"), "{}", err(&refused));
    appliance.run_ok(&["user", "show", "later@example.com"]);
    appliance.end();
}

#[test]
fn a_limit_of_file_size_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let command = serve(&folder.path().join("data"));
    let mut limited = after(&["bash"], "ulimit -f 1024", &command);
    limited.env("PLAYGATE_LOG_LEVEL", "warn");
    let output = limited.output_in_time();
    assert_eq!(output.status.code(), Some(5));
    for words in [
        "the size of files is limited",
        "store/log",
        "File too large",
    ] {
        assert!(err(&output).contains(words), "{words}: {}", err(&output));
    }
}
