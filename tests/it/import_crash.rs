//! Kills a real process during imports. A guide: the old schedule or the new one remains, and no reader ever sees a
//! mixture. A store export: nothing or everything is imported. Users: no acknowledged user is lost, and the import can
//! be repeated.
//!
//! `PLAYGATE_KILL_ROUNDS` sets the number of rounds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::support::appliance::{Appliance, err, playgate, real_time};
use crate::support::process::InTime as _;
use crate::support::raw_http::{Wire, request};
use crate::support::stop_on_drop::StopOnDrop;
use crate::support::synthetic_guide::SyntheticGuide;

const CHANNELS: usize = 40;
const PROGRAMMES: usize = 60;
const DAY: i64 = 86_400;

fn livestreams() -> String {
    let ids = (0..CHANNELS).map(|n| format!("channel-{n}"));
    ids.collect::<Vec<_>>().join(",")
}

/// Returns a response, or `None` if the connection ends with the server.
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

/// Collects the first word of every title in a body. Returns the number of titles.
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

/// Reads the live view until the server is gone. No response may mix two guides.
fn watch(mut wire: Wire, partner: &str, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let Some(body) = json(&mut wire, partner, "live?") else {
            return;
        };
        let mut seen = BTreeSet::new();
        assert_eq!(words(&body, &mut seen), CHANNELS * 3);
        assert_eq!(seen.len(), 1, "a mixture was read: {seen:?}");
    }
}

#[test]
fn a_kill_during_an_import_leaves_the_old_or_the_new_guide() {
    let rounds = std::env::var_os("PLAYGATE_KILL_ROUNDS");
    let rounds = rounds.map_or(4, |n| n.to_str().unwrap().parse::<u32>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    // Present minus one day, so that the present is in the middle of a programme.
    let first = real_time().0 - DAY;
    let guide = |word: &'static str, shift| {
        let path = folder.path().join(word);
        SyntheticGuide {
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
    assert!(import(&guides[0]).output_in_time().status.success());
    let whole = began.elapsed();
    let mut appliance = Appliance::start_with(&data, &[]);
    let partner = appliance.run_json(&["partner", "add", "test", "--json"]);
    let partner = partner[0]["accessToken"].as_str().unwrap().to_owned();
    let days: Vec<String> = (-2..4)
        .map(|day| {
            let at = chrono::DateTime::from_timestamp(first + day * DAY, 0).unwrap();
            format!("day/{}?", at.format("%Y-%m-%d"))
        })
        .collect();
    let mut outcomes = Vec::new();
    for round in 0..rounds {
        // Imports the guide that is not there now.
        let to = usize::from(outcomes.last().is_none_or(|word| word == "old"));
        let stop = AtomicBool::new(false);
        let wire = Wire::to(appliance.address);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(wire, &partner, &stop));
            let stop = StopOnDrop(&stop);
            let mut upload = import(&guides[to]).spawn().unwrap();
            thread::park_timeout(whole.mul_f64(f64::from(round * 37 % 100) / 80.0));
            appliance.kill();
            drop(stop);
            watcher.join().unwrap();
            upload.status_in_time();
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
        let sound = appliance.run_json(&["store", "verify", "--json"]);
        assert_eq!(sound[0]["sound"], true, "round {round}");
    }
    println!("{outcomes:?}");
    // The server accepts the next guide normally.
    assert!(import(&guides[1]).output_in_time().status.success());
    let mut seen = BTreeSet::new();
    let live = json(&mut Wire::to(appliance.address), &partner, "live?");
    words(&live.expect("it runs"), &mut seen);
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["new"]);
    appliance.kill();
}

/// Checks a data directory after a killed import. Returns the number of its records, or a message if it is neither
/// empty nor complete.
fn killed_import(data: &Path, all: usize) -> Result<usize, String> {
    let mut appliance = Appliance::start_with(data, &[]);
    let sound = appliance.run_json(&["store", "verify", "--json"]);
    if sound[0]["sound"] != true {
        return Err(sound[0].to_string());
    }
    appliance.end();
    let there = records(data);
    if there != 0 && there != all {
        return Err(format!(
            "{there} of {all} records are served as a whole store"
        ));
    }
    Ok(there)
}

/// Counts the records of a data directory, except the time mark that each start writes.
fn records(data: &Path) -> usize {
    let output = playgate(data)
        .args(["store", "export", "-"])
        .output_in_time();
    assert!(output.status.success());
    // The first and the last line are no records.
    let text = String::from_utf8(output.stdout).unwrap();
    let records = text
        .lines()
        .filter(|line| !line.starts_with("clock_mark\t"));
    records.count() - 2
}

