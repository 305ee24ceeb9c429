//! Jumps of the system clock: what had expired stays expired, what is issued afterwards works, and an untrusted time
//! deletes nothing. libfaketime moves the clock that the real process reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::external_tools::faketime_library;
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::process::InTime as _;
use crate::support::server::{PASSWORD, token_in};
use crate::support::synthetic_guide::SyntheticGuide;
use crate::support::until::until;

const DAY: i64 = 86_400;
/// Jobs run for the first time ten seconds after a start.
const FIRST_RUN: Duration = Duration::from_secs(12);

/// The wall clock of a process, which libfaketime reads from a file.
struct FakeClock {
    library: String,
    file: PathBuf,
}

impl FakeClock {
    /// Returns `None` if libfaketime is missing, which fails the test in CI.
    fn new(folder: &Path) -> Option<Self> {
        let clock = Self {
            library: faketime_library()?,
            file: folder.join("faketime"),
        };
        clock.set(0);
        Some(clock)
    }

    /// Sets the offset from the real time in days, also for a running process.
    fn set(&self, days: i64) {
        let new_file = self.file.with_extension("new");
        fs::write(&new_file, format!("{days:+}d\n")).unwrap();
        fs::rename(new_file, &self.file).unwrap();
    }

    /// Starts a server with this clock. Its timers are not affected.
    fn serve(&self, data: &Path) -> Appliance {
        let settings = [
            ("LD_PRELOAD", self.library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
            ("PLAYGATE_LOG_LEVEL", "info"),
            ("PLAYGATE_LOG_FORMAT", "text"),
        ];
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.log());
        Appliance::with_log(data, &settings, Stdio::from(log.unwrap()))
    }

    fn log(&self) -> PathBuf {
        self.file.with_extension("log")
    }
}

/// Returns the status of a request that needs the user's token.
fn reads_itself(appliance: &Appliance, (partner, bearer): &(String, String)) -> u16 {
    let headers = [
        ("Service-AccessToken", partner.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let target = "/api/catalog/v1/livestreams";
    let any = appliance.ask("GET", target, &headers, "");
    assert_eq!(any.status, 200);
    // Any other user's id is 404 after the token has been checked, so no id has to be known.
    let target = "/api/user/v1/users/AAAAAAAAAAAAAAAAAAAAAA";
    appliance.ask("GET", target, &headers, "").status
}

/// The status of [`reads_itself`] with a valid token.
const GOOD: u16 = 404;

fn log_in(appliance: &Appliance, partner: &str) -> (String, String) {
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD}).to_string();
    let headers = [("Service-AccessToken", partner)];
    let answer = appliance.ask("POST", "/api/login/v2/auth/email", &headers, &body);
    assert_eq!(answer.status, 200);
    let token = answer.json()["token"].as_str().unwrap().to_owned();
    (partner.to_owned(), format!("Bearer {token}"))
}

