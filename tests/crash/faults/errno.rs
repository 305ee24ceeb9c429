//! System calls that fail with other errors than EIO: no space, no quota, no descriptor, and calls that the file system
//! does not support. Writes are refused and resume later; a failed sync ends the process, whatever the error; nothing
//! that was acknowledged is lost.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::faults::eio::{Calls, calls, campaign};
use crate::harness::appliance::{Appliance, Launch};
use crate::harness::client::Connection;
use crate::harness::disk::run;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::process::{InTime as _, KilledOnDrop};
use crate::harness::rng::{Rng, rounds, skip};
use crate::harness::tail;
use crate::harness::template::{EndedBy, Template};
use crate::harness::tracer::Tracer;
use crate::workload::{Mix, PASSWORD, Workload};

/// How soon the process ends after a fatal failure, and how soon writes resume after another one.
const WITHIN: Duration = Duration::from_secs(10);

const CALLS: [Calls; 9] = [
    calls("fdatasync,fsync", "ENOSPC", true, false),
    calls("fdatasync,fsync", "EDQUOT", true, false),
    calls("fdatasync,fsync", "EROFS", true, false),
    calls("pwrite64", "ENOSPC", false, false),
    calls("write", "EDQUOT", false, true),
    calls("openat", "EMFILE", false, true),
    calls("openat", "ENOSPC", false, true),
    calls("rename,renameat,renameat2", "ENOSPC", false, false),
    calls("ftruncate,fallocate", "EDQUOT", false, false),
];

#[test]
fn enospc_and_emfile_lose_nothing() {
    campaign("errno", &CALLS, 3, 60);
}

struct Scene {
    data: PathBuf,
    appliance: Appliance,
    workload: Workload,
    signed_up: Vec<String>,
    refused: u32,
}

impl Scene {
    fn new(template: &Template, launch: &Launch) -> Self {
        Self {
            data: launch.data_dir.clone(),
            appliance: launch.ready(),
            workload: template.workload.clone(),
            signed_up: Vec::new(),
            refused: 0,
        }
    }

    /// Signs up a user. Returns whether that was acknowledged.
    fn sign_up(&mut self, line: &mut Connection) -> bool {
        let email = format!(
            "errno-{}-{}@example.com",
            self.signed_up.len(),
            self.refused
        );
        let body = json!({"identity": email, "accessKey": PASSWORD});
        let headers = [("Service-AccessToken", self.workload.keys.partner.as_str())];
        let answer = line.ask("PUT", "/api/login/v2/auth/email", &headers, &body);
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        if status == 200 {
            self.signed_up.push(email);
        } else {
            self.refused += 1;
            assert!([0, 503].contains(&status), "a sign-up is answered {status}");
        }
        status == 200
    }

    /// Signs up users until `enough` or until `time` is over.
    fn sign_up_for(&mut self, time: Duration, enough: impl Fn(&Self) -> bool) {
        let line = &mut self.appliance.line();
        let began = Instant::now();
        while began.elapsed() < time && !enough(self) {
            if !self.sign_up(line) {
                *line = self.appliance.line();
                thread::park_timeout(Duration::from_millis(20));
            }
        }
    }

    /// Returns the current segment of the log, and the paths of the possible next ones and of one that is being created.
    fn segments(&self) -> (PathBuf, Vec<PathBuf>) {
        let log = self.data.join("store/log");
        let names = std::fs::read_dir(&log).unwrap().flatten();
        let firsts = names.filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".wal")?.parse::<u64>().ok()
        });
        let last = firsts.max().unwrap();
        let path = |first: u64| log.join(format!("{first:020}.wal"));
        let following = (last + 1..last + 600).map(path);
        let all = following.chain([log.join("unfinished")]).collect();
        (path(last), all)
    }

    /// Checks that every acknowledged user exists and that the store is sound.
    fn assert_all_exist(&self, appliance: &Appliance) {
        let line = &mut appliance.line();
        for email in &self.signed_up {
            let target = format!("/admin/v1/users/{email}?partner=rig");
            let answer = line.operate(&self.workload.keys.operator, "GET", &target, &Value::Null);
            assert_eq!(answer.unwrap().status, 200, "{email} is lost");
        }
        let target = "/admin/v1/store/verify";
        let answer = line.operate(&self.workload.keys.operator, "POST", target, &Value::Null);
        let answer = answer.unwrap();
        assert_eq!(answer.json()["sound"], true, "{:?}", answer.json());
    }
}

/// A fault while the log rolls over to the next segment.
struct Roll {
    inject: &'static str,
    /// Whether the fault hits the current segment or the next one.
    present: bool,
    fatal: bool,
}

