//! The durable state: the newest snapshot plus the WAL. The engine is built from it and compared
//! with it, never the reverse, unless a part of it is lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::history::CommitId;
use crate::snapshot::format::{Snapshot, Triple};
use crate::snapshot::logged_changes::{DELETED, LoggedChange, LoggedChanges};
use crate::table::{Tables, TreeName};
use crate::wal::{Frame, Segment, payload_at, read_segment};
use crate::write_batch::{WriteBatch, visit};
use playgate_process::data_file::{self, at};

const BATCH_BYTES: usize = 1024 * 1024;
const REPLAY_BYTES: usize = 8 * 1024 * 1024;

/// Applies a batch and its commit id to an engine.
pub(crate) type ApplyBatch<'a> = dyn FnMut(CommitId, &WriteBatch) -> Result<(), StoreError> + 'a;

pub(crate) fn apply_to(
    engine: &dyn Engine,
) -> impl FnMut(CommitId, &WriteBatch) -> Result<(), StoreError> {
    |commit, batch| engine.apply(commit, batch)
}

pub(crate) struct DurableState<'a> {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) schema: &'a Tables,
    /// The last commit, in the timeline of the resulting store.
    pub(crate) last: CommitId,
}

struct ChangeLocation {
    segment: usize,
    offset: u64,
    length: usize,
}

impl ChangeLocation {
    fn from_change(change: LoggedChange) -> Option<Self> {
        (change.length != DELETED).then_some(Self {
            segment: usize::try_from(change.segment).unwrap_or(usize::MAX),
            offset: u64::from(change.offset),
            length: usize::from(change.length),
        })
    }
}

impl DurableState<'_> {
    fn begin(&self) -> u64 {
        self.snapshot
            .as_ref()
            .map_or(0, |snapshot| snapshot.head().number)
    }

    pub(crate) fn load(mut self, apply: &mut ApplyBatch<'_>) -> Result<(), StoreError> {
        let begin = self.begin();
        if let Some(snapshot) = self.snapshot.take() {
            let mut batch = WriteBatch::default();
            for pair in snapshot {
                let (tree, key, value) = pair?;
                batch.set(tree, key, Some(value));
                if batch.bytes() >= BATCH_BYTES {
                    // The number stays 0 until the snapshot is complete, so that an interrupted load is noticed.
                    let unfinished = self.last.at(0);
                    apply(unfinished, &std::mem::take(&mut batch))?;
                }
            }
            apply(self.last.at(begin), &batch)?;
        }
        replay(&self.segments, begin, self.last, self.schema, apply)
    }

    /// Iterates the pairs, sorted by tree and key.
    pub(crate) fn pairs(
        mut self,
    ) -> Result<impl Iterator<Item = Result<Triple, StoreError>>, StoreError> {
        // Only the positions of the changed values are held, so that the values need not fit into memory.
        let changed = self.changes()?.into_iter().flat_map(|(tree, changes)| {
            let sorted = changes.sort().into_entries();
            sorted.map(move |(key, change)| (tree, key, ChangeLocation::from_change(change)))
        });
        Ok(StateMerge {
            snapshot: self.snapshot.take().into_iter().flatten().peekable(),
            changed: changed.peekable(),
            segments: self.segments.iter().map(|s| s.path.clone()).collect(),
            open: None,
        })
    }

    fn changes(&self) -> Result<BTreeMap<TreeName, LoggedChanges>, StoreError> {
        let mut changes = BTreeMap::<TreeName, LoggedChanges>::new();
        let begin = self.begin();
        for (index, segment) in (0..).zip(&self.segments) {
            read_segment(segment, &mut |frame, at| {
                if frame.number <= begin || frame.number > self.last.number {
                    return Ok(());
                }
                visit_frame(&frame, at, self.schema, &mut |tree, key, value| {
                    changes.entry(tree).or_default().push(key, index, value)
                })
            })?;
        }
        Ok(changes)
    }
}

