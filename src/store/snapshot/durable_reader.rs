//! Reads snapshot and WAL directly while the engine is not ready.
//!
//! The snapshot is sorted and consists of frames with checksums. With the first key of each frame
//! in memory, a read needs one frame. Later changes of a tree from the WAL are held as keys and file
//! positions from its first read on; whole trees are read in file order without them. Every byte is
//! checked when the reader is opened, and every frame again when it is read: damage is an error and
//! never a record that seems to be missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::vec;

use crate::engine::KeyValue;
use crate::error::StoreError;
use crate::snapshot::durable_state::visit_frame;
use crate::snapshot::logged_changes::{DELETED, LoggedChanges, LoggedTree};
use crate::snapshot::snapshot_reader::SnapshotReader;
use crate::table::{Tables, TreeName};
use crate::wal::{Segment, read_frames};
use crate::write_batch::RawChange;
use playgate_process::data_file::{self, at};

pub(crate) struct DurableReader {
    snapshot: Option<SnapshotReader>,
    logged: BTreeMap<TreeName, LoggedTree>,
    log: Vec<LogFile>,
    schema: Tables,
    number: u64,
}

struct LogFile {
    segment: Segment,
    /// Kept open: the segment may be retired while it is still read.
    file: File,
    /// The number of frames that were found when the reader was opened.
    frames: Option<usize>,
}

impl DurableReader {
    /// Reads and checks everything. The WAL must continue the snapshot up to `number`.
    pub(crate) fn open(
        snapshot: Option<&Path>,
        segments: &[Segment],
        number: u64,
        schema: &Tables,
    ) -> Result<Self, StoreError> {
        let snapshot = snapshot
            // Files are opened once and kept: retention may remove their names while this reader still serves.
            .map(|path| SnapshotReader::open(path, schema))
            .transpose()?;
        let open = |segment: &Segment| {
            Ok(LogFile {
                segment: segment.clone(),
                file: data_file::open_to_read(&segment.path)?,
                frames: None,
            })
        };
        let mut reader = Self {
            snapshot,
            logged: BTreeMap::new(),
            log: segments
                .iter()
                .map(open)
                .collect::<Result<_, StoreError>>()?,
            schema: schema.clone(),
            number,
        };
        // Only the segments of each tree are noted here. Its changes are collected when it is read for the first time.
        let mut logged = BTreeMap::<TreeName, LoggedTree>::new();
        let mut frames = Vec::new();
        for (index, log) in (0..).zip(&reader.log) {
            let visited = reader.visit_segment(log, &log.bytes()?, &mut |tree, _, _| {
                let segments = &mut logged.entry(tree).or_default().segments;
                // Segments come in order, so the last entry shows whether this one is listed.
                if segments.last() != Some(&index) {
                    segments.push(index);
                }
                Some(())
            })?;
            frames.push(visited);
        }
        for (log, frames) in reader.log.iter_mut().zip(frames) {
            log.frames = Some(frames);
        }
        reader.logged = logged;
        Ok(reader)
    }

