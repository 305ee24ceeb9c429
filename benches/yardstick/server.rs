//! A measured server: a child process on core 0.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::{member, request, send_to};

/// Returns the measured program: the build of this run, or the one that `PLAYGATE_BENCH_BINARY` names.
pub fn playgate_binary() -> String {
    let built = option_env!("CARGO_BIN_EXE_playgate");
    std::env::var("PLAYGATE_BENCH_BINARY")
        .ok()
        .or_else(|| built.map(str::to_owned))
        .expect("PLAYGATE_BENCH_BINARY names a release build of playgate")
}

/// A running server. Dropping it kills the process.
pub struct Server {
    child: Child,
    /// The first line of its output.
    pub greeting: String,
}

impl Server {
    /// Starts a program on core 0 and waits for its first line.
    pub fn start(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new("taskset")
            .args(["-c", "0", program])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset of util-linux is installed");
        let mut greeting = String::new();
        let stdout = child.stdout.take().expect("the output is piped");
        BufReader::new(stdout)
            .read_line(&mut greeting)
            .expect("the server prints a line");
        Self { child, greeting }
    }

    /// Starts the demo as in production, with a standard partner: the demo's usual lab partner would write every
    /// request to the request journal, which costs several times as much.
    pub fn demo(settings: &[(&str, &str)]) -> Self {
        let production = [
            ("PLAYGATE_ENVIRONMENT", "production"),
            ("PLAYGATE_LOG_LEVEL", "warn"),
        ];
        Self::start(
            &playgate_binary(),
            &["demo", "--json", "--listen", "127.0.0.1:0"],
            &[&production, settings].concat(),
        )
    }

    /// Returns a member of the demo's JSON greeting.
    pub fn greeting_member(&self, name: &str) -> String {
        member(&self.greeting, name).expect("the demo prints it")
    }

    /// Sends a POST request to the admin interface of the demo as its operator.
    pub fn operate(&self, path: &str, body: &str) {
        let bearer = format!("Bearer {}", self.greeting_member("operatorToken"));
        let path = format!("/admin/v1/{path}");
        let post = request("POST", &path, &[("authorization", &bearer)], body);
        let ops = self.greeting_member("opsUrl");
        let answer = send_to(ops.trim_start_matches("http://"), &post);
        assert!(answer.status < 300, "{path}: {}", answer.text());
    }

    /// Starts a program on core 0 that prints nothing, and waits until it accepts connections.
    #[allow(dead_code, reason = "what comes of our build prints a line")]
    pub fn silent(program: &str, arguments: &[&str], address: &str) -> Self {
        const TIMEOUT: Duration = Duration::from_secs(10);
        let child = Command::new("taskset")
            .args(["-c", "0", program])
            .args(arguments)
            .spawn()
            .expect("taskset of util-linux is installed");
        let server = Self {
            child,
            greeting: format!("listening on http://{address}"),
        };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < TIMEOUT, "{program} does not accept");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Starts the bare server with a body of `length` bytes.
    pub fn bare(length: usize) -> Self {
        let program = std::env::current_exe().expect("the path of this program can be read");
        Self::start(
            &program.to_string_lossy(),
            &["--bare", &length.to_string()],
            &[],
        )
    }

    /// Returns `host:port` of the bare server or of `playgate serve`.
    pub fn address(&self) -> String {
        self.greeting
            .trim()
            .rsplit("//")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns the processor time of all threads so far.
    pub fn cpu(&self) -> Duration {
        self.cpu_of(|_| true)
    }

    /// Returns the processor time of the threads that make commits.
    pub fn cpu_of_commits(&self) -> Duration {
        self.cpu_of(|name| name.starts_with("store-") || name.starts_with("sled-"))
    }

    /// Returns the processor time of the thread that aggregates quality figures.
    pub fn cpu_of_quality(&self) -> Duration {
        self.cpu_of(|name| name.trim_end() == "quality")
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        kib.expect("a number") * 1024.0
    }

    fn cpu_of(&self, counts: impl Fn(&str) -> bool) -> Duration {
        let tasks =
            fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the server runs");
        let spent = |task: &Path| {
            let read = |name: &str| fs::read_to_string(task.join(name)).ok();
            let nanoseconds = read("schedstat")?.split(' ').next()?.parse::<u64>().ok()?;
            counts(&read("comm")?).then_some(nanoseconds)
        };
        let tasks = tasks.filter_map(|task| spent(&task.ok()?.path()));
        Duration::from_nanos(tasks.sum())
    }
}

/// Returns the processor time of the main thread of this process so far.
pub fn own_cpu() -> Duration {
    let line = fs::read_to_string("/proc/self/schedstat").expect("Linux tells");
    let time = line.split(' ').next().expect("three numbers");
    Duration::from_nanos(time.parse().expect("a number"))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
