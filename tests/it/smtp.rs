//! Mail through a real SMTP server: aiosmtpd with certificates of a private authority.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use playgate_jobs::Jobs;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::appliance::{Appliance, files, sign_up};
use crate::support::certificates::certificates;
use crate::support::external_tools::{free_port, python_with};
use crate::support::metrics;
use crate::support::process::{InTime as _, KilledOnDrop};
use crate::support::raw_http::{ask, request};
use crate::support::server::{PASSWORD, TestServer};
use crate::support::until::until;

const SEND: &str = "/api/login/v2/password/send-reset-password";
const USER: &str = "playgate";
/// A secret that is searched for wherever it must not appear.
const CANARY: &str = "canary of the mail server";
const TIMEOUT: Duration = Duration::from_secs(60);

fn python() -> Option<&'static str> {
    python_with("aiosmtpd", "python3-aiosmtpd")
}

/// A running mail server, killed on drop.
struct MailServer {
    process: KilledOnDrop,
    seen: Receiver<Value>,
    port: u16,
}

impl MailServer {
    fn start(python: &str, settings: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/smtp_server.py");
        let started = Command::new(python)
            .args(["-W", "ignore"])
            .arg(script)
            .arg(settings.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = KilledOnDrop(started.unwrap());
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, seen) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test may have ended.
                let _ = sender.send(serde_json::from_str::<Value>(&line).unwrap());
            }
        });
        let first = seen.recv_timeout(TIMEOUT).expect("the mail server starts");
        let port = u16::try_from(first["port"].as_u64().unwrap()).unwrap();
        Self {
            process,
            seen,
            port,
        }
    }

    /// Ends the refusal of every recipient.
    fn relent(&mut self) {
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "relent").unwrap();
    }

    /// Returns the next event with this member.
    fn next(&self, member: &str) -> Value {
        loop {
            let seen = self
                .seen
                .recv_timeout(TIMEOUT)
                .expect("the mail server sees it");
            if seen.get(member).is_some() {
                return seen;
            }
        }
    }

    /// Returns the remaining events.
    fn remaining(&self) -> Vec<Value> {
        let quiet = Duration::from_millis(200);
        let mut rest = Vec::new();
        loop {
            match self.seen.recv_timeout(quiet) {
                Ok(seen) => rest.push(seen),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return rest,
            }
        }
    }
}

/// A mail server that requires STARTTLS and a login, and how Playgate sends through it.
struct MailSetup {
    python: &'static str,
    certificates: TempDir,
    port: u16,
}

impl MailSetup {
    fn new() -> Option<Self> {
        Some(Self {
            python: python()?,
            certificates: certificates(),
            port: free_port(),
        })
    }

