//! How the store of a configuration is opened, by whichever command.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use super::{AppError, Ports, key_files};
use crate::config::Config;
use crate::domain;
use crate::domain::backups::{Examine, KEY_NOTE, VERSION_NOTE};
use crate::domain::catalog;
use crate::store::{self, Import, Imported, OnFailure, Options, Store, StoreError};

/// A small store starts with its engine proven; a large one does not keep viewers waiting for that.
const ENGINE_PATIENCE: Duration = Duration::from_millis(200);

/// What the process that opens a store decides.
pub struct StoreOpener {
    /// Whether anything is synced; switched off only by the control runs of durability tests.
    pub sync: bool,
    /// Whether commits that are lost beyond repair are given up.
    pub accept_loss: bool,
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
pub fn open_store(
    config: &Config,
    ports: &Ports,
    opening: StoreOpener,
) -> Result<Store, StoreError> {
    let options = options(config, ports, opening);
    Store::open(&config.server.data_dir, domain::schema(), options)
}

/// Makes an export the store of a configuration, whose own must be empty. `bytes` is its length, where
/// that is known.
///
/// # Errors
/// [`StoreError::NotEmpty`], [`StoreError::InUse`], that there is no space, or what is wrong with it.
pub fn import_store(
    config: &Config,
    ports: &Ports,
    opening: StoreOpener,
    input: &mut dyn BufRead,
    bytes: Option<u64>,
) -> Result<Imported, StoreError> {
    let import = Import {
        directory: &config.server.data_dir,
        schema: &domain::schema(),
        options: options(config, ports, opening),
        bytes,
        own: &domain::OWN_TABLES,
    };
    import.run(input)
}

/// Removes the content keys of a configuration's store that its key file does not open; returns how
/// many.
///
/// # Errors
/// That the store cannot be opened, or the key file not be read.
pub fn drop_content_keys(
    config: &Config,
    ports: &Ports,
    opening: StoreOpener,
) -> Result<usize, AppError> {
    let store = open_store(config, ports, opening)?;
    let master = key_files::read(&config.server.data_dir, key_files::CONTENT)?;
    Ok(catalog::drop_keys(&store, master.as_ref())?)
}

fn options(config: &Config, ports: &Ports, opening: StoreOpener) -> Options {
    let StoreOpener {
        sync,
        accept_loss,
        examine,
        on_failure,
    } = opening;
    let (clock, data) = (Arc::clone(&ports.clock), config.server.data_dir.clone());
    Options {
        sync,
        on_failure,
        clock: Arc::new(move || clock.now().0),
        instance: ports.entropy.array(),
        timeline: ports.entropy.array(),
        accept_loss,
        notes: Arc::new(move || {
            let version = crate::types::VERSION.to_owned();
            let key = key_files::fingerprint(&data, key_files::CONTENT);
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
    }
}
