//! Snapshots: one file with every pair of every tree as of one commit. The store recovers from its
//! newest verified snapshot, and a backup is a copy of it.
//!
//! After a magic number come frames as in the WAL, numbered from 1: a head, write batches of puts
//! sorted by tree and key, and a footer with a checksum of each tree. A file without its footer is not
//! a snapshot.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::vec;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::engine::Digest;
use crate::error::StoreError;
use crate::history::History;
use crate::table::{Tables, TreeName};
use crate::wal::{announced_size, frame, parse};
use crate::write_batch::WriteBatch;
use playgate_process::data_file::{self, at};
use playgate_process::files::{create_private, rename, sync_data, sync_file, with_suffix};
use playgate_types::from_hex;

pub(crate) const EXTENSION: &str = ".snapshot";
pub(crate) const MAGIC: &[u8; 8] = b"PGSNAP\x00\x01";
const FRAME_BYTES: usize = 256 * 1024;
/// A longer frame is damage and is not read into memory.
pub(crate) const FRAME_MAX: usize = FRAME_BYTES + 2 * crate::record::VALUE_MAX;
/// Bytes after which a file that is being written is synced. One sync of a whole file would make the commits beside it
/// wait: 0.1 s with a million users.
const SYNC_STEP: usize = 8 * 1024 * 1024;
/// This many bytes of a frame contain its size.
pub(crate) const FRAME_HEAD: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    pub format: u32,
    pub instance: [u8; 16],
    pub number: u64,
    pub created: i64,
    /// Present in backups, so that listing them need not read them.
    pub records: Option<u64>,
    pub notes: BTreeMap<String, String>,
    /// Unknown in a file of a version before timelines.
    pub history: History,
}

/// The history is stored in the notes, so that versions before timelines can read the file: a downgrade
/// depends on the backups.
#[derive(Serialize, Deserialize)]
struct StoredHead {
    format: u32,
    instance: [u8; 16],
    number: u64,
    created: i64,
    records: Option<u64>,
    notes: BTreeMap<String, String>,
}

const TIMELINE_NOTE: &str = "timeline";
const CHAIN_NOTE: &str = "chain";

