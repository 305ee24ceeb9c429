//! Exports of users' data: one per user and few in all, on one thread of low priority.
//!
//! An export reads months of telemetry. Without a bound, a viewer with twenty connections keeps everybody from logging in.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use super::pool::WorkerPool;
use playgate_types::UserId;

const IN_ALL: usize = 2;

#[derive(Clone)]
pub struct ExportSlots {
    pool: Arc<WorkerPool<()>>,
    running: Arc<Mutex<HashSet<UserId>>>,
}

/// The right to run an export; dropping it ends the export.
pub struct ExportSlot {
    slots: ExportSlots,
    user: UserId,
    stopped: Arc<AtomicBool>,
}

/// The user has an export that runs, or others have all slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsTaken;

impl ExportSlots {
    pub fn new(pool: WorkerPool<()>) -> Self {
        Self {
            pool: Arc::new(pool),
            running: Arc::default(),
        }
    }

    pub fn take(&self, user: UserId) -> Result<ExportSlot, SlotsTaken> {
        let mut running = self.running.lock();
        if running.len() >= IN_ALL || !running.insert(user) {
            return Err(SlotsTaken);
        }
        Ok(ExportSlot {
            slots: self.clone(),
            user,
            stopped: Arc::default(),
        })
    }
}

impl ExportSlot {
    pub fn pool(&self) -> Arc<WorkerPool<()>> {
        Arc::clone(&self.slots.pool)
    }

    /// Set when the client has gone, so that a search in the middle of its files ends.
    pub fn stopped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stopped)
    }
}

impl Drop for ExportSlot {
    fn drop(&mut self) {
        self.stopped.store(true, Relaxed);
        self.slots.running.lock().remove(&self.user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_slot_and_all_users_have_few() {
        let slots = ExportSlots::new(WorkerPool::new("exports", 1, 4, || ()).unwrap());
        let user = |n: u8| UserId::from_bytes([n; 16]);
        let first = slots.take(user(1)).unwrap();
        assert!(slots.take(user(1)).is_err());
        let second = slots.take(user(2)).unwrap();
        assert!(slots.take(user(3)).is_err());
        let stopped = first.stopped();
        drop(first);
        assert!(stopped.load(Relaxed));
        assert!(slots.take(user(3)).is_ok());
        drop(second);
    }
}
