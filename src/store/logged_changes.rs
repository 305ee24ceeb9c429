//! What the log has changed since the base, for the reads of a [`super::durable_reader`]: which keys,
//! and where in the log their values lie.

use std::ops::Range;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// What the log changed in one tree. Sorting is left to the first read: most trees are never read
/// before the engine can be used.
pub(super) struct LoggedTree {
    unsorted: Mutex<Changes>,
    sorted: OnceLock<Changes>,
}

impl From<Changes> for LoggedTree {
    fn from(changes: Changes) -> Self {
        Self {
            unsorted: Mutex::new(changes),
            sorted: OnceLock::new(),
        }
    }
}

impl LoggedTree {
    pub(super) fn sorted(&self) -> &Changes {
        self.sorted
            .get_or_init(|| std::mem::take(&mut *self.unsorted.lock()).sort())
    }
}

/// Changed keys, and where in the log their values lie. A log can be as long as the base and change a
/// million keys, so that an entry is kept small.
#[derive(Default)]
pub(super) struct Changes {
    keys: Vec<u8>,
    pub(super) entries: Vec<Change>,
}

#[derive(Clone, Copy)]
pub(super) struct Change {
    key: u32,
    pub(super) segment: u32,
    pub(super) offset: u32,
    key_length: u16,
    pub(super) length: u16,
}

/// In the place of a length: the key was deleted. No value is this long.
pub(super) const DELETED: u16 = u16::MAX;

impl Changes {
    /// Adds a change; `None` if its lengths or places are none of ours.
    pub(super) fn push(
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
        self.entries.push(Change {
            key: u32::try_from(self.keys.len()).ok()?,
            segment,
            offset,
            key_length: u16::try_from(key.len()).ok()?,
            length,
        });
        self.keys.extend_from_slice(key);
        Some(())
    }

    /// By key, and of each key only the last change.
    fn sort(self) -> Self {
        let Self { keys, mut entries } = self;
        // Stable, so that the last change of a key stays the last.
        entries.sort_by(|a, b| key_of(&keys, a).cmp(&key_of(&keys, b)));
        entries.reverse();
        entries.dedup_by(|next, kept| key_of(&keys, next) == key_of(&keys, kept));
        entries.reverse();
        Self { keys, entries }
    }

    pub(super) fn key(&self, at: usize) -> Option<&[u8]> {
        key_of(&self.keys, self.entries.get(at)?)
    }

    /// Where a key stands, or would stand.
    pub(super) fn position(&self, key: &[u8]) -> usize {
        self.entries
            .partition_point(|entry| key_of(&self.keys, entry).is_some_and(|found| found < key))
    }
}

fn key_of<'a>(keys: &'a [u8], change: &Change) -> Option<&'a [u8]> {
    let from = usize::try_from(change.key).ok()?;
    keys.get(from..from + usize::from(change.key_length))
}
