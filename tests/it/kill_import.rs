//! A real process that is killed while a guide comes in: afterwards there is the old schedule or the
//! new one, never a mixture and never less; and nobody who reads meanwhile sees one. And one that is
//! killed while an export becomes its store: there is nothing or all of it.
//!
//! `PLAYGATE_KILL_ROUNDS` makes it longer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::appliance::{Appliance, playgate};
use super::guide_maker::MadeGuide;
use super::wire::{Wire, request};

const CHANNELS: usize = 40;
const PROGRAMMES: usize = 60;
const DAY: i64 = 86_400;

fn now() -> i64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    i64::try_from(now).unwrap()
}

fn livestreams() -> String {
    let ids = (0..CHANNELS).map(|n| format!("channel-{n}"));
    ids.collect::<Vec<_>>().join(",")
}

/// What a path answers; nothing when the connection ends with the server.
fn json(wire: &mut Wire, partner: &str, path: &str) -> Option<Value> {
    let headers = [("Service-AccessToken", partner)];
    let target = format!(
        "/api/schedule/v1/broadcasts/{path}livestreams={}",
        livestreams()
    );
    let answer = wire.send(request("GET", &target, &headers, "")).answer()?;
    assert_eq!(answer.status, 200);
    Some(answer.json())
}

/// The first word of each title anywhere in a body, and how many titles there are.
fn words(body: &Value, into: &mut BTreeSet<String>) -> usize {
    match body {
        Value::Object(members) => {
            let title = members.get("title").and_then(Value::as_str);
            into.extend(title.and_then(|t| t.split(' ').next()).map(str::to_owned));
            let inside: usize = members.values().map(|value| words(value, into)).sum();
            usize::from(title.is_some()) + inside
        }
        Value::Array(items) => items.iter().map(|item| words(item, into)).sum(),
        _ => 0,
    }
}

/// Asks for what is on, until the server is gone; no answer may know two guides.
fn watch(mut wire: Wire, partner: &str, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        let Some(body) = json(&mut wire, partner, "live?") else {
            return;
        };
        let mut seen = BTreeSet::new();
        assert_eq!(words(&body, &mut seen), CHANNELS * 3);
        assert_eq!(seen.len(), 1, "a mixture was read: {seen:?}");
    }
}

#[test]
fn a_kill_leaves_the_old_guide_or_the_new_one() {
    let rounds = std::env::var_os("PLAYGATE_KILL_ROUNDS");
    let rounds = rounds.map_or(4, |n| n.to_str().unwrap().parse::<u32>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    // A day into the guide is the middle of a programme, and in none of its gaps.
    let first = now() - DAY;
    let guide = |word: &'static str, shift| {
        let path = folder.path().join(word);
        MadeGuide {
            channels: CHANNELS,
            programmes: PROGRAMMES,
            shift,
            word,
            first,
        }
        .write(&path);
        path
    };
    let guides = [guide("old", 0), guide("new", 300)];
    let data = folder.path().join("data");
    let import = |guide: &Path| {
        let mut command = playgate(&data);
        command
            .args(["epg", "import", "--create-livestreams"])
            .arg(guide)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let began = Instant::now();
    assert!(import(&guides[0]).output().unwrap().status.success());
    let whole = began.elapsed();
    let mut appliance = Appliance::start_with(&data, &[]);
    let partner = appliance.told(&["partner", "add", "test", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let days: Vec<String> = (-2..4)
        .map(|day| {
            let at = chrono::DateTime::from_timestamp(first + day * DAY, 0).unwrap();
            format!("day/{}?", at.format("%Y-%m-%d"))
        })
        .collect();
    let mut outcomes = Vec::new();
    for round in 0..rounds {
        // Towards the other guide than the one that is there.
        let to = usize::from(outcomes.last().is_none_or(|word| word == "old"));
        let over = AtomicBool::new(false);
        let wire = Wire::to(appliance.address);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(wire, &partner, &over));
            let mut upload = import(&guides[to]).spawn().unwrap();
            thread::park_timeout(whole.mul_f64(f64::from(round * 37 % 100) / 80.0));
            appliance.kill();
            over.store(true, Ordering::SeqCst);
            watcher.join().unwrap();
            upload.wait().unwrap();
        });
        appliance = Appliance::start_with(&data, &[]);
        let mut seen = BTreeSet::new();
        let mut wire = Wire::to(appliance.address);
        let all = days.iter().map(|day| {
            let body = json(&mut wire, &partner, day).expect("it runs");
            words(&body, &mut seen)
        });
        assert_eq!(all.sum::<usize>(), CHANNELS * PROGRAMMES, "round {round}");
        assert_eq!(seen.len(), 1, "round {round}: {seen:?}");
        outcomes.extend(seen);
        let sound = appliance.told(&["store", "verify", "--json"]);
        assert_eq!(sound[0]["sound"], true, "round {round}");
    }
    println!("{outcomes:?}");
    // The server takes the next guide as if nothing had been.
    assert!(import(&guides[1]).output().unwrap().status.success());
    let mut seen = BTreeSet::new();
    let live = json(&mut Wire::to(appliance.address), &partner, "live?");
    words(&live.expect("it runs"), &mut seen);
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["new"]);
    appliance.kill();
}

/// Records of a data directory.
fn records(data: &Path) -> usize {
    let output = playgate(data).args(["store", "export", "-"]).output();
    let output = output.unwrap();
    assert!(output.status.success());
    // The lines of head and end are no records.
    String::from_utf8(output.stdout).unwrap().lines().count() - 2
}

#[test]
fn a_kill_in_a_store_import_leaves_an_empty_store_or_the_whole_one() {
    let rounds = std::env::var_os("PLAYGATE_KILL_ROUNDS");
    let rounds = rounds.map_or(6, |n| n.to_str().unwrap().parse::<u32>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let users = folder.path().join("users.ndjson");
    let lines: Vec<String> = (0..8_000)
        .map(|n| format!("{{\"email\":\"u{n}@example.com\"}}"))
        .collect();
    std::fs::write(&users, lines.join("\n")).unwrap();
    let done = |command: &mut std::process::Command| {
        assert!(command.output().unwrap().status.success(), "{command:?}");
    };
    done(playgate(&from).args(["partner", "add", "Acme"]));
    done(playgate(&from).args(["user", "import"]).arg(&users));
    let export = folder.path().join("export");
    done(playgate(&from).args(["store", "export"]).arg(&export));
    let all = records(&from);
    assert!(all > 16_000);
    let import = |data: &Path| {
        let mut command = playgate(data);
        command.args(["store", "import"]).arg(&export);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let began = Instant::now();
    done(&mut import(&folder.path().join("whole")));
    let whole = began.elapsed();
    let mut found = Vec::new();
    for round in 0..rounds {
        let data = folder.path().join(format!("round-{round}"));
        let mut importing = import(&data).spawn().unwrap();
        thread::park_timeout(whole.mul_f64(f64::from(round + 1) / f64::from(rounds)));
        importing.kill().unwrap();
        importing.wait().unwrap();
        let mut appliance = Appliance::start_with(&data, &[]);
        let sound = appliance.told(&["store", "verify", "--json"]);
        assert_eq!(sound[0]["sound"], true, "round {round}");
        appliance.end();
        let there = records(&data);
        // A start notes the time, and nothing else.
        assert!(
            there <= 1 || there == all,
            "round {round}: {there} of {all}"
        );
        found.push(there);
        if there <= 1 {
            done(&mut import(&data));
            assert_eq!(records(&data), all, "round {round}");
        } else {
            assert!(!import(&data).status().unwrap().success());
        }
    }
    println!("{found:?}");
}
