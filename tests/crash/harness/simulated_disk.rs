//! A simulated disk: what is durable at a moment, and which of the other changes a power cut then may keep or lose.
//! `replay` makes the changes from recorded calls.
//!
//! The rules are stricter than those of ext4, XFS and Btrfs:
//!
//! - A write is cut into sectors of 512 bytes. Each reaches the disk on its own, or not, until `fsync` or `fdatasync` of the file
//!   has returned that was called after the write. The length of the file is a change of its own.
//! - A name that is created, renamed, linked or removed is durable after `fsync` of its directory, and only then: `fsync` of
//!   the file does not make its name durable. A rename over two directories needs both.
//! - A rename is whole or not at all. Nothing else keeps an order: a power cut may keep any subset of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::harness::template::list;

pub(super) const SECTOR: usize = 512;
pub(super) const ROOT: usize = 0;

/// Every start creates it again, it is large, and nothing reads it.
const BALLAST: &str = "ballast";

/// A directory and a name in it. Files and directories have numbers.
pub(super) type Name = (usize, String);

#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) length: u64,
    /// Sectors that are missing have zeros.
    pub(super) sectors: BTreeMap<u64, Arc<[u8]>>,
}

#[derive(Clone)]
pub(super) enum Change {
    Sector(usize, u64, Arc<[u8]>),
    Length(usize, u64),
    /// Names and what they lead to, with the directories that must be synced.
    Names(Vec<(Name, Option<usize>)>, BTreeSet<usize>),
}

struct Pending {
    number: u64,
    change: Change,
}

/// Which of the pending changes a power cut keeps.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    Nothing,
    Everything,
    Only(usize),
    AllBut(usize),
    /// The changes in their order, up to this one.
    First(usize),
    /// Those of the file or directory of this change.
    FileOf(usize),
    AllButFileOf(usize),
    /// A random subset, with this probability in percent.
    Random(u64, u64),
}

pub struct SimulatedDisk {
    is_directory: Vec<bool>,
    pub(super) names: BTreeMap<Name, usize>,
    pub(super) contents: Vec<Content>,
    durable_names: BTreeMap<Name, usize>,
    durable: Vec<Content>,
    pending: Vec<Pending>,
    number: u64,
}

/// What is on the disk after a power cut.
pub struct State {
    directories: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Content>,
}

impl SimulatedDisk {
    /// Simulates an empty directory.
    pub fn new() -> Self {
        Self {
            is_directory: vec![true],
            names: BTreeMap::new(),
            contents: vec![Content::default()],
            durable_names: BTreeMap::new(),
            durable: vec![Content::default()],
            pending: Vec::new(),
            number: 0,
        }
    }

    /// How many changes a power cut may keep or lose.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of the next change. A sync covers what was changed before it began.
    pub(super) const fn next(&self) -> u64 {
        self.number
    }

    /// Makes the changes of a file or directory durable that were made before this number.
    pub(super) fn sync(&mut self, node: usize, before: u64) {
        let mut blocked = BTreeSet::new();
        for mut pending in std::mem::take(&mut self.pending) {
            let covered = pending.number < before;
            let is_durable = match &mut pending.change {
                Change::Sector(of, ..) | Change::Length(of, _) => covered && *of == node,
                Change::Names(names, unsynced) => {
                    if covered {
                        unsynced.remove(&node);
                    }
                    unsynced.is_empty() && names.iter().all(|(name, _)| !blocked.contains(name))
                }
            };
            if is_durable {
                apply(&pending.change, &mut self.durable_names, &mut self.durable);
                continue;
            }
            if let Change::Names(names, _) = &pending.change {
                // A later change of the same name must not be overtaken.
                blocked.extend(names.iter().map(|(name, _)| name.clone()));
            }
            self.pending.push(pending);
        }
    }

    pub(super) fn change(&mut self, change: Change) {
        apply(&change, &mut self.names, &mut self.contents);
        self.pending.push(Pending {
            number: self.number,
            change,
        });
        self.number += 1;
    }

    pub(super) fn add_node(&mut self, is_directory: bool) -> usize {
        self.is_directory.push(is_directory);
        self.contents.push(Content::default());
        self.durable.push(Content::default());
        self.contents.len() - 1
    }

    pub(super) fn set_names(&mut self, names: Vec<(Name, Option<usize>)>) {
        let directories = names.iter().map(|((directory, _), _)| *directory).collect();
        self.change(Change::Names(names, directories));
    }

    pub(super) fn put(&mut self, node: usize, mut at: u64, mut data: &[u8]) {
        let end = at + data.len() as u64;
        while !data.is_empty() {
            let (index, within) = (
                at / SECTOR as u64,
                usize::try_from(at % SECTOR as u64).unwrap(),
            );
            let (part, rest) = data.split_at(data.len().min(SECTOR - within));
            let old = self.contents[node].sectors.get(&index);
            let mut sector = old.map_or_else(|| vec![0; SECTOR], |old| old.to_vec());
            let is_new = &sector[within..within + part.len()] != part;
            if is_new {
                sector[within..within + part.len()].copy_from_slice(part);
                self.change(Change::Sector(node, index, sector.into()));
            }
            at += part.len() as u64;
            data = rest;
        }
        if end > self.contents[node].length {
            self.change(Change::Length(node, end));
        }
    }

