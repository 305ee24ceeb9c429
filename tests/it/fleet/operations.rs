//! A fleet as operators see it: health, mistakes and their messages, `reseed` and `dissolve`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::trial::{Fleet, refusal};
use super::{playgate, post, send, single_node_config, until};
use crate::support::appliance::{Appliance, binary, err};
use crate::support::external_tools::{faketime_library, free_port, packaged};
use crate::support::process::{InTime as _, KilledOnDrop};
use crate::support::server::{PASSWORD, TestServer};

/// The order of the parts matters, because members are stopped on the way.
#[test]
fn operators_see_what_is_wrong_with_a_fleet_and_what_to_do() {
    let Some(faketime) = faketime_library() else {
        return;
    };
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    health_is_reported_by_every_member(&fleet);
    wrong_endpoints_are_named(&fleet);
    wrong_invitations_are_refused(&fleet, &faketime);
    a_full_etcd_is_reported_and_nothing_is_lost(&fleet);
    let standby = (fleet.owner() + 1) % 3;
    a_clock_that_differs_is_reported(&mut fleet, standby, &faketime);
    a_restored_backup_is_refused(&mut fleet, standby);
    a_member_that_was_away_too_long_takes_a_copy(&mut fleet, standby);
    a_member_without_a_store_passes_viewers_on(&mut fleet, standby);
    dissolving_leaves_one_single_node(&mut fleet);
}

/// A killed owner does not have to wait until its own lease ends.
#[test]
fn killed_owner_revokes_its_lease_when_it_starts_again() {
    // Far longer than a takeover takes. At least three quarters of it are left at any time.
    const LEASE: Duration = Duration::from_secs(15);
    let lease = [("PLAYGATE_FLEET_LEASE", "15s")];
    let Some(mut fleet) = Fleet::with(&lease) else {
        return;
    };
    // A member that has just started does not take over.
    std::thread::park_timeout(LEASE);
    let owner = fleet.owner();
    let killed = Instant::now();
    fleet.members[owner].process.kill();
    // Control: without the restart the claim remains.
    std::thread::park_timeout(Duration::from_secs(1));
    assert_eq!(fleet.owner(), owner);
    let member = &mut fleet.members[owner];
    member.process.start(&member.config, &lease);
    until("another owner", || (fleet.owner() != owner).then_some(()));
    assert!(killed.elapsed() < LEASE * 2 / 3);
}

#[test]
fn a_single_node_has_no_fleet() {
    let server = TestServer::start();
    let answer = server.operator("GET", "fleet", &Value::Null);
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({ "members": [], "etcd": [], "problems": [] })
    );
}

/// The disk of the data directory may not be mounted: a new store would be in no fleet, and its changes would be lost.
#[test]
fn commands_create_no_store_where_a_member_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = folder.path().join("playgate.toml");
    let text = format!(
        "data_dir = \"{}\"\n[fleet]\nendpoints = [\"http://127.0.0.1:1\"]\n",
        data.display()
    );
    fs::write(&config, text).unwrap();
    let refused = playgate(&config, &["partner", "add", "test"]).unwrap_err();
    assert!(refused.contains("belongs to no fleet"), "{refused}");
    assert!(!data.join("store").exists());
    // Control: without a fleet the command creates a store.
    playgate(&single_node_config(&config), &["partner", "add", "test"]).unwrap();
    assert!(data.join("store").exists());
}

#[test]
fn a_single_node_has_no_thread_and_no_socket_of_a_fleet() {
    let folder = tempfile::tempdir().unwrap();
    let single = Appliance::start(&folder.path().join("data"));
    let id = single.process.id();
    assert_eq!(fleet_threads(id), Vec::<String>::new());
    // The listeners of clients and of operators.
    assert_eq!(tcp_sockets(id), 2);

    // Control: a member listens for other members and is connected to etcd.
    let Some(fleet) = Fleet::start() else { return };
    let id = fleet.members[fleet.owner()].process.id();
    assert_eq!(fleet_threads(id), ["fleet-claim", "fleet-follow"]);
    assert!(tcp_sockets(id) > 3);
}

