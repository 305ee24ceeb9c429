//! SIGKILL exactly before the nth call of a kind on a file: every write, sync, rename, creation and removal of a recorded course
//! of changes. What was answered is there after the next start, and nothing is there in part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use crate::harness::comparison::compare;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::recording::{Recording, scratch};
use crate::harness::replay::{Replay, moments};
use crate::harness::rng::{Rng, rounds, skip};
use crate::workload::{Course, Script};

/// How many courses run at a time.
const AT_A_TIME: usize = 2;
/// Of more calls of a kind on one file, such as the zeros of a segment, only these many are points: at the beginning and at the end.
const ALIKE: usize = 12;

/// The nth call of a kind on a file by one thread of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    process: usize,
    call: String,
    /// `None` for the files of backups, whose names nobody knows before: then the calls on all files count.
    path: Option<PathBuf>,
    nth: usize,
}

/// Returns every point of a recorded course.
fn points(course: Course, rng: &Rng) -> Result<Vec<Point>, String> {
    let mut recording = Recording::new()?;
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let data = folder.path().join("data");
    let ran = Script::new(course, &data, rng).run(&mut |_| recording.next());
    assert!(ran.is_ok(), "a process ended");
    let calls = recording.calls();
    let mut replay = Replay::new(&data);
    let mut counts = BTreeMap::new();
    let mut points = BTreeMap::<_, Vec<Point>>::new();
    for moment in moments(&calls) {
        let call = moment.call;
        let path = replay.path_of(call);
        replay.apply(&moment, &|_| false);
        if moment.begins_sync() {
            continue;
        }
        let (process, kind) = (call.process.0, call.name.clone());
        let mut count = |path: Option<PathBuf>| {
            let count = counts.entry((process, call.thread, kind.clone(), path));
            *count.and_modify(|count| *count += 1).or_insert(1_usize)
        };
        let of_all = count(None);
        // What is written to a removed file nobody reads.
        let Some(path) = path.filter(|path| path.is_relative()) else {
            continue;
        };
        let path = match call.name.as_str() {
            // With a directory's descriptor and a name; strace looks for the path of the descriptor alone.
            "unlinkat" | "mkdirat" => path.parent().unwrap().to_owned(),
            _ => path,
        };
        let path = Some(path).filter(|path| !path.starts_with("backups"));
        let nth = path.clone().map_or(of_all, |path| count(Some(path)));
        // Opening a file for reading and closing it change nothing.
        let opens = kind == "openat" && !call.plain(2).contains("O_CREAT");
        if !opens && !["close", "lseek", "fcntl"].contains(&kind.as_str()) {
            let point = Point {
                process,
                call: kind.clone(),
                path,
                nth,
            };
            let alike = (process, point.call.clone(), point.path.clone());
            points.entry(alike).or_default().push(point);
        }
    }
    let of_kind = |mut alike: Vec<Point>| {
        alike.sort();
        alike.dedup();
        if alike.len() > ALIKE {
            alike.drain(ALIKE / 2..alike.len() - ALIKE / 2);
        }
        alike
    };
    Ok(points.into_values().flat_map(of_kind).collect())
}

/// The command that kills its process at the point.
fn killing(point: &Point, data: &Path) -> Vec<String> {
    let Point {
        call, path, nth, ..
    } = point;
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let trace = format!("trace={call}");
    // With its filter (`--seccomp-bpf`) strace 6.1 kills after some calls and never at others.
    let words = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
    ];
    let mut command = words.map(str::to_owned).to_vec();
    if let Some(path) = path {
        // Without the slash that `join` puts behind the root.
        let path: PathBuf = data.join(path).components().collect();
        command.extend(["-P".to_owned(), path.to_str().unwrap().to_owned()]);
    }
    command
}

/// Returns whether the point was reached, and what was wrong after the kill.
fn try_point(point: &Point, course: Course, rng: &Rng) -> (bool, Option<String>) {
    let folder = tempfile::tempdir_in(scratch()).unwrap();
    let data = folder.path().join("data");
    let mut script = Script::new(course, &data, rng);
    let ran = script.run(&mut |process| match process == point.process {
        true => killing(point, &data),
        false => Vec::new(),
    });
    if let Ok(()) = ran {
        return (false, None);
    }
    let outcome = compare(&script.launch, script.possible(), &AllowedLoss::NONE, rng);
    (true, outcome.problem())
}

fn kills_lose_nothing(name: &str, course: Course, count: u64) {
    let mut rng = Rng::for_test(name);
    let mut points = match points(course, &rng) {
        Ok(points) => points,
        Err(why) => return skip("kills before a call", &why),
    };
    let all = points.len();
    let count = usize::try_from(count).unwrap();
    while points.len() > count {
        points.swap_remove(rng.index(points.len()));
    }
    let chosen = points.len();
    let queue = Mutex::new(points);
    let tried = Mutex::new((0, Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(point) = queue.lock().unwrap().pop() else {
                        return;
                    };
                    let (reached, problem) = try_point(&point, course, &rng);
                    let mut tried = tried.lock().unwrap();
                    tried.0 += usize::from(reached);
                    if !reached {
                        println!("not reached: {point:?}");
                    }
                    if let Some(problem) = problem {
                        println!("{point:?}: {problem}");
                        tried.1.push(point.clone());
                    }
                }
            });
        }
    });
    let (reached, bad) = tried.into_inner().unwrap();
    println!(
        "{name}: {chosen} of {all} points, {reached} reached; wrong after {}",
        bad.len()
    );
    // Names of files depend on times, so some are not reached again.
    assert!(
        reached * 4 >= chosen,
        "only {reached} of {chosen} points were reached"
    );
    assert_eq!(bad, Vec::new());
}

#[test]
fn a_kill_before_any_call_loses_nothing() {
    kills_lose_nothing("kill points", Course::Store, rounds(16, 1_000));
}

#[test]
fn a_kill_before_any_call_keeps_the_telemetry_of_a_closed_hour() {
    kills_lose_nothing(
        "kill points of telemetry",
        Course::Telemetry,
        rounds(6, 1_000),
    );
}