/// Calls `each` for every change of a frame that begins at `at`, with the place of its value in the segment. `None` from
/// `each` is damage.
pub(crate) fn visit_frame<'a>(
    frame: &Frame<'a>,
    at: usize,
    schema: &Tables,
    each: &mut dyn FnMut(TreeName, &'a [u8], Option<Range<usize>>) -> Option<()>,
) -> Result<(), StoreError> {
    // Positions are relative to the file, so that values are read without parsing the frame again.
    let payload = at + payload_at(0).start;
    let mut fits = true;
    let known = visit(frame.payload, schema, &mut |tree, key, value| {
        let value = value.map(|value| payload + value.start..payload + value.end);
        fits &= each(tree, key, value).is_some();
    });
    known.filter(|()| fits).ok_or_else(|| unknown(frame.number))
}

pub(crate) fn replay(
    segments: &[Segment],
    after: u64,
    last: CommitId,
    schema: &Tables,
    apply: &mut ApplyBatch<'_>,
) -> Result<(), StoreError> {
    // Segments are selected by content and not by the name of the next one: a failed roll can leave an empty file
    // whose name is the number of a frame in the segment before it.
    let mut batch = WriteBatch::default();
    let (mut reached, mut applied) = (after, after);
    for segment in segments.iter().filter(|segment| segment.end > after + 1) {
        read_segment(segment, &mut |frame, _| {
            if frame.number <= after || frame.number > last.number {
                // A batch that repeats an applied one would be harmless, but the engine's number must only grow.
                return Ok(());
            }
            let next =
                WriteBatch::decode(frame.payload, schema).ok_or_else(|| unknown(frame.number))?;
            batch.merge(next);
            reached = frame.number;
            // The more commits are applied at once, the more of their keys are neighbours.
            if batch.bytes() < REPLAY_BYTES {
                return Ok(());
            }
            applied = reached;
            apply(last.at(reached), &std::mem::take(&mut batch))
        })?;
    }
    if reached > applied {
        apply(last.at(reached), &batch)?;
    }
    Ok(())
}

pub(crate) fn unknown(number: u64) -> StoreError {
    StoreError::Damaged {
        place: format!("commit {number} of the log"),
        what: "cannot be decoded with the tables of this version".to_owned(),
    }
}

struct StateMerge<B: Iterator, C: Iterator> {
    snapshot: Peekable<B>,
    changed: Peekable<C>,
    segments: Vec<PathBuf>,
    open: Option<(usize, File)>,
}

impl<B, C> StateMerge<B, C>
where
    B: Iterator<Item = Result<Triple, StoreError>>,
    C: Iterator<Item = (TreeName, Vec<u8>, Option<ChangeLocation>)>,
{
    fn value(&mut self, place: &ChangeLocation) -> Result<Vec<u8>, StoreError> {
        // Only the file that was read last stays open.
        let open = self
            .open
            .take()
            .filter(|(index, _)| *index == place.segment);
        let (index, file) = match open {
            Some(open) => open,
            None => {
                let path = self.segments.get(place.segment).ok_or(StoreError::Closed)?;
                (place.segment, data_file::open_to_read(path)?)
            }
        };
        let mut value = vec![0; place.length];
        let read = file.read_exact_at(&mut value, place.offset);
        let path = self.segments.get(index).ok_or(StoreError::Closed)?;
        read.map_err(at("read", path))?;
        self.open = Some((index, file));
        Ok(value)
    }
}

impl<B, C> Iterator for StateMerge<B, C>
where
    B: Iterator<Item = Result<Triple, StoreError>>,
    C: Iterator<Item = (TreeName, Vec<u8>, Option<ChangeLocation>)>,
{
    type Item = Result<Triple, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let from_base = match (self.snapshot.peek(), self.changed.peek()) {
                (None, None) => return None,
                (Some(Ok((tree, key, _))), Some((t, k, _))) => (tree, key) < (t, k),
                (Some(_), _) => true,
                (None, Some(_)) => false,
            };
            if from_base {
                return self.snapshot.next();
            }
            let (tree, key, place) = self.changed.next()?;
            // A change replaces the snapshot's value of its key.
            self.snapshot
                .next_if(|pair| matches!(pair, Ok((t, k, _)) if (*t, k) == (tree, &key)));
            if let Some(place) = place {
                return Some(self.value(&place).map(|value| (tree, key, value)));
            }
        }
    }
}
