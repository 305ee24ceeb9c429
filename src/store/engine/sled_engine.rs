//! The sled 0.34.7 engine; no other module uses sled. It follows the WAL and is synced at
//! checkpoints.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sled::Transactional as _;
use sled::transaction::{ConflictableTransactionError, TransactionError, TransactionalTree};

use super::{Digest, Engine, Scan};
use crate::error::StoreError;
use crate::history::CommitId;
use crate::table::{Tables, TreeName};
use crate::write_batch::{BatchPart, WriteBatch};
use playgate_process::data_file::{at, list as files_of, open_to_read};
use playgate_process::files::sync_data;

const META: &str = "meta";
const APPLIED: &[u8] = b"applied";
/// Stored apart from the number, since versions before timelines read only the number.
const TIMELINE: &[u8] = b"timeline";
/// Timeline and number of the last batch that was applied in parts.
const BEGUN: &[u8] = b"begun";

/// sled's page cache, in bytes of pages on disk; decoded they take about four times as much. It
/// holds the inner nodes of a store with millions of records. Hot reads do not need it, and leaves
/// are in the page cache of the operating system.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;

pub(crate) struct SledEngine {
    trees: HashMap<TreeName, sled::Tree>,
    meta: sled::Tree,
    /// Kept in memory, so that `apply` need not read them back.
    digests: Mutex<HashMap<TreeName, Digest>>,
    /// The stored value, so that it is written only when it changes.
    timeline: Mutex<[u8; 16]>,
    begun: Mutex<CommitId>,
    db: sled::Db,
    /// The file that sled writes to. `flush` only calls `sync_file_range`, which does not protect
    /// against a power cut, so the file is synced here as well.
    file: Option<(File, PathBuf)>,
}

impl SledEngine {
    pub(crate) fn open(directory: &Path, schema: &Tables, sync: bool) -> Result<Self, StoreError> {
        let db = open_database(directory)?;
        let mut trees = HashMap::new();
        // Trees are opened once: opening takes locks inside sled.
        for name in schema.trees() {
            trees.insert(name, db.open_tree(name).map_err(engine_error)?);
        }
        let meta = db.open_tree(META).map_err(engine_error)?;
        let mut digests = HashMap::new();
        for name in schema.trees() {
            digests.insert(name, stored_digest(&meta, name)?);
        }
        let timeline = stored_timeline(&meta)?;
        let begun = stored_begun(&meta)?;
        let path = data_file(directory);
        let file = match sync {
            true => Some((open_to_read(&path)?, path)),
            false => None,
        };
        Ok(Self {
            trees,
            meta,
            digests: Mutex::new(digests),
            timeline: Mutex::new(timeline),
            begun: Mutex::new(begun),
            db,
            file,
        })
    }

    /// Reads everything and compares it with the stored checksums, to detect lost, changed and
    /// reappeared pairs. `stop` ends it early with [`StoreError::Closed`].
    pub(crate) fn verify(&self, steps: &AtomicU64, stop: &AtomicBool) -> Result<(), StoreError> {
        for (name, tree) in &self.trees {
            let mut found = Digest::default();
            for pair in tree {
                let (key, value) = pair.map_err(engine_error)?;
                found.add(&key, &value);
                // Each pair counts as progress, or a large tree would look like a hang.
                steps.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    return Err(StoreError::Closed);
                }
            }
            let noted = stored_digest(&self.meta, name)?;
            if found != noted {
                return Err(StoreError::Engine(format!(
                    "tree `{name}`: checksum mismatch ({} pairs found, {} recorded)",
                    found.count, noted.count
                )));
            }
        }
        Ok(())
    }

    /// Loads changes into a new engine without a transaction: sled has one lock for the transactions of all databases of a
    /// process, and a transaction would make reads of the current engine wait for milliseconds. Nobody reads the new engine
    /// before [`SledEngine::finish_load`]; if that is not reached, the engine is discarded.
    pub(crate) fn load_part(&self, part: &BatchPart<'_>) -> Result<(), StoreError> {
        let mut digests = self.digests.lock();
        for changes in part.changes.chunk_by(|(a, ..), (b, ..)| a == b) {
            let name = changes.first().map_or("", |(name, ..)| *name);
            let tree = self.tree(name)?;
            let digest = digests.entry(name).or_default();
            apply_changes(changes, digest, |key, change| match change {
                Some(value) => tree.insert(key, value),
                None => tree.remove(key),
            })
            .map_err(engine_error)?;
        }
        Ok(())
    }

    /// Stores the checksums of the trees and the id of the last commit.
    pub(crate) fn finish_load(&self, commit: CommitId) -> Result<(), StoreError> {
        for (name, digest) in &*self.digests.lock() {
            let digest = digest.to_bytes();
            let stored = self.meta.insert(digest_key(name), digest.as_slice());
            stored.map_err(engine_error)?;
        }
        // An empty batch stores the commit id only.
        self.apply(commit, &WriteBatch::default())
    }

    fn tree(&self, name: TreeName) -> Result<&sled::Tree, StoreError> {
        self.trees
            .get(name)
            .ok_or_else(|| StoreError::Engine(format!("no tree `{name}`")))
    }
}

