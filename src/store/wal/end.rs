//! The end record: a small file next to the WAL with the last written and the last synced commit.
//! Without it a log that has lost its last frames looks like one that ended earlier.
//!
//! It is overwritten in place after each append and each sync. It is only synced right after a sync
//! of the WAL (a roll, a checkpoint, a stop), so that a commit costs no additional sync. After a
//! kill the page cache has its exact content. After a power cut it may be older, and only its
//! synced number was promised. The kernel's boot id distinguishes the two cases.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::history::History;
use playgate_process::data_file::{self, at};
use playgate_process::files::{FileId, sync_directory, sync_file};
use playgate_types::from_hex;

const MAGIC: &[u8; 8] = b"PGEND\x00\x00\x01";
/// One slot per sector, so that a torn write destroys at most one of them.
const SECTOR_BYTES: usize = 512;
const SLOTS: usize = 2;
/// Magic, turn, written, synced, timeline, chain, boot id; followed by a checksum.
const BODY_BYTES: usize = 8 + 3 * 8 + 3 * 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// The last appended commit, which may have been answered. A kill loses no commit up to it.
    pub(crate) written: u64,
    /// The last synced commit. A power cut loses no commit up to it.
    pub(crate) synced: u64,
    pub(crate) history: History,
    /// The boot id at that time; zeros if it is unknown.
    pub(crate) boot: [u8; 16],
}

impl End {
    /// Returns the last commit that must exist.
    pub(crate) fn promised(&self, boot: [u8; 16]) -> u64 {
        // Within one boot the page cache has every written commit, so a missing one is damage; after a
        // reboot only synced commits are promised.
        if boot == self.boot && boot != [0; 16] {
            self.written
        } else {
            self.synced
        }
    }

