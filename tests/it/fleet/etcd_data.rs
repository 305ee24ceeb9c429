//! What becomes of a fleet when the data of etcd grow, are lost, or are restored from an older copy.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::operations::{Etcd, as_json, data_dir, sign_up, users, with_endpoints};
use super::trial::{Fleet, refusal};
use super::{playgate, single_node_config, until};
use crate::support::external_tools::{free_port, program};
use crate::support::process::{InTime as _, KilledOnDrop};

pub fn ask(url: &str, path: &str, body: &Value) -> Value {
    until("an answer of etcd", || {
        let mut command = Command::new("curl");
        // Long answers have chunks.
        command
            .args(["-s", "--data-binary", "@-"])
            .arg(format!("{url}{path}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut asking = command.spawn().unwrap();
        let mut input = asking.stdin.take().unwrap();
        input.write_all(body.to_string().as_bytes()).unwrap();
        drop(input);
        serde_json::from_slice(&asking.output_in_time().stdout).ok()
    })
}

pub fn encode(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

fn number(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

fn revision(url: &str) -> u64 {
    let get = json!({ "key": encode("playgate/") });
    number(&ask(url, "/v3/kv/range", &get)["header"]["revision"])
}

/// Whether etcd has dropped the history up to a revision.
pub fn is_compacted(url: &str, revision: u64) -> bool {
    let get = json!({ "key": encode("playgate/"), "revision": revision.to_string() });
    let answer = ask(url, "/v3/kv/range", &get);
    answer["error"]
        .as_str()
        .is_some_and(|why| why.contains("compacted"))
}

pub fn size(url: &str, of: &str) -> u64 {
    number(&ask(url, "/v3/maintenance/status", &json!({}))[of])
}

/// As many versions of keys as an idle fleet of three members writes in a month.
pub fn let_a_month_pass(url: &str) -> u64 {
    const REVISIONS: usize = 26_000;
    /// etcd's limit for one transaction.
    const AT_ONCE: usize = 128;
    let record = encode(&"x".repeat(400));
    let key = |at: usize| encode(&format!("idle/{at}"));
    let puts = (0..AT_ONCE).map(|at| json!({ "request_put": { "key": key(at), "value": record } }));
    let puts: Vec<_> = puts.collect();
    for _ in 0..REVISIONS / AT_ONCE {
        ask(url, "/v3/kv/txn", &json!({ "success": puts }));
    }
    revision(url)
}

/// The owner compacts at its start and on a timer, also if nothing is appended.
#[test]
fn an_idle_fleet_keeps_etcd_small_and_hardly_changes_it() {
    const MIB: u64 = 1024 * 1024;
    const IDLE: Duration = Duration::from_secs(20);
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    let url = fleet.etcd[0].clone();
    fleet.wait_until_equal();
    let month = let_a_month_pass(&url);
    let owner = fleet.owner();
    let member = &mut fleet.members[owner];
    member.process.stop();
    member.process.start(&member.config, &[]);
    until("the compaction of a new owner", || {
        is_compacted(&url, month).then_some(())
    });
    let first = size(&url, "dbSize");
    fleet.wait_until_equal();

    let month = let_a_month_pass(&url);
    let (mut began, mut before) = (Instant::now(), revision(&url));
    let mut is_idle = false;
    // The timer needs two rounds of 30 s, and more if a busy etcd does not answer.
    until(
        "a time with hardly a change, and the compaction on a timer",
        || {
            if !is_idle && began.elapsed() >= IDLE {
                let changes = revision(&url) - before;
                println!("{changes} changes in {:?}", began.elapsed());
                is_idle = changes <= began.elapsed().as_secs().div_ceil(10);
                // A busy machine can cost a member its lease, which is written again.
                (began, before) = (Instant::now(), revision(&url));
            }
            (is_idle && is_compacted(&url, month)).then_some(())
        },
    );
    until("space in etcd", || {
        (size(&url, "dbSizeInUse") < 4 * MIB).then_some(())
    });
    // The second month used the space of the first one.
    let second = size(&url, "dbSize");
    assert!(second < first + first / 2, "{first}, then {second}");
}

/// No process of these members applies as much as the log may keep.
#[test]
fn members_that_restart_often_keep_the_log_cut() {
    const USERS: usize = 1_200;
    let settings = [("PLAYGATE_FLEET_LOG_KEEP", "1MiB")];
    let Some(mut fleet) = Fleet::with(&settings) else {
        return;
    };
    let url = fleet.etcd[0].clone();
    let status = playgate(&fleet.members[0].config, &["fleet", "status"]).unwrap();
    let id = status.split_whitespace().nth(1).unwrap().to_owned();
    let log = format!("playgate/{id}/log");
    let range =
        json!({ "key": encode(&format!("{log}/")), "range_end": encode(&format!("{log}0")) });
    let first = || {
        let mut range = range.clone();
        range["keys_only"] = true.into();
        range["limit"] = "1".into();
        let found = ask(&url, "/v3/kv/range", &range);
        found["kvs"][0]["key"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let oldest = first();
    let file = fleet.members[0].config.with_extension("import");
    for round in 0..5 {
        let lines = (0..USERS).map(|user| {
            // Text that does not shrink.
            let seed = format!("{round} {user}");
            let noise = [0, 1, 2].map(|part| BASE64.encode(&hash(&seed, part)));
            let name = noise.concat().replace(['/', '+', '='], "");
            json!({ "email": format!("{round}-{user}@example.com"), "name": name }).to_string()
                + "\n"
        });
        fs::write(&file, lines.collect::<String>()).unwrap();
        until("an import", || {
            let arguments = ["user", "import", file.to_str().unwrap()];
            playgate(&fleet.members[0].config, &arguments).ok()
        });
        for member in &mut fleet.members {
            member.process.stop();
        }
        for member in &mut fleet.members {
            member.process.start(&member.config, &settings);
        }
    }
    until("the end of old entries", || {
        (first() != oldest).then_some(())
    });
    fleet.wait_until_equal();
    let found = ask(&url, "/v3/kv/range", &range);
    let entries = found["kvs"].as_array().unwrap().iter();
    let bytes: usize = entries
        .map(|entry| entry["value"].as_str().unwrap().len() / 4 * 3)
        .sum();
    assert!((512 * 1024..2 * 1024 * 1024).contains(&bytes), "{bytes}");
}

fn hash(seed: &str, part: u8) -> Vec<u8> {
    let mut text = seed.as_bytes().to_vec();
    text.push(part);
    ring::digest::digest(&ring::digest::SHA256, &text)
        .as_ref()
        .to_vec()
}

/// Returns the last commit of a member, as its files have it.
fn commit_of(config: &Path, name: &str) -> u64 {
    let status = as_json(config, &["fleet", "status"]);
    let members = status["members"].as_array().unwrap().iter();
    let this_member = members
        .clone()
        .find(|member| member["name"] == *name)
        .unwrap();
    assert_eq!(
        (&this_member["role"], &this_member["up"]),
        (&json!("down"), &json!(false)),
        "{status}"
    );
    assert!(
        this_member["epoch"].is_u64() && status["error"].is_string(),
        "{status}"
    );
    this_member["commit"].as_u64().unwrap()
}

/// Makes all members use another etcd. Returns the new configurations.
fn move_to(fleet: &mut Fleet, url: &str) -> Vec<PathBuf> {
    let configs = fleet.members.iter_mut().map(|member| {
        member.config = with_endpoints(&member.config, &[url]);
        member.config.clone()
    });
    configs.collect()
}

/// All members have stopped afterwards, and one of them lacks a change.
fn lose_etcd(fleet: &mut Fleet, [owner, newest, older]: [usize; 3]) {
    assert_eq!(sign_up(fleet, "before@example.com"), Some(200));
    fleet.wait_until_equal();
    // One member misses a change.
    fleet.members[older].process.stop();
    assert_eq!(sign_up(fleet, "acknowledged@example.com"), Some(200));
    fleet.wait_until_caught_up(newest);
    fleet.kill_etcd();
    // Members that still run say what they know.
    let status = as_json(&fleet.members[newest].config, &["fleet", "status"]);
    let ups = status["members"].as_array().unwrap().iter();
    assert_eq!(
        ups.filter(|member| member["up"] == true).count(),
        2,
        "{status}"
    );
    let running = playgate(
        &fleet.members[newest].config,
        &["fleet", "recover", "--yes"],
    );
    let running = running.unwrap_err();
    assert!(
        running.contains("another process uses this data directory"),
        "{running}"
    );
    for at in [owner, newest] {
        fleet.members[at].process.stop();
    }
}

fn commands_name_the_remedy(config: &Path) {
    for command in ["leave", "dissolve"] {
        let confirmed: &[&str] = if command == "dissolve" {
            &["--yes"]
        } else {
            &[]
        };
        let refused = until("an answer", || {
            let refused = playgate(config, &[&["fleet", command], confirmed].concat());
            refused.err().filter(|why| why.contains("another fleet"))
        });
        assert!(refused.contains("playgate fleet recover"), "{refused}");
    }
    let (code, log) = refusal(config);
    assert!(code == 5 && log.contains("playgate fleet recover"), "{log}");
}

/// The procedure "The data of etcd are lost" of `docs/fleet.md`.
#[test]
fn a_fleet_whose_etcd_is_lost_continues_with_its_newest_member() {
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    let owner = fleet.owner();
    let (newest, older) = ((owner + 1) % 3, (owner + 2) % 3);
    lose_etcd(&mut fleet, [owner, newest, older]);
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let configs = move_to(&mut fleet, &etcd.url);
    commands_name_the_remedy(&configs[owner]);
    let commits: Vec<_> = (0..3)
        .map(|at| commit_of(&configs[at], &fleet.members[at].name))
        .collect();
    assert!(
        commits[newest] == commits[owner] && commits[newest] > commits[older],
        "{commits:?}"
    );
    let unsure = playgate(&configs[newest], &["fleet", "recover"]).unwrap_err();
    let said = format!("commits up to {} of history", commits[newest]);
    assert!(
        unsure.contains(&said) && unsure.contains("`--yes`"),
        "{unsure}"
    );
    let recovered = as_json(&configs[newest], &["fleet", "recover", "--yes"]);
    assert_eq!(recovered["result"], "recovered", "{recovered}");
    assert_eq!(recovered["commit"], commits[newest], "{recovered}");
    fleet.members[newest].process.start(&configs[newest], &[]);
    let found = users(&configs[newest]);
    for user in ["before@example.com", "acknowledged@example.com"] {
        assert!(found.contains(&user.to_owned()), "{found:?}");
    }
    // The others say what to do, and come back.
    let (code, log) = refusal(&configs[older]);
    assert!(
        code == 5 && log.contains("run `playgate fleet reseed`"),
        "{log}"
    );
    for at in [older, owner] {
        let reseeded = as_json(&configs[at], &["fleet", "reseed"]);
        assert_eq!(reseeded["from"], *fleet.members[newest].name, "{reseeded}");
        fleet.members[at].process.start(&configs[at], &[]);
    }
    fleet.wait_until_equal();
    assert_eq!(sign_up(&fleet, "after@example.com"), Some(200));

    // Without a configured etcd the member is a single node.
    fleet.members[older].process.stop();
    let alone = single_node_config(&configs[older]);
    let recovered = as_json(&alone, &["fleet", "recover", "--yes"]);
    assert_eq!(recovered["result"], "recovered", "{recovered}");
    assert!(users(&alone).contains(&"acknowledged@example.com".to_owned()));
    for at in [owner, newest] {
        fleet.members[at].process.stop();
    }
    etcd.stop();
}

/// An etcd with the data of a snapshot.
struct Restored {
    url: String,
    _process: KilledOnDrop,
    _folder: tempfile::TempDir,
}

fn restore(etcdctl: &Path, snapshot: &Path) -> Restored {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let [url, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()));
    let cluster = format!("restored={peer}");
    let names = ["--name", "restored", "--initial-cluster", &cluster];
    let peers = ["--initial-advertise-peer-urls", &peer];
    let mut command = Command::new(etcdctl);
    command
        .env("ETCDCTL_API", "3")
        .args(["snapshot", "restore"])
        .arg(snapshot);
    command.args(names).args(peers).arg("--data-dir").arg(&data);
    assert!(command.output_in_time().status.success());
    let mut command = Command::new(program("etcd").unwrap());
    command.arg("--data-dir").arg(&data).args(names).args(peers);
    command.args(["--listen-peer-urls", &peer]);
    command.args([
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
    ]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Restored {
        url,
        _process: KilledOnDrop(child.unwrap()),
        _folder: folder,
    }
}

/// The changes after the snapshot exist only in the data directories of the members.
#[test]
fn an_etcd_that_was_restored_from_an_older_copy_is_noticed() {
    let (Some(etcdctl), Some(mut fleet)) = (program("etcdctl"), Fleet::start()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    let owner = fleet.owner();
    let (newest, older) = ((owner + 1) % 3, (owner + 2) % 3);
    fleet.wait_until_equal();
    fleet.members[older].process.stop();
    let mut command = Command::new(&etcdctl);
    command
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &fleet.etcd[0], "snapshot", "save"]);
    assert!(command.arg(&snapshot).output_in_time().status.success());
    assert_eq!(sign_up(&fleet, "acknowledged@example.com"), Some(200));
    fleet.wait_until_caught_up(newest);
    for at in [owner, newest] {
        fleet.members[at].process.stop();
    }
    fleet.kill_etcd();
    let restored = restore(&etcdctl, &snapshot);
    let configs = move_to(&mut fleet, &restored.url);
    until("the restored etcd", || {
        playgate(&configs[newest], &["fleet", "status"])
            .ok()
            .filter(|text| text.contains("  etcd "))
    });

    // Each member says what its own files have, the owner too, whose record in etcd says nothing about it.
    let commit = |at: usize| {
        let status = as_json(&configs[at], &["fleet", "status"]);
        let mut members = status["members"].as_array().unwrap().iter();
        let this_member = members.find(|member| member["name"] == *fleet.members[at].name);
        (
            this_member.unwrap()["commit"].as_u64().unwrap(),
            status["head"].as_u64().unwrap(),
        )
    };
    let (last, head) = commit(owner);
    assert!(last > head, "{last} and {head}");
    assert_eq!(commit(newest), (last, head));
    assert!(commit(older).0 <= head);

    let (code, log) = refusal(&configs[newest]);
    assert_eq!(code, 5, "{log}");
    assert!(
        log.contains("etcd was restored from an older copy"),
        "{log}"
    );
    assert!(log.contains("keep all their data directories"), "{log}");
    // A member that has nothing newer, and knows nothing of the old etcd, must not serve either.
    fs::remove_file(data_dir(&configs[older]).join("fleet/state.json")).unwrap();
    let (code, log) = refusal(&configs[older]);
    assert_eq!(code, 5, "{log}");
    let ahead = format!("member {} has commits up to", fleet.members[newest].name);
    assert!(log.contains(&ahead), "{log}");

    playgate(&configs[newest], &["fleet", "recover", "--yes"]).unwrap();
    fleet.members[newest].process.start(&configs[newest], &[]);
    let found = users(&configs[newest]);
    assert!(
        found.contains(&"acknowledged@example.com".to_owned()),
        "{found:?}"
    );
    for at in [older, owner] {
        playgate(&configs[at], &["fleet", "reseed"]).unwrap();
        fleet.members[at].process.start(&configs[at], &[]);
    }
    fleet.wait_until_equal();
    for member in &mut fleet.members {
        member.process.stop();
    }
}

/// Copies a directory with everything in it.
pub fn copy_directory(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status_in_time();
    assert!(copied.success());
}

/// Two processes of one member: the owner could rely on the promise of one while the other one takes over.
#[test]
fn a_copy_of_a_member_does_not_serve_beside_it() {
    let Some(fleet) = Fleet::start() else {
        return;
    };
    fleet.wait_until_equal();
    let owner = fleet.owner();
    let standby = &fleet.members[(owner + 1) % 3];
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    copy_directory(&data_dir(&standby.config), &data);
    let text = fs::read_to_string(&standby.config).unwrap();
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("data_dir", _)) => format!("data_dir = {data:?}"),
        Some(("listen", value)) if value.starts_with('[') => {
            format!("listen = [\"127.0.0.1:{}\"]", free_port())
        }
        Some(("listen", _)) => format!("listen = \"127.0.0.1:{}\"", free_port()),
        _ => line.to_owned(),
    });
    let config = folder.path().join("copy.toml");
    fs::write(&config, lines.collect::<Vec<_>>().join("\n")).unwrap();
    // It must not take over while nobody else can.
    for member in &fleet.members {
        member.process.pause();
    }
    let log = folder.path().join("log");
    let mut command = crate::support::appliance::binary();
    command
        .arg("--config")
        .arg(&config)
        .arg("serve")
        .env_remove("PLAYGATE_OPS_LISTEN")
        .env("PLAYGATE_LOG_LEVEL", "info");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap());
    let mut copy = KilledOnDrop(command.spawn().unwrap());
    let log_of_copy = || fs::read_to_string(&log).unwrap();
    let has_ended = |copy: &mut KilledOnDrop| copy.try_wait().unwrap().is_some();
    until("the doubt of the copy", || {
        assert!(!has_ended(&mut copy), "{}", log_of_copy());
        log_of_copy().contains("was moved or copied").then_some(())
    });
    // Several times as long as a takeover takes.
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        let status = as_json(&fleet.members[owner].config, &["fleet", "status"]);
        let members = status["members"].as_array().unwrap().iter();
        let names = members.filter(|member| member["owner"] == true);
        let names: Vec<_> = names.map(|member| member["name"].clone()).collect();
        assert!(!names.contains(&json!(standby.name)), "{status}");
    }
    // The copy goes, and the member whose place it had.
    let _ = copy.kill();
    copy.status_in_time();
    for member in &fleet.members {
        member.process.resume();
    }
    assert!(
        !log_of_copy().contains("became the owner"),
        "{}",
        log_of_copy()
    );

    until("a change", || {
        (sign_up(&fleet, "after@example.com") == Some(200)).then_some(())
    });
    // Beside a member that is connected to etcd, the copy ends.
    fs::remove_dir_all(&data).unwrap();
    copy_directory(&data_dir(&fleet.members[fleet.owner()].config), &data);
    let (code, log) = refusal(&config);
    assert_eq!(code, 5, "{log}");
    assert!(
        log.contains("one of the two data directories is a copy"),
        "{log}"
    );
}
