//! The n-th call of a kind fails, by strace: what is being asked for then is not answered with success,
//! the process ends with exit code 5 where it cannot go on, and the next start has everything that was
//! acknowledged. Here the error is EIO.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::appliance::{Appliance, Launch, Started};
use crate::harness::background_command::BackgroundCommand;
use crate::harness::disk::run;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::tail;
use crate::harness::template::{Left, Template, list};
use crate::workload::{Who, Workload};

/// How long a failed call may go unanswered by the end of the process.
const END_WITHIN: Duration = Duration::from_secs(5);
/// How long the appliance works under strace, and how much longer for each call that is let pass.
const WORK: Duration = Duration::from_millis(800);
const WORK_EACH: Duration = Duration::from_millis(8);
/// The n-th calls that fail are up to this one.
const NTH: u64 = 200;

/// Calls that fail.
pub struct Calls {
    pub names: &'static str,
    /// The name of the error.
    pub error: &'static str,
    /// A failure here says that what was promised cannot be kept: the process must not go on.
    pub fatal: bool,
    /// Sockets and libraries are met by them too: only calls on the data directory's files count.
    pub anywhere: bool,
}

const fn calls(names: &'static str, fatal: bool, anywhere: bool) -> Calls {
    Calls {
        names,
        error: "EIO",
        fatal,
        anywhere,
    }
}

const CALLS: [Calls; 7] = [
    calls("fdatasync,fsync", true, false),
    calls("pwrite64", true, false),
    calls("write", false, true),
    calls("openat", false, true),
    calls("rename,renameat,renameat2", false, false),
    calls("ftruncate,fallocate", false, false),
    calls("unlink,unlinkat", false, false),
];

/// How a run under strace went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// There was no n-th call.
    NotReached,
    /// It goes on, and everything was answered as usual.
    Harmless,
    /// It goes on; some requests were answered 503.
    Refused,
    /// It did not start, or waits in maintenance, and says why.
    NotStarted,
    /// Exit code 5, with the reason.
    Exit5,
    /// It failed while the process ended, which it did.
    AtStop,
    Wrong,
}

