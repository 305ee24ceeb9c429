//! Notifications to systemd (`sd_notify(3)`): state, start-up time-out and watchdog.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use playgate_store::{Store, StoreError};

const RESTART_TIME: Duration = Duration::from_secs(15 * 60);

pub(crate) fn notify_ready(status: &str) {
    let mut states = vec![NotifyState::Ready, NotifyState::Status(status)];
    // A restart has set the watchdog to a longer time.
    states.extend(sd_notify::watchdog_enabled().map(watchdog_every));
    notify(&states);
}

pub(crate) fn notify_reloading() {
    reloading(&[]);
}

pub(crate) fn notify_restarting() {
    // Nobody feeds the watchdog until the new program is ready.
    reloading(&[watchdog_every(RESTART_TIME)]);
}

pub(crate) fn notify_stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports maintenance mode and its reason, and feeds the watchdog. The caller repeats it every few seconds.
pub(crate) fn notify_maintenance(reason: &str) {
    let status = format!("maintenance mode: {reason}");
    notify(&[
        NotifyState::Ready,
        NotifyState::Watchdog,
        NotifyState::Status(&status),
    ]);
}

/// Reports that the start takes longer, until the task is aborted.
pub(crate) fn extend_timeout(status: &'static str) -> JoinHandle<()> {
    const INTERVAL: Duration = Duration::from_secs(10);
    // Three times the interval of the reports, so that one late report does not end the start.
    const MORE_MICROS: u32 = 30_000_000;
    tokio::spawn(async move {
        loop {
            notify(&[
                NotifyState::ExtendTimeoutUsec(MORE_MICROS),
                NotifyState::Status(status),
            ]);
            sleep(INTERVAL).await;
        }
    })
}

/// Notifies the watchdog while the runtime and the writer thread respond, even on a full disk. A writer
/// that hangs or has ended lets the watchdog expire.
pub(crate) async fn feed_watchdog(store: Store) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    // Two notices may be late before the watchdog expires.
    let mut tick = interval((limit / 3).max(Duration::from_millis(100)));
    let mut written = store.written();
    loop {
        tick.tick().await;
        let alive = match timeout(limit, store.probe()).await {
            Ok(Ok(())) => true,
            // The queue is full: check that it makes progress.
            Ok(Err(StoreError::Overloaded)) => store.written() != written,
            // The writer hangs or has ended.
            Ok(Err(_)) | Err(_) => false,
        };
        written = store.written();
        if alive {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn reloading(more: &[NotifyState<'static>]) {
    // systemd compares this time with that of its own signal.
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
    // Without systemd this does nothing.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "failed to notify the service manager");
    }
}
