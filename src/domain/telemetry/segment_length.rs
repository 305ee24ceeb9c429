//! How long a segment has become, kept in a small file beside it. A segment that is cut short, or
//! whose end is damaged, looks like one with a torn end; this tells them apart.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::segment::options;

/// Two lengths and their checksum: always overwritten in place, within one sector.
const SIZE: usize = 20;

/// The lengths of a segment in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths {
    /// What was written. After a power cut it may be more than what is there.
    pub(super) written: u64,
    /// What was synced: never more than what is there, unless the file was damaged.
    pub(super) synced: u64,
}

impl Lengths {
    /// Those of a file that is all there and synced.
    pub(super) const fn of_whole(length: u64) -> Self {
        Self {
            written: length,
            synced: length,
        }
    }

    /// What was kept of a segment; nothing where that cannot be read, which loses the comparison
    /// only.
    pub(super) fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_default();
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
            return Self::default();
        };
        let sound = crc32fast::hash(body) == u32::from_le_bytes(*sum);
        match body.as_chunks::<8>() {
            ([written, synced], []) if sound => Self {
                written: u64::from_le_bytes(*written),
                synced: u64::from_le_bytes(*synced),
            },
            _ => Self::default(),
        }
    }

    /// What is missing of a segment whose last sound event ends there.
    fn missing(self, sound_end: u64) -> Option<Missing> {
        match (self.synced.checked_sub(sound_end), self.written) {
            (Some(bytes @ 1..), _) => Some(Missing::Synced(bytes)),
            (_, written) if written > sound_end => Some(Missing::Unsynced(written - sound_end)),
            _ => None,
        }
    }

    /// Tells that a segment ends before it should.
    pub(super) fn compare(self, path: &Path, sound_end: u64) {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        match self.missing(sound_end) {
            Some(Missing::Synced(bytes)) => {
                tracing::error!(%file, bytes, "a file of events is damaged: its end is missing");
            }
            Some(Missing::Unsynced(bytes)) => {
                tracing::warn!(%file, bytes, "events that were not synced yet are gone");
            }
            None => {}
        }
    }

    /// Writes them down for a segment that nobody appends to.
    pub(super) fn write(self, path: &Path) -> io::Result<()> {
        LengthFile::open(path)?.write(self)
    }
}

/// Bytes that should be there.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    /// A power cut took them, within what is promised.
    Unsynced(u64),
    /// Damage.
    Synced(u64),
}

/// The file while the segment is appended to.
pub(super) struct LengthFile(File);

impl LengthFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        options().truncate(false).open(path).map(Self)
    }

    pub(super) fn write(&self, lengths: Lengths) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.extend(lengths.written.to_le_bytes());
        bytes.extend(lengths.synced.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        self.0.write_all_at(&bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_is_told_from_what_was_not() {
        let lengths = Lengths {
            written: 300,
            synced: 200,
        };
        assert_eq!(lengths.missing(199), Some(Missing::Synced(1)));
        assert_eq!(lengths.missing(200), Some(Missing::Unsynced(100)));
        assert_eq!(lengths.missing(300), None);
        // The file is ahead of what is kept of it.
        assert_eq!(lengths.missing(400), None);
        assert_eq!(Lengths::default().missing(0), None);
    }

    #[test]
    fn lengths_are_read_back_and_damage_is_no_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.length");
        assert_eq!(Lengths::read(&path), Lengths::default());
        let lengths = Lengths {
            written: 300,
            synced: 200,
        };
        lengths.write(&path).unwrap();
        assert_eq!(Lengths::read(&path), lengths);
        let sound = fs::read(&path).unwrap();
        assert_eq!(sound.len(), SIZE);
        for bit in 0..SIZE * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &damaged).unwrap();
            assert_eq!(Lengths::read(&path), Lengths::default(), "bit {bit}");
        }
    }
}
