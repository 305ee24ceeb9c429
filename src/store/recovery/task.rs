//! What a recovery is given, and what it returns.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::store::engine::Engine;
use crate::store::failure::OnFailure;
use crate::store::layout::{Identity, StoreLayout};
use crate::store::snapshot::format::SnapshotHead;
use crate::store::table::Tables;
use crate::store::wal::FileLog;

pub(in crate::store) struct Recovery<'a> {
    pub(in crate::store) layout: &'a StoreLayout,
    pub(in crate::store) schema: &'a Tables,
    pub(in crate::store) on_failure: OnFailure,
    pub(in crate::store) identity: Identity,
    pub(in crate::store) seed: [u8; 16],
    pub(in crate::store) accept_loss: bool,
    pub(in crate::store) fork: bool,
    pub(in crate::store) backups: Option<&'a Path>,
    /// Returns whether any space was released.
    pub(in crate::store) make_room: &'a dyn Fn() -> bool,
    pub(in crate::store) max_wait: Duration,
    pub(in crate::store) rebuilt_from: Arc<OnceLock<String>>,
    /// Whether a store that cannot be written is of no use: a member of a fleet could not follow the log.
    pub(in crate::store) needs_wal: bool,
    /// An engine that is already open, if only the WAL is missing.
    pub(in crate::store) held: Option<Opened>,
}

/// An engine that has every commit up to `number`.
pub(in crate::store) struct Opened {
    pub(in crate::store) engine: Arc<dyn Engine>,
    pub(in crate::store) number: u64,
}

pub(in crate::store) struct Recovered {
    pub(in crate::store) engine: Arc<dyn Engine>,
    /// `None` if the disk is not writable.
    pub(in crate::store) log: Option<FileLog>,
    pub(in crate::store) number: u64,
    pub(in crate::store) snapshot: Option<SnapshotHead>,
    /// Whether snapshot and WAL are not contiguous, so that a new snapshot is needed.
    pub(in crate::store) broken_chain: bool,
    pub(in crate::store) identity: Identity,
    pub(in crate::store) loss: Option<Loss>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub kept: u64,
    /// The last commit that is known to have existed; `None` if unknown.
    pub last: Option<u64>,
}

impl Loss {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_sub(self.kept))
    }
}
