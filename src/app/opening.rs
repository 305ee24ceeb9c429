//! How the store of a configuration is opened, by whichever command.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Ports, keys};
use crate::config::Config;
use crate::domain;
use crate::domain::backups::{Examine, KEY_NOTE, VERSION_NOTE};
use crate::store::{self, OnFailure, Options, Store, StoreError};

/// A small store starts with its engine proven; a large one does not keep viewers waiting for that.
const ENGINE_PATIENCE: Duration = Duration::from_millis(200);

/// What the process that opens a store decides.
pub struct Opening {
    /// Whether anything is synced; switched off only by the control runs of durability tests.
    pub sync: bool,
    /// Reads a snapshot that was just written to its end.
    pub examine: Examine,
    /// Told once when the store has failed and the process has to restart.
    pub on_failure: OnFailure,
}

/// Whether there is a store, whole or not, where a configuration says.
#[must_use]
pub fn has_store(config: &Config) -> bool {
    store::is_begun(&config.server.data_dir)
}

/// Opens the store of a configuration: the first thing that a process does, since it holds the lock
/// of the data directory.
///
/// # Errors
/// [`StoreError::InUse`] if another process has it, and what else is wrong with it.
pub fn open_store(config: &Config, ports: &Ports, opening: Opening) -> Result<Store, StoreError> {
    let Opening {
        sync,
        examine,
        on_failure,
    } = opening;
    let (clock, data) = (Arc::clone(&ports.clock), config.server.data_dir.clone());
    let options = Options {
        sync,
        on_failure,
        clock: Arc::new(move || clock.now().0),
        instance: ports.entropy.array(),
        notes: Arc::new(move || {
            let version = crate::types::VERSION.to_owned();
            let key = keys::fingerprint(&data, keys::CONTENT);
            let mut notes = BTreeMap::from([(VERSION_NOTE.to_owned(), version)]);
            // Made on the first start, after the store; the next snapshot has it.
            notes.extend(key.map(|key| (KEY_NOTE.to_owned(), key)));
            notes
        }),
        prove: Some(Arc::new(move |path| {
            examine(path).map(drop).map_err(StoreError::from)
        })),
        backups: Some(config.backup.dir.clone()),
        engine_patience: ENGINE_PATIENCE,
    };
    Store::open(&config.server.data_dir, domain::schema(), options)
}
