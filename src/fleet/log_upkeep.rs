//! The owner's upkeep of the log in etcd: it removes old entries, and the history that etcd keeps of every key.

use std::time::{Duration, Instant};

use super::etcd::EtcdLog;
use super::retention::Retention;
use playgate_store::replication::{ReplicaStatus, SharedLog as _, SharedLogError};

/// How often history is compacted. Each time, that of before the last time goes: a reader that is a little behind needs it.
const COMPACT_EVERY: Duration = Duration::from_secs(30);
/// After a compaction without an answer.
const COMPACT_AGAIN_AFTER: Duration = Duration::from_secs(5);

pub(super) struct LogUpkeep {
    retention: Retention,
    /// When history is compacted next.
    due: Instant,
    /// The revision to compact to next time. At its start an owner compacts everything: no owner may have lived until
    /// its timer.
    next: Option<u64>,
}

impl LogUpkeep {
    pub(super) fn new(keep: u64, status: &ReplicaStatus) -> Self {
        Self {
            retention: Retention::new(keep, status.position.number),
            due: Instant::now(),
            next: None,
        }
    }

    /// Counts what was applied. Every member does that, so that a new owner knows it.
    pub(super) fn count(&mut self, status: &ReplicaStatus) {
        self.retention.count(status.position.number, status.bytes);
    }

    /// `revision` is one that etcd had a moment ago.
    pub(super) fn run(&mut self, log: &mut EtcdLog, revision: u64) {
        self.truncate(log);
        self.compact(log, revision);
    }

    fn truncate(&mut self, log: &mut EtcdLog) {
        // One window at a time, so that the claim and the appends of the owner do not wait for etcd.
        if let Some(window) = self.retention.window() {
            match log.entry_sizes(window.clone()) {
                Ok(sizes) => self.retention.measured(&window, &sizes),
                Err(error) => {
                    self.retention.shrink_window();
                    tracing::debug!(%error, "failed to measure the shared log");
                }
            }
        }
        let Some(below) = self.retention.cut() else {
            return;
        };
        match log.truncate(below) {
            Ok(()) => tracing::debug!(below, "truncated the shared log"),
            Err(error) => tracing::warn!(%error, "failed to truncate the shared log"),
        }
    }

    fn compact(&mut self, log: &mut EtcdLog, revision: u64) {
        if Instant::now() < self.due || revision == 0 {
            return;
        }
        let upto = self.next.unwrap_or(revision);
        match log.compact(upto) {
            Ok(()) => tracing::debug!(upto, "compacted the history of etcd"),
            Err(SharedLogError::Refused(why)) => {
                tracing::warn!(why, "etcd refuses to compact its history, and fills up");
            }
            Err(error) => {
                tracing::debug!(%error, "failed to compact the history of etcd");
                self.due = Instant::now() + COMPACT_AGAIN_AFTER;
                return;
            }
        }
        self.next = Some(revision);
        self.due = Instant::now() + COMPACT_EVERY;
    }
}