fn fleet_threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    let mut names: Vec<_> = names.map(|name| name.trim().to_owned()).collect();
    names.retain(|name| name.starts_with("fleet"));
    names.sort();
    names
}

/// Counts listening and connected sockets.
fn tcp_sockets(process: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let files = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    let open: Vec<_> = files
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    let table = |name| fs::read_to_string(format!("/proc/{process}/net/{name}")).unwrap();
    let tables = table("tcp") + &table("tcp6");
    let inodes = tables
        .lines()
        .filter_map(|line| line.split_whitespace().nth(9));
    let is_open = |inode: &&str| open.contains(&format!("socket:[{inode}]"));
    inodes.filter(is_open).count()
}

// -- The parts

fn health_is_reported_by_every_member(fleet: &Fleet) {
    let config = &fleet.members[0].config;
    let added = playgate(
        config,
        &["operator", "add", "Watch", "--role", "observer", "--json"],
    );
    let added: Value = serde_json::from_str(&added.unwrap()).unwrap();
    let bearer = format!("Bearer {}", added["token"].as_str().unwrap());
    for member in &fleet.members {
        let ops = ops(&member.config);
        let report = until("a report", || {
            let headers = [("Authorization", &*bearer)];
            let (status, body) = send(ops, "GET", "/admin/v1/fleet", &headers, "")?;
            assert_eq!(status, 200, "{body}");
            let report: Value = serde_json::from_str(&body).unwrap();
            // The first report may be older than the last member.
            let members = report["members"].as_array().unwrap().len();
            (members == 3).then_some(report)
        });
        let list = |name: &str| report[name].as_array().unwrap().clone();
        let members = list("members");
        assert!(
            members.iter().all(|member| member.get("error").is_none()),
            "{report}"
        );
        let owners = members.iter().filter(|member| member["owner"] == true);
        assert_eq!(owners.count(), 1, "{report}");
        // All members run on this machine.
        let clocks = members
            .iter()
            .map(|member| member["clockMillis"].as_i64().unwrap());
        assert!(clocks.max().unwrap() < 2_000, "{report}");
        let etcd = list("etcd");
        let leaders = etcd.iter().filter(|endpoint| endpoint["leader"] == true);
        assert_eq!((etcd.len(), leaders.count()), (3, 1), "{report}");
        assert!(
            etcd.iter().all(|endpoint| endpoint["quota"].is_u64()),
            "{report}"
        );

        let metrics = send(ops, "GET", "/metrics", &[], "").unwrap().1;
        let is_owner = metrics.lines().any(|line| line == "playgate_fleet_owner 1");
        let rules = packaged("playgate-alerts.yml", &[]);
        let words = rules.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let named: Vec<_> = words
            .filter(|word| word.starts_with("playgate_fleet_"))
            .collect();
        assert!(named.len() > 5);
        for name in named {
            // TLS is not used here.
            let is_absent = name == "playgate_fleet_etcd_certificate_end_timestamp_seconds";
            // The owner speaks of all members and of etcd.
            let of_etcd = name.contains("_etcd_") && !name.contains("_errors_");
            let is_owners = of_etcd || name.contains("_member_") || name.contains("_problems");
            let series = |line: &str| {
                line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} "))
            };
            let is_shown = metrics.lines().any(series);
            assert!(is_absent || is_shown == (is_owner || !is_owners), "{name}");
        }
    }
    let found = doctor(config);
    assert!(
        found.iter().any(|finding| finding["state"] == "ok"),
        "{found:?}"
    );
}

