//! Backups of a running server: made under load, verified, restored on the same machine and on another one, rejected
//! when damaged or foreign, and interrupted by kills.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use playgate_store::{Options, Store};
use serde_json::{Value, json};

use crate::support::appliance::{Appliance, binary, err, playgate, run_json};
use crate::support::external_tools::skip;
use crate::support::metrics::metric;
use crate::support::process::InTime as _;
use crate::support::raw_http::{Answer, Wire, request};
use crate::support::server::{PASSWORD, TestServer};
use crate::support::stop_on_drop::StopOnDrop;
use crate::support::until::{until, until_some};

#[derive(Clone)]
struct User {
    id: String,
    bearer: String,
}

struct Client {
    partner: String,
}

impl Client {
    fn new(appliance: &Appliance) -> Self {
        let partner = appliance.run_json(&["partner", "add", "test", "--json"]);
        Self {
            partner: partner[0]["accessToken"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns `None` if the connection ended first.
    fn sign_up(&self, address: SocketAddr, name: &str) -> Option<User> {
        let body = json!({"identity": format!("{name}@example.com"), "accessKey": PASSWORD});
        let headers = [("Service-AccessToken", self.partner.as_str())];
        let put = request(
            "PUT",
            "/api/login/v2/auth/email",
            &headers,
            &body.to_string(),
        );
        let answer = Wire::to(address).send(put).answer()?;
        assert_eq!(answer.status, 200, "{}", answer.json());
        let json = answer.json();
        Some(User {
            id: json["userId"].as_str().unwrap().to_owned(),
            bearer: format!("Bearer {}", json["token"].as_str().unwrap()),
        })
    }

    fn read(&self, address: SocketAddr, user: &User) -> Answer {
        self.try_read(address, user).expect("an answer")
    }

    /// Like [`Client::read`]. Returns `None` if nothing listens or the connection ends.
    fn try_read(&self, address: SocketAddr, user: &User) -> Option<Answer> {
        let headers = [
            ("Service-AccessToken", self.partner.as_str()),
            ("Authorization", user.bearer.as_str()),
        ];
        let target = format!("/api/user/v1/users/{}", user.id);
        let get = request("GET", &target, &headers, "");
        Wire::try_to(address)?.send(get).answer()
    }
}

fn outcome(command: &mut Command) -> (i32, Output) {
    let output = command.output_in_time();
    (output.status.code().unwrap(), output)
}

fn create(appliance: &Appliance) -> PathBuf {
    let made = appliance.run_json(&["backup", "create", "--json"]);
    assert!(made[0]["records"].as_u64().unwrap() > 0, "{made:?}");
    PathBuf::from(made[0]["path"].as_str().unwrap())
}

/// Verifies a file from an unrelated directory, without a data directory.
fn verified(file: &Path) -> Value {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut verify = binary();
    verify.args(["backup", "verify", "--json"]).arg(file);
    run_json(verify.current_dir(elsewhere.path())).remove(0)
}

#[test]
fn a_backup_made_under_load_is_a_consistent_snapshot() {
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let appliance = Appliance::start(here.path());
    let client = Client::new(&appliance);
    let early: Vec<User> = (0..3)
        .map(|n| {
            client
                .sign_up(appliance.address, &format!("early{n}"))
                .unwrap()
        })
        .collect();
    let done = AtomicBool::new(false);
    let (file, late) = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut late = Vec::new();
            while !done.load(Ordering::SeqCst) {
                let name = format!("late{}", late.len());
                late.push(client.sign_up(appliance.address, &name).unwrap());
            }
            late
        });
        let stop = StopOnDrop(&done);
        let file = create(&appliance);
        drop(stop);
        (file, load.join().unwrap())
    });
    let after = client.sign_up(appliance.address, "after").unwrap();
    let contents = verified(&file);
    let listed = appliance.run_json(&["backup", "list", "--json"]).remove(0);
    assert_eq!(listed[0]["records"], contents["records"]);
    assert_eq!(listed[0]["own"], true);
    let tables = contents["tables"].as_object().unwrap();
    let sum: u64 = tables.values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(contents["records"], sum);

    // On another machine the restore is rejected with the option to use, and accepted with it.
    let restore = || {
        let mut restore = playgate(there.path());
        restore.args(["backup", "restore"]).arg(&file);
        restore
    };
    let (code, output) = outcome(&mut restore());
    assert_eq!(code, 1);
    assert!(err(&output).contains("--adopt"), "{}", err(&output));
    let (code, output) = outcome(restore().args(["--adopt", "--json"]));
    assert_eq!(code, 0, "{}", err(&output));
    assert!(
        err(&output).contains("keys/content.key"),
        "{}",
        err(&output)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["records"], contents["records"]);
    assert_eq!(report["tables"], contents["tables"]);

    let other = Appliance::start(there.path());
    let name = file.file_name().unwrap().to_str().unwrap();
    last_change_is(
        &other,
        "admin_restore_backup",
        &format!("backups/{name}/restore"),
    );
    for user in &early {
        let [one, two] = [&appliance, &other].map(|at| client.read(at.address, user));
        assert_eq!((one.status, two.status), (200, 200));
        assert_eq!(one.json(), two.json());
    }
    // Of the sign-ups during the backup it has the first ones without a gap, and none of those after it.
    let known = |user: &User| client.read(other.address, user).status == 200;
    let there: Vec<bool> = late.iter().map(known).collect();
    assert!(there.is_sorted_by(|a, b| a >= b), "{there:?}");
    assert_eq!(client.read(other.address, &after).status, 401);
    let users = tables["users"].as_u64().unwrap();
    let count = early.len() + there.iter().filter(|known| **known).count();
    assert_eq!(users, u64::try_from(count).unwrap());
    let health = other.run_json(&["store", "verify", "--json"]).remove(0);
    assert_eq!(health["sound"], true);
    assert!(health["durableState"]["number"].as_u64().unwrap() > 0);
}