/// Applies changes of one tree with `apply`, which returns the replaced value, and updates the checksum of the tree.
fn apply_changes<E>(
    changes: &[(TreeName, &[u8], Option<&[u8]>)],
    digest: &mut Digest,
    mut apply: impl FnMut(&[u8], Option<&[u8]>) -> Result<Option<sled::IVec>, E>,
) -> Result<(), E> {
    for (_, key, change) in changes {
        if let Some(value) = change {
            digest.add(key, value);
        }
        // The replaced value comes from the tree, so that replaying a commit again does not falsify the checksum.
        if let Some(old) = apply(key, *change)? {
            digest.remove(key, &old);
        }
    }
    Ok(())
}

fn stored_digest(meta: &sled::Tree, name: TreeName) -> Result<Digest, StoreError> {
    let value = meta.get(digest_key(name)).map_err(engine_error)?;
    value
        // A tree without a stored checksum is new and must be empty.
        .map_or(Some(Digest::default()), |value| Digest::from_bytes(&value))
        .ok_or_else(|| StoreError::Engine(format!("the checksum of `{name}` is damaged")))
}

fn stored_timeline(meta: &sled::Tree) -> Result<[u8; 16], StoreError> {
    let value = meta.get(TIMELINE).map_err(engine_error)?;
    value
        // Zeros stand for an unknown timeline.
        .map_or(Ok([0; 16]), |value| <[u8; 16]>::try_from(value.as_ref()))
        .map_err(|_| StoreError::Engine("the timeline of the engine is damaged".to_owned()))
}

fn stored_begun(meta: &sled::Tree) -> Result<CommitId, StoreError> {
    let Some(value) = meta.get(BEGUN).map_err(engine_error)? else {
        return Ok(CommitId::default());
    };
    let value = <[u8; 24]>::try_from(value.as_ref()).ok();
    let parts = value.and_then(|value| {
        let (timeline, number) = value.split_first_chunk::<16>()?;
        Some(CommitId {
            timeline: *timeline,
            number: u64::from_be_bytes(*number.first_chunk()?),
        })
    });
    parts.ok_or_else(|| StoreError::Engine("the mark of a begun batch is damaged".to_owned()))
}

fn digest_key(name: TreeName) -> String {
    format!("digest:{name}")
}

