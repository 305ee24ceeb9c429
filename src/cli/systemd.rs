//! What the service manager is told (`sd_notify(3)`), if there is one: how the process stands, that it
//! needs more time, that it is alive.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{interval, sleep, timeout};

use crate::store::{Store, StoreError};

/// How long the process may take to begin again; the watchdog is not fed meanwhile.
const RESTART_TIME: Duration = Duration::from_secs(15 * 60);

/// That the process does what it is there for, and what there is to say about that.
pub fn notify_ready(status: &str) {
    let mut states = vec![NotifyState::Ready, NotifyState::Status(status)];
    // It was let off if the process has begun again.
    states.extend(sd_notify::watchdog_enabled().map(watchdog_every));
    notify(&states);
}

/// That it will be told of readiness once more.
pub fn notify_reloading() {
    reloading(&[]);
}

/// That the process begins again.
pub fn notify_restarting() {
    reloading(&[watchdog_every(RESTART_TIME)]);
}

/// That the process ends.
pub fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

/// That there is no service at present, and why. Nothing can hang meanwhile.
pub fn notify_maintenance(reason: &str) {
    let status = format!("in maintenance: {reason}");
    notify(&[
        NotifyState::Ready,
        NotifyState::Watchdog,
        NotifyState::Status(&status),
    ]);
}

/// Asks for more time while the store is opened, again and again: a damaged one is rebuilt from backup and
/// log, and nobody knows how long that takes. What hangs is found by the store itself.
pub async fn extend_timeout() {
    const EVERY: Duration = Duration::from_secs(10);
    loop {
        sleep(EVERY).await;
        notify_opening();
    }
}

/// That the store is opened, which may take long.
pub fn notify_opening() {
    const MORE_MICROS: u32 = 30_000_000;
    notify(&[
        NotifyState::ExtendTimeoutUsec(MORE_MICROS),
        NotifyState::Status("opening the store"),
    ]);
}

/// Feeds the watchdog while the runtime and the writer thread answer, on a full disk too. A writer that
/// hangs or has ended starves it.
pub async fn feed_watchdog(store: Store) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut tick = interval((limit / 3).max(Duration::from_millis(100)));
    let mut written = store.written();
    loop {
        tick.tick().await;
        let alive = match timeout(limit, store.probe()).await {
            Ok(Ok(())) => true,
            // Too many wait for it to be asked: they move on, or it hangs.
            Ok(Err(StoreError::Overloaded)) => store.written() != written,
            // It hangs, or has ended.
            Ok(Err(_)) | Err(_) => false,
        };
        written = store.written();
        if alive {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn reloading(more: &[NotifyState<'static>]) {
    // It compares the time with that of its own signal.
    let now = NotifyState::monotonic_usec_now().ok();
    let states: Vec<_> = [Some(NotifyState::Reloading), now]
        .into_iter()
        .flatten()
        .chain(more.iter().cloned())
        .collect();
    notify(&states);
}

fn watchdog_every(limit: Duration) -> NotifyState<'static> {
    NotifyState::WatchdogUsec(u32::try_from(limit.as_micros()).unwrap_or(u32::MAX))
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager there is nobody to tell.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
