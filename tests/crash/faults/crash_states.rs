//! Power cuts that keep any subset of what was not synced: sectors of files, lengths, and names in directories. A recorded course of
//! changes is replayed on a simulated disk, and the server is started on what a cut may leave.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::appliance::Launch;
use crate::harness::comparison::{Outcome, compare};
use crate::harness::delay_probe::DelayProbe;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::recording::{Call, Recording, now, scratch};
use crate::harness::replay::{Moment, Replay, moments};
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::simulated_disk::{Kept, State};
use crate::workload::{Course, Script};

/// Entitlements and the like expire, so a recording is used for a limited number of states.
const STATES_PER_RECORDING: u64 = 400;
/// About so many different states are tried for one moment.
const STATES_PER_MOMENT: u64 = 10;
/// How many changes are kept or lost alone at one moment.
const SINGLES: usize = 4;
/// How many states are tried at a time.
const AT_A_TIME: usize = 2;
/// How much longer than other threads one that strace stops at every call may wait.
const STRACE: Duration = Duration::from_millis(100);
/// Within this many states a control must lose something.
const CONTROL: u64 = 200;

/// A course of changes, recorded once.
struct Recorded {
    folder: tempfile::TempDir,
    script: Script,
    calls: Vec<Call>,
    /// How long threads had to wait for the processor and the disk meanwhile.
    delay: Duration,
    /// One instant in both ways of telling time.
    same: (Instant, u64),
}

impl Recorded {
    fn new(course: Course, rng: &Rng) -> Result<Self, String> {
        let mut recording = Recording::new()?;
        let folder = tempfile::tempdir_in(scratch()).unwrap();
        let mut script = Script::new(course, &folder.path().join("data"), rng);
        let same = (Instant::now(), now());
        let probe = DelayProbe::start(folder.path());
        let ran = script.run(&mut |_| recording.next());
        let delay = probe.stop() + STRACE;
        assert!(ran.is_ok(), "a process ended");
        let calls = recording.calls();
        Ok(Self {
            folder,
            script,
            calls,
            delay,
            same,
        })
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn instant(&self, at: u64) -> Instant {
        self.same.0 + Duration::from_nanos(at.saturating_sub(self.same.1))
    }
}

/// A state of the disk after a power cut at a moment.
struct Cut {
    at: u64,
    what: String,
    state: State,
}

fn try_state(recorded: &Recorded, cut: &Cut, nth: u64) -> Outcome {
    let moment = recorded.instant(cut.at);
    let launch = Launch {
        data_dir: recorded.folder.path().join(format!("state-{nth}")),
        ..recorded.script.launch.clone()
    };
    cut.state.write_to(&launch.data_dir);
    let ledgers = recorded.script.possible_at(moment);
    let lost = AllowedLoss::of_power_cut(moment, recorded.delay);
    let outcome = compare(&launch, ledgers, &lost, &Rng::fixed());
    std::fs::remove_dir_all(&launch.data_dir).unwrap();
    outcome
}

#[derive(Default)]
struct Tally {
    states: u64,
    refused: u64,
    lost: u64,
}

impl Tally {
    fn count(&mut self, what: &str, outcome: Outcome) {
        self.states += 1;
        match &outcome {
            Outcome::Sound => {}
            Outcome::Refused(_) => self.refused += 1,
            Outcome::Lost(_) => self.lost += 1,
        }
        if let Some(problem) = outcome.problem() {
            println!("{what}: {problem}");
        }
    }
}

/// Draws cuts of a recorded course and tries them.
fn try_cuts(
    recorded: &Recorded,
    count: u64,
    rng: &mut Rng,
    forgets: &(dyn Fn(&Path) -> bool + Sync),
    tally: &Mutex<Tally>,
) {
    let moments = moments(&recorded.calls);
    let points: Vec<usize> = points(&moments, &recorded.data());
    let wanted: BTreeSet<usize> = (0..count.div_ceil(STATES_PER_MOMENT))
        .map(|_| points[rng.index(points.len())])
        .collect();
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Cut>(AT_A_TIME);
    let receiver = Mutex::new(receiver);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Ok(cut) = receiver.lock().unwrap().recv() else {
                        return;
                    };
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let outcome = try_state(recorded, &cut, nth);
                    tally.lock().unwrap().count(&cut.what, outcome);
                }
            });
        }
        let mut replay = Replay::new(&recorded.data());
        let mut known = BTreeSet::new();
        for (nth, moment) in moments.iter().enumerate() {
            if wanted.contains(&nth) {
                let pending = replay.disk.pending();
                for kept in choices(pending, rng) {
                    let state = replay.disk.state(kept);
                    if known.insert((state.digest(), nth)) {
                        let path = replay.path_of(moment.call).unwrap_or_default();
                        let (name, path) = (&moment.call.name, path.display());
                        let what = format!(
                            "cut before {name} of {path} (call {nth}), {kept:?} of {pending} kept"
                        );
                        let at = moment.at;
                        sender.send(Cut { at, what, state }).unwrap();
                    }
                }
            }
            replay.apply(moment, forgets);
        }
        drop(sender);
    });
}