/// With two wrong endpoints the rest still serves, and `doctor` names the wrong ones.
fn wrong_endpoints_are_named(fleet: &Fleet) {
    let dead = format!("http://127.0.0.1:{}", free_port());
    // A server that is not etcd.
    let other = format!("http://{}", fleet.members[0].address);
    let config = with_endpoints(&fleet.members[0].config, &[&dead, &fleet.etcd[0], &other]);
    let status = playgate(&config, &["fleet", "status"]).unwrap();
    assert!(status.contains("owner"), "{status}");
    let status = playgate(&config, &["fleet", "status", "--json"]).unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let members = status["members"].as_array().unwrap();
    assert_eq!(members.len(), fleet.members.len(), "{status}");
    let owners = members.iter().filter(|member| member["owner"] == true);
    assert_eq!(owners.count(), 1, "{status}");
    for wrong in [&dead, &other] {
        let named = doctor(&config).into_iter().find(|finding| {
            let text = finding["finding"].as_str().unwrap();
            text.contains(wrong) && text.contains("does not answer")
        });
        assert!(
            named.unwrap()["fix"]
                .as_str()
                .unwrap()
                .contains("fleet.endpoints")
        );
    }
    let config = with_endpoints(&fleet.members[0].config, &[&dead]);
    let status = playgate(&config, &["fleet", "status"]).unwrap();
    assert!(
        status.contains("check that etcd runs, and `fleet.endpoints`"),
        "{status}"
    );

    // An etcd without a fleet or with another one.
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let config = with_endpoints(&fleet.members[0].config, &[&etcd.url]);
    let refused = until("an answer", || {
        let status = playgate(&config, &["fleet", "status"]).unwrap();
        status.contains("another fleet").then_some(status)
    });
    assert!(
        refused.contains("`fleet.endpoints` lead to another etcd"),
        "{refused}"
    );
    etcd.stop();
}

fn wrong_invitations_are_refused(fleet: &Fleet, faketime: &str) {
    let first = &fleet.members[0].config;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("four.toml");
    let text = fs::read_to_string(first).unwrap();
    let text = text.replace("/one\"", "/four\"");
    let listen = text
        .lines()
        .rfind(|line| line.starts_with("listen = "))
        .unwrap();
    let free = format!("listen = \"127.0.0.1:{}\"", free_port());
    fs::write(&config, text.replace(listen, &free)).unwrap();
    let join = |word: &str, name: &str| playgate(&config, &["fleet", "join", word, "--name", name]);

    let mistyped = join("abcdefgh", "four").unwrap_err();
    assert!(mistyped.contains("copy the whole word"), "{mistyped}");
    let word = playgate(first, &["fleet", "invite"]).unwrap();
    // A name of another member: the invitation is used up, and nothing else has changed.
    let doubled = join(word.trim(), "two").unwrap_err();
    assert!(doubled.contains("the fleet has a member two"), "{doubled}");
    assert!(doubled.contains("choose another name"), "{doubled}");
    let used = join(word.trim(), "four").unwrap_err();
    assert!(used.contains("run `playgate fleet invite` again"), "{used}");
    // A machine whose clock is a minute ahead.
    let invited = as_json(first, &["fleet", "invite"]);
    let word = invited["word"].as_str().unwrap();
    assert!(invited["expires"].is_i64(), "{invited}");
    let mut ahead = binary();
    ahead
        .arg("--config")
        .arg(&config)
        .args(["fleet", "join", word.trim(), "--name", "four"]);
    let ahead = ahead.envs(clock_ahead(faketime)).output_in_time();
    assert!(
        err(&ahead).contains("the clock of this machine differs"),
        "{}",
        err(&ahead)
    );
    assert!(
        err(&ahead).contains("synchronise the clocks"),
        "{}",
        err(&ahead)
    );
    assert_eq!(fleet.status().len(), 3);
}

