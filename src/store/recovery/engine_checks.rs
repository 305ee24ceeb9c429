//! Checks whether a verified engine belongs to this store.

use crate::store::StoreError;
use crate::store::engine::Engine;
use crate::store::recovery::layout::EngineDir;
use crate::store::snapshot::history::{CommitId, Lineage};

/// Rejects an engine of another history. An engine that was copied from another store, or that is from before a restore,
/// can be intact and have the right number.
pub(in crate::store) fn check_history(
    lineage: &Lineage,
    applied: CommitId,
) -> Result<(), StoreError> {
    if lineage.holds_engine(applied) {
        return Ok(());
    }
    Err(StoreError::Engine(format!(
        "is at commit {} of another history",
        applied.number
    )))
}

/// Rejects an engine that has a part of later commits: it matches neither its own number nor the log. It is marked as
/// suspect immediately, because the log will soon have other commits with these numbers.
pub(in crate::store) fn check_begun(
    lineage: &Lineage,
    engine: &dyn Engine,
    last: u64,
    directory: Option<&EngineDir>,
) -> Result<(), StoreError> {
    let lost = |begun: &CommitId| begun.number > last || !lineage.holds_engine(*begun);
    let Some(begun) = engine.begun().filter(lost) else {
        return Ok(());
    };
    let why = format!(
        "has a part of the commits up to {}, and the log ends at {last}",
        begun.number
    );
    if let Some(directory) = directory {
        directory.mark_suspect(&why)?;
    }
    Err(StoreError::Engine(why))
}