/// Checks that the restored store has the audit entry of the restore, although the request went to the store before it.
fn last_change_is(appliance: &Appliance, action: &str, target: &str) {
    let changes = appliance.run_json(&["audit", "list", "--json"]).remove(0);
    let last = &changes[0];
    assert_eq!(
        (&last["action"], &last["target"], &last["status"]),
        (&json!(action), &json!(target), &json!(200)),
        "{changes}"
    );
    assert_ne!(changes[1]["action"], action, "once");
}

#[test]
fn a_restore_while_serving_interrupts_briefly() {
    let data = tempfile::tempdir().unwrap();
    let mut appliance = Appliance::start(data.path());
    let client = Client::new(&appliance);
    let before = client.sign_up(appliance.address, "before").unwrap();
    let file = create(&appliance);
    let after = client.sign_up(appliance.address, "after").unwrap();
    let old = appliance.address;
    let name = file.file_name().unwrap().to_str().unwrap();
    let over = AtomicBool::new(false);
    let (answers, (code, output)) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answers = BTreeSet::new();
            while !over.load(Ordering::SeqCst) {
                // `None` while nothing listens, or if the connection ends with the old process.
                let answer = client.try_read(old, &before);
                answers.extend(answer.map(|answer| answer.status));
            }
            answers
        });
        let stop = StopOnDrop(&over);
        let restored = outcome(&mut appliance.command(&["backup", "restore", name, "--json"]));
        drop(stop);
        (asking.join().unwrap(), restored)
    });
    assert_eq!(code, 0, "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["keys"], "open");
    assert_eq!(
        answers,
        BTreeSet::from([200]),
        "answered, and well, or not at all"
    );
    // The command returned after the re-exec: the same process serves the restored state only.
    assert!(appliance.process.try_wait().unwrap().is_none());
    assert_eq!(appliance.operator("GET", "/readyz", "").0, 200);
    appliance.wait_for_reexec();
    assert_eq!(client.read(appliance.address, &before).status, 200);
    assert_eq!(client.read(appliance.address, &after).status, 401);
    client.sign_up(appliance.address, "after").unwrap();
    assert!(data.path().join("aside/store.1/log").is_dir());
    assert!(!data.path().join("restored").exists());
    let health = appliance.run_json(&["store", "verify", "--json"]).remove(0);
    assert_eq!(health["sound"], true, "{health}");
    last_change_is(
        &appliance,
        "admin_restore_backup",
        &format!("backups/{name}/restore"),
    );
    // Once more with a file that has to be uploaded.
    let copy = data.path().join("elsewhere");
    fs::copy(&file, &copy).unwrap();
    appliance.run_json(&["backup", "restore", copy.to_str().unwrap(), "--json"]);
    appliance.wait_for_reexec();
    assert_eq!(client.read(appliance.address, &before).status, 200);
    last_change_is(&appliance, "admin_restore_sent_backup", "backups/restore");
    assert!(data.path().join("aside/store.2/log").is_dir());
    assert!(!data.path().join("upload.snapshot").exists());
    // Backups from before and after the restore belong to the same store.
    create(&appliance);
    let listed = appliance.run_json(&["backup", "list", "--json"]).remove(0);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .all(|line| line["own"] == true)
    );
}

