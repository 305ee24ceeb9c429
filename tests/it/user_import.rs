//! `user import`: users of other services keep their passwords, and the report counts every line.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::appliance::{Appliance, err};
use crate::support::external_tools::program;
use crate::support::metrics::password_hashes;
use crate::support::process::InTime as _;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::server::TestServer;
use crate::support::until::{until, until_some};

const PASSWORD: &str = "correct horse";
/// Hashes of [`PASSWORD`] by other implementations.
const HASHES: [&str; 4] = [
    "$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e",
    "$scrypt$ln=4,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$rkTI9fAgA7thDzzR8FHXhMiojYBreJBmYTkEzWypBCQ",
    "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$BBs+1+PaslLtBPULUr8/lQicvVuHiEPMz0i8MjLCbzM",
    "pbkdf2_sha256$1000$saltyDjango$FHkJhB0xzR0QY5dX8s1hL9Y7yTGZBbWuDIfMMyaaJgY=",
];

#[test]
fn users_are_imported_with_the_hashes_of_other_services() {
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let settings = [("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192")];
    let appliance = Appliance::with(data_dir.path(), &settings);
    let added = appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let partner = added[0]["accessToken"].as_str().unwrap();

    let mut lines: Vec<Value> = HASHES
        .iter()
        .enumerate()
        .map(|(n, hash)| json!({"email": format!("u{n}@example.com"), "passwordHash": hash}))
        .collect();
    let dear = "$2b$15$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e";
    let large =
        "$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8";
    for (name, hash) in [
        ("dear", dear),
        ("large", large),
        ("md5", "5f4dcc3b5aa765d61d8327deb882cf99"),
    ] {
        lines.push(json!({"email": format!("{name}@example.com"), "passwordHash": hash}));
    }
    lines.push(json!({
        "email": "both@example.com", "password": "a long way to go", "passwordHash": HASHES[0],
    }));
    lines.push(json!({"email": "none@example.com"}));
    let file = outside.path().join("users.ndjson");
    let text: Vec<_> = lines.iter().map(Value::to_string).collect();
    fs::write(&file, text.join("\n")).unwrap();
    let arguments = ["user", "import", file.to_str().unwrap(), "--json"];
    let report = appliance.run_json_with_code(&arguments, 1);
    assert_eq!(report["added"], 5);
    let failed = report["failed"].as_array().unwrap();
    let at: Vec<_> = failed.iter().map(|failure| &failure["line"]).collect();
    assert_eq!(json!(at), json!([5, 6, 7, 8]));
    for (failure, says) in failed
        .iter()
        .zip(["cost limit", "must be", "MD5", "excludes"])
    {
        let message = failure["message"].as_str().unwrap();
        assert!(
            message.starts_with("passwordHash") && message.contains(says),
            "{message}"
        );
    }

    let log_in = |email: &str, password: &str| {
        let body = json!({"identity": email, "accessKey": password}).to_string();
        let headers = [("Service-AccessToken", partner)];
        appliance
            .ask("POST", "/api/login/v2/auth/email", &headers, &body)
            .status
    };
    let hashes = |function: &str| password_hashes(&appliance.metrics(), function);
    for n in 0..HASHES.len() {
        let email = format!("u{n}@example.com");
        assert_eq!(log_in(&email, "correct hors"), 401, "{email}");
        assert_eq!(log_in(&email, PASSWORD), 200, "{email}");
        // The first login replaced the foreign hash.
        let foreign = hashes("foreign");
        assert_eq!(log_in(&email, PASSWORD), 200, "{email}");
        assert_eq!(hashes("foreign"), foreign);
    }
    assert_eq!(log_in("none@example.com", ""), 401);
    // A repeated import adds no user twice and changes none.
    let report = appliance.run_json_with_code(&arguments, 1);
    assert_eq!(
        (&report["added"], &report["existing"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(log_in("u0@example.com", PASSWORD), 200);
}

const AUTH0: &str = r#"{"_id":{"$oid":"60425dc43519d90068f82973"},"email":"ann@auth0.example","name":"ann@auth0.example","given_name":"Ann","passwordHash":"$2y$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e","tenant":"acme"}
{"_id":{"$oid":"60425dc43519d90068f82974"},"email":"md5@auth0.example","custom_password_hash":{"algorithm":"md5","hash":{"value":"5f4dcc3b5aa765d61d8327deb882cf99"}}}
not JSON
{"user_id":"google-oauth2|1","email":"google@auth0.example","blocked":true}
{"user_id":"google-oauth2|2","email":"social@auth0.example"}
"#;

const KEYCLOAK: &str = r#"{
  "realm": "acme",
  "users": [
    { "username": "ann", "email": "ann@keycloak.example", "enabled": true, "firstName": "Ann", "lastName": "B",
      "credentials": [ { "type": "otp" }, { "type": "password",
        "secretData": "{\"value\":\"BBs+1+PaslLtBPULUr8/lQicvVuHiEPMz0i8MjLCbzM=\",\"salt\":\"c2FsdHNhbHRzYWx0c2FsdA==\"}",
        "credentialData": "{\"hashIterations\":1000,\"algorithm\":\"pbkdf2-sha256\",\"additionalParameters\":{}}" } ] },
    { "username": "ben", "email": "ben@keycloak.example", "enabled": true,
      "credentials": [ { "type": "password",
        "secretData": "{\"value\":\"iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8=\",\"salt\":\"c29tZXNhbHQ=\"}",
        "credentialData": "{\"hashIterations\":2,\"algorithm\":\"argon2\",\"additionalParameters\":{\"hashLength\":[\"32\"],\"memory\":[\"256\"],\"type\":[\"i\"],\"version\":[\"1.3\"],\"parallelism\":[\"1\"]}}" } ] },
    { "username": "robot", "enabled": true },
    { "email": "nobody@keycloak.example", "enabled": true },
    { "username": "off", "email": "off@keycloak.example", "enabled": false },
    { "username": "own", "email": "own@keycloak.example", "enabled": true, "credentials": [
      { "type": "password", "secretData": "{\"value\":\"YWFh\",\"salt\":\"c2FsdA==\"}",
        "credentialData": "{\"hashIterations\":1,\"algorithm\":\"house\"}" } ] }
  ]
}"#;

/// The user and the parameters from the documentation of Firebase's own implementation.
const FIREBASE: &str = r#"{"users": [
{"localId": "1", "email": "ann@firebase.example", "displayName": "Ann", "salt": "42xEC+ixf3L2lw==",
 "passwordHash": "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=="},
{"localId": "2", "email": "google@firebase.example", "providerUserInfo": [{"providerId": "google.com"}]},
{"localId": "3", "phoneNumber": "+46700000000"}
]}"#;

