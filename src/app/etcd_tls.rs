//! The files of TLS towards etcd.

use std::sync::Arc;

use super::AppError;
use playgate_config::FleetConfig;
use playgate_ports::client_tls::{ClientTls, ClientTlsFiles};

/// Returns `None` if etcd is not asked over TLS, or with the authorities of the operating system alone.
pub fn etcd_tls(given: &FleetConfig) -> Result<Option<Arc<ClientTls>>, AppError> {
    let files = ClientTlsFiles {
        ca: given.ca.clone(),
        pair: given.client_cert.clone().zip(given.client_key.clone()),
    };
    if files == ClientTlsFiles::default() {
        return Ok(None);
    }
    let keys = match files.pair {
        Some(_) => "`fleet.ca`, `fleet.client_cert`, `fleet.client_key`",
        None => "`fleet.ca`",
    };
    let tls =
        ClientTls::open(files).map_err(|error| AppError::Setting(format!("{keys}: {error}")))?;
    Ok(Some(Arc::new(tls)))
}