    fn file(&self, name: &str) -> String {
        self.certificates
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// Starts the mail server with `changed` members instead of the usual ones.
    fn server(&self, changed: &Value) -> MailServer {
        let mut settings = json!({
            "port": self.port, "tls": "starttls", "cert": self.file("here.pem"),
            "key": self.file("here.key"), "user": USER, "password": CANARY,
        });
        for (name, value) in changed.as_object().unwrap() {
            settings[name] = value.clone();
        }
        let server = MailServer::start(self.python, &settings);
        assert_eq!(server.port, self.port);
        server
    }

    /// The environment variables of a process that sends through it.
    fn variables(&self) -> [(&'static str, String); 6] {
        [
            ("PLAYGATE_SMTP_HOST", "127.0.0.1".to_owned()),
            ("PLAYGATE_SMTP_PORT", self.port.to_string()),
            ("PLAYGATE_SMTP_CA", self.file("ca.pem")),
            ("PLAYGATE_SMTP_USERNAME", USER.to_owned()),
            ("PLAYGATE_SMTP_PASSWORD", CANARY.to_owned()),
            ("PLAYGATE_MAIL_FROM", "tv@example.org".to_owned()),
        ]
    }

    /// Starts a process that sends through it. `more` variables replace the usual ones, and empty ones are left out.
    fn appliance(&self, data_dir: &Path, more: &[(&str, &str)], log: Stdio) -> Appliance {
        let variables = self.variables();
        let usual = variables
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let usual = usual.filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
        let all = usual.chain(more.iter().copied());
        let all: Vec<_> = all.filter(|(_, value)| !value.is_empty()).collect();
        Appliance::with_log(data_dir, &all, log)
    }

    /// Starts a server that sends through it. `changed` settings replace the usual ones, and empty ones are left out.
    fn playgate(&self, changed: &[(&'static str, &str)]) -> TestServer {
        let (port, ca) = (self.port.to_string(), self.file("ca.pem"));
        let usual = [
            ("smtp.host", "127.0.0.1"),
            ("smtp.port", &*port),
            ("smtp.ca", &*ca),
            ("smtp.username", USER),
            ("smtp.password", CANARY),
            ("smtp.security", "starttls"),
            ("smtp.timeout", "20s"),
            ("mail.from", "Åsa TV <tv@example.org>"),
        ];
        let settings: Vec<_> = usual
            .into_iter()
            .filter(|(key, _)| !changed.iter().any(|(other, _)| other == key))
            .chain(changed.iter().copied())
            .filter(|(_, value)| !value.is_empty())
            .collect();
        TestServer::with(&settings)
    }
}

fn send_reset(playgate: &TestServer, email: &str) {
    let sent = playgate.partner("POST", SEND, &json!({"email": email}));
    assert_eq!(sent.status, 200);
}

fn deliver(playgate: &TestServer) {
    playgate
        .services
        .mail
        .deliver(playgate.services.clock.now())
        .unwrap();
}

fn mails(playgate: &TestServer) -> Vec<Value> {
    let list = playgate.operator("GET", "mail", &Value::Null).json();
    list.as_array().unwrap().clone()
}

/// Returns the newest mail in the operators' list.
fn newest(playgate: &TestServer) -> Value {
    mails(playgate).remove(0)
}

fn metric(playgate: &TestServer, name: &str) -> i64 {
    metrics::metric(&metrics::scrape(playgate.ops), name)
}

#[test]
fn a_reset_mail_arrives_encrypted_and_its_link_works() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let server = setup.server(&json!({}));
    let playgate = setup.playgate(&[]);
    let jobs = Jobs::start(&playgate.services).unwrap();
    let ann = playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    let mail = server.next("mail");
    assert_eq!(
        (
            &mail["encrypted"],
            &mail["user"],
            &mail["to"],
            &mail["sender"]
        ),
        (
            &json!(true),
            &json!(USER),
            &json!("ann@example.com"),
            &json!("tv@example.org")
        )
    );
    assert_eq!(mail["subject"], "Choose a new password");
    let text = mail["text"].as_str().unwrap();
    let (_, rest) = text.split_once("https://tv.example").unwrap();
    let target = rest.split_whitespace().next().unwrap();
    assert!(mail["html"].as_str().unwrap().contains(target));

    // Uses the linked page as a browser does.
    let page = ask(playgate.public, request("GET", target, &[], ""));
    let html = String::from_utf8(page.body.clone()).unwrap();
    let (_, value) = html.split_once("name=\"token\" value=\"").unwrap();
    let token = value.split('"').next().unwrap();
    let form =
        format!("token={token}&password=goats+gruff+%26+gruffer&again=goats+gruff+%26+gruffer");
    let done = ask(playgate.public, request("POST", "/reset", &[], &form));
    assert_eq!(done.status, 200, "{}", String::from_utf8_lossy(&done.body));
    let login = |password: &str| {
        let body = json!({"identity": "ann@example.com", "accessKey": password});
        playgate
            .partner("POST", "/api/login/v2/auth/email", &body)
            .status
    };
    assert_eq!(
        (login(PASSWORD), login("goats gruff & gruffer")),
        (401, 200)
    );
    let record = format!("/api/user/v1/users/{}", ann.id);
    assert_eq!(
        playgate
            .user(&ann.token, "GET", &record, &Value::Null)
            .status,
        401
    );

    let notice = server.next("mail");
    assert_eq!(notice["subject"], "Your password was changed");
    assert!(jobs.stop(TIMEOUT));
    let sent: HashSet<String> = mails(&playgate)
        .iter()
        .map(|mail| mail["status"].to_string())
        .collect();
    assert_eq!(sent, HashSet::from(["\"sent\"".to_owned()]));
    let words = newest(&playgate)["server"].clone();
    assert_eq!(words, "250 2.0.0 taken");
    assert!(
        server
            .remaining()
            .iter()
            .all(|seen| seen.get("mail").is_none())
    );
}

#[test]
fn implicit_tls_and_auth_login_work() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let server = setup.server(&json!({"tls": "tls", "without": ["PLAIN"]}));
    let playgate = setup.playgate(&[("smtp.security", "tls")]);
    let test = playgate.operator("POST", "mail/test", &json!({"to": "ops@example.com"}));
    let report = test.json();
    assert_eq!(
        (test.status, &report["status"]),
        (200, &json!("sent")),
        "{report}"
    );
    assert_eq!(server.next("mail")["user"], USER);
}

#[test]
fn a_mail_server_outage_loses_and_duplicates_nothing() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let playgate = setup.playgate(&[]);
    for name in ["ann", "ben", "cat"] {
        let email = format!("{name}@example.com");
        playgate.sign_up(&email);
        send_reset(&playgate, &email);
    }
    deliver(&playgate);
    assert!(newest(&playgate).get("server").is_none());
    let oldest = mails(&playgate).pop().unwrap();
    assert_eq!(
        (&oldest["status"], &oldest["attempts"]),
        (&json!("queued"), &json!(1))
    );
    assert!(
        oldest["server"].as_str().unwrap().contains("refused"),
        "{oldest}"
    );
    assert!(oldest["nextAttempt"].as_i64().unwrap() > oldest["createdAt"].as_i64().unwrap());
    playgate.wait(60);
    deliver(&playgate);
    assert_eq!(metric(&playgate, "playgate_mail_queued"), 3);
    assert_eq!(metric(&playgate, "playgate_mail_oldest_seconds"), 60);
    assert_eq!(metric(&playgate, "playgate_mail_server_failing"), 1);

    let server = setup.server(&json!({}));
    playgate.wait(60);
    deliver(&playgate);
    deliver(&playgate);
    let taken = [(); 3].map(|()| server.next("mail"));
    let mut to: Vec<&str> = taken
        .iter()
        .map(|mail| mail["to"].as_str().unwrap())
        .collect();
    to.sort_unstable();
    assert_eq!(
        to,
        ["ann@example.com", "ben@example.com", "cat@example.com"]
    );
    let further = server.remaining();
    assert!(further.iter().all(|seen| seen.get("mail").is_none()));
    assert!(mails(&playgate).iter().all(|mail| mail["status"] == "sent"));
    assert_eq!(metric(&playgate, "playgate_mail_queued"), 0);
    assert_eq!(
        metric(&playgate, "playgate_mail_attempts_total{outcome=\"sent\"}"),
        3
    );
    assert_eq!(metric(&playgate, "playgate_mail_server_failing"), 0);
}

#[test]
fn a_kill_loses_and_duplicates_no_mail() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let data_dir = tempfile::tempdir().unwrap();
    let start = || setup.appliance(data_dir.path(), &[], Stdio::inherit());
    let mut appliance = start();
    let (partner, _) = sign_up(&appliance);
    let headers = [("Service-AccessToken", partner.as_str())];
    let body = json!({"email": "ann@example.com"}).to_string();
    let answer = ask(appliance.address, request("POST", SEND, &headers, &body));
    assert_eq!(answer.status, 200);
    appliance.kill();

