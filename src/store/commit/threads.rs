//! Starts the threads of a store.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::engine::panic_message;
use crate::error::StoreError;
use crate::shared::Shared;

/// Starts a thread. If it panics, the store fails as a whole: without the thread nothing is
/// written, and memory may not match the promised commits.
pub(crate) fn spawn(
    name: &'static str,
    core: &Arc<Shared>,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // The reference is weak, so that a thread does not keep the shared state alive.
    let core = Arc::downgrade(core);
    let guarded = move || {
        let Err(panic) = catch_unwind(AssertUnwindSafe(work)) else {
            return;
        };
        if let Some(core) = core.upgrade() {
            let words = panic_message(&*panic);
            core.failure.report(&StoreError::Failed(format!(
                "the thread {name} panicked: {words}"
            )));
            // Wakes threads that wait for the memtable, so that the process can end.
            core.memtable.end();
        }
    };
    Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {name}: {error}")))
}