    fn encode(&self, turn: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BODY_BYTES + 4);
        bytes.extend(MAGIC);
        for number in [turn, self.written, self.synced] {
            bytes.extend(number.to_le_bytes());
        }
        for id in [self.history.timeline, self.history.chain, self.boot] {
            bytes.extend(id);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    fn decode(slot: &[u8]) -> Option<(u64, Self)> {
        let body = slot.get(..BODY_BYTES)?;
        let sum = slot.get(BODY_BYTES..)?.first_chunk::<4>()?;
        if crc32fast::hash(body).to_le_bytes() != *sum {
            return None;
        }
        let (numbers, ids) = body.strip_prefix(MAGIC)?.split_at_checked(3 * 8)?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let (ids, _) = ids.as_chunks::<16>();
        let ([turn, written, synced], [timeline, chain, boot]) = (numbers, ids) else {
            return None;
        };
        let end = Self {
            written: u64::from_le_bytes(*written),
            synced: u64::from_le_bytes(*synced),
            history: History {
                timeline: *timeline,
                chain: *chain,
            },
            boot: *boot,
        };
        Some((u64::from_le_bytes(*turn), end))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredEnd {
    Sound(End),
    /// One slot is unreadable, so the end may be one update too old.
    Partial(End),
    Damaged,
    Missing,
}

impl StoredEnd {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let bytes = match data_file::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            Err(error) => return Err(error),
        };
        let slots: Vec<_> = slots(&bytes).collect();
        // The slots are written in turn.
        let newest = slots.iter().max_by_key(|(turn, _)| *turn);
        Ok(match newest {
            Some((_, end)) if slots.len() == SLOTS => Self::Sound(*end),
            Some((_, end)) => Self::Partial(*end),
            None => Self::Damaged,
        })
    }

    pub(crate) const fn end(&self) -> Option<&End> {
        match self {
            Self::Sound(end) | Self::Partial(end) => Some(end),
            Self::Damaged | Self::Missing => None,
        }
    }
}

fn slots(bytes: &[u8]) -> impl Iterator<Item = (u64, End)> {
    bytes
        .chunks(SECTOR_BYTES)
        .take(SLOTS)
        .filter_map(End::decode)
}

pub(crate) fn boot_id() -> [u8; 16] {
    // Zeros stand for an unknown id. Only synced commits are then promised.
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: String = text.trim().split('-').collect();
    from_hex(hex).unwrap_or_default()
}

pub(super) struct EndFile {
    path: PathBuf,
    file: File,
    turn: u64,
    boot: [u8; 16],
}

impl EndFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o640);
        let file = data_file::open(&options, path)?;
        let known = data_file::read(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            // A kill between the two writes of `begin` must not leave an older record with a higher
            // turn.
            turn: slots(&known).map(|(turn, _)| turn).max().unwrap_or(0),
            boot: boot_id(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&self.file.metadata()?))
    }

    pub(super) fn begin(&mut self, end: End, sync: bool) -> io::Result<()> {
        self.file
            .set_len((SLOTS * SECTOR_BYTES) as u64)
            .map_err(at("write", &self.path))?;
        // Both slots are written: otherwise an old one would win after damage to the new one.
        for _ in 0..SLOTS {
            self.write(end)?;
        }
        if sync {
            self.sync()?;
            sync_directory(self.path.parent().unwrap_or(&self.path))?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, end: End) -> io::Result<()> {
        self.turn += 1;
        let end = End {
            boot: self.boot,
            ..end
        };
        // The older slot is overwritten, so that a torn write leaves the newer one intact.
        let slot = if self.turn.is_multiple_of(2) {
            0
        } else {
            SECTOR_BYTES
        };
        self.file
            .write_all_at(&end.encode(self.turn), slot as u64)
            .map_err(at("write", &self.path))
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        sync_file(&self.file, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(path: &Path, end: End) -> EndFile {
        let mut file = EndFile::open(path).unwrap();
        file.begin(end, true).unwrap();
        file
    }

    fn end(written: u64) -> End {
        End {
            written,
            synced: written - 1,
            history: History::begin([4; 16], written),
            boot: boot_id(),
        }
    }

    #[test]
    fn the_last_write_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("end");
        assert_eq!(StoredEnd::read(&path).unwrap(), StoredEnd::Missing);
        let mut file = begun(&path, end(7));
        assert_eq!(StoredEnd::read(&path).unwrap(), StoredEnd::Sound(end(7)));
        for written in 8..12 {
            file.write(end(written)).unwrap();
            assert_eq!(
                StoredEnd::read(&path).unwrap(),
                StoredEnd::Sound(end(written))
            );
        }
        // A restored store may continue at a lower number.
        begun(&path, end(2));
        assert_eq!(StoredEnd::read(&path).unwrap(), StoredEnd::Sound(end(2)));
    }

    #[test]
    fn torn_or_damaged_slot_leaves_the_other_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("end");
        let mut file = begun(&path, end(7));
        file.write(end(8)).unwrap();
        let sound = fs::read(&path).unwrap();
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            let read = StoredEnd::read(&path).unwrap();
            let used = bit / 8 % SECTOR_BYTES < BODY_BYTES + 4;
            let possible = [StoredEnd::Partial(end(7)), StoredEnd::Partial(end(8))];
            let right = if used {
                possible.contains(&read)
            } else {
                read == StoredEnd::Sound(end(8))
            };
            assert!(right, "bit {bit}: {read:?}");
        }
        for length in 0..sound.len() {
            fs::write(&path, &sound[..length]).unwrap();
            let read = StoredEnd::read(&path).unwrap();
            let whole = length >= SECTOR_BYTES + BODY_BYTES + 4;
            assert_eq!(
                matches!(read, StoredEnd::Sound(_)),
                whole,
                "cut at {length}"
            );
        }
        fs::write(&path, [0; 1_024]).unwrap();
        assert_eq!(StoredEnd::read(&path).unwrap(), StoredEnd::Damaged);
    }

    #[test]
    fn written_commits_survive_a_kill_and_synced_ones_a_power_cut() {
        let end = End {
            boot: [5; 16],
            ..end(9)
        };
        assert_eq!(end.promised([5; 16]), 9);
        assert_eq!(end.promised([6; 16]), 8);
        let nameless = End {
            boot: [0; 16],
            ..end
        };
        assert_eq!(nameless.promised([0; 16]), 8);
    }
}