    let server = setup.server(&json!({}));
    let mut appliance = start();
    let mail = server.next("mail");
    assert_eq!(mail["to"], "ann@example.com");
    // The mail server acknowledges a moment before that is stored.
    until("the status of the mail", || {
        appliance.run_json(&["mail", "list", "--json"])[0][0]["status"] == "sent"
    });
    appliance.kill();
    let appliance = start();
    let test = appliance.run_json(&["mail", "test", "ops@example.com", "--json"]);
    assert_eq!(test[0]["status"], "sent");
    let next = server.next("mail");
    assert_eq!(next["to"], "ops@example.com");
    assert!(server.remaining().is_empty());
}

#[test]
fn the_mail_server_login_is_never_logged_or_shown() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let more = [
        ("PLAYGATE_LOG_LEVEL", "trace"),
        ("PLAYGATE_LOG_ACCESS", "true"),
    ];
    let to_log = Stdio::from(fs::File::create(&log).unwrap());
    let mut appliance = setup.appliance(data_dir.path(), &more, to_log);
    let test = ["mail", "test", "ops@example.com", "--json"];
    let mut output = String::new();
    // AUTH with one command and with three, accepted and rejected.
    for (server, code) in [
        (json!({}), 0),
        (json!({"without": ["PLAIN"]}), 0),
        (json!({"password": "another one"}), 1),
        (json!({"password": "another one", "without": ["PLAIN"]}), 1),
    ] {
        let server = setup.server(&server);
        let report = appliance.run_json_with_code(&test, code);
        assert_eq!(server.next("login")["right"], code == 0, "{report}");
        output += &report.to_string();
    }
    // The job sends a mail too.
    let server = setup.server(&json!({}));
    let (partner, _) = sign_up(&appliance);
    let headers = [("Service-AccessToken", partner.as_str())];
    let body = json!({"email": "ann@example.com"}).to_string();
    assert_eq!(appliance.ask("POST", SEND, &headers, &body).status, 200);
    assert_eq!(server.next("mail")["to"], "ann@example.com");
    output += &json!(appliance.run_json(&["mail", "list", "--json"])).to_string();
    let mut show = appliance.command(&["config", "show"]);
    let shown = show.envs(setup.variables()).output_in_time().stdout;
    output += &String::from_utf8(shown).unwrap();
    output += &appliance.metrics();
    appliance.kill();

    let log = fs::read_to_string(&log).unwrap();
    // Control: the searched texts do mention the mail server.
    assert!(output.contains("smtp.password") && output.contains("535 "));
    assert!(log.contains("send_reset") && log.contains("mail"), "{log}");
    let secrets = [
        CANARY.to_owned(),
        BASE64.encode(CANARY.as_bytes()),
        BASE64.encode(format!("\0{USER}\0{CANARY}").as_bytes()),
    ];
    for secret in secrets {
        assert!(!output.contains(&secret), "{output}");
        assert!(!log.contains(&secret), "{log}");
        for (path, content) in files(data_dir.path()) {
            assert!(!content.contains(&secret), "{}", path.display());
        }
    }
}

