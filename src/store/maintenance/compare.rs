//! Compares the engine with snapshot and WAL, and records with their indexes, while commits
//! continue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::commit::writer::{WriterMessage, last_number, run_exclusive};
use crate::engine::Digest;
use crate::error::StoreError;
use crate::maintenance::verify::DurableStateReport;
use crate::shared::{OnDisk, Shared};
use crate::snapshot::durable_state::{DurableState, unknown};
use crate::snapshot::examine::{DifferenceCounter, TableReport};
use crate::snapshot::format::Triple;
use crate::table::TreeName;
use crate::wal::read_segment;
use crate::write_batch::visit;

/// Keys of trees, with the checksums that their pairs must have.
type ExpectedRecord = BTreeMap<(TreeName, Vec<u8>), Option<Digest>>;

/// Up to this many keys are checked on the writer thread between two commits.
const KEYS_AT_ONCE_MAX: usize = 256;
/// After this many attempts, a larger number of keys is checked there too.
const ATTEMPTS_MAX: u32 = 16;

fn digest_of(key: &[u8], value: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.add(key, value);
    digest
}

/// Compares records and indexes of the durable state at one commit, and the engine with that state.
pub(crate) fn against_durable_state(
    core: &Arc<Shared>,
    disk: &OnDisk,
    writer: &SyncSender<WriterMessage>,
) -> Result<(Vec<TableReport>, DurableStateReport, bool), StoreError> {
    // The lock prevents that the files that are read here are retired and that the engine is replaced.
    let snapshot = disk.snapshot.lock();
    let number = last_number(writer)?;
    // Pending commits would count as differences. If the engine is stalled, `settle` reads them
    // again.
    let _ = core.memtable.reach(number);
    let mut report = DurableStateReport {
        snapshot: snapshot.as_ref().map(|snapshot| snapshot.number),
        number,
        rebuilt_from: disk.rebuilt_from.get().cloned(),
        ..DurableStateReport::default()
    };
    let mut counter = DifferenceCounter::new(&core.schema);
    let mut differing = ExpectedRecord::new();
    let compared = core
        .durable_state(snapshot.as_ref(), number)
        .and_then(DurableState::pairs)
        .and_then(|pairs| compare(core, pairs, &mut counter, &mut differing));
    match compared {
        Err(StoreError::Damaged { place, what }) => {
            report.damage = Some(format!("{place}: {what}"));
        }
        other => other?,
    }
    // The engine changes while it is read, so differing keys are read again and compared with the
    // durable state including later commits.
    compare_again(core, writer, differing, &mut report)?;
    let (tables, matched) = counter.finish();
    Ok((tables, report, matched))
}

fn compare(
    core: &Shared,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    counter: &mut DifferenceCounter<'_>,
    differing: &mut ExpectedRecord,
) -> Result<(), StoreError> {
    // A merge of two sorted sequences: the store may be larger than the memory.
    let mut pairs = pairs.peekable();
    let missing = |(tree, key, value): Triple,
                   counter: &mut DifferenceCounter<'_>,
                   all: &mut ExpectedRecord| {
        counter.add(tree, &key, &value)?;
        let digest = digest_of(&key, &value);
        all.insert((tree, key), Some(digest));
        Ok::<_, StoreError>(())
    };
    // The pairs of the durable state come in this order.
    let mut trees: Vec<_> = core.schema.trees().collect();
    trees.sort_unstable();
    let engine = core.engine();
    for tree in trees {
        for found in engine.scan(tree, &[], None) {
            let (key, value) = found?;
            while let Some(pair) =
                pairs.next_if(|pair| matches!(pair, Ok((t, k, _)) if (*t, k) < (tree, &key)))
            {
                missing(pair?, counter, differing)?;
            }
            match pairs.next_if(|pair| !matches!(pair, Ok((t, k, _)) if (*t, k) != (tree, &key))) {
                // Sound pairs are counted in passing; differing ones are counted as the durable state has them.
                Some(Ok(pair)) if pair.2 == value => counter.add(tree, &key, &value)?,
                Some(pair) => missing(pair?, counter, differing)?,
                None => drop(differing.insert((tree, key), None)),
            }
        }
    }
    for pair in pairs {
        missing(pair?, counter, differing)?;
    }
    Ok(())
}

/// Reports the keys that differ although they did not change during the read.
fn compare_again(
    core: &Arc<Shared>,
    writer: &SyncSender<WriterMessage>,
    mut expected: ExpectedRecord,
    report: &mut DurableStateReport,
) -> Result<(), StoreError> {
    let mut known = report.number;
    for _ in 0..ATTEMPTS_MAX {
        if expected.len() <= KEYS_AT_ONCE_MAX {
            break;
        }
        // A commit between the two numbers may have changed a key while it was read.
        let before = last_number(writer)?;
        let found = read_again(core, &expected)?;
        let after = last_number(writer)?;
        let touched = bring_forward(core, &mut expected, known, before, after)?;
        known = after;
        let settled = std::mem::take(&mut expected).into_iter().zip(found);
        for ((place, expected_value), found) in settled {
            if touched.contains(&place) {
                expected.insert(place, expected_value);
            } else {
                report.enter(place, expected_value, found);
            }
        }
    }
    if expected.is_empty() {
        return Ok(());
    }
    let core = Arc::clone(core);
    // Few keys are left. No commit can change them while they are compared on the writer thread.
    let settled = run_exclusive(writer, move |writer| {
        let number = writer.number;
        bring_forward(&core, &mut expected, known, number, number)?;
        let found = read_again(&core, &expected)?;
        Ok(expected.into_iter().zip(found).collect::<Vec<_>>())
    })?;
    for ((place, expected), found) in settled {
        report.enter(place, expected, found);
    }
    Ok(())
}

fn read_again(core: &Shared, expected: &ExpectedRecord) -> Result<Vec<Option<Digest>>, StoreError> {
    let read = |(tree, key): &(TreeName, Vec<u8>)| {
        let value = match core.memtable.get(tree, key) {
            Some(change) => change,
            // Fetched after the memtable was read, as for a transaction.
            None => core.engine().get(tree, key)?,
        };
        Ok(value.map(|value| digest_of(key, &value)))
    };
    expected.keys().map(read).collect()
}

/// Returns the keys that changed after commit `before`.
fn bring_forward(
    core: &Shared,
    expected: &mut ExpectedRecord,
    known: u64,
    before: u64,
    to: u64,
) -> Result<BTreeSet<(TreeName, Vec<u8>)>, StoreError> {
    let mut touched = BTreeSet::new();
    let segments = core.durable_state(None, to)?.segments;
    // Only the segments with newer commits are read.
    for segment in segments.iter().filter(|segment| segment.end > known + 1) {
        read_segment(segment, &mut |frame, _| {
            if frame.number <= known || frame.number > to {
                return Ok(());
            }
            let payload = frame.payload;
            visit(payload, &core.schema, &mut |tree, key, value| {
                let place = (tree, key.to_vec());
                if let Some(expected) = expected.get_mut(&place) {
                    let value = value.and_then(|at| payload.get(at));
                    *expected = value.map(|value| digest_of(key, value));
                    if frame.number > before {
                        touched.insert(place);
                    }
                }
            })
            .ok_or_else(|| unknown(frame.number))
        })?;
    }
    Ok(touched)
}
