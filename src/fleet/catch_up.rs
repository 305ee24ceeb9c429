//! Lets a request of a standby wait until the state of the standby is not older than the request.
//!
//! The standby [asks the owner](super::last_commit) for the number of its last commit. A state that includes this commit
//! includes every change that was acknowledged before the question. If the owner does not answer, the standby reads the
//! log. The owner appends a change before it acknowledges it. So a state that includes everything that the read found
//! includes every change that was acknowledged before the read began. All requests that wait share one question or read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

pub(super) struct CatchUp {
    /// Number of the last request.
    asked: AtomicU64,
    /// Number up to which the requests are answered.
    reached: watch::Sender<u64>,
    /// Number up to which the requests need a read of the log.
    needs_log: AtomicU64,
    /// Whether the owner is asked for its last commit, so that requests need no read of the log.
    asks_owner: AtomicBool,
    /// Notified of requests for which the owner is to be asked.
    waiting: Notify,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self {
            asked: AtomicU64::new(0),
            reached: watch::channel(0).0,
            needs_log: AtomicU64::new(0),
            asks_owner: AtomicBool::new(false),
            waiting: Notify::new(),
        }
    }
}

impl CatchUp {
    /// Begins to wait. Returns the number of the request, and whether it needs a read of the log.
    pub(super) fn ask(&self) -> (u64, bool) {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        // The order matters, see `stop_asking_owner`.
        let needs_log = !self.asks_owner.load(Ordering::SeqCst);
        match needs_log {
            true => self.require_log(number),
            false => self.waiting.notify_one(),
        }
        (number, needs_log)
    }

    /// Waits until there are requests for which the owner is to be asked.
    pub(super) async fn wait_for_request(&self) {
        self.waiting.notified().await;
    }

    pub(super) fn start_asking_owner(&self) {
        self.asks_owner.store(true, Ordering::SeqCst);
    }

    /// All requests need a read of the log from now on. A request that still relies on the owner has its number already.
    pub(super) fn stop_asking_owner(&self) {
        self.asks_owner.store(false, Ordering::SeqCst);
        self.require_log(self.asked());
    }

    pub(super) fn require_log(&self, number: u64) {
        self.needs_log.fetch_max(number, Ordering::SeqCst);
    }

    /// Whether requests after a number need a read of the log.
    pub(super) fn needs_log_after(&self, number: u64) -> bool {
        self.needs_log.load(Ordering::SeqCst) > number
    }

    /// Returns whether the state has caught up within the time.
    pub(super) async fn reached(&self, number: u64, within: Duration) -> bool {
        let mut reached = self.reached.subscribe();
        let waiting = reached.wait_for(|reached| *reached >= number);
        matches!(timeout(within, waiting).await, Ok(Ok(_)))
    }

    /// Number of the last request: those up to it are answered by a question or read that begins now.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Answers the requests up to a number. The state must have everything that a question or read found, which must have
    /// begun after [`asked`](Self::asked) returned the number.
    pub(super) fn reach(&self, number: u64) {
        self.reached.send_if_modified(|reached| {
            let is_newer = *reached < number;
            *reached = number.max(*reached);
            is_newer
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_request_waits_for_a_read_that_began_after_it() {
        let catch_up = CatchUp::default();
        let before = catch_up.asked();
        let (number, _) = catch_up.ask();
        catch_up.reach(before);
        assert!(!catch_up.reached(number, SHORT).await);
        let later = catch_up.asked();
        catch_up.reach(later);
        assert!(catch_up.reached(number, SHORT).await);
        // An older read that ends late takes nothing back.
        catch_up.reach(before);
        assert!(catch_up.reached(number, SHORT).await);
    }

    #[tokio::test]
    async fn a_request_that_waits_for_the_owner_needs_the_log_once_the_owner_does_not_answer() {
        let catch_up = CatchUp::default();
        let (first, needs_log) = catch_up.ask();
        assert!(needs_log && catch_up.needs_log_after(0));
        catch_up.start_asking_owner();
        let (second, needs_log) = catch_up.ask();
        assert!(!needs_log && !catch_up.needs_log_after(first));
        catch_up.wait_for_request().await;
        catch_up.stop_asking_owner();
        assert!(catch_up.needs_log_after(first) && !catch_up.needs_log_after(second));
        assert!(catch_up.ask().1);
    }
}
