//! Lets the threads of a member wait for a change in etcd instead of reading all the time: one task
//! [watches](super::etcd::EtcdWatch) for both.
//!
//! Without a watch the threads read every [`TICK`](super::claim::TICK). With one they read when it tells something, and
//! otherwise seldom: a watch can stay silent although there are changes. A thread that finds such a change ends the watch,
//! and the next one is at another endpoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::claim::DriverState;
use super::etcd::{EtcdWatch, WatchEvent};

const RETRY_INTERVAL: Duration = Duration::from_millis(200);

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
