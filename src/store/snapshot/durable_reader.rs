//! Reads snapshot and WAL directly, as long as the engine is not ready.
//!
//! The snapshot is sorted and consists of frames with checksums. With the first key of each frame
//! in memory, a read needs one frame. Later changes from the WAL are held as keys and file
//! positions. Every byte is checked when the reader is opened, and every frame again when it is
//! read: damage is an error and never a record that seems to be missing.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use parking_lot::Mutex;

use crate::store::StoreError;
use crate::store::engine::Pair;
use crate::store::recovery::logged_changes::{Changes, DELETED, LoggedTree};
use crate::store::snapshot::format::{FRAME_HEAD, FRAME_MAX, MAGIC, Snapshot, is_footer};
use crate::store::table::{Schema, TreeName};
use crate::store::wal::{Segment, announced_size, parse, payload_at, read_segment};
use crate::store::write_batch::visit;

/// Number of recently read frames to cache, since neighbouring keys are often read in sequence.
const FRAMES_KEPT: usize = 8;

pub(in crate::store) struct DurableReader {
    snapshot: Option<SnapshotReader>,
    logged: BTreeMap<TreeName, LoggedTree>,
    segments: Vec<File>,
}

impl DurableReader {
    /// Reads and checks everything. The WAL must continue the snapshot up to `number`.
    pub(in crate::store) fn open(
        snapshot: Option<&Path>,
        segments: &[Segment],
        number: u64,
        schema: &Schema,
    ) -> Result<Self, StoreError> {
        let snapshot = snapshot
            .map(|path| SnapshotReader::open(path, schema))
            .transpose()?;
        let begin = snapshot.as_ref().map_or(0, |snapshot| snapshot.number);
        let mut logged = BTreeMap::<TreeName, Changes>::new();
        for (index, segment) in (0..).zip(segments) {
            read_segment(segment, &mut |frame, at| {
                if frame.number <= begin || frame.number > number {
                    return Ok(());
                }
                // Positions are relative to the file, so that values are read without parsing the frame again.
                let payload = at + payload_at(0).start;
                let mut fits = true;
                let known = visit(frame.payload, schema, &mut |tree, key, value| {
                    let changes = logged.entry(tree).or_default();
                    let value = value.map(|value| payload + value.start..payload + value.end);
                    fits &= changes.push(key, index, value).is_some();
                });
                known.filter(|()| fits).ok_or_else(|| StoreError::Damaged {
                    place: format!("commit {} of the log", frame.number),
                    what: "cannot be decoded with the tables of this version".to_owned(),
                })
            })?;
        }
        let open = |segment: &Segment| File::open(&segment.path);
        Ok(Self {
            snapshot,
            logged: logged
                .into_iter()
                .map(|(tree, changes)| (tree, LoggedTree::from(changes)))
                .collect(),
            segments: segments.iter().map(open).collect::<Result<_, _>>()?,
        })
    }

