//! SIGKILL during the heartbeats of many streams: running sessions continue, ended ones stay ended, and no stream slot
//! leaks.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::harness::appliance::Launch;
use crate::harness::client::{Address, Connection, NoResponse};
use crate::harness::rng::{Rng, rounds};
use crate::workload::{Client, Keys, Stream, Workload, status_and_code, token};

/// Each family is one thread with its own connection.
const FAMILIES: usize = 6;
const VIEWERS: usize = 4;
/// One more than the stream limit of a viewer.
const DEVICES: [&str; 4] = ["tv", "phone", "tablet", "laptop"];
/// The default stream limit of a viewer.
const STREAMS: usize = 3;
/// How many ended sessions of a viewer are checked again.
const REMEMBERED: usize = 12;

/// The state of a device, as far as responses have shown it.
#[derive(Clone)]
enum State {
    Off,
    Runs(Stream),
    /// A start without a response yet; it replaces the stream that ran before, if any.
    Starting(Option<Stream>),
    Stopping(Stream),
}

struct Viewer {
    name: String,
    client: Client,
    devices: [State; DEVICES.len()],
    ended: Vec<Stream>,
}

#[derive(Default)]
struct Report {
    beats: u64,
    starts: u64,
    stops: u64,
    refusals: u64,
    problems: Vec<String>,
}

impl Viewer {
    fn sign_up(keys: &Keys, line: &mut Connection, name: String) -> Self {
        let client = Client::sign_up(keys, line, &format!("{name}@example.com"));
        Self {
            name,
            client: client.unwrap(),
            devices: DEVICES.map(|_| State::Off),
            ended: Vec::new(),
        }
    }

    fn running(&self) -> Vec<&str> {
        let running = self.devices.iter().filter_map(|state| match state {
            State::Runs(stream) => Some(stream.id.as_str()),
            State::Off | State::Starting(_) | State::Stopping(_) => None,
        });
        running.collect()
    }

    /// Does one random action on one device. Fails if there is no response.
    fn act(
        &mut self,
        line: &mut Connection,
        rng: &mut Rng,
        report: &mut Report,
    ) -> Result<(), NoResponse> {
        let device_index = rng.index(DEVICES.len());
        match self.devices[device_index].clone() {
            State::Runs(stream) if rng.once_in(10) => self.stop(line, device_index, stream, report),
            State::Runs(stream) if !rng.once_in(10) => self.beats(line, &stream, report),
            _ => self.start(line, device_index, report),
        }
    }

    fn beats(
        &self,
        line: &mut Connection,
        stream: &Stream,
        report: &mut Report,
    ) -> Result<(), NoResponse> {
        let status = status_and_code(&self.client.beat(line, stream)?);
        report.beats += 1;
        if status != "200 " {
            let what = format!("{}: heartbeat of a running session: {status}", self.name);
            report.problems.push(what);
        }
        Ok(())
    }

    fn stop(
        &mut self,
        line: &mut Connection,
        device_index: usize,
        stream: Stream,
        report: &mut Report,
    ) -> Result<(), NoResponse> {
        self.devices[device_index] = State::Stopping(stream.clone());
        let status = status_and_code(&self.client.stop(line, &stream)?);
        self.devices[device_index] = State::Off;
        self.ended.push(stream);
        report.stops += 1;
        if status != "204 " {
            report
                .problems
                .push(format!("{}: a stop: {status}", self.name));
        }
        Ok(())
    }

    /// Starts a stream, which replaces the one on the device. The start must be refused if the other devices use all
    /// slots.
    fn start(
        &mut self,
        line: &mut Connection,
        device_index: usize,
        report: &mut Report,
    ) -> Result<(), NoResponse> {
        let device = DEVICES[device_index];
        let entitlement = token(&self.client.entitle(line)?);
        let before = match std::mem::replace(&mut self.devices[device_index], State::Off) {
            State::Runs(stream) => Some(stream),
            State::Off | State::Starting(_) | State::Stopping(_) => None,
        };
        let mut others: Vec<String> = self.running().into_iter().map(str::to_owned).collect();
        self.devices[device_index] = State::Starting(before.clone());
        let answer = self.client.preflight(line, &entitlement, device)?;
        let full = others.len() == STREAMS;
        match answer.status {
            200 if !full => {
                self.devices[device_index] =
                    State::Runs(Stream::from_preflight(&answer, &entitlement, device));
                self.ended.extend(before);
                report.starts += 1;
            }
            409 if full => {
                self.devices[device_index] = State::Off;
                let json = answer.json();
                let listed = json["error"]["details"]["sessions"].as_array();
                let ids = listed.into_iter().flatten();
                let mut ids: Vec<&str> = ids.filter_map(|one| one["sessionId"].as_str()).collect();
                ids.sort_unstable();
                others.sort_unstable();
                if ids != others {
                    let what = format!("{}: {ids:?} listed as running, not {others:?}", self.name);
                    report.problems.push(what);
                }
                report.refusals += 1;
            }
            _ => {
                let (status, running) = (status_and_code(&answer), others.len());
                let what = format!(
                    "{}: a start with {running} others running: {status}",
                    self.name
                );
                report.problems.push(what);
            }
        }
        Ok(())
    }

