//! `user import`: users who come from elsewhere, with what was stored of their passwords there.

use std::fs;

use serde_json::{Value, json};

use super::appliance::Appliance;

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
    let added = appliance.told(&["partner", "add", "Acme", "--json"]);
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
    let report = appliance.tells(&arguments, 1);
    assert_eq!(report["added"], 5);
    let failed = report["failed"].as_array().unwrap();
    let at: Vec<_> = failed.iter().map(|failure| &failure["line"]).collect();
    assert_eq!(json!(at), json!([5, 6, 7, 8]));
    for (failure, says) in failed
        .iter()
        .zip(["costs", "must be", "must be", "excludes"])
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
    let hashes = |function: &str| {
        let name = format!("playgate_password_hashes_total{{function=\"{function}\"}} ");
        let metrics = appliance.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    for n in 0..HASHES.len() {
        let email = format!("u{n}@example.com");
        assert_eq!(log_in(&email, "correct hors"), 401, "{email}");
        assert_eq!(log_in(&email, PASSWORD), 200, "{email}");
        // By now it is a hash of ours.
        let foreign = hashes("foreign");
        assert_eq!(log_in(&email, PASSWORD), 200, "{email}");
        assert_eq!(hashes("foreign"), foreign);
    }
    assert_eq!(log_in("none@example.com", ""), 401);
    // Run again, it adds nobody twice and changes nobody.
    let report = appliance.tells(&arguments, 1);
    assert_eq!(
        (&report["added"], &report["existing"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(log_in("u0@example.com", PASSWORD), 200);
}