/// How long a database that was just closed in this process may keep its file locked.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// sled's threads release its lock some time after the last handle is dropped. No other process can
/// hold it, since this one holds the lock of the data directory.
fn open_database(directory: &Path) -> Result<sled::Db, StoreError> {
    let since = Instant::now();
    loop {
        let opened = sled::Config::new()
            .path(directory)
            .cache_capacity(CACHE_BYTES)
            // Checkpoints flush. A flusher thread of sled would only compete with the WAL.
            .flush_every_ms(None)
            .open();
        match opened {
            Err(sled::Error::Io(error))
                if is_locked(&error) && since.elapsed() < RELEASE_WITHIN =>
            {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            other => return other.map_err(|error| unusable(error, directory)),
        }
    }
}

/// Files of another user, or other entries in their place, make the engine as useless as damage does: it is rebuilt
/// elsewhere.
fn unusable(error: sled::Error, directory: &Path) -> StoreError {
    match error {
        sled::Error::Io(error) if !is_locked(&error) => {
            match StoreError::from(at("open", directory)(error)) {
                StoreError::Io(why) => StoreError::Engine(why),
                other => other,
            }
        }
        other => engine_error(other),
    }
}

fn is_locked(error: &std::io::Error) -> bool {
    // The pinned version has no separate error kind for this.
    error.to_string().starts_with("could not acquire lock")
}

fn data_file(directory: &Path) -> PathBuf {
    directory.join("db")
}

/// Returns sled's snapshot files, which can be incomplete or damaged. sled recreates them from its
/// own log.
pub(crate) fn leftovers(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    for entry in files_of(directory)? {
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

const EIO: i32 = 5;

fn engine_error(error: sled::Error) -> StoreError {
    match error {
        // A file that cannot be read or written is treated as damaged and rebuilt elsewhere.
        sled::Error::Io(error) if error.raw_os_error() == Some(EIO) => {
            StoreError::Engine(error.to_string())
        }
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
            // sled panics on a reversed range.
            Some(to) if from > to => return Box::new(std::iter::empty()),
            Some(to) => tree.range(from..to),
            None => tree.range(from..),
        };
        Box::new(pairs.map(|pair| {
            let (key, value) = pair.map_err(engine_error)?;
            Ok((key.to_vec(), value.to_vec()))
        }))
    }

    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
        // Changes, checksums and commit number form one transaction, so that a crash leaves all or none of
        // them.
        let mut trees = vec![self.meta.clone()];
        let mut parts = Vec::new();
        let mut digests = self.digests.lock();
        let mut timeline = self.timeline.lock();
        let mut begun = self.begun.lock();
        let enters = commit.timeline != *timeline;
        // The mark is written with the first of several parts, so that no part is ever stored without it.
        let begins = !part.is_last && *begun != commit;
        for changes in part.changes.chunk_by(|(a, ..), (b, ..)| a == b) {
            let name = changes.first().map_or("", |(name, ..)| *name);
            trees.push(self.tree(name)?.clone());
            let digest = digests.get(name).copied().unwrap_or_default();
            parts.push((name, changes, digest));
        }
        // The closure may run more than once, and hangs if it accesses a tree outside the
        // transaction.
        let changed = trees
            .as_slice()
            .transaction(|trees: &Vec<TransactionalTree>| {
                let Some((meta, trees)) = trees.split_first() else {
                    return Ok(Vec::new());
                };
                let mut changed = Vec::with_capacity(parts.len());
                for (tree, (name, changes, digest)) in trees.iter().zip(&parts) {
                    let mut digest = *digest;
                    apply_changes(changes, &mut digest, |key, change| match change {
                        Some(value) => tree.insert(key, value),
                        None => tree.remove(key),
                    })?;
                    meta.insert(digest_key(name).as_bytes(), digest.to_bytes().as_slice())?;
                    changed.push((*name, digest));
                }
                if begins {
                    let number = commit.number.to_be_bytes();
                    meta.insert(BEGUN, [&commit.timeline[..], &number].concat())?;
                }
                if part.is_last {
                    meta.insert(APPLIED, commit.number.to_be_bytes().as_slice())?;
                    if enters {
                        meta.insert(TIMELINE, commit.timeline.as_slice())?;
                    }
                }
                Ok::<_, ConflictableTransactionError<()>>(changed)
            })
            .map_err(|error| match error {
                TransactionError::Abort(()) => StoreError::Engine("aborted".to_owned()),
                TransactionError::Storage(error) => engine_error(error),
            })?;
        // The checksums in memory change only after the transaction, whose closure may run more than once.
        digests.extend(changed);
        match part.is_last {
            true => *timeline = commit.timeline,
            false => *begun = commit,
        }
        Ok(())
    }

    fn begun(&self) -> Option<CommitId> {
        let begun = *self.begun.lock();
        let applied = self.applied().ok()?;
        (begun.number > applied.number).then_some(begun)
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        // An engine without a number is new.
        let Some(value) = self.meta.get(APPLIED).map_err(engine_error)? else {
            return Ok(CommitId::default());
        };
        let number = <[u8; 8]>::try_from(value.as_ref()).map_err(|_| {
            StoreError::Engine("the number of the last write batch is damaged".to_owned())
        })?;
        Ok(CommitId {
            timeline: *self.timeline.lock(),
            number: u64::from_be_bytes(number),
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Never `flush_async`: it hangs with many writers.
        self.db.flush().map_err(engine_error)?;
        if let Some((file, path)) = &self.file {
            sync_data(file, path)?;
        }
        Ok(())
    }
}

/// Changes an engine's files directly, like damage that sled does not detect.
#[cfg(test)]
pub(crate) fn tamper(directory: &Path, tree: TreeName, key: &[u8], value: Option<&[u8]>) {
    let db = open_database(directory).unwrap();
    let tree = db.open_tree(tree).unwrap();
    match value {
        None => tree.remove(key).unwrap(),
        Some(value) => tree.insert(key, value).unwrap(),
    };
    db.flush().unwrap();
}