const fn roll(inject: &'static str, present: bool, fatal: bool) -> Roll {
    Roll {
        inject,
        present,
        fatal,
    }
}

const ROLLS: [Roll; 8] = [
    roll("fdatasync:error=ENOSPC:when=1", true, true),
    roll("fdatasync:error=EDQUOT:when=1", true, true),
    roll("fsync:error=ENOSPC:when=1", false, true),
    roll("fsync:error=EDQUOT:when=1", false, true),
    roll("openat:error=EMFILE:when=1..3", false, false),
    roll("openat:error=ENFILE:when=1..3", false, false),
    roll("openat:error=ENOSPC:when=1..3", false, false),
    roll("pwrite64:error=EDQUOT:when=1..3", false, false),
];

/// A backup makes the log roll over. The backup itself may fail, with an error message.
fn try_roll(template: &Template, roll: &Roll) {
    let launch = Launch::new(&template.copy("data"));
    let mut scene = Scene::new(template, &launch);
    scene.sign_up_for(WITHIN, |scene| scene.signed_up.len() == 3);
    let (present, following) = scene.segments();
    let paths = if roll.present {
        vec![present]
    } else {
        following
    };
    let tracer = Tracer::attach(scene.appliance.process.id(), roll.inject, &paths);
    let mut backup = launch.admin_command();
    backup.args(["backup", "create"]);
    let backup = backup.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut backup = KilledOnDrop(backup.spawn().unwrap());
    scene.sign_up_for(WITHIN, |_| !tracer.injected().is_empty());
    let injected = tracer.injected();
    assert!(!injected.is_empty(), "{}: no call is met", roll.inject);
    if roll.fatal {
        let ended = scene.appliance.wait(WITHIN);
        let log = scene.appliance.log();
        assert_eq!(
            ended,
            Some(Some(5)),
            "{}: {injected:?}: {}",
            roll.inject,
            tail(&log)
        );
        assert!(log.contains("failed to sync"), "{log}");
    } else {
        let before = scene.signed_up.len();
        scene.sign_up_for(WITHIN, |scene| scene.signed_up.len() > before + 2);
        let log = scene.appliance.log();
        assert!(
            scene.signed_up.len() > before + 2,
            "{}: {}",
            roll.inject,
            tail(&log)
        );
        assert_eq!(scene.appliance.wait(Duration::ZERO), None, "{}", tail(&log));
    }
    let output = backup.output_in_time();
    // After the backup, which verifies its file in a child process: strace hangs if it detaches from a thread between
    // `vfork` and `execve`.
    drop(tracer);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let name = roll.inject;
    println!(
        "| {name} | {} | {} | {message:?} |",
        scene.signed_up.len(),
        scene.refused
    );
    assert!(
        output.status.success() || message.contains("error: "),
        "{name}: {message}"
    );
    scene.appliance.kill();
    scene.assert_all_exist(&launch.ready());
}

#[test]
fn a_fault_at_the_end_of_a_segment_is_fatal_only_in_a_sync() {
    if let Err(why) = Tracer::check_available() {
        return skip("faults at a roll", &why);
    }
    let template = Template::make(EndedBy::Stop, &Rng::for_test("rolls"));
    println!(
        "| fault at a roll | acknowledged | refused | the backup |\n| --- | --- | --- | --- |"
    );
    for _ in 0..rounds(1, 20) {
        for roll in &ROLLS {
            try_roll(&template, roll);
        }
    }
}

#[test]
fn every_failed_sync_of_telemetry_ends_the_process() {
    if let Err(why) = Tracer::check_available() {
        return skip("failed syncs of telemetry", &why);
    }
    let rng = Rng::for_test("telemetry");
    let template = Template::make(EndedBy::Stop, &rng);
    for error in ["ENOSPC", "EDQUOT", "EROFS"] {
        let launch = Launch::new(&template.copy("data"));
        let Scene {
            data,
            mut appliance,
            mut workload,
            ..
        } = Scene::new(&template, &launch);
        let address = appliance.address.clone();
        workload.work(&address, Mix::Logged, &rng, || {
            thread::park_timeout(Duration::from_millis(700));
        });
        let files = std::fs::read_dir(data.join("telemetry")).unwrap().flatten();
        let files = files.map(|entry| entry.path());
        let events = files.filter(|path| path.extension().is_some_and(|kind| kind == "events"));
        let inject = format!("fdatasync:error={error}:when=1");
        let paths: Vec<PathBuf> = events.collect();
        let tracer = Tracer::attach(appliance.process.id(), &inject, &paths);
        let mut ended = None;
        workload.work(&address, Mix::Logged, &rng, || {
            ended = appliance.wait(WITHIN)
        });
        let log = appliance.log();
        assert_eq!(
            tracer.injected().len(),
            1,
            "{error}: {:?}",
            tracer.injected()
        );
        assert_eq!(ended, Some(Some(5)), "{error}: {}", tail(&log));
        assert!(log.contains("failed to sync"), "{log}");
        drop(tracer);
        let next = launch.ready();
        let problems = [
            workload.problems(),
            workload.check(&next.address, &AllowedLoss::NONE, &rng),
        ];
        assert_eq!(problems.concat(), Vec::<String>::new(), "{error}");
    }
}

