//! Opens the store of a configuration, for all commands.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use super::{AppError, Ports, key_files};
use playgate_config::Config;
use playgate_domain::backups::{Examine, KEY_NOTE, VERSION_NOTE};
use playgate_domain::catalog;
use playgate_store::{
    FleetAccess, FormatUpgrade, Import, Imported, OnFailure, Options, Store, StoreError, StoreLock,
};

/// How long the start waits for the engine. A small store is verified within this time; clients do not wait for a large
/// one.
const ENGINE_MAX_WAIT: Duration = Duration::from_millis(200);

pub struct StoreOpener {
    /// The lock of the data directory, if the caller holds it already.
    pub lock: Option<StoreLock>,
    pub sync: bool,
    pub accept_loss: bool,
    pub upgrade: FormatUpgrade,
    pub fleet: FleetAccess,
    pub examine: Examine,
    /// Called once when the store has failed and the process must restart.
    pub on_failure: OnFailure,
}

pub fn has_store(config: &Config) -> bool {
    playgate_store::has_data(&config.server.data_dir)
}

/// Opens the store, and with it takes the lock of the data directory.
pub fn open_store(
    config: &Config,
    ports: &Ports,
    opening: StoreOpener,
) -> Result<Store, StoreError> {
    let options = options(config, ports, opening);
    Store::open(&config.server.data_dir, playgate_records::schema(), options)
}

pub fn import_store(
    config: &Config,
    ports: &Ports,
    opening: StoreOpener,
    input: &mut dyn BufRead,
    bytes: Option<u64>,
) -> Result<Imported, StoreError> {
    let import = Import {
        directory: &config.server.data_dir,
        schema: &playgate_records::schema(),
        options: options(config, ports, opening),
        bytes,
        self_filled_tables: &playgate_domain::SELF_FILLED_TABLES,
    };
    import.run(input)
}

pub fn drop_content_keys(
    config: &Config,
    ports: &Ports,
    opening: StoreOpener,
) -> Result<usize, AppError> {
    // Takes the lock of the data directory: no server can run at the same time.
    let store = open_store(config, ports, opening)?;
    let master = key_files::read(&config.server.data_dir, key_files::CONTENT)?;
    Ok(catalog::drop_keys(&store, master.as_ref())?)
}

fn options(config: &Config, ports: &Ports, opening: StoreOpener) -> Options {
    let StoreOpener {
        lock,
        sync,
        accept_loss,
        upgrade,
        fleet,
        examine,
        on_failure,
    } = opening;
    let (clock, data) = (Arc::clone(&ports.clock), config.server.data_dir.clone());
    Options {
        lock,
        sync,
        on_failure,
        clock: Arc::new(move || clock.now().0),
        instance: ports.entropy.array(),
        timeline: ports.entropy.array(),
        accept_loss,
        upgrade,
        fleet,
        notes: Arc::new(move || {
            let version = playgate_types::VERSION.to_owned();
            let key = key_files::fingerprint(&data, key_files::CONTENT);
            let mut notes = BTreeMap::from([(VERSION_NOTE.to_owned(), version)]);
            // The key is created at the first start, after the store; the next snapshot records it.
            notes.extend(key.map(|key| (KEY_NOTE.to_owned(), key)));
            notes
        }),
        verify_snapshot: Some(Arc::new(move |path| {
            examine(path).map(drop).map_err(StoreError::from)
        })),
        backups: Some(config.backup.dir.clone()),
        engine_timeout: ENGINE_MAX_WAIT,
    }
}
