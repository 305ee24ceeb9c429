//! A real nginx and a real HAProxy in front of the built binary, each configured by the packaged file:
//! whose address counts, what passes through untouched, and a restart behind them.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::appliance::Appliance;
use crate::support::audience::{Scene, Viewer, watch};
use crate::support::external_tools::free_port;
use crate::support::external_tools::{ExternalProxy, packaged, program};
use crate::support::raw_http::{Wire, request};

/// Where the packaged files look for Playgate.
const PACKAGED: &str = "127.0.0.1:8080";
/// As the configuration has to name either proxy.
const TRUSTED: (&str, &str) = ("PLAYGATE_HTTP_TRUSTED_PROXIES", "127.0.0.1");
const RESTARTS: usize = 4;
const BETWEEN: Duration = Duration::from_secs(1);

const fn viewer_address(n: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, n))
}

/// Runs a program by a configuration that listens at an address.
type Run = fn(&Path, &str, SocketAddr) -> ExternalProxy;

/// A proxy that is there.
struct Front {
    name: &'static str,
    program: PathBuf,
    /// Its packaged file, and where that listens.
    file: &'static str,
    listens: &'static str,
    /// What stands before the path of a Unix socket in it.
    unix: &'static str,
    run: Run,
}

fn fronts() -> impl Iterator<Item = Front> {
    let front = |name, file, listens, unix, run| {
        let program = program(name)?;
        Some(Front {
            name,
            program,
            file,
            listens,
            unix,
            run,
        })
    };
    let nginx = front(
        "nginx",
        "nginx-proxy.conf",
        "127.0.0.1:8091",
        "unix:",
        ExternalProxy::nginx as Run,
    );
    let haproxy = front(
        "haproxy",
        "haproxy.cfg",
        "127.0.0.1:8092",
        "unix@",
        ExternalProxy::haproxy,
    );
    [nginx, haproxy].into_iter().flatten()
}

impl Front {
    /// Starts it in front of a server, that address in its own words.
    fn before(&self, server: &str) -> (ExternalProxy, SocketAddr) {
        let address = here();
        let places = [(PACKAGED, server), (self.listens, &*address.to_string())];
        let config = packaged(self.file, &places);
        ((self.run)(&self.program, &config, address), address)
    }
}

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// A server behind proxies.
struct Behind {
    data: TempDir,
    listen: String,
    server: Appliance,
    scene: Scene,
}

impl Behind {
    fn with(settings: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let listen = format!("{},unix:{}/http.sock", here(), data.path().display());
        let server = Appliance::listening(data.path(), &listen, settings);
        let scene = Scene::set(&server);
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

    /// The status of a wrong password from an address, which claims others.
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

    /// Connections that the server holds over TCP.
    fn connections(&self) -> usize {
        let metrics = self.server.metrics();
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix("playgate_http_connections "));
        value.unwrap().parse().unwrap()
    }
}

#[test]
fn the_address_from_the_proxy_counts_and_forged_headers_do_not() {
    for front in fronts() {
        let name = front.name;
        let strict = ("PLAYGATE_LIMITS_LOGIN_WRONG_PER_ADDRESS", "3");
        let behind = Behind::with(&[TRUSTED, strict]);
        let unix = format!("{}{}/http.sock", front.unix, behind.data.path().display());
        let (_edge, edge) = front.before(&behind.server.address.to_string());
        for n in 0..3 {
            assert_eq!(behind.guess(2, edge, n), 401, "{name}");
        }
        assert_eq!(behind.guess(2, edge, 3), 429, "{name}");
        assert_eq!(behind.guess(3, edge, 4), 401, "{name}");
        // Over a Unix socket it is the same.
        let (_local, local) = front.before(&unix);
        assert_eq!(behind.guess(2, local, 5), 429, "{name}");
        assert_eq!(behind.guess(4, local, 6), 401, "{name}");
        // Without a word in the configuration the proxy is who counts.
        let behind = Behind::with(&[strict]);
        let (_edge, edge) = front.before(&behind.server.address.to_string());
        for n in 2..5 {
            assert_eq!(behind.guess(n, edge, n), 401, "{name}");
        }
        assert_eq!(behind.guess(9, edge, 9), 429, "{name}");
    }
}

#[test]
fn responses_pass_unchanged_over_kept_alive_connections() {
    for front in fronts() {
        let name = front.name;
        let behind = Behind::with(&[TRUSTED]);
        let (_edge, edge) = front.before(&behind.server.address.to_string());
        let viewer = behind.viewer(2, edge);
        let beat = ("POST", "/api/playback/v1/heartbeat");
        let mut visit = viewer.starts().unwrap();
        for _ in 0..5 {
            assert_eq!(visit.ask(beat.0, beat.1, "").unwrap().status, 200, "{name}");
        }
        // Without keep-alive there would be none.
        let open = behind.connections();
        assert!((1..=2).contains(&open), "{name}: {open}");

        // A viewer of a programme that has lost its live rights.
        let off = ["rights", "set", "--broadcast", "p0", "--live", "off"];
        behind.server.does(&off);
        let through = visit.ask(beat.0, beat.1, "").unwrap();
        let mut visit = visit.at(behind.server.address);
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
        // What the proxy would refuse by itself, or answer in another way, reaches the service.
        let large = "x".repeat(1024 * 1024 + 1);
        let answer = visit
            .at(edge)
            .ask("POST", "/api/tracker/v1/telemetry-events", &large)
            .unwrap();
        assert_eq!((answer.status, &*answer.code()), (413, "PAYLOAD_TOO_LARGE"));
    }
}

#[test]
fn a_restart_behind_a_proxy_loses_no_request() {
    for front in fronts() {
        let name = front.name;
        let mut behind = Behind::with(&[TRUSTED]);
        let (proxy, edge) = front.before(&behind.server.address.to_string());
        let viewers: Vec<_> = (2..14).map(|n| behind.viewer(n, edge)).collect();
        let (tally, ()) = watch(&viewers, || {
            for _ in 0..RESTARTS {
                std::thread::park_timeout(BETWEEN);
                behind.server.end();
                behind.server =
                    Appliance::listening(behind.data.path(), &behind.listen, &[TRUSTED]);
            }
            std::thread::park_timeout(BETWEEN);
        });
        assert!(tally.others.len() > 100, "{name}: {}", tally.others.len());
        // HAProxy waits for the server to be back. nginx does not: meanwhile it answers by itself, and
        // had no other reason to.
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
