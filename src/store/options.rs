//! How a store is opened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::StoreError;
use crate::failure::OnFailure;
use crate::history::Lineage;
use crate::layout::{Identity, StoreLayout, check_format};
use crate::lock::StoreLock;
use crate::shared::{SnapshotClock, SnapshotMetadata, VerifySnapshot};
use crate::table::Tables;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatUpgrade {
    Run,
    Refuse,
}

impl FormatUpgrade {
    pub(super) fn admit(self, identity: &Identity, format: u32) -> Result<(), StoreError> {
        // `reached` is compared and not `format`: an interrupted upgrade must not be continued either.
        if self == Self::Run || identity.reached >= format {
            return Ok(());
        }
        Err(StoreError::Older {
            found: identity.reached,
            known: format,
        })
    }
}

/// Controls whether the store of a fleet member may be opened. A change that only this process writes would make
/// the store differ from those of the other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetAccess {
    Refuse,
    /// Rejects every commit until [`Store::replicate`](crate::Store::replicate).
    Member,
    /// Opens the store of a member that leaves its fleet, and begins a new timeline.
    Leave,
}

impl FleetAccess {
    pub(super) fn admit(self, layout: &StoreLayout) -> Result<(), StoreError> {
        match self {
            Self::Refuse if layout.fleet_member().exists() => Err(StoreError::InFleet),
            // An empty store would begin a history that no other member has.
            Self::Member if !layout.is_initialised() => Err(StoreError::NotJoined),
            Self::Refuse | Self::Member | Self::Leave => Ok(()),
        }
    }
}

#[derive(Clone)]
pub struct Options {
    /// The lock of the directory, if the caller holds it already.
    pub lock: Option<StoreLock>,
    /// Whether writes are synced. Only the control runs of durability tests turn this off.
    pub sync: bool,
    pub on_failure: OnFailure,
    pub clock: SnapshotClock,
    pub instance: [u8; 16],
    /// Random seed from which new timeline ids are derived.
    pub timeline: [u8; 16],
    /// Opens the store even if commits are lost, without them. Only an operator may decide this;
    /// the server never sets it.
    pub accept_loss: bool,
    pub upgrade: FormatUpgrade,
    pub fleet: FleetAccess,
    pub notes: SnapshotMetadata,
    /// Verifies a newly written snapshot; the default reads it in this process.
    pub verify_snapshot: Option<VerifySnapshot>,
    /// Backup directory, searched for a snapshot if the store's own is missing.
    pub backups: Option<PathBuf>,
    /// How long [`Store::open`](crate::Store::open) waits for the engine to be verified or rebuilt. After that,
    /// the work continues in the background, and reads are answered from snapshot and WAL.
    pub engine_timeout: Duration,
}

impl Options {
    /// Returns the identity of the store, or begins a store.
    pub(super) fn identity(
        &self,
        layout: &StoreLayout,
        schema: &Tables,
    ) -> Result<Identity, StoreError> {
        if layout.is_initialised() {
            let identity = layout.identity()?;
            check_format(identity.format, schema.format())?;
            // This check comes before any replay, so that a refused store is not changed.
            self.upgrade.admit(&identity, schema.format())?;
            return Ok(identity);
        }
        let identity = Identity {
            format: schema.format(),
            reached: schema.format(),
            instance: self.instance,
            lineage: Lineage::new(self.timeline, self.instance, 0),
            begun: false,
        };
        // The identity is written first: every later file names it, so a crash in between leaves an empty
        // store and not a foreign one.
        layout.check_same_store(&identity)?;
        layout.write_identity(&identity)?;
        Ok(identity)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lock: None,
            sync: true,
            on_failure: Arc::new(
                |error| tracing::error!(%error, "the store has failed; the next start recovers it"),
            ),
            clock: Arc::new(|| 0),
            instance: [0; 16],
            timeline: [0; 16],
            accept_loss: false,
            upgrade: FormatUpgrade::Run,
            fleet: FleetAccess::Refuse,
            notes: Arc::new(BTreeMap::new),
            verify_snapshot: None,
            backups: None,
            engine_timeout: Duration::from_secs(60),
        }
    }
}
