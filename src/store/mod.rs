//! Typed tables over an ordered key-value engine, behind a write-ahead log (WAL).
//!
//! Each change is made by a closure on the single writer thread and becomes a write batch. The
//! writer commits waiting batches as a group: it appends them to the WAL, syncs once, updates the
//! [`CommitListener`]s in memory and answers. A second thread applies commits to the engine;
//! commits that the engine lacks are in the memtable, which every read checks first.
//!
//! The durable state is the newest verified snapshot plus the WAL. The engine is derived from it,
//! is verified at every start and is rebuilt if the two differ. This module must not know the meaning
//! of the tables.

mod commit;
mod engine;
mod error;
mod files;
mod key;
mod lock;
mod maintenance;
mod options;
mod record;
mod recovery;
pub mod replication;
mod shared;
mod snapshot;
mod table;
mod txn;
mod wal;
mod write_batch;

#[cfg(test)]
mod bulk_tests;
#[cfg(test)]
mod deferred_tests;
#[cfg(test)]
mod dump_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod missing_files_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod promise_tests;
#[cfg(test)]
mod recovery_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use parking_lot::{Mutex, RwLock};

pub use self::options::{FleetAccess, FormatUpgrade, Options, SnapshotClock};
pub use self::shared::{OnFailure, SnapshotMetadata, VerifySnapshot, Written};
pub use crate::store::commit::bulk::BulkWrites;
pub use crate::store::commit::derived::{Derived, TableWatch};
pub use crate::store::commit::memory_table::{Changed, CommitListener, MemoryTable};
pub use crate::store::commit::packed::PackedTable;
pub use crate::store::commit::writer::{Commit, Durability, SYNC_WITHIN};
pub use crate::store::maintenance::admin::{Import, SnapshotExport};
pub use crate::store::maintenance::backup::{
    BackupFile, Restore, Restored, check_snapshot, instance_of, list_backups,
};
pub use crate::store::maintenance::copy::{bytes_below, copy_store};
pub use crate::store::maintenance::disk_space::{NEEDS, WritePriority};
pub use crate::store::maintenance::dump::{Exported, Imported};
pub use crate::store::maintenance::join::{Join, check_unused};
pub use crate::store::maintenance::retention::{Retention, prune_backups};
pub use crate::store::recovery::layout::has_data;
pub use crate::store::recovery::loss::Loss;
pub use crate::store::recovery::salvage::{Salvaged, salvage};
pub use crate::store::snapshot::format::SnapshotHead;
pub use crate::store::snapshot::history::History;
pub use crate::store::snapshot::verify::{
    DurableStateReport, Found, SnapshotReport, TableReport, Verified,
};
pub use error::StoreError;
pub(crate) use files::{
    is_failed_sync, is_in_place, make_directory, open_file, replace_file, sync_data,
    sync_directory, sync_file,
};
pub use key::{All, Key, PrefixOf};
pub use lock::StoreLock;
#[cfg(test)]
pub use record::golden;
pub use record::{Record, VALUE_MAX, decode_note, encode_note, read as read_record};
pub use table::{Entries, Index, PrimaryKey, Schema, Table, TreeName, UpgradeStep};
pub use txn::Txn;

use self::replication::Replica;
use self::shared::{OnDisk, Shared};
use crate::store::commit::inbox::Crowd;
use crate::store::commit::threads::spawn;
use crate::store::commit::writer::{TransactionResult, Writer, WriterMessage};
use crate::store::maintenance::disk_space::Space;
use crate::store::maintenance::missing_files;
use crate::store::maintenance::thread::MaintenanceThread;
use crate::store::recovery::layout::StoreLayout;
use crate::store::recovery::opening::{Recovered, Recovery};
use crate::thread_priority;
use engine::MemoryEngine;
use wal::{CommitLog, FullLog, NoLog, Segments};
use write_batch::WriteBatch;

/// Maximum number of waiting commits; further ones fail with [`StoreError::Overloaded`].
const QUEUE_MAX: usize = 8_192;

/// A handle to the store. Dropping the last handle closes the store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    core: Arc<Shared>,
    inbox: SyncSender<WriterMessage>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop_maintenance: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    clock: SnapshotClock,
    lock: Option<StoreLock>,
}

impl Store {
    /// Opens the store of a directory, or creates it. Replays the WAL. A store of an older format is
    /// upgraded after a backup, if the options allow it.
    pub fn open(directory: &Path, schema: Schema, options: Options) -> Result<Self, StoreError> {
        let store = Self::open_without_upgrade(directory, schema.clone(), options.clone())?;
        if store.upgrade(&options)? {
            // Another process must not take the store between the two openings.
            let lock = store.lock();
            drop(store);
            return Self::open_without_upgrade(directory, schema, Options { lock, ..options });
        }
        Ok(store)
    }

