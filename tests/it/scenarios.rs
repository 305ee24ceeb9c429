//! Runs each shipped lab scenario against an application that follows the interface, which must pass, and against one
//! that does not, which must fail.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::appliance::err;
use crate::support::demo::Demo;
use crate::support::process::{InTime as _, KilledOnDrop, Lines, signal};
use crate::support::raw_http::{Answer, Wire, request};

/// Above the rate limit of heartbeats and below the documented interval.
const BEAT: Duration = Duration::from_millis(700);
const HEARTBEAT: &str = "/api/playback/v1/heartbeat";
const EMAIL: &str = "demo@example.com";
const KEY: &str = r#"{"kids":["WtHA3gAAQACAAAAAAAAAAQ"],"type":"temporary"}"#;

#[expect(
    clippy::disallowed_methods,
    reason = "an application waits between two calls"
)]
fn nap(time: Duration) {
    thread::sleep(time);
}

impl Demo {
    /// Adds a lab partner with the demo's user and returns its access token.
    fn partner(&self, name: &str) -> String {
        let added = self.ok(&["partner", "add", name, "--lab", "--json"]);
        self.ok(&["lab", "reset", name, "--fixture", "demo", "--json"]);
        added["accessToken"].as_str().unwrap().to_owned()
    }

    /// Starts a scenario and waits until it listens.
    fn run(&self, partner: &str, scenario: &str) -> Run {
        let junit = self.file(&format!("{partner}.xml"));
        let mut command = self.command(&["lab", "run", scenario, "--partner", partner, "--wait"]);
        command.args(["--json", "--junit", junit.to_str().unwrap()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = KilledOnDrop(command.spawn().unwrap());
        let mut notes = Lines::read(process.stderr.take().unwrap());
        let waits = notes.any(|line| line.contains("waiting for the first request"));
        assert!(waits, "{scenario}");
        Run {
            process,
            notes,
            junit,
        }
    }
}

struct Run {
    process: KilledOnDrop,
    notes: Lines,
    junit: PathBuf,
}

struct Verdict {
    code: i32,
    report: Value,
    junit: String,
    notes: String,
}

impl Run {
    fn end(mut self) -> Verdict {
        let output = self.process.output_in_time();
        let notes: Vec<String> = self.notes.collect();
        Verdict {
            code: output.status.code().unwrap(),
            report: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            junit: fs::read_to_string(&self.junit).unwrap_or_default(),
            notes: notes.join("\n"),
        }
    }
}

/// An application that plays one asset.
struct App {
    address: SocketAddr,
    partner: String,
    asset: &'static str,
    /// Logs in again when its token is refused.
    renews: bool,
    user: String,
    playback: Vec<(String, String)>,
    over: Arc<AtomicBool>,
}

impl App {
    fn over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let bearer = format!("Bearer {}", self.user);
        let mut all = vec![("Service-AccessToken", self.partner.as_str())];
        if !self.user.is_empty() {
            all.push(("Authorization", bearer.as_str()));
        }
        all.extend_from_slice(headers);
        let mut wire = Wire::try_to(self.address)?;
        wire.send(request(method, target, &all, body));
        wire.try_answer_to(method).ok().flatten()
    }

    fn play_headers(&self) -> Vec<(&str, &str)> {
        let pairs = self.playback.iter();
        pairs
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    fn log_in(&mut self) {
        self.user.clear();
        let body = json!({"identity": EMAIL, "accessKey": "demo pass phrase"}).to_string();
        let answer = self.ask("POST", "/api/login/v2/auth/email", &[], &body);
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            self.user = answer.json()["token"].as_str().unwrap().to_owned();
        }
    }

    /// Returns status and token of an entitlement.
    fn entitle(&self, pin: bool) -> Option<(u16, String)> {
        let target = format!("/api/entitlement/v2/asset/{}", self.asset);
        let body = if pin { r#"{"pinCode": "2580"}"# } else { "" };
        let answer = self.ask("POST", &target, &[], body)?;
        let token = match answer.status {
            200 => answer.json()["token"].as_str().unwrap().to_owned(),
            _ => String::new(),
        };
        Some((answer.status, token))
    }

    /// Returns whether a session has begun.
    fn preflight(&mut self, entitlement: &str) -> bool {
        let playback_headers = [
            ("Service-Play-DRM", "clearkey"),
            ("Service-Play-Protocol", "dash"),
            ("Service-Play-DevicePlatform", "linux"),
            ("Service-Play-DeviceType", "tv"),
            ("Service-Play-DeviceModel", "Model"),
            ("Service-Play-DeviceId", "tv"),
        ];
        let target = format!("/api/playback/v2/preflight/asset/{}", self.asset);
        let headers = [
            playback_headers.as_slice(),
            &[("Service-Play-EntitlementId", entitlement)],
        ]
        .concat();
        let Some(answer) = self.ask("POST", &target, &headers, "") else {
            return false;
        };
        if answer.status != 200 {
            return false;
        }
        let headers = answer.json()["headers"].as_object().unwrap().clone();
        self.playback = headers
            .into_iter()
            .map(|(name, value)| (name, value.as_str().unwrap().to_owned()))
            .collect();
        for (name, value) in playback_headers {
            if !self.playback.iter().any(|(known, _)| known == name) {
                self.playback.push((name.to_owned(), value.to_owned()));
            }
        }
        true
    }

    /// Plays until the scenario ends or the interface ends playback.
    fn run(mut self) {
        while !self.over() && self.view() {
            nap(BEAT);
        }
    }

    /// Tries to play once. Returns whether to try again.
    fn view(&mut self) -> bool {
        if self.user.is_empty() {
            self.log_in();
        }
        let entitlement = match self.entitle(false) {
            Some((200, token)) => token,
            Some((404, _)) => return false,
            Some(_) | None => return true,
        };
        if !self.preflight(&entitlement) {
            return true;
        }
        while self.asset != "film-clear" && !self.over() {
            let headers = self.play_headers();
            let license = self.ask("POST", "/api/playback/v1/clearkey/license", &headers, KEY);
            if license.is_some_and(|license| license.status == 200) {
                break;
            }
            nap(BEAT);
        }
        while !self.over() {
            if !self.beat() {
                return false;
            }
            nap(BEAT);
        }
        false
    }

    /// Sends a heartbeat and follows its answer. Returns whether playback goes on.
    fn beat(&mut self) -> bool {
        let mut headers = self.play_headers();
        headers.extend([
            ("Service-Play-Timestamp", "1"),
            ("Service-Play-Bitrate", "2500000"),
            ("Service-Play-ResolutionWidth", "1280"),
            ("Service-Play-ResolutionHeight", "720"),
        ]);
        let Some(answer) = self.ask("POST", HEARTBEAT, &headers, "") else {
            return true;
        };
        match answer.status {
            401 if self.renews => self.log_in(),
            403 if answer.code() == "PIN_CODE_REQUIRED" => {
                if let Some((200, token)) = self.entitle(true) {
                    let name = "Service-Play-EntitlementId";
                    let of = |(known, _): &&mut (String, String)| known == name;
                    self.playback.iter_mut().find(of).unwrap().1 = token;
                }
            }
            200 | 401 | 429 | 552 => (),
            503 => nap(Duration::from_secs(1)),
            403 | 404 | 410 => return false,
            other => panic!("{other}: {}", answer.json()),
        }
        true
    }
}

/// Runs a scenario against an application.
fn verdict(
    demo: &Demo,
    scenario: &str,
    partner: &str,
    asset: &'static str,
    renews: bool,
) -> Verdict {
    let token = demo.partner(partner);
    let run = demo.run(partner, scenario);
    let over = Arc::new(AtomicBool::new(false));
    let app = App {
        address: demo.address("baseUrl"),
        partner: token,
        asset,
        renews,
        user: String::new(),
        playback: Vec::new(),
        over: Arc::clone(&over),
    };
    let app = thread::spawn(move || app.run());
    let verdict = run.end();
    over.store(true, Ordering::SeqCst);
    app.join().unwrap();
    let faults = demo.ok(&["lab", "fault", "list", "--partner", partner, "--json"]);
    assert_eq!(faults, json!([]), "{scenario} leaves nothing behind");
    verdict
}

fn passes(demo: &Demo, scenario: &str, asset: &'static str) {
    let verdict = verdict(demo, scenario, scenario, asset, true);
    let Verdict {
        code,
        report,
        junit,
        notes,
    } = verdict;
    assert_eq!(
        (code, &report["passed"]),
        (0, &json!(true)),
        "{scenario}: {notes}"
    );
    let steps = report["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["passed"] == json!(true)));
    let counted = format!("tests=\"{}\" failures=\"0\"", steps.len());
    assert!(junit.contains(&counted), "{junit}");
}

#[test]
fn a_conforming_application_passes_the_shipped_scenarios() {
    let demo = Demo::start();
    thread::scope(|scope| {
        for (scenario, asset) in [
            ("asset-gone", "film-open"),
            ("blackout", "film-open"),
            ("license-server", "film-open"),
            ("pin-border", "film-open"),
            ("restart", "film-clear"),
            ("revoked", "film-premium"),
            ("slow-network", "film-open"),
            ("stolen-stream", "film-open"),
            ("token-expired", "film-open"),
        ] {
            let demo = &demo;
            scope.spawn(move || passes(demo, scenario, asset));
        }
    });
    // Run last, because it moves the clock of all partners.
    passes(&demo, "clock-change", "film-open");
    let clock = demo.ok(&["clock", "show", "--json"]);
    assert_eq!(clock["offset"], 0);
    let listed = demo.ok(&["lab", "run", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 10);
}

#[test]
fn an_application_that_never_logs_in_again_fails_and_the_report_says_where() {
    let demo = Demo::start();
    let shipped = include_str!("../../data/scenarios/token-expired.toml");
    let file = demo.file("scenario.toml");
    fs::write(&file, shipped.replace("end = \"3m\"", "end = \"20s\"")).unwrap();
    let file = file.to_str().unwrap();
    let verdict = verdict(&demo, file, "Lab", "film-open", false);
    let Verdict {
        code,
        report,
        junit,
        notes,
    } = verdict;
    assert_eq!((code, &report["passed"]), (1, &json!(false)), "{notes}");
    let passed: Vec<_> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["passed"].clone())
        .collect();
    assert_eq!(passed, [json!(true), json!(false), json!(false)], "{notes}");
    assert!(junit.contains("tests=\"3\" failures=\"2\""), "{junit}");
    assert!(notes.contains("2 of 3 steps failed"), "{notes}");
}

#[test]
fn an_interrupted_run_removes_its_faults() {
    let demo = Demo::start();
    demo.partner("Lab");
    let scenario = "name = 'x'\n[[step]]\nat = '0s'\nfault = { route = 'any', do = { cut = 'head' } }\n[[step]]\non = { route = 'login' }";
    let file = demo.file("scenario.toml");
    fs::write(&file, scenario).unwrap();
    let run = demo.run("Lab", file.to_str().unwrap());
    let faults = || demo.ok(&["lab", "fault", "list", "--partner", "Lab", "--json"]);
    assert_eq!(faults().as_array().unwrap().len(), 1);
    assert!(signal(run.process.id(), Signal::INT));
    let verdict = run.end();
    assert_eq!(verdict.code, 1);
    assert!(verdict.notes.contains("interrupted"), "{}", verdict.notes);
    assert_eq!(faults(), json!([]));
}

#[test]
fn a_scenario_that_cannot_run_is_refused_before_it_changes_anything() {
    let demo = Demo::start();
    demo.partner("Lab");
    let file = demo.file("scenario.toml");
    for (text, why) in [
        (
            "name = 'x'\n[[step]]\non = { route = 'hartbeat' }",
            "can never happen: no route hartbeat",
        ),
        (
            "name = 'x'\n[[step]]\nat = '0s'\nfault = {}\n[[step]]\nat = '9h'",
            "step 2: can never happen",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let output = demo
            .command(&["lab", "run", file, "--partner", "Lab"])
            .output_in_time();
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains(why), "{}", err(&output));
    }
    let output = demo
        .command(&["lab", "run", "no-such-file.toml", "--partner", "Lab"])
        .output_in_time();
    assert!(
        err(&output).contains("lists the shipped scenarios"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_moved_clock_has_run_its_jobs_and_finds_programmes() {
    let demo = Demo::start();
    // Concurrently, so that one move meets the jobs of another.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| demo.ok(&["clock", "advance", "14d", "--json"]));
        }
    });
    let clock = demo.ok(&["clock", "freeze", "--json"]);
    // A frozen clock falls behind.
    let short_of = 42 * 86_400 - clock["offset"].as_i64().unwrap();
    assert!((0..60).contains(&short_of), "{clock}");
    assert_eq!(clock["pendingJobs"], Value::Null);
    let token = demo.partner("Lab");
    let ask = |target: &str| {
        let headers = [("Service-AccessToken", token.as_str())];
        let mut wire = Wire::to(demo.address("baseUrl"));
        wire.send(request("GET", target, &headers, ""));
        wire.answer().unwrap()
    };
    let now = clock["now"].as_i64().unwrap();
    let live = ask("/api/schedule/v1/broadcasts/live?livestreams=open");
    let date = chrono::DateTime::from_timestamp(now, 0).unwrap();
    let date = date.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    assert_eq!(live.header("date"), Some(date.as_str()));
    let shown = live.json().to_string();
    assert!(shown.contains("\"start\""), "{shown}");
    let clock = demo.ok(&["clock", "reset", "--json"]);
    assert_eq!(
        (&clock["offset"], &clock["scale"]),
        (&json!(0), &json!(1.0))
    );
}