/// Every path that a run touches, for calls that are made on other things too.
fn paths(template: &Template, dice: &Rng) -> Vec<String> {
    let data = template.copy("data");
    let mut paths = Vec::new();
    list(&data, &mut paths);
    let Started::Ready(mut appliance) = Launch::of(&data).start() else {
        panic!("it does not start");
    };
    let mut workload = template.workload.clone();
    workload.work(&appliance.address.clone(), Who::Importing, dice, || {
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
    dice: Rng,
}

impl Trial<'_> {
    /// One run; its outcome, and what is to be told of it.
    fn run(&self, calls: &Calls, nth: u64) -> (Outcome, Vec<String>) {
        let data = self.template.copy("data");
        let trace = self.template.beside("trace");
        let _ = fs::remove_file(&trace);
        let launch = Launch::of(&data).under(&self.strace(calls, nth, &trace));
        let mut workload = self.template.workload.clone();
        let mut told = Vec::new();
        let (outcome, log) = match launch.start() {
            Started::Ready(appliance) => {
                let time = WORK + WORK_EACH * u32::try_from(nth).unwrap();
                // What they need may fail without harm, while what is served goes on.
                let orders = (!calls.fatal).then(|| {
                    let command: &[&str] = match nth % 2 {
                        0 => &["backup", "create", "--json"],
                        _ => &["store", "compact"],
                    };
                    BackgroundCommand::give(&Launch::of(&data), command)
                });
                self.drive(appliance, &mut workload, &trace, orders, time)
            }
            Started::Ended(Some(code), log) if code != 0 && log.contains("error: ") => {
                (Outcome::NotStarted, log)
            }
            Started::Waiting(log) => (Outcome::NotStarted, log),
            Started::Ended(code, log) => {
                told.push(format!("ended at start with {code:?}"));
                (Outcome::Wrong, log)
            }
            Started::Hung(log) => {
                told.push("it hangs at start".to_owned());
                (Outcome::Wrong, log)
            }
        };
        told.extend(workload.problems());
        if outcome == Outcome::Harmless && calls.fatal {
            told.push("it goes on".to_owned());
        }
        // Whatever happened, the next start has it all.
        match Launch::of(&data).start() {
            Started::Ready(appliance) => {
                told.extend(workload.check(&appliance.address, &AllowedLoss::WHOLE, &self.dice));
                if !told.is_empty() {
                    told.push(format!("the next start: {}", tail(&appliance.log())));
                }
            }
            Started::Ended(_, log) | Started::Waiting(log) | Started::Hung(log) => {
                told.push(format!("the next start fails: {}", tail(&log)));
            }
        }
        if told.is_empty() {
            return (outcome, told);
        }
        let calls = fs::read_to_string(&trace).unwrap_or_default();
        let injected = calls.lines().filter(|line| line.contains("INJECTED"));
        told.extend(injected.map(|line| format!("call: {line}")));
        told.push(format!("log: {}", tail(&log)));
        (Outcome::Wrong, told)
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

    /// Works until the process ends or the time is over.
    fn drive(
        &self,
        mut appliance: Appliance,
        workload: &mut Workload,
        trace: &Path,
        orders: Option<BackgroundCommand>,
        time: Duration,
    ) -> (Outcome, String) {
        let address = appliance.address.clone();
        let hit = || {
            let calls = fs::read_to_string(trace).unwrap_or_default();
            calls.contains("INJECTED")
        };
        let mut ended = None;
        workload.work(&address, Who::Importing, &self.dice, || {
            let mut orders = orders;
            let began = Instant::now();
            while ended.is_none() && began.elapsed() < time {
                ended = appliance.wait(Duration::from_millis(20));
                if let Some(orders) = &mut orders {
                    orders.repeat(Duration::from_millis(20));
                }
            }
            if let Some(orders) = &mut orders {
                orders.finish();
            }
        });
        let serving = hit();
        if ended.is_none() && serving {
            // It may be on its way out.
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
            (None, Some(Some(0 | 5))) if !serving && hit() => Outcome::AtStop,
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

/// Runs so many trials of each kind of call for every change, and up to the last of the long form.
pub fn campaign(name: &str, kinds: &[Calls], short: u64, long: u64) {
    if let Err(why) = run(Command::new("strace").arg("-V")) {
        return skip(name, &why);
    }
    let dice = Rng::of_test(name);
    let templates = [Left::ByStop, Left::ByKill].map(|left| {
        let template = Template::make(left, &dice);
        let paths = paths(&template, &dice);
        (template, paths)
    });
    let mut table: BTreeMap<(&str, &str, Outcome), u32> = BTreeMap::new();
    for calls in kinds {
        let each = rounds(short, long).clamp(1, long);
        let mut not_reached = 0;
        for step in 0..each {
            // The first calls are those of the start: each by itself, then further and further
            // apart. Both ways to have been left, in turn.
            let nth = 1 + step + step * step * (long - each) / (each * each);
            let (template, paths) = &templates[usize::from(step % 2 == 1)];
            let trial = Trial {
                template,
                paths,
                dice: dice.split(nth),
            };
            let (outcome, told) = trial.run(calls, nth);
            *table
                .entry((calls.error, calls.names, outcome))
                .or_default() += 1;
            if outcome == Outcome::Wrong {
                println!(
                    "{} {} number {nth}:\n  {}",
                    calls.error,
                    calls.names,
                    told.join("\n  ")
                );
            }
            not_reached = match outcome {
                Outcome::NotReached => not_reached + 1,
                _ => 0,
            };
            // There are no more of them.
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
    assert!(!wrong, "runs went wrong, as told above");
}
