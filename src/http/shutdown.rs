//! The end of the service, told to whatever serves.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long answers say that their connection ends, before idle connections are closed and no new ones
/// are taken. A proxy that sends a request into a connection that is just being closed cannot know
/// whether it was served, and fails it; after this time its busy connections have ended by an answer.
pub(super) const PARTING_TIME: Duration = Duration::from_millis(300);

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Serving,
    /// Every answer of HTTP/1 is the last of its connection; whoever comes is served.
    LameDuck,
    /// No new connections; running requests finish.
    Draining,
    /// The time is over.
    Aborting,
}

/// Tells connections that the end has come.
#[derive(Default)]
pub(super) struct Shutdown {
    stage: AtomicU8,
    changed: Notify,
}

impl Shutdown {
    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            0 => Stage::Serving,
            1 => Stage::LameDuck,
            2 => Stage::Draining,
            _ => Stage::Aborting,
        }
    }

    /// Ends when nobody else is let in.
    pub(super) async fn closed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed());
            changed.as_mut().enable();
            if self.stage() >= Stage::Draining {
                return;
            }
            changed.await;
        }
    }

    /// Ends when the stage changes after this call.
    pub(super) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn go_to(&self, stage: Stage) {
        let number = match stage {
            Stage::Serving => 0,
            Stage::LameDuck => 1,
            Stage::Draining => 2,
            Stage::Aborting => 3,
        };
        self.stage.store(number, Ordering::SeqCst);
        self.changed.notify_waiters();
    }
}
