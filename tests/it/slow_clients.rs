//! Slow clients attack the built binary while viewers play: clients of these tests, and slowhttptest.
//!
//! `PLAYGATE_SLOW_CLIENTS=long` runs the long form, which checks response times. It needs a release build and prints its
//! results with `--nocapture`.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use crate::support::appliance::Appliance;
use crate::support::attackers::{Attack, SlowClient};
use crate::support::audience::{Scene, Tally, Viewer, percentile, watch};
use crate::support::certificates::certificates;
use crate::support::external_tools::program;
use crate::support::process::InTime as _;

/// The scale of an attack.
struct Scale {
    attackers: usize,
    before: Duration,
    during: Duration,
    viewers: u8,
    /// Checks response times. Nothing else may run on the machine.
    timed: bool,
    /// The priority of the attackers. Real attackers have machines of their own, so in the timed form they take only
    /// what the server leaves. Otherwise they have normal priority, or other tests would starve them.
    nice: i32,
}

/// How much later than allowed a slow client may see its connection closed: the machine is busy, and clients check once
/// a second.
const SLACK: Duration = Duration::from_secs(8);
/// How much memory an attack may add to the process, as a flood of logins may.
const MEMORY: u64 = 150 * 1024 * 1024;
/// The limit of the 99th percentile of response times.
const SLOWEST: Duration = Duration::from_millis(100);

fn scale() -> Scale {
    let seconds = Duration::from_secs;
    if std::env::var_os("PLAYGATE_SLOW_CLIENTS").is_some_and(|scale| scale == "long") {
        return Scale {
            attackers: 2_000,
            before: seconds(30),
            during: seconds(60),
            viewers: 4,
            timed: true,
            nice: 19,
        };
    }
    Scale {
        attackers: 400,
        before: seconds(3),
        during: seconds(24),
        viewers: 3,
        timed: false,
        nice: 0,
    }
}

/// A server under attack.
struct AttackedServer {
    appliance: Appliance,
    tls: SocketAddr,
    viewers: Vec<Viewer>,
    _data: TempDir,
    _keys: TempDir,
}

/// The maximum of what was measured in a process.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    memory: u64,
    connections: u64,
    /// Processor time so far, in hundredths of a second.
    worked: u64,
}

