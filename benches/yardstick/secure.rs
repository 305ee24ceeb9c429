//! A certificate for localhost, and TLS connections that trust it.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub struct Secure {
    folder: TempDir,
    /// The address that the server should listen on.
    pub address: String,
    connector: TlsConnector,
}

impl Secure {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = Command::new("openssl")
            .args(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -batch"
                    .split(' '),
            )
            .args([
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(folder.path())
            .output()
            .expect("openssl is installed");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let certificate = CertificateDer::from_pem_file(folder.path().join("cert.pem"));
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate.expect("a certificate"))
            .expect("an anchor");
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        Self {
            folder,
            address: free.expect("a free port").to_string(),
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    /// Returns the path of `cert.pem` or `key.pem`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub async fn connect(&self) -> TlsStream<TcpStream> {
        let socket = TcpStream::connect(&self.address)
            .await
            .expect("the server accepts");
        socket.set_nodelay(true).expect("an open socket");
        let name = ServerName::try_from("localhost").expect("a name");
        self.connector
            .connect(name, socket)
            .await
            .expect("a handshake")
    }
}