#[test]
fn damaged_or_foreign_backups_are_rejected_without_changes() {
    let [data, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut appliance = Appliance::start(data.path());
    let client = Client::new(&appliance);
    let user = client.sign_up(appliance.address, "ann").unwrap();
    let file = create(&appliance);
    let damaged = file.with_file_name("damaged.snapshot");
    let sound = fs::read(&file).unwrap();
    let foreign = {
        let machine = Appliance::start(other.path());
        Client::new(&machine);
        create(&machine)
    };
    for (byte, end) in [(sound.len() / 2, sound.len()), (0, sound.len() - 9)] {
        let mut bytes = sound[..end].to_vec();
        bytes[byte] ^= 1;
        fs::write(&damaged, &bytes).unwrap();
        let path = damaged.to_str().unwrap();
        let (code, output) = outcome(binary().args(["backup", "verify", "--json", path]));
        assert_eq!(code, 1);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["sound"], false, "{report}");
        assert!(err(&output).contains(path), "{}", err(&output));
        for adopt in [&[][..], &["--adopt"]] {
            let restore = [&["backup", "restore", path], adopt].concat();
            let (code, output) = outcome(&mut appliance.command(&restore));
            assert_eq!(code, 1, "{}", err(&output));
        }
    }
    let path = foreign.to_str().unwrap();
    let (code, output) = outcome(&mut appliance.command(&["backup", "restore", path]));
    assert_eq!(code, 1);
    assert!(err(&output).contains("--adopt"), "{}", err(&output));
    // The admin interface answers with codes.
    let refused = |name: &str, verb: &str| {
        let target = format!("/admin/v1/backups/{name}/{verb}");
        let (status, body) = appliance.operator("POST", &target, "");
        let body: Value = serde_json::from_str(&body).unwrap();
        let code = body["error"]["code"].as_str().unwrap().to_owned();
        (status, code)
    };
    let mut bytes = sound.clone();
    bytes[sound.len() / 2] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    fs::copy(&foreign, file.with_file_name("foreign.snapshot")).unwrap();
    for verb in ["verify", "restore"] {
        let code = refused("damaged.snapshot", verb);
        assert_eq!(code, (409, "BACKUP_UNUSABLE".to_owned()));
        let code = refused("none.snapshot", verb);
        assert_eq!(code, (404, "BACKUP_NOT_FOUND".to_owned()));
    }
    let code = refused("foreign.snapshot", "restore");
    assert_eq!(code, (409, "BACKUP_FOREIGN".to_owned()));
    assert_eq!(client.read(appliance.address, &user).status, 200);
    assert_eq!(appliance.operator("GET", "/readyz", "").0, 200);
    appliance.kill();
    let mut restore = playgate(data.path());
    restore.args(["backup", "restore"]).arg(&damaged);
    assert_eq!(outcome(&mut restore).0, 1);
    assert!(!data.path().join("restored").exists());
    assert!(!data.path().join("upload.snapshot").exists());
    let appliance = Appliance::start(data.path());
    assert_eq!(client.read(appliance.address, &user).status, 200);
}