    fn open_without_upgrade(
        directory: &Path,
        schema: Schema,
        options: Options,
    ) -> Result<Self, StoreError> {
        let layout = StoreLayout::new(directory, options.sync);
        let lock = (options.lock.clone()).map_or_else(|| layout.lock(), Ok)?;
        // A staged restore is installed before anything of the old state is read.
        layout.install_staged()?;
        options.fleet.admit(&layout)?;
        layout.report_missing_exchange();
        let identity = options.identity(&layout, &schema)?;
        let space = Space::new(directory);
        let rebuilt_from = Arc::default();
        let recovered = Recovery {
            layout: &layout,
            schema: &schema,
            on_failure: Arc::clone(&options.on_failure),
            identity,
            seed: options.timeline,
            accept_loss: options.accept_loss,
            fork: options.fleet == FleetAccess::Leave,
            backups: options.backups.as_deref(),
            make_room: &|| space.release(),
            max_wait: options.engine_timeout,
            rebuilt_from: Arc::clone(&rebuilt_from),
            needs_wal: options.fleet == FleetAccess::Member,
            held: None,
        }
        .run()?;
        // Recovery may have released the reserved space, so the watermarks are measured again.
        space.check();
        let Recovered {
            engine,
            log,
            number,
            snapshot,
            broken_chain,
            identity,
            loss,
        } = recovered;
        let segments = log.as_ref().map(wal::FileLog::segments);
        let prove = options.verify_snapshot.clone().unwrap_or_else(|| {
            let schema = schema.clone();
            Arc::new(move |path: &Path| check_snapshot(path, &schema).map(drop))
        });
        let disk = OnDisk {
            upgrade_is_reversible: AtomicBool::new(layout.upgrade_backup().exists()),
            layout,
            identity,
            space,
            segments: RwLock::new(segments.unwrap_or_else(Segments::default)),
            snapshot: Mutex::new(snapshot),
            verify_snapshot: prove,
            notes: options.notes,
            seed: options.timeline,
            rebuilt_from,
            loss,
        };
        let writable = log.is_some();
        let on_failure = Arc::clone(&options.on_failure);
        let core = Shared::new(schema, engine, options.on_failure, writable, Some(disk));
        if broken_chain {
            // Snapshot and WAL are not contiguous here: only the engine has every commit.
            crate::store::maintenance::new_snapshot::from_idle_engine(
                &core,
                number,
                (options.clock)(),
            )?;
            crate::store::maintenance::thread::checkpoint(&core)?;
        }
        // No WAL means that the disk is full or read-only: reads continue, and writes fail with `Full`.
        let log: Box<dyn CommitLog> = match log {
            Some(log) => Box::new(log),
            None => Box::new(FullLog),
        };
        let replica = (options.fleet == FleetAccess::Member).then(Replica::default);
        let clock = Arc::clone(&options.clock);
        let (store, messages) = Self::new(core, clock, Some(lock));
        store.start(log, number, replica, messages)?;
        store.start_maintenance(on_failure, options.backups)?;
        Ok(store)
    }

    #[must_use]
    pub fn in_memory(schema: Schema) -> Self {
        let Options {
            on_failure, clock, ..
        } = Options::default();
        let engine = Arc::new(MemoryEngine::default());
        let core = Shared::new(schema, engine, on_failure, true, None);
        let (store, messages) = Self::new(core, clock, None);
        if let Err(error) = store.start(Box::new(NoLog), 0, None, messages) {
            tracing::error!(%error, "a store in memory has no writer; every write fails");
        }
        store
    }

    /// Returns a store without threads, and the receiver of its messages.
    fn new(
        core: Shared,
        clock: SnapshotClock,
        lock: Option<StoreLock>,
    ) -> (Self, Receiver<WriterMessage>) {
        let (inbox, messages) = sync_channel(QUEUE_MAX);
        let store = Self(Arc::new(Inner {
            core: Arc::new(core),
            inbox,
            threads: Mutex::default(),
            stop_maintenance: Mutex::new(None),
            clock,
            lock,
        }));
        (store, messages)
    }

    fn start(
        &self,
        log: Box<dyn CommitLog>,
        number: u64,
        replica: Option<Replica>,
        messages: Receiver<WriterMessage>,
    ) -> Result<(), StoreError> {
        let core = &self.0.core;
        let writer = Writer {
            core: Arc::clone(core),
            log,
            listeners: HashMap::new(),
            number,
            unsynced: None,
            replica,
            crowd: Crowd::default(),
        };
        let applied = Arc::clone(core);
        // The writer comes last: without the apply thread it would wait for the memtable for ever.
        let apply = spawn("store-apply", core, move || applied.apply_loop())?;
        self.0.threads.lock().push(apply);
        let writer = spawn("store-writer", core, move || writer.run(&messages))
            // Otherwise the apply thread, which is joined when the store closes, would never end.
            .inspect_err(|_| core.memtable.end())?;
        self.0.threads.lock().push(writer);
        Ok(())
    }