const HASH_CONFIG: &str = "hash_config {
  algorithm: SCRYPT,
  base64_signer_key: jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==,
  base64_salt_separator: Bw==,
  rounds: 8,
  mem_cost: 14,
}
";

#[test]
fn users_of_other_services_keep_their_passwords() {
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let appliance = Appliance::with(data_dir.path(), &[]);
    let added = appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let partner = added[0]["accessToken"].as_str().unwrap();
    let file = |name: &str, text: &str| {
        let file = outside.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let config = file("hash-config", HASH_CONFIG);
    let lines = |report: &Value| -> Vec<(u64, String)> {
        let failed = report["failed"].as_array().unwrap().iter();
        let pair = |one: &Value| {
            (
                one["line"].as_u64().unwrap(),
                one["message"].as_str().unwrap().to_owned(),
            )
        };
        failed.map(pair).collect()
    };
    for (service, text, more, counts, failed) in [
        (
            "auth0",
            AUTH0,
            &[][..],
            [3, 0, 2],
            vec![(2, "md5"), (3, "expected")],
        ),
        (
            "keycloak",
            KEYCLOAK,
            &[],
            [3, 0, 3],
            vec![(12, "no e-mail"), (13, "username"), (15, "house")],
        ),
        (
            "firebase",
            FIREBASE,
            &["--hash-config", &config],
            [2, 0, 1],
            vec![(5, "no e-mail")],
        ),
    ] {
        let file = file(service, text);
        let mut arguments = vec!["user", "import", &file, "--from", service, "--json"];
        arguments.extend(more);
        let tried = [&arguments[..], &["--dry-run"]].concat();
        let dry = appliance.run_json_with_code(&tried, 1);
        let report = appliance.run_json_with_code(&arguments, 1);
        assert_eq!((count(&dry), count(&report)), (counts, counts), "{report}");
        let rejected = lines(&report);
        assert_eq!(rejected.len(), failed.len(), "{report}");
        for ((line, message), (expected, part)) in rejected.iter().zip(failed) {
            assert!(
                *line == expected && message.contains(part),
                "{service} {line}: {message}"
            );
        }
        assert_eq!(
            count(&appliance.run_json_with_code(&arguments, 1)),
            [0, counts[0], counts[2]]
        );
    }
    each_logs_in_with_the_old_password(&appliance, partner);
    let shown = |email: &str| appliance.run_json(&["user", "show", email, "--json"])[0].clone();
    assert_eq!(shown("ann@auth0.example")["name"], "Ann");
    // A disabled account stays disabled.
    for (email, disabled) in [
        ("off@keycloak.example", true),
        ("google@auth0.example", true),
        ("ben@keycloak.example", false),
    ] {
        assert_eq!(shown(email)["disabled"], disabled, "{email}");
    }
}

fn each_logs_in_with_the_old_password(appliance: &Appliance, partner: &str) {
    for (email, password) in [
        ("ann@auth0.example", PASSWORD),
        ("ann@keycloak.example", PASSWORD),
        ("ben@keycloak.example", "password"),
        ("ann@firebase.example", "user1password"),
    ] {
        let log_in = |password: &str| {
            let body = json!({"identity": email, "accessKey": password}).to_string();
            let headers = [("Service-AccessToken", partner)];
            let target = "/api/login/v2/auth/email";
            appliance.ask("POST", target, &headers, &body).status
        };
        assert_eq!((log_in("wrong"), log_in(password)), (401, 200), "{email}");
    }
}

#[test]
fn a_file_of_another_kind_imports_nobody() {
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let appliance = Appliance::with(data_dir.path(), &[]);
    appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let torn = KEYCLOAK.split_once("\"off\"").unwrap().0;
    for (text, service, expected) in [
        (FIREBASE, "keycloak", "`username`"),
        (KEYCLOAK, "firebase", "`localId`"),
        (FIREBASE, "firebase", "--hash-config"),
        (torn, "keycloak", "line 14"),
        ("{\"users\": []}", "keycloak", "no users"),
        ("[]", "firebase", "line 1"),
        ("\n", "auth0", "no users"),
    ] {
        let file = outside.path().join("users");
        fs::write(&file, text).unwrap();
        let arguments = ["user", "import", file.to_str().unwrap(), "--from", service];
        let output = appliance.command(&arguments).output_in_time();
        assert_eq!(output.status.code(), Some(1), "{service} {}", err(&output));
        assert!(
            err(&output).contains(expected),
            "{service}: {}",
            err(&output)
        );
    }
    // The Firebase file without parameters imported its user without a password.
    let users = appliance.run_json(&["user", "list", "--json"]);
    assert_eq!(users[0].as_array().unwrap().len(), 1);
}

fn line(name: &str) -> String {
    json!({"email": format!("{name}@example.com"), "passwordHash": HASHES[0]}).to_string()
}

fn count(report: &Value) -> [u64; 3] {
    ["added", "existing", "rejected"].map(|name| report[name].as_u64().unwrap())
}

fn entries(appliance: &Appliance) -> Vec<(String, Value)> {
    let listed = appliance.run_json(&["audit", "list", "--json"]);
    let imports = listed[0].as_array().unwrap().iter().filter_map(|entry| {
        let is_import = entry["action"] == "admin_import_users";
        is_import.then(|| {
            let target = entry["target"].as_str().unwrap().to_owned();
            (target, entry["status"].clone())
        })
    });
    imports.collect()
}

#[test]
fn a_batched_import_counts_each_line_once_and_audits_once() {
    const USERS: usize = 3_000;
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data_dir.path());
    appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let mut lines: Vec<String> = (0..USERS).map(|n| line(&format!("u{n}"))).collect();
    // These lines repeat addresses of earlier batches.
    lines.push(line("u0"));
    lines.push(String::new());
    lines.push(line("U1"));
    lines.push(format!(
        "{{\"email\":\"x@example.com\",\"name\":\"{}\"}}",
        "x".repeat(20_000)
    ));
    lines.push(json!({"email": "x@example.com", "partner": "Nobody"}).to_string());
    lines.extend((0..1_200).map(|_| "[]".to_owned()));
    // The last line has no line end.
    lines.push(line("last"));
    let file = outside.path().join("users.ndjson");
    fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();

    let tried = appliance.run_json_with_code(&["user", "import", file, "--dry-run", "--json"], 1);
    assert_eq!(
        (&tried["dryRun"], tried["rejected"].as_u64()),
        (&json!(true), Some(1_202))
    );
    assert_eq!(
        appliance.run_json(&["user", "list", "--json"])[0],
        json!([])
    );
    let report = appliance.run_json_with_code(&["user", "import", file, "--json"], 1);
    let users = u64::try_from(USERS).unwrap();
    assert_eq!(count(&report), [users + 1, 2, 1_202]);
    assert_eq!(report["lines"].as_u64(), Some(users + 1_206));
    let failed = report["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1_000);
    let first = |at: usize| {
        (
            failed[at]["line"].as_u64().unwrap(),
            failed[at]["message"].to_string(),
        )
    };
    let (number, message) = first(0);
    assert!(
        number == users + 4 && message.contains("16 KiB"),
        "{message}"
    );
    let (number, message) = first(1);
    assert!(
        number == users + 5 && message.contains("no such partner"),
        "{message}"
    );
    let again =
        appliance.run_json_with_code(&["user", "import", file, "--partner", "Acme", "--json"], 1);
    assert_eq!(count(&again), [0, users + 3, 1_202]);
    let tried = appliance.run_json_with_code(&["user", "import", file, "--dry-run", "--json"], 1);
    assert_eq!(count(&tried), [0, users + 3, 1_202]);
    assert_eq!(
        appliance.run_json(&["user", "list", "--json"])[0]
            .as_array()
            .unwrap()
            .len(),
        USERS + 1
    );

    let entry = |query: &str, counts: &str| {
        (
            format!("users/import{query}: {counts}, 1202 rejected"),
            json!(200),
        )
    };
    assert_eq!(
        entries(&appliance),
        [
            entry("?partner=Acme", "0 added, 3003 existing"),
            entry("", "3001 added, 2 existing"),
        ]
    );
    assert_eq!(
        appliance.run_json(&["store", "verify", "--json"])[0]["sound"],
        true
    );
}

#[test]
fn an_interrupted_import_continues_when_repeated() {
    const USERS: usize = 4_000;
    let server = TestServer::start();
    let lines: Vec<String> = (0..USERS).map(|n| line(&format!("u{n}"))).collect();
    let body = lines.join("\n");
    let sent = body.len() * 3 / 4;
    let head = format!(
        "POST /admin/v1/users/import HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n",
        server.admin,
        body.len()
    );
    let mut socket = TcpStream::connect(server.ops).unwrap();
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(&body.as_bytes()[..sent]).unwrap();
    // The connection ends only after the server has stored a thousand users.
    let stored = || {
        server
            .operator("GET", "users?limit=1000", &Value::Null)
            .json()
            .as_array()
            .unwrap()
            .len()
    };
    until("a thousand users", || stored() >= 1_000);
    drop(socket);
    let bearer = format!("Bearer {}", server.admin);
    let headers = [("Authorization", bearer.as_str())];
    let whole = request("POST", "/admin/v1/users/import", &headers, &body);
    let again = ask(server.ops, whole).json();
    let [added, existing, rejected] = count(&again);
    assert!(existing >= 1_000 && added > 0, "{again}");
    assert_eq!((added + existing, rejected), (4_000, 0));
}

#[test]
fn an_empty_import_is_rejected() {
    let server = TestServer::start();
    let bearer = format!("Bearer {}", server.admin);
    let headers = [("Authorization", bearer.as_str())];
    for target in [
        "/admin/v1/users/import",
        "/admin/v1/users/import?dryRun=true",
    ] {
        let reply = ask(server.ops, request("POST", target, &headers, ""));
        assert_eq!(reply.status, 400);
        assert_eq!(
            reply.json()["error"]["message"],
            "the body is empty; send one JSON object per line"
        );
    }
}

#[test]
fn imported_plain_passwords_are_hashed_and_weak_ones_rejected() {
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let settings = [("PLAYGATE_ACCOUNTS_ARGON2_MEMORY_KIB", "8192")];
    let appliance = Appliance::with(data_dir.path(), &settings);
    let added = appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let partner = added[0]["accessToken"].as_str().unwrap();
    let user = |name: &str, password: &str| {
        json!({"email": format!("{name}@example.com"), "password": password}).to_string()
    };
    let mut lines: Vec<String> = (0..7).map(|n| user(&format!("u{n}"), PASSWORD)).collect();
    lines.push(user("weak", "password"));
    let file = outside.path().join("users.ndjson");
    fs::write(&file, lines.join("\n")).unwrap();
    let arguments = ["user", "import", file.to_str().unwrap(), "--json"];
    let report = appliance.run_json_with_code(&arguments, 1);
    assert_eq!(count(&report), [7, 0, 1]);
    assert_eq!(report["failed"][0]["line"], 8);
    for n in 0..7 {
        let body = json!({"identity": format!("u{n}@example.com"), "accessKey": PASSWORD});
        let headers = [("Service-AccessToken", partner)];
        let login = appliance.ask(
            "POST",
            "/api/login/v2/auth/email",
            &headers,
            &body.to_string(),
        );
        assert_eq!(login.status, 200);
    }
    // An existing user costs no second hash.
    let hashes = || password_hashes(&appliance.metrics(), "argon2");
    let before = hashes();
    assert_eq!(
        count(&appliance.run_json_with_code(&arguments, 1)),
        [0, 7, 1]
    );
    assert_eq!(hashes(), before);
}

/// Waits until the server has opened its whole reserve of descriptors, and counts its open ones. Without the reserve a
/// command would wait for a connection.
fn open_descriptors(pid: u32) -> usize {
    const RESERVE: usize = 12;
    until_some("the reserve of descriptors", || {
        let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        // A descriptor may be closed while the list is read.
        let open: Vec<_> = all
            .filter_map(|one| fs::read_link(one.ok()?.path()).ok())
            .collect();
        let reserved = open.iter().filter(|path| *path == Path::new("/dev/null"));
        (reserved.count() >= RESERVE).then_some(open.len())
    })
}

/// Concurrent backups make the log continue in new files, and none can be opened.
#[test]
fn a_user_import_out_of_descriptors_keeps_every_counted_user() {
    const USERS: usize = 3_000;
    if program("prlimit").is_none() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let mut appliance = Appliance::start(data_dir.path());
    appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let lines: Vec<String> = (0..USERS).map(|n| line(&format!("u{n}"))).collect();
    let file = outside.path().join("users.ndjson");
    fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let pid = appliance.process.id();
    let users = |appliance: &Appliance| {
        let health = appliance.run_json(&["store", "verify", "--json"]).remove(0);
        assert_eq!(health["sound"], true, "{health}");
        let (status, text) = appliance.operator("GET", "/admin/v1/users?limit=1000", "");
        assert_eq!(status, 200, "{text}");
        let listed = appliance.run_json(&["user", "list", "--json"]);
        listed[0].as_array().unwrap().len()
    };
    let (mut there, mut refusals) = (0, 0);
    // The import and the backup need some connections. On a busy machine they may not overlap, and then the descriptors
    // suffice for both, so a pass without a refusal is repeated.
    let passes = std::iter::repeat_n(1..10, 5).flatten();
    for more in passes {
        if more == 1 && refusals > 0 {
            break;
        }
        appliance.limit_descriptors(open_descriptors(pid) + more);
        let mut import = appliance.command(&["user", "import", file, "--json"]);
        let mut import = import
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let backup = appliance.command(&["backup", "create"]).output_in_time();
        let done = import.output_in_time();
        appliance.limit_descriptors(1_024);
        refusals += u32::from(!backup.status.success());
        let backup = err(&backup);
        assert!(
            backup.is_empty() || backup.contains("no file descriptor left"),
            "{more}: {backup}"
        );
        let stderr = err(&done);
        println!(
            "{more}: {:?} {stderr:?}; backup: {backup:?}",
            done.status.code()
        );
        let now = users(&appliance);
        if done.status.success() {
            let report: Value = serde_json::from_slice(&done.stdout).unwrap();
            let [added, existing, rejected] = count(&report);
            assert_eq!((added + existing, rejected), (USERS as u64, 0), "{report}");
            assert_eq!(now, USERS, "{more}: a counted user is lost");
        } else {
            refusals += 1;
            assert!(stderr.contains("error: "), "{more}: {stderr}");
        }
        assert!(now >= there, "{more}: {now} users, and {there} before");
        there = now;
        assert!(
            appliance.process.try_wait().unwrap().is_none(),
            "it goes on"
        );
    }
    // Control: descriptors did run out.
    assert!(refusals > 0);
    appliance.run_ok(&["user", "import", file]);
    assert_eq!(users(&appliance), USERS);
    appliance.kill();
    let appliance = Appliance::start(data_dir.path());
    assert_eq!(users(&appliance), USERS);
}

/// Lines in which every member has a meaning, and some need repair.
const FULL: &str = "\u{feff}{\"email\": \"ann@example.com\", \"disabled\": true, \"parentalControl\": {\"enabled\": true, \"limit\": 12}, \"tags\": [\"staff\"], \"createdTimestamp\": 1700000000000, \"offers\": [\"extra\"], \"locale\": \"sv_SE\"}\r
{\"email\": \"ben@example.com\", \"name\": \"Ben\\nB\\u202e\", \"createdTimestamp\": 1600000000}\r
{\"email\": \"BEN@EXAMPLE.com\"}\r
{\"email\": \"cid@example.com\", \"password_hash\": \"x\"}\r
{\"email\": \"dan@example.com\", \"shoeSize\": 44}\r
{\"email\": \"eve@example.com\", \"offers\": [\"gold\"]}\r
";

fn post(server: &TestServer, target: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        server.admin,
        body.len()
    );
    ask(server.ops, [head.as_bytes(), body].concat())
}

#[test]
fn no_member_of_a_line_is_lost_without_a_word() {
    let server = TestServer::start();
    let offer = "[[offer]]\nid = \"extra\"\ntype = \"subscription\"\npack = \"all\"\n";
    assert_eq!(
        post(&server, "/admin/v1/catalog/import", offer.as_bytes()).status,
        200
    );
    let send =
        |query: &str, body: &[u8]| post(&server, &format!("/admin/v1/users/import{query}"), body);
    let named = |list: &Value| -> Vec<(u64, String)> {
        let lines = list.as_array().unwrap().iter();
        lines
            .map(|one| {
                let account = one["account"].as_str().unwrap();
                let message = one["message"].as_str().unwrap();
                (
                    one["line"].as_u64().unwrap(),
                    format!("{account} {message}"),
                )
            })
            .collect()
    };
    let dry = send("?dryRun=true", FULL.as_bytes()).json();
    let report = send("", FULL.as_bytes()).json();
    assert_eq!(
        (count(&dry), count(&report)),
        ([2, 1, 3], [2, 1, 3]),
        "{report}"
    );
    let failed = named(&report["failed"]);
    for ((line, message), (expected, part)) in failed.iter().zip([
        (
            4,
            "cid@example.com password_hash: is unknown; did you mean `passwordHash`?",
        ),
        (5, "dan@example.com shoeSize: is unknown; known are email"),
        (6, "eve@example.com offers: the catalogue has no offer gold"),
    ]) {
        assert_eq!(*line, expected);
        assert!(message.starts_with(part), "{message}");
    }
    let notes = named(&report["notes"]);
    assert_eq!(
        (report["noted"].as_u64(), notes.len()),
        (Some(2), 2),
        "{report}"
    );
    assert!(
        notes[0].1.starts_with("ben@example.com the name has"),
        "{notes:?}"
    );
    assert!(
        notes[1].1.contains("BEN@EXAMPLE.com") && notes[1].1.contains("of line 2"),
        "{notes:?}"
    );

    let shown = |email: &str| {
        server
            .operator("GET", &format!("users/{email}"), &Value::Null)
            .json()
    };
    let ann = shown("ann@example.com");
    assert_eq!(
        (&ann["disabled"], &ann["tags"], &ann["locale"]),
        (&json!(true), &json!(["staff"]), &json!("sv-SE"))
    );
    assert_eq!(
        ann["parentalControl"],
        json!({"enabled": true, "limit": 12})
    );
    assert_eq!(ann["createdTimestamp"], 1_700_000_000);
    let grants = server
        .operator("GET", "users/ann@example.com/grants", &Value::Null)
        .json();
    assert_eq!(grants[0]["offerId"], "extra", "{grants}");
    assert_eq!(shown("ben@example.com")["name"], "Ben B");
}

#[test]
fn left_out_members_and_other_encodings_are_told() {
    let server = TestServer::start();
    let send =
        |query: &str, body: &[u8]| post(&server, &format!("/admin/v1/users/import{query}"), body);
    let shown = |email: &str| {
        server
            .operator("GET", &format!("users/{email}"), &Value::Null)
            .json()
    };
    // What is left out at the operator's wish is told.
    let lax = send(
        "?ignoreUnknown=true",
        b"{\"email\": \"dan@example.com\", \"shoeSize\": 44}",
    )
    .json();
    assert_eq!(count(&lax), [1, 0, 0]);
    assert_eq!(lax["notes"][0]["message"], "left out: shoeSize");
    // Another encoding is named.
    let utf16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(b"{\0\"\0e\0".iter().copied())
        .collect();
    let refused = send("", &utf16);
    assert_eq!(refused.status, 400);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("UTF-16")
    );
    // A single user is read by the same rules.
    let one = json!({"email": "fay@example.com", "disabled": true, "createdTimestamp": 1});
    let id = server.operator("POST", "users", &one).json()["userId"].clone();
    let fay = shown(id.as_str().unwrap());
    assert_eq!(
        (&fay["disabled"], &fay["createdTimestamp"]),
        (&json!(true), &json!(1))
    );
    let misspelt = json!({"email": "gus@example.com", "birthdate": "2000-01-01"});
    let refused = server.operator("POST", "users", &misspelt);
    assert_eq!(refused.status, 400);
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("`birthDate`")
    );
}

#[test]
fn lines_as_programs_and_spreadsheets_write_them_are_understood() {
    let server = TestServer::start();
    let send = |body: &str| post(&server, "/admin/v1/users/import", body.as_bytes()).json();
    // An array with one user a line.
    let report = send(
        "[{\"email\": \"a1@example.com\", \"locale\": \"sv_SE.UTF-8\"},\n\
         {\"email\": \"a2@example.com\", \"birthDate\": \"1990-01-05T00:00:00.000Z\"},\r\n\
         {\"email\": \"a3@example.com\", \"createdTimestamp\": \"2020-01-01T00:00:00Z\"},\n\
         {\"email\": \"a4@example.com\", \"createdTimestamp\": \"1577836800000\"}\n]\n",
    );
    assert_eq!(count(&report), [4, 0, 0], "{report}");
    let shown = |name: &str| {
        let path = format!("users/{name}@example.com");
        server.operator("GET", &path, &Value::Null).json()
    };
    assert_eq!(shown("a1")["locale"], "sv-SE");
    assert_eq!(shown("a2")["birthDate"], "1990-01-05");
    for name in ["a3", "a4"] {
        assert_eq!(shown(name)["createdTimestamp"], 1_577_836_800, "{name}");
    }
    // What has no sensible meaning is refused, with the member that was meant.
    let refused = send("{\"mail\": \"a5@example.com\"}\n{\"email\": \"a6@example.com\"}]x\n");
    assert_eq!(count(&refused), [0, 0, 2], "{refused}");
    let message = refused["failed"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("`mail` is called `email` here"),
        "{message}"
    );
}

#[test]
fn an_array_is_imported_and_a_table_is_named() {
    let outside = tempfile::tempdir().unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let appliance = Appliance::with(data_dir.path(), &[]);
    appliance.run_json(&["partner", "add", "Acme", "--json"]);
    let file = outside.path().join("users");
    let arguments = ["user", "import", file.to_str().unwrap(), "--json"];
    let pretty = "\u{feff}[\n  {\n    \"email\": \"ann@example.com\",\n    \"name\": \"A\\nB\"\n  },\n  {\n    \"email\": \"x\"\n  }\n]\n";
    fs::write(&file, pretty).unwrap();
    let report = appliance.run_json_with_code(&arguments, 1);
    assert_eq!(count(&report), [1, 0, 1], "{report}");
    assert_eq!(report["failed"][0]["line"], 6);
    for (text, part) in [
        (
            "email,name\nann@example.com,Ann\n",
            "the file is a table (CSV)",
        ),
        ("\u{feff}E-Mail;Name\r\n", "the file is a table (CSV)"),
        ("[\n{\"email\": \"ben@example.com\"},\n]", "at line 3"),
    ] {
        fs::write(&file, text).unwrap();
        let output = appliance.command(&arguments[..3]).output_in_time();
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains(part), "{}", err(&output));
    }
    // Auth0's own interface answers with an array, too.
    let auth0 = "[{\"email\": \"cid@example.com\"},\n{\"email\": \"dan@example.com\"}]";
    fs::write(&file, auth0).unwrap();
    let report = appliance.run_json(&[&arguments[..], &["--from", "auth0"]].concat());
    assert_eq!(count(&report[0]), [2, 0, 0], "{report:?}");
}

#[test]
fn passwords_typed_in_any_unicode_form_match_imported_hashes() {
    let server = TestServer::start();
    // PBKDF2 of the bytes of the old service: composed, decomposed, compatibility forms.
    for (n, hashed, typed) in [
        (0, "cafe\u{301} in town", "cafe\u{301} in town"),
        (1, "cafe\u{301} in town", "caf\u{e9} in town"),
        (2, "caf\u{e9} in town", "cafe\u{301} in town"),
        (
            3,
            "\u{ff50}\u{ff41}ssword \u{fb01}sh",
            "\u{ff50}\u{ff41}ssword \u{fb01}sh",
        ),
        (4, "password fish", "\u{ff50}\u{ff41}ssword \u{fb01}sh"),
    ] {
        let email = format!("u{n}@example.com");
        let mut output = [0; 32];
        let rounds = std::num::NonZeroU32::new(1_000).unwrap();
        let digest = ring::pbkdf2::PBKDF2_HMAC_SHA256;
        ring::pbkdf2::derive(
            digest,
            rounds,
            b"saltsaltsaltsalt",
            hashed.as_bytes(),
            &mut output,
        );
        let hash = format!(
            "$pbkdf2-sha256$1000$c2FsdHNhbHRzYWx0c2FsdA${}",
            data_encoding::BASE64_NOPAD.encode(&output)
        );
        let user = json!({"email": email, "passwordHash": hash});
        assert_eq!(server.operator("POST", "users", &user).status, 200);
        let log_in = |password: &str| {
            let body = json!({"identity": email, "accessKey": password});
            server
                .partner("POST", "/api/login/v2/auth/email", &body)
                .status
        };
        assert_eq!(log_in("cafe in town"), 401);
        assert_eq!(log_in(typed), 200, "{n}");
        // From now on in every form.
        assert_eq!(log_in(typed), 200, "{n} again");
    }
}
