//! The handle of an open store: transactions and reads, listeners, and what an operator asks about its state.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::commit::derived::TableWatch;
use crate::commit::memory_table::{CommitListener, Decoding, MemoryTable, TableListener};
use crate::commit::packed::PackedTable;
use crate::commit::writer::{self, Commit, Durability, TransactionResult, Writer, WriterMessage};
use crate::disk_space::WritePriority;
use crate::error::StoreError;
use crate::lock::StoreLock;
use crate::recovery::task::Loss;
use crate::replication::Position;
use crate::shared::{Shared, SnapshotClock, Written};
use crate::table::{Table, TreeName};
use crate::txn::Txn;
use crate::write_batch::WriteBatch;

/// Maximum number of waiting commits; further ones fail with [`StoreError::Overloaded`].
const QUEUE_MAX: usize = 8_192;

/// A handle to the store. Dropping the last handle closes the store.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

/// What the clones of a handle share.
pub(crate) struct Inner {
    pub(crate) core: Arc<Shared>,
    pub(crate) inbox: SyncSender<WriterMessage>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) stop_maintenance: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    pub(crate) clock: SnapshotClock,
    pub(crate) lock: Option<StoreLock>,
}

impl Store {
    /// Returns a store without threads, and the receiver of its messages.
    pub(crate) fn new(
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
    pub fn tables(&self) -> u32 {
        self.0.core.schema.count()
    }

    /// The lock of the data directory; `None` for a store in memory.
    #[must_use]
    pub fn lock(&self) -> Option<StoreLock> {
        self.0.lock.clone()
    }

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

    pub fn watch(&self, trees: &[TreeName]) -> Result<Arc<TableWatch>, StoreError> {
        let watch = Arc::new(TableWatch::default());
        let (trees, listener) = (trees.to_vec(), Arc::clone(&watch));
        self.run_exclusive(move |writer| {
            for tree in trees {
                let listeners = writer.listeners.entry(tree).or_default();
                listeners.push(Arc::clone(&listener) as _);
            }
            Ok(())
        })?;
        Ok(watch)
    }

    /// Fills a listener from its table and keeps it up to date. Damaged records are logged and skipped;
    /// a record of a newer version is an error.
    pub fn attach<T: Table>(&self, listener: Arc<dyn CommitListener<T>>) -> Result<(), StoreError> {
        self.listen(T::NAME, Arc::new(Decoding(listener)))
    }

    /// Like [`Store::attach`]. Transactions also read the records of the table from the memory table.
    pub fn attach_memory_table<T: Table>(
        &self,
        table: Arc<MemoryTable<T>>,
    ) -> Result<(), StoreError>
    where
        T::Key: Hash,
        T::Record: Clone,
    {
        self.attach::<T>(Arc::clone(&table) as _)?;
        self.0.core.copies.register::<T>(table);
        Ok(())
    }

    /// Like [`Store::attach_memory_table`].
    pub fn attach_packed_table<T: Table, V>(
        &self,
        table: Arc<PackedTable<T, V>>,
    ) -> Result<(), StoreError>
    where
        T::Key: Hash,
        V: Send + Sync + 'static,
    {
        self.listen(T::NAME, Arc::clone(&table) as _)?;
        self.0.core.copies.register::<T>(table);
        Ok(())
    }

    fn listen(&self, tree: TreeName, listener: Arc<dyn TableListener>) -> Result<(), StoreError> {
        // The work runs exclusively, so that no commit falls between the fill and the registration below.
        self.run_exclusive(move |writer| {
            // The memtable is read before the engine: a commit that is applied in between is then seen twice and
            // never missed.
            let tail = writer.core.memtable.range(tree, &[], None);
            let engine = writer.core.engine();
            let mut filled = Ok(());
            engine.replay_tree(tree, &mut |changes| {
                if filled.is_ok() {
                    filled = listener.apply(changes);
                }
            })?;
            // An error ends the start: a table without the records that this version cannot read would give wrong answers.
            filled?;
            // The memtable is applied after the engine, since its values are newer.
            let tail = tail.iter();
            listener.apply(&mut tail.map(|(key, change)| (key.as_slice(), change.as_deref())))?;
            writer.listeners.entry(tree).or_default().push(listener);
            Ok(())
        })
    }

    pub fn admits(&self, need: WritePriority) -> Result<(), StoreError> {
        if self.0.core.admits(need) {
            Ok(())
        } else {
            Err(StoreError::Full)
        }
    }

    pub fn is_writable(&self) -> bool {
        self.0.core.is_writable()
    }

    /// Returns the highest priority that is rejected at present. All lower ones are rejected too.
    pub fn refuses(&self) -> Option<WritePriority> {
        self.0.core.disk.as_ref()?.space.refuses()
    }

    pub fn space(&self) -> Option<(u64, u64)> {
        Some(self.0.core.disk.as_ref()?.space.bytes())
    }

    /// Checks whether `bytes` may be written to other files on the store's disk, and counts them.
    pub fn admits_bytes(&self, need: WritePriority, bytes: u64) -> Result<(), StoreError> {
        let disk = self.0.core.disk.as_ref();
        match disk.is_none_or(|disk| disk.space.admits_bytes(need, bytes)) {
            true => Ok(()),
            false => Err(StoreError::Full),
        }
    }

    pub fn loss(&self) -> Option<Loss> {
        self.0.core.disk.as_ref()?.loss.clone()
    }

    /// Returns the last commit; `None` without a writable disk, or if its history is unknown.
    pub fn position(&self) -> Result<Option<Position>, StoreError> {
        self.run_exclusive(|writer| {
            let history = writer.log.history().filter(|history| history.is_chained());
            Ok(history.map(|history| Position {
                number: writer.number,
                history,
            }))
        })
    }

    pub(crate) fn run_exclusive<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        writer::run_exclusive(&self.0.inbox, work)
    }
}
