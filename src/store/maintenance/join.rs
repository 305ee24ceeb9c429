//! Creates the store of a fleet member from a snapshot of another member.

use std::path::Path;

use crate::disk_space;
use crate::error::StoreError;
use crate::history::Lineage;
use crate::layout::{StoreLayout, check_format};
use crate::maintenance::staging::Staging;
use crate::replication::Position;
use crate::snapshot::examine::check_snapshot;
use crate::snapshot::format::SnapshotHead;
use crate::table::Tables;
use playgate_process::data_file::at;

pub struct Join<'a> {
    pub directory: &'a Path,
    pub snapshot: &'a Path,
    pub schema: &'a Tables,
    /// Instance id of the new store. It distinguishes its backups from those of the other member.
    pub instance: [u8; 16],
    /// Whether to replace an existing store, which is moved to `aside/`.
    pub replace: bool,
}

impl Join<'_> {
    /// Unpacks the snapshot. Unlike a restored store, the new one continues the numbers and the timeline of
    /// the snapshot, since it follows the same log.
    pub fn run(&self) -> Result<Position, StoreError> {
        let layout = StoreLayout::new(self.directory, true);
        let _lock = layout.lock()?;
        if layout.exists() && !self.replace {
            return Err(StoreError::NotEmpty);
        }
        // An existing store keeps its id, so that its backups still belong to it.
        let instance = layout
            .identity()
            .map_or(self.instance, |identity| identity.instance);
        layout.clear_staged()?;
        let (head, report) = check_snapshot(self.snapshot, self.schema)?;
        check_format(head.format, self.schema.format())?;
        if !head.history.is_chained() {
            let what = "has no chain digest, so that it fits no log";
            return Err(StoreError::damaged_file(self.snapshot, what));
        }
        let packed = std::fs::metadata(self.snapshot)
            .map_err(at("read", self.snapshot))?
            .len();
        // The space is for the snapshot and the engine.
        disk_space::require_free(self.directory, 4 * packed)?;
        let lineage = Lineage {
            current: head.history.timeline,
            ancestors: Vec::new(),
        };
        let local_head = SnapshotHead {
            instance,
            ..head.clone()
        };
        let staging = Staging {
            layout: &layout,
            snapshot: self.snapshot,
            report: &report,
            schema: self.schema,
        };
        staging.build(&local_head, lineage)?;
        layout.mark_staged_complete()?;
        layout.install_staged()?;
        Ok(Position {
            number: head.number,
            history: head.history,
        })
    }
}

pub fn check_unused(directory: &Path) -> Result<(), StoreError> {
    StoreLayout::new(directory, true).lock().map(drop)
}
