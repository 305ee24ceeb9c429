//! SIGKILL during the heartbeats of many streams: running sessions continue, ended ones stay ended, and
//! no stream slot leaks.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::harness::appliance::Launch;
use crate::harness::client::{Address, Connection, Silence};
use crate::harness::rng::{Rng, rounds};
use crate::workload::{Client, Keys, Stream, Workload, token, told};

/// Families, each with a connection of its own.
const FAMILIES: usize = 6;
/// Viewers of a family.
const VIEWERS: usize = 4;
/// One more than a viewer may use at once.
const DEVICES: [&str; 4] = ["tv", "phone", "tablet", "laptop"];
/// Streams of one viewer: the default.
const STREAMS: usize = 3;
/// Ended sessions of a viewer that are asked for again.
const REMEMBERED: usize = 12;

/// What a device does, as far as it was answered.
#[derive(Clone)]
enum State {
    Off,
    Runs(Stream),
    /// A start was asked for in the place of what ran, if anything did.
    Starting(Option<Stream>),
    Stopping(Stream),
}

struct Viewer {
    name: String,
    client: Client,
    devices: [State; DEVICES.len()],
    ended: Vec<Stream>,
}

/// What was done, and what was wrong.
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

    /// One thing on one device. An error when there is no answer.
    fn act(
        &mut self,
        line: &mut Connection,
        dice: &mut Rng,
        report: &mut Report,
    ) -> Result<(), Silence> {
        let at = dice.index(DEVICES.len());
        match self.devices[at].clone() {
            State::Runs(stream) if dice.once_in(10) => self.stop(line, at, stream, report),
            State::Runs(stream) if !dice.once_in(10) => self.beats(line, &stream, report),
            _ => self.start(line, at, report),
        }
    }

    fn beats(
        &self,
        line: &mut Connection,
        stream: &Stream,
        report: &mut Report,
    ) -> Result<(), Silence> {
        let told = told(&self.client.beat(line, stream)?);
        report.beats += 1;
        if told != "200 " {
            let what = format!("{}: a beat of what runs: {told}", self.name);
            report.problems.push(what);
        }
        Ok(())
    }

    fn stop(
        &mut self,
        line: &mut Connection,
        at: usize,
        stream: Stream,
        report: &mut Report,
    ) -> Result<(), Silence> {
        self.devices[at] = State::Stopping(stream.clone());
        let told = told(&self.client.stop(line, &stream)?);
        self.devices[at] = State::Off;
        self.ended.push(stream);
        report.stops += 1;
        if told != "204 " {
            report
                .problems
                .push(format!("{}: a stop: {told}", self.name));
        }
        Ok(())
    }

    /// A start, which takes the place of what the device runs, and is refused if the other devices
    /// run as many as may be.
    fn start(
        &mut self,
        line: &mut Connection,
        at: usize,
        report: &mut Report,
    ) -> Result<(), Silence> {
        let device = DEVICES[at];
        let entitlement = token(&self.client.entitle(line)?);
        let before = match std::mem::replace(&mut self.devices[at], State::Off) {
            State::Runs(stream) => Some(stream),
            State::Off | State::Starting(_) | State::Stopping(_) => None,
        };
        let mut others: Vec<String> = self.running().into_iter().map(str::to_owned).collect();
        self.devices[at] = State::Starting(before.clone());
        let answer = self.client.preflight(line, &entitlement, device)?;
        let full = others.len() == STREAMS;
        match answer.status {
            200 if !full => {
                self.devices[at] = State::Runs(Stream::of(&answer, &entitlement, device));
                self.ended.extend(before);
                report.starts += 1;
            }
            409 if full => {
                self.devices[at] = State::Off;
                let json = answer.json();
                let listed = json["error"]["details"]["sessions"].as_array();
                let ids = listed.into_iter().flatten();
                let mut ids: Vec<&str> = ids.filter_map(|one| one["sessionId"].as_str()).collect();
                ids.sort_unstable();
                others.sort_unstable();
                if ids != others {
                    let what = format!("{}: {ids:?} in the way, not {others:?}", self.name);
                    report.problems.push(what);
                }
                report.refusals += 1;
            }
            _ => {
                let (told, running) = (told(&answer), others.len());
                let what = format!("{}: a start beside {running}: {told}", self.name);
                report.problems.push(what);
            }
        }
        Ok(())
    }

    /// Compares what is there with what was answered.
    fn check(&mut self, line: &mut Connection, report: &mut Report) -> Result<(), Silence> {
        for at in 0..DEVICES.len() {
            let (stream, surely) = match self.devices[at].clone() {
                State::Off | State::Starting(None) => continue,
                State::Runs(stream) => (stream, true),
                State::Starting(Some(stream)) | State::Stopping(stream) => (stream, false),
            };
            match told(&self.client.beat(line, &stream)?).as_str() {
                "200 " => self.devices[at] = State::Runs(stream),
                "410 SESSION_ENDED" if !surely => {
                    if matches!(self.devices[at], State::Stopping(_)) {
                        self.devices[at] = State::Off;
                    }
                    self.ended.push(stream);
                }
                other => {
                    let what = format!("{}: what ran: {other}", self.name);
                    report.problems.push(what);
                    self.devices[at] = State::Off;
                }
            }
        }
        let old = self.ended.len().saturating_sub(REMEMBERED);
        self.ended.drain(..old);
        for stream in &self.ended {
            let told = told(&self.client.beat(line, stream)?);
            if told != "410 SESSION_ENDED" {
                let what = format!("{}: what had ended: {told}", self.name);
                report.problems.push(what);
            }
        }
        // A start that nobody heard of may hold a slot; the next one on its device takes that over.
        for at in 0..DEVICES.len() {
            if matches!(self.devices[at], State::Starting(_)) {
                self.start(line, at, report)?;
            }
        }
        // As many as may run can be started, no more and no fewer.
        for at in 0..DEVICES.len() {
            if matches!(self.devices[at], State::Off) {
                self.start(line, at, report)?;
            }
        }
        Ok(())
    }
}

