//! Error codes: a test names every code, `docs/interface.md` lists it with its status, and codes of no particular
//! resource are produced here.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::{fs, thread};

use playgate_http::errors::code::ErrorCode;
use playgate_observe::fleet::HandoverRefusal;
use playgate_process::Turn;
use playgate_store::{Options, Store};
use serde_json::{Value, json};

use crate::support::gate_only::{GateOnly, USER};
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::{ask, request};
use crate::support::server::TestServer;
use crate::support::until::until;

/// Returns the words of the tests' code without comments.
fn words_of_tests() -> HashSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut words = HashSet::new();
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.is_file()) {
        let text = fs::read_to_string(path).unwrap();
        let code = text.lines().filter(|line| !line.trim().starts_with("//"));
        for line in code {
            let parts = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.extend(parts.map(str::to_owned));
        }
    }
    words
}

#[test]
fn every_code_is_named_by_a_test() {
    let named = words_of_tests();
    for code in ErrorCode::ALL {
        assert!(
            named.contains(code.as_str()),
            "no test produces {}",
            code.as_str()
        );
    }
}

#[test]
fn the_interface_document_lists_every_code_with_its_status() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/interface.md");
    let text = fs::read_to_string(path).unwrap();
    let rows: HashSet<(u16, &str)> = text
        .lines()
        .filter_map(|line| {
            let (status, rest) = line.strip_prefix("| ")?.split_once(" `")?;
            Some((status.parse().ok()?, rest.split_once('`')?.0))
        })
        .filter(|(_, code)| code.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    for code in ErrorCode::ALL {
        let row = (code.status().as_u16(), code.as_str());
        let listed = rows.contains(&row);
        assert_eq!(listed, !OPERATORS_ONLY.contains(code), "{row:?}");
    }
}

/// Codes of the admin interface, which `docs/interface.md` does not describe.
const OPERATORS_ONLY: &[ErrorCode] = &[
    ErrorCode::ImportInvalid,
    ErrorCode::OperatorTokenInvalid,
    ErrorCode::RoleNotAllowed,
    ErrorCode::FaultNotFound,
    ErrorCode::FixtureNotFound,
    ErrorCode::OfferNotFound,
    ErrorCode::PartnerNotFound,
    ErrorCode::TokenNotFound,
    ErrorCode::OperatorNotFound,
    ErrorCode::GrantNotFound,
    ErrorCode::RuleNotFound,
    ErrorCode::MailNotFound,
    ErrorCode::NameInUse,
    ErrorCode::ImportHeld,
    ErrorCode::CatalogVersionNotFound,
    ErrorCode::EpgSourceNotFound,
    ErrorCode::EpgSourceFailed,
    ErrorCode::BackupNotFound,
    ErrorCode::BackupUnusable,
    ErrorCode::BackupForeign,
    ErrorCode::BackupFailed,
    ErrorCode::RestartNotPossible,
    ErrorCode::MemberNotFound,
    ErrorCode::HandoverNotPossible,
    ErrorCode::LabClockOff,
    ErrorCode::MisdirectedRequest,
];

/// Method, target, headers, body, and the expected status and code.
type Case<'a> = (
    &'a str,
    &'a str,
    &'a [(&'a str, &'a str)],
    &'a str,
    (u16, &'a str),
);

