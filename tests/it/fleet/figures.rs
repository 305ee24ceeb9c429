//! Measures what changes and imports cost on a single node and in a fleet, and the lag of standbys. Runs only with
//! `PLAYGATE_FLEET_ROUNDS`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::campaign::{long_form, machines, percentile};
use super::machines::MACHINES;
use super::{playgate, send};
use crate::support::appliance::{Appliance, real_time};
use crate::support::server::PASSWORD;
use crate::support::stop_on_drop::StopOnDrop;
use crate::support::synthetic_guide::SyntheticGuide;

const PERIOD: Duration = Duration::from_secs(10);
const SIGN_UPS: usize = 3;
const CHANGES: usize = 16;
/// Changes whose time to the standbys is measured.
const FOLLOWED: usize = 500;
/// Two weeks of 500 channels: 228,000 programmes.
const CHANNELS: usize = 500;
const PROGRAMMES: usize = 456;

#[test]
fn changes_are_measured_on_a_single_node_and_in_a_fleet() {
    if long_form().is_none() {
        return;
    }
    let Some(fleet) = machines() else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let limit = ("PLAYGATE_LIMITS_SIGN_UP_PER_ADDRESS", "1000000");
    let single = Appliance::with(data.path(), &[limit]);
    let added = single.run_json(&["partner", "add", "test", "--json"]);
    let partner = added[0]["accessToken"].as_str().unwrap();
    let owner = fleet.owner();
    let (served, standby) = (fleet.addresses()[owner], fleet.addresses()[(owner + 1) % 3]);
    // Twice and alternating, because other work runs on the machine.
    for _ in 0..2 {
        measure("single node", partner, single.address);
        measure("fleet, at the owner", &fleet.partner, served);
        measure("fleet, at a standby", &fleet.partner, standby);
    }
}

#[test]
fn lag_of_standbys_and_an_import_are_measured() {
    if long_form().is_none() {
        return;
    }
    let Some(fleet) = machines() else {
        return;
    };
    let owner = fleet.owner();
    let address = fleet.addresses()[owner];
    let standbys = (0..MACHINES).filter(|at| *at != owner);
    let logs: Vec<_> = standbys
        .map(|at| fleet.data(at).join("store/log"))
        .collect();
    measure_lag("with no other change", &fleet.partner, address, &logs, 0);
    measure_lag(
        "with 16 clients that change names",
        &fleet.partner,
        address,
        &logs,
        CHANGES,
    );

    let folder = tempfile::tempdir().unwrap();
    let guide = folder.path().join("guide.xml");
    SyntheticGuide {
        channels: CHANNELS,
        programmes: PROGRAMMES,
        shift: 0,
        word: "Programme",
        first: real_time().0,
    }
    .write(&guide);
    let arguments = [
        "epg",
        "import",
        "--create-livestreams",
        guide.to_str().unwrap(),
    ];
    let single = Appliance::start(&folder.path().join("data"));
    let began = Instant::now();
    single.run_ok(&arguments);
    println!(
        "import on a single node: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    playgate(fleet.config(owner), &arguments).unwrap();
    let imported = began.elapsed();
    fleet.wait_until_equal();
    println!(
        "import in a fleet: {:.1} s; all standbys had it {:.1} s later",
        imported.as_secs_f64(),
        (began.elapsed() - imported).as_secs_f64()
    );
}

/// Prints how long after the owner's acknowledgement of a change a standby has it in its WAL. It applies it from there
/// immediately.
fn measure_lag(name: &str, partner: &str, owner: SocketAddr, logs: &[PathBuf], others: usize) {
    let seen: Vec<_> = logs.iter().map(|_| Mutex::default()).collect();
    let stop = AtomicBool::new(false);
    let unique = format!("{others}lag");
    let mut acknowledged = Vec::new();
    std::thread::scope(|scope| {
        for (log, seen) in logs.iter().zip(&seen) {
            scope.spawn(|| follow(log, &unique, seen, &stop));
        }
        let _stop = StopOnDrop(&stop);
        let (stop, partner) = (&stop, partner);
        for client in 0..others {
            let user = sign_up(partner, owner, &format!("other{client}")).unwrap();
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    rename(partner, owner, &user, &number.to_string());
                }
            });
        }
        let user = sign_up(partner, owner, "followed").unwrap();
        for number in 0..FOLLOWED {
            let name = format!("{unique}{number:05}");
            assert!(rename(partner, owner, &user, &name));
            acknowledged.push((name, Instant::now()));
        }
        // Time for the last changes to arrive.
        park_timeout(Duration::from_secs(3));
    });
    let mut lags: Vec<_> = seen
        .iter()
        .flat_map(|seen: &Mutex<BTreeMap<String, Instant>>| {
            let seen = seen.lock().unwrap();
            let lag = |(name, at): &(String, Instant)| seen[name].saturating_duration_since(*at);
            acknowledged.iter().map(lag).collect::<Vec<_>>()
        })
        .collect();
    lags.sort_unstable();
    println!("lag of two standbys, {name}: {}", text(&lags));
}

