//! Ends the threads of a scope, also when the thread that waits for them panics. The crash tests and benchmarks use this
//! module too.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag when it is dropped. Without it a panic within `thread::scope` waits for ever for threads that run until
/// the flag is set.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