fn run_ok(command: &mut Command) {
    let output = command.output_in_time();
    assert!(output.status.success(), "{command:?}: {}", err(&output));
}

/// Exports a store with this number of users. Returns the file and the number of its records.
fn export_store(folder: &Path, users: usize) -> (PathBuf, usize) {
    let (from, export) = (folder.join("from"), folder.join("export"));
    let file = folder.join("users.ndjson");
    let lines: Vec<String> = (0..users)
        .map(|n| format!("{{\"email\":\"u{n}@example.com\"}}"))
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    run_ok(playgate(&from).args(["partner", "add", "Acme"]));
    run_ok(playgate(&from).args(["user", "import"]).arg(&file));
    run_ok(playgate(&from).args(["store", "export"]).arg(&export));
    (export, records(&from))
}

#[test]
fn a_kill_during_a_store_import_leaves_all_or_nothing() {
    let rounds = std::env::var_os("PLAYGATE_KILL_ROUNDS");
    let rounds = rounds.map_or(6, |n| n.to_str().unwrap().parse::<u32>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (export, all) = export_store(folder.path(), 8_000);
    assert!(all > 16_000);
    let import = |data: &Path| {
        let mut command = playgate(data);
        command.args(["store", "import"]).arg(&export);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let began = Instant::now();
    run_ok(&mut import(&folder.path().join("whole")));
    let whole = began.elapsed();
    let mut found = Vec::new();
    for round in 0..rounds {
        let data = folder.path().join(format!("round-{round}"));
        let mut importing = import(&data).spawn().unwrap();
        thread::park_timeout(whole.mul_f64(f64::from(round + 1) / f64::from(rounds)));
        importing.kill().unwrap();
        importing.status_in_time();
        let there = killed_import(&data, all);
        let there = there.unwrap_or_else(|why| panic!("round {round}: {why}"));
        found.push(there);
        if there == 0 {
            run_ok(&mut import(&data));
            assert_eq!(records(&data), all, "round {round}");
        } else {
            assert!(!import(&data).status_in_time().success());
        }
    }
    println!("{found:?}");
}

/// Control: a store with half of the records is sound and would be served, and the check detects it.
#[test]
fn the_check_detects_a_half_imported_store() {
    let folder = tempfile::tempdir().unwrap();
    let (export, all) = export_store(folder.path(), 100);
    let text = std::fs::read_to_string(&export).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let half = (lines.len() - 2) / 2;
    let cut = format!("{}\nend\t{half}\n", lines[..=half].join("\n"));
    let file = folder.path().join("half");
    std::fs::write(&file, cut).unwrap();
    let data = folder.path().join("data");
    run_ok(playgate(&data).args(["store", "import"]).arg(&file));
    let why = killed_import(&data, all).unwrap_err();
    assert!(why.contains(&format!(" of {all} records")), "{why}");

    let whole = folder.path().join("whole");
    run_ok(playgate(&whole).args(["store", "import"]).arg(&export));
    assert_eq!(killed_import(&whole, all), Ok(all));
}

/// Checks a store after a kill and imports `file` again. Returns how many of its users existed already, or a message if
/// an `acknowledged` user is missing.
fn import_again(data: &Path, file: &Path, acknowledged: &Path) -> Result<u64, String> {
    let mut appliance = Appliance::start_with(data, &[]);
    let sound = appliance.run_json(&["store", "verify", "--json"]);
    if sound[0]["sound"] != true {
        return Err(sound[0].to_string());
    }
    let import = |file: &Path| {
        let report = appliance.run_json(&["user", "import", file.to_str().unwrap(), "--json"]);
        let [added, existing, rejected] =
            ["added", "existing", "rejected"].map(|name| report[0][name].as_u64().unwrap());
        assert_eq!(rejected, 0, "{}", report[0]);
        (added, existing)
    };
    let (missing, _) = import(acknowledged);
    let (_, existing) = import(file);
    let sound = appliance.run_json(&["store", "verify", "--json"]);
    appliance.kill();
    match (missing, &sound[0]["sound"]) {
        (0, Value::Bool(true)) => Ok(existing),
        (0, _) => Err(sound[0].to_string()),
        _ => Err(format!("{missing} acknowledged users are missing")),
    }
}

#[test]
fn a_kill_in_a_user_import_loses_no_acknowledged_user_and_the_import_can_be_repeated() {
    let rounds = std::env::var_os("PLAYGATE_KILL_ROUNDS");
    let rounds = rounds.map_or(4, |n| n.to_str().unwrap().parse::<u32>().unwrap());
    const USERS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.ndjson");
    let hash = "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e";
    let lines: Vec<String> = (0..USERS)
        .map(|n| format!("{{\"email\":\"u{n}@example.com\",\"passwordHash\":\"{hash}\"}}"))
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let whole = {
        let data = folder.path().join("whole");
        run_ok(playgate(&data).args(["partner", "add", "Acme"]));
        let mut appliance = Appliance::start_with(&data, &[]);
        let began = Instant::now();
        appliance.run_ok(&["user", "import", file.to_str().unwrap()]);
        appliance.kill();
        began.elapsed()
    };
    let (mut found, mut acknowledgements) = (Vec::new(), 0);
    for round in 0..rounds {
        let data = folder.path().join(format!("round-{round}"));
        run_ok(playgate(&data).args(["partner", "add", "Acme"]));
        let mut appliance = Appliance::start_with(&data, &[]);
        let mut import = appliance.command(&["user", "import", file.to_str().unwrap()]);
        import.stdout(Stdio::null()).stderr(Stdio::null());
        let mut import = import.spawn().unwrap();
        // Other users are added during the import, and their additions are acknowledged.
        let until = Instant::now() + whole.mul_f64(f64::from(round + 1) / f64::from(rounds + 1));
        let mut acknowledged = Vec::new();
        while Instant::now() < until {
            let line = format!("{{\"email\":\"other-{}@example.com\"}}", acknowledged.len());
            let (status, text) = appliance.operator("POST", "/admin/v1/users", &line);
            assert_eq!(status, 200, "{text}");
            acknowledged.push(line);
        }
        appliance.kill();
        import.status_in_time();
        let others = folder.path().join(format!("others-{round}"));
        std::fs::write(&others, acknowledged.join("\n")).unwrap();
        acknowledgements += acknowledged.len();
        let there = import_again(&data, &file, &others);
        found.push(there.unwrap_or_else(|why| panic!("round {round}: {why}")));
        assert_eq!(
            import_again(&data, &file, &others),
            Ok(USERS),
            "round {round}"
        );

        // Control: the check detects missing acknowledged users.
        let lost = folder.path().join(format!("lost-{round}"));
        run_ok(playgate(&lost).args(["partner", "add", "Acme"]));
        let why = import_again(&lost, &file, &others).unwrap_err();
        assert_eq!(
            why,
            format!("{} acknowledged users are missing", acknowledged.len())
        );
    }
    println!("{found:?}; {acknowledgements} acknowledged meanwhile");
    // At least one kill came during the import.
    assert!(
        found.iter().any(|there| (1..USERS).contains(there)),
        "{found:?}"
    );
}

/// Tries every limit of descriptors from far too few to enough: an import is complete, or reports the lack and can be
/// repeated.
#[test]
fn a_store_import_out_of_descriptors_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (export, all) = export_store(folder.path(), 200);
    // Below that the dynamic linker cannot open libc.
    let (mut refused, mut limit) = (0, 3);
    loop {
        limit += 1;
        assert!(limit < 100, "no number of descriptors is enough");
        let data = folder.path().join(format!("few-{limit}"));
        let import = playgate(&data);
        let mut few = Command::new("sh");
        for (name, value) in import.get_envs() {
            match value {
                Some(value) => few.env(name, value),
                None => few.env_remove(name),
            };
        }
        few.args(["-c", "ulimit -n \"$0\" && exec \"$@\""])
            .arg(limit.to_string())
            .arg(import.get_program())
            .args(import.get_args())
            .args(["store", "import"])
            .arg(&export);
        let output = few.output_in_time();
        if output.status.success() {
            assert_eq!(records(&data), all, "{limit}");
            break;
        }
        let code = output.status.code();
        let text = err(&output);
        println!("{limit}: {code:?} {text}");
        refused += 1;
        assert!(
            text.contains("file descriptor") || text.contains("Too many open files"),
            "{limit}: {text}"
        );
        assert!(!text.contains("panicked"), "{limit}: {text}");
        run_ok(playgate(&data).args(["store", "import"]).arg(&export));
        assert_eq!(records(&data), all, "{limit}");
    }
    println!("enough: {limit}; refused before: {refused}");
    assert!(refused > 3, "{refused}");
}