    fn is_kept(&self, kept: Kept, at: usize) -> bool {
        let file = |at: usize| match &self.pending[at].change {
            Change::Sector(node, ..) | Change::Length(node, _) => *node,
            Change::Names(names, _) => names[0].0.0,
        };
        match kept {
            Kept::Nothing => false,
            Kept::Everything => true,
            Kept::Only(one) => at == one,
            Kept::AllBut(one) => at != one,
            Kept::First(one) => at <= one,
            Kept::FileOf(one) => file(at) == file(one),
            Kept::AllButFileOf(one) => file(at) != file(one),
            Kept::Random(seed, percent) => {
                let mut hasher = DefaultHasher::new();
                (seed, at).hash(&mut hasher);
                hasher.finish() % 100 < percent
            }
        }
    }

    /// Returns what is on the disk after a power cut that keeps this much of the pending changes.
    pub fn state(&self, kept: Kept) -> State {
        let (mut names, mut contents) = (self.durable_names.clone(), self.durable.clone());
        for (at, pending) in self.pending.iter().enumerate() {
            if self.is_kept(kept, at) {
                apply(&pending.change, &mut names, &mut contents);
            }
        }
        let mut state = State {
            directories: Vec::new(),
            files: BTreeMap::new(),
        };
        let mut open = vec![(ROOT, PathBuf::new())];
        while let Some((directory, path)) = open.pop() {
            let first = (directory, String::new());
            for ((_, name), node) in names
                .range(first..)
                .take_while(|((of, _), _)| *of == directory)
            {
                let path = path.join(name);
                if self.is_directory[*node] {
                    state.directories.push(path.clone());
                    open.push((*node, path));
                } else if path != Path::new(BALLAST) {
                    state.files.insert(path, contents[*node].clone());
                }
            }
        }
        state
    }
}

fn apply(change: &Change, names: &mut BTreeMap<Name, usize>, contents: &mut [Content]) {
    match change {
        Change::Sector(node, index, data) => {
            contents[*node].sectors.insert(*index, Arc::clone(data));
        }
        Change::Length(node, length) => {
            let content = &mut contents[*node];
            content.length = *length;
            let _ = content.sectors.split_off(&length.div_ceil(SECTOR as u64));
            // What was beyond the end reads as zeros when the file grows again.
            let within = usize::try_from(length % SECTOR as u64).unwrap();
            if let Some(last) = content
                .sectors
                .get_mut(&(length / SECTOR as u64))
                .filter(|_| within > 0)
            {
                let mut cut = last.to_vec();
                cut[within..].fill(0);
                *last = cut.into();
            }
        }
        Change::Names(changed, _) => {
            for (name, node) in changed {
                match node {
                    Some(node) => names.insert(name.clone(), *node),
                    None => names.remove(name),
                };
            }
        }
    }
}

impl State {
    /// Equal states have equal digests.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.directories.hash(&mut hasher);
        for (path, content) in &self.files {
            (path, content.length, &content.sectors).hash(&mut hasher);
        }
        hasher.finish()
    }

    pub fn write_to(&self, root: &Path) {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o750);
        builder.create(root).unwrap();
        for directory in &self.directories {
            builder.create(root.join(directory)).unwrap();
        }
        for (path, content) in &self.files {
            let file = fs::File::options()
                .write(true)
                .create_new(true)
                .mode(0o640)
                .open(root.join(path))
                .unwrap();
            for (index, data) in &content.sectors {
                file.write_all_at(data, index * SECTOR as u64).unwrap();
            }
            file.set_len(content.length).unwrap();
        }
    }

    /// Compares with a real directory. Returns the first path that differs.
    pub fn difference(&self, root: &Path) -> Option<PathBuf> {
        let mut found = Vec::new();
        list(root, &mut found);
        let is_known = |path: &PathBuf| {
            let kind = fs::symlink_metadata(path).unwrap().file_type();
            let below = path.strip_prefix(root).unwrap();
            !kind.is_file() || below == Path::new(BALLAST) || self.files.contains_key(below)
        };
        if let Some(unknown) = found.iter().find(|path| !is_known(path)) {
            return Some(unknown.clone());
        }
        let differs = |(path, content): &(&PathBuf, &Content)| {
            let bytes = fs::read(root.join(path)).unwrap_or_default();
            let mut expected = vec![0; usize::try_from(content.length).unwrap()];
            for (index, data) in &content.sectors {
                let at = usize::try_from(*index).unwrap() * SECTOR;
                let end = expected.len().min(at + SECTOR);
                expected[at.min(end)..end].copy_from_slice(&data[..end.saturating_sub(at)]);
            }
            bytes != expected
        };
        self.files
            .iter()
            .find(differs)
            .map(|(path, _)| path.clone())
    }
}