/// Returns the moments before which a cut is tried: those of calls on files of the data directory.
fn points(moments: &[Moment<'_>], data: &Path) -> Vec<usize> {
    let mut replay = Replay::new(data);
    let mut points = Vec::new();
    for (nth, moment) in moments.iter().enumerate() {
        let of_data = replay.path_of(moment.call).is_some();
        let is_change = !["close", "lseek", "fcntl"].contains(&moment.call.name.as_str());
        if of_data && is_change && replay.disk.pending() > 0 {
            points.push(nth);
        }
        replay.apply(moment, &|_| false);
    }
    points
}

/// Returns which changes are kept at one moment: none, all, each single one and all but each if they are few, the first ones in their
/// order, those of one file and all others, and random subsets.
fn choices(pending: usize, rng: &mut Rng) -> Vec<Kept> {
    let singles: Vec<usize> = match pending {
        ..=SINGLES => (0..pending).collect(),
        _ => (0..SINGLES).map(|_| rng.index(pending)).collect(),
    };
    let singles = singles
        .into_iter()
        .flat_map(|one| [Kept::Only(one), Kept::AllBut(one)]);
    let mut choices = vec![
        Kept::Nothing,
        Kept::Everything,
        Kept::First(rng.index(pending)),
        Kept::FileOf(rng.index(pending)),
        Kept::AllButFileOf(rng.index(pending)),
    ];
    choices.extend(singles);
    choices.extend([10, 50, 90].map(|percent| Kept::Random(rng.next(), percent)));
    choices
}

#[test]
fn the_simulated_disk_has_what_the_directory_has() {
    let rng = Rng::for_test("simulation");
    let recorded = match Recorded::new(Course::Store, &rng) {
        Ok(recorded) => recorded,
        Err(why) => return skip("a simulated disk", &why),
    };
    let mut replay = Replay::new(&recorded.data());
    for moment in moments(&recorded.calls) {
        replay.apply(&moment, &|_| false);
    }
    let state = replay.disk.state(Kept::Everything);
    assert_eq!(state.difference(&recorded.data()), None);
}

fn subsets_lose_nothing(name: &str, course: Course, count: u64) {
    let mut rng = Rng::for_test(name);
    let tally = Mutex::new(Tally::default());
    let tried = || tally.lock().unwrap().states;
    while tried() < count {
        let recorded = match Recorded::new(course, &rng.split(tried())) {
            Ok(recorded) => recorded,
            Err(why) => return skip("subsets of unsynced changes", &why),
        };
        let part = (count - tried()).min(STATES_PER_RECORDING);
        try_cuts(&recorded, part, &mut rng, &|_| false, &tally);
        let Tally {
            states,
            lost,
            refused,
        } = &*tally.lock().unwrap();
        println!("{name}: {states} of {count} states, {lost} lost, {refused} refused");
    }
    let Tally { lost, refused, .. } = tally.into_inner().unwrap();
    assert_eq!((lost, refused), (0, 0), "see above");
}

#[test]
fn no_subset_of_unsynced_changes_loses_an_answered_one() {
    subsets_lose_nothing("subsets", Course::Store, rounds(80, 10_000));
}

#[test]
fn no_subset_of_unsynced_changes_loses_telemetry_of_a_closed_hour() {
    subsets_lose_nothing("subsets of telemetry", Course::Telemetry, rounds(30, 2_000));
}

/// Controls: a disk that forgets the syncs of the log, or of its directory, loses answered changes.
#[test]
fn forgotten_syncs_are_detected() {
    let mut rng = Rng::for_test("forgotten");
    let recorded = match Recorded::new(Course::Store, &rng) {
        Ok(recorded) => recorded,
        Err(why) => return skip("forgotten syncs", &why),
    };
    let of_log = |path: &Path| path.extension().is_some_and(|ending| ending == "wal");
    let of_directory = |path: &Path| path == Path::new("store/log");
    let controls: [(&str, &(dyn Fn(&Path) -> bool + Sync)); 2] = [
        ("fdatasync of the log", &of_log),
        ("fsync of its directory", &of_directory),
    ];
    for (what, forgets) in controls {
        let tally = Mutex::new(Tally::default());
        let found = || {
            let tally = tally.lock().unwrap();
            (tally.states, tally.lost + tally.refused)
        };
        while found().1 == 0 {
            assert!(found().0 < CONTROL, "nothing is lost without {what}");
            try_cuts(&recorded, 2 * STATES_PER_MOMENT, &mut rng, forgets, &tally);
        }
        println!("without {what}: {:?} states, lost", found());
    }
}