#[test]
fn only_the_newest_link_is_sent() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let playgate = setup.playgate(&[]);
    playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    send_reset(&playgate, "ann@example.com");
    let server = setup.server(&json!({}));
    deliver(&playgate);
    let states: Vec<_> = mails(&playgate)
        .iter()
        .map(|mail| mail["status"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states, ["sent", "expired"]);
    server.next("mail");
    assert!(server.remaining().is_empty());
}

#[test]
fn a_mail_whose_token_has_expired_is_not_sent() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let playgate = setup.playgate(&[]);
    playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    deliver(&playgate);
    let server = setup.server(&json!({}));
    playgate.wait(1_800);
    deliver(&playgate);
    assert_eq!(newest(&playgate)["status"], "expired");
    assert!(server.remaining().is_empty());
}

#[test]
fn greylisting_is_retried_and_a_rejection_is_final() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let plan = [
        "451 4.7.1 Greylisted, come back",
        "550 5.1.1 No such user",
        "take",
    ];
    let server = setup.server(&json!({"plan": plan}));
    let playgate = setup.playgate(&[]);
    for name in ["ann", "ben"] {
        let email = format!("{name}@example.com");
        playgate.sign_up(&email);
        send_reset(&playgate, &email);
    }
    deliver(&playgate);
    let state = |at: usize| {
        let mail = mails(&playgate).remove(at);
        (
            mail["status"].as_str().unwrap().to_owned(),
            mail["server"].as_str().unwrap().to_owned(),
        )
    };
    let expected = |status: &str, words: &str| (status.to_owned(), words.to_owned());
    assert_eq!(
        state(1),
        expected("queued", "451 4.7.1 Greylisted, come back")
    );
    assert_eq!(state(0), expected("failed", "550 5.1.1 No such user"));
    playgate.wait(60);
    deliver(&playgate);
    assert_eq!(state(1), expected("sent", "250 2.0.0 taken"));
    assert_eq!(state(0).0, "failed");
    assert_eq!(server.next("mail")["to"], "ann@example.com");
    assert_eq!(
        metric(
            &playgate,
            "playgate_mail_attempts_total{outcome=\"failed\"}"
        ),
        1
    );
}

