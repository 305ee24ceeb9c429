//! Opens and serves stores that earlier formats wrote, from the first format on.
//!
//! `format-1` is a data directory of the demo after its calls: one user signed up before a backup, one after it, and
//! then the process was killed, so that base, engine and log each hold records of their own. The clip and the backups
//! were removed.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::appliance::{Appliance, playgate};
use crate::support::process::InTime as _;

/// The number of records in each table.
const RECORDS: [(&str, usize); 27] = [
    ("catalog.assets", 4),
    ("catalog.broadcasts", 1),
    ("catalog.keys", 1),
    ("catalog.livestreams", 4),
    ("catalog.offers", 2),
    ("catalog.packs", 8),
    ("catalog.rules", 1),
    ("credentials", 3),
    ("devices", 1),
    ("ended_sessions", 2),
    ("entitlement.grants", 1),
    ("entitlements", 5),
    ("logins", 2),
    ("mails", 1),
    ("operator_tokens", 1),
    ("operators", 1),
    ("partner_tokens", 1),
    ("partners", 1),
    ("reset_tokens", 1),
    ("schedule_chunks", 15),
    ("schedule_claims", 4),
    ("schedule_head", 1),
    ("sessions", 1),
    ("telemetry_erasures", 1),
    ("telemetry_hours", 1),
    ("throttles", 5),
    ("users", 3),
];
const PARTNER_TOKEN: &str = "54a70546-c132-4fa1-b95c-844d192f9f6e";

fn unpack(name: &str, data: &Path) {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(packed.join(name)).arg("-C").arg(data);
    assert!(tar.status_in_time().success());
}

#[test]
fn a_store_of_format_1_is_opened_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    unpack("format-1.tar.gz", data);
    let output = playgate(data)
        .args(["store", "export", "-"])
        .output_in_time();
    let export = String::from_utf8(output.stdout).unwrap();
    // Opening the store adds a record of the time.
    let kept = export
        .lines()
        .filter(|line| !line.starts_with("clock_mark\t"));
    let lines: Vec<&str> = kept.collect();
    assert_eq!(lines[0].split('\t').next(), Some("playgate-store"));
    for (table, records) in RECORDS {
        let of_table = lines
            .iter()
            .filter(|line| line.split('\t').next() == Some(table));
        assert_eq!(of_table.count(), records, "{table}");
    }
    // The first and the last line are header and trailer.
    let known: usize = RECORDS.iter().map(|(_, records)| records).sum();
    assert_eq!(lines.len(), known + 2);

    let appliance = Appliance::start(data);
    assert_eq!(
        appliance.run_json_with_code(&["store", "verify", "--json"], 0)["sound"],
        true
    );
    let headers = [("Service-AccessToken", PARTNER_TOKEN)];
    for (email, password) in [
        ("demo@example.com", "demo pass phrase"),
        ("early@example.com", "before the backup"),
        ("late@example.com", "after the backup"),
    ] {
        let body = json!({"identity": email, "accessKey": password}).to_string();
        let answer = appliance.ask("POST", "/api/login/v2/auth/email", &headers, &body);
        assert_eq!(answer.status, 200, "{email}");
    }
    let livestreams = appliance.ask("GET", "/api/catalog/v1/livestreams", &headers, "");
    assert_eq!(livestreams.status, 200);
    let text = String::from_utf8(livestreams.body).unwrap();
    assert!(
        text.contains("blackout") && text.contains("cinema"),
        "{text}"
    );
    let user = appliance.run_json(&["user", "show", "early@example.com", "--json"]);
    assert_eq!(user[0]["hasPin"], true);
}