    /// Compares the sessions with the responses before the kill.
    fn check(&mut self, line: &mut Connection, report: &mut Report) -> Result<(), NoResponse> {
        for device_index in 0..DEVICES.len() {
            let (stream, must_run) = match self.devices[device_index].clone() {
                State::Off | State::Starting(None) => continue,
                State::Runs(stream) => (stream, true),
                State::Starting(Some(stream)) | State::Stopping(stream) => (stream, false),
            };
            match status_and_code(&self.client.beat(line, &stream)?).as_str() {
                "200 " => self.devices[device_index] = State::Runs(stream),
                "410 SESSION_ENDED" if !must_run => {
                    if matches!(self.devices[device_index], State::Stopping(_)) {
                        self.devices[device_index] = State::Off;
                    }
                    self.ended.push(stream);
                }
                other => {
                    let what = format!("{}: running session: {other}", self.name);
                    report.problems.push(what);
                    self.devices[device_index] = State::Off;
                }
            }
        }
        let old = self.ended.len().saturating_sub(REMEMBERED);
        self.ended.drain(..old);
        for stream in &self.ended {
            let status = status_and_code(&self.client.beat(line, stream)?);
            if status != "410 SESSION_ENDED" {
                let what = format!("{}: ended session: {status}", self.name);
                report.problems.push(what);
            }
        }
        // A start without a response may hold a slot; the next start on its device takes it over.
        for device_index in 0..DEVICES.len() {
            if matches!(self.devices[device_index], State::Starting(_)) {
                self.start(line, device_index, report)?;
            }
        }
        // Exactly as many streams as the limit allows can be started.
        for device_index in 0..DEVICES.len() {
            if matches!(self.devices[device_index], State::Off) {
                self.start(line, device_index, report)?;
            }
        }
        Ok(())
    }
}

/// Runs `what` for every family, each with its own connection.
fn in_parallel(
    families: &mut [Vec<Viewer>],
    address: &Address,
    report: &Mutex<Report>,
    what: impl Fn(usize, &mut Vec<Viewer>, &mut Connection, &mut Report) + Sync,
    during: impl FnOnce(),
) {
    thread::scope(|scope| {
        for (nth, family) in families.iter_mut().enumerate() {
            let what = &what;
            scope.spawn(move || {
                let mut of_family = Report::default();
                what(nth, family, &mut Connection::to(address), &mut of_family);
                let mut all = report.lock().unwrap();
                all.beats += of_family.beats;
                all.starts += of_family.starts;
                all.stops += of_family.stops;
                all.refusals += of_family.refusals;
                all.problems.append(&mut of_family.problems);
            });
        }
        during();
    });
}

#[test]
fn kills_neither_end_nor_revive_sessions() {
    let rng = Rng::for_test("sessions");
    let folder = tempfile::tempdir().unwrap();
    // No heartbeat may be rejected by the rate limit.
    let launch = Launch::new(&folder.path().join("data"))
        .with("PLAYGATE_LIMITS_HEARTBEATS_PER_SECOND", "1000")
        .with("PLAYGATE_LIMITS_HEARTBEAT_BURST", "1000");
    let mut appliance = launch.ready();
    let keys = Workload::new(&launch, &appliance).unwrap().keys;
    let mut line = appliance.line();
    let mut families: Vec<Vec<Viewer>> = (0..FAMILIES)
        .map(|family| {
            let names = (0..VIEWERS).map(|nth| format!("viewer-{family}-{nth}"));
            let viewers = names.map(|name| Viewer::sign_up(&keys, &mut line, name));
            viewers.collect()
        })
        .collect();
    let report = Mutex::new(Report::default());
    let count = rounds(10, 100);
    let mut slowest = Duration::ZERO;
    for round in 0..count {
        let mut moment = rng.split(round);
        let work = |nth: usize,
                    family: &mut Vec<Viewer>,
                    line: &mut Connection,
                    of_family: &mut Report| {
            let mut rng = rng.split((round << 8) | (1 + nth as u64));
            loop {
                let viewer = rng.index(VIEWERS);
                match family[viewer].act(line, &mut rng, of_family) {
                    Ok(()) => {}
                    Err(NoResponse::Gone | NoResponse::Broken(_)) => return,
                    Err(NoResponse::Hung) => {
                        of_family
                            .problems
                            .push("a request got no answer".to_owned());
                        return;
                    }
                }
            }
        };
        let address = appliance.address.clone();
        in_parallel(&mut families, &address, &report, work, || {
            thread::park_timeout(Duration::from_millis(20 + moment.below(1_000)));
            appliance.kill();
        });
        appliance = launch.ready();
        slowest = slowest.max(appliance.ready_in);
        let check =
            |_: usize, family: &mut Vec<Viewer>, line: &mut Connection, of_family: &mut Report| {
                for viewer in family {
                    if let Err(reason) = viewer.check(line, of_family) {
                        let what = format!("no response to a check: {reason:?}");
                        of_family.problems.push(what);
                    }
                }
            };
        let address = appliance.address.clone();
        in_parallel(&mut families, &address, &report, check, || {});
    }
    let report = report.into_inner().unwrap();
    println!(
        "{count} kills: {} beats, {} starts, {} stops, {} starts refused; slowest start {} ms",
        report.beats,
        report.starts,
        report.stops,
        report.refusals,
        slowest.as_millis()
    );
    assert_eq!(report.problems, Vec::<String>::new());
}
