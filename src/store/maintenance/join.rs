//! Makes the store of a new member of a fleet from a snapshot of another member.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::store::files::make_directory;
use crate::store::maintenance::backup::check_snapshot;
use crate::store::maintenance::disk_space;
use crate::store::recovery::layout::{Identity, StoreLayout, check_format};
use crate::store::recovery::opening::make_engine;
use crate::store::replication::Position;
use crate::store::snapshot::durable_state::DurableState;
use crate::store::snapshot::format::{self, Snapshot, SnapshotHead};
use crate::store::snapshot::history::Lineage;
use crate::store::table::Schema;
use crate::store::{Store, StoreError};

pub struct Join<'a> {
    pub directory: &'a Path,
    pub snapshot: &'a Path,
    pub schema: &'a Schema,
    /// Of the new store. Its backups are not those of the other member.
    pub instance: [u8; 16],
}

impl Join<'_> {
    /// Unpacks the snapshot. Unlike a restored store, the new one continues the numbers and the timeline of
    /// the snapshot, since it follows the same log. The directory has no store.
    pub fn run(&self) -> Result<Position, StoreError> {
        let layout = StoreLayout::new(self.directory, true);
        let _lock = layout.lock()?;
        if layout.exists() {
            return Err(StoreError::NotEmpty);
        }
        layout.clear_staged()?;
        let (head, report) = check_snapshot(self.snapshot, self.schema)?;
        check_format(head.format, self.schema.format())?;
        if !head.history.is_chained() {
            return Err(StoreError::Damaged {
                place: self.snapshot.display().to_string(),
                what: "has no chain digest, so that it fits no log".to_owned(),
            });
        }
        let packed = std::fs::metadata(self.snapshot)?.len();
        // Snapshot and engine.
        disk_space::require_free(self.directory, 4 * packed)?;
        let staged = layout.staged();
        let lineage = Lineage {
            current: head.history.timeline,
            ancestors: Vec::new(),
        };
        let last = lineage.commit(head.number);
        staged.write_identity(&Identity {
            format: head.format,
            reached: head.format,
            instance: self.instance,
            lineage,
            begun: false,
        })?;
        make_directory(&staged.snapshots(), true)?;
        let path = staged
            .snapshots()
            .join(format!("{:020}.snapshot", head.number));
        let own = SnapshotHead {
            instance: self.instance,
            ..head.clone()
        };
        let pairs = Snapshot::open(self.snapshot, self.schema)?;
        format::write(&path, &own, pairs, true, &|path| {
            check_snapshot(path, self.schema)
                .and_then(|(_, copied)| report.check_same(&copied, path))
        })?;
        let state = DurableState {
            snapshot: Some(Snapshot::open(&path, self.schema)?),
            segments: Vec::new(),
            schema: self.schema,
            last,
        };
        let stop = AtomicBool::new(false);
        make_engine(&staged.next_engine()?, &staged, state, &stop)?
            .verify(&AtomicU64::new(0), &stop)?;
        layout.mark_staged_complete()?;
        layout.install_staged()?;
        Ok(Position {
            number: head.number,
            history: head.history,
        })
    }
}

impl Store {
    /// The last commit; `None` without a writable disk, or if its history is not known.
    pub fn position(&self) -> Result<Option<Position>, StoreError> {
        self.run_exclusive(|writer| {
            let history = writer.log.history().filter(|history| history.is_chained());
            Ok(history.map(|history| Position {
                number: writer.number,
                history,
            }))
        })
    }
}
