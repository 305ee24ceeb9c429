//! Quality figures after a kill and after a power cut: all views that were answered are counted, except those of the
//! last half second, and none is counted twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::appliance::{Appliance, Launch, Started};
use crate::harness::client::{Connection, NoResponse};
use crate::harness::delay_probe::DelayProbe;
use crate::harness::disk::Disk;
use crate::harness::durability_model::kept_until;
use crate::harness::raw_http::Answer;
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::tracer::Tracer;
use crate::workload::{Client, Keys, Stream, Workload, token};

const NO_SYNC: &str = "PLAYGATE_UNSAFE_NO_SYNC";
const STARTUP_MILLIS: f64 = 700.0;

/// Requests that were sent, and the times of their responses.
#[derive(Default)]
struct Ledger {
    asked: u64,
    answered: Vec<Instant>,
}

impl Ledger {
    fn answered_until(&self, end: Instant) -> u64 {
        self.answered.iter().filter(|at| **at <= end).count() as u64
    }
}

/// A viewer who starts one view after another and reports its first frame.
struct Viewer {
    client: Client,
    attempts: Ledger,
    plays: Ledger,
    /// The first response with an unexpected status.
    refused: Option<String>,
}

impl Viewer {
    fn sign_up(keys: &Keys, line: &mut Connection) -> Self {
        Self {
            client: Client::sign_up(keys, line, "viewer@example.com").unwrap(),
            attempts: Ledger::default(),
            plays: Ledger::default(),
            refused: None,
        }
    }

    /// Plays until the server is gone or refuses a request.
    fn watch(&mut self, line: &mut Connection) {
        while self.refused.is_none() && self.play(line).is_ok() {}
    }

    fn accept(&mut self, what: &str, answer: &Answer, status: u16) -> bool {
        if answer.status != status {
            self.refused = Some(format!("{what} was answered with {}", answer.status));
        }
        self.refused.is_none()
    }

    fn play(&mut self, line: &mut Connection) -> Result<(), NoResponse> {
        let device = "tv";
        let entitled = self.client.entitle(line)?;
        if !self.accept("an entitlement", &entitled, 200) {
            return Ok(());
        }
        let entitlement = token(&entitled);
        self.attempts.asked += 1;
        let started = self.client.preflight(line, &entitlement, device)?;
        if !self.accept("a preflight", &started, 200) {
            return Ok(());
        }
        self.attempts.answered.push(Instant::now());
        let stream = Stream::from_preflight(&started, &entitlement, device);
        self.plays.asked += 1;
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let event = json!([{
            "timestamp": u64::try_from(now).unwrap(),
            "action": "playback_started",
            // Two events of one millisecond with the same number would be one.
            "seqId": self.plays.asked,
            "context": {
                "session_id": stream.id, "device_id": device, "asset_id": "clear", "startup_duration": STARTUP_MILLIS,
            },
        }]);
        let events = "/api/tracker/v1/telemetry-events";
        let reported = self.client.ask(line, "POST", events, &[], &event)?;
        if !self.accept("an upload", &reported, 202) {
            return Ok(());
        }
        self.plays.answered.push(Instant::now());
        let stopped = self.client.stop(line, &stream)?;
        self.accept("a stop", &stopped, 204);
        Ok(())
    }

    /// Compares the figures after a fault with the ledgers. What was answered until `kept_until` must be counted.
    fn check_figures(&mut self, total: &Value, kept_until: Instant) -> Option<Wrong> {
        let mut wrong = self.refused.take().map(Wrong::Refused);
        for (name, ledger) in [("attempts", &mut self.attempts), ("plays", &mut self.plays)] {
            let count = total[name].as_u64().unwrap_or(0);
            let least = ledger.answered_until(kept_until);
            if !(least..=ledger.asked).contains(&count) {
                let text = format!("{count} {name}, of {least} to {}", ledger.asked);
                wrong = Some(Wrong::Figures(text));
            }
            // The next fault must not lose what was counted now.
            let kept = usize::try_from(count).unwrap().min(ledger.answered.len());
            ledger.answered.truncate(kept);
            ledger.asked = count;
        }
        let startup = total["startupP50Millis"].as_f64();
        if startup.is_some_and(|startup| (startup / STARTUP_MILLIS - 1.0).abs() > 0.01) {
            wrong = Some(Wrong::Figures(format!("a start-up time of {startup:?} ms")));
        }
        wrong
    }
}

fn total(appliance: &Appliance, keys: &Keys) -> Value {
    let target = "/admin/v1/telemetry/report";
    let answer = appliance
        .line()
        .operate(&keys.operator, "GET", target, &Value::Null);
    answer.unwrap().json()["total"].clone()
}

#[derive(Debug, PartialEq)]
enum Wrong {
    /// A request was answered with an unexpected status.
    Refused(String),
    /// The figures do not match what was answered.
    Figures(String),
    /// The store is beyond recovery, which only a power cut without syncs may cause.
    Store(String),
}

struct Outcome {
    /// A loss that is larger than allowed.
    wrong: Option<Wrong>,
    /// The final number of plays.
    plays: u64,
    slow_syncs: usize,
}

/// Delays each sync of the log of the figures before it begins, so that data is durable only after `time`.
fn delay_syncs(appliance: &Appliance, launch: &Launch, time: Duration) -> Tracer {
    let inject = format!("fdatasync:delay_enter={}", time.as_micros());
    let logs = input_logs(&launch.data_dir.join("quality"));
    Tracer::attach(appliance.process.id(), &inject, &logs)
}

