//! What is answered while the store cannot be opened.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::appliance::{Appliance, playgate, sign_up};
use crate::support::process::KilledOnDrop;
use crate::support::raw_http::{Answer, Wire};

fn get(socket: &Path, target: &str, headers: &str) -> Answer {
    let request = format!("GET {target} HTTP/1.1\r\n{headers}\r\n");
    let answer = Wire::to_socket(socket).unwrap().send(request).answer();
    answer.unwrap_or_else(|| panic!("no answer to {target}, {headers:?}"))
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the process under test is watched from outside"
)]
fn maintenance_mode_accepts_only_its_own_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut appliance = Appliance::start(&data);
    sign_up(&appliance);
    appliance.kill();
    // What was promised is nowhere any more.
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
    let given_up = Instant::now() + Duration::from_secs(30);
    while UnixStream::connect(&ops).is_err() {
        assert!(waiting.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < given_up);
        std::thread::sleep(Duration::from_millis(20));
    }
    for host in ["localhost", "127.0.0.1:9080", "[::1]", "ops.example:9080"] {
        let answer = get(&ops, "/readyz", &format!("Host: {host}\r\n"));
        assert_eq!(answer.status, 503, "{host}");
        assert!(answer.json()["reasons"]["store"].is_string(), "{host}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for target in ["/livez", "/readyz", "/console/", "/admin/v1/about"] {
        let answer = get(&ops, target, "Host: evil.example\r\n");
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
        assert_eq!(get(&ops, "/readyz", wrong).status, 400, "{wrong:?}");
    }
    // Partners reach the interface by names of its operator's, and read why in their language.
    let languages = "Host: tv.example\r\nAccept-Language: fr\r\nAccept-Language: de\r\n";
    let answer = get(&public, "/api/catalog/v1/assets", languages);
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("10"))
    );
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let german = answer.json()["error"]["user_message"].clone();
    let english = get(&public, "/api/catalog/v1/assets", "Host: tv.example\r\n");
    assert_ne!(english.json()["error"]["user_message"], german);
}
