//! TLS of the partner interface: versions and ALPN, rejected clients, renewed certificates, shutdown.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::support::appliance::{Appliance, err, playgate};
use crate::support::certificates::{certificates, openssl};
use crate::support::process::{InTime as _, KilledOnDrop, Lines};
use crate::support::raw_http::{Wire, ask, request};
use crate::support::until::until;

type Stream = StreamOwned<ClientConnection, TcpStream>;

struct TlsSetup {
    keys: TempDir,
    data: TempDir,
}

impl TlsSetup {
    fn new() -> Self {
        Self {
            keys: certificates(),
            data: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.keys.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    /// Installs a pair by renaming, as renewal tools do.
    fn install(&self, certificate: &str, key: &str) {
        for (from, to) in [(key, "served.key"), (certificate, "served.pem")] {
            let new = self.file("new");
            fs::copy(self.file(from), &new).unwrap();
            fs::rename(new, self.file(to)).unwrap();
        }
    }

    fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("PLAYGATE_TLS_CERT", self.text("served.pem")),
            ("PLAYGATE_TLS_KEY", self.text("served.key")),
            ("PLAYGATE_TLS_LISTEN", "127.0.0.1:0".to_owned()),
        ]
    }

    /// Starts a server that also listens on TLS, and returns that address.
    fn server(&self) -> (Appliance, SocketAddr) {
        let settings = self.settings();
        let settings: Vec<_> = settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let mut server = Appliance::with_log(self.data.path(), &settings, Stdio::null());
        let secure = server.next_address();
        (server, secure)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = playgate(self.data.path());
        command.envs(self.settings()).args(arguments);
        command
    }

    fn connect(&self, to: SocketAddr) -> Stream {
        self.handshake(to, &["http/1.1"], &TLS13).unwrap()
    }

    /// Completes a handshake.
    fn handshake(
        &self,
        to: SocketAddr,
        protocols: &[&str],
        version: &'static SupportedProtocolVersion,
    ) -> Result<Stream, std::io::Error> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.file("ca.pem")).unwrap();
        roots.add(authority).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(to).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut stream = StreamOwned::new(client, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }
}

fn peer_certificate(stream: &Stream) -> CertificateDer<'static> {
    stream.conn.peer_certificates().unwrap()[0].clone()
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}

/// Sends a request that needs no data. Without a token the answer is 401.
fn answers(wire: &mut Wire<Stream>) -> bool {
    wire.send(request("GET", "/api/catalog/v1/livestreams", &[], ""));
    wire.answer().is_some_and(|answer| answer.status == 401)
}

#[test]
fn a_renewed_certificate_is_loaded_and_a_bad_one_ignored() {
    let setup = TlsSetup::new();
    setup.install("here.pem", "here.key");
    let (server, secure) = setup.server();
    let old = setup.connect(secure);
    assert_eq!(peer_certificate(&old), certificate(&setup.file("here.pem")));
    let mut old = Wire::over(old);
    assert!(answers(&mut old));

    // Another certificate and key for the same name.
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch";
    let at = setup.keys.path();
    fs::write(at.join("extensions"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        at,
        &format!("req {key} -keyout next.key -out next.csr -subj /CN=next"),
    );
    let sign =
        "x509 -req -in next.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions";
    openssl(at, &format!("{sign} -out next.pem -days 90"));
    openssl(at, &format!("{sign} -out ending.pem -days 3"));
    let next = certificate(&setup.file("next.pem"));
    setup.install("next.pem", "next.key");
    until("the new certificate", || {
        peer_certificate(&setup.connect(secure)) == next
    });
    assert!(answers(&mut old));

    let readyz = || server.operator("GET", "/readyz", "").1;
    assert!(!readyz().contains("\"tls\""), "{}", readyz());
    setup.install("here.pem", "elsewhere.key");
    until("a warning", || readyz().contains("\"tls\""));
    assert!(readyz().contains("\"ready\":true"), "{}", readyz());
    let still = setup.connect(secure);
    assert_eq!(peer_certificate(&still), next);
    assert!(answers(&mut Wire::over(still)) && answers(&mut old));

    setup.install("ending.pem", "next.key");
    let ending = certificate(&setup.file("ending.pem"));
    until("the third", || {
        peer_certificate(&setup.connect(secure)) == ending
    });
    until("that it ends soon", || readyz().contains("renew it"));
    setup.install("next.pem", "next.key");
    until("no warning", || !readyz().contains("\"tls\""));
}

#[test]
fn tls_versions_and_alpn_are_negotiated() {
    let setup = TlsSetup::new();
    setup.install("here.pem", "here.key");
    let (server, secure) = setup.server();
    let negotiated = |protocols: &[&str], version| {
        let stream = setup.handshake(secure, protocols, version);
        stream.map(|stream| {
            let protocol = stream.conn.alpn_protocol().unwrap_or_default();
            String::from_utf8(protocol.to_vec()).unwrap()
        })
    };
    for version in [&TLS12, &TLS13] {
        assert_eq!(negotiated(&["http/1.1", "h2"], version).unwrap(), "h2");
        assert_eq!(negotiated(&["http/1.1"], version).unwrap(), "http/1.1");
        assert_eq!(negotiated(&[], version).unwrap(), "");
        let refused = negotiated(&["spdy/3"], version).unwrap_err().to_string();
        assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    }
    assert!(answers(&mut Wire::over(
        setup.handshake(secure, &[], &TLS12).unwrap()
    )));
    // Older versions are rejected. The control shows that this client can connect.
    let s_client_connects = |version: &str| {
        let output = Command::new("openssl")
            .args(["s_client", "-cipher", "DEFAULT:@SECLEVEL=0", "-connect"])
            .args([&secure.to_string(), version])
            .output_in_time();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), stderr)
    };
    assert!(s_client_connects("-tls1_2").0);
    for old in ["-tls1", "-tls1_1"] {
        let (done, stderr) = s_client_connects(old);
        assert!(!done && stderr.contains(" alert "), "{old}: {stderr}");
    }
    // Each protocol on the other's port fails cleanly.
    let mut plain = Wire::to(secure);
    plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut alert = Vec::new();
    plain.stream.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&0x15), "{alert:?}");
    assert!(setup.handshake(server.address, &[], &TLS13).is_err());
    // The plain listener still serves.
    let livestreams = request("GET", "/api/catalog/v1/livestreams", &[], "");
    assert_eq!(ask(server.address, livestreams).status, 401);
}