#[test]
fn pipeline_errors_have_their_codes() {
    let server = GateOnly::start();
    let (name, value) = server.admin();
    let admin = (name, value.as_str());
    let clock = "/admin/v1/clock";
    let many = [("X", "y"); 64];
    let long = format!("/livez?{}", "y".repeat(8 * 1024));
    let cases: [Case<'_>; 8] = [
        ("GET", "/nothing", &[], "", (404, "PATH_NOT_FOUND")),
        ("PATCH", clock, &[], "", (405, "METHOD_NOT_ALLOWED")),
        ("BREW", clock, &[], "", (501, "METHOD_NOT_IMPLEMENTED")),
        ("GET", &long, &[], "", (414, "URI_TOO_LONG")),
        ("GET", clock, &many, "", (431, "HEADERS_TOO_LARGE")),
        (
            "PUT",
            clock,
            &[admin, ("Expect", "magic")],
            "{}",
            (417, "EXPECTATION_FAILED"),
        ),
        (
            "PUT",
            clock,
            &[admin, ("Content-Encoding", "br")],
            "{}",
            (415, "UNSUPPORTED_CODING"),
        ),
        (
            "PUT",
            clock,
            &[admin, ("Transfer-Encoding", "gzip, chunked")],
            "",
            (501, "TRANSFER_CODING_NOT_IMPLEMENTED"),
        ),
    ];
    for (method, target, headers, body, (status, code)) in cases {
        let answer = ask(server.ops, request(method, target, headers, body));
        assert_eq!(
            answer.status_and_code(),
            (status, code.to_owned()),
            "{method}"
        );
    }
}

#[test]
fn operator_errors_have_their_codes() {
    let server = TestServer::with(&[("lab.clock", "false"), ("environment", "production")]);
    for (method, target, status, code) in [
        ("DELETE", "partners/nobody", 404, "PARTNER_NOT_FOUND"),
        ("GET", "partners/nobody/tokens", 404, "PARTNER_NOT_FOUND"),
        ("GET", "requests/x", 404, "REQUEST_NOT_FOUND"),
        ("GET", "mail/x", 404, "MAIL_NOT_FOUND"),
        ("GET", "mail/AAAAAAAAAAAAAAAAAAAAAA", 404, "MAIL_NOT_FOUND"),
        ("DELETE", "clock", 403, "LAB_CLOCK_OFF"),
        ("POST", "fleet/handover", 409, "HANDOVER_NOT_POSSIBLE"),
    ] {
        let answer = server.operator(method, target, &Value::Null);
        assert_eq!(
            answer.status_and_code(),
            (status, code.to_owned()),
            "{target}"
        );
    }
    let lab = json!({"name": "Lab", "kind": "lab"});
    let refused = server.operator("POST", "partners", &lab);
    assert_eq!(
        refused.status_and_code(),
        (403, "LAB_NOT_ALLOWED".to_owned())
    );
    let moved = server.operator("PUT", "clock", &json!({"offset": 60}));
    assert_eq!(moved.status_and_code(), (403, "LAB_CLOCK_OFF".to_owned()));
    let read = server.operator("GET", "clock", &Value::Null).json();
    assert_eq!(
        (&read["movable"], &read["offset"]),
        (&json!(false), &json!(0))
    );
}

#[test]
fn a_handover_to_an_unknown_member_has_its_code() {
    let server = TestServer::start();
    let refuse = |to: Option<&str>| {
        let name = to.unwrap_or_default();
        Err(HandoverRefusal::NoSuchMember(format!("no member {name}")))
    };
    server.services.fleet.set_hand_over(Arc::new(refuse));
    let refused = server.operator("POST", "fleet/handover", &json!({"to": "nobody"}));
    assert_eq!(
        refused.status_and_code(),
        (404, "MEMBER_NOT_FOUND".to_owned())
    );
    let malformed = server.operator("POST", "fleet/handover", &json!({"to": 1}));
    assert_eq!(
        malformed.status_and_code(),
        (400, "INVALID_REQUEST".to_owned())
    );
}

#[test]
fn an_unsatisfiable_range_has_its_code() {
    let stage = PlaybackFixture::new();
    let player = stage.play(&stage.ann, "film", "tv");
    let beyond = stage.fetch(&player.playlist, &[("Range", "bytes=1000-")]);
    assert_eq!(
        beyond.status_and_code(),
        (416, "RANGE_NOT_SATISFIABLE".to_owned())
    );
}

