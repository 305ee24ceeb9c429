//! Makes the n-th system call of a kind fail with EIO, by strace. The request that needs the call is not answered with
//! success, the process exits with code 5 if it cannot continue, and the next start has everything that was
//! acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::appliance::{Appliance, Launch, Started};
use crate::harness::background_command::BackgroundCommand;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::tail;
use crate::harness::template::{EndedBy, Template, list};
use crate::harness::tracer::Tracer;
use crate::workload::{Mix, Workload};

/// How soon the process must end after a fatal failure.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Working time under strace, and the extra time for each call that passes before the failure.
const WORK: Duration = Duration::from_millis(800);
const WORK_EACH: Duration = Duration::from_millis(8);
/// The largest n that is tested.
const NTH: u64 = 200;

/// System calls that fail, and with which error.
pub struct Calls {
    pub names: &'static str,
    pub error: &'static str,
    /// A failure breaks a durability promise, so the process must exit.
    pub fatal: bool,
    /// Sockets and libraries make these calls too: only calls on files of the data directory count.
    pub anywhere: bool,
}

pub const fn calls(names: &'static str, error: &'static str, fatal: bool, anywhere: bool) -> Calls {
    Calls {
        names,
        error,
        fatal,
        anywhere,
    }
}

const CALLS: [Calls; 7] = [
    calls("fdatasync,fsync", "EIO", true, false),
    calls("pwrite64", "EIO", true, false),
    calls("write", "EIO", false, true),
    calls("openat", "EIO", false, true),
    calls("rename,renameat,renameat2", "EIO", false, false),
    calls("ftruncate,fallocate", "EIO", false, false),
    calls("unlink,unlinkat", "EIO", false, false),
];

/// The outcome of a run under strace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The n-th call did not occur.
    NotReached,
    /// The server continued, and all requests succeeded.
    Harmless,
    /// The server continued; some requests were answered 503.
    Refused,
    /// The server did not start, or waits in maintenance mode, and gives the reason.
    NotStarted,
    /// The process ended with exit code 5 and the reason.
    Exit5,
    /// The call failed during the shutdown, which completed.
    AtStop,
    Wrong,
}

/// Returns every path that a run touches, to restrict strace to them.
fn paths(template: &Template, rng: &Rng) -> Vec<String> {
    let data = template.copy("data");
    let mut paths = Vec::new();
    list(&data, &mut paths);
    let mut appliance = Launch::new(&data).ready();
    let mut workload = template.workload.clone();
    workload.work(&appliance.address.clone(), Mix::Importing, rng, || {
        thread::park_timeout(WORK);
    });
    list(&data, &mut paths);
    assert_eq!(appliance.end(), Some(0));
    list(&data, &mut paths);
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let mut paths: Vec<String> = paths.iter().map(text).collect();
    let new: Vec<String> = paths.iter().map(|path| format!("{path}.new")).collect();
    paths.extend(new);
    paths.sort_unstable();
    paths.dedup();
    paths.retain(|path| !path.contains(".sock"));
    paths
}

struct Trial<'a> {
    template: &'a Template,
    paths: &'a [String],
    rng: Rng,
}

