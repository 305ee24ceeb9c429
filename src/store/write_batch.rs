//! A write batch: the changes of a commit by tree and key. Later changes of a key replace earlier
//! ones.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::StoreError;
use super::table::{Tables, TreeName};

/// Bytes per change in the WAL for lengths and kind.
const CHANGE_OVERHEAD: usize = 9;

/// Maximum number of changes in one part of a batch. The leaves that this many neighbouring keys touch fit into the
/// cache of the engine, which writes the changes of a transaction in no particular order. All reads of the engine wait while
/// a part is applied: with a million users some milliseconds.
pub(super) const PART_CHANGES: usize = 250;

/// Neighbouring changes of a batch, sorted by tree and key.
pub(super) struct BatchPart<'a> {
    pub(super) changes: Vec<(TreeName, &'a [u8], Option<&'a [u8]>)>,
    pub(super) is_last: bool,
}

/// `None` deletes the key.
pub(super) type NewValue = Option<Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    value: NewValue,
    /// Whether nothing below this batch has the key. If it is deleted again, nothing needs to know that it was there.
    is_new: bool,
}

/// Key and stored value; the value is `None` if the key was deleted.
pub(crate) type RawChange<'a> = (&'a [u8], Option<&'a [u8]>);

#[derive(Default, Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteBatch {
    trees: BTreeMap<TreeName, BTreeMap<Vec<u8>, Change>>,
    bytes: usize,
}

impl WriteBatch {
    pub(super) fn set(&mut self, tree: TreeName, key: Vec<u8>, value: NewValue) {
        let is_new = false;
        self.change(tree, key, Change { value, is_new });
    }

    /// Like [`WriteBatch::set`] for a key that nothing below this batch has.
    pub(super) fn insert(&mut self, tree: TreeName, key: Vec<u8>, value: Vec<u8>) {
        let (value, is_new) = (Some(value), true);
        self.change(tree, key, Change { value, is_new });
    }

    fn change(&mut self, tree: TreeName, key: Vec<u8>, mut change: Change) {
        let fixed = key.len() + CHANGE_OVERHEAD;
        let size = |value: &NewValue| fixed + value.as_ref().map_or(0, Vec::len);
        match self.trees.entry(tree).or_default().entry(key) {
            Entry::Vacant(place) => {
                self.bytes += size(&change.value);
                place.insert(change);
            }
            Entry::Occupied(mut place) => {
                let earlier = place.get();
                self.bytes -= size(&earlier.value);
                if earlier.is_new && change.value.is_none() {
                    place.remove();
                    return;
                }
                // What follows a deletion is not new: there may be an older value below.
                change.is_new = earlier.is_new;
                self.bytes += size(&change.value);
                place.insert(change);
            }
        }
    }

    pub(super) fn get(&self, tree: TreeName, key: &[u8]) -> Option<&NewValue> {
        Some(&self.trees.get(tree)?.get(key)?.value)
    }

    pub(super) fn range<'a>(
        &'a self,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a NewValue)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        // `BTreeMap::range` panics on a reversed range; such a range is empty.
        let sound = to.is_none_or(|to| from <= to);
        let upper = to.map_or(Unbounded, Excluded);
        self.trees
            .get(tree)
            .filter(|_| sound)
            .into_iter()
            .flat_map(move |changes| changes.range::<[u8], _>((Included(from), upper)))
            .map(|(key, change)| (key, &change.value))
    }

    pub(super) fn trees(
        &self,
    ) -> impl Iterator<Item = (TreeName, impl Iterator<Item = RawChange<'_>> + Clone)> {
        self.trees.iter().map(|(tree, changes)| {
            let changes = changes.iter();
            let raw = changes.map(|(key, change)| (key.as_slice(), change.value.as_deref()));
            (*tree, raw)
        })
    }

    /// Yields at least one part, even for an empty batch.
    pub(super) fn parts(&self) -> impl Iterator<Item = BatchPart<'_>> {
        let mut rest = self
            .trees()
            .flat_map(|(tree, changes)| changes.map(move |(key, value)| (tree, key, value)))
            .peekable();
        let mut ended = false;
        std::iter::from_fn(move || {
            let changes = (!ended).then(|| rest.by_ref().take(PART_CHANGES).collect())?;
            ended = rest.peek().is_none();
            Some(BatchPart {
                changes,
                is_last: ended,
            })
        })
    }

    /// Calls `each` for every part. Once `abandoned` is set, because the store closes, the rest is left out and the result is
    /// [`StoreError::Closed`].
    pub(super) fn try_for_each_part(
        &self,
        abandoned: &AtomicBool,
        each: impl Fn(&BatchPart<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.parts()
            .try_for_each(|part| match abandoned.load(Ordering::Relaxed) {
                false => each(&part),
                true => Err(StoreError::Closed),
            })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    pub(super) fn merge(&mut self, later: Self) {
        for (tree, changes) in later.trees {
            for (key, change) in changes {
                self.change(tree, key, change);
            }
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // The map is ordered, so equal batches have equal encodings.
        let mut out = Vec::with_capacity(256);
        for (tree, changes) in &self.trees {
            write_bytes(tree.as_bytes(), &mut out);
            write_length(changes.len(), &mut out);
            for (key, change) in changes {
                write_bytes(key, &mut out);
                match &change.value {
                    None => out.push(0),
                    Some(value) => {
                        out.push(1);
                        write_bytes(value, &mut out);
                    }
                }
            }
        }
        out
    }

    pub(super) fn decode(input: &[u8], schema: &Tables) -> Option<Self> {
        let mut batch = Self::default();
        visit(input, schema, &mut |tree, key, value| {
            let change = value.map(|at| input.get(at).unwrap_or_default().to_vec());
            batch.set(tree, key.to_vec(), change);
        })?;
        Some(batch)
    }

    pub(super) fn into_changes(self) -> impl Iterator<Item = (TreeName, Vec<u8>, NewValue)> {
        self.trees.into_iter().flat_map(|(tree, changes)| {
            changes
                .into_iter()
                .map(move |(key, change)| (tree, key, change.value))
        })
    }
}

/// Calls `each` for every change of an encoded batch: tree, key and range of the new value. Returns
/// `None` if the bytes are invalid or name a tree that the schema lacks.
pub(super) fn visit<'a>(
    input: &'a [u8],
    schema: &Tables,
    each: &mut dyn FnMut(TreeName, &'a [u8], Option<Range<usize>>),
) -> Option<()> {
    let mut rest = input;
    while !rest.is_empty() {
        let tree = schema.tree(read_bytes(&mut rest)?)?;
        for _ in 0..read_length(&mut rest)? {
            let key = read_bytes(&mut rest)?;
            let kind;
            // An unknown tree or kind makes the whole batch invalid: it may come from a newer version, and a
            // part of a commit must not be applied.
            (kind, rest) = rest.split_first()?;
            let value = match kind {
                0 => None,
                1 => {
                    let length = read_bytes(&mut rest)?.len();
                    let end = input.len() - rest.len();
                    Some(end - length..end)
                }
                _ => return None,
            };
            each(tree, key, value);
        }
    }
    Some(())
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    // A batch is far below 4 GiB: the writer limits a group to a few MiB.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn read_length(input: &mut &[u8]) -> Option<usize> {
    let (head, tail) = input.split_first_chunk::<4>()?;
    *input = tail;
    usize::try_from(u32::from_le_bytes(*head)).ok()
}

fn read_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_length(input)?;
    let (head, tail) = input.split_at_checked(length)?;
    *input = tail;
    Some(head)
}
