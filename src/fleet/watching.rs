//! Lets the threads of a member wait for a change in etcd instead of reading all the time: one task
//! [watches](super::etcd::EtcdWatch) for both.
//!
//! Without a watch the threads read every [`TICK`](super::claim::TICK). With one they read when it tells something, and
//! otherwise seldom: a watch can stay silent although there are changes. A thread that finds such a change ends the watch,
//! and the next one is at another endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::claim::DriverState;
use super::etcd::{EtcdWatch, WatchEvent};

const RETRY_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct Watching {
    is_live: AtomicBool,
    /// How many changes of the log, and of the claim, were told.
    heads: AtomicU64,
    claims: AtomicU64,
    ended: Notify,
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

pub(super) async fn watch(shared: Arc<DriverState>, mut watch: EtcdWatch) {
    while !shared.is_stopping() {
        let watching = &shared.watching;
        let ended = tokio::select! {
            ended = watch.run(|event| tell(&shared, event)) => ended,
            () = watching.ended.notified() => "it did not tell a change".to_owned(),
        };
        watching.is_live.store(false, Ordering::SeqCst);
        // The threads find out what the watch has missed.
        shared.tell_head();
        shared.tell_claim();
        tracing::debug!(ended, "the watch of etcd ended");
        sleep(RETRY_INTERVAL).await;
    }
}

fn tell(shared: &DriverState, event: WatchEvent) {
    match event {
        WatchEvent::Ready => {
            shared.watching.is_live.store(true, Ordering::SeqCst);
            // There may have been changes before.
            shared.tell_head();
            shared.tell_claim();
        }
        WatchEvent::Head => shared.tell_head(),
        WatchEvent::Owner => shared.tell_claim(),
    }
}
