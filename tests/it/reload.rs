//! A process that executes itself again: with another configuration, on sockets that it inherits, and with
//! notifications to the service manager.

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::process::{InTime as _, KilledOnDrop, signal};
use crate::support::raw_http::{Wire, ask, request};
use crate::support::stop_on_drop::StopOnDrop;
use crate::support::until::until;

const OPS: &str = "ops.listen = \"127.0.0.1:0\"\n";
const TIMEOUT: Duration = Duration::from_secs(20);

/// A data directory, a configuration and the notification socket of a service manager.
struct Installation {
    folder: TempDir,
    notifications: UnixDatagram,
}

impl Installation {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notifications = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notifications.set_read_timeout(Some(TIMEOUT)).unwrap();
        let installation = Self {
            folder,
            notifications,
        };
        installation.configure(config);
        installation
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, config: &str) {
        fs::write(self.at("playgate.toml"), config).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = playgate(&self.at("data"));
        command
            .arg("--config")
            .arg(self.at("playgate.toml"))
            .env_remove("PLAYGATE_OPS_LISTEN")
            .env("NOTIFY_SOCKET", self.at("notify"))
            .env("PLAYGATE_LOG_LEVEL", "info")
            .env("PLAYGATE_LOG_FORMAT", "text")
            .stderr(self.log_file());
        command
    }

    fn log_file(&self) -> fs::File {
        let mut options = fs::File::options();
        options.create(true).append(true);
        options.open(self.at("log")).unwrap()
    }

    fn serve(&self) -> Appliance {
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        Appliance::run(&self.at("data"), command)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap()
    }

    /// Takes a notification that has arrived already.
    fn has_notification(&self) -> bool {
        self.notifications.set_nonblocking(true).unwrap();
        let received = self.notifications.recv(&mut [0; 4096]).is_ok();
        self.notifications.set_nonblocking(false).unwrap();
        received
    }

    /// Like [`Self::wait_for_notification`], and acts every few milliseconds meanwhile.
    fn wait_for_notification_while(&self, wanted: &str, act: impl Fn()) {
        let interval = Duration::from_millis(5);
        self.notifications.set_read_timeout(Some(interval)).unwrap();
        let mut message = [0; 4096];
        until(wanted, || {
            act();
            let received = self.notifications.recv(&mut message);
            received
                .is_ok_and(|length| String::from_utf8_lossy(&message[..length]).contains(wanted))
        });
        self.notifications.set_read_timeout(Some(TIMEOUT)).unwrap();
    }

    /// Waits for a notification that contains `wanted`, skips others, and returns it.
    fn wait_for_notification(&self, wanted: &str) -> String {
        let began = Instant::now();
        let mut message = [0; 4096];
        while began.elapsed() < TIMEOUT {
            let length = self.notifications.recv(&mut message).expect(wanted);
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            if text.contains(wanted) {
                return text;
            }
        }
        panic!("no notification with: {wanted}");
    }
}

