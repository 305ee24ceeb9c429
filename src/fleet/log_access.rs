//! Opens the connections of a process to etcd.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::etcd::{EtcdLog, EtcdSettings, Watermark};
use playgate_store::replication::{FleetId, SharedLogError};

pub(super) struct LogAccess {
    pub etcd: EtcdSettings,
    pub fleet: FleetId,
    pub lease: Duration,
    /// The process that claims the log.
    pub process: String,
    pub seen: Arc<Watermark>,
    pub runtime: Handle,
}

impl LogAccess {
    /// Every call fails once etcd is older than this member has seen it.
    pub(super) fn open(&self, timeout: Duration) -> Result<EtcdLog, SharedLogError> {
        let log = self.unguarded(self.fleet, timeout)?;
        let guarded = log.guarded(Arc::clone(&self.seen));
        Ok(guarded.for_process(&self.process))
    }

    pub(super) fn unguarded(
        &self,
        fleet: FleetId,
        timeout: Duration,
    ) -> Result<EtcdLog, SharedLogError> {
        let etcd = EtcdSettings {
            timeout,
            ..self.etcd.clone()
        };
        EtcdLog::new(&etcd, fleet, self.lease, self.runtime.clone())
    }
}