fn has_no_syncs(launch: &Launch) -> bool {
    launch.variables.iter().any(|(name, _)| name == NO_SYNC)
}

/// Starts the server once with `set_up`, then repeats rounds with `launch`: a viewer plays until `inject_fault`, and after a
/// restart the figures are checked. Ends after the first round that lost too much. With a `sync_time`, each sync of the log of
/// the figures takes that long.
fn find_loss(
    set_up: &Launch,
    launch: &Launch,
    count: u64,
    sync_time: Option<Duration>,
    mut inject_fault: impl FnMut(&mut Appliance),
) -> Outcome {
    let rng = Rng::for_test("figures");
    let mut appliance = set_up.ready();
    let keys = Workload::new(set_up, &appliance).unwrap().keys;
    let mut viewer = Viewer::sign_up(&keys, &mut appliance.line());
    appliance.end();
    appliance = launch.ready();
    let before = total(&appliance, &keys);
    assert_eq!(before["attempts"], 0, "{before}");
    let mut wrong = None;
    let mut slow_syncs = 0;
    for round in 0..count {
        let moment = Duration::from_millis(300 + rng.split(round).below(1_500));
        let address = appliance.address.clone();
        let working = &mut viewer;
        let slow_disk = sync_time.map(|time| delay_syncs(&appliance, launch, time));
        let (fault_at, delay) = thread::scope(|scope| {
            scope.spawn(move || {
                let mut line = Connection::to(&address);
                working.watch(&mut line);
            });
            let probe = DelayProbe::start(&launch.data_dir);
            thread::park_timeout(moment);
            let delay = probe.stop();
            let fault_at = Instant::now();
            inject_fault(&mut appliance);
            (fault_at, delay)
        });
        slow_syncs += slow_disk.map_or(0, |tracer| tracer.injected().len());
        appliance = match launch.start() {
            Started::Ready(appliance) => appliance,
            Started::Waiting(log) | Started::Ended(_, log) | Started::Hung(log) => {
                assert!(has_no_syncs(launch), "the server did not start:\n{log}");
                let wrong = Some(Wrong::Store(log));
                return Outcome {
                    wrong,
                    plays: 0,
                    slow_syncs,
                };
            }
        };
        // The server logs figures every 100 ms, after the responses, and syncs the log less often. A kill loses figures as
        // a power cut does, and the same limit holds for both.
        wrong = viewer.check_figures(&total(&appliance, &keys), kept_until(fault_at, delay));
        if wrong.is_some() {
            println!("delays of the machine: up to {delay:?}");
            break;
        }
    }
    let figures = total(&appliance, &keys);
    println!("{wrong:?}; {figures}");
    Outcome {
        wrong,
        plays: figures["plays"].as_u64().unwrap_or(0),
        slow_syncs,
    }
}

#[test]
fn a_kill_costs_the_figures_of_half_a_second_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch::new(&folder.path().join("data"));
    let outcome = find_loss(&launch, &launch, rounds(6, 100), None, Appliance::kill);
    assert_eq!(outcome.wrong, None);
    assert!(outcome.plays > 0);
}

/// Control: without the log of quality inputs a kill loses more.
#[test]
fn a_kill_that_takes_the_log_of_the_figures_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let launch = Launch::new(&data);
    let outcome = find_loss(&launch, &launch, 4, None, |appliance| {
        appliance.kill();
        for log in input_logs(&data.join("quality")) {
            fs::remove_file(log).unwrap();
        }
    });
    let wrong = outcome.wrong;
    assert!(matches!(wrong, Some(Wrong::Figures(_))), "{wrong:?}");
}

fn input_logs(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().contains("inputs-"))
        .collect()
}

#[test]
fn a_power_cut_costs_the_figures_of_half_a_second_at_most() {
    let mut disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("power cuts of quality figures", &why),
    };
    let launch = Launch::new(&disk.path().join("data"));
    let outcome = find_loss(&launch, &launch, rounds(6, 100), None, |appliance| {
        appliance.cut_power(&mut disk);
    });
    assert_eq!(outcome.wrong, None);
    assert!(outcome.plays > 0);
}

/// A slow sync must not delay the next one by as much.
#[test]
fn a_power_cut_costs_no_more_figures_on_a_slow_disk() {
    const SYNC: Duration = Duration::from_millis(190);
    if let Err(why) = Tracer::check_available() {
        return skip("slow syncs of quality figures", &why);
    }
    let mut disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("power cuts of quality figures on a slow disk", &why),
    };
    let launch = Launch::new(&disk.path().join("data"));
    let outcome = find_loss(&launch, &launch, rounds(10, 100), Some(SYNC), |appliance| {
        appliance.cut_power(&mut disk);
    });
    assert!(outcome.slow_syncs > 0);
    assert_eq!(outcome.wrong, None);
    assert!(outcome.plays > 0);
}

/// Control: without syncs a power cut loses more.
#[test]
fn a_power_cut_without_syncs_costs_more_figures() {
    let mut disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("power cuts of unsynced quality figures", &why),
    };
    let set_up = Launch::new(&disk.path().join("data"));
    let launch = Launch::new(&disk.path().join("data")).with(NO_SYNC, "1");
    let outcome = find_loss(&set_up, &launch, 30, None, |appliance| {
        appliance.cut_power(&mut disk)
    });
    let wrong = outcome.wrong;
    let is_lost = matches!(wrong, Some(Wrong::Figures(_) | Wrong::Store(_)));
    assert!(is_lost, "{wrong:?}");
}
