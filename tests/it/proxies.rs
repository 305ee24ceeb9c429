//! Runs the built binary behind a real nginx and a real HAProxy, each with its packaged configuration: the client's
//! address is the one that the proxy reports, responses pass unchanged, and a restart loses no request.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::appliance::Appliance;
use crate::support::audience::{Scene, Viewer, watch};
use crate::support::external_tools::free_port;
use crate::support::external_tools::{ExternalProxy, packaged, program};
use crate::support::metrics::metric;
use crate::support::process::InTime as _;
use crate::support::raw_http::{Wire, request};

/// The server's address in the packaged files.
const PACKAGED: &str = "127.0.0.1:8080";
const TRUSTED: (&str, &str) = ("PLAYGATE_HTTP_TRUSTED_PROXIES", "127.0.0.1");
const RESTARTS: usize = 4;
const INTERVAL: Duration = Duration::from_secs(1);

const fn viewer_address(n: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, n))
}

/// Runs a proxy with a configuration that listens at the address.
type Run = fn(&Path, &str, SocketAddr) -> ExternalProxy;

/// A proxy that is installed.
struct Proxy {
    name: &'static str,
    program: PathBuf,
    /// The name of its packaged configuration, and the address in it.
    file: &'static str,
    listens: &'static str,
    /// The prefix of a Unix socket's path in its configuration.
    unix_prefix: &'static str,
    run: Run,
}

fn proxies() -> impl Iterator<Item = Proxy> {
    let proxy = |name, file, listens, unix_prefix, run| {
        let program = program(name)?;
        Some(Proxy {
            name,
            program,
            file,
            listens,
            unix_prefix,
            run,
        })
    };
    let nginx = proxy(
        "nginx",
        "nginx-proxy.conf",
        "127.0.0.1:8091",
        "unix:",
        ExternalProxy::nginx as Run,
    );
    let haproxy = proxy(
        "haproxy",
        "haproxy.cfg",
        "127.0.0.1:8092",
        "unix@",
        ExternalProxy::haproxy,
    );
    [nginx, haproxy].into_iter().flatten()
}

impl Proxy {
    /// Starts the proxy in front of a server.
    fn start_in_front_of(&self, server: &str) -> (ExternalProxy, SocketAddr) {
        let address = free_address();
        let replacements = [(PACKAGED, server), (self.listens, &*address.to_string())];
        let config = packaged(self.file, &replacements);
        ((self.run)(&self.program, &config, address), address)
    }
}

fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

struct Backend {
    data: TempDir,
    listen: String,
    server: Appliance,
    scene: Scene,
}

impl Backend {
    fn with(settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let listen = format!(
            "{},unix:{}/http.sock",
            free_address(),
            data.path().display()
        );
        let server = Appliance::listening(data.path(), &listen, settings);
        let scene = Scene::install(&server);
        Self {
            data,
            listen,
            server,
            scene,
        }
    }

    fn viewer(&self, n: u8, to: SocketAddr) -> Viewer {
        let email = format!("viewer{n}@example.com");
        self.scene.sign_up(&self.server, &email);
        Viewer {
            partner: self.scene.partner.clone(),
            email,
            from: viewer_address(n),
            to,
        }
    }

    /// Logs in with a wrong password from `from`, with forged address headers, and returns the status.
    fn guess(&self, from: u8, to: SocketAddr, n: u8) -> u16 {
        let claimed = format!("198.51.100.{n}");
        let headers = [
            ("Service-AccessToken", &*self.scene.partner),
            ("X-Forwarded-For", &*claimed),
            ("X-Real-IP", &*claimed),
        ];
        let body = json!({"identity": format!("u{n}@example.com"), "accessKey": "not this one"});
        let post = request(
            "POST",
            "/api/login/v2/auth/email",
            &headers,
            &body.to_string(),
        );
        let mut wire = Wire::from(viewer_address(from), to).unwrap();
        wire.send(post).answer().unwrap().status
    }

    /// Returns the number of TCP connections that the server holds.
    fn connections(&self) -> usize {
        metric(&self.server.metrics(), "playgate_http_connections")
    }
}

#[test]
fn the_address_from_the_proxy_counts_and_forged_headers_do_not() {
    for proxy in proxies() {
        let name = proxy.name;
        let strict = ("PLAYGATE_LIMITS_LOGIN_WRONG_PER_ADDRESS", "3");
        let backend = Backend::with(&[TRUSTED, strict]);
        let unix_address = format!(
            "{}{}/http.sock",
            proxy.unix_prefix,
            backend.data.path().display()
        );
        let (_proxy, front) = proxy.start_in_front_of(&backend.server.address.to_string());
        for n in 0..3 {
            assert_eq!(backend.guess(2, front, n), 401, "{name}");
        }
        assert_eq!(backend.guess(2, front, 3), 429, "{name}");
        assert_eq!(backend.guess(3, front, 4), 401, "{name}");
        // A server on a Unix socket trusts the header too.
        let (_unix_proxy, front_unix) = proxy.start_in_front_of(&unix_address);
        assert_eq!(backend.guess(2, front_unix, 5), 429, "{name}");
        assert_eq!(backend.guess(4, front_unix, 6), 401, "{name}");
        // Without `trusted_proxies` the proxy's own address counts.
        let backend = Backend::with(&[strict]);
        let (_proxy, front) = proxy.start_in_front_of(&backend.server.address.to_string());
        for n in 2..5 {
            assert_eq!(backend.guess(n, front, n), 401, "{name}");
        }
        assert_eq!(backend.guess(9, front, 9), 429, "{name}");
    }
}

