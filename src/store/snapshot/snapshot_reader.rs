//! Reads a snapshot by key. The first key of each frame is in memory, so that a read needs one frame.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::KeyValue;
use crate::error::StoreError;
use crate::snapshot::format::{FRAME_HEAD, FRAME_MAX, MAGIC, Snapshot, is_footer};
use crate::table::{Tables, TreeName};
use crate::wal::{announced_size, parse};
use crate::write_batch::{RawChange, visit};
use playgate_process::data_file::{self, at};

/// Number of recently read frames to cache, since neighbouring keys are often read in sequence.
const FRAMES_KEPT: usize = 8;

pub(crate) struct SnapshotReader {
    path: PathBuf,
    file: File,
    schema: Tables,
    pub(crate) number: u64,
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
    pub(crate) fn open(path: &Path, schema: &Tables) -> Result<Self, StoreError> {
        // Fails for a snapshot of another format before any of its frames is read.
        let number = Snapshot::open(path, schema)?.head().number;
        let mut reader = Self {
            path: path.to_owned(),
            file: data_file::open_to_read(path)?,
            schema: schema.clone(),
            number,
            frames: Vec::new(),
            kept: Mutex::default(),
        };
        let length = reader.file.metadata().map_err(at("read", path))?.len();
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
                // Frames are in the order of their keys, so the first key of each is index enough.
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
        StoreError::damaged_file(&self.path, what)
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
        // The checksum is verified at every read: the disk may damage a frame after the start.
        match parse(bytes) {
            Some(frame) if frame.number == number => Ok(frame.payload),
            _ => Err(self.damaged("is damaged")),
        }
    }

    /// Returns the frame that can have a key; `None` if the key sorts before all frames.
    pub(crate) fn frame_of(&self, tree: TreeName, key: &[u8]) -> Option<usize> {
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
        // The read is outside the lock: reading a frame twice costs less than a queue of readers.
        let place = self.frames.get(index).ok_or(StoreError::Closed)?;
        let mut bytes = Vec::new();
        let payload = self.payload(place.number, place.offset, place.size, &mut bytes)?;
        let payload = Arc::new(payload.to_vec());
        let mut kept = self.kept.lock();
        // The most recent frame is first. A scan reads neighbours, so a few frames are enough for it.
        kept.truncate(FRAMES_KEPT - 1);
        kept.push_front((index, Arc::clone(&payload)));
        Ok(payload)
    }

    pub(crate) fn replay_tree(
        &self,
        tree: TreeName,
        each: &mut dyn FnMut(&mut dyn Iterator<Item = RawChange<'_>>),
    ) -> Result<(), StoreError> {
        // The tree may begin in the middle of a frame, after the last pairs of another.
        let first = self.frame_of(tree, &[]).unwrap_or(0);
        let frames = self.frames.iter().skip(first);
        let mut bytes = Vec::new();
        for place in frames.take_while(|place| place.first.0 <= tree) {
            let payload = self.payload(place.number, place.offset, place.size, &mut bytes)?;
            let mut pairs = Vec::new();
            visit(payload, &self.schema, &mut |of, key, value| {
                if of == tree {
                    pairs.push((key, value.and_then(|value| payload.get(value))));
                }
            });
            each(&mut pairs.into_iter());
        }
        Ok(())
    }

    pub(crate) fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
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

    /// Returns the pairs of a frame in a range; `None` if the frame begins after the range.
    pub(crate) fn pairs(
        &self,
        index: usize,
        tree: TreeName,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Option<Vec<KeyValue>>, StoreError> {
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