impl Trial<'_> {
    /// Runs once. Returns the outcome and its problems.
    fn run(&self, calls: &Calls, nth: u64) -> (Outcome, Vec<String>) {
        let data = self.template.copy("data");
        let trace = self.template.path("trace");
        let _ = fs::remove_file(&trace);
        let launch = Launch::new(&data).under(&self.strace(calls, nth, &trace));
        let mut workload = self.template.workload.clone();
        let mut problems = Vec::new();
        let (outcome, log) = match launch.start() {
            Started::Ready(appliance) => {
                let time = WORK + WORK_EACH * u32::try_from(nth).unwrap();
                // A failure of these commands must not disturb the requests.
                let background = (!calls.fatal).then(|| {
                    let command: &[&str] = match nth % 2 {
                        0 => &["backup", "create", "--json"],
                        _ => &["store", "compact"],
                    };
                    BackgroundCommand::new(&Launch::new(&data), command)
                });
                self.drive(appliance, &mut workload, &trace, background, time)
            }
            Started::Ended(Some(code), log) if code != 0 && log.contains("error: ") => {
                (Outcome::NotStarted, log)
            }
            Started::Waiting(log) => (Outcome::NotStarted, log),
            Started::Ended(code, log) => {
                problems.push(format!("ended at start with {code:?}"));
                (Outcome::Wrong, log)
            }
            Started::Hung(log) => {
                problems.push("the start hangs".to_owned());
                (Outcome::Wrong, log)
            }
        };
        problems.extend(workload.problems());
        if outcome == Outcome::Harmless && calls.fatal {
            problems.push("the server did not stop".to_owned());
        }
        match Launch::new(&data).start() {
            Started::Ready(appliance) => {
                problems.extend(workload.check(&appliance.address, &AllowedLoss::NONE, &self.rng));
                if !problems.is_empty() {
                    problems.push(format!("the next start: {}", tail(&appliance.log())));
                }
            }
            Started::Ended(_, log) | Started::Waiting(log) | Started::Hung(log) => {
                problems.push(format!("the next start fails: {}", tail(&log)));
            }
        }
        if problems.is_empty() {
            return (outcome, problems);
        }
        let calls = fs::read_to_string(&trace).unwrap_or_default();
        let injected = calls.lines().filter(|line| line.contains("INJECTED"));
        problems.extend(injected.map(|line| format!("call: {line}")));
        problems.push(format!("log: {}", tail(&log)));
        (Outcome::Wrong, problems)
    }

    fn strace(&self, calls: &Calls, nth: u64, trace: &Path) -> Vec<String> {
        let mut command: Vec<String> = ["strace", "-D", "-f", "-y", "--seccomp-bpf", "-o"]
            .map(str::to_owned)
            .into();
        command.push(trace.to_str().unwrap().to_owned());
        command.extend(["-e".to_owned(), format!("trace={}", calls.names)]);
        let inject = format!("inject={}:error={}:when={nth}", calls.names, calls.error);
        command.extend(["-e".to_owned(), inject]);
        for path in self.paths.iter().filter(|_| calls.anywhere) {
            command.extend(["-P".to_owned(), path.clone()]);
        }
        command
    }

    /// Runs the actors until the process ends or `time` is over.
    fn drive(
        &self,
        mut appliance: Appliance,
        workload: &mut Workload,
        trace: &Path,
        background: Option<BackgroundCommand>,
        time: Duration,
    ) -> (Outcome, String) {
        let address = appliance.address.clone();
        let was_injected = || {
            let calls = fs::read_to_string(trace).unwrap_or_default();
            calls.contains("INJECTED")
        };
        let mut ended = None;
        workload.work(&address, Mix::Importing, &self.rng, || {
            let mut background = background;
            let began = Instant::now();
            while ended.is_none() && began.elapsed() < time {
                ended = appliance.wait(Duration::from_millis(20));
                if let Some(background) = &mut background {
                    background.repeat(Duration::from_millis(20));
                }
            }
            if let Some(background) = &mut background {
                background.finish();
            }
        });
        let serving = was_injected();
        if ended.is_none() && serving {
            // The process may be ending at this moment.
            if appliance
                .readiness()
                .is_none_or(|(status, _)| status != 200)
            {
                ended = appliance.wait(END_WITHIN);
            }
        }
        let stopped = ended.is_none().then(|| appliance.end());
        let outcome = match (ended, stopped) {
            (Some(Some(5)), _) => Outcome::Exit5,
            (None, Some(Some(0 | 5))) if !serving && was_injected() => Outcome::AtStop,
            (None, Some(Some(0))) if !serving => Outcome::NotReached,
            (None, Some(Some(0))) if workload.counts().1 > 0 => Outcome::Refused,
            (None, Some(Some(0))) => Outcome::Harmless,
            _ => Outcome::Wrong,
        };
        (outcome, appliance.log())
    }
}

#[test]
fn failing_system_calls_lose_nothing() {
    campaign("eio", &CALLS, 8, NTH);
}

/// Runs `short` trials of each kind of call for every change, and up to `long` in the long form.
pub fn campaign(name: &str, kinds: &[Calls], short: u64, long: u64) {
    if let Err(why) = Tracer::check_available() {
        return skip(name, &why);
    }
    let rng = Rng::for_test(name);
    let templates = [EndedBy::Stop, EndedBy::Kill].map(|ended_by| {
        let template = Template::make(ended_by, &rng);
        let paths = paths(&template, &rng);
        (template, paths)
    });
    let mut table: BTreeMap<(&str, &str, Outcome), u32> = BTreeMap::new();
    for calls in kinds {
        let each = rounds(short, long).clamp(1, long);
        let mut not_reached = 0;
        for step in 0..each {
            // The first calls are made during the start: each is tested by itself, later ones at growing distances.
            // Trials alternate between the two templates.
            let nth = 1 + step + step * step * (long - each) / (each * each);
            let (template, paths) = &templates[usize::from(step % 2 == 1)];
            let trial = Trial {
                template,
                paths,
                rng: rng.split(nth),
            };
            let (outcome, problems) = trial.run(calls, nth);
            *table
                .entry((calls.error, calls.names, outcome))
                .or_default() += 1;
            if outcome == Outcome::Wrong {
                println!(
                    "{} {} number {nth}:\n  {}",
                    calls.error,
                    calls.names,
                    problems.join("\n  ")
                );
            }
            not_reached = match outcome {
                Outcome::NotReached => not_reached + 1,
                _ => 0,
            };
            // There are no more calls of this kind.
            if not_reached > 4 {
                break;
            }
        }
    }
    println!(
        "{name}: calls that fail\n| error | calls | outcome | runs |\n| --- | --- | --- | --- |"
    );
    for ((error, names, outcome), runs) in &table {
        println!("| {error} | {names} | {outcome:?} | {runs} |");
    }
    let wrong = table
        .keys()
        .any(|(_, _, outcome)| *outcome == Outcome::Wrong);
    assert!(!wrong, "runs went wrong; see above");
}
