//! The threads of a store: a panic in one of them is a failure of all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::StoreError;
use super::engine::panic_message;
use super::shared::Shared;

/// Starts a thread of the store. A panic in it is a failure of the store: without its threads nothing
/// is written, and memory may be ahead of or behind what was promised.
pub(super) fn spawn(
    name: &'static str,
    core: &Arc<Shared>,
    work: impl FnOnce() + Send + 'static,
) -> Option<JoinHandle<()>> {
    // The keeper must not keep the core alive.
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
            core.tail.end();
        }
    };
    // Without the thread every write answers that the store is closed.
    Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .inspect_err(|error| tracing::error!(%error, name, "no thread could be started"))
        .ok()
}