#[test]
fn a_failing_mail_server_gets_the_mail_again_with_the_same_message_id() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let plan = ["stall", "drip", "drop", "take and drop", "take"];
    let server = setup.server(&json!({"plan": plan}));
    let playgate = setup.playgate(&[("smtp.timeout", "2s")]);
    playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    deliver(&playgate);
    server.next("stalled");
    assert_eq!(
        newest(&playgate)["server"],
        "the mail server did not answer in time"
    );
    playgate.wait(60);
    deliver(&playgate);
    server.next("dripped");
    assert_eq!(
        newest(&playgate)["server"],
        "the mail server did not answer in time"
    );
    playgate.wait(120);
    deliver(&playgate);
    server.next("dropped");
    assert_eq!(newest(&playgate)["status"], "queued");
    playgate.wait(240);
    deliver(&playgate);
    // The mail was accepted and the answer was lost: the only case in which a mail is sent twice.
    let first = server.next("mail");
    assert_eq!(newest(&playgate)["status"], "queued");
    playgate.wait(480);
    deliver(&playgate);
    let again = server.next("mail");
    assert_eq!(first["mail"], again["mail"]);
    assert_eq!(newest(&playgate)["status"], "sent");
    playgate.wait(900);
    deliver(&playgate);
    assert!(server.remaining().is_empty());
}

#[test]
fn a_quoted_link_in_a_rejection_is_not_stored() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let _server = setup.server(&json!({"plan": ["reject"]}));
    let playgate = setup.playgate(&[]);
    playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    deliver(&playgate);
    let mail = newest(&playgate);
    assert_eq!(mail["status"], "failed");
    let message = mail["server"].as_str().unwrap();
    assert!(message.contains("/reset?token=(removed)"), "{message}");
    assert!(!mail.to_string().contains("pgr_"));
}

#[test]
fn nothing_is_sent_to_an_unauthenticated_mail_server() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let other = json!({"cert": setup.file("elsewhere.pem"), "key": setup.file("elsewhere.key")});
    let plain = json!({"tls": "none", "user": null});
    // The mail server, the settings, and the reported error.
    let cases: [(Value, &[_], &str); 3] = [
        (json!({}), &[("smtp.ca", "")], "UnknownIssuer"),
        (other, &[], "not valid for name"),
        (plain.clone(), &[], "STARTTLS is not supported"),
    ];
    for (server, settings, words) in cases {
        let server = setup.server(&server);
        let playgate = setup.playgate(settings);
        playgate.sign_up("ann@example.com");
        send_reset(&playgate, "ann@example.com");
        deliver(&playgate);
        let mail = newest(&playgate);
        assert_eq!(mail["status"], "queued");
        let message = mail["server"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        assert!(server.remaining().is_empty());
    }
    // Control: without TLS the same server gets the mail, and the one that requires TLS rejects it.
    let open = [
        ("smtp.security", "none"),
        ("smtp.ca", ""),
        ("smtp.username", ""),
        ("smtp.password", ""),
    ];
    let send = |playgate: &TestServer| {
        playgate.sign_up("ann@example.com");
        send_reset(playgate, "ann@example.com");
        deliver(playgate);
        newest(playgate)
    };
    let server = setup.server(&plain);
    assert_eq!(send(&setup.playgate(&open))["status"], "sent");
    assert_eq!(server.next("mail")["encrypted"], false);
    drop(server);
    let _insists = setup.server(&json!({}));
    let mail = send(&setup.playgate(&open));
    assert_eq!(mail["status"], "queued");
    assert!(
        mail["server"].as_str().unwrap().starts_with("530 "),
        "{mail}"
    );
}