#[test]
fn an_empty_listen_setting_serves_https_only() {
    let setup = TlsSetup::new();
    setup.install("here.pem", "here.key");
    let mut command = setup.command(&["serve", "--listen", ""]);
    let mut server = KilledOnDrop(command.stdout(Stdio::piped()).spawn().unwrap());
    let line = Lines::read(server.stdout.take().unwrap()).next().unwrap();
    assert!(
        line.starts_with("listening on https://127.0.0.1:"),
        "{line}"
    );
}

#[test]
fn an_unusable_certificate_prevents_the_start() {
    use std::os::unix::fs::PermissionsExt as _;

    let setup = TlsSetup::new();
    let refused = |expected: &str| {
        for command in [
            &["config", "check"][..],
            &["serve", "--listen", "127.0.0.1:0"],
        ] {
            let output = setup.command(command).output_in_time();
            let stderr = err(&output);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {stderr}");
            assert!(stderr.contains(expected), "{command:?}: {stderr}");
        }
    };
    refused("served.pem");
    setup.install("here.pem", "elsewhere.key");
    refused("cannot be used with this key");
    setup.install("here.key", "here.key");
    refused("no X.509 certificate");
    setup.install("here.pem", "here.pem");
    refused("served.key");
    setup.install("here.pem", "here.key");
    let key = setup.file("served.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    refused("is world-readable");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let check = setup.command(&["config", "check"]).output_in_time();
    assert!(check.status.success(), "{}", err(&check));

    // An expired certificate is reported and served even so, because the clock may be wrong.
    let at = setup.keys.path();
    let sign =
        "x509 -req -in here.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions";
    openssl(at, &format!("{sign} -out over.pem -days -1"));
    setup.install("over.pem", "here.key");
    let check = setup.command(&["config", "check"]).output_in_time();
    assert!(check.status.success(), "{}", err(&check));
    assert!(
        err(&check).contains("is not currently valid"),
        "{}",
        err(&check)
    );
    let (server, _) = setup.server();
    drop(server);
}

#[test]
fn shutdown_ends_tls_connections_cleanly() {
    let setup = TlsSetup::new();
    setup.install("here.pem", "here.key");
    let (mut server, secure) = setup.server();
    let mut idle = Wire::over(setup.connect(secure));
    assert!(answers(&mut idle));
    // HTTP/2 up to the settings.
    let mut second = setup.handshake(secure, &["h2"], &TLS13).unwrap();
    second
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let mut start = [0; 9];
    second.read_exact(&mut start).unwrap();
    let mut busy = Wire::over(setup.connect(secure));
    let put = request("PUT", "/api/login/v2/auth/email", &[], "{}");
    let (head, body) = put.split_at(put.len() - 1);
    busy.send(head);
    assert!(answers(&mut idle));

    let began = Instant::now();
    server.process.terminate();
    let mut rest = Vec::new();
    // The server does not wait for the reply to its ping. How the connection ends does not matter here.
    let _ = second.read_to_end(&mut rest);
    let goaway = rest.windows(5).any(|frame| frame == [8, 7, 0, 0, 0]);
    assert!(goaway, "{rest:?}");
    busy.send(body);
    assert_eq!(busy.answer().unwrap().status, 401);
    assert!(idle.answer().is_none());
    assert!(server.process.status_in_time().success());
    assert!(began.elapsed() < Duration::from_secs(8));
}
