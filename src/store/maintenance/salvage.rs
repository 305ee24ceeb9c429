//! Salvage: exports everything readable from a store that cannot be opened.
//!
//! It reads the snapshot as far as possible and all undamaged commits of the WAL in order, and
//! lists what is missing. It changes nothing.

use std::io::Write;
use std::path::Path;

use crate::engine::{Engine as _, MemoryEngine};
use crate::error::StoreError;
use crate::history::CommitId;
use crate::layout::StoreLayout;
use crate::maintenance::dump::{self, Exported};
use crate::recovery::evidence::snapshots;
use crate::snapshot::format::Snapshot;
use crate::table::Tables;
use crate::wal::{Expected, StoredEnd, Survey, read_segment};
use crate::write_batch::WriteBatch;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    pub exported: Exported,
    pub missing: Vec<String>,
}

/// Exports the readable records of a store. No process may have the data directory open.
pub fn salvage(
    directory: &Path,
    schema: &Tables,
    out: &mut dyn Write,
) -> Result<Salvaged, StoreError> {
    // Nothing is written to the data directory.
    let layout = StoreLayout::new(directory, false);
    let _lock = layout.lock()?;
    let mut missing = Vec::new();
    let memory = MemoryEngine::default();
    let instance = layout
        // An unreadable identity does not matter, since the import creates a new one.
        .identity()
        .map_or([0; 16], |identity| identity.instance);
    let mut begin = 0;
    if let Some((head, path)) = snapshots(&layout.snapshots(), schema).into_iter().next() {
        begin = head.number;
        for pair in Snapshot::open(&path, schema)? {
            match pair {
                Ok((tree, key, value)) => {
                    let mut batch = WriteBatch::default();
                    batch.set(tree, key, Some(value));
                    memory.apply(CommitId::default().at(begin), &batch)?;
                }
                // The pairs read so far are sound, since each frame has a checksum.
                Err(error) => missing.push(format!("{error}; the rest of this file is missing")),
            }
        }
    } else {
        missing.push("no readable snapshot".to_owned());
    }
    let survey = Survey::read_directory(&layout.log(), &Expected::default())?;
    if let Some(first) = survey
        .segments
        .first()
        .filter(|first| first.first > begin + 1)
    {
        let (from, to) = (begin + 1, first.first - 1);
        missing.push(format!(
            "commits {from} to {to} are in neither snapshot nor WAL"
        ));
    }
    let gaps = survey.gaps.iter().filter(|gap| gap.to > begin + 1);
    missing.extend(gaps.map(|gap| format!("commits {} to {} are damaged", gap.from, gap.to - 1)));
    missing.extend(survey.foreign.iter().cloned());
    let end = StoredEnd::read(&layout.log_end())?;
    let last = survey.last().max(begin);
    // Without the end record a log that lost its end would look complete.
    if let Some(end) = end.end().filter(|end| end.written > last) {
        missing.push(format!(
            "commits {} to {} were written, but the WAL ends before them",
            last + 1,
            end.written
        ));
    }
    for segment in &survey.segments {
        read_segment(segment, &mut |frame, _| {
            // Frames from `next` on belong to another log.
            if frame.number <= begin || frame.number >= survey.next {
                return Ok(());
            }
            match WriteBatch::decode(frame.payload, schema) {
                Some(batch) => memory.apply(CommitId::default().at(frame.number), &batch)?,
                None => missing.push(format!(
                    "commit {} was written by another version",
                    frame.number
                )),
            }
            Ok(())
        })?;
    }
    let trees = schema.trees();
    let pairs = trees.flat_map(|tree| {
        memory
            .scan(tree, &[], None)
            .map(move |pair| pair.map(|(key, value)| (tree, key, value)))
    });
    Ok(Salvaged {
        exported: dump::write(pairs, schema, instance, out)?,
        missing,
    })
}
