//! Builds a store in the staging directory from a snapshot: a backup, or a copy from another fleet member.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::error::StoreError;
use crate::history::Lineage;
use crate::layout::{Identity, StoreLayout};
use crate::recovery::engines::make_engine;
use crate::snapshot::durable_state::DurableState;
use crate::snapshot::examine::{SnapshotReport, check_snapshot};
use crate::snapshot::format::{self, EXTENSION, Snapshot, SnapshotHead};
use crate::table::Tables;
use playgate_process::files::make_directory;

pub(super) struct Staging<'a> {
    pub(super) layout: &'a StoreLayout,
    pub(super) snapshot: &'a Path,
    pub(super) report: &'a SnapshotReport,
    pub(super) schema: &'a Tables,
}

impl Staging<'_> {
    /// Builds the store that `head` describes, in the format of the snapshot. The start that installs it upgrades an
    /// older format. The caller marks the store as complete.
    pub(super) fn build(&self, head: &SnapshotHead, lineage: Lineage) -> Result<(), StoreError> {
        let staged = self.layout.staged();
        let last = lineage.commit(head.number);
        staged.write_identity(&Identity {
            format: head.format,
            reached: head.format,
            instance: head.instance,
            lineage,
            begun: false,
        })?;
        make_directory(&staged.snapshots(), true)?;
        let name = format!("{:020}{EXTENSION}", head.number);
        let path = staged.snapshots().join(name);
        let pairs = Snapshot::open(self.snapshot, self.schema)?;
        // The staged snapshot is read back and compared with its source: a copy that lost a record must fail now.
        format::write(&path, head, pairs, true, &|path| {
            check_snapshot(path, self.schema)
                .and_then(|(_, copied)| self.report.check_same(&copied, path))
        })?;
        let state = DurableState {
            snapshot: Some(Snapshot::open(&path, self.schema)?),
            segments: Vec::new(),
            schema: self.schema,
            last,
        };
        let stop = AtomicBool::new(false);
        // The engine is read to its end as well: the next start would otherwise find the damage only after
        // the swap.
        make_engine(&staged.next_engine()?, &staged, state, &stop)?
            .verify(&AtomicU64::new(0), &stop)
    }
}