/// Like an etcd at its quota, until an operator has made room.
fn a_full_etcd_is_reported_and_nothing_is_lost(fleet: &Fleet) {
    let address = fleet.etcd[0]["http://".len()..].parse().unwrap();
    let ask = |path: &str, body: &Value| -> Value {
        let (_, body) = post(address, path, &[], &body.to_string()).unwrap();
        serde_json::from_str(&body).unwrap()
    };
    let status = ask("/v3/maintenance/status", &json!({}));
    let member = status["header"]["member_id"].as_str().unwrap();
    let alarm = |action: &str| json!({ "action": action, "memberID": member, "alarm": "NOSPACE" });
    ask("/v3/maintenance/alarm", &alarm("ACTIVATE"));
    assert_eq!(sign_up(fleet, "full@example.com"), Some(503));
    // Reads continue for longer than the owner's lease, because it renews its claim without a change.
    let address = fleet.members[fleet.owner()].address;
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let headers = [("Service-AccessToken", &*fleet.partner)];
        let read = send(address, "GET", "/api/catalog/v1/assets", &headers, "");
        assert_eq!(read.map(|(status, _)| status), Some(200));
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let found = doctor(&fleet.members[0].config);
    let named = found
        .iter()
        .find(|finding| finding["finding"].as_str().unwrap().contains("NOSPACE"));
    assert_eq!(named.unwrap()["state"], "problem", "{found:?}");
    ask("/v3/maintenance/alarm", &alarm("DEACTIVATE"));
    until("a sign-up", || {
        (sign_up(fleet, "room@example.com") == Some(200)).then_some(())
    });
}

fn a_clock_that_differs_is_reported(fleet: &mut Fleet, standby: usize, faketime: &str) {
    let member = &mut fleet.members[standby];
    member.process.stop();
    member.process.start(&member.config, &clock_ahead(faketime));
    let text = format!("the clock of member {} is 60 s ahead", member.name);
    until("a report of the clock", || {
        let found = doctor(&fleet.members[(standby + 1) % 3].config);
        let says = |finding: &Value| finding["finding"] == *text;
        found.iter().any(says).then_some(())
    });
    fleet.members[standby].process.stop();
}

/// A backup that was restored outside of the fleet starts another history.
fn a_restored_backup_is_refused(fleet: &mut Fleet, standby: usize) {
    let config = fleet.members[standby].config.clone();
    let data = data_dir(&config);
    let made = playgate(
        &fleet.members[(standby + 1) % 3].config,
        &["backup", "create", "--json"],
    );
    let made: Value = serde_json::from_str(&made.unwrap()).unwrap();
    let file = made["path"].as_str().unwrap();
    // `backup restore` refuses on a standby and on the owner: a single member cannot be restored.
    for at in [standby, (standby + 1) % 3] {
        let refused = playgate(
            &fleet.members[at].config,
            &["backup", "restore", file, "--yes"],
        );
        let refused = refused.unwrap_err();
        assert!(refused.contains("fleet"), "{refused}");
    }
    // Bypasses the command.
    let single_node = single_node_config(&config);
    fs::rename(data.join("fleet"), data.join("away")).unwrap();
    let restored = playgate(
        &single_node,
        &["backup", "restore", file, "--yes", "--adopt"],
    );
    restored.unwrap();
    playgate(&single_node, &["store", "verify"]).unwrap();
    fs::rename(data.join("away"), data.join("fleet")).unwrap();
    let (code, log) = refusal(&config);
    assert_eq!(code, 5, "{log}");
    assert!(log.contains("playgate fleet reseed"), "{log}");
    playgate(&config, &["fleet", "reseed"]).unwrap();
    let member = &mut fleet.members[standby];
    member.process.start(&member.config, &[]);
    fleet.wait_until_equal();
    fleet.members[standby].process.stop();
}