/// Signs up with a password of twelve characters and returns the status.
fn sign_up_status(address: SocketAddr, partner: &str, who: &str) -> u16 {
    let body = format!(r#"{{"identity":"{who}@example.com","accessKey":"twelve marks"}}"#);
    let headers = [("Service-AccessToken", partner)];
    ask(
        address,
        request("PUT", "/api/login/v2/auth/email", &headers, &body),
    )
    .status
}

#[test]
fn a_reload_applies_settings_without_refusing_requests() {
    let installation = Installation::new(OPS);
    let mut appliance = installation.serve();
    let address = appliance.address;
    installation.wait_for_notification("READY=1");
    let (partner, bearer) = sign_up(&appliance);
    assert_eq!(sign_up_status(address, &partner, "before"), 200);

    let stopping = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let visitors: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut served = 0;
                    while !stopping.load(Ordering::Relaxed) {
                        // Each request opens its own connection.
                        let answer = ask(address, request("GET", "/openapi.json", &[], ""));
                        assert_eq!(answer.status, 200);
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        let stop = StopOnDrop(&stopping);
        for length in [13, 12] {
            installation.configure(&format!("{OPS}accounts.password_min = {length}\n"));
            assert!(signal(appliance.process.id(), Signal::HUP));
            let reloading = installation.wait_for_notification("RELOADING=1");
            assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
            installation.wait_for_notification("READY=1");
            appliance.wait_for_reexec();
            assert_eq!(appliance.address, address);
            let wanted = if length == 13 { 400 } else { 200 };
            let who = format!("after{length}");
            assert_eq!(sign_up_status(address, &partner, &who), wanted);
        }
        drop(stop);
        visitors
            .into_iter()
            .map(|visitor| visitor.join().unwrap())
            .sum::<u32>()
    });
    assert!(served > 2, "{served}");
    let headers = [
        ("Service-AccessToken", partner.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let sessions = appliance.ask("GET", "/api/user/v1/users/me/sessions", &headers, "");
    // The token is still valid, and `me` is no id of a user. An unknown token would be answered 401.
    assert_eq!(sessions.status, 404);
}

/// Otherwise the last figures are lost, and the next start has to replay commits.
#[test]
fn a_reload_and_a_stop_close_the_store() {
    let installation = Installation::new(OPS);
    let mut command = installation.command();
    command
        .env("PLAYGATE_LOG_LEVEL", "debug")
        .args(["serve", "--listen", "127.0.0.1:0"]);
    let mut appliance = Appliance::run(&installation.at("data"), command);
    installation.wait_for_notification("READY=1");
    sign_up(&appliance);
    let closed = || installation.log().matches("store closed").count();
    assert_eq!(closed(), 0);
    assert!(signal(appliance.process.id(), Signal::HUP));
    installation.wait_for_notification("RELOADING=1");
    installation.wait_for_notification("READY=1");
    assert_eq!(closed(), 1);
    appliance.end();
    assert_eq!(closed(), 2);
}

#[test]
fn a_failing_reload_changes_nothing_and_is_reported() {
    let installation = Installation::new(OPS);
    let appliance = installation.serve();
    installation.wait_for_notification("READY=1");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let occupied = taken.local_addr().unwrap();
    let mistakes = [
        ("accounts.password_mim = 12\nlimits.connections = \"many\"\n".to_owned(), ["password_min", "limits.connections"]),
        ("tls.listen = [\"127.0.0.1:0\"]\ntls.cert = \"/no/such.pem\"\ntls.key = \"/no/such.key\"\n".to_owned(), ["/no/such.pem", "No such file"]),
        (format!("ops.listen = \"{occupied}\"\n"), ["ops.listen", "in use"]),
        ("[ops\n".to_owned(), ["playgate.toml:1", "expected `]`"]),
    ];
    for (config, words) in mistakes {
        installation.configure(&config);
        let before = installation.log().len();
        assert!(signal(appliance.process.id(), Signal::HUP));
        installation.wait_for_notification("RELOADING=1");
        let message = installation.wait_for_notification("READY=1");
        assert!(message.contains("a reload was rejected"), "{message}");
        let log = installation.log();
        for word in words {
            assert!(log[before..].contains(word), "{word}: {}", &log[before..]);
        }
        assert_eq!(appliance.ask("GET", "/openapi.json", &[], "").status, 200);
    }
}

/// Returns the paths below the folder and the number of open descriptors.
fn files_and_descriptors(
    installation: &Installation,
    appliance: &Appliance,
) -> (Vec<String>, usize) {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.display().to_string());
            // The segments of the store's log are removed by checkpoints, and those of the journal by age.
            if path.is_dir() && !path.ends_with("store") && !path.ends_with("journal") {
                walk(&path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(installation.folder.path(), &mut found);
    found.sort();
    let open = format!("/proc/{}/fd", appliance.process.id());
    (found, fs::read_dir(open).unwrap().count())
}

#[test]
fn repeated_reexecs_leak_nothing() {
    // Set `PLAYGATE_RESTARTS=1000` for the long form.
    let rounds = std::env::var_os("PLAYGATE_RESTARTS");
    let rounds = rounds.map_or(8, |text| text.to_str().unwrap().parse().unwrap());
    let installation = Installation::new(&format!("{OPS}limits.sign_up_per_address = 100000\n"));
    let mut appliance = installation.serve();
    installation.wait_for_notification("READY=1");
    let (partner, _) = sign_up(&appliance);
    let log = installation.at("data/store/log");
    let mut first = None;
    for round in 0..rounds {
        assert!(signal(appliance.process.id(), Signal::HUP));
        installation.wait_for_notification("RELOADING=1");
        installation.wait_for_notification("READY=1");
        appliance.wait_for_reexec();
        let who = format!("round{round}");
        assert_eq!(sign_up_status(appliance.address, &partner, &who), 200);
        // Segments have 4 MiB: 16 MiB until a checkpoint, those written during it, and the next one.
        assert!(fs::read_dir(&log).unwrap().count() <= 8, "round {round}");
        let name = format!("/proc/{}/comm", appliance.process.id());
        assert_eq!(fs::read_to_string(name).unwrap(), "playgate\n");
        // The first round creates files that every later one finds.
        let (paths, open) = files_and_descriptors(&installation, &appliance);
        let (first_paths, first_open) = first.get_or_insert_with(|| (paths.clone(), open));
        assert_eq!(*first_paths, paths, "round {round}");
        // Threads open and close files of their own. A socket leaked in each round would exceed the margin.
        assert!(open <= *first_open + 6, "round {round}: {open}");
    }
    assert!(signal(appliance.process.id(), Signal::TERM));
    assert!(appliance.process.status_in_time().success());
}

/// Wraps a command so that it inherits sockets from descriptor 3 on. A shell sets `LISTEN_PID`, because only the
/// process itself knows its id. The caller keeps the handles open until the process has started.
fn passing(command: &Command, sockets: &[(&str, &dyn AsFd)]) -> (Command, Vec<OwnedFd>) {
    let mut launcher = Command::new("bash");
    let handles: Vec<OwnedFd> = sockets
        .iter()
        .map(|(_, socket)| {
            // Above the descriptors that they are moved to.
            let handle = fcntl_dupfd_cloexec(socket.as_fd(), 100).unwrap();
            fcntl_setfd(&handle, FdFlags::empty()).unwrap();
            handle
        })
        .collect();
    let moves: String = (3..)
        .zip(&handles)
        .map(|(to, from)| format!("exec {to}<&{0} {0}<&-; ", from.as_raw_fd()))
        .collect();
    let names: Vec<_> = sockets.iter().map(|(name, _)| *name).collect();
    launcher
        .arg("-c")
        .arg(format!("{moves} LISTEN_PID=$$ exec \"$0\" \"$@\""))
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => launcher.env(name, value),
            None => launcher.env_remove(name),
        };
    }
    launcher
        .env("LISTEN_FDS", sockets.len().to_string())
        .env("LISTEN_FDNAMES", names.join(":"));
    (launcher, handles)
}

#[test]
fn inherited_sockets_survive_the_process() {
    let installation =
        Installation::new("listen = [\"socket:web\"]\nops.listen = \"socket:ops\"\n");
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = UnixListener::bind(installation.at("web.sock")).unwrap();
    let ops = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = || {
        let mut command = installation.command();
        command.arg("serve");
        let (mut command, _handles) =
            passing(&command, &[("web", &web), ("ops", &ops), ("web", &local)]);
        command.stderr(installation.log_file());
        Appliance::run(&installation.at("data"), command)
    };
    let description = request("GET", "/openapi.json", &[], "");
    let mut appliance = start();
    assert_eq!(appliance.address, web.local_addr().unwrap());
    for round in 0..2 {
        installation.wait_for_notification("READY=1");
        assert_eq!(ask(appliance.address, &description).status, 200);
        let mut local = Wire::to_socket(&installation.at("web.sock")).unwrap();
        assert_eq!(local.send(&description).answer().unwrap().status, 200);
        let live = ask(ops.local_addr().unwrap(), request("GET", "/livez", &[], ""));
        assert_eq!(live.status, 200);
        if round == 0 {
            assert!(signal(appliance.process.id(), Signal::HUP));
            appliance.wait_for_reexec();
        }
    }
    assert!(signal(appliance.process.id(), Signal::TERM));
    installation.wait_for_notification("STOPPING=1");
    assert!(appliance.process.status_in_time().success());

    // With no process running, the kernel queues the connection instead of refusing it.
    let mut early = Wire::to(web.local_addr().unwrap());
    early.send(&description);
    let _next = start();
    assert_eq!(early.answer().unwrap().status, 200);
}

#[test]
fn unusable_inherited_sockets_are_rejected() {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let connected = std::net::TcpStream::connect(listening.local_addr().unwrap()).unwrap();
    let web: &[(&str, &dyn AsFd)] = &[("web", &listening)];
    let cases: [(&str, &[(&str, &dyn AsFd)], &str); 4] = [
        ("socket:http", &[], "the service manager passed no sockets"),
        (
            "socket:http",
            web,
            "no such socket was passed; available: web",
        ),
        (
            "socket:web",
            &[("web", &datagrams)],
            "`web` is not a listening stream socket",
        ),
        (
            "socket:web",
            &[("web", &connected)],
            "`web` is not a listening stream socket",
        ),
    ];
    for (listen, sockets, words) in cases {
        let installation = Installation::new(OPS);
        let mut command = installation.command();
        command.args(["serve", "--listen", listen]);
        let (mut command, _handles) = passing(&command, sockets);
        let output = command.output_in_time();
        assert!(!output.status.success());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(words), "{stderr}");
    }
}