fn clock_warning(appliance: &Appliance) -> String {
    let (_, text) = appliance.operator("GET", "/readyz", "");
    let body: Value = serde_json::from_str(&text).unwrap();
    body["warnings"]["clock"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn jobs_have_run(appliance: &Appliance) -> bool {
    let runs = "playgate_job_runs_total{task=\"playback-beats\"} ";
    let text = appliance.metrics();
    let count = text.lines().find_map(|line| line.strip_prefix(runs));
    count.is_some_and(|count| count != "0")
}

/// Returns the number of rows in three tables whose old rows are deleted.
fn rows(data: &Path) -> [usize; 3] {
    let output = playgate(data)
        .args(["store", "export", "-"])
        .output_in_time();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ["logins", "schedule_chunks", "telemetry_hours"].map(|table| {
        text.lines()
            .filter(|line| line.split('\t').next() == Some(table))
            .count()
    })
}

/// Creates a store with a login, a guide and telemetry.
#[expect(
    clippy::disallowed_methods,
    reason = "the guide must lie around the real present"
)]
fn fill(folder: &Path, data: &Path) -> (String, String) {
    let guide = folder.join("guide.xml");
    let now = i64::try_from(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    SyntheticGuide {
        channels: 2,
        programmes: 50,
        shift: 0,
        word: "a",
        first: now - DAY,
    }
    .write(&guide);
    let mut appliance = Appliance::start(data);
    appliance.run_ok(&[
        "epg",
        "import",
        "--create-livestreams",
        guide.to_str().unwrap(),
    ]);
    let tokens = sign_up(&appliance);
    let events = json!([{"timestamp": now, "action": "x", "seqId": 1}]).to_string();
    let headers = [
        ("Service-AccessToken", tokens.0.as_str()),
        ("Authorization", tokens.1.as_str()),
    ];
    let target = "/api/tracker/v1/telemetry-events";
    let answer = appliance.ask("POST", target, &headers, &events);
    assert_eq!(answer.status, 202, "{}", answer.json());
    appliance.end();
    tokens
}

#[test]
fn a_start_with_the_clock_400_days_ahead_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = FakeClock::new(folder.path()) else {
        return;
    };
    let data = folder.path().join("data");
    let tokens = fill(folder.path(), &data);
    let before = rows(&data);
    assert!(before.iter().all(|count| *count > 0), "{before:?}");

    clock.set(400);
    let mut appliance = clock.serve(&data);
    assert!(clock_warning(&appliance).contains("400 days ahead"));
    let began = Instant::now();
    until("tasks run", || {
        jobs_have_run(&appliance) && began.elapsed() > FIRST_RUN
    });
    assert_eq!(reads_itself(&appliance, &tokens), GOOD);
    let found = appliance.command(&["doctor"]).output_in_time();
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("playgate clock accept"), "{found}");
    appliance.kill();
    assert_eq!(rows(&data), before);

    // With the real time again, nothing has changed.
    clock.set(0);
    let mut appliance = clock.serve(&data);
    assert_eq!(reads_itself(&appliance, &tokens), GOOD);
    assert_eq!(clock_warning(&appliance), "");
    appliance.kill();

    // Control: once an operator accepts the time, the same start deletes all rows and logs that.
    clock.set(400);
    let mut appliance = clock.serve(&data);
    appliance.run_ok(&["clock", "accept"]);
    assert_eq!(clock_warning(&appliance), "");
    assert_eq!(reads_itself(&appliance, &tokens), 401);
    until("retention", || {
        let log = fs::read_to_string(clock.log()).unwrap();
        ["accounts", "schedule-retention", "telemetry-retention"]
            .iter()
            .all(|job| {
                log.lines().any(|line| {
                    line.contains("INFO") && line.contains(job) && line.contains("deleted=")
                })
            })
    });
    appliance.kill();
    assert_eq!(rows(&data), [0, 0, 0]);
}

#[test]
fn a_jump_of_a_running_server_expires_nothing_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = FakeClock::new(folder.path()) else {
        return;
    };
    let data = folder.path().join("data");
    let mut appliance = clock.serve(&data);
    let tokens = sign_up(&appliance);
    let wait_for_warning = |appliance: &Appliance, what: &str| {
        until(what, || clock_warning(appliance).contains(what));
    };
    for (days, what) in [
        (400, "jumped ahead by 400 days"),
        (0, "jumped back by 400 days"),
        (-300, "jumped back by 300 days"),
        (0, "jumped ahead by 300 days"),
    ] {
        clock.set(days);
        assert_eq!(reads_itself(&appliance, &tokens), GOOD, "{days}");
        wait_for_warning(&appliance, what);
        assert_eq!(reads_itself(&appliance, &tokens), GOOD, "{days}");
    }

    clock.set(400);
    wait_for_warning(&appliance, "jumped ahead by 400 days");
    appliance.run_ok(&["clock", "accept"]);
    assert_eq!(reads_itself(&appliance, &tokens), 401);
    // The clock goes back: what had expired stays expired, even after a kill, and a new login works.
    clock.set(0);
    assert_eq!(reads_itself(&appliance, &tokens), 401);
    wait_for_warning(&appliance, "jumped back by 400 days");
    assert_eq!(reads_itself(&appliance, &tokens), 401);
    let new = log_in(&appliance, &tokens.0);
    assert_eq!(reads_itself(&appliance, &new), GOOD);
    appliance.kill();
    let appliance = clock.serve(&data);
    assert_eq!(reads_itself(&appliance, &tokens), 401);
    assert_eq!(reads_itself(&appliance, &new), GOOD);
    // Control: the real time has not passed the expiry of the first token, so only the jump expired it.
    let log = fs::read_to_string(clock.log()).unwrap();
    assert!(log.contains("the clock jumped ahead by 400 days"), "{log}");
}