/// Returns a guide that is larger than two segments of the log.
fn large_guide() -> Value {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86_400 * 86_400;
    let mut rng = Rng::fixed();
    let mut text = || -> String {
        let word = |rng: &mut Rng| format!("{:016x}", rng.next());
        (0..60).map(|_| word(&mut rng)).collect()
    };
    let mut programmes = |_| -> Value {
        let starts = (0..144_u64).map(|n| now + n * 1_800);
        let programme = |start| {
            json!({"title": "x", "start": start, "stop": start + 1_800, "pgAge": 0,
                "description": text()})
        };
        starts.map(programme).collect()
    };
    let named = (0..70).map(|n| (format!("large{n}"), programmes(n)));
    named.collect::<serde_json::Map<_, _>>().into()
}

/// The log reaches the end of its segment while no descriptor for the next one is available.
#[test]
fn the_log_continues_after_descriptor_exhaustion() {
    if let Err(why) = Tracer::check_available() {
        return skip("no descriptors at a full segment", &why);
    }
    let template = Template::make(EndedBy::Stop, &Rng::for_test("descriptors"));
    let launch = Launch::new(&template.copy("data"));
    let mut scene = Scene::new(&template, &launch);
    let (_, mut paths) = scene.segments();
    paths.push(scene.data.join("store/log/ahead"));
    let pid = scene.appliance.process.id();
    let tracer = Tracer::attach(pid, "openat:error=EMFILE", &paths);
    let import = |scene: &Scene| {
        let target = "/admin/v1/epg/import?createLivestreams=true&accept=true";
        let key = &scene.workload.keys.operator;
        let answer = scene
            .appliance
            .line()
            .operate(key, "POST", target, &large_guide());
        answer.map(|answer| (answer.status, answer.json()))
    };
    let (status, message) = import(&scene).unwrap();
    assert_eq!(status, 503, "{message}");
    assert!(!tracer.injected().is_empty(), "the segment does not fill");
    // Small changes still fit into the current segment.
    scene.sign_up_for(WITHIN, |scene| scene.signed_up.len() == 3);
    assert_eq!(scene.signed_up.len(), 3, "{}", scene.appliance.log());
    assert_eq!(
        scene.appliance.wait(Duration::ZERO),
        None,
        "{}",
        scene.appliance.log()
    );
    drop(tracer);
    let before = scene.signed_up.len();
    scene.sign_up_for(WITHIN, |scene| scene.signed_up.len() > before);
    assert!(scene.signed_up.len() > before, "{}", scene.appliance.log());
    let (status, message) = import(&scene).unwrap();
    assert_eq!(status, 200, "{message}");
    scene.appliance.kill();
    scene.assert_all_exist(&launch.ready());
}

/// Clients hold as many connections as they can get; the store still creates files.
#[test]
fn connections_leave_descriptors_for_the_store() {
    if let Err(why) = run(Command::new("prlimit").arg("--version")) {
        return skip("few descriptors", &why);
    }
    let template = Template::make(EndedBy::Stop, &Rng::for_test("few descriptors"));
    // The server raises the soft limit to the hard limit; with the soft limit it could not start.
    let few = ["prlimit", "--nofile=32:256"].map(str::to_owned);
    let launch = Launch::new(&template.copy("data")).under(&few);
    let launch = launch.with("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", "100000");
    let mut scene = Scene::new(&template, &launch);
    let log = scene.appliance.log();
    assert!(log.contains("limits.connections was lowered"), "{log}");
    let line = &mut scene.appliance.line();
    assert!(scene.sign_up(line));
    let address = scene.appliance.address.public;
    let held: Vec<_> = (0..600)
        .filter_map(|_| TcpStream::connect(address).ok())
        .collect();
    assert!(held.len() > 256, "the control: {} connections", held.len());
    for _ in 0..3 {
        let made = Launch::new(&scene.data).run(&["backup", "create"]);
        let message = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{message}");
        assert!(scene.sign_up(line), "{}", scene.appliance.log());
    }
    drop(held);
    scene.appliance.kill();
    scene.assert_all_exist(&Launch::new(&launch.data_dir).ready());
}