/// etcd no longer has the part of the log that the member needs.
fn a_member_that_was_away_too_long_takes_a_copy(fleet: &mut Fleet, standby: usize) {
    for number in 0..3 {
        let user = format!("away{number}@example.com");
        assert_eq!(sign_up(fleet, &user), Some(200));
    }
    let name = fleet.members[standby].name.clone();
    until("the other members", || {
        let status = fleet.status();
        let others = status.iter().filter(|(other, ..)| *other != name);
        let equal = others.filter(|(.., behind)| *behind == 0).count() == 2;
        equal.then_some(())
    });
    // Trims the log as the owner does, but far earlier.
    let address = fleet.etcd[0]["http://".len()..].parse().unwrap();
    let encode = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let status = playgate(&fleet.members[0].config, &["fleet", "status"]).unwrap();
    let id = status.split_whitespace().nth(1).unwrap();
    let log = format!("playgate/{id}/log");
    let range =
        json!({ "key": encode(&format!("{log}/")), "range_end": encode(&format!("{log}0")) });
    post(address, "/v3/kv/deleterange", &[], &range.to_string()).unwrap();
    let config = fleet.members[standby].config.clone();
    let (code, log) = refusal(&config);
    assert_eq!(code, 5, "{log}");
    assert!(
        log.contains("was away too long; run `playgate fleet reseed`"),
        "{log}"
    );

    let owner = fleet.owner();
    let running = playgate(&fleet.members[owner].config, &["fleet", "reseed"]).unwrap_err();
    assert!(running.contains("this member is the owner"), "{running}");
    let copied = as_json(&config, &["fleet", "reseed"]);
    let names = [standby, owner].map(|at| &fleet.members[at].name);
    assert_eq!([&copied["name"], &copied["from"]], names, "{copied}");
    assert!(copied["commit"].is_u64(), "{copied}");
    fleet.members[standby].process.start(&config, &[]);
    fleet.wait_until_equal();
    let other = (0..3).find(|at| *at != standby && *at != owner).unwrap();
    let running = playgate(&fleet.members[other].config, &["fleet", "reseed"]).unwrap_err();
    assert!(
        running.contains("only one process can open the store"),
        "{running}"
    );
}

/// Clients need nothing of its store; operators and health checks see that it is damaged.
fn a_member_without_a_store_passes_viewers_on(fleet: &mut Fleet, standby: usize) {
    let config = fleet.members[standby].config.clone();
    fleet.members[standby].process.stop();
    for entry in fs::read_dir(data_dir(&config).join("store")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let ask = |fleet: &Fleet| {
        let headers = [("Service-AccessToken", &*fleet.partner)];
        let at = fleet.members[standby].address;
        send(at, "GET", "/api/catalog/v1/assets", &headers, "")
    };
    fleet.members[standby].process.start(&config, &[]);
    let (status, body) = until("the reason", || {
        send(ops(&config), "GET", "/readyz", &[], "")
    });
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("\"store\":"), "{body}");
    // No attempt is refused before the owner is known.
    for _ in 0..3 {
        let (status, body) = ask(fleet).unwrap();
        assert_eq!(status, 200, "{body}");
    }
    // Requests are also passed on to the next owner.
    let owner = fleet.owner();
    fleet.members[owner].process.pause();
    until("an answer of the next owner", || {
        ask(fleet).filter(|(status, _)| *status == 200)
    });
    fleet.members[owner].process.resume();
    fleet.members[standby].process.stop();
    playgate(&config, &["fleet", "reseed"]).unwrap();
    fleet.members[standby].process.start(&config, &[]);
    fleet.wait_until_equal();
}

fn dissolving_leaves_one_single_node(fleet: &mut Fleet) {
    let owner = fleet.owner();
    let (kept, others) = (owner, [(owner + 1) % 3, (owner + 2) % 3]);
    let config = fleet.members[kept].config.clone();
    let unsure = playgate(&config, &["fleet", "dissolve"]).unwrap_err();
    assert!(unsure.contains("add `--yes` to confirm"), "{unsure}");
    // When the service stops, another member takes over. Dissolving now would lose what that one acknowledges.
    fleet.members[kept].process.stop();
    until("another owner", || (fleet.owner() != kept).then_some(()));
    let refused = playgate(&config, &["fleet", "dissolve", "--yes"]).unwrap_err();
    assert!(refused.contains("is the owner"), "{refused}");
    assert!(refused.contains("stop its service"), "{refused}");
    for at in others {
        fleet.members[at].process.stop();
    }
    let dissolved = as_json(&config, &["fleet", "dissolve", "--yes"]);
    assert_eq!(dissolved["result"], "dissolved", "{dissolved}");
    // No other member serves again, and its error gives the reason.
    let (code, log) = refusal(&fleet.members[others[0]].config);
    assert_eq!(code, 5, "{log}");
    let name = &fleet.members[kept].name;
    assert!(
        log.contains(&format!(
            "the fleet was dissolved, and member {name} continues alone"
        )),
        "{log}"
    );
    let left = as_json(&fleet.members[others[0]].config, &["fleet", "leave"]);
    assert_eq!(left["result"], "left", "{left}");
    let kept = single_node_config(&config);
    playgate(&kept, &["store", "verify"]).unwrap();
    let export = playgate(&kept, &["store", "export", "-"]).unwrap();
    // The user of the demo and the sign-ups above.
    let users = export.lines().filter(|line| line.starts_with("users\t"));
    assert!(users.count() >= 5, "{export}");
}