    fn start_maintenance(
        &self,
        on_failure: OnFailure,
        backups: Option<PathBuf>,
    ) -> Result<(), StoreError> {
        let (stop, stopped) = channel();
        let keeper = MaintenanceThread {
            locks: self.0.lock.clone().into_iter().collect(),
            // Weak, so that the thread does not keep the store open.
            core: Arc::downgrade(&self.0.core),
            writer: self.0.inbox.clone(),
            on_failure,
            backups,
            clock: Arc::clone(&self.0.clock),
        };
        *self.0.stop_maintenance.lock() = Some(stop);
        let thread = spawn("store-keeper", &self.0.core, move || {
            thread_priority::lower();
            keeper.run(&stopped);
        })?;
        self.0.threads.lock().push(thread);
        Ok(())
    }

    /// Runs a closure on the writer thread and commits its changes if it returns `Ok`. The closure
    /// sees all earlier changes, including those of its own group that are not committed yet.
    pub fn write<T, E, F>(&self, class: Durability, batch: F) -> Commit<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<T, E> + Send + 'static,
    {
        self.write_for(WritePriority::Change, class, batch)
    }

    pub fn write_for<T, E, F>(
        &self,
        need: WritePriority,
        class: Durability,
        batch: F,
    ) -> Commit<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> Result<T, E> + Send + 'static,
    {
        let (sender, commit) = Commit::channel();
        // The sender is shared with the job, so that a rejected job can still be answered.
        let sender = Arc::new(Mutex::new(Some(sender)));
        let answer = Arc::clone(&sender);
        let reply = move |result| {
            if let Some(sender) = answer.lock().take() {
                // The receiver may have been dropped.
                let _ = sender.send(result);
            }
        };
        let core = Arc::clone(&self.0.core);
        let job = Box::new(move |mut txn: Txn<'_>| {
            let mut result = batch(&mut txn);
            // The check is here and not before the transaction, so that a transaction without changes is never rejected.
            if result.is_ok() && !txn.batch.is_empty() && !core.admits(need) {
                result = Err(StoreError::Full.into());
            }
            // A failed transaction commits and publishes nothing, but its caller is answered with the rest
            // of the group.
            let (batch, publications) = match &result {
                Ok(_) => (txn.batch, txn.publications),
                Err(_) => Default::default(),
            };
            let answer = Box::new(move |committed: Result<(), StoreError>| {
                reply(committed.map_err(E::from).and(result));
            });
            TransactionResult {
                batch,
                publications,
                answer,
            }
        });
        // A full queue rejects immediately: callers must not pile up behind a slow disk, and some of them
        // are runtime threads.
        let refused = match self.0.inbox.try_send(WriterMessage::Write(class, job)) {
            Ok(()) => return commit,
            Err(TrySendError::Full(_)) => StoreError::Overloaded,
            Err(TrySendError::Disconnected(_)) => StoreError::Closed,
        };
        if let Some(sender) = sender.lock().take() {
            let _ = sender.send(Err(refused.into()));
        }
        commit
    }

    /// Reads applied and pending commits. For rare reads only: the engine's read path is slow and
    /// may block. Not a consistent snapshot: two reads can see two states.
    pub fn read<R>(&self, read: impl FnOnce(&Txn<'_>) -> R) -> R {
        let nothing = WriteBatch::default();
        read(&Txn {
            shared: &self.0.core,
            group: &nothing,
            batch: WriteBatch::default(),
            publications: Vec::new(),
        })
    }

    /// Returns how many tables this version knows.
    #[must_use]
    pub fn tables(&self) -> u32 {
        self.0.core.schema.count()
    }

    /// The lock of the data directory; `None` for a store in memory.
    #[must_use]
    pub fn lock(&self) -> Option<StoreLock> {
        self.0.lock.clone()
    }

    #[must_use]
    pub fn written(&self) -> Written {
        self.0.core.counts.read()
    }

    /// Checks for the watchdog that the writer thread responds.
    pub fn probe(&self) -> Commit<(), StoreError> {
        let (sender, commit) = Commit::channel();
        let (message, refused) = match self.0.inbox.try_send(WriterMessage::Probe(sender)) {
            Ok(()) => return commit,
            // A full queue does not mean that the writer hangs, so it is a separate error.
            Err(TrySendError::Full(message)) => (message, StoreError::Overloaded),
            Err(TrySendError::Disconnected(message)) => (message, StoreError::Closed),
        };
        if let WriterMessage::Probe(sender) = message {
            let _ = sender.send(Err(refused));
        }
        commit
    }

    fn run_exclusive<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        crate::store::commit::writer::run_exclusive(&self.0.inbox, work)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // This comes first: the apply thread may be waiting for an engine that is not ready yet.
        self.core.engine().abandon();
        // The queue may be full. The writer empties it and then finds that all senders are gone.
        let _ = self.inbox.send(WriterMessage::Stop);
        // Dropping the sender ends the maintenance thread.
        self.stop_maintenance.lock().take();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
        // Without this, what a deleted WAL segment had would be lost now.
        let _ = missing_files::restore_at_end(&self.core, (self.clock)());
        // After a checkpoint the next start has nothing to replay. If it fails, the WAL still has every commit.
        let _ = crate::store::maintenance::thread::checkpoint(&self.core);
        tracing::debug!("store closed");
    }
}
