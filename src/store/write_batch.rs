//! A plan: what a commit changes, by tree and key, the last word for each key.

use std::collections::BTreeMap;
use std::ops::Range;

use super::table::{Schema, TreeName};

/// The lengths and the kind that the log keeps of each change.
const CHANGE_OVERHEAD: usize = 9;

/// The new value of a key; `None` deletes it.
pub(super) type Change = Option<Vec<u8>>;

/// Changes that are made together or not at all.
#[derive(Default, Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteBatch {
    trees: BTreeMap<TreeName, BTreeMap<Vec<u8>, Change>>,
    /// What it would take up in the log at the most; replaced changes are not taken off.
    bytes: usize,
}

impl WriteBatch {
    pub(super) fn set(&mut self, tree: TreeName, key: Vec<u8>, change: Change) {
        self.bytes += key.len() + change.as_ref().map_or(0, Vec::len) + CHANGE_OVERHEAD;
        self.trees.entry(tree).or_default().insert(key, change);
    }

    pub(super) fn get(&self, tree: TreeName, key: &[u8]) -> Option<&Change> {
        self.trees.get(tree)?.get(key)
    }

    /// The changes of one tree within `from..to`, in order.
    pub(super) fn range<'a>(
        &'a self,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Change)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        // A map's range panics when it is turned round; such a range is empty.
        let sound = to.is_none_or(|to| from <= to);
        let upper = to.map_or(Unbounded, Excluded);
        self.trees
            .get(tree)
            .filter(|_| sound)
            .into_iter()
            .flat_map(move |changes| changes.range::<[u8], _>((Included(from), upper)))
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = (TreeName, &BTreeMap<Vec<u8>, Change>)> {
        self.trees.iter().map(|(tree, changes)| (*tree, changes))
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Takes over the changes of a later plan.
    pub(super) fn merge(&mut self, later: Self) {
        self.bytes += later.bytes;
        for (tree, changes) in later.trees {
            self.trees.entry(tree).or_default().extend(changes);
        }
    }

    /// The form in which the commit log keeps it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        for (tree, changes) in &self.trees {
            write_bytes(tree.as_bytes(), &mut out);
            write_length(changes.len(), &mut out);
            for (key, change) in changes {
                write_bytes(key, &mut out);
                match change {
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

    /// Reads it back; `None` if the bytes are no plan of this schema's trees.
    pub(super) fn decode(input: &[u8], schema: &Schema) -> Option<Self> {
        let mut plan = Self::default();
        visit(input, schema, &mut |tree, key, value| {
            let change = value.map(|at| input.get(at).unwrap_or_default().to_vec());
            plan.set(tree, key.to_vec(), change);
        })?;
        Some(plan)
    }

    /// The changes, by tree and key.
    pub(super) fn into_changes(self) -> impl Iterator<Item = (TreeName, Vec<u8>, Change)> {
        self.trees.into_iter().flat_map(|(tree, changes)| {
            changes
                .into_iter()
                .map(move |(key, change)| (tree, key, change))
        })
    }
}

/// Walks an encoded plan: tree, key, and where in the bytes the new value lies. `None` if the bytes
/// are no plan of this schema's trees.
pub(super) fn visit(
    input: &[u8],
    schema: &Schema,
    each: &mut dyn FnMut(TreeName, &[u8], Option<Range<usize>>),
) -> Option<()> {
    let mut rest = input;
    while !rest.is_empty() {
        let tree = schema.tree(read_bytes(&mut rest)?)?;
        for _ in 0..read_length(&mut rest)? {
            let key = read_bytes(&mut rest)?;
            let kind;
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
    // No plan comes near 4 GiB: the writer bounds a group at a few MiB.
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