/// Records when each text of `begin` and five digits has arrived in a WAL.
fn follow(log: &Path, begin: &str, seen: &Mutex<BTreeMap<String, Instant>>, stop: &AtomicBool) {
    let (mut current, mut end) = (PathBuf::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let files = fs::read_dir(log).unwrap().map(|file| file.unwrap().path());
        let newest = files
            .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
            .max()
            .unwrap();
        // Once more, because the segment is complete now.
        if let Ok(file) = File::open(&current) {
            end = record_new_texts(&file, end, begin, seen);
        }
        if newest != current {
            (current, end) = (newest, 0);
        }
        park_timeout(Duration::from_millis(1));
    }
}

/// Reads from `end` on, before which everything was read. Returns the new end.
fn record_new_texts(
    file: &File,
    end: u64,
    begin: &str,
    seen: &Mutex<BTreeMap<String, Instant>>,
) -> u64 {
    let length = begin.len() + 5;
    let from = end.saturating_sub(length as u64);
    let mut part = vec![0; 256 * 1024];
    let read = file.read_at(&mut part, from).unwrap();
    let now = Instant::now();
    let part = &part[..read];
    for text in part.windows(length) {
        let Some(number) = text.strip_prefix(begin.as_bytes()) else {
            continue;
        };
        if number.iter().all(u8::is_ascii_digit) {
            let text = String::from_utf8(text.to_vec()).unwrap();
            seen.lock().unwrap().entry(text).or_insert(now);
        }
    }
    // The rest of the segment is preallocated zeros.
    let used = part.iter().rposition(|byte| *byte != 0);
    end.max(from + used.map_or(0, |last| last as u64 + 1))
}

fn measure(name: &str, partner: &str, address: SocketAddr) {
    let sign_ups = repeat(SIGN_UPS, |client, number| {
        sign_up(partner, address, &format!("{client}-{number}")).is_some()
    });
    let users: Vec<_> = (0..CHANGES)
        .map(|client| sign_up(partner, address, &format!("c{client}")).unwrap())
        .collect();
    let changes = repeat(CHANGES, |client, number| {
        rename(partner, address, &users[client], &number.to_string())
    });
    println!(
        "{name}: sign-up {}, {:.0} a second; changes of {CHANGES} clients {}, {:.0} a second",
        text(&sign_ups),
        rate(&sign_ups),
        text(&changes),
        rate(&changes)
    );
}

/// Returns id and `Authorization` of a new user.
fn sign_up(partner: &str, address: SocketAddr, name: &str) -> Option<(String, String)> {
    let unique = Instant::now();
    let email = format!("{name}.{unique:?}@example.com").replace([' ', '{', '}', ':', ','], "");
    let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", partner)];
    let (status, body) = send(address, "PUT", "/api/login/v2/auth/email", &headers, &body)?;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).ok()?;
    let bearer = format!("Bearer {}", body["token"].as_str()?);
    Some((body["userId"].as_str()?.to_owned(), bearer))
}

fn rename(partner: &str, address: SocketAddr, (id, bearer): &(String, String), name: &str) -> bool {
    let headers = [
        ("Service-AccessToken", partner),
        ("Authorization", bearer.as_str()),
    ];
    let body = json!({ "name": name }).to_string();
    let target = format!("/api/user/v1/users/{id}");
    send(address, "PUT", &target, &headers, &body).is_some_and(|(status, _)| status == 200)
}

/// Returns how long each successful call took while clients repeated it.
fn repeat(clients: usize, call: impl Fn(usize, usize) -> bool + Sync) -> Vec<Duration> {
    let took = Mutex::new(Vec::new());
    let end = Instant::now() + PERIOD;
    std::thread::scope(|scope| {
        for client in 0..clients {
            let (call, took) = (&call, &took);
            scope.spawn(move || {
                for number in 0.. {
                    let began = Instant::now();
                    if began > end {
                        return;
                    }
                    if call(client, number) {
                        took.lock().unwrap().push(began.elapsed());
                    }
                }
            });
        }
    });
    let mut took = took.into_inner().unwrap();
    took.sort_unstable();
    took
}

fn text(took: &[Duration]) -> String {
    let millis = |percent| percentile(took, percent).as_micros() as f64 / 1_000.0;
    let (half, most) = (millis(50), millis(99));
    format!("p50 {half:.1} ms, p99 {most:.1} ms")
}

fn rate(took: &[Duration]) -> f64 {
    took.len() as f64 / PERIOD.as_secs_f64()
}
