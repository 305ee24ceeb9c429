//! Stages of a graceful shutdown and their notification to connections and accept loops.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long responses announce the end of their connection before idle connections and listeners are closed.
/// A proxy that reuses a connection in the moment it is closed cannot know whether its request was served,
/// and reports an error.
pub(crate) const PARTING_TIME: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// HTTP/1 responses announce `Connection: close`; new connections are still served.
    LameDuck,
    /// New connections are refused; running requests finish.
    Draining,
    /// The deadline has passed; running requests are aborted.
    Aborting,
}

#[derive(Default)]
pub(crate) struct Shutdown {
    stage: AtomicU8,
    changed: Notify,
}

impl Shutdown {
    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            0 => Stage::Serving,
            1 => Stage::LameDuck,
            2 => Stage::Draining,
            _ => Stage::Aborting,
        }
    }

    pub(crate) async fn closed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed());
            // Registered before the stage is read: a change in between is not missed.
            changed.as_mut().enable();
            if self.stage() >= Stage::Draining {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    pub(crate) fn go_to(&self, stage: Stage) {
        let number = match stage {
            Stage::Serving => 0,
            Stage::LameDuck => 1,
            Stage::Draining => 2,
            Stage::Aborting => 3,
        };
        // Stored before the notification, so that a task that wakes reads the new stage.
        self.stage.store(number, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}
