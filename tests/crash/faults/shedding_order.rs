//! When disk space runs out, writes are rejected by priority: telemetry first, then new sessions, then changes. Logins
//! and heartbeats work until nothing is left.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, ftruncate, statvfs};
use serde_json::{Value, json};

use crate::harness::appliance::Launch;
use crate::harness::client::Connection;
use crate::harness::disk::Disk;
use crate::harness::rng::skip;
use crate::workload::{Client, PASSWORD, Stream, Workload, token};

const MIB: u64 = 1 << 20;
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// A file that takes all of the free space but a given part.
struct Filler(File);

impl Filler {
    fn new(folder: &Path) -> Self {
        Self(File::create(folder.join("filler")).unwrap())
    }

    fn leave(&self, folder: &Path, free: u64) {
        ftruncate(&self.0, 0).unwrap();
        let stat = statvfs(folder).unwrap();
        let size = (stat.f_bavail * stat.f_frsize).saturating_sub(free);
        fallocate(&self.0, FallocateFlags::empty(), 0, size).unwrap();
    }
}

/// A viewer with a running session.
struct Viewer {
    client: Client,
    operator: String,
    stream: Stream,
    line: Connection,
    events: i64,
}

impl Viewer {
    fn new(workload: &Workload, mut line: Connection) -> Self {
        let email = "full@example.com";
        let client = Client::sign_up(&workload.keys, &mut line, email).unwrap();
        let entitlement = token(&client.entitle(&mut line).unwrap());
        let preflight = client.preflight(&mut line, &entitlement, "tv").unwrap();
        Self {
            client,
            operator: workload.keys.operator.clone(),
            stream: Stream::from_preflight(&preflight, &entitlement, "tv"),
            line,
            events: 0,
        }
    }

    fn post(&mut self, target: &str, headers: &[(&str, &str)], body: &Value) -> u16 {
        let answer = self
            .client
            .ask(&mut self.line, "POST", target, headers, body);
        answer.unwrap().status
    }

    fn telemetry(&mut self) -> u16 {
        self.events += 1;
        let event = json!([{
            "timestamp": 1_800_000_000, "action": "playback_position", "seqId": self.events,
            "context": {"device_id": "tv"},
        }]);
        self.post("/api/tracker/v1/telemetry-events", &[], &event)
    }

    fn session(&mut self) -> u16 {
        self.client.entitle(&mut self.line).unwrap().status
    }

    fn change(&mut self) -> u16 {
        let target = format!("/admin/v1/users/{}", self.client.id);
        let body = json!({"name": "Ann"});
        let answer = self.line.operate(&self.operator, "PUT", &target, &body);
        answer.unwrap().status
    }

    fn login(&mut self) -> u16 {
        let body = json!({"identity": "full@example.com", "accessKey": PASSWORD});
        self.post("/api/login/v2/auth/email", &[], &body)
    }

    fn beat(&mut self) -> u16 {
        let answer = self.client.beat(&mut self.line, &self.stream);
        answer.unwrap().status
    }

    /// Returns the statuses of telemetry, a new session, a change, a login and a heartbeat.
    fn all(&mut self) -> [u16; 5] {
        [
            self.telemetry(),
            self.session(),
            self.change(),
            self.login(),
            self.beat(),
        ]
    }
}

#[test]
fn telemetry_is_rejected_first_and_logins_last() {
    let disk = match Disk::ext4(256) {
        Ok(disk) => disk,
        Err(why) => return skip("the order of refusals", &why),
    };
    let launch = Launch::new(&disk.path().join("data"));
    let appliance = launch.ready();
    let workload = Workload::new(&launch, &appliance).unwrap();
    let mut viewer = Viewer::new(&workload, appliance.line());
    let filler = Filler::new(disk.path());
    // The disk has about 230 MiB: the first three limits are at 8, 4 and 2 per cent of it.
    for (free, expected, warning_text) in [
        (30 * MIB, [202, 200, 200, 200, 200], ""),
        (14 * MIB, [503, 200, 200, 200, 200], "telemetry is refused"),
        (
            7 * MIB,
            [503, 503, 200, 200, 200],
            "new playback sessions and telemetry are refused",
        ),
        (
            3 * MIB + MIB / 2,
            [503, 503, 503, 200, 200],
            "only log-ins are accepted",
        ),
        (60 * MIB, [202, 200, 200, 200, 200], ""),
    ] {
        filler.leave(disk.path(), free);
        let since = Instant::now();
        loop {
            let answers = viewer.all();
            if answers == expected {
                break;
            }
            let waited = since.elapsed();
            let log = || appliance.log();
            assert!(waited < NOTICED_WITHIN, "{free}: {answers:?}\n{}", log());
            thread::park_timeout(Duration::from_millis(600));
        }
        let (status, ready) = appliance.readiness().unwrap();
        let warning = ready["warnings"]["store"].as_str().unwrap_or_default();
        assert!(
            status == 200 && warning.contains(warning_text),
            "{free}: {ready}"
        );
        assert_eq!(
            warning.is_empty(),
            warning_text.is_empty(),
            "{free}: {ready}"
        );
    }
    drop(appliance);
}
