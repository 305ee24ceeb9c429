//! Every file of the data directory that cannot be read: what serves without it does, and nothing is lost. Any other start ends
//! in bounded time, with a message that has the path and what to do.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::external_tools::program;
use crate::support::process::{InTime as _, KilledOnDrop};

/// The user `nobody`, for whom permissions count.
const OWNER: u32 = 65_534;
/// Far above the duration of any start in this test, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Directory,
    Pipe,
    Forbidden,
    /// Every open and read of the file fails with EIO.
    Eio,
}

const FAULTS: [Fault; 4] = [Fault::Directory, Fault::Pipe, Fault::Forbidden, Fault::Eio];

impl Fault {
    /// Sets the file aside in `kept` if something else takes its place.
    fn begin(self, path: &Path, kept: &Path) {
        match self {
            Self::Directory => {
                fs::rename(path, kept).unwrap();
                fs::create_dir(path).unwrap();
            }
            Self::Pipe => {
                fs::rename(path, kept).unwrap();
                mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            }
            Self::Forbidden => fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap(),
            Self::Eio => {}
        }
    }

    /// Puts the file back unless the server has replaced it meanwhile.
    fn end(self, path: &Path, kept: &Path) {
        match self {
            Self::Directory => drop(fs::remove_dir(path)),
            Self::Pipe if path.exists() && !path.is_file() => fs::remove_file(path).unwrap(),
            Self::Forbidden if path.exists() => {
                fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap();
            }
            _ => {}
        }
        // The server removes the whole directory of an engine that it rebuilds.
        let is_there = path.parent().is_some_and(Path::exists);
        if is_there && !path.exists() && kept.exists() {
            fs::rename(kept, path).unwrap();
        }
    }
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// Starts a server until it is ready or ends. Returns whether it was ready, and what it said.
fn start(data: &Path, fault: Fault, path: &Path, place: &Path) -> (bool, String) {
    let plain = {
        let mut command = playgate(data);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command
    };
    let mut command = match fault {
        Fault::Eio => {
            let mut strace = Command::new("strace");
            // With `-D` this process becomes the server, so that signals reach it.
            strace
                .args(["-D", "-f", "-qq", "-o"])
                .arg(place.join("trace"));
            strace.args(["-e", "trace=openat,read,pread64"]);
            strace.args(["-e", "inject=openat,read,pread64:error=EIO"]);
            strace.arg("-P").arg(path).arg("--");
            strace.arg(plain.get_program()).args(plain.get_args());
            for (name, value) in plain.get_envs() {
                match value {
                    Some(value) => strace.env(name, value),
                    None => strace.env_remove(name),
                };
            }
            strace
        }
        _ => plain,
    };
    let log = place.join("log");
    command
        .env("PLAYGATE_LOG_LEVEL", "warn")
        .stderr(fs::File::create(&log).unwrap())
        .stdout(Stdio::piped());
    let mut process = KilledOnDrop(command.spawn().unwrap());
    let mut output = process.stdout.take().unwrap();
    // The line with the address, or the end of the process.
    let first = thread::spawn(move || {
        let mut byte = [0];
        output.read(&mut byte).unwrap_or(0) > 0
    });
    let said = || fs::read_to_string(&log).unwrap();
    let began = Instant::now();
    let ready = loop {
        if first.is_finished() {
            break first.join().unwrap();
        }
        if said().contains("maintenance mode") {
            break false;
        }
        let passed = began.elapsed();
        assert!(
            passed < LIMIT,
            "{fault:?} {}: hangs: {}",
            path.display(),
            said()
        );
        thread::park_timeout(Duration::from_millis(5));
    };
    process.terminate();
    process.status_in_time();
    (ready, said())
}

/// Whether the service cannot do without a file, or cannot know what it is.
fn may_end(fault: Fault, name: &str) -> bool {
    let part = name.split('/').next().unwrap_or(name);
    // An injected EIO is bound to the path, so that a new file in its place fails as well.
    part == "store" || name == "lock" || (fault == Fault::Eio && part == "telemetry")
}

/// Whether the data directory has what was acknowledged.
fn is_whole(data: &Path) -> Result<(), String> {
    for (arguments, expected) in [
        (&["user", "list"][..], "ann@example.com"),
        (&["store", "verify"], "records"),
    ] {
        let output = playgate(data).args(arguments).output_in_time();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        if !output.status.success() || !printed.contains(expected) {
            return Err(format!("{arguments:?}: {printed}"));
        }
    }
    Ok(())
}

fn copied(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status_in_time();
    assert!(copied.success());
}

fn give_away(path: &Path) {
    lchown(path, Some(OWNER), Some(OWNER)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}

#[test]
fn a_start_names_every_file_that_it_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let template = folder.path().join("data");
    let mut appliance = Appliance::start(&template);
    let (partner, bearer) = sign_up(&appliance);
    let headers = [
        ("Service-AccessToken", &*partner),
        ("Authorization", &*bearer),
    ];
    let event = r#"[{"timestamp": 1767268800, "action": "start", "seqId": 1}]"#;
    let sent = appliance.ask("POST", "/api/tracker/v1/telemetry-events", &headers, event);
    assert_eq!(sent.status, 202);
    appliance.run_ok(&["backup", "create"]);
    appliance.end();
    let mut found = Vec::new();
    files(&template, &mut found);
    found.retain(|path| !path.ends_with("ballast"));
    let is_root = rustix::process::getuid().is_root();
    let trials: Vec<(Fault, PathBuf)> = FAULTS
        .iter()
        .filter(|fault| **fault != Fault::Eio || program("strace").is_some())
        .flat_map(|fault| found.iter().map(|path| (*fault, path.clone())))
        .collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((fault, file)) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let place = tempfile::tempdir_in(folder.path()).unwrap();
                    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
                    let data = place.path().join("data");
                    copied(&template, &data);
                    let below = file.strip_prefix(&template).unwrap();
                    let path = data.join(below);
                    if is_root && *fault == Fault::Forbidden {
                        give_away(&data);
                    }
                    let kept = place.path().join("kept");
                    fault.begin(&path, &kept);
                    let (ready, said) = start(&data, *fault, &path, place.path());
                    fault.end(&path, &kept);
                    let name = below.to_string_lossy();
                    let add = |what: String| {
                        let problem = format!("{fault:?} {name} (ready: {ready}): {what}");
                        problems.lock().unwrap().push(problem);
                    };
                    let has_remedy = said.contains("; ") || said.contains("hint: ");
                    let is_explained = said.contains(&*name) && has_remedy;
                    let is_allowed = is_explained && may_end(*fault, &name);
                    if !(ready || is_allowed) {
                        add(format!("says {said}"));
                    }
                    if let Err(lost) = is_whole(&data) {
                        add(format!("{lost}\nafter {said}"));
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A command without a server has no log but its own output.
#[test]
fn a_command_without_a_server_names_the_file_that_it_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Appliance::start(&data).end();
    let quality = data.join("quality");
    fs::rename(&quality, folder.path().join("quality")).unwrap();
    mknodat(CWD, &quality, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let output = playgate(&data)
        .args(["telemetry", "report"])
        .output_in_time();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains(quality.to_str().unwrap()) && said.contains("; "),
        "{said}"
    );
}