fn backup_of(data: &Path) -> String {
    let listed = Launch::new(data).run(&["backup", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let first = listed.as_array().or_else(|| listed["backups"].as_array());
    let name = &first.unwrap_or_else(|| panic!("{listed}"))[0]["name"];
    name.as_str().unwrap().to_owned()
}

/// Restores a backup on a file system that cannot exchange two directories. The process is killed at rename number
/// `killed_at`, if given.
fn restore(data: &Path, killed_at: Option<u64>, error: &str) -> (bool, String) {
    let mut under: Vec<String> = ["strace", "-f", "-y", "-o", "/dev/stdout", "-e"]
        .map(str::to_owned)
        .into();
    under.push("trace=rename,renameat2".to_owned());
    under.extend(["-e".to_owned(), format!("inject=renameat2:error={error}")]);
    if let Some(nth) = killed_at {
        let kill = format!("inject=rename:signal=KILL:error=EINTR:when={nth}");
        under.extend(["-e".to_owned(), kill]);
    }
    let name = backup_of(data);
    let output = Launch::new(data)
        .under(&under)
        .run(&["backup", "restore", &name]);
    let message = [output.stdout, output.stderr].concat();
    let message = String::from_utf8_lossy(&message).into_owned();
    (output.status.success(), message)
}

#[test]
fn a_restore_works_without_rename_exchange() {
    if let Err(why) = Tracer::check_available() {
        return skip("restores without an exchange", &why);
    }
    let template = Template::make(EndedBy::Stop, &Rng::for_test("restores"));
    let kept = |data: &Path| data.join("aside/store.1/log").exists();
    let mut renames = 0;
    for error in ["EINVAL", "ENOSYS", "EOPNOTSUPP"] {
        let data = template.copy("data");
        let (restored, message) = restore(&data, None, error);
        assert!(restored, "{error}: {message}");
        assert!(message.contains("(INJECTED)"), "{error}: {message}");
        assert!(kept(&data), "{error}");
        renames = message.matches(" rename(").count();
        let mut appliance = Launch::new(&data).ready();
        let log = appliance.log();
        assert!(!log.contains("cannot exchange two directories"), "{log}");
        appliance.end();
    }
    // Control: any other error fails the restore, names the path and changes nothing.
    let data = template.copy("data");
    let (restored, message) = restore(&data, None, "EACCES");
    assert!(
        !restored && message.contains("data/store: Permission denied"),
        "{message}"
    );
    // Killed at each of the last renames: the next start completes or undoes the restore, also without an exchange.
    let renames = renames as u64;
    let (mut old, mut new) = (0, 0);
    for nth in renames.saturating_sub(rounds(5, 12))..=renames {
        let data = template.copy("data");
        let (restored, message) = restore(&data, Some(nth.max(1)), "EINVAL");
        assert!(!restored, "rename {nth} is not met: {message}");
        let under = [
            "strace",
            "-D",
            "-f",
            "-o",
            "/dev/null",
            "--seccomp-bpf",
            "-e",
        ];
        let mut under: Vec<String> = under.map(str::to_owned).into();
        under.extend(["trace=renameat2", "-e", "inject=renameat2:error=EINVAL"].map(str::to_owned));
        let mut appliance = Launch::new(&data).under(&under).ready();
        match kept(&data) {
            true => new += 1,
            false => old += 1,
        }
        let target = "/admin/v1/store/verify";
        let key = &template.workload.keys.operator;
        let answer = appliance.line().operate(key, "POST", target, &Value::Null);
        let answer = answer.unwrap();
        assert_eq!(answer.json()["sound"], true, "{nth}: {:?}", answer.json());
        assert!(!data.join("restored").exists(), "{nth}");
        // The missing exchange is reported at the start, with the path, and not only when a restore needs it.
        let log = appliance.log();
        let mut lines = log.lines();
        let warning = lines.find(|line| line.contains("cannot exchange two directories"));
        let names = warning.is_some_and(|line| line.contains(data.to_str().unwrap()));
        assert!(names, "{nth}: {log}");
        assert_eq!(appliance.end(), Some(0));
    }
    println!("restores killed at a rename: {old} left the old store, {new} the new one");
    assert!(old > 0 && new > 0, "the control: {old} old, {new} new");
}
