//! Recognises an etcd that was restored from an older copy, or replaced: its cluster has another id, or its revision is
//! lower than one that this member has seen.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::gateway::number;

/// The cluster id of etcd and the highest revision that this member has seen. All connections of a process share it.
#[derive(Debug, Default)]
pub struct Watermark {
    /// 0: not known yet.
    cluster: AtomicU64,
    revision: AtomicU64,
}

impl Watermark {
    pub const fn new(cluster: u64, revision: u64) -> Self {
        Self {
            cluster: AtomicU64::new(cluster),
            revision: AtomicU64::new(revision),
        }
    }

    pub fn cluster(&self) -> u64 {
        self.cluster.load(Ordering::Acquire)
    }

    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Compares the answer to a linearizable call with `before`, the revision when the call was sent: answers of two
    /// connections may arrive in another order than they were made. Raises the watermark, or returns what differs.
    pub(super) fn check(&self, before: u64, answer: &Value) -> Result<(), String> {
        let cluster = number(answer.pointer("/header/cluster_id"));
        let revision = number(answer.pointer("/header/revision"));
        let known = self.cluster();
        if known != 0 && cluster != known {
            return Err(format!(
                "etcd has the cluster id {cluster:x}, and this member knows {known:x}"
            ));
        }
        if revision < before {
            return Err(format!(
                "etcd is at revision {revision}, and this member has seen {before}"
            ));
        }
        self.cluster.store(cluster, Ordering::Release);
        self.revision.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(cluster: &str, revision: &str) -> Value {
        json!({ "header": { "cluster_id": cluster, "revision": revision } })
    }

    #[test]
    fn another_cluster_or_a_lower_revision_is_a_restore() {
        let seen = Watermark::default();
        assert_eq!(seen.check(0, &answer("14841639068965178418", "7")), Ok(()));
        assert_eq!(seen.revision(), 7);
        // A read that was sent before the last one, and answered after it.
        assert_eq!(seen.check(5, &answer("14841639068965178418", "6")), Ok(()));
        assert_eq!(seen.revision(), 7);
        let lower = seen.check(7, &answer("14841639068965178418", "6"));
        assert!(lower.unwrap_err().contains("at revision 6"));
        let other = seen.check(7, &answer("5", "9"));
        assert!(other.unwrap_err().contains("the cluster id 5"));
        assert_eq!(seen.revision(), 7);
    }
}
