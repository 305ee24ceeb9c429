//! The JavaScript packages as browsers get them. `tests/client-package` tests what they do.

use std::fs;
use std::path::Path;

use data_encoding::BASE64;
use playgate_config::Environment;
use ring::digest;
use serde_json::Value;

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, ask, request};

fn get(server: &GateOnly, target: &str) -> Answer {
    let origin = [("Origin", "https://partner.example")];
    ask(server.public, request("GET", target, &origin, ""))
}

/// Returns the scripts in the repository.
fn scripts() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/client");
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    entries.filter(|(name, _)| name.ends_with(".js")).collect()
}

#[test]
fn packages_are_served_to_pages_of_any_origin_with_version_and_integrity() {
    let server = GateOnly::with(|settings, _| settings.environment = Environment::Production);
    let index: Value = serde_json::from_slice(&get(&server, "/client/index.json").body).unwrap();
    assert_eq!(index["version"], env!("CARGO_PKG_VERSION"));
    let scripts = scripts();
    assert!(scripts.len() > 20);
    assert_eq!(index["files"].as_object().unwrap().len(), scripts.len());
    for (name, text) in scripts {
        let answer = get(&server, &format!("/client/{name}"));
        assert_eq!(answer.status, 200, "{name}");
        assert_eq!(answer.body, text, "{name}");
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, Some("*"), "{name}");
        let media = answer.header("content-type");
        assert_eq!(media, Some("text/javascript; charset=utf-8"), "{name}");
        let hash = digest::digest(&digest::SHA384, &text);
        let integrity = format!("sha384-{}", BASE64.encode(hash.as_ref()));
        assert_eq!(index["files"][&name]["integrity"], integrity, "{name}");
    }
    assert_eq!(get(&server, "/client/missing.js").status, 404);
}
