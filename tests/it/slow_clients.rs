//! Attacks by slowness on the built binary, while viewers go about their business: slow clients of our
//! own, and those of slowhttptest.
//!
//! `PLAYGATE_SIEGE=long` runs the long form, whose times are the promised ones; it says what it found
//! with `--nocapture`, and needs a release build.

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

/// How much of an attack is run.
struct Form {
    attackers: usize,
    quiet: Duration,
    siege: Duration,
    viewers: u8,
    /// Whether times are compared with the promised ones: nothing else runs.
    timed: bool,
    /// Attackers have machines of their own. Where times count they take what the server leaves of this
    /// one; otherwise all are alike, or they would get nothing beside other tests.
    nice: i32,
}

/// How much later than allowed a slow client may notice that it was closed: machines are busy, and
/// clients look once a second.
const SLACK: Duration = Duration::from_secs(8);
/// What a siege may add to the memory of the process, as a flood of logins may.
const MEMORY: u64 = 150 * 1024 * 1024;
/// The longest that the slowest of a hundred answers may take.
const SLOWEST: Duration = Duration::from_millis(100);

fn form() -> Form {
    let seconds = Duration::from_secs;
    if std::env::var_os("PLAYGATE_SIEGE").is_some_and(|form| form == "long") {
        return Form {
            attackers: 2_000,
            quiet: seconds(30),
            siege: seconds(60),
            viewers: 4,
            timed: true,
            nice: 19,
        };
    }
    Form {
        attackers: 400,
        quiet: seconds(3),
        siege: seconds(24),
        viewers: 3,
        timed: false,
        nice: 0,
    }
}

/// A server under siege.
struct Fort {
    server: Appliance,
    tls: SocketAddr,
    viewers: Vec<Viewer>,
    _data: TempDir,
    _keys: TempDir,
}

/// The most of what was seen of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    memory: u64,
    connections: u64,
    /// Hundredths of a second of computing, so far.
    worked: u64,
}

impl Fort {
    fn build(viewers: u8, settings: &[(&str, &str)]) -> Self {
        more_descriptors();
        let (data, keys) = (tempfile::tempdir().unwrap(), certificates());
        let file = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (file("here.pem"), file("here.key"));
        let ours = [
            ("PLAYGATE_TLS_CERT", certificate.as_str()),
            ("PLAYGATE_TLS_KEY", &key),
            ("PLAYGATE_TLS_LISTEN", "127.0.0.1:0"),
            // Logins cost what they do by default.
            ("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "19456"),
            ("PLAYGATE_ACCOUNTS_ARGON2_ITERATIONS", "2"),
        ];
        let settings = [&ours[..], settings].concat();
        let mut server = Appliance::with(data.path(), &settings);
        let tls = server.next_address();
        let scene = Scene::set(&server);
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
            server,
            tls,
            viewers,
            _data: data,
            _keys: keys,
        }
    }

    fn size(&self) -> Size {
        let id = self.server.process.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let memory = number(&status, "VmRSS:") * 1024;
        let connections = number(&self.server.metrics(), "playgate_http_connections ");
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        // The two numbers stand at a fixed place behind the name, which ends with the last bracket.
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
        let folder = format!("/proc/{}/fd", self.server.process.id());
        fs::read_dir(folder).unwrap().count()
    }