impl SnapshotHead {
    fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let mut notes = self.notes.clone();
        let History { timeline, chain } = self.history;
        for (note, id) in [(TIMELINE_NOTE, timeline), (CHAIN_NOTE, chain)] {
            notes.insert(note.to_owned(), HEXLOWER.encode(&id));
        }
        encode(&StoredHead {
            format: self.format,
            instance: self.instance,
            number: self.number,
            created: self.created,
            records: self.records,
            notes,
        })
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let StoredHead {
            format,
            instance,
            number,
            created,
            records,
            mut notes,
        } = decode(bytes)?;
        let mut id = |note| from_hex(notes.remove(note)?);
        let history = History {
            // Files of versions before timelines have neither note.
            timeline: id(TIMELINE_NOTE).unwrap_or_default(),
            chain: id(CHAIN_NOTE).unwrap_or_default(),
        };
        Some(Self {
            format,
            instance,
            number,
            created,
            records,
            notes,
            history,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Footer {
    trees: Vec<(String, [u8; 16])>,
}

pub(crate) type Triple = (TreeName, Vec<u8>, Vec<u8>);

const fn options() -> impl bincode::config::Config {
    bincode::config::standard()
        .with_little_endian()
        .with_variable_int_encoding()
        // A damaged length must not cause a huge allocation.
        .with_limit::<FRAME_BYTES>()
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    bincode::serde::encode_to_vec(value, options())
        .map_err(|error| StoreError::Io(error.to_string()))
}

/// The pairs must be sorted by tree and key. The file gets its final name only after it is
/// complete, synced and accepted by `prove`.
pub(crate) fn write(
    path: &Path,
    head: &SnapshotHead,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    sync: bool,
    prove: &dyn Fn(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let partial = with_suffix(path, ".partial");
    let written = fill(&partial, head, pairs, sync)
        // Verified before the rename, so that a snapshot under its final name is always readable.
        .and_then(|()| prove(&partial))
        .and_then(|()| Ok(rename(&partial, path, sync)?));
    if written.is_err() {
        // A partial file would only use space that may be needed.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

fn fill(
    path: &Path,
    head: &SnapshotHead,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    sync: bool,
) -> Result<(), StoreError> {
    let mut out = SnapshotWriter::begin(path, head, sync)?;
    let mut digests = BTreeMap::<TreeName, Digest>::new();
    let mut batch = WriteBatch::default();
    for pair in pairs {
        let (tree, key, value) = pair?;
        digests.entry(tree).or_default().add(&key, &value);
        batch.set(tree, key, Some(value));
        if batch.bytes() >= FRAME_BYTES {
            out.put(&std::mem::take(&mut batch).encode())?;
        }
    }
    if !batch.is_empty() {
        out.put(&batch.encode())?;
    }
    let trees = digests
        .into_iter()
        .map(|(tree, digest)| (tree.to_owned(), digest.to_bytes()))
        .collect();
    out.put(&encode(&Footer { trees })?)?;
    out.finish()
}

/// Copies a snapshot with another head. The frames after it are not verified.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    head: &SnapshotHead,
    sync: bool,
) -> Result<(), StoreError> {
    let mut input = data_file::open_to_read(from)?;
    let mut start = [0; MAGIC.len() + FRAME_HEAD];
    input.read_exact(&mut start).map_err(at("read", from))?;
    let size = start
        .get(MAGIC.len()..)
        .and_then(announced_size)
        .ok_or_else(|| StoreError::damaged_file(from, "has no head"))?;
    // Every frame carries its own number and checksum, so the rest can be copied as bytes.
    input.seek(SeekFrom::Start((MAGIC.len() + size) as u64))?;
    let mut out = SnapshotWriter::begin(to, head, sync)?;
    io::copy(&mut input, &mut out).map_err(at("copy", from))?;
    out.finish()
}

struct SnapshotWriter<'a> {
    path: &'a Path,
    out: BufWriter<File>,
    number: u64,
    sync: bool,
    unsynced: usize,
}

impl<'a> SnapshotWriter<'a> {
    fn begin(path: &'a Path, head: &SnapshotHead, sync: bool) -> Result<Self, StoreError> {
        let mut out = Self {
            path,
            out: BufWriter::with_capacity(FRAME_MAX, create_private(path)?),
            number: 0,
            sync,
            unsynced: 0,
        };
        out.write_all(MAGIC).map_err(at("write", path))?;
        out.put(&head.to_bytes()?)?;
        Ok(out)
    }

    fn finish(self) -> Result<(), StoreError> {
        let file = self
            .out
            .into_inner()
            // `into_inner` flushes, and unlike `drop` reports an error.
            .map_err(|error| at("write", self.path)(error.into_error()))?;
        if self.sync {
            sync_file(&file, self.path)?;
        }
        Ok(())
    }

    fn put(&mut self, payload: &[u8]) -> Result<(), StoreError> {
        self.number += 1;
        let frame = frame(self.number, 0, payload)?;
        Ok(self.write_all(&frame).map_err(at("write", self.path))?)
    }
}

impl Write for SnapshotWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.unsynced += written;
        if self.sync && self.unsynced >= SYNC_STEP {
            self.unsynced = 0;
            sync_data(self.out.get_ref(), self.path)?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Iterates all pairs in order. Yields an error instead of ending if the file is incomplete or
/// damaged.
pub(crate) struct Snapshot {
    path: PathBuf,
    head: SnapshotHead,
    input: BufReader<File>,
    schema: Tables,
    number: u64,
    pairs: vec::IntoIter<Triple>,
    digests: BTreeMap<TreeName, Digest>,
    last: Option<(TreeName, Vec<u8>)>,
    /// The payload that was read ahead: a write batch, or the footer if no frame follows.
    ahead: Vec<u8>,
    done: bool,
}

impl Snapshot {
    pub(crate) fn open(path: &Path, schema: &Tables) -> Result<Self, StoreError> {
        let mut input = BufReader::with_capacity(FRAME_MAX, data_file::open_to_read(path)?);
        let mut magic = [0; 8];
        input
            .read_exact(&mut magic)
            .map_err(|_| StoreError::damaged_file(path, "is too short"))?;
        if magic != *MAGIC {
            return Err(StoreError::damaged_file(path, "is not a snapshot"));
        }
        let mut snapshot = Self {
            path: path.to_owned(),
            head: SnapshotHead {
                format: 0,
                instance: [0; 16],
                number: 0,
                created: 0,
                records: None,
                notes: BTreeMap::new(),
                history: History::default(),
            },
            input,
            schema: schema.clone(),
            number: 0,
            pairs: Vec::new().into_iter(),
            digests: BTreeMap::new(),
            last: None,
            ahead: Vec::new(),
            done: false,
        };
        let head = snapshot
            .frame()?
            .ok_or_else(|| StoreError::damaged_file(path, "has no head"))?;
        snapshot.head = SnapshotHead::from_bytes(&head)
            .ok_or_else(|| StoreError::damaged_file(path, "has no readable head"))?;
        snapshot.ahead = snapshot
            .frame()?
            .ok_or_else(|| StoreError::damaged_file(path, "ends too early"))?;
        Ok(snapshot)
    }

    pub(crate) const fn head(&self) -> &SnapshotHead {
        &self.head
    }

    fn frame(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = vec![0; FRAME_HEAD];
        match self.input.read(&mut bytes)? {
            0 => return Ok(None),
            // A file that ends within a head was cut.
            read => {
                let rest = bytes.get_mut(read..).unwrap_or_default();
                self.input
                    .read_exact(rest)
                    .map_err(|_| self.damaged("ends too early"))?;
            }
        }
        let size = announced_size(&bytes)
            .filter(|size| *size <= FRAME_MAX)
            .ok_or_else(|| self.damaged("is damaged"))?;
        bytes.resize(size, 0);
        let rest = bytes.get_mut(FRAME_HEAD..).unwrap_or_default();
        self.input
            .read_exact(rest)
            .map_err(|_| self.damaged("ends too early"))?;
        let expected = self.number + 1;
        let frame = parse(&bytes)
            .filter(|frame| frame.number == expected)
            .ok_or_else(|| self.damaged("is damaged"))?;
        let payload = frame.payload.to_vec();
        self.number = expected;
        Ok(Some(payload))
    }

    fn damaged(&self, what: &str) -> StoreError {
        let what = format!("{what}, at frame {}", self.number + 1);
        StoreError::damaged_file(&self.path, what)
    }

    /// Reports the frame before the one that was read ahead.
    fn damaged_before(&self, what: &str) -> StoreError {
        let frame = self.number.saturating_sub(1);
        StoreError::damaged_file(&self.path, format!("frame {frame} {what}"))
    }

    fn advance(&mut self) -> Result<bool, StoreError> {
        // The last frame is the footer. Only the end of the file shows which frame that is.
        let Some(next) = self.frame()? else {
            return self.check_footer().map(|()| false);
        };
        let payload = std::mem::replace(&mut self.ahead, next);
        let batch = WriteBatch::decode(&payload, &self.schema)
            .ok_or_else(|| self.damaged_before("has a table that this version does not know"))?;
        let mut pairs = Vec::new();
        for (tree, key, change) in batch.into_changes() {
            let value = change.ok_or_else(|| self.damaged_before("has a deletion"))?;
            // Merging and comparing rely on the order.
            if self
                .last
                .as_ref()
                .is_some_and(|(t, k)| (*t, k) >= (tree, &key))
            {
                return Err(self.damaged_before("is out of order"));
            }
            self.digests.entry(tree).or_default().add(&key, &value);
            self.last = Some((tree, key.clone()));
            pairs.push((tree, key, value));
        }
        self.pairs = pairs.into_iter();
        Ok(true)
    }

    fn check_footer(&self) -> Result<(), StoreError> {
        let footer: Footer = decode(&self.ahead)
            .ok_or_else(|| StoreError::damaged_file(&self.path, "has no readable footer"))?;
        let found = self
            .digests
            .iter()
            .map(|(tree, digest)| ((*tree).to_owned(), digest.to_bytes()));
        // A tree that is missing as a whole is found too, since the footer names all trees that were written.
        if found.eq(footer.trees) {
            Ok(())
        } else {
            Err(StoreError::damaged_file(
                &self.path,
                "has pairs that do not match the checksums in its footer",
            ))
        }
    }
}

impl Iterator for Snapshot {
    type Item = Result<Triple, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(pair) = self.pairs.next() {
                return Some(Ok(pair));
            }
            if self.done {
                return None;
            }
            match self.advance() {
                Ok(more) => self.done = !more,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

pub(crate) fn is_footer(payload: &[u8]) -> bool {
    decode::<Footer>(payload).is_some()
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match bincode::serde::decode_from_slice(bytes, options()) {
        // Remaining bytes mean that the value is of another type, such as a write batch read as a footer.
        Ok((value, used)) if used == bytes.len() => Some(value),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::schema;

    fn pairs(count: u32) -> Vec<Triple> {
        (0..count)
            .map(|i| ("people", i.to_be_bytes().to_vec(), vec![7; 300]))
            .collect()
    }

    fn head() -> SnapshotHead {
        SnapshotHead {
            format: 1,
            instance: [3; 16],
            number: 42,
            created: 1_800_000_000,
            records: None,
            notes: BTreeMap::new(),
            history: History::begin([5; 16], 42),
        }
    }

    /// A downgrade to a version before timelines reads the backups of this version, and an upgrade
    /// reads the old ones.
    #[test]
    fn heads_are_compatible_with_versions_without_timelines() {
        let known = head();
        let bytes = known.to_bytes().unwrap();
        assert_eq!(SnapshotHead::from_bytes(&bytes), Some(known));
        // The same head as the version before timelines wrote it.
        let mut old = vec![1];
        old.extend([3; 16]);
        old.push(42);
        old.push(252);
        old.extend(3_600_000_000_u32.to_le_bytes());
        old.extend([0, 0]);
        let unknown = SnapshotHead {
            history: History::default(),
            ..head()
        };
        assert_eq!(SnapshotHead::from_bytes(&old), Some(unknown));
        assert!(bytes.starts_with(&old[..old.len() - 1]));
    }

    fn written(path: &Path, count: u32) {
        let pairs = pairs(count).into_iter().map(Ok);
        write(path, &head(), pairs, true, &|_| Ok(())).unwrap();
    }

    fn read(path: &Path) -> Result<Vec<Triple>, StoreError> {
        Snapshot::open(path, &schema())?.collect()
    }

    #[test]
    fn snapshot_is_read_back_as_written() {
        let directory = tempfile::tempdir().unwrap();
        for count in [0, 1, 5_000] {
            let path = directory.path().join("s");
            written(&path, count);
            assert_eq!(read(&path).unwrap(), pairs(count));
            assert_eq!(*Snapshot::open(&path, &schema()).unwrap().head(), head());
        }
    }

    #[test]
    fn copy_has_another_head_and_the_same_pairs() {
        let directory = tempfile::tempdir().unwrap();
        let [path, copied] = ["s", "c"].map(|name| directory.path().join(name));
        for count in [0, 1, 5_000] {
            written(&path, count);
            let other = SnapshotHead {
                created: 1_900_000_000,
                records: Some(u64::from(count)),
                notes: BTreeMap::from([("version".to_owned(), "1".to_owned())]),
                ..head()
            };
            copy(&path, &copied, &other, true).unwrap();
            assert_eq!(read(&copied).unwrap(), pairs(count));
            assert_eq!(*Snapshot::open(&copied, &schema()).unwrap().head(), other);
        }
    }

    #[test]
    fn damaged_and_truncated_files_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        written(&path, 600);
        let sound = std::fs::read(&path).unwrap();
        for at in (0..sound.len()).step_by(1_511) {
            let mut bytes = sound.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, &bytes).unwrap();
            // The padding before a trailer may change, but no pair.
            assert!(
                read(&path).is_err() || read(&path).unwrap() == pairs(600),
                "{at}"
            );
            std::fs::write(&path, &sound[..at]).unwrap();
            assert!(read(&path).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn rejected_snapshot_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let refused = write(&path, &head(), pairs(3).into_iter().map(Ok), true, &|_| {
            Err(StoreError::Closed)
        });
        assert_eq!(refused, Err(StoreError::Closed));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