    pub(in crate::store) fn begin(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.number)
    }

    pub(in crate::store) fn get(
        &self,
        tree: TreeName,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        // A logged change, even a deletion, overrides the snapshot.
        if let Some(changes) = self.changes(tree) {
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

    pub(in crate::store) fn scan(
        self: &Arc<Self>,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = Result<Pair, StoreError>> + use<> {
        let next_frame = self
            .snapshot
            .as_ref()
            .map_or(0, |snapshot| snapshot.frame_of(tree, from).unwrap_or(0));
        let logged = self.changes(tree).map_or(0..0, |changes| {
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
        Merge {
            reader: Arc::clone(self),
            tree,
            snapshot: snapshot.peekable(),
            logged,
        }
    }

    fn changes(&self, tree: TreeName) -> Option<&Changes> {
        self.logged.get(tree).map(LoggedTree::sorted)
    }

    fn logged_value(&self, changes: &Changes, at: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let entry = changes.entries.get(at).ok_or(StoreError::Closed)?;
        if entry.length == DELETED {
            return Ok(None);
        }
        let segment = usize::try_from(entry.segment).unwrap_or(usize::MAX);
        let file = self.segments.get(segment).ok_or(StoreError::Closed)?;
        let mut value = vec![0; usize::from(entry.length)];
        file.read_exact_at(&mut value, u64::from(entry.offset))?;
        Ok(Some(value))
    }
}

/// The offset and the first key of each frame are in memory.
struct SnapshotReader {
    path: PathBuf,
    file: File,
    schema: Schema,
    number: u64,
    frames: Vec<FramePlace>,
    kept: Mutex<VecDeque<(usize, Arc<Vec<u8>>)>>,
}

struct FramePlace {
    number: u64,
    offset: u64,
    size: usize,
    first: (TreeName, Vec<u8>),
}

impl SnapshotReader {
    fn open(path: &Path, schema: &Schema) -> Result<Self, StoreError> {
        let number = Snapshot::open(path, schema)?.head().number;
        let mut reader = Self {
            path: path.to_owned(),
            file: File::open(path)?,
            schema: schema.clone(),
            number,
            frames: Vec::new(),
            kept: Mutex::default(),
        };
        let length = reader.file.metadata()?.len();
        let mut offset = MAGIC.len() as u64;
        let mut bytes = Vec::new();
        let mut has_foot = false;
        // The numbers are consecutive, so a frame that was lost or exchanged is detected.
        for number in 1.. {
            if offset >= length {
                break;
            }
            let size = reader.size_at(offset)?;
            let payload = reader.payload(number, offset, size, &mut bytes)?;
            let mut first = None;
            let batch = visit(payload, schema, &mut |tree, key, _| {
                first.get_or_insert_with(|| (tree, key.to_vec()));
            });
            match (batch, first) {
                // The first frame is the head, which was read above.
                _ if number == 1 => {}
                (Some(()), Some(first)) if !has_foot => reader.frames.push(FramePlace {
                    number,
                    offset,
                    size,
                    first,
                }),
                _ if !has_foot && is_footer(payload) => has_foot = true,
                _ => return Err(reader.damaged("is damaged")),
            }
            offset += size as u64;
        }
        let frames = reader.frames.iter();
        // Without the footer the file may have lost frames at its end.
        match has_foot && frames.is_sorted_by(|a, b| a.first < b.first) {
            true => Ok(reader),
            false => Err(reader.damaged("ends too early")),
        }
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Damaged {
            place: self.path.display().to_string(),
            what: what.to_owned(),
        }
    }

    fn size_at(&self, offset: u64) -> Result<usize, StoreError> {
        let mut head = [0; FRAME_HEAD];
        self.file
            .read_exact_at(&mut head, offset)
            .map_err(|_| self.damaged("ends too early"))?;
        // A damaged length must not cause a huge allocation.
        announced_size(&head)
            .filter(|size| *size <= FRAME_MAX)
            .ok_or_else(|| self.damaged("is damaged"))
    }

    fn payload<'a>(
        &self,
        number: u64,
        offset: u64,
        size: usize,
        bytes: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], StoreError> {
        bytes.resize(size, 0);
        self.file
            .read_exact_at(bytes, offset)
            .map_err(|_| self.damaged("ends too early"))?;
        match parse(bytes) {
            Some(frame) if frame.number == number => Ok(frame.payload),
            _ => Err(self.damaged("is damaged")),
        }
    }

    /// `None` if the key sorts before all frames.
    fn frame_of(&self, tree: TreeName, key: &[u8]) -> Option<usize> {
        let after = self
            .frames
            .partition_point(|frame| (frame.first.0, frame.first.1.as_slice()) <= (tree, key));
        after.checked_sub(1)
    }

    fn frame(&self, index: usize) -> Result<Arc<Vec<u8>>, StoreError> {
        let kept = self
            .kept
            .lock()
            .iter()
            .find(|(at, _)| *at == index)
            .cloned();
        if let Some((_, payload)) = kept {
            return Ok(payload);
        }
        // Read outside the lock: two readers of one frame cost less than a queue.
        let place = self.frames.get(index).ok_or(StoreError::Closed)?;
        let mut bytes = Vec::new();
        let payload = self.payload(place.number, place.offset, place.size, &mut bytes)?;
        let payload = Arc::new(payload.to_vec());
        let mut kept = self.kept.lock();
        kept.truncate(FRAMES_KEPT - 1);
        kept.push_front((index, Arc::clone(&payload)));
        Ok(payload)
    }

    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(index) = self.frame_of(tree, key) else {
            return Ok(None);
        };
        let payload = self.frame(index)?;
        let mut found = None;
        visit(&payload, &self.schema, &mut |of, at, value| {
            if of == tree && at == key {
                found = value;
            }
        });
        Ok(found.and_then(|value| Some(payload.get(value)?.to_vec())))
    }

    /// `None` if the frame begins after them.
    fn pairs(
        &self,
        index: usize,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Option<Vec<Pair>>, StoreError> {
        let begins_behind = self.frames.get(index).is_none_or(|frame| {
            let (first, key) = &frame.first;
            *first > tree || (*first == tree && to.is_some_and(|to| key.as_slice() >= to))
        });
        if begins_behind {
            return Ok(None);
        }
        let payload = self.frame(index)?;
        let mut pairs = Vec::new();
        visit(&payload, &self.schema, &mut |of, key, value| {
            if of == tree && key >= from && to.is_none_or(|to| key < to) {
                let value = value.and_then(|value| payload.get(value));
                pairs.push((key.to_vec(), value.unwrap_or_default().to_vec()));
            }
        });
        Ok(Some(pairs))
    }
}

struct SnapshotScan {
    reader: Arc<DurableReader>,
    tree: TreeName,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    next_frame: usize,
    pairs: vec::IntoIter<Pair>,
}

impl Iterator for SnapshotScan {
    type Item = Result<Pair, StoreError>;

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

struct Merge {
    reader: Arc<DurableReader>,
    tree: TreeName,
    snapshot: Peekable<SnapshotScan>,
    logged: Range<usize>,
}

impl Iterator for Merge {
    type Item = Result<Pair, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = Arc::clone(&self.reader);
        loop {
            // A tree without changes has no list, and the range is then empty.
            let changes = reader
                .changes(self.tree)
                .filter(|_| !self.logged.is_empty());
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
