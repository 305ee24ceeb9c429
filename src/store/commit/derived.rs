//! State in memory that is derived from whole tables and takes too long to derive on the writer
//! thread, such as the schedule with its rendered answers.
//!
//! A service that changes the tables derives the next state first and passes it to its transaction
//! with [`Txn::publish`]. The commit publishes the state, or drops it if the commit fails, so that
//! memory never shows a change that is not durable and never misses one that is. A commit that
//! changes the tables without a derived state, such as one from another process, makes the state stale.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::commit::memory_table::TableListener;
use crate::error::StoreError;
use crate::txn::Txn;
use crate::write_batch::RawChange;

#[derive(Default)]
pub struct TableWatch(AtomicBool);

impl TableListener for TableWatch {
    fn apply(&self, _: &mut dyn Iterator<Item = RawChange<'_>>) -> Result<(), StoreError> {
        self.0.store(true, Ordering::Release);
        Ok(())
    }
}

pub struct Derived<V> {
    current: ArcSwap<V>,
    generation: AtomicU64,
    watch: Arc<TableWatch>,
    is_deriving: AtomicBool,
}

impl<V: Send + Sync + 'static> Derived<V> {
    /// The watch must be older than the read that `first` is derived from: a commit in between then
    /// makes the state stale and is not missed.
    pub fn new(first: V, watch: Arc<TableWatch>) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(first),
            generation: AtomicU64::new(0),
            watch,
            is_deriving: AtomicBool::new(false),
        })
    }

    pub fn load(&self) -> Guard<Arc<V>> {
        self.current.load()
    }

    pub fn load_full(&self) -> Arc<V> {
        self.current.load_full()
    }

    /// Counts the published states. An answer computed after reading a generation is at least as new
    /// as that generation.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the state includes every commit so far.
    pub fn is_current(&self) -> bool {
        // In this order: `catch_up` sets the second mark before it clears the first one.
        !self.watch.0.load(Ordering::Acquire) && !self.is_deriving.load(Ordering::Acquire)
    }

    /// Publishes a state that was derived from the same commits in another way, such as for a later day.
    pub fn replace(&self, next: Arc<V>) {
        self.current.store(next);
        // The number changes after the state, so that a reader of the new number also gets the new state.
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Derives the state again if a commit has made it stale. Returns whether it was stale. The caller
    /// must prevent other changes of the tables by this process.
    pub fn catch_up<E>(&self, derive: impl FnOnce() -> Result<V, E>) -> Result<bool, E> {
        self.catch_up_then(derive, || Ok(()))
    }

    /// Like [`catch_up`](Self::catch_up). The state counts as current only after `then`, which derives something else from
    /// it.
    pub fn catch_up_then<E>(
        &self,
        derive: impl FnOnce() -> Result<V, E>,
        then: impl FnOnce() -> Result<(), E>,
    ) -> Result<bool, E> {
        self.is_deriving.store(true, Ordering::Release);
        // The mark is cleared before the tables are read, so that a commit during the read sets it again.
        let is_stale = self.watch.0.swap(false, Ordering::AcqRel);
        let caught_up = match is_stale {
            false => Ok(false),
            true => derive().and_then(|next| {
                self.replace(Arc::new(next));
                then().map(|()| true)
            }),
        };
        if caught_up.is_err() {
            self.watch.0.store(true, Ordering::Release);
        }
        self.is_deriving.store(false, Ordering::Release);
        caught_up
    }
}

