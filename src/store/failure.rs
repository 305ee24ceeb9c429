//! The first fatal error of a store, and what is called then.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::StoreError;

/// Called at most once, when a write or sync has failed and the process has to restart.
pub type OnFailure = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// The first fatal error. After it the store guarantees nothing more.
pub(super) struct FatalError {
    first: Mutex<Option<StoreError>>,
    on_failure: OnFailure,
}

impl FatalError {
    pub(super) fn new(on_failure: OnFailure) -> Self {
        Self {
            first: Mutex::new(None),
            on_failure,
        }
    }

    pub(super) fn handler(&self) -> OnFailure {
        Arc::clone(&self.on_failure)
    }

    pub(super) fn get(&self) -> Option<StoreError> {
        self.first.lock().clone()
    }

    pub(super) fn report(&self, error: &StoreError) -> StoreError {
        let mut first = self.first.lock();
        if let Some(failed) = &*first {
            // Only the first failure is reported: the handler starts the shutdown, and later errors are its
            // consequences.
            return failed.clone();
        }
        let failed = match error {
            StoreError::Failed(_) => error.clone(),
            other => StoreError::Failed(other.to_string()),
        };
        *first = Some(failed.clone());
        // The lock is released before the handler runs, since the handler may call `get`.
        drop(first);
        (self.on_failure)(&failed);
        failed
    }
}
