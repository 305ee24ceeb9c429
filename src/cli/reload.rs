//! Reloads the configuration: the process re-executes itself and keeps its sockets, so that every key takes
//! effect and no client is rejected. The new configuration is checked first.

use super::exit::CommandResult;
use super::listeners;
use super::{config_failure, load_and_check};
use crate::config::{Config, Inputs, ListenAddress};

/// Inputs of the configuration, read again at each reload.
pub(super) struct Reload {
    pub inputs: Inputs,
}

impl Reload {
    /// Checks that a server can start with the current configuration. `active` is the active one, which
    /// stays active on an error.
    pub(super) async fn examine(&self, active: &Config) -> CommandResult {
        let loaded = load_and_check(&self.inputs).map_err(|problems| config_failure(&problems))?;
        for (key, address) in addresses(&loaded.config) {
            // The sockets of active addresses are passed on; only new ones can fail.
            if !addresses(active).contains(&(key, address)) {
                listeners::probe(address, key).await?;
            }
        }
        Ok(())
    }
}

fn addresses(config: &Config) -> Vec<(&'static str, &ListenAddress)> {
    let public = config
        .server
        .listen
        .iter()
        .map(|address| ("listen", address));
    let secure = config
        .tls
        .listen
        .iter()
        .map(|address| ("tls.listen", address));
    public
        .chain(secure)
        .chain([("ops.listen", &config.ops.listen)])
        .collect()
}
