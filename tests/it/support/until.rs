//! Waits for an event in another thread or process, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::process::LIMIT;

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_some(what, || is_so().then_some(()));
}

/// Waits for a value.
pub fn until_some<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    until_some_within(LIMIT, what, find)
}

/// Like [`until_some`], with another deadline.
pub fn until_some_within<T>(limit: Duration, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        let waited = began.elapsed();
        assert!(waited < limit, "waited {limit:?} for {what}");
        // Many conditions start a process, so the interval grows with the time waited.
        let interval = (waited / 20).clamp(Duration::from_millis(20), Duration::from_millis(250));
        thread::park_timeout(interval);
    }
}
