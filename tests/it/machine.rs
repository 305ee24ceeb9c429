//! The machine around a server: files that other programs delete, limits of the process, what a unit shows of `/proc`, and mount
//! points.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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

/// Lets a test advance the clock.
const LAB_CLOCK: [(&str, &str); 2] = [
    ("PLAYGATE_LAB_CLOCK", "true"),
    ("PLAYGATE_ENVIRONMENT", "staging"),
];

/// Closed files of telemetry and journal are read only now and then, so that nothing else would notice.
#[test]
fn closed_files_that_a_cleaner_takes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::with(&data, &LAB_CLOCK);
    let (partner, bearer) = sign_up(&appliance);
    let headers = [
        ("Service-AccessToken", &*partner),
        ("Authorization", &*bearer),
    ];
    let upload = |appliance: &Appliance, number: u32| {
        let event =
            format!(r#"[{{"timestamp": 1767268800, "action": "start", "seqId": {number}}}]"#);
        let sent = appliance.ask("POST", "/api/tracker/v1/telemetry-events", &headers, &event);
        assert_eq!(sent.status, 202);
    };
    let names = |folder: &str, ending: &str| {
        let entries = fs::read_dir(data.join(folder)).unwrap().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension() == Some(ending.as_ref()));
        paths.sort();
        paths
    };
    upload(&appliance, 1);
    appliance.end();
    // The start finishes the segment of the journal.
    let mut appliance = Appliance::with(&data, &LAB_CLOCK);
    appliance.run_ok(&["clock", "advance", "2h"]);
    upload(&appliance, 2);
    // Closed: a deleted file that is still open is written again.
    until("a closed hour", || !names("telemetry", "keys").is_empty());
    let taken = [
        names("telemetry", "events")[0].clone(),
        names("journal", "records")[0].clone(),
    ];
    for path in &taken {
        fs::remove_file(path).unwrap();
    }
    let name = taken[0].file_name().unwrap().to_str().unwrap();
    let wanted = [name, "1 segments of the request journal"];
    let readiness = || appliance.operator("GET", "/readyz", "");
    until("both warnings", || {
        let (status, body) = readiness();
        status == 200 && wanted.iter().all(|wanted| body.contains(wanted))
    });
    let found = appliance.command(&["doctor"]).output_in_time();
    let found = String::from_utf8(found.stdout).unwrap();
    for wanted in wanted {
        assert!(found.contains(wanted), "{found}");
    }
    appliance.end();
}

/// What a restore replaced has the users that are erased later.
#[test]
fn an_erasure_names_what_still_has_the_user_until_it_is_deleted_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::with(&data, &LAB_CLOCK);
    sign_up(&appliance);
    appliance.run_ok(&["backup", "create"]);
    let backup = appliance.run_json(&["backup", "list", "--json"]);
    let name = backup[0][0]["name"].as_str().unwrap().to_owned();
    appliance.end();
    let restored = playgate(&data)
        .args(["backup", "restore", &name, "--yes"])
        .output_in_time();
    assert!(restored.status.success(), "{}", err(&restored));
    let mut appliance = Appliance::with(&data, &LAB_CLOCK);
    let replaced = || {
        let entries = fs::read_dir(data.join("aside")).unwrap().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let old = replaced();
    assert_eq!(old.len(), 1);
    let removed = appliance
        .command(&["user", "remove", "ann@example.com", "--yes"])
        .output_in_time();
    assert!(removed.status.success());
    let compacted = appliance.command(&["store", "compact"]).output_in_time();
    for output in [removed, compacted] {
        assert!(
            err(&output).contains(old[0].to_str().unwrap()),
            "{}",
            err(&output)
        );
    }
    appliance.run_ok(&["clock", "advance", "31d"]);
    until("its deletion", || replaced().is_empty());
    appliance.end();
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
fn a_restore_onto_what_cannot_be_replaced_is_refused_and_the_store_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::start(&data);
    let (partner, _) = sign_up(&appliance);
    appliance.run_ok(&["backup", "create"]);
    sign_up_as(&appliance, &partner, "later");
    let backup = appliance.run_json(&["backup", "list", "--json"]);
    let name = backup[0][0]["name"].as_str().unwrap().to_owned();
    appliance.end();
    let kept = folder.path().join("kept");
    let shown = |path: &Path| path.display().to_string();
    let (store, kept, all) = (shown(&data.join("store")), shown(&kept), shown(&data));
    let layers = shown(&folder.path().join("layers"));
    // Mounts end with the namespace of the script; the link is undone.
    let link = format!("test -L {store} || {{ mv {store} {kept}; ln -s {kept} {store}; }}");
    let unlink = format!("rm {store}; mv {kept} {store}");
    let overlay = format!(
        "mkdir -p {layers}; mount -t tmpfs tmpfs {layers}; mkdir {layers}/upper {layers}/work; \
         mount -t overlay -o lowerdir={all},upperdir={layers}/upper,workdir={layers}/work overlay {all}"
    );
    for (script, undo, why) in [
        (
            format!("mount --bind {store} {store}"),
            "true",
            "mount point",
        ),
        (overlay, "true", "lower layer of an overlay"),
        (link, &*unlink, "link"),
    ] {
        // Without a server, and through one.
        let restore = ["backup", "restore", &name, "--yes"];
        let Some(mut offline) = in_namespace(&script, playgate(&data).args(restore)) else {
            return;
        };
        let is_refused = |output: Output| {
            let said = err(&output);
            assert!(!output.status.success(), "{why}");
            assert!(said.contains(why) && said.contains("file system"), "{said}");
        };
        is_refused(offline.output_in_time());
        let command = in_namespace(&script, &serve(&data)).unwrap();
        let mut appliance = Appliance::run(&data, command);
        let (pid, command) = (appliance.process.id(), appliance.command(&restore));
        let enter = format!("--target={pid}");
        is_refused(
            after(&["nsenter", "--mount", &enter, "bash"], "true", &command).output_in_time(),
        );
        let show = appliance.command(&["user", "show", "later@example.com"]);
        let shown = after(&["nsenter", "--mount", &enter, "bash"], "true", &show).output_in_time();
        assert!(shown.status.success(), "{}", err(&shown));
        appliance.end();
        assert!(
            Command::new("bash")
                .args(["-c", undo])
                .status_in_time()
                .success()
        );
    }
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
