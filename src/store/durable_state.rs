//! What base and log say together: everything that was ever promised. The engine is made from it,
//! compared with it, and never the other way round, unless a part of it is gone.

use std::collections::BTreeMap;
use std::fs::File;
use std::iter::Peekable;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::StoreError;
use super::engine::Engine;
use super::snapshot::{Snapshot, Triple};
use super::table::{Schema, TreeName};
use super::wal::{Segment, payload_at, read_segment};
use super::write_batch::{WriteBatch, visit};

/// Pairs that are put into an engine at a time.
const BATCH_BYTES: usize = 1024 * 1024;

/// A base and the segments that follow it.
pub(super) struct DurableState<'a> {
    pub(super) base: Option<Snapshot>,
    pub(super) segments: Vec<Segment>,
    pub(super) schema: &'a Schema,
    /// The number of the last commit that counts.
    pub(super) number: u64,
}

/// Where a value lies in the log.
struct Place {
    segment: usize,
    offset: u64,
    length: usize,
}

type Changes = BTreeMap<TreeName, BTreeMap<Vec<u8>, Option<Place>>>;

impl DurableState<'_> {
    fn begin(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.head().number)
    }

    /// Puts everything into an engine that is empty.
    pub(super) fn load(mut self, engine: &dyn Engine) -> Result<(), StoreError> {
        let begin = self.begin();
        if let Some(base) = self.base.take() {
            let mut plan = WriteBatch::default();
            for pair in base {
                let (tree, key, value) = pair?;
                plan.set(tree, key, Some(value));
                if plan.bytes() >= BATCH_BYTES {
                    engine.apply(0, &std::mem::take(&mut plan))?;
                }
            }
            engine.apply(begin, &plan)?;
        }
        replay(&self.segments, begin, self.number, self.schema, engine)
    }

    /// Every pair, sorted by tree and key. What the log changed is found first, by place alone, so
    /// that the values need not fit into memory.
    pub(super) fn pairs(
        mut self,
    ) -> Result<impl Iterator<Item = Result<Triple, StoreError>>, StoreError> {
        let changes = self.changes()?;
        let changed = changes.into_iter().flat_map(|(tree, changes)| {
            changes
                .into_iter()
                .map(move |(key, place)| (tree, key, place))
        });
        Ok(Merge {
            base: self.base.take().into_iter().flatten().peekable(),
            changed: changed.peekable(),
            segments: self.segments.iter().map(|s| s.path.clone()).collect(),
            open: None,
        })
    }

    fn changes(&self) -> Result<Changes, StoreError> {
        let mut changes = Changes::new();
        let begin = self.begin();
        for (index, segment) in self.segments.iter().enumerate() {
            read_segment(segment, &mut |frame, at| {
                if frame.number <= begin || frame.number > self.number {
                    return Ok(());
                }
                let payload = at + payload_at(0).start;
                visit(frame.payload, self.schema, &mut |tree, key, value| {
                    let place = value.map(|value| Place {
                        segment: index,
                        offset: (payload + value.start) as u64,
                        length: value.len(),
                    });
                    changes.entry(tree).or_default().insert(key.to_vec(), place);
                })
                .ok_or_else(|| unknown(frame.number))
            })?;
        }
        Ok(changes)
    }
}

/// Applies the commits after one number up to another.
pub(super) fn replay(
    segments: &[Segment],
    after: u64,
    number: u64,
    schema: &Schema,
    engine: &dyn Engine,
) -> Result<(), StoreError> {
    // By what a segment holds and not by the name of the next: a roll that failed can leave an empty
    // file whose name is the number of a frame in the segment before it.
    for segment in segments.iter().filter(|segment| segment.end > after + 1) {
        read_segment(segment, &mut |frame, _| {
            if frame.number <= after || frame.number > number {
                return Ok(());
            }
            let plan =
                WriteBatch::decode(frame.payload, schema).ok_or_else(|| unknown(frame.number))?;
            engine.apply(frame.number, &plan)
        })?;
    }
    Ok(())
}

fn unknown(number: u64) -> StoreError {
    StoreError::Damaged {
        place: format!("commit {number} of the log"),
        what: "is not a plan of this version's tables".to_owned(),
    }
}

/// The pairs of a base under the changes of the log.
struct Merge<B: Iterator, C: Iterator> {
    base: Peekable<B>,
    changed: Peekable<C>,
    segments: Vec<PathBuf>,
    open: Option<(usize, File)>,
}

impl<B, C> Merge<B, C>
where
    B: Iterator<Item = Result<Triple, StoreError>>,
    C: Iterator<Item = (TreeName, Vec<u8>, Option<Place>)>,
{
    fn value(&mut self, place: &Place) -> Result<Vec<u8>, StoreError> {
        let open = self
            .open
            .take()
            .filter(|(index, _)| *index == place.segment);
        let (index, file) = match open {
            Some(open) => open,
            None => {
                let path = self.segments.get(place.segment).ok_or(StoreError::Closed)?;
                (place.segment, File::open(path)?)
            }
        };
        let mut value = vec![0; place.length];
        file.read_exact_at(&mut value, place.offset)?;
        self.open = Some((index, file));
        Ok(value)
    }
}

impl<B, C> Iterator for Merge<B, C>
where
    B: Iterator<Item = Result<Triple, StoreError>>,
    C: Iterator<Item = (TreeName, Vec<u8>, Option<Place>)>,
{
    type Item = Result<Triple, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let from_base = match (self.base.peek(), self.changed.peek()) {
                (None, None) => return None,
                (Some(Ok((tree, key, _))), Some((t, k, _))) => (tree, key) < (t, k),
                (Some(_), _) => true,
                (None, Some(_)) => false,
            };
            if from_base {
                return self.base.next();
            }
            let (tree, key, place) = self.changed.next()?;
            // A change hides what the base has under its key.
            self.base
                .next_if(|pair| matches!(pair, Ok((t, k, _)) if (*t, k) == (tree, &key)));
            if let Some(place) = place {
                return Some(self.value(&place).map(|value| (tree, key, value)));
            }
        }
    }
}
