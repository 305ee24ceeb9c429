//! Opens a store, with its threads, and closes it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use parking_lot::{Mutex, RwLock};

use crate::commit::crowd::Crowd;
use crate::commit::threads::spawn;
use crate::commit::writer::{Writer, WriterMessage};
use crate::disk_space::Space;
use crate::engine::MemoryEngine;
use crate::error::StoreError;
use crate::failure::OnFailure;
use crate::handle::{Inner, Store};
use crate::layout::StoreLayout;
use crate::maintenance::checkpoint::checkpoint;
use crate::maintenance::thread::MaintenanceThread;
use crate::maintenance::{missing_files, new_snapshot};
use crate::options::{FleetAccess, Options};
use crate::recovery::task::{Recovered, Recovery};
use crate::replication::Replica;
use crate::schema::Schema;
use crate::shared::{OnDisk, Shared};
use crate::snapshot::examine::check_snapshot;
use crate::table::Tables;
use crate::wal::{CommitLog, FileLog, FullLog, NoLog, Segments};
use playgate_process::thread_priority;

impl Store {
    /// Opens the store of a directory, or creates it. Replays the WAL. A store of an older format is
    /// upgraded after a backup, if the options allow it.
    pub fn open(directory: &Path, schema: Schema, options: Options) -> Result<Self, StoreError> {
        let store = Self::open_without_upgrade(directory, &schema, options.clone())?;
        if store.upgrade(&schema, &options)? {
            // Another process must not take the store between the two openings.
            let lock = store.lock();
            drop(store);
            return Self::open_without_upgrade(directory, &schema, Options { lock, ..options });
        }
        Ok(store)
    }

    fn open_without_upgrade(
        directory: &Path,
        schema: &Tables,
        options: Options,
    ) -> Result<Self, StoreError> {
        let layout = StoreLayout::new(directory, options.sync);
        let lock = (options.lock.clone()).map_or_else(|| layout.lock(), Ok)?;
        // A staged restore is installed before anything of the old state is read.
        layout.install_staged()?;
        options.fleet.admit(&layout)?;
        layout.report_missing_exchange();
        let identity = options.identity(&layout, schema)?;
        let space = Space::new(directory);
        let rebuilt_from = Arc::default();
        let recovered = Recovery {
            layout: &layout,
            schema,
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
        let segments = log.as_ref().map(FileLog::segments);
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
        let core = Shared::new(
            schema.clone(),
            engine,
            options.on_failure,
            writable,
            Some(disk),
        );
        if broken_chain {
            // Snapshot and WAL are not contiguous here: only the engine has every commit.
            new_snapshot::from_idle_engine(&core, number, (options.clock)())?;
            checkpoint(&core)?;
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

    pub fn in_memory(schema: Schema) -> Self {
        let Options {
            on_failure, clock, ..
        } = Options::default();
        let engine = Arc::new(MemoryEngine::default());
        let core = Shared::new(Tables::clone(&schema), engine, on_failure, true, None);
        let (store, messages) = Self::new(core, clock, None);
        if let Err(error) = store.start(Box::new(NoLog), 0, None, messages) {
            tracing::error!(%error, "a store in memory has no writer; every write fails");
        }
        store
    }

    pub(crate) fn start(
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
        let _ = checkpoint(&self.core);
        tracing::debug!("store closed");
    }
}