#[test]
fn responses_pass_unchanged_over_kept_alive_connections() {
    for proxy in proxies() {
        let name = proxy.name;
        let backend = Backend::with(&[TRUSTED]);
        let (_proxy, front) = proxy.start_in_front_of(&backend.server.address.to_string());
        let viewer = backend.viewer(2, front);
        let beat = ("POST", "/api/playback/v1/heartbeat");
        let mut visit = viewer.start().unwrap();
        for _ in 0..5 {
            assert_eq!(visit.ask(beat.0, beat.1, "").unwrap().status, 200, "{name}");
        }
        // With one connection for each request none would be open now.
        let open = backend.connections();
        assert!((1..=2).contains(&open), "{name}: {open}");

        // The programme loses its live rights while the viewer watches.
        let off = ["rights", "set", "--broadcast", "p0", "--live", "off"];
        backend.server.run_ok(&off);
        let through = visit.ask(beat.0, beat.1, "").unwrap();
        let mut visit = visit.at(backend.server.address);
        let plain = visit.ask(beat.0, beat.1, "").unwrap();
        for answer in [&through, &plain] {
            assert_eq!(answer.status, 552, "{name}");
            assert_eq!(answer.reason, "No Live Rights", "{name}");
            assert_eq!(answer.code(), "NO_LIVE_RIGHTS", "{name}");
        }
        assert_eq!(through.body, plain.body, "{name}");
        for header in [
            "access-control-allow-origin",
            "access-control-expose-headers",
            "cache-control",
            "content-type",
            "x-content-type-options",
        ] {
            assert_eq!(through.header(header), plain.header(header), "{name}");
            assert!(plain.header(header).is_some(), "{header}");
        }
        // A body above the limit must be rejected by the service, not by the proxy.
        let large = "x".repeat(1024 * 1024 + 1);
        let answer = visit
            .at(front)
            .ask("POST", "/api/tracker/v1/telemetry-events", &large)
            .unwrap();
        assert_eq!((answer.status, &*answer.code()), (413, "PAYLOAD_TOO_LARGE"));
    }
}

#[test]
fn a_restart_behind_a_proxy_loses_no_request() {
    for proxy in proxies() {
        let name = proxy.name;
        let mut backend = Backend::with(&[TRUSTED]);
        let (proxy, front) = proxy.start_in_front_of(&backend.server.address.to_string());
        let viewers: Vec<_> = (2..14).map(|n| backend.viewer(n, front)).collect();
        let (tally, ()) = watch(&viewers, || {
            for _ in 0..RESTARTS {
                std::thread::park_timeout(INTERVAL);
                backend.server.end();
                backend.server =
                    Appliance::listening(backend.data.path(), &backend.listen, &[TRUSTED]);
            }
            std::thread::park_timeout(INTERVAL);
        });
        assert!(tally.others.len() > 100, "{name}: {}", tally.others.len());
        // HAProxy waits for the server. nginx answers `is restarting` itself, and only for that reason.
        let answered_by_nginx = |why: &&String| name == "nginx" && why.contains("is restarting");
        let lost: Vec<_> = tally
            .wrong
            .iter()
            .filter(|why| !answered_by_nginx(why))
            .collect();
        assert!(lost.is_empty(), "{name}: {lost:#?}");
        let log = proxy.log();
        let other = |line: &&str| line.contains("[error]") && !line.contains("Connection refused");
        let other: Vec<_> = log.lines().filter(other).collect();
        assert!(other.is_empty(), "{name}: {other:#?}");
    }
}

/// The backend of `docs/fleet.md`, in place of the one of the packaged file.
#[test]
fn haproxy_accepts_the_documented_balancer_of_a_fleet() {
    let Some(haproxy) = program("haproxy") else {
        return;
    };
    let page = include_str!("../../docs/fleet.md");
    let (_, rest) = page.split_once("```haproxy\n").unwrap();
    let (backend, _) = rest.split_once("```").unwrap();
    assert!(backend.contains("option redispatch"), "{backend}");
    let packaged = packaged("haproxy.cfg", &[]);
    let (before, _) = packaged.split_once("\nbackend playgate\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("haproxy.cfg");
    std::fs::write(&file, format!("{before}\n{}\n", backend.trim_end())).unwrap();
    let mut check = std::process::Command::new(haproxy);
    let output = check.arg("-c").arg("-f").arg(&file).output_in_time();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && !said.contains("WARNING"),
        "{said}"
    );
}
