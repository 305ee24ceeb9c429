//! The TLS certificate of the partner interface: a certificate chain and its key, two PEM files that are
//! reloaded when they change. Existing connections keep the certificate they started with.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::server::ProducesTickets;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ServerConfig};

use super::cert_validity::Validity;
use super::watched_file::{FileStamp, Reloadable, readable_by_all};
use playgate_types::UnixSeconds;
use playgate_types::time::DAY;

pub const H2: &[u8] = b"h2";
pub const HTTP_1_1: &[u8] = b"http/1.1";

/// Maximum size of a file in bytes; chains have about ten thousand.
const SIZE_MAX: u64 = 1 << 20;

/// Remaining validity, in seconds, below which the certificate is reported as due for renewal. Automatic
/// renewal happens with a month or a third of the lifetime left.
const RENEWAL_DUE_SECONDS: i64 = 7 * DAY;

#[derive(Debug, thiserror::Error)]
pub enum BadTls {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{path} is world-readable; run chmod o= {path}", path = path.display())]
    Open { path: PathBuf },
    #[error("{}: {error}", path.display())]
    Pem { path: PathBuf, error: pem::Error },
    #[error("{}: no X.509 certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("{}: {error}", path.display())]
    Authority { path: PathBuf, error: rustls::Error },
    #[error("the certificate cannot be used with this key: {0}")]
    Pair(#[from] rustls::Error),
    #[error("the new certificate is not currently valid ({0})")]
    NotNow(String),
}

pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// Kept across reloads, so that session tickets stay valid.
    tickets: Arc<dyn ProducesTickets>,
    pair: Reloadable<TlsIdentity, [FileStamp; 2]>,
}

struct TlsIdentity {
    config: Arc<ServerConfig>,
    validity: Validity,
}

impl Tls {
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, BadTls> {
        let tickets = Ticketer::new()?;
        let pair = Reloadable::new(
            || stamps(certificate, key),
            || identity(certificate, key, &tickets),
        )?;
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            tickets,
            pair,
        })
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.pair.current().config)
    }

    /// Reloads the files if one of them has changed, and returns whether it did. Blocks. After an error the current
    /// pair stays in use, and the files are tried again next time.
    pub fn refresh(&self, now: UnixSeconds) -> Result<bool, BadTls> {
        // A tool replaces the two files one after the other. A pair that does not match in between fails here
        // and is read again.
        let stamps = || stamps(&self.certificate, &self.key);
        self.pair.refresh(stamps, || {
            let new = identity(&self.certificate, &self.key, &self.tickets)?;
            // A wrong file must not replace a working certificate.
            if !new.validity.covers(now) && self.pair.current().validity.covers(now) {
                return Err(BadTls::NotNow(new.validity.to_string()));
            }
            Ok(new)
        })
    }

    /// When the certificate expires.
    pub fn certificate_ends(&self) -> UnixSeconds {
        self.pair.current().validity.until()
    }

    pub fn warning(&self, now: UnixSeconds) -> Option<String> {
        // The certificate is served all the same: a wrong clock at boot must not take the service down, and clients check
        // the validity themselves.
        self.pair.current().validity.warning(&self.certificate, now)
    }
}

impl Validity {
    /// Returns why the certificate of a file cannot be used now, or not much longer.
    pub(super) fn warning(self, path: &Path, now: UnixSeconds) -> Option<String> {
        let path = path.display();
        if !self.covers(now) {
            Some(format!("{path} is not currently valid ({self})"))
        } else if self.left(now) < RENEWAL_DUE_SECONDS {
            Some(format!("{path} is {self}: renew it"))
        } else {
            None
        }
    }
}

fn stamps(certificate: &Path, key: &Path) -> Result<[FileStamp; 2], BadTls> {
    Ok([stamp(certificate)?, stamp(key)?])
}

pub(super) fn stamp(path: &Path) -> Result<FileStamp, BadTls> {
    FileStamp::read(path, SIZE_MAX).map_err(|error| BadTls::Read {
        path: path.to_owned(),
        error,
    })
}

fn identity(
    certificate: &Path,
    key: &Path,
    tickets: &Arc<dyn ProducesTickets>,
) -> Result<TlsIdentity, BadTls> {
    let KeyPair {
        chain,
        private,
        validity,
    } = KeyPair::read(certificate, key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        // Older versions are not offered: RFC 8996 forbids them.
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    // The protocols are in order of preference.
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    // Sessions that began with the previous certificate stay resumable: a renewal causes no wave of full handshakes.
    config.ticketer = Arc::clone(tickets);
    Ok(TlsIdentity {
        config: Arc::new(config),
        validity,
    })
}

/// A certificate chain and its private key.
pub(super) struct KeyPair {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) private: PrivateKeyDer<'static>,
    pub(super) validity: Validity,
}

impl KeyPair {
    pub(super) fn read(certificate: &Path, key: &Path) -> Result<Self, BadTls> {
        let none = || BadTls::NoCertificate(certificate.to_owned());
        let chain = certificates(certificate)?;
        // The own certificate comes first (RFC 8446, 4.4.2).
        let validity = chain.first().and_then(|first| Validity::parse(first));
        let validity = validity.ok_or_else(none)?;
        let rights = fs::metadata(key).map_err(|error| BadTls::Read {
            path: key.to_owned(),
            error,
        })?;
        // The key must be secret on this host.
        if readable_by_all(key, rights.mode()) {
            return Err(BadTls::Open {
                path: key.to_owned(),
            });
        }
        let private =
            PrivateKeyDer::from_pem_slice(&content(key)?).map_err(|error| BadTls::Pem {
                path: key.to_owned(),
                error,
            })?;
        Ok(Self {
            chain,
            private,
            validity,
        })
    }
}

/// Reads the certificates of a PEM file.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadTls> {
    CertificateDer::pem_slice_iter(&content(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| BadTls::Pem {
            path: path.to_owned(),
            error,
        })
}

fn content(path: &Path) -> Result<Vec<u8>, BadTls> {
    fs::read(path).map_err(|error| BadTls::Read {
        path: path.to_owned(),
        error,
    })
}
