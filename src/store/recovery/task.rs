//! What a recovery is given, and what it returns.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::engine::Engine;
use crate::failure::OnFailure;
use crate::layout::{Identity, StoreLayout};
use crate::snapshot::format::SnapshotHead;
use crate::table::Tables;
use crate::wal::FileLog;

pub(crate) struct Recovery<'a> {
    pub(crate) layout: &'a StoreLayout,
    pub(crate) schema: &'a Tables,
    pub(crate) on_failure: OnFailure,
    pub(crate) identity: Identity,
    pub(crate) seed: [u8; 16],
    pub(crate) accept_loss: bool,
    pub(crate) fork: bool,
    pub(crate) backups: Option<&'a Path>,
    /// Returns whether any space was released.
    pub(crate) make_room: &'a dyn Fn() -> bool,
    pub(crate) max_wait: Duration,
    pub(crate) rebuilt_from: Arc<OnceLock<String>>,
    /// Whether a store that cannot be written is of no use: a member of a fleet could not follow the log.
    pub(crate) needs_wal: bool,
    /// An engine that is already open, if only the WAL is missing.
    pub(crate) held: Option<Opened>,
}

/// An engine that has every commit up to `number`.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) number: u64,
}

pub(crate) struct Recovered {
    pub(crate) engine: Arc<dyn Engine>,
    /// `None` if the disk is not writable.
    pub(crate) log: Option<FileLog>,
    pub(crate) number: u64,
    pub(crate) snapshot: Option<SnapshotHead>,
    /// Whether snapshot and WAL are not contiguous, so that a new snapshot is needed.
    pub(crate) broken_chain: bool,
    pub(crate) identity: Identity,
    pub(crate) loss: Option<Loss>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub kept: u64,
    /// The last commit that is known to have existed; `None` if unknown.
    pub last: Option<u64>,
}

impl Loss {
    pub fn count(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_sub(self.kept))
    }
}