#[test]
fn a_wrong_mail_password_is_reported_without_showing_it() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let server = setup.server(&json!({"password": "another one"}));
    let playgate = setup.playgate(&[]);
    playgate.sign_up("ann@example.com");
    let jobs = Jobs::start(&playgate.services).unwrap();
    send_reset(&playgate, "ann@example.com");
    assert_eq!(server.next("login")["right"], false);
    let ready = || ask(playgate.ops, request("GET", "/readyz", &[], ""));
    until("a warning", || {
        ready().json()["warnings"].get("mail").is_some()
    });
    let answer = ready();
    assert_eq!(
        (answer.status, &answer.json()["ready"]),
        (200, &json!(true))
    );
    let words = answer.json()["warnings"]["mail"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(words.starts_with("535 "), "{words}");
    assert_eq!(newest(&playgate)["server"], json!(words));

    let test = playgate
        .operator("POST", "mail/test", &json!({"to": "ops@example.com"}))
        .json();
    assert_eq!(test["status"], "failed");
    let dialogue: Vec<&str> = test["dialogue"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect();
    assert!(
        dialogue.contains(&"C: STARTTLS") && dialogue.contains(&"C: AUTH ********"),
        "{dialogue:?}"
    );
    assert!(
        dialogue.last().unwrap().starts_with("S: 535 "),
        "{dialogue:?}"
    );
    let seen = [test.to_string(), json!(mails(&playgate)).to_string()];
    assert!(seen.iter().all(|text| !text.contains(CANARY)));
    // The job stops trying, so that the mail server does not lock the account.
    assert!(jobs.stop(TIMEOUT));
    playgate.wait(200);
    deliver(&playgate);
    let logins = server
        .remaining()
        .iter()
        .filter(|seen| seen.get("login").is_some())
        .count();
    assert_eq!(logins, 1, "the test message alone");
}

#[test]
fn a_server_that_refuses_everybody_is_reported_and_loses_no_mail() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let refusal = "550 5.4.5 <ADDRESS>: Daily user sending limit exceeded";
    let mut server = setup.server(&json!({"refusal": refusal}));
    let playgate = setup.playgate(&[]);
    let jobs = Jobs::start(&playgate.services).unwrap();
    for name in ["ann", "ben", "cid", "dan"] {
        let email = format!("{name}@example.com");
        playgate.sign_up(&email);
        send_reset(&playgate, &email);
    }
    let warning = || {
        let ready = ask(playgate.ops, request("GET", "/readyz", &[], "")).json();
        ready["warnings"]["mail"].as_str().map(str::to_owned)
    };
    until("a warning", || warning().is_some());
    let words = warning().unwrap();
    assert_eq!(
        words,
        "the mail server refuses every recipient: 550 5.4.5 <(recipient)>: Daily user sending limit exceeded"
    );
    assert_eq!(metric(&playgate, "playgate_mail_server_failing"), 1);
    let states = || -> Vec<Value> {
        let all = mails(&playgate);
        all.iter().map(|mail| mail["status"].clone()).collect()
    };
    // Those that were given up before the server's state was known are queued again.
    until("all are queued", || states() == ["queued"; 4]);
    let with_reply = |mail: &Value| {
        mail["server"]
            .as_str()
            .is_some_and(|s| s.contains("550 5.4.5"))
    };
    assert!(mails(&playgate).iter().any(with_reply));

    server.relent();
    // The refusals may still be on their way.
    let retried = playgate.operator("POST", "mail/retry", &json!({}));
    assert_eq!(retried.status, 200);
    let newest = newest(&playgate)["id"].clone();
    let retried = playgate.operator("POST", "mail/retry", &json!({"id": newest}));
    assert_eq!(retried.status, 200, "{}", retried.json());
    playgate.wait(400);
    until("all are sent", || states() == ["sent"; 4]);
    assert_eq!(warning(), None);
    let again = playgate.operator("POST", "mail/retry", &json!({"id": newest}));
    assert_eq!(again.json()["skipped"][0]["message"], "it was sent");
    assert!(jobs.stop(TIMEOUT));
}