#[test]
fn nightly_backups_are_made_and_the_oldest_deleted() {
    let data = tempfile::tempdir().unwrap();
    let settings = [
        ("PLAYGATE_LAB_CLOCK", "true"),
        ("PLAYGATE_ENVIRONMENT", "staging"),
        ("PLAYGATE_BACKUP_AT", "03:30"),
        ("PLAYGATE_BACKUP_KEEP", "2"),
    ];
    let appliance = Appliance::with(data.path(), &settings);
    Client::new(&appliance);
    let directory = data.path().join("backups");
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(&directory).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".snapshot")).collect()
    };
    let mut seen = BTreeSet::new();
    for night in 0..4_i64 {
        if night > 0 {
            let body = json!({"offset": night * 86_400}).to_string();
            assert_eq!(appliance.operator("PUT", "/admin/v1/clock", &body).0, 200);
        }
        let new = until_some("another backup", || {
            names().difference(&seen).next().cloned()
        });
        seen.insert(new);
    }
    let kept: BTreeSet<String> = until_some("two backups", || {
        Some(names()).filter(|names| names.len() == 2)
    });
    assert_eq!(kept, seen.into_iter().rev().take(2).collect());
    let metric = |series: &str| -> i64 { metric(&appliance.metrics(), series) };
    // The metrics follow the files.
    until("the age of the newest", || {
        metric("playgate_backup_newest_age_seconds") < 3_600
    });
    assert!(metric("playgate_backup_newest_records") > 0);
    assert_eq!(metric("playgate_backups"), 2);
    assert_eq!(metric("playgate_store_writable"), 1);
    assert!(metric("playgate_store_free_bytes") > 0);
    for name in kept {
        assert_eq!(verified(&directory.join(name))["sound"], true);
    }
}

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    /// Returns `None` if this process may not mount; in CI that is a failure.
    fn of(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(path)
            .output_in_time();
        let mounted = mounted.status.success();
        if !mounted {
            skip("no disk can be mounted here");
        }
        mounted.then(|| Self(path.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status_in_time();
    }
}

#[test]
fn a_backup_without_disk_space_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::of(&folder.path().join("disk"), "64m") else {
        return;
    };
    let directory = disk.0.join("playgate");
    let settings = [("PLAYGATE_BACKUP_DIR", directory.to_str().unwrap())];
    let appliance = Appliance::with(&folder.path().join("data"), &settings);
    let client = Client::new(&appliance);
    let attempt = || appliance.operator("POST", "/admin/v1/backups", "");
    // Like a disk that is not mounted: the directory is not created in its place.
    let (status, body) = attempt();
    assert_eq!(status, 503, "{body}");
    assert!(
        body.contains("BACKUP_FAILED") && body.contains("mounted"),
        "{body}"
    );
    assert!(!directory.exists());
    fs::create_dir(&directory).unwrap();
    assert_eq!(attempt().0, 200);
    let files = || fs::read_dir(&directory).unwrap().count();
    let ballast = disk.0.join("full");
    fs::write(&ballast, vec![1; 60 << 20]).unwrap();
    client.sign_up(appliance.address, "ann").unwrap();
    let (status, body) = attempt();
    assert_eq!(status, 503, "{body}");
    assert!(
        body.contains("BACKUP_FAILED") && body.contains("full"),
        "{body}"
    );
    assert_eq!(files(), 1);
    // Only the disk of the backups is full, so the service continues.
    assert_eq!(appliance.operator("GET", "/readyz", "").0, 200);
    client.sign_up(appliance.address, "bea").unwrap();
    fs::remove_file(&ballast).unwrap();
    assert_eq!(attempt().0, 200);
    assert_eq!(files(), 2);
}