/// Every family does `what` with a connection of its own.
fn at_once(
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
                let mut own = Report::default();
                what(nth, family, &mut Connection::to(address), &mut own);
                let mut all = report.lock().unwrap();
                all.beats += own.beats;
                all.starts += own.starts;
                all.stops += own.stops;
                all.refusals += own.refusals;
                all.problems.append(&mut own.problems);
            });
        }
        during();
    });
}

#[test]
fn kills_neither_end_nor_revive_sessions() {
    let dice = Rng::of_test("sessions");
    let folder = tempfile::tempdir().unwrap();
    // Every beat is answered for what it is, however often it comes.
    let launch = Launch::of(&folder.path().join("data"))
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
        let mut moment = dice.split(round);
        let work =
            |nth: usize, family: &mut Vec<Viewer>, line: &mut Connection, own: &mut Report| {
                let mut dice = dice.split((round << 8) | (1 + nth as u64));
                loop {
                    let viewer = dice.index(VIEWERS);
                    match family[viewer].act(line, &mut dice, own) {
                        Ok(()) => {}
                        Err(Silence::Gone | Silence::Broken(_)) => return,
                        Err(Silence::Hung) => {
                            own.problems.push("a request got no answer".to_owned());
                            return;
                        }
                    }
                }
            };
        let address = appliance.address.clone();
        at_once(&mut families, &address, &report, work, || {
            thread::park_timeout(Duration::from_millis(20 + moment.below(1_000)));
            appliance.kill();
        });
        appliance = launch.ready();
        slowest = slowest.max(appliance.ready_in);
        let check =
            |_: usize, family: &mut Vec<Viewer>, line: &mut Connection, own: &mut Report| {
                for viewer in family {
                    if let Err(silence) = viewer.check(line, own) {
                        let what = format!("no answer while it was read back: {silence:?}");
                        own.problems.push(what);
                    }
                }
            };
        let address = appliance.address.clone();
        at_once(&mut families, &address, &report, check, || {});
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