#[test]
fn a_mail_that_one_recipient_refuses_can_be_sent_again() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let plan = ["550 5.1.1 No such user", "take", "take"];
    let server = setup.server(&json!({"plan": plan}));
    let playgate = setup.playgate(&[]);
    playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    deliver(&playgate);
    let failed = newest(&playgate);
    assert_eq!(failed["status"], "failed");
    let report = playgate.operator("POST", "mail/retry", &json!({})).json();
    assert_eq!(report["queued"], json!([failed["id"]]));
    deliver(&playgate);
    assert!(
        server.next("mail")["text"]
            .as_str()
            .unwrap()
            .contains("token=pgr_")
    );
    assert_eq!(newest(&playgate)["status"], "sent");
    // Control: nothing is left to send, and an expired link is not sent.
    let report = playgate.operator("POST", "mail/retry", &json!({})).json();
    assert_eq!(report, json!({"queued": [], "skipped": []}));
    let unknown = json!({"id": "q83vEjRWeJCrze8SNFZ4kA"});
    assert_eq!(
        playgate.operator("POST", "mail/retry", &unknown).status,
        404
    );
    let misspelt = json!({"mail": failed["id"]});
    assert_eq!(
        playgate.operator("POST", "mail/retry", &misspelt).status,
        400
    );
}

#[test]
fn a_server_that_wants_a_full_name_gets_one() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let server = setup.server(&json!({"full names": true}));
    // Control: a bare name is refused, which loses nothing.
    let bare = setup.playgate(&[("smtp.hello", "box")]);
    bare.sign_up("ann@example.com");
    send_reset(&bare, "ann@example.com");
    deliver(&bare);
    assert_eq!(server.next("bare")["bare"], "box");
    assert_eq!(newest(&bare)["status"], "queued");
    assert!(
        bare.services
            .mail
            .last_failure()
            .unwrap()
            .starts_with("504 ")
    );
    let playgate = setup.playgate(&[]);
    playgate.sign_up("ann@example.com");
    send_reset(&playgate, "ann@example.com");
    deliver(&playgate);
    assert_eq!(newest(&playgate)["status"], "sent");
    server.next("mail");
}

