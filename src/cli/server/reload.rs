//! Reloads the configuration: the process re-executes itself and keeps its sockets, so that every key takes
//! effect and no client is rejected. The new configuration is checked first.

use super::lab_partners::check_lab_partners;
use super::listeners;
use crate::client::fleet;
use crate::global::{config_failure, load_and_check};
use crate::output::{CommandResult, Failure};
use playgate_config::{Config, Inputs, ListenAddress};
use playgate_domain::partners::Partners;

/// Inputs of the configuration, read again at each reload.
pub(crate) struct Reload {
    pub inputs: Inputs,
}

impl Reload {
    /// Checks that a server can start with the current configuration. `active` is the active one, which
    /// stays active on an error. `partners` are those of the running service; they are unknown before it has
    /// started.
    pub(crate) async fn examine(
        &self,
        active: &Config,
        partners: Option<&Partners>,
    ) -> CommandResult {
        let loaded = load_and_check(&self.inputs).map_err(|problems| config_failure(&problems))?;
        let new = &loaded.config;
        // A start refuses what these refuse, and a service manager does not start it again.
        let membership = fleet::membership(new)?;
        let same_store = new.server.data_dir == active.server.data_dir;
        if let Some(partners) = partners.filter(|_| same_store) {
            check_lab_partners(new, partners)?;
        }
        for (key, address) in addresses(new) {
            // The sockets of active addresses are passed on; only new ones can fail.
            if !addresses(active).contains(&(key, address)) {
                check_moved(key, address, active)?;
                listeners::probe(address, key).await?;
            }
        }
        // The socket of a member is closed by the restart, so the active address is free again.
        let is_member = !active.fleet.endpoints.is_empty();
        let listen = &new.fleet.listen;
        if membership.is_some() && !(is_member && *listen == active.fleet.listen) {
            check_moved("fleet.listen", listen, active)?;
            listeners::probe(listen, "fleet.listen").await?;
        }
        Ok(())
    }
}

/// Refuses an address that another key has now. The new process would bind it while it still holds the socket
/// of that key.
fn check_moved(key: &str, address: &ListenAddress, active: &Config) -> CommandResult {
    match address {
        // For port 0 the system chooses another port each time. A passed socket belongs to the service manager, and
        // any key can name it.
        ListenAddress::Tcp { port: 0, .. } | ListenAddress::Passed(_) => return Ok(()),
        ListenAddress::Tcp { .. } | ListenAddress::Unix(_) => {}
    }
    let mut held = addresses(active).into_iter();
    match held.find(|(_, held)| *held == address) {
        Some((held, _)) => Err(Failure::failed(format!(
            "`{key}`: {address} is in use by `{held}` of this server; a reload cannot move it"
        ))
        .hint("restart the service")),
        None => Ok(()),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use playgate_config::load;
    use playgate_fleet::membership::Membership;
    use playgate_ports::SeededEntropy;
    use playgate_store::Store;
    use playgate_types::{PartnerKind, UnixSeconds};

    const FLEET: &str = "fleet.endpoints = [\"http://127.0.0.1:2379\"]\n";
    const STAGING: &str = "environment = \"staging\"\n";

    fn inputs(folder: &Path, config: &str) -> Inputs {
        let file = folder.join("playgate.toml");
        let data = folder.join("data");
        let given = format!("data_dir = {data:?}\nops.listen = \"127.0.0.1:0\"\n{config}");
        fs::write(&file, given).unwrap();
        Inputs {
            file: Some(file),
            demo: false,
            environment: Vec::new(),
            flags: Vec::new(),
            terminal: false,
        }
    }

    /// Reloads from one configuration to another; returns the message of a refusal.
    async fn reload(
        folder: &Path,
        (old, new): (&str, &str),
        partners: Option<&Partners>,
    ) -> Option<String> {
        let active = load(&inputs(folder, old)).unwrap().config;
        let inputs = inputs(folder, new);
        let examined = Reload { inputs }.examine(&active, partners).await;
        examined.err().map(|failure| failure.to_string())
    }

    #[tokio::test]
    async fn a_reload_that_disagrees_with_the_fleet_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let refused = reload(place, ("", FLEET), None).await.unwrap();
        assert!(refused.contains("belongs to no fleet"), "{refused}");
        let membership = Membership {
            fleet: [1; 16],
            member: [2; 16],
            name: "one".to_owned(),
            key: [3; 32],
        };
        membership.write(&place.join("data")).unwrap();
        let refused = reload(place, (FLEET, ""), None).await.unwrap();
        assert!(
            refused.contains("`fleet.endpoints` is not set"),
            "{refused}"
        );
        // The active address is bound by this process, another one by somebody else.
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = format!(
            "{FLEET}fleet.listen = \"{}\"\n",
            taken.local_addr().unwrap()
        );
        assert_eq!(reload(place, (&taken, &taken), None).await, None);
        let refused = reload(place, (FLEET, &taken), None).await.unwrap();
        assert!(refused.contains("`fleet.listen`"), "{refused}");
    }

    #[tokio::test]
    async fn production_with_a_lab_partner_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::in_memory(playgate_records::schema());
        let partners = Partners::open(store, Arc::new(SeededEntropy::new(1))).unwrap();
        let production = (STAGING, "");
        let refused = reload(folder.path(), production, Some(&partners)).await;
        assert_eq!(refused, None);
        let added = partners.add("tester", PartnerKind::Lab, UnixSeconds(1_767_225_600));
        added.unwrap().wait().unwrap();
        let refused = reload(folder.path(), production, Some(&partners)).await;
        assert!(refused.unwrap().contains("tester is a lab partner"));
    }

    #[tokio::test]
    async fn an_address_that_moves_to_another_key_needs_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let held = held.local_addr().unwrap();
        let old = format!("listen = [\"{held}\"]\n");
        let active = load(&inputs(folder.path(), &old)).unwrap().config;
        let address = ListenAddress::parse(&held.to_string()).unwrap();
        let refused = check_moved("tls.listen", &address, &active).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("in use by `listen` of this server")
        );
        let any = ListenAddress::parse("127.0.0.1:0").unwrap();
        assert!(check_moved("tls.listen", &any, &active).is_ok());
    }
}
