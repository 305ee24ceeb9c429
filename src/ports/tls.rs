//! What the partner interface is served over TLS with: a chain of certificates and its key, two PEM
//! files that the operator keeps up to date, and that are read again when they change. A connection
//! keeps what it began with.

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
use crate::types::UnixSeconds;
use crate::types::time::DAY;

/// HTTP/2 by its name in ALPN.
pub const H2: &[u8] = b"h2";
/// HTTP/1.1.
pub const HTTP_1_1: &[u8] = b"http/1.1";

/// The largest file that is read, in bytes: chains have some ten thousand.
const MOST: u64 = 1 << 20;

/// How long before its end a certificate should have been renewed, in seconds. Whoever renews by
/// machine does it with a month left, or a third of the time.
const LATE: i64 = 7 * DAY;

/// Files that nothing can be served with.
#[derive(Debug, thiserror::Error)]
pub enum BadTls {
    /// One cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The key is no secret.
    #[error("everybody on this machine may read {path}; take that right away (chmod o= {path})", path = path.display())]
    Open {
        /// Its file.
        path: PathBuf,
    },
    /// One does not hold what it should.
    #[error("{}: {error}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: pem::Error,
    },
    /// There is no certificate at the beginning of the chain.
    #[error("{}: no X.509 certificate", .0.display())]
    NoCertificate(PathBuf),
    /// Certificate and key do not go together, or are of a kind that is not known.
    #[error("the certificate cannot be used with this key: {0}")]
    Pair(#[from] rustls::Error),
    /// A certificate that is not valid now would replace one that is.
    #[error("the new certificate is {0}, and not now")]
    NotNow(String),
}

/// Certificate and key.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// Outlives what is replaced: who comes back with a ticket is let in quickly.
    tickets: Arc<dyn ProducesTickets>,
    pair: Reloadable<Identity, [FileStamp; 2]>,
}

/// What clients see, and until when.
struct Identity {
    config: Arc<ServerConfig>,
    validity: Validity,
}

impl Tls {
    /// Reads a chain and its key.
    ///
    /// # Errors
    /// [`BadTls`].
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

    /// What the next connection is begun with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.pair.current().config)
    }

    /// Reads the files again if one of them has changed; blocks. Whether they have. After a failure
    /// the pair in use stays, and the files are looked at again the next time: who replaces one after
    /// the other is seen in between.
    ///
    /// # Errors
    /// [`BadTls`].
    pub fn refresh(&self, now: UnixSeconds) -> Result<bool, BadTls> {
        let stamps = || stamps(&self.certificate, &self.key);
        self.pair.refresh(stamps, || {
            let new = identity(&self.certificate, &self.key, &self.tickets)?;
            if !new.validity.covers(now) && self.pair.current().validity.covers(now) {
                return Err(BadTls::NotNow(new.validity.to_string()));
            }
            Ok(new)
        })
    }

    /// What an operator should know about the certificate in use.
    #[must_use]
    pub fn trouble(&self, now: UnixSeconds) -> Option<String> {
        let validity = self.pair.current().validity;
        let path = self.certificate.display();
        if !validity.covers(now) {
            // Decision: it is served all the same. A clock that is wrong at boot must not take the
            // service away, and it is for clients to judge what they are shown.
            Some(format!("{path} is {validity}, and not now"))
        } else if validity.left(now) < LATE {
            Some(format!("{path} is {validity}: renew it"))
        } else {
            None
        }
    }
}

fn stamps(certificate: &Path, key: &Path) -> Result<[FileStamp; 2], BadTls> {
    let stamp = |path: &Path| {
        FileStamp::read(path, MOST).map_err(|error| BadTls::Read {
            path: path.to_owned(),
            error,
        })
    };
    Ok([stamp(certificate)?, stamp(key)?])
}

fn identity(
    certificate: &Path,
    key: &Path,
    tickets: &Arc<dyn ProducesTickets>,
) -> Result<Identity, BadTls> {
    let none = || BadTls::NoCertificate(certificate.to_owned());
    let chain = CertificateDer::pem_slice_iter(&content(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| BadTls::Pem {
            path: certificate.to_owned(),
            error,
        })?;
    let validity = chain.first().and_then(|first| Validity::parse(first));
    let validity = validity.ok_or_else(none)?;
    let rights = fs::metadata(key).map_err(|error| BadTls::Read {
        path: key.to_owned(),
        error,
    })?;
    if readable_by_all(key, rights.mode()) {
        return Err(BadTls::Open {
            path: key.to_owned(),
        });
    }
    let private = PrivateKeyDer::from_pem_slice(&content(key)?).map_err(|error| BadTls::Pem {
        path: key.to_owned(),
        error,
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    config.ticketer = Arc::clone(tickets);
    Ok(Identity {
        config: Arc::new(config),
        validity,
    })
}

fn content(path: &Path) -> Result<Vec<u8>, BadTls> {
    fs::read(path).map_err(|error| BadTls::Read {
        path: path.to_owned(),
        error,
    })
}