#[test]
fn login_by_oauth_2_works_and_renews_a_revoked_token() {
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let token_port = free_port();
    let oauth = json!({
        "token_port": token_port, "secret": "client-canary", "without": ["PLAIN", "LOGIN"],
    });
    let mut server = setup.server(&oauth);
    let endpoint = format!("http://127.0.0.1:{token_port}/tenant/token");
    let with_secret = |secret: &'static str| {
        setup.playgate(&[
            ("smtp.password", ""),
            ("smtp.oauth2.token_url", &endpoint),
            ("smtp.oauth2.client_id", "tv"),
            ("smtp.oauth2.client_secret", secret),
            (
                "smtp.oauth2.scope",
                "https://outlook.office365.com/.default",
            ),
        ])
    };
    let playgate = with_secret("client-canary");
    let test = |playgate: &TestServer| {
        playgate
            .operator("POST", "mail/test", &json!({"to": "ops@example.com"}))
            .json()
    };
    let sent = test(&playgate);
    assert_eq!(sent["status"], "sent", "{sent}");
    assert!(
        sent["dialogue"]
            .to_string()
            .contains("AUTH XOAUTH2 ********"),
        "{sent}"
    );
    assert_eq!(
        server.next("form")["form"],
        "grant_type=client_credentials&client_id=tv&client_secret=client-canary&scope=https%3A%2F%2Foutlook.office365.com%2F.default"
    );
    assert_eq!(server.next("mail")["user"], USER);
    // The token is kept for the next connection.
    assert_eq!(test(&playgate)["status"], "sent");
    server.next("mail");
    let input = server.process.stdin.as_mut().unwrap();
    writeln!(input, "revoke").unwrap();
    until("a new token", || {
        test(&playgate)["dialogue"]
            .to_string()
            .contains("a new token")
    });
    assert!(!sent.to_string().contains("canary") && !sent.to_string().contains("access token"));

    let refused = test(&with_secret("wrong"));
    assert_eq!(refused["status"], "failed");
    let last = refused["dialogue"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(
        last,
        "the OAuth 2 token endpoint answered 401: invalid_client: AADSTS7000215"
    );
    // Where only tokens are taken, a password gets the reason and the setting.
    let password = test(&setup.playgate(&[]));
    let last = password["dialogue"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(
        last,
        "the mail server offers the logins XOAUTH2, but the settings allow PLAIN or LOGIN; set `smtp.oauth2`"
    );
}

#[test]
fn a_refresh_token_that_each_use_replaces_is_known_after_a_restart() {
    const FIRST: &str = "refresh canary";
    let Some(setup) = MailSetup::new() else {
        return;
    };
    let token_port = free_port();
    let oauth = json!({
        "token_port": token_port, "secret": "", "refresh": FIRST, "without": ["PLAIN", "LOGIN"],
    });
    let _server = setup.server(&oauth);
    let data_dir = tempfile::tempdir().unwrap();
    let endpoint = format!("http://127.0.0.1:{token_port}/token");
    let start = |token: &str, log: Stdio| {
        let more = [
            ("PLAYGATE_SMTP_PASSWORD", ""),
            ("PLAYGATE_SMTP_OAUTH2_TOKEN_URL", &endpoint),
            ("PLAYGATE_SMTP_OAUTH2_CLIENT_ID", "tv"),
            ("PLAYGATE_SMTP_OAUTH2_REFRESH_TOKEN", token),
        ];
        setup.appliance(data_dir.path(), &more, log)
    };
    let test = |appliance: &Appliance| -> Value {
        let to = r#"{"to":"ops@example.com"}"#;
        let (_, body) = appliance.operator("POST", "/admin/v1/mail/test", to);
        serde_json::from_str(&body).unwrap()
    };
    let log = data_dir.path().join("log");
    let to_log = || {
        Stdio::from(
            fs::File::options()
                .create(true)
                .append(true)
                .open(&log)
                .unwrap(),
        )
    };
    let mut appliance = start(FIRST, to_log());
    assert_eq!(test(&appliance)["status"], "sent");
    // Two at a time: a token that is used twice would be refused.
    let both = [(); 2].map(|()| {
        let mut command = appliance.command(&["mail", "test", "ops@example.com", "--json"]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    });
    for mut sent in both {
        let output = sent.output_in_time();
        let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(sent["status"], "sent", "{sent}");
    }
    appliance.end();
    let mut appliance = start(FIRST, to_log());
    let sent = test(&appliance);
    assert_eq!(sent["status"], "sent", "{sent}");
    appliance.kill();
    // One that the operator has changed is used, and here refused.
    let mut appliance = start("another token", to_log());
    let refused = test(&appliance);
    assert_eq!(refused["status"], "failed");
    assert!(
        refused["dialogue"]
            .to_string()
            .contains("invalid_grant: the token was used"),
        "{refused}"
    );
    appliance.end();
    let kept = data_dir.path().join("keys/smtp-refresh.token");
    let mode = fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // No token is anywhere else.
    fs::remove_file(kept).unwrap();
    for (path, content) in files(data_dir.path()) {
        assert!(!content.contains(FIRST), "{}", path.display());
    }
}