#[test]
fn slow_and_full_worker_pools_have_their_codes() {
    let server = GateOnly::start();
    let bearer = format!("Bearer {}", server.gate.tokens.user.reveal());
    let headers = [
        ("Service-AccessToken", server.gate.tokens.partner.reveal()),
        ("Authorization", &*bearer),
    ];
    let target = format!("/api/user/v1/users/{USER}/devices");
    let devices = || ask(server.public, request("GET", &target, &headers, ""));
    // Occupies every thread of the pool.
    let mut held = Vec::new();
    let mut jobs = Vec::new();
    loop {
        let (hold, release) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let job = server.services.cold.run(move |()| {
            let _ = begin.send(());
            let _ = release.recv();
        });
        jobs.push(job.unwrap());
        held.push(hold);
        // Far above the time in which a free thread takes a job, even on a busy machine.
        let taken = begun.recv_timeout(std::time::Duration::from_secs(3));
        if taken.is_err() {
            break;
        }
    }
    thread::scope(|scope| {
        let slow = scope.spawn(devices);
        // The request must be queued before the rest of the queue is filled.
        until("the request in the queue", || {
            server.services.cold.waiting()() >= 2
        });
        let turn = Turn::for_client(server.gate.partner_id(), Ipv4Addr::LOCALHOST.into());
        while let Ok(job) = server.services.cold.run_for(turn, |()| ()) {
            jobs.push(job);
        }
        // Only the share of this client is used up.
        assert!(server.services.cold.waiting()() < 300);
        let full = devices();
        assert_eq!(full.status_and_code(), (503, "OVERLOADED".to_owned()));
        assert!(full.header("retry-after").is_some());
        let slow = slow.join().unwrap();
        assert_eq!(
            slow.status_and_code(),
            (503, "DEADLINE_EXCEEDED".to_owned())
        );
        assert!(slow.header("retry-after").is_some());
    });
    drop(held);
    // The released jobs are done, and the pool serves again.
    until("an empty queue", || server.services.cold.waiting()() == 0);
    assert_eq!(devices().status, 200);
}

#[test]
fn a_failed_store_has_its_code_and_reads_continue() {
    let open = |directory: &Path| {
        let options = Options {
            sync: false,
            on_failure: Arc::new(|_| {}),
            ..Options::default()
        };
        Store::open(directory, playgate_records::schema(), options).unwrap()
    };
    let mut data_dir = None;
    let server = TestServer::with_store(
        |directory| {
            data_dir = Some(directory.to_owned());
            open(directory)
        },
        &[],
    );
    let ann = server.sign_up("ann@example.com");
    // The open segment can still be written, but the next one cannot be created, nor the lost one made again.
    let log = data_dir.unwrap().join("store/log");
    fs::rename(&log, log.with_extension("away")).unwrap();
    fs::write(&log, "").unwrap();
    let bearer = format!("Bearer {}", server.admin);
    let write = |round: usize| {
        let title = round.to_string().repeat(400);
        let asset = |n| format!("[[asset]]\nid = \"a{n}\"\ntitle = \"{title}\"\n");
        let catalog: String = (0..4_000).map(asset).collect();
        let headers = [("Authorization", bearer.as_str())];
        let target = "/admin/v1/catalog/import";
        ask(server.ops, request("POST", target, &headers, &catalog))
    };
    let failed = (0..8).map(write).find(|answer| answer.status >= 400);
    let failed = failed.unwrap();
    assert_eq!(
        failed.status_and_code(),
        (503, "STORE_UNAVAILABLE".to_owned())
    );
    assert!(failed.header("retry-after").is_some());
    let target = format!("/api/user/v1/users/{}", ann.id);
    let written = server.user(&ann.token, "PUT", &target, &json!({"name": "Anna"}));
    assert_eq!(
        written.status_and_code(),
        (503, "STORE_UNAVAILABLE".to_owned())
    );
    let read = server.user(&ann.token, "GET", &target, &Value::Null);
    assert_eq!((read.status, &read.json()["name"]), (200, &json!("Ann")));
    // The store is verified at the end of each test.
    fs::remove_file(&log).unwrap();
    fs::rename(log.with_extension("away"), &log).unwrap();
}
