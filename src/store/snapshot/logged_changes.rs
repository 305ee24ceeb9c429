//! The changes of the WAL since the snapshot: keys, and the file positions of their values.

use std::ops::Range;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::error::StoreError;

/// The changes of one tree. They are collected at the first read of single keys, since most trees are
/// never read before the engine is ready.
#[derive(Default)]
pub(crate) struct LoggedTree {
    /// Indexes of the segments that change the tree, in order.
    pub(crate) segments: Vec<u32>,
    sorted: OnceLock<LoggedChanges>,
    collecting: Mutex<()>,
}

impl LoggedTree {
    pub(crate) fn sorted(
        &self,
        collect: impl FnOnce(&mut LoggedChanges) -> Result<(), StoreError>,
    ) -> Result<&LoggedChanges, StoreError> {
        // The changes of a large import take many megabytes, so only one thread collects them.
        let _collecting = match self.sorted.get() {
            Some(sorted) => return Ok(sorted),
            None => self.collecting.lock(),
        };
        if let Some(sorted) = self.sorted.get() {
            return Ok(sorted);
        }
        let mut changes = LoggedChanges::default();
        collect(&mut changes)?;
        Ok(self.sorted.get_or_init(|| changes.sort()))
    }
}

/// Changed keys and the positions of their values. A WAL can be as large as the snapshot and change
/// a million keys, so entries are small.
#[derive(Default)]
pub(crate) struct LoggedChanges {
    keys: Vec<u8>,
    pub(crate) entries: Vec<LoggedChange>,
}

#[derive(Clone, Copy)]
pub(crate) struct LoggedChange {
    key: u32,
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    key_length: u16,
    pub(crate) length: u16,
}

/// Marks a deleted key in place of a length. No value is this long.
pub(crate) const DELETED: u16 = u16::MAX;

impl LoggedChanges {
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        segment: u32,
        value: Option<Range<usize>>,
    ) -> Option<()> {
        let (offset, length) = match value {
            None => (0, DELETED),
            Some(value) => {
                let length = u16::try_from(value.len()).ok().filter(|l| *l != DELETED)?;
                (u32::try_from(value.start).ok()?, length)
            }
        };
        // The keys lie in one buffer, since a million small allocations would take several times the space.
        self.entries.push(LoggedChange {
            key: u32::try_from(self.keys.len()).ok()?,
            segment,
            offset,
            key_length: u16::try_from(key.len()).ok()?,
            length,
        });
        self.keys.extend_from_slice(key);
        Some(())
    }

    /// Leaves the last change of each key.
    pub(crate) fn sort(self) -> Self {
        let Self { keys, mut entries } = self;
        // A stable sort, so that the last change of a key stays last.
        entries.sort_by(|a, b| key_of(&keys, a).cmp(&key_of(&keys, b)));
        // Reversed, because `dedup_by` keeps the first of each run.
        entries.reverse();
        entries.dedup_by(|next, kept| key_of(&keys, next) == key_of(&keys, kept));
        entries.reverse();
        entries.shrink_to_fit();
        Self { keys, entries }
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = (Vec<u8>, LoggedChange)> {
        let Self { keys, entries } = self;
        let key = move |change: &LoggedChange| key_of(&keys, change).unwrap_or_default().to_vec();
        entries
            .into_iter()
            .map(move |change| (key(&change), change))
    }

    pub(crate) fn key(&self, at: usize) -> Option<&[u8]> {
        key_of(&self.keys, self.entries.get(at)?)
    }

    pub(crate) fn position(&self, key: &[u8]) -> usize {
        self.entries
            .partition_point(|entry| key_of(&self.keys, entry).is_some_and(|found| found < key))
    }
}

fn key_of<'a>(keys: &'a [u8], change: &LoggedChange) -> Option<&'a [u8]> {
    let from = usize::try_from(change.key).ok()?;
    keys.get(from..from + usize::from(change.key_length))
}
