//! Another configuration for a running server: the process begins again with it, in its own place and
//! with its own sockets, so that every key has its effect and nobody is refused. First everything is
//! asked that would keep it from starting.

use super::exit::Outcome;
use super::listeners;
use super::{examined, mistaken};
use crate::config::{Address, Config, Inputs};

/// What the configuration is read from, again and again.
pub struct Reload {
    /// The file, the environment and the flags that the process was started with.
    pub inputs: Inputs,
}

impl Reload {
    /// Whether a server could begin with what is configured now.
    ///
    /// # Errors
    /// Everything that speaks against it; the configuration in force stays.
    pub async fn examine(&self, in_force: &Config) -> Outcome {
        let loaded = examined(&self.inputs).map_err(|problems| mistaken(&problems))?;
        for (key, address) in addresses(&loaded.config) {
            if !addresses(in_force).contains(&(key, address)) {
                listeners::probe(address, key).await?;
            }
        }
        Ok(())
    }
}

fn addresses(config: &Config) -> Vec<(&'static str, &Address)> {
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