/// Between two programs, a command must neither take the store nor fail.
#[test]
fn commands_beside_reloads_reach_the_server() {
    let installation = Installation::new(OPS);
    let mut appliance = installation.serve();
    installation.wait_for_notification("READY=1");
    let data = installation.at("data");
    let stopping = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let callers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut served = 0;
                    while !stopping.load(Ordering::Relaxed) {
                        let listed = playgate(&data).args(["partner", "list"]).output_in_time();
                        assert!(listed.status.success(), "{listed:?}");
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        let stop = StopOnDrop(&stopping);
        for _ in 0..5 {
            assert!(signal(appliance.process.id(), Signal::HUP));
            installation.wait_for_notification("RELOADING=1");
            installation.wait_for_notification("READY=1");
            appliance.wait_for_reexec();
        }
        drop(stop);
        let served = callers.into_iter().map(|caller| caller.join().unwrap());
        served.sum::<u32>()
    });
    assert!(served > 2, "{served}");
    let log = installation.log();
    assert!(!log.contains("another process"), "{log}");
    appliance.end();
}

#[test]
fn a_start_waits_for_a_command_that_has_the_store_open() {
    let installation = Installation::new(OPS);
    fs::create_dir(installation.at("data")).unwrap();
    let lock = fs::File::create(installation.at("data/lock")).unwrap();
    lock.lock().unwrap();
    let start = || {
        let mut command = installation.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        KilledOnDrop(command.stdout(Stdio::null()).spawn().unwrap())
    };
    // A stop does not have to wait for the command.
    for stops in [true, false] {
        let mut server = start();
        let waiting = installation.wait_for_notification("waiting: another process");
        assert!(waiting.contains("EXTEND_TIMEOUT_USEC="), "{waiting}");
        if !stops {
            lock.unlock().unwrap();
            installation.wait_for_notification("READY=1");
        }
        assert!(signal(server.id(), Signal::TERM));
        assert!(server.status_in_time().success());
    }
}