    pub(crate) fn begin(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.number)
    }

    pub(crate) fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        // A logged change, even a deletion, overrides the snapshot.
        if let Some(changes) = self.changes(tree)? {
            let at = changes.position(key);
            if changes.key(at) == Some(key) {
                return self.logged_value(changes, at);
            }
        }
        match &self.snapshot {
            Some(snapshot) => snapshot.get(tree, key),
            None => Ok(None),
        }
    }

    pub(crate) fn scan(
        self: &Arc<Self>,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<impl Iterator<Item = Result<KeyValue, StoreError>> + use<>, StoreError> {
        // A key before the first frame begins with that frame.
        let next_frame = self
            .snapshot
            .as_ref()
            .map_or(0, |snapshot| snapshot.frame_of(tree, from).unwrap_or(0));
        let logged = self.changes(tree)?.map_or(0..0, |changes| {
            let end = to.map_or(changes.entries.len(), |to| changes.position(to));
            changes.position(from)..end
        });
        let snapshot = SnapshotScan {
            reader: Arc::clone(self),
            tree,
            from: from.to_vec(),
            to: to.map(<[u8]>::to_vec),
            next_frame,
            pairs: Vec::new().into_iter(),
        };
        Ok(ReaderMerge {
            reader: Arc::clone(self),
            tree,
            snapshot: snapshot.peekable(),
            logged,
        })
    }

    /// Calls `each` with the pairs of a tree in the snapshot, then with its changes in the WAL in the
    /// order of commits.
    pub(crate) fn replay_tree(
        &self,
        tree: TreeName,
        each: &mut dyn FnMut(&mut dyn Iterator<Item = RawChange<'_>>),
    ) -> Result<(), StoreError> {
        if let Some(snapshot) = &self.snapshot {
            snapshot.replay_tree(tree, each)?;
        }
        let Some(logged) = self.logged.get(tree) else {
            return Ok(());
        };
        for (_, log) in self.log_of(logged) {
            let bytes = log.bytes()?;
            let mut changes = Vec::new();
            self.visit_segment(log, &bytes, &mut |of, key, value| {
                if of == tree {
                    changes.push((key, value.map(|at| bytes.get(at).unwrap_or_default())));
                }
                Some(())
            })?;
            each(&mut changes.into_iter());
        }
        Ok(())
    }

    fn changes(&self, tree: TreeName) -> Result<Option<&LoggedChanges>, StoreError> {
        let Some(logged) = self.logged.get(tree) else {
            return Ok(None);
        };
        let collect = |changes: &mut LoggedChanges| {
            for (index, log) in self.log_of(logged) {
                let bytes = log.bytes()?;
                self.visit_segment(log, &bytes, &mut |of, key, value| {
                    if of == tree {
                        changes.push(key, index, value)?;
                    }
                    Some(())
                })?;
            }
            Ok(())
        };
        logged.sorted(collect).map(Some)
    }

    fn log_of(&self, logged: &LoggedTree) -> impl Iterator<Item = (u32, &LogFile)> {
        let of = |index: &u32| Some((*index, self.log.get(usize::try_from(*index).ok()?)?));
        logged.segments.iter().filter_map(of)
    }

    /// Calls `each` for every change in a segment that is later than the snapshot, with its tree,
    /// its key and the place of its value in `bytes`; returns the number of frames. `None` from
    /// `each` is damage.
    fn visit_segment<'a>(
        &self,
        log: &LogFile,
        bytes: &'a [u8],
        each: &mut dyn FnMut(TreeName, &'a [u8], Option<Range<usize>>) -> Option<()>,
    ) -> Result<usize, StoreError> {
        let mut frames = 0;
        read_frames(bytes, &log.segment, &mut |frame, at| {
            // Older segments repeat commits of the snapshot. Commits after `number` are in the memtable.
            if frame.number <= self.begin() || frame.number > self.number {
                return Ok(());
            }
            frames += 1;
            visit_frame(&frame, at, &self.schema, each)
        })?;
        // `read_frames` skips unreadable frames, so the number of frames is compared.
        if log.frames.is_some_and(|known| known != frames) {
            let what = "was damaged after the start";
            return Err(StoreError::damaged_file(&log.segment.path, what));
        }
        Ok(frames)
    }

    fn logged_value(
        &self,
        changes: &LoggedChanges,
        at: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let entry = changes.entries.get(at).ok_or(StoreError::Closed)?;
        if entry.length == DELETED {
            return Ok(None);
        }
        let segment = usize::try_from(entry.segment).unwrap_or(usize::MAX);
        let log = self.log.get(segment).ok_or(StoreError::Closed)?;
        let mut value = vec![0; usize::from(entry.length)];
        log.file
            .read_exact_at(&mut value, u64::from(entry.offset))
            .map_err(data_file::at("read", &log.segment.path))?;
        Ok(Some(value))
    }
}

impl LogFile {
    fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        let read = || {
            let length = usize::try_from(self.file.metadata()?.len()).unwrap_or(usize::MAX);
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        Ok(read().map_err(at("read", &self.segment.path))?)
    }
}

struct SnapshotScan {
    reader: Arc<DurableReader>,
    tree: TreeName,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    next_frame: usize,
    pairs: vec::IntoIter<KeyValue>,
}

impl Iterator for SnapshotScan {
    type Item = Result<KeyValue, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.pairs.next() {
                return Some(Ok(pair));
            }
            let snapshot = self.reader.snapshot.as_ref()?;
            match snapshot.pairs(self.next_frame, self.tree, &self.from, self.to.as_deref()) {
                Ok(pairs) => self.pairs = pairs?.into_iter(),
                Err(error) => {
                    // The scan ends after an error instead of skipping a frame.
                    self.next_frame = usize::MAX;
                    return Some(Err(error));
                }
            }
            self.next_frame += 1;
        }
    }
}

struct ReaderMerge {
    reader: Arc<DurableReader>,
    tree: TreeName,
    snapshot: Peekable<SnapshotScan>,
    logged: Range<usize>,
}

impl Iterator for ReaderMerge {
    type Item = Result<KeyValue, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = Arc::clone(&self.reader);
        loop {
            if self.logged.is_empty() {
                return self.snapshot.next();
            }
            let changes = match reader.changes(self.tree) {
                Ok(changes) => changes,
                Err(error) => {
                    self.logged = 0..0;
                    return Some(Err(error));
                }
            };
            let changed = changes.and_then(|changes| changes.key(self.logged.start));
            let (Some(changes), Some(key)) = (changes, changed) else {
                return self.snapshot.next();
            };
            match self.snapshot.peek() {
                Some(Ok((stored, _))) if stored.as_slice() < key => return self.snapshot.next(),
                Some(Err(_)) => return self.snapshot.next(),
                // A change replaces the snapshot's value of its key.
                Some(Ok((stored, _))) if stored.as_slice() == key => {
                    self.snapshot.next();
                }
                Some(Ok(_)) | None => {}
            }
            let value = reader.logged_value(changes, self.logged.start).transpose();
            self.logged.start += 1;
            if let Some(value) = value {
                return Some(value.map(|value| (key.to_vec(), value)));
            }
        }
    }
}