impl Txn<'_> {
    /// Publishes `next` with this transaction: after the sync and before the answer. A transaction
    /// without changes publishes nothing. `next` must include everything that was committed to its
    /// tables before. The caller keeps a reference to the replaced state until the answer, so that
    /// the writer thread does not have to free it.
    pub fn publish<V: Send + Sync + 'static>(&mut self, derived: &Arc<Derived<V>>, next: Arc<V>) {
        let derived = Arc::clone(derived);
        self.publications.push(Box::new(move || {
            derived.replace(next);
            // The table listeners of this commit have just marked the state as stale, because of this very change.
            derived.watch.0.store(false, Ordering::Release);
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{People, all, person, put, schema};
    use crate::{Durability, Store, Table as _};

    fn derived(store: &Store) -> Arc<Derived<usize>> {
        let watch = store.watch(&[People::NAME]).unwrap();
        Derived::new(all(store).len(), watch)
    }

    fn count(store: &Store) -> impl FnOnce() -> Result<usize, StoreError> {
        let people = all(store).len();
        move || Ok(people)
    }

    #[test]
    fn commit_publishes_the_derived_state_before_its_answer() {
        let store = Store::in_memory(schema());
        let derived = derived(&store);
        let next = Arc::clone(&derived);
        let seen = store.write(Durability::Durable, move |txn| {
            txn.put::<People>(&1, &person("Lund", 30))?;
            txn.publish(&next, Arc::new(1));
            // The new state is not published yet, since the commit can still fail.
            Ok::<_, StoreError>(*next.load_full())
        });
        assert_eq!(seen.wait(), Ok(0));
        assert_eq!((*derived.load_full(), derived.generation()), (1, 1));
        // The state is not stale: the commit that changed the table also published it.
        assert_eq!(derived.catch_up(count(&store)), Ok(false));
    }

    #[test]
    fn failed_transaction_publishes_nothing() {
        let store = Store::in_memory(schema());
        let derived = derived(&store);
        let next = Arc::clone(&derived);
        let failed = store.write(Durability::Durable, move |txn| {
            txn.put::<People>(&1, &person("Lund", 30))?;
            txn.publish(&next, Arc::new(1));
            Err::<(), _>(StoreError::Closed)
        });
        assert_eq!(failed.wait(), Err(StoreError::Closed));
        assert_eq!((*derived.load_full(), derived.generation()), (0, 0));
    }

    #[test]
    fn transaction_without_changes_publishes_nothing_in_a_group_with_changes() {
        let store = Store::in_memory(schema());
        let derived = derived(&store);
        // Both transactions below wait for this one, which puts them into its group.
        let (release, released) = std::sync::mpsc::channel::<()>();
        let held = store.write(Durability::Durable, move |_| {
            Ok::<_, StoreError>(released.recv().is_ok())
        });
        let changed = store.write(Durability::Durable, |txn| {
            txn.put::<People>(&1, &person("Lund", 30))
        });
        let next = Arc::clone(&derived);
        let unchanged = store.write(Durability::Durable, move |txn| {
            txn.publish(&next, Arc::new(7));
            Ok::<_, StoreError>(())
        });
        release.send(()).unwrap();
        assert_eq!(held.wait(), Ok(true));
        assert_eq!((changed.wait(), unchanged.wait()), (Ok(()), Ok(())));
        assert_eq!(*derived.load_full(), 0);
        assert_eq!(derived.catch_up(count(&store)), Ok(true));
    }

    #[test]
    fn commit_without_a_derived_state_makes_it_stale_until_it_is_derived_again() {
        let store = Store::in_memory(schema());
        let derived = derived(&store);
        put(&store, 1, person("Lund", 30)).unwrap();
        assert_eq!(*derived.load_full(), 0);
        // A failed attempt is repeated.
        let failed = derived.catch_up(|| Err(StoreError::Closed));
        assert_eq!(failed, Err(StoreError::Closed));
        assert_eq!(derived.catch_up(count(&store)), Ok(true));
        assert_eq!(*derived.load_full(), 1);
        assert_eq!(derived.catch_up(count(&store)), Ok(false));
    }

    #[test]
    fn a_state_is_current_only_after_what_is_derived_from_it() {
        let store = Store::in_memory(schema());
        let derived = derived(&store);
        assert!(derived.is_current());
        put(&store, 1, person("Lund", 30)).unwrap();
        assert!(!derived.is_current());
        let failed = derived.catch_up_then(count(&store), || Err(StoreError::Closed));
        assert_eq!(failed, Err(StoreError::Closed));
        assert!(!derived.is_current());
        let then = || {
            assert_eq!(*derived.load_full(), 1);
            assert!(!derived.is_current());
            Ok(())
        };
        assert_eq!(derived.catch_up_then(count(&store), then), Ok(true));
        assert!(derived.is_current());
    }
}