/// Returns the token of the newest mail, which an operator reads over the admin socket.
fn mailed_token(appliance: &Appliance) -> String {
    let read = |target: &str| {
        let (status, text) = appliance.operator("GET", target, "");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let mails = read("/admin/v1/mail");
    let id = mails[0]["id"].as_str().unwrap();
    let mail = read(&format!("/admin/v1/mail/{id}"));
    token_in(mail["text"].as_str().unwrap())
}

#[test]
fn an_expired_reset_token_stays_expired_when_the_clock_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = FakeClock::new(folder.path()) else {
        return;
    };
    let data = folder.path().join("data");
    let mut appliance = clock.serve(&data);
    let (partner, _) = sign_up(&appliance);
    let headers = [("Service-AccessToken", partner.as_str())];
    let request_reset = |appliance: &Appliance| {
        let body = json!({"email": "ann@example.com"}).to_string();
        let target = "/api/login/v2/password/send-reset-password";
        let answer = appliance.ask("POST", target, &headers, &body);
        assert_eq!(answer.status, 200, "{}", answer.json());
        mailed_token(appliance)
    };
    // Tries the route of clients and the page that the mail links to.
    let is_refused_with = |appliance: &Appliance, token: &str, password: &str| {
        let body = json!({"token": token, "password": password}).to_string();
        let target = "/api/login/v2/password/reset";
        let answer = appliance.ask("POST", target, &headers, &body);
        let page = appliance.ask("GET", &format!("/reset?token={token}"), &[], "");
        let page = String::from_utf8(page.body).unwrap();
        let (status, form) = (answer.status, page.contains("<form"));
        match (status, form) {
            (400, false) => answer.code() == "RESET_TOKEN_INVALID",
            // The request above has used the token.
            (200, false) => false,
            odd => panic!("{odd:?}"),
        }
    };
    let is_refused = |appliance: &Appliance, token: &str| {
        is_refused_with(appliance, token, "goats gruff and gruffer")
    };
    let old = request_reset(&appliance);
    clock.set(2);
    until("the clock is doubted", || {
        clock_warning(&appliance).contains("jumped ahead")
    });
    appliance.run_ok(&["clock", "accept"]);
    assert!(is_refused(&appliance, &old));
    clock.set(0);
    assert!(is_refused(&appliance, &old));
    until("the clock is doubted", || {
        clock_warning(&appliance).contains("jumped back")
    });
    assert!(is_refused(&appliance, &old));
    appliance.kill();
    let appliance = clock.serve(&data);
    assert!(is_refused(&appliance, &old), "after a kill");
    // A token that is mailed from now on works, once.
    let new = request_reset(&appliance);
    assert!(!is_refused(&appliance, &new));
    // With the same password the request counts as sent twice.
    assert!(is_refused_with(&appliance, &new, "another meadow path"));
}

#[test]
fn what_had_expired_stays_expired_when_the_clock_goes_back() {
    let fixture = PlaybackFixture::new();
    let old = fixture.ann.clone();
    let playing = fixture.play(&old, "film", "tv");
    let entitlement = fixture.token(&old, "film");
    let statuses = |viewer: &_, token: &str, playlist: &str| {
        // First: the preflight replaces the session of the device, whose playlist ends with it.
        let fetched = fixture.fetch(playlist, &[]).status;
        (
            fixture.entitle(viewer, "film", "").status,
            fixture.preflight(viewer, "film", token, &[]).status,
            fetched,
        )
    };
    // Control: before the clock moves everything is valid.
    assert_eq!(
        statuses(&old, &entitlement, &playing.playlist),
        (200, 200, 200)
    );
    fixture.server.wait(61 * DAY);
    assert_eq!(fixture.fetch(&playing.playlist, &[]).status, 403);
    let body = json!({"identity": "ann@example.com", "accessKey": PASSWORD});
    let log_in = || {
        let answer = fixture
            .server
            .partner("POST", "/api/login/v2/auth/email", &body);
        crate::support::server::viewer(&answer)
    };
    // The check that the clock job makes every second.
    let check_clock = || assert!(fixture.server.services.clock_guard.check().is_ok());
    check_clock();
    let later = log_in();
    assert_eq!(fixture.entitle(&old, "film", "").status, 401);
    fixture.server.wait(-61 * DAY);
    check_clock();
    assert_eq!(fixture.entitle(&old, "film", "").status, 401);
    assert_eq!(
        statuses(&later, &entitlement, &playing.playlist),
        (200, 403, 403)
    );
    // What is issued now is valid by the current clock.
    let new = log_in();
    let now = fixture.server.services.clock.now().0;
    let answer = fixture.entitle(&new, "film", "").json();
    assert_eq!(answer["expires"], now + DAY);
    let token = answer["token"].as_str().unwrap();
    let started = fixture.preflight(&new, "film", token, &[]);
    let player = crate::support::playback_fixture::player(&new, "tv", &started);
    assert_eq!(statuses(&new, token, &player.playlist), (200, 200, 200));
    let target = format!("/api/user/v1/users/{}/sessions", new.id);
    let sessions = fixture
        .server
        .user(&new.token, "GET", &target, &Value::Null)
        .json();
    let text = sessions.to_string();
    assert!(
        text.contains(&format!("\"createdTimestamp\":{now}")),
        "{text}"
    );
    assert!(
        text.contains(&format!("\"expires\":{}", now + 60 * DAY)),
        "{text}"
    );
}
