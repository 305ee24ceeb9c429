//! Maintenance mode: responses while the store cannot be opened.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::process::KilledOnDrop;
use crate::support::raw_http::{Answer, Wire};

fn get(socket: &Path, target: &str, headers: &str) -> Answer {
    let request = format!("GET {target} HTTP/1.1\r\n{headers}\r\n");
    let answer = Wire::to_socket(socket).unwrap().send(request).answer();
    answer.unwrap_or_else(|| panic!("no answer to {target}, {headers:?}"))
}

/// A server whose store cannot be opened.
struct InMaintenance {
    _process: KilledOnDrop,
    ops: PathBuf,
    public: PathBuf,
    _folder: TempDir,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the process under test is watched from outside"
)]
fn in_maintenance() -> InMaintenance {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::start(&data);
    sign_up(&appliance);
    appliance.kill();
    // The durable state is destroyed.
    for entry in fs::read_dir(data.join("store")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let [ops, public] = ["ops", "public"].map(|name| folder.path().join(name));
    let process = playgate(&data)
        .env("PLAYGATE_OPS_LISTEN", format!("unix:{}", ops.display()))
        .env("PLAYGATE_OPS_HOSTS", "ops.example")
        .args(["serve", "--listen"])
        .arg(format!("unix:{}", public.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut waiting = KilledOnDrop(process.unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    while UnixStream::connect(&ops).is_err() {
        assert!(waiting.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    InMaintenance {
        _process: waiting,
        ops,
        public,
        _folder: folder,
    }
}

#[test]
fn maintenance_mode_accepts_only_its_own_hosts() {
    let InMaintenance { ops, public, .. } = &in_maintenance();
    for host in ["localhost", "127.0.0.1:9080", "[::1]", "ops.example:9080"] {
        let answer = get(ops, "/readyz", &format!("Host: {host}\r\n"));
        assert_eq!(answer.status, 503, "{host}");
        assert!(answer.json()["reasons"]["store"].is_string(), "{host}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for target in ["/livez", "/readyz", "/console/", "/admin/v1/about"] {
        let answer = get(ops, target, "Host: evil.example\r\n");
        assert_eq!(
            (answer.status, answer.code()),
            (421, "MISDIRECTED_REQUEST".to_owned()),
            "{target}"
        );
    }
    for wrong in [
        "",
        "Host: localhost\r\nHost: evil.example\r\n",
        "Host: a b\r\n",
    ] {
        assert_eq!(get(ops, "/readyz", wrong).status, 400, "{wrong:?}");
    }
    // Clients use any host name, and get the reason in their language.
    let languages = "Host: tv.example\r\nAccept-Language: fr\r\nAccept-Language: de\r\n";
    let answer = get(public, "/api/catalog/v1/assets", languages);
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("10"))
    );
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let german = answer.json()["error"]["user_message"].clone();
    let english = get(public, "/api/catalog/v1/assets", "Host: tv.example\r\n");
    assert_ne!(english.json()["error"]["user_message"], german);
}

#[test]
fn players_in_browsers_can_read_that_the_service_is_in_maintenance() {
    let InMaintenance { public, .. } = &in_maintenance();
    let english = get(public, "/api/catalog/v1/assets", "Host: tv.example\r\n");
    let answer = get(
        public,
        "/",
        "Host: tv.example\r\nX-Request-Id: of-the-player\r\n",
    );
    assert_eq!(answer.header("x-request-id"), Some("of-the-player"));
    assert!(english.header("x-request-id").is_some());
    // A browser lets a player read the refusal only after a successful CORS preflight.
    let headers = "Host: tv.example\r\nOrigin: https://tv.example\r\nAccess-Control-Request-Method: POST\r\n\
                 Access-Control-Request-Headers: service-accesstoken\r\n";
    let request = format!("OPTIONS /api/playback/v1/heartbeat HTTP/1.1\r\n{headers}\r\n");
    let preflight = Wire::to_socket(public)
        .unwrap()
        .send(request)
        .answer()
        .unwrap();
    assert_eq!(preflight.status, 204);
    for (name, expected) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, POST, PUT, DELETE"),
        ("access-control-allow-headers", "service-accesstoken"),
    ] {
        assert_eq!(preflight.header(name), Some(expected));
    }
    assert_eq!(
        preflight.header("access-control-max-age"),
        None,
        "it lasts longer than the maintenance"
    );
    let request = "OPTIONS /api/playback/v1/heartbeat HTTP/1.1\r\nHost: tv.example\r\n\r\n";
    let plain = Wire::to_socket(public).unwrap().send(request).answer();
    assert_eq!(plain.unwrap().status, 503);
}
