//! What the watch of etcd has told the threads of a member.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Watching {
    pub(super) is_live: AtomicBool,
    /// How many changes of the log, and of the claim, were told.
    heads: AtomicU64,
    claims: AtomicU64,
    pub(super) ended: Notify,
}

impl Watching {
    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::SeqCst)
    }

    pub(super) fn heads(&self) -> u64 {
        self.heads.load(Ordering::SeqCst)
    }

    pub(super) fn claims(&self) -> u64 {
        self.claims.load(Ordering::SeqCst)
    }

    pub(super) fn tell_head(&self) {
        self.heads.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn tell_claim(&self) {
        self.claims.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the watch.
    pub(super) fn end(&self) {
        self.is_live.store(false, Ordering::SeqCst);
        self.ended.notify_one();
    }
}
