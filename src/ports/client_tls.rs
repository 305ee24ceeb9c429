//! TLS of a client: the authorities that it trusts and the certificate that it presents, PEM files that are read again when
//! they change. Existing connections keep what they started with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::cert_validity::Validity;
use super::tls::{BadTls, KeyPair, certificates, stamp};
use super::watched_file::{FileStamp, Reloadable};
use playgate_types::UnixSeconds;

/// Paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// By default the authorities of the operating system.
    pub ca: Option<PathBuf>,
    /// A certificate chain and its key.
    pub pair: Option<(PathBuf, PathBuf)>,
}

pub struct ClientTls {
    files: ClientTlsFiles,
    current: Reloadable<ClientIdentity, Vec<FileStamp>>,
    /// The last error of a new version of the files, so that it is logged once.
    failure: Mutex<Option<String>>,
}

struct ClientIdentity {
    connector: TlsConnector,
    /// Of the client certificate.
    validity: Option<Validity>,
}

impl ClientTls {
    pub fn open(files: ClientTlsFiles) -> Result<Self, BadTls> {
        let current = Reloadable::new(|| stamps(&files), || read(&files))?;
        Ok(Self {
            files,
            current,
            failure: Mutex::default(),
        })
    }

    /// Reads the files again if one of them has changed. After an error the last usable ones stay in use: a tool replaces the
    /// files one after the other, and a pair does not match in between.
    pub(crate) fn connector(&self) -> TlsConnector {
        let refreshed = self
            .current
            .refresh(|| stamps(&self.files), || read(&self.files));
        let failure = match refreshed {
            Ok(true) => {
                tracing::info!("read the new TLS files for connections to etcd");
                None
            }
            Ok(false) => None,
            Err(error) => Some(error.to_string()),
        };
        let mut known = self.failure.lock();
        if *known != failure {
            if let Some(error) = &failure {
                tracing::error!(
                    error,
                    "cannot use the new TLS files; the previous ones stay in use"
                );
            }
            *known = failure;
        }
        self.current.current().connector.clone()
    }

    /// When the client certificate expires; `None` without one.
    pub fn certificate_ends(&self) -> Option<UnixSeconds> {
        self.current.current().validity.map(Validity::until)
    }

    /// Returns why the client certificate is refused now, or soon will be.
    pub fn warning(&self, now: UnixSeconds) -> Option<String> {
        let validity = self.current.current().validity?;
        let (certificate, _) = self.files.pair.as_ref()?;
        validity.warning(certificate, now)
    }
}

fn stamps(files: &ClientTlsFiles) -> Result<Vec<FileStamp>, BadTls> {
    let pair = files.pair.iter().flat_map(|(cert, key)| [cert, key]);
    files
        .ca
        .iter()
        .chain(pair)
        .map(|path| stamp(path))
        .collect()
}

fn read(files: &ClientTlsFiles) -> Result<ClientIdentity, BadTls> {
    let roots = match &files.ca {
        Some(path) => authorities(path)?,
        None => system_roots(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let (config, validity) = match &files.pair {
        Some((certificate, key)) => {
            let pair = KeyPair::read(certificate, key)?;
            let config = builder.with_client_auth_cert(pair.chain, pair.private)?;
            (config, Some(pair.validity))
        }
        None => (builder.with_no_client_auth(), None),
    };
    Ok(ClientIdentity {
        connector: TlsConnector::from(Arc::new(config)),
        validity,
    })
}

fn authorities(path: &Path) -> Result<RootCertStore, BadTls> {
    let found = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in found {
        roots.add(certificate).map_err(|error| BadTls::Authority {
            path: path.to_owned(),
            error,
        })?;
    }
    match roots.is_empty() {
        true => Err(BadTls::NoCertificate(path.to_owned())),
        false => Ok(roots),
    }
}

/// The authorities of the operating system.
pub(super) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // One malformed CA certificate of the system must not disable all of them.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
