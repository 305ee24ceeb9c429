//! Finds the operators' interface for a command.

use super::Admin;
use crate::client::fleet;
use crate::global::Global;
use crate::output::{self, CommandResult, Exit, Failure};
use playgate_config::{Loaded, Provenance, read};

impl Global {
    /// Connects to the operators' interface. Fails if the data directory has no store: the path is probably
    /// wrong, so no store is created there.
    pub(crate) async fn admin(&self) -> Result<Admin, Failure> {
        self.admin_over(|loaded| {
            if playgate_app::has_store(&loaded.config) {
                return Ok(());
            }
            let said = format!("no store in {}", loaded.config.server.data_dir.display());
            Err(Failure::new(Exit::NotFound, said).hint(
                "pass the server's --data-dir or --config; `partner add` creates a new store",
            ))
        })
        .await
    }

    /// Like [`Global::admin`], for first-time commands that may create the store.
    pub(crate) async fn admin_or_new(&self) -> Result<Admin, Failure> {
        self.admin_over(|loaded| {
            if !playgate_app::has_store(&loaded.config) {
                // A fleet member whose disk is missing must not get a new store: no other member would have its
                // changes.
                fleet::membership(&loaded.config)?;
                let place = loaded.config.server.data_dir.display();
                output::print_note(&format!("{place} has no store: creating a new one"));
            }
            Ok(())
        })
        .await
    }

    /// Connects with the loaded configuration if `fits` accepts it. With an invalid configuration, connects
    /// only to a server that is already running.
    async fn admin_over(
        &self,
        fits: impl FnOnce(&Loaded) -> CommandResult,
    ) -> Result<Admin, Failure> {
        match self.load() {
            Ok(loaded) => {
                fits(&loaded)?;
                Admin::connect(loaded).await
            }
            // A mistake in the file must not lock operators out of the server that still runs.
            Err(config_failure) => self
                .admin_with_invalid_config()
                .await?
                .ok_or(config_failure),
        }
    }

    /// Connects to a server that still runs with its previous configuration while the current one is
    /// invalid, so that operators can keep working. Requires an explicit data directory.
    pub(crate) async fn admin_with_invalid_config(&self) -> Result<Option<Admin>, Failure> {
        // `read` returns an invalid configuration too, with defaults in place of the invalid values.
        let (Some(loaded), _) = read(&self.inputs()?) else {
            return Ok(None);
        };
        let mut named = loaded.effective.iter().filter(|key| key.key == "data_dir");
        if named.all(|key| key.origin == Provenance::Default) {
            // The default directory could belong to another server.
            return Ok(None);
        }
        let admin = Admin::running(&loaded).await?;
        if admin.is_some() {
            output::print_note(
                "warning: the configuration is invalid (`playgate config check` lists the errors); the \
                 server keeps running with the previous one",
            );
        }
        Ok(admin)
    }
}
