//! Checks whether a verified engine belongs to this store, and opens a damaged engine without what it can do without.

use crate::engine::{Engine, leftovers};
use crate::error::StoreError;
use crate::history::{CommitId, Lineage};
use crate::layout::{EngineDir, StoreLayout};

/// Rejects an engine of another history. An engine that was copied from another store, or that is from before a restore,
/// can be intact and have the right number.
pub(crate) fn check_history(lineage: &Lineage, applied: CommitId) -> Result<(), StoreError> {
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
pub(crate) fn check_begun(
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

/// Tries to open an engine, and once more without the files that sled can recreate, which are often what it fails on.
pub(crate) fn retry_without_leftovers<R>(
    layout: &StoreLayout,
    directory: &EngineDir,
    mut open: impl FnMut() -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    match open() {
        Err(StoreError::Engine(why)) => {
            move_leftovers_aside(layout, directory, &why)?;
            open()
        }
        other => other,
    }
}

/// Moves aside files that sled can recreate but may fail on. Returns the error if there are none.
fn move_leftovers_aside(
    layout: &StoreLayout,
    directory: &EngineDir,
    why: &str,
) -> Result<(), StoreError> {
    let left = leftovers(&directory.path)?;
    if left.is_empty() {
        return Err(StoreError::Engine(why.to_owned()));
    }
    for path in left {
        let moved = layout.move_aside(&path, "snap")?;
        tracing::warn!(why, kept = %moved.display(), "moved a file of the engine aside");
    }
    Ok(())
}