    /// Looks once a second for so long. The most there was.
    fn look(&self, time: Duration) -> Size {
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

    /// What is to be so whatever is done to it, and how viewers fared.
    fn withstands<A, T>(
        &self,
        form: &Form,
        begin: impl FnOnce() -> A,
        end: impl FnOnce(A) -> T,
    ) -> (Size, T) {
        let began = self.size().worked;
        let (quiet, before) = watch(&self.viewers, || self.look(form.quiet));
        let descriptors = self.descriptors();
        let attack = begin();
        let (siege, most) = watch(&self.viewers, || self.look(form.siege));
        let told = end(attack);
        println!("before: {}\nduring: {}", shown(&quiet), shown(&siege));
        let share = |worked: u64, time: Duration| worked / time.as_secs();
        println!(
            "before: {before:?}, {}% of a core",
            share(before.worked - began, form.quiet)
        );
        println!(
            "during: {most:?}, {}% of a core",
            share(most.worked - before.worked, form.siege)
        );
        assert_eq!(quiet.wrong, [""; 0]);
        assert_eq!(siege.wrong, [""; 0]);
        assert!(most.memory < before.memory + MEMORY, "{before:?} {most:?}");
        if form.timed {
            let goal = |quiet: &[Duration], siege: &[Duration]| {
                let (quiet, siege) = (percentile(quiet, 99), percentile(siege, 99));
                assert!(siege <= quiet * 2 && siege < SLOWEST, "{quiet:?} {siege:?}");
            };
            goal(&quiet.others, &siege.others);
            // With the log-ins among them, one in eight. By themselves they are told and not judged: threads
            // that hash step back behind everything else on the machine, the attackers' own work included.
            goal(&quiet.all(), &siege.all());
        }
        self.is_left(descriptors);
        (most, told)
    }

    /// Waits until it has about as many descriptors as before. Just after a start its reserve of twelve is not filled yet.
    fn is_left(&self, descriptors: usize) {
        let began = Instant::now();
        while self.descriptors() > descriptors + 16 {
            assert!(began.elapsed() < Duration::from_secs(40), "descriptors");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

/// The number behind a name at the beginning of a line.
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

/// As many as the machine allows, for the server that is started too.
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
    let form = form();
    let fort = Fort::build(form.viewers, &[]);
    let doors = (fort.server.address, fort.tls);
    let begin = || Attack::begin(form.attackers, form.nice, &SlowClient::ALL, doors);
    let (most, toll) = fort.withstands(&form, begin, Attack::end);
    println!("refused: {}\nclosed: {:?}", toll.refused, toll.held);
    for way in SlowClient::ALL {
        let (closed, longest) = toll.held[&way];
        assert!(longest < way.allowed() + SLACK, "{way:?}: {longest:?}");
        let had_time = form.siege > way.allowed() + SLACK;
        assert!(closed > 0 || !had_time, "{way:?}");
    }
    // The first address has more attackers than it may have connections; the others had room.
    assert!(toll.refused > 0);
    let attackers = form.attackers as u64;
    assert!((attackers - 100..attackers).contains(&most.connections));
}

#[test]
fn over_the_connection_cap_viewers_are_refused_until_connections_close() {
    let (cap, attackers) = if form().timed {
        (10_000, 12_000)
    } else {
        (100, 120)
    };
    let most = cap.to_string();
    let settings = [
        ("PLAYGATE_LIMITS_CONNECTIONS", most.as_str()),
        ("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", &most),
    ];
    let fort = Fort::build(2, &settings);
    let descriptors = fort.descriptors();
    let doors = (fort.server.address, fort.tls);
    let attack = Attack::begin(attackers, 0, &[SlowClient::Silent], doors);
    // They come one a millisecond.
    let time = Duration::from_millis(attackers as u64) + Duration::from_secs(3);
    let (siege, most) = watch(&fort.viewers, || fort.look(time));
    let toll = attack.end();
    println!(
        "refused: {}, {most:?}\nduring: {}",
        toll.refused,
        shown(&siege)
    );
    // The tests of a siege can fail: these viewers were not served.
    assert!(siege.wrong.iter().any(|why| why.contains(": 503 ")));
    assert!(toll.refused > 0 && most.connections <= cap, "{most:?}");
    fort.is_left(descriptors);
    let (after, ()) = watch(&fort.viewers, || {
        std::thread::park_timeout(Duration::from_secs(1));
    });
    assert_eq!(after.wrong, [""; 0]);
}

/// The four attacks of slowhttptest, with what each needs to hurt.
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
    let form = form();
    // They all come from one address.
    let settings = [("PLAYGATE_LIMITS_CONNECTIONS_PER_ADDRESS", "4000")];
    let fort = Fort::build(form.viewers, &settings);
    let count = form.attackers / MODES.len();
    let begin = || {
        MODES.map(|(mode, path, more)| {
            // As the other attackers.
            Command::new("nice")
                .args(["-n", &form.nice.to_string()])
                .arg(&program)
                .args([
                    mode,
                    "-c",
                    &count.to_string(),
                    "-r",
                    &(count / 2).to_string(),
                ])
                .args(["-l", &form.siege.as_secs().to_string(), "-v", "1"])
                .args(["-u", &format!("http://{}/{path}", fort.server.address)])
                .args(more)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
    };
    let end = |attacks: [Child; 4]| attacks.map(|mut attack| attack.output_in_time());
    let (_, told) = fort.withstands(&form, begin, end);
    for ((mode, ..), output) in MODES.iter().zip(told) {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, status) = said.rsplit_once("slow HTTP test status").unwrap();
        let status = plain(status);
        println!("slowhttptest {mode}: {status}");
        assert!(
            status.contains("service available: YES"),
            "{mode}: {status}"
        );
        // Who reads slowly does read, and is bounded by the cap on connections alone.
        let gone = status.contains("No open connections left");
        assert!(gone || *mode == "-X", "{mode}: {status}");
    }
}

/// A text for terminals without its colours and columns.
fn plain(text: &str) -> String {
    let pieces = text.split('\x1b').map(|piece| match piece.split_once('m') {
        Some((code, rest)) if code.starts_with('[') => rest,
        _ => piece,
    });
    let plain: String = pieces.collect();
    let words: Vec<_> = plain.split_whitespace().collect();
    words.join(" ")
}