#[test]
fn a_kill_during_a_backup_leaves_no_partial_backup() {
    let data = tempfile::tempdir().unwrap();
    let mut appliance = Appliance::start(data.path());
    let client = Client::new(&appliance);
    let user = client.sign_up(appliance.address, "ann").unwrap();
    for round in 0..5 {
        let mut create = appliance.command(&["backup", "create"]);
        let mut creating = create.stderr(Stdio::null()).spawn().unwrap();
        thread::park_timeout(Duration::from_millis(40 * round));
        appliance.kill();
        creating.status_in_time();
        appliance = Appliance::start(data.path());
        assert_eq!(client.read(appliance.address, &user).status, 200);
        let listed = appliance.run_json(&["backup", "list", "--json"]).remove(0);
        for line in listed.as_array().unwrap() {
            let path = Path::new(line["path"].as_str().unwrap());
            assert_eq!(verified(path)["sound"], true, "round {round}");
        }
    }
    create(&appliance);
    let left = fs::read_dir(data.path().join("backups")).unwrap();
    for entry in left {
        let name = entry.unwrap().file_name();
        assert!(name.to_str().unwrap().ends_with(".snapshot"), "{name:?}");
    }
}

/// Each kill waits until a step has begun, and comes shortly after that.
#[test]
fn a_kill_during_a_restore_leaves_the_old_or_the_new_store() {
    let data = tempfile::tempdir().unwrap();
    let [unpacked, whole, aside] =
        ["restored", "restored/store/whole", "aside"].map(|name| data.path().join(name));
    let mut appliance = Appliance::start(data.path());
    let client = Client::new(&appliance);
    let before = client.sign_up(appliance.address, "before").unwrap();
    let file = create(&appliance);
    let name = file.file_name().unwrap().to_str().unwrap();
    for (step, wait) in [(0, 0), (0, 15), (0, 40), (1, 0), (1, 30), (2, 0), (2, 10)] {
        let after = format!("after{step}-{wait}");
        let after = client.sign_up(appliance.address, &after).unwrap();
        let mut restore = appliance.command(&["backup", "restore", name]);
        let quiet = restore.stdout(Stdio::null()).stderr(Stdio::null());
        let mut restoring = quiet.spawn().unwrap();
        // A step that ended before it was observed counts as begun.
        let begun = || match step {
            0 => unpacked.exists() || aside.exists(),
            1 => whole.exists() || aside.exists(),
            _ => aside.exists(),
        };
        until("the step", begun);
        thread::park_timeout(Duration::from_millis(wait));
        appliance.kill();
        // The command may wait for the server or work by itself.
        restoring.kill().unwrap();
        restoring.status_in_time();
        appliance = Appliance::start(data.path());
        assert_eq!(client.read(appliance.address, &before).status, 200);
        let status = client.read(appliance.address, &after).status;
        assert!([200, 401].contains(&status), "{status}");
        assert!(step < 2 || status == 401, "it was in place");
        let health = appliance.run_json(&["store", "verify", "--json"]).remove(0);
        assert_eq!(health["sound"], true, "{step} {wait}: {health}");
        assert!(!unpacked.exists());
        // Each round starts without one.
        let _ = fs::remove_dir_all(&aside);
    }
}

#[test]
fn a_restore_is_refused_if_the_process_cannot_reexec() {
    let directory = tempfile::tempdir().unwrap();
    let backups = directory.path().to_str().unwrap().to_owned();
    let server = TestServer::with_store(
        |data| {
            let options = Options {
                sync: false,
                ..Options::default()
            };
            Store::open(data, playgate_records::schema(), options).unwrap()
        },
        &[("backup.dir", &backups)],
    );
    let made = server.operator("POST", "backups", &Value::Null);
    assert_eq!(made.status, 200, "{}", made.json());
    let name = made.json()["name"].as_str().unwrap().to_owned();
    let verified = server.operator("POST", &format!("backups/{name}/verify"), &Value::Null);
    assert_eq!(verified.json()["records"], made.json()["records"]);
    for target in [
        format!("backups/{name}/restore"),
        "backups/restore".to_owned(),
    ] {
        let refused = server.operator("POST", &target, &Value::Null);
        assert_eq!(refused.status, 409, "{}", refused.json());
        assert_eq!(refused.code(), "RESTART_NOT_POSSIBLE");
    }
}
