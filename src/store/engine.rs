//! The ordered key-value engine beneath the tables, and sled as one. No other file names sled.
//!
//! The engine is never asked to be durable by itself: the commit log is. It applies plans whole,
//! remembers the number of the last one, and is synced at checkpoints.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sled::Transactional as _;
use sled::transaction::{ConflictableTransactionError, TransactionError, TransactionalTree};

use super::StoreError;
use super::plan::Plan;
use super::table::{Schema, TreeName};

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// What a scan yields.
pub(super) type Scan<'a> = Box<dyn Iterator<Item = Result<Pair, StoreError>> + 'a>;

/// An ordered key-value engine with named trees.
pub(super) trait Engine: Send + Sync {
    /// The value under a key.
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The pairs of a tree within `from..to`, in order; not a snapshot.
    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a>;

    /// Applies a plan and its number, whole or not at all.
    fn apply(&self, number: u64, plan: &Plan) -> Result<(), StoreError>;

    /// The number of the last plan that was applied.
    fn applied(&self) -> Result<u64, StoreError>;

    /// Makes everything applied so far survive a power cut.
    fn sync(&self) -> Result<(), StoreError>;
}

/// The tree that holds the number of the last plan, and its key there.
const META: &str = "meta";
const APPLIED: &[u8] = b"applied";

/// sled's page cache. Its real use of memory is about 2.4 times this; hot reads do not need it.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// sled 0.34.7.
pub(super) struct SledEngine {
    trees: HashMap<TreeName, sled::Tree>,
    meta: sled::Tree,
    db: sled::Db,
    /// The same file that sled writes to: `flush` alone calls `sync_file_range`, which is no
    /// barrier against a power cut.
    file: Option<File>,
}

impl SledEngine {
    /// Opens the database in a directory of its own.
    pub(super) fn open(directory: &Path, schema: &Schema, sync: bool) -> Result<Self, StoreError> {
        let db = open_database(directory)?;
        let mut trees = HashMap::new();
        for name in schema.trees() {
            trees.insert(name, db.open_tree(name).map_err(engine_error)?);
        }
        let meta = db.open_tree(META).map_err(engine_error)?;
        let file = sync.then(|| File::open(data_file(directory))).transpose()?;
        Ok(Self {
            trees,
            meta,
            db,
            file,
        })
    }

    fn tree(&self, name: TreeName) -> Result<&sled::Tree, StoreError> {
        self.trees
            .get(name)
            .ok_or_else(|| StoreError::Engine(format!("no tree `{name}`")))
    }
}

/// How long a database that was just closed in this process may keep its file locked.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// Opens sled. Its own lock is released by threads of its own, some time after the last handle has
/// gone; no other process can hold it, since the data directory's lock is ours.
fn open_database(directory: &Path) -> Result<sled::Db, StoreError> {
    let since = Instant::now();
    loop {
        let opened = sled::Config::new()
            .path(directory)
            .cache_capacity(CACHE_BYTES)
            // The checkpoint flushes; a flusher of sled's own would only compete with the log.
            .flush_every_ms(None)
            .open();
        match opened {
            // The pinned version gives this error no kind of its own.
            Err(sled::Error::Io(error))
                if error.to_string().starts_with("could not acquire lock")
                    && since.elapsed() < RELEASE_WITHIN =>
            {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            other => return other.map_err(engine_error),
        }
    }
}

fn data_file(directory: &Path) -> PathBuf {
    directory.join("db")
}

fn engine_error(error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) => StoreError::from(error),
        other => StoreError::Engine(other.to_string()),
    }
}

impl Engine for SledEngine {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.tree(tree)?.get(key).map_err(engine_error)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        let tree = match self.tree(tree) {
            Ok(tree) => tree,
            Err(error) => return Box::new(std::iter::once(Err(error))),
        };
        let pairs = match to {
            // sled panics on a range that is turned round.
            Some(to) if from > to => return Box::new(std::iter::empty()),
            Some(to) => tree.range(from..to),
            None => tree.range(from..),
        };
        Box::new(pairs.map(|pair| {
            let (key, value) = pair.map_err(engine_error)?;
            Ok((key.to_vec(), value.to_vec()))
        }))
    }

    fn apply(&self, number: u64, plan: &Plan) -> Result<(), StoreError> {
        let mut trees = vec![self.meta.clone()];
        let mut mark = sled::Batch::default();
        mark.insert(APPLIED, &number.to_be_bytes());
        let mut batches = vec![mark];
        for (name, changes) in plan.trees() {
            let mut batch = sled::Batch::default();
            for (key, change) in changes {
                match change {
                    Some(value) => batch.insert(key.as_slice(), value.as_slice()),
                    None => batch.remove(key.as_slice()),
                }
            }
            trees.push(self.tree(name)?.clone());
            batches.push(batch);
        }
        // The closure may run more than once, and hangs if it touches a plain tree.
        trees
            .as_slice()
            .transaction(|trees: &Vec<TransactionalTree>| {
                for (tree, batch) in trees.iter().zip(&batches) {
                    tree.apply_batch(batch)?;
                }
                Ok::<(), ConflictableTransactionError<()>>(())
            })
            .map_err(|error| match error {
                TransactionError::Abort(()) => StoreError::Engine("aborted".to_owned()),
                TransactionError::Storage(error) => engine_error(error),
            })
    }

    fn applied(&self) -> Result<u64, StoreError> {
        let Some(value) = self.meta.get(APPLIED).map_err(engine_error)? else {
            return Ok(0);
        };
        <[u8; 8]>::try_from(value.as_ref())
            .map(u64::from_be_bytes)
            .map_err(|_| StoreError::Engine("the mark of the last plan is damaged".to_owned()))
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Never `flush_async`: it hangs with many writers.
        self.db.flush().map_err(engine_error)?;
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        Ok(())
    }
}