impl AttackedServer {
    fn build(viewers: u8, settings: &[(&str, &str)]) -> Self {
        more_descriptors();
        let (data, keys) = (tempfile::tempdir().unwrap(), certificates());
        let file = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (file("here.pem"), file("here.key"));
        let ours = [
            ("PLAYGATE_TLS_CERT", certificate.as_str()),
            ("PLAYGATE_TLS_KEY", &key),
            ("PLAYGATE_TLS_LISTEN", "127.0.0.1:0"),
            // Logins have their default cost.
            ("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "19456"),
            ("PLAYGATE_ACCOUNTS_ARGON2_ITERATIONS", "2"),
        ];
        let settings = [&ours[..], settings].concat();
        let mut server = Appliance::with(data.path(), &settings);
        let tls = server.next_address();
        let scene = Scene::install(&server);
        let viewers = (0..viewers)
            .map(|n| {
                let email = format!("viewer{n}@example.com");
                scene.sign_up(&server, &email);
                Viewer {
                    partner: scene.partner.clone(),
                    email,
                    from: [127, 0, 1, n + 1].into(),
                    to: server.address,
                }
            })
            .collect();
        Self {
            appliance: server,
            tls,
            viewers,
            _data: data,
            _keys: keys,
        }
    }

    fn size(&self) -> Size {
        let id = self.appliance.process.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let memory = number(&status, "VmRSS:") * 1024;
        let connections = number(&self.appliance.metrics(), "playgate_http_connections ");
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        // User and system time follow the name at a fixed position. The name ends with the last bracket.
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let numbers = rest.split_whitespace().skip(11).take(2);
        let worked = numbers.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Size {
            memory,
            connections,
            worked,
        }
    }

    fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.appliance.process.id());
        fs::read_dir(folder).unwrap().count()
    }

    /// Measures once a second for `time` and returns the maxima.
    fn measure(&self, time: Duration) -> Size {
        let until = Instant::now() + time;
        let mut most = Size::default();
        while Instant::now() < until {
            std::thread::park_timeout(Duration::from_secs(1));
            let now = self.size();
            most.memory = most.memory.max(now.memory);
            most.connections = most.connections.max(now.connections);
            most.worked = now.worked;
        }
        most
    }

    /// Checks what must hold under any attack. Returns the maxima and the result of `end`.
    fn check_attack<A, T>(
        &self,
        scale: &Scale,
        begin: impl FnOnce() -> A,
        end: impl FnOnce(A) -> T,
    ) -> (Size, T) {
        let began = self.size().worked;
        let (calm, before) = watch(&self.viewers, || self.measure(scale.before));
        let descriptors = self.descriptors();
        let attack = begin();
        let (attacked, most) = watch(&self.viewers, || self.measure(scale.during));
        let result = end(attack);
        println!("before: {}\nduring: {}", shown(&calm), shown(&attacked));
        let share = |worked: u64, time: Duration| worked / time.as_secs();
        println!(
            "before: {before:?}, {}% of a core",
            share(before.worked - began, scale.before)
        );
        println!(
            "during: {most:?}, {}% of a core",
            share(most.worked - before.worked, scale.during)
        );
        assert_eq!(calm.wrong, [""; 0]);
        assert_eq!(attacked.wrong, [""; 0]);
        assert!(most.memory < before.memory + MEMORY, "{before:?} {most:?}");
        if scale.timed {
            let goal = |calm: &[Duration], attacked: &[Duration]| {
                let (calm, attacked) = (percentile(calm, 99), percentile(attacked, 99));
                assert!(
                    attacked <= calm * 2 && attacked < SLOWEST,
                    "{calm:?} {attacked:?}"
                );
            };
            goal(&calm.others, &attacked.others);
            // One answer in eight is a log-in. Log-ins alone are printed and not checked, because hashing threads yield
            // to everything else on the machine, including the attackers.
            goal(&calm.all(), &attacked.all());
        }
        self.wait_for_descriptors(descriptors);
        (most, result)
    }

    /// Waits until the process has about as many descriptors as before. Its reserve of twelve may not be filled just
    /// after a start.
    fn wait_for_descriptors(&self, descriptors: usize) {
        let began = Instant::now();
        while self.descriptors() > descriptors + 16 {
            assert!(began.elapsed() < Duration::from_secs(40), "descriptors");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

/// Returns the number after a name at the beginning of a line.
fn number(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let digits = value.unwrap().trim().split(' ').next().unwrap();
    digits.parse().unwrap()
}

fn shown(tally: &Tally) -> String {
    let of = |what: &str, times: &[Duration]| {
        let [half, most, all] = [50, 99, 100].map(|hundredths| percentile(times, hundredths));
        let count = times.len();
        format!("{count} {what}: p50 {half:?}, p99 {most:?}, longest {all:?}")
    };
    let kinds = [
        of("answers", &tally.all()),
        of("log-ins among them", &tally.logins),
        of("others", &tally.others),
    ];
    format!("{}; {} visits failed", kinds.join("; "), tally.wrong.len())
}

/// Raises the limit of open files to the machine's maximum, for the server too, which inherits it.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[test]
fn slow_clients_are_closed_in_time_without_disturbing_others() {
    let scale = scale();
    let server = AttackedServer::build(scale.viewers, &[]);
    let listeners = (server.appliance.address, server.tls);
    let begin = || Attack::begin(scale.attackers, scale.nice, &SlowClient::ALL, listeners);
    let (most, cost) = server.check_attack(&scale, begin, Attack::end);
    println!("refused: {}\nclosed: {:?}", cost.refused, cost.held);
    for kind in SlowClient::ALL {
        let (closed, longest) = cost.held[&kind];
        assert!(longest < kind.allowed() + SLACK, "{kind:?}: {longest:?}");
        let had_time = scale.during > kind.allowed() + SLACK;
        assert!(closed > 0 || !had_time, "{kind:?}");
    }
    // The first address has more attackers than connections allowed. The others have room.
    assert!(cost.refused > 0);
    let attackers = scale.attackers as u64;
    assert!((attackers - 100..attackers).contains(&most.connections));
}

#[test]
fn over_the_connection_cap_viewers_are_refused_until_connections_close() {
    let (cap, attackers) = if scale().timed {
        (10_000, 12_000)
    } else {
        (100, 120)
    };
    let most = cap.to_string();
    let settings = [
        ("PLAYGATE_LIMITS_CONNECTIONS", most.as_str()),
        ("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", &most),
    ];
    let server = AttackedServer::build(2, &settings);
    let descriptors = server.descriptors();
    let listeners = (server.appliance.address, server.tls);
    let attack = Attack::begin(attackers, 0, &[SlowClient::Silent], listeners);
    // One attacker connects each millisecond.
    let time = Duration::from_millis(attackers as u64) + Duration::from_secs(3);
    let (attacked, most) = watch(&server.viewers, || server.measure(time));
    let cost = attack.end();
    println!(
        "refused: {}, {most:?}\nduring: {}",
        cost.refused,
        shown(&attacked)
    );
    // Control: viewers are disturbed here, so the check of an attack can fail.
    assert!(attacked.wrong.iter().any(|why| why.contains(": 503 ")));
    assert!(cost.refused > 0 && most.connections <= cap, "{most:?}");
    server.wait_for_descriptors(descriptors);
    let (after, ()) = watch(&server.viewers, || {
        std::thread::park_timeout(Duration::from_secs(1));
    });
    assert_eq!(after.wrong, [""; 0]);
}

/// The four attacks of slowhttptest, with the arguments that make each effective.
const MODES: [(&str, &str, &[&str]); 4] = [
    ("-H", "openapi.json", &["-i", "5", "-x", "24"]),
    ("-B", "reset", &["-i", "5", "-s", "8192", "-x", "8"]),
    ("-R", "openapi.json", &["-a", "1", "-b", "3000"]),
    (
        "-X",
        "openapi.json",
        &["-k", "10", "-w", "16", "-y", "64", "-n", "5", "-z", "32"],
    ),
];

#[test]
fn slowhttptest_attacks_do_not_disturb_viewers() {
    let Some(program) = program("slowhttptest") else {
        return;
    };
    let scale = scale();
    // All attackers share one address.
    let settings = [("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", "4000")];
    let server = AttackedServer::build(scale.viewers, &settings);
    let count = scale.attackers / MODES.len();
    let begin = || {
        MODES.map(|(mode, path, more)| {
            // With the priority of the other attackers.
            Command::new("nice")
                .args(["-n", &scale.nice.to_string()])
                .arg(&program)
                .args([
                    mode,
                    "-c",
                    &count.to_string(),
                    "-r",
                    &(count / 2).to_string(),
                ])
                .args(["-l", &scale.during.as_secs().to_string(), "-v", "1"])
                .args(["-u", &format!("http://{}/{path}", server.appliance.address)])
                .args(more)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
    };
    let end = |attacks: [Child; 4]| attacks.map(|mut attack| attack.output_in_time());
    let (_, outputs) = server.check_attack(&scale, begin, end);
    for ((mode, ..), output) in MODES.iter().zip(outputs) {
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, status) = printed.rsplit_once("slow HTTP test status").unwrap();
        let status = plain(status);
        println!("slowhttptest {mode}: {status}");
        assert!(
            status.contains("service available: YES"),
            "{mode}: {status}"
        );
        // A slow reader does read, so only the connection limits bound it.
        let gone = status.contains("No open connections left");
        assert!(gone || *mode == "-X", "{mode}: {status}");
    }
}

/// Removes colours and columns from terminal output.
fn plain(text: &str) -> String {
    let pieces = text.split('\x1b').map(|piece| match piece.split_once('m') {
        Some((code, rest)) if code.starts_with('[') => rest,
        _ => piece,
    });
    let plain: String = pieces.collect();
    let words: Vec<_> = plain.split_whitespace().collect();
    words.join(" ")
}
