//! Programs of Debian packages: finds them, starts servers, and stops them with the test.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::process::{InTime as _, KilledOnDrop};

/// Reports that a test cannot run here, which is a failure where `CI` is `true`.
pub fn skip(why: &str) {
    let required = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!required, "{why}");
    eprintln!("skipped: {why}");
}

/// Finds libfaketime, which moves the wall clock of a process. `None` if it is absent, which fails the test where `CI`
/// is `true`.
pub fn faketime_library() -> Option<String> {
    let name = "faketime/libfaketimeMT.so.1";
    // The name of the folder depends on the processor.
    let triplets = fs::read_dir("/usr/lib").unwrap();
    let mut paths = triplets.map(|entry| entry.unwrap().path().join(name));
    let library = paths.find(|path| path.is_file());
    if library.is_none() {
        skip(&format!("{name} is absent"));
    }
    library.map(|path| path.to_str().unwrap().to_owned())
}

/// Finds a program in `PATH` or where Debian puts servers. `None` if it is absent, which fails the test where `CI` is
/// `true`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        skip(&format!("{name} is absent"));
    }
    found
}

/// Reads a file of `packaging/` and replaces the examples in it, each of which must occur.
pub fn packaged(name: &str, examples: &[(&str, &str)]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    let mut text = fs::read_to_string(folder.join(name)).unwrap();
    for (from, to) in examples {
        assert!(text.contains(from), "{from} in {name}");
        text = text.replace(from, to);
    }
    text
}

/// A running nginx or HAProxy, killed on drop.
pub struct ExternalProxy {
    process: KilledOnDrop,
    folder: TempDir,
}

impl ExternalProxy {
    /// Starts nginx with `site` in its `http` block, which must listen at `address`.
    pub fn nginx(program: &Path, site: &str, address: SocketAddr) -> Self {
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {kind};\n"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid pid; error_log stderr warn; events {{}}\n\
             http {{ access_log off;\n{temporary}{site} }}\n"
        );
        let mut command = Command::new(program);
        command.args(["-e", "stderr", "-c", "config", "-p"]);
        Self::start(command, &config, address)
    }

    /// Starts HAProxy with a configuration that must listen at `address`.
    pub fn haproxy(program: &Path, config: &str, address: SocketAddr) -> Self {
        let mut command = Command::new(program);
        command.args(["-db", "-f", "config", "-C"]);
        Self::start(command, config, address)
    }

    /// Starts a program whose last argument is the folder of its configuration, and waits until it listens.
    fn start(mut command: Command, config: &str, address: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config"), config).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = command
            .arg(folder.path())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut proxy = Self {
            process: KilledOnDrop(child),
            folder,
        };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = proxy.process.try_wait().unwrap().is_some();
            let soon = began.elapsed() < Duration::from_secs(20);
            assert!(!ended && soon, "{command:?}: {}", proxy.log());
            std::thread::park_timeout(Duration::from_millis(10));
        }
        proxy
    }

    /// Returns its standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

/// Finds a Python with a module of a Debian package: Debian's Python or that of a virtual environment.
pub fn python_with(module: &str, package: &str) -> Option<&'static str> {
    let has = |python: &&str| {
        let check = Command::new(python)
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .spawn();
        check.is_ok_and(|mut check| check.status_in_time().success())
    };
    let found = ["/usr/bin/python3", "python3"].into_iter().find(has);
    if found.is_none() {
        skip(&format!("no Python has {module} ({package})"));
    }
    found
}

/// Returns a port that is free now, and that this process returns once. The kernel chooses ports above this range, so no
/// other test gets it by chance before the program under test listens.
pub fn free_port() -> u16 {
    const PORTS: RangeInclusive<u16> = 10_000..=29_999;
    static RETURNED: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end() - PORTS.start()) + 1;
    // Test processes that run at the same time search from distant ports.
    let first = std::process::id().wrapping_mul(997);
    loop {
        let next = RETURNED.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start() + u16::try_from(first.wrapping_add(next) % count).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