#[test]
fn a_stop_that_comes_during_a_reload_is_honoured() {
    let installation = Installation::new(OPS);
    for moment in ["RELOADING=1", "WATCHDOG_USEC=", "opening the store"] {
        let mut command = installation.command();
        command
            .env("WATCHDOG_USEC", "60000000")
            .args(["serve", "--listen", "127.0.0.1:0"]);
        let mut appliance = Appliance::run(&installation.at("data"), command);
        installation.wait_for_notification("READY=1");
        assert!(signal(appliance.process.id(), Signal::HUP));
        installation.wait_for_notification("RELOADING=1");
        if moment != "RELOADING=1" {
            installation.wait_for_notification(moment);
        }
        // Once more: neither of them may get lost.
        let _ = signal(appliance.process.id(), Signal::HUP);
        appliance.end();
        // The next start must not take a notification of this one for its own.
        while installation.has_notification() {}
    }
}

#[test]
fn hang_ups_in_any_number_do_not_end_the_server() {
    let installation = Installation::new(OPS);
    let mut appliance = installation.serve();
    installation.wait_for_notification("READY=1");
    for _ in 0..5 {
        // The next ones arrive at every moment of the reload.
        installation.wait_for_notification_while("READY=1", || {
            assert!(signal(appliance.process.id(), Signal::HUP));
        });
    }
    let answer = appliance.ask("GET", "/openapi.json", &[], "");
    assert_eq!(answer.status, 200);
    appliance.end();
}