// -- Helpers

/// Runs a command with `--json`.
pub fn as_json(config: &Path, arguments: &[&str]) -> Value {
    let printed = playgate(config, &[arguments, &["--json"]].concat()).unwrap();
    serde_json::from_str(&printed).unwrap()
}

fn clock_ahead(faketime_library: &str) -> [(&'static str, &str); 3] {
    [
        ("LD_PRELOAD", faketime_library),
        ("FAKETIME", "+60s"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ]
}

pub struct Etcd {
    pub url: String,
    process: KilledOnDrop,
    _folder: tempfile::TempDir,
}

impl Etcd {
    pub fn start() -> Option<Self> {
        let program = crate::support::external_tools::program("etcd")?;
        let folder = tempfile::tempdir().unwrap();
        let [url, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()));
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(folder.path())
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Some(Self {
            url,
            process: KilledOnDrop(child.unwrap()),
            _folder: folder,
        })
    }

    pub fn stop(&mut self) {
        let _ = self.process.kill();
        self.process.status_in_time();
    }
}

/// Returns the findings of `doctor` on the fleet.
pub fn doctor(config: &Path) -> Vec<Value> {
    let mut command = binary();
    let command = command
        .arg("--config")
        .arg(config)
        .args(["doctor", "--json"]);
    let output = command.env_remove("PLAYGATE_OPS_LISTEN").output_in_time();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = found.as_array().unwrap().iter();
    found
        .filter(|finding| finding["part"] == "fleet")
        .cloned()
        .collect()
}

fn setting(config: &Path, section: &str, key: &str) -> String {
    let text = fs::read_to_string(config).unwrap();
    let (_, rest) = text.split_once(section).unwrap();
    let line = rest
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{key} = ")));
    line.unwrap().trim_matches('"').to_owned()
}

pub fn ops(config: &Path) -> SocketAddr {
    setting(config, "[ops]", "listen").parse().unwrap()
}

pub fn data_dir(config: &Path) -> PathBuf {
    setting(config, "", "data_dir").into()
}

/// Copies the configuration with other endpoints.
pub fn with_endpoints(config: &Path, endpoints: &[&str]) -> PathBuf {
    let text = fs::read_to_string(config).unwrap();
    let old = text
        .lines()
        .find(|line| line.starts_with("endpoints = "))
        .unwrap();
    let new = format!("endpoints = {endpoints:?}");
    let path = config.with_extension("other.toml");
    fs::write(&path, text.replace(old, &new)).unwrap();
    path
}

pub fn sign_up(fleet: &Fleet, email: &str) -> Option<u16> {
    by_email(fleet, fleet.owner(), "PUT", email)
}

/// Signs up or logs in at a member. Returns the status.
pub fn by_email(fleet: &Fleet, at: usize, method: &str, email: &str) -> Option<u16> {
    let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", &*fleet.partner)];
    let address = fleet.members[at].address;
    let (status, _) = send(address, method, "/api/login/v2/auth/email", &headers, &body)?;
    Some(status)
}

/// The addresses of all users.
pub fn users(config: &Path) -> Vec<String> {
    let text = until("a list of users", || {
        playgate(config, &["user", "list", "--json"]).ok()
    });
    let users: Value = serde_json::from_str(&text).unwrap();
    let users = users.as_array().unwrap().iter();
    users
        .map(|user| user["email"].as_str().unwrap().to_owned())
        .collect()
}
